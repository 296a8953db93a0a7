"""Exporters: from a view of a knowledge base to a file format.

One signature for the family:

    export(view, target) -> None

Laws, tested for every member by `kbforge.testing.exporter`:

1. Every entity is written once, in the order of the view. The view is read once.
2. Same view, same bytes.
3. Values are data: whatever they contain is escaped for the format.
4. Memory is bounded by one entity, whatever their number.
5. The target appears when it is whole. A failure leaves what was there before.

`kbforge.files.io.open_output` gives a stream that keeps law 5 and knows standard output;
`kbforge.files.io.open_folder` does it for a format of several files.

Most formats are streaming: they write while they read. One whose first byte needs the last entity
(a header of all attributes) is not, and keeps law 4 by letting the entities wait in a temporary
file.
"""

from __future__ import annotations

from typing import ClassVar, Protocol

from kbforge.contracts.view import View


class Exporter(Protocol):
    """A writer of one format. Its options are its constructor's parameters.

    Attributes:
        endings: of files in this format, such as ".csv": `kbforge export -o out.csv` takes the
            exporter that states the ending. Leave out one that another format has first.

    """

    endings: ClassVar[tuple[str, ...]] = ()

    def export(self, view: View, target: str) -> None:
        """Write what the view shows.

        Args:
            view: the knowledge base.
            target: path of a file, or of a folder where the format has several files; "-" is
                standard output.

        Raises:
            OutputError: the target cannot be written.
            UsageError: "-", and the format has several files.

        """
        ...

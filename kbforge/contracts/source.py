"""Sources: from files to fragments.

One signature for the family:

    read(inputs, on_bad) -> iterator of Fragment

Laws, tested for every member by `kbforge.testing.SourceContract`:

1. *Streaming*: memory does not grow with the input.
2. *Deterministic*: the same files give the same fragments in the same order.
3. *Nothing silently lost*: every record becomes fragments, is filtered by a documented rule, or is
   handed to `on_bad`, which raises (stop) or returns (set aside; the source goes on).
4. Every fragment satisfies the laws of `Fragment`, which its checked constructor enforces.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import ClassVar, TypeAlias

from kbforge.contracts.fragment import Fragment
from kbforge.errors import BadRecord

OnBad: TypeAlias = Callable[[BadRecord, bytes], None]
"""Called with the error and the offending raw record; raises it, or sets it aside and returns."""


class Source(ABC):
    """A reader of one format. Its options are its constructor's parameters.

    Attributes:
        where: `file:line` of the last fragment, so that a repeated id can be placed; "" if the
            source does not say.
        counts: how many records each documented rule filtered or repaired, by the rule's name.
        taken: a sentence for each input, read to its end, on what it was taken for: its delimiter,
            encoding, rows and columns.
        endings: of files that it reads, such as ".csv": `kbforge load people.csv` takes the source
            that states the ending.

    """

    endings: ClassVar[tuple[str, ...]] = ()

    where: str = ""
    counts: Mapping[str, int] = MappingProxyType({})
    taken: Sequence[str] = ()

    @abstractmethod
    def read(self, inputs: Sequence[str], on_bad: OnBad) -> Iterator[Fragment]:
        """Yield the fragments of the inputs (paths, or "-" for standard input).

        Raises:
            KBForgeError: an input that cannot be opened or is not of this format at all.
            BadRecord: a bad record, if `on_bad` raises it.

        """

"""The hf source: streams Hugging Face data sets through `datasets`.

An input is the name of a data set on the hub (`owner/name`), or a local file that `datasets` can
read: json, jsonl, csv, parquet or arrow. `datasets` parses blocks of a file and returns no rows of
a block with an error, so a file that it cannot parse is an error and never quarantined; the
`jsonl`, `csv` and `parquet` sources set aside individual lines. Data sets that need their own
program are refused by `datasets` itself.
"""

from __future__ import annotations

import contextlib
import logging
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from kbforge.contracts import Fragment, OnBad
from kbforge.errors import KBForgeError, quoted
from kbforge.files.fragments import read_json_lines, stop
from kbforge.files.io import open_input
from kbforge_plugins.sources.rows import RowReader, TableName, TableSource, cause_of

_BUILDERS = {
    ".json": "json",
    ".jsonl": "json",
    ".csv": "csv",
    ".tsv": "csv",
    ".parquet": "parquet",
    ".arrow": "arrow",
}


@dataclass(eq=False)
class HuggingFaceSource(TableSource):
    """Any data set that `datasets` streams.

    Args:
        split: the split to read.
        config: the data set's configuration, if it has several.
        revision: branch, tag or commit on the hub.

    """

    endings: ClassVar = (".arrow",)

    split: str = "train"
    config: str | None = None
    revision: str | None = None

    def read_table(self, path: str, table: TableName, on_bad: OnBad) -> Iterator[Fragment]:
        reader: RowReader | None = None
        for number, row in enumerate(self._rows(path), 1):
            where = f"{path}:{number}"
            # columns come with the rows, because a stream of JSON knows no others
            if reader is None or reader.columns != tuple(row):
                reader = self.reader(list(row), where, table)
            yield from self.read_row(reader, list(row.values()), number, where, on_bad)

    def _rows(self, name: str) -> Iterator[Mapping[str, object]]:
        number = 0
        try:
            with _silent_log():
                rows = iter(self._open(name))
            while True:
                with _silent_log():  # not around the yield: a reader that is left ends any time
                    row = next(rows, None)
                if row is None:
                    return
                number += 1
                yield row
        except KBForgeError:
            raise
        # datasets lets errors of a dozen libraries through, all of them about its input
        except Exception as error:
            if name.endswith(".jsonl"):  # datasets does not say in which line it failed
                deque(read_json_lines(name, stop), maxlen=0)
            cause = cause_of(error, 200)
            got = "none" if cause.startswith("StopIteration") else cause
            raise KBForgeError(
                f"{quoted(name, 400)}:{number + 1}: expected rows that datasets can read, got {got}"
            ) from error

    def _open(self, name: str) -> Any:
        import datasets

        if name == "-":
            raise KBForgeError(
                "the hf source reads files and data sets of the hub, not standard input; "
                "use the jsonl, csv or parquet source"
            )
        path = Path(name)
        suffix = next((s for s in reversed(path.suffixes) if s not in (".gz", ".zst")), "")
        builder = _BUILDERS.get(suffix)
        if builder is not None:
            with open_input(name):  # says why a file cannot be opened better than datasets does
                pass
            options = {"sep": "\t"} if path.suffix == ".tsv" else {}
            return datasets.load_dataset(
                builder, data_files={self.split: name}, split=self.split, streaming=True, **options
            )
        if path.exists() or name.startswith(("/", ".")):
            expected = f"a file that ends in one of {', '.join(_BUILDERS)}"
            raise KBForgeError(f"cannot read {quoted(name, 400)}: expected {expected}")
        return datasets.load_dataset(
            name, self.config, split=self.split, revision=self.revision, streaming=True
        )


@contextlib.contextmanager
def _silent_log() -> Iterator[None]:
    """Silence the log of `datasets`, which repeats an error that it raises."""
    import datasets

    level = datasets.logging.get_verbosity()
    datasets.logging.set_verbosity(logging.CRITICAL)
    try:
        yield
    finally:
        datasets.logging.set_verbosity(level)

"""The quarantine: bad records set aside, one JSON object `where, reason, raw` a line."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

import orjson

from kbforge.contracts.source import OnBad
from kbforge.errors import BadRecord
from kbforge.files.io import open_output
from kbforge.files.jsonl import stop

_KEYS = {"where", "reason", "raw"}
_LONGEST = 1 << 28


class Quarantine:
    """An `on_bad` that sets records aside."""

    def __init__(self, out: BinaryIO) -> None:
        self._out = out
        self.records = 0

    def __call__(self, error: BadRecord, raw: bytes) -> None:
        """Write one record; bytes that are not UTF-8 are shown as `\\xff`."""
        text = raw.decode(errors="backslashreplace")
        record = {"where": error.where, "reason": str(error), "raw": text}
        self._out.write(orjson.dumps(record, option=orjson.OPT_APPEND_NEWLINE))
        self.records += 1


@contextlib.contextmanager
def open_quarantine(path: str | None) -> Iterator[OnBad]:
    """What to do with bad records: a `Quarantine`, or without a path the end of the run.

    If nothing was set aside there is no file at the end, be it one of an earlier run.

    Raises:
        OutputError: the file cannot be written.

    """
    if path is None:
        yield stop
        return
    with open_output(path) as out:
        aside = Quarantine(out)
        yield aside
    if not aside.records and Path(path).is_file():
        Path(path).unlink()


def remove_quarantine(path: str) -> None:
    """Remove what an earlier run set aside, if that is what the file holds."""
    with contextlib.suppress(OSError, orjson.JSONDecodeError), open(path, "rb") as file:
        record = orjson.loads(file.readline(_LONGEST))
        if isinstance(record, dict) and record.keys() == _KEYS:
            Path(path).unlink()

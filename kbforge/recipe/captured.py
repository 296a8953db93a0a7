"""What a step prints: passed on, and kept, so that a skipped step can repeat it."""

from __future__ import annotations

import contextlib
import io
import sys
from collections.abc import Iterator
from typing import Any, BinaryIO, cast

from kbforge.files.io import bytes_of

_MAX_PRINTED = 1 << 18  # bytes of a step's standard output that are kept to be repeated


class Tee(io.RawIOBase):
    """A binary stream that passes everything on and keeps a copy of the first part."""

    def __init__(self, target: Any) -> None:
        self._target = target
        self._kept: list[bytes] = []
        self._size = 0

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        copy = bytes(data)
        self._target.write(copy)
        self._target.flush()
        self._size += len(copy)
        if self._size <= _MAX_PRINTED:
            self._kept.append(copy)
        return len(copy)

    def text(self) -> str | None:
        """All that was written; None if it was too much to keep."""
        if self._size > _MAX_PRINTED:
            return None
        return b"".join(self._kept).decode("utf-8", "replace")


@contextlib.contextmanager
def captured(to_stderr: bool) -> Iterator[Tee]:
    """Standard output, copied: a skipped step repeats what it printed.

    The copy is no terminal, so tables come without colours, the same on every terminal.
    """
    sys.stdout.flush()
    tee = Tee(bytes_of(sys.stderr if to_stderr else sys.stdout))
    wrapper = io.TextIOWrapper(cast(BinaryIO, tee), encoding="utf-8", write_through=True)
    try:
        with contextlib.redirect_stdout(wrapper):
            yield tee
    finally:
        with contextlib.suppress(BrokenPipeError):
            wrapper.detach()

"""A result that took long: written where it should go, or else where there is room.

A disk that is full, or a folder that went away, must not cost what was computed. The result then
goes to a new file elsewhere. If there is no such place and somebody sits at the terminal, the
program waits for him.
"""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from kbforge.cli import console
from kbforge.errors import OutputError, quoted


class SavedElsewhere(OutputError):
    """The result is not where it should be; says where it is."""


def save(write: Callable[[str], None], target: str) -> None:
    """Write a result.

    Args:
        write: writes it to the file that it is given; may be called several times.
        target: where it should go.

    Raises:
        SavedElsewhere: it is in another place now.
        OutputError: it cannot be written anywhere.

    """
    while True:
        try:
            write(target)
            return
        except OutputError as error:
            for place in _elsewhere(target):
                try:
                    write(place)
                except OutputError:
                    continue
                raise SavedElsewhere(
                    f"{error}; the result is in {quoted(place, 400)} instead"
                ) from error
            if not _somebody_there():
                raise
            console.note(f"{error}, nor anywhere else; make room and press Enter, or Ctrl-C")
            if not sys.stdin.readline():
                raise


def _elsewhere(target: str) -> Iterator[str]:
    """Names of new files in the current folder and in the one for temporary files."""
    name = "kb.jsonl" if target == "-" else Path(target).name
    plain = name.removesuffix(".gz")
    folders = [os.getcwd()]
    with contextlib.suppress(FileNotFoundError):  # it tries to write there
        folders.append(tempfile.gettempdir())
    for folder in dict.fromkeys(folders):
        free = (f"rescued-{n}-{plain}{name[len(plain) :]}" for n in range(1, 1000))
        for candidate in free:
            if not os.path.lexists(Path(folder) / candidate):
                yield str(Path(folder) / candidate)
                break


def _somebody_there() -> bool:
    return sys.stdin.isatty() and sys.stderr.isatty()

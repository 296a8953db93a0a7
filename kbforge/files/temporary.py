"""What is not whole yet: hidden files and folders that their process holds by a lock.

A run that is killed leaves such a file behind. Its lock is gone with the process, so the next run
that writes to the folder knows that it is dead, and removes it. What another process still holds
is left alone, and so is everything on a file system without locks.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from kbforge.files.locks import hold

PREFIX = ".kbforge-"
_SUFFIX = ".part"
_OPEN = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
"""Links are not followed, and pipes to which nobody writes are not waited for."""


@contextlib.contextmanager
def temporary_file(folder: Path) -> Iterator[tuple[Path, BinaryIO]]:
    """A new file, open for writing, that is gone at the end unless it was given another name.

    Raises:
        OSError: it cannot be made.

    """
    while True:
        handle, name = tempfile.mkstemp(_SUFFIX, PREFIX, folder)
        path = Path(name)
        try:
            with os.fdopen(handle, "wb") as raw:
                if not _held(path, raw.fileno()):
                    continue
                yield path, raw
                return
        finally:
            path.unlink(missing_ok=True)


@contextlib.contextmanager
def temporary_folder(folder: Path) -> Iterator[Path]:
    """A new folder that is gone at the end unless it was given another name.

    Raises:
        OSError: it cannot be made.

    """
    while True:
        path = Path(tempfile.mkdtemp(_SUFFIX, PREFIX, folder))
        handle = os.open(path, _OPEN)
        try:
            if not _held(path, handle):
                continue
            yield path
            return
        finally:
            os.close(handle)
            shutil.rmtree(path, ignore_errors=True)


def sweep(folder: Path) -> None:
    """Remove the files and folders that killed runs left in a folder, and nothing else."""
    with contextlib.suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            if entry.name.startswith(PREFIX) and entry.name.endswith(_SUFFIX):
                _remove_if_dead(Path(entry.path))


def _remove_if_dead(path: Path) -> None:
    # another user's, or gone by now: it is not ours to remove
    with contextlib.suppress(OSError):
        handle = os.open(path, _OPEN)
        try:
            kind = os.fstat(handle)
            if not (stat.S_ISREG(kind.st_mode) or stat.S_ISDIR(kind.st_mode)) or not hold(handle):
                return
            # by now the name may be another one's
            if not os.path.samestat(kind, path.lstat()):
                return
            if stat.S_ISDIR(kind.st_mode):
                shutil.rmtree(path, ignore_errors=True)
            else:
                path.unlink(missing_ok=True)
        finally:
            os.close(handle)


def _held(path: Path, handle: int) -> bool:
    """Whether it is ours: false if another run took it for dead before it was locked."""
    try:
        if not hold(handle):
            return False
    except OSError:  # without locks there is nobody who removes it
        return True
    return path.exists() and os.path.samestat(path.stat(), os.fstat(handle))

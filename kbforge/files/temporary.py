"""Locks between processes, and temporary files and folders that their process locks.

A run that is killed leaves its hidden temporary files behind. Their locks are gone with the
process, so the next run that writes to the folder removes them. Files that another process still
locks are left alone, and so is everything on a file system without locks.
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


@contextlib.contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold a file, which is made; a killed process holds nothing.

    On a system without such locks nothing is held and no file is made.

    Raises:
        BlockingIOError: another process holds it.
        OSError: it cannot be written, or its file system has no locks.

    """
    try:
        import fcntl
    except ImportError:
        yield
        return
    with open(path, "wb") as file:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield


def hold(handle: int) -> bool:
    """Hold an open file or folder until it is closed, or its process ends.

    Returns:
        False if another process holds it.

    Raises:
        OSError: this system or its file system has no such locks.

    """
    try:
        import fcntl
    except ImportError:
        raise OSError("no locks on this system") from None
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True

"""Locks between processes: a file is held by one of them at a time."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path


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

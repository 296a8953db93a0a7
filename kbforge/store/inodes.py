"""Files that this process has open as databases, and the lock of their one writer.

The lock is on a byte of the database itself, far behind those that SQLite locks, and belongs to an
open file (`F_OFD_SETLK`). So it goes by the file and not by its name: links to a store are one
store, no file beside it can be removed to get around the lock, and a killed process holds nothing.
Systems other than Linux lack such locks; there the lock is on the file `NAME-lock`.

POSIX drops all locks that a process has on a file as soon as the process closes any descriptor of
it, those of SQLite too. So nothing here closes a descriptor of a database while this process has
a connection to it.
"""

from __future__ import annotations

import os
import stat
import struct
from collections import Counter
from pathlib import Path
from typing import TypeAlias

from kbforge.files.locks import hold

Inode: TypeAlias = tuple[int, int]
"""A device, and a file on it."""
_BYTE = 1 << 62  # SQLite locks bytes from 1 << 30 on
_KINDS = {
    stat.S_IFDIR: "a folder",
    stat.S_IFIFO: "a pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}

_connections: Counter[Inode] = Counter()
_to_close: dict[Inode, list[int]] = {}


def inode_of(status: os.stat_result) -> Inode:
    """What file it is, whatever its name."""
    return status.st_dev, status.st_ino


def kind_of(status: os.stat_result) -> str | None:
    """What a file is that is not a regular one; None for a regular one."""
    if stat.S_ISREG(status.st_mode):
        return None
    return _KINDS.get(stat.S_IFMT(status.st_mode), "no file")


def is_connected(inode: Inode) -> bool:
    """Whether this process has a connection to a file."""
    return _connections[inode] > 0


def connect(inode: Inode) -> None:
    """Note that this process has one more connection to a file."""
    _connections[inode] += 1


def disconnect(inode: Inode) -> None:
    """Note that a connection was closed; close what waited for the last one."""
    _connections[inode] -= 1
    if not _connections[inode]:
        del _connections[inode]
        for handle in _to_close.pop(inode, ()):
            os.close(handle)


def lock(handle: int, path: Path) -> int | None:
    """Become the one writer of a file, until `unlock`.

    Args:
        handle: of the database, open to be written.
        path: of the database, links resolved.

    Returns:
        what to give to `unlock`; None if another has the lock.

    Raises:
        OSError: the file system has no locks, or `NAME-lock` cannot be written.

    """
    try:
        from fcntl import F_OFD_SETLK, F_WRLCK, fcntl
    except ImportError:
        beside = os.open(f"{path}-lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        try:
            held = os.name == "nt" or hold(beside)
        except OSError:
            os.close(beside)
            raise
        if not held:
            os.close(beside)
        return beside if held else None
    try:
        fcntl(handle, F_OFD_SETLK, struct.pack("hhqqi4x", F_WRLCK, os.SEEK_SET, _BYTE, 1, 0))
    except (BlockingIOError, PermissionError):
        return None
    return handle


def unlock(handle: int, inode: Inode, held: int | None) -> None:
    """Let others write; the descriptor is closed when this process has no connection left.

    Args:
        handle: of the database.
        inode: of the database.
        held: what `lock` returned.

    """
    if held is not None and held != handle:
        os.close(held)
    elif held is not None:
        from fcntl import F_OFD_SETLK, F_UNLCK, fcntl

        fcntl(handle, F_OFD_SETLK, struct.pack("hhqqi4x", F_UNLCK, os.SEEK_SET, _BYTE, 1, 0))
    if is_connected(inode):
        _to_close.setdefault(inode, []).append(handle)
    else:
        os.close(handle)

"""The SQLite file of a store: opens, writes in transactions, and checks it.

SQLite keeps a write-ahead log beside the file, so readers and the writer never wait for each other.
There is one writer at a time, and each transaction checks that no other program wrote since the
last. Only a regular file with exactly the tables of its version can be opened. A small file is read
completely, so a flipped bit is found before any answer; the rows of a large file are verified when
they are read, and `kbforge check` examines all of it.

Closing a store empties its log, so a copy of the file alone is complete. The writer empties it or,
if another program still reads an older state, the last one to close. While a writer is active, or
after it was killed, a mark in the file says that its log has more (`MARK`): the mark is written
before the first transaction enters the log, and removed when all are in the file. It is written
later only if another program then reads the old state.

The writer locks a byte of the database far beyond those that SQLite locks (`F_OFD_SETLK`). The lock
belongs to the open file, not to its name: links to a store are one store, removing a file does not
bypass the lock, and a killed process holds no lock. Systems other than Linux lack such locks; there
the file `NAME-lock` is locked.

Another file can replace an open store under its name. A process that detects this (`replaced`)
closes its connection and prevents the new file from being read with the old log (`leave`). Until
then this process does not open the new file. A file copied over a store is also detected, if the
log was empty: the content differs without a transaction.

When a process closes any descriptor of a file, POSIX drops all its locks on that file, including
SQLite's. So this module never closes a descriptor while the process has a connection to the
database.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
import stat
import struct
import threading
import time
import weakref
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Self, TypeAlias
from urllib.parse import quote

from kbforge.errors import BusyError, OutputError, StoreError, quoted
from kbforge.files.io import hold, reason_of, sweep
from kbforge.files.kinds import what_is
from kbforge.store.damage import References, refuse_damage, unsound, whole_rows
from kbforge.store.tables import (
    COLUMNS,
    VERSION,
    StoreConnection,
    ask,
    migrate,
    version_of,
    write_rows,
)

SMALL = 16_000_000
"""Maximum size of a file that is examined when it is opened, in bytes; 100 MB take a second."""
_MAGIC = b"SQLite format 3\0"
_PATIENCE = 30.0  # seconds that a reader or writer waits for a lock of SQLite's own
_TURN = 3.0  # seconds to wait for another writer: a server lets go of the lock time and again
_AGAIN = 0.005  # seconds between two tries
_SETTLING = 0.2  # seconds that a writer waits at its end for those who read an older state
_STEP = 2_000  # pages that are copied before an interrupt is noticed
_LOGGED = 1 << 14
"""Pages of the log (64 MB) after which it is copied into the file: pages that several transactions
write are copied once."""
_CACHED = 1 << 16
"""KiB of pages that a writer holds: keys are spread over the tables, and pages that do not fit are
written several times per transaction."""
_FLAGS = os.O_RDWR | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0)
_FULL = ("database or disk is full", "disk i/o error", "no space")

_WHOLE = "BEGIN IMMEDIATE", "COMMIT", "ROLLBACK"  # of a transaction
_PART = "SAVEPOINT part", "RELEASE part", "ROLLBACK TO part"  # of one in a rehearsal

MODE = 0o600
"""The mode of a new store, minus the umask; files beside a store have the store's mode."""
MARK = "log"
"""The fact that transactions may be only in the log: the number of the last run before them."""

SEARCH = "-search"
"""The suffix of a store's search index, which `kbforge serve` derives from it."""

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
_logs: dict[Inode, tuple[Path, Inode | None]] = {}
"""For each file open in this process, the path of its log, and the file there."""
_overwritten: set[Inode] = set()
"""Replaced files; they are opened again after the last connection is closed."""
_to_close: dict[Inode, list[int]] = {}
_counting = threading.RLock()  # of threads with connections of their own, and of the collector


def _inode_of(status: os.stat_result) -> Inode:
    return status.st_dev, status.st_ino


def _other_kind(status: os.stat_result) -> str | None:
    """The kind of a file that is not a regular one; None for a regular one."""
    if stat.S_ISREG(status.st_mode):
        return None
    return _KINDS.get(stat.S_IFMT(status.st_mode), "no file")


def _disconnect(inode: Inode) -> None:
    """Record a closed connection; close the descriptors that waited for the last one."""
    with _counting:
        _connections[inode] -= 1
        if not _connections[inode]:
            del _connections[inode]
            _logs.pop(inode, None)
            _overwritten.discard(inode)
            for handle in _to_close.pop(inode, ()):
                os.close(handle)


def _close(handle: int, inode: Inode) -> None:
    """Close a descriptor of a file, once this process has no connection to it."""
    with _counting:
        if _connections[inode]:
            _to_close.setdefault(inode, []).append(handle)
        else:
            os.close(handle)


def lock(handle: int, path: Path) -> int | None:
    """Become the only writer; returns the descriptor that holds the lock, None if another has it.

    Raises OSError if the file system has no locks, or `NAME-lock` cannot be written.
    """
    try:
        from fcntl import F_OFD_SETLK, F_WRLCK, fcntl
    except ImportError:
        flags = os.O_RDWR | os.O_CREAT | getattr(os, "O_CLOEXEC", 0)
        beside = os.open(f"{path}-lock", flags, stat.S_IMODE(os.fstat(handle).st_mode))
        held = False
        try:
            held = hold(beside)
        finally:
            if not held:
                os.close(beside)
        return beside if held else None
    try:
        fcntl(handle, F_OFD_SETLK, struct.pack("hhqqi4x", F_WRLCK, os.SEEK_SET, _BYTE, 1, 0))
    except (BlockingIOError, PermissionError):
        return None
    return handle


class _WriterLock:
    """The lock of the only writer, on a file that is created if it does not exist.

    Raises OSError if the file cannot be opened for writing.
    """

    def __init__(self, path: Path, make: bool = True) -> None:
        self._path = path
        self.made = False  # so that it may be removed here, too
        with contextlib.suppress(FileExistsError):
            if make:
                self._handle = os.open(path, _FLAGS | os.O_CREAT | os.O_EXCL, MODE)
                self.made = True
        if not self.made:
            self._handle = os.open(path, _FLAGS)
        self.status = os.fstat(self._handle)
        self.inode = _inode_of(self.status)
        self._held: int | None = None

    @property
    def held(self) -> bool:
        """Whether this is the only writer."""
        return self._held is not None

    def take(self, patience: float | None = None) -> bool:
        """Become the only writer, after a short wait if needed, if the name leads to this file."""
        until = time.monotonic() + (_TURN if patience is None else patience)
        while not self.held and _other_kind(self.status) is None:
            if _inode_of(self._path.stat()) != self.inode:
                break
            self._held = lock(self._handle, self._path)
            if self.held or time.monotonic() > until:
                break
            time.sleep(_AGAIN)
        return self.held

    def let_go(self) -> None:
        """Allow other writers."""
        held, self._held = self._held, None
        if held is not None and held != self._handle:
            os.close(held)
        elif held is not None:
            from fcntl import F_OFD_SETLK, F_UNLCK, fcntl

            no_lock = struct.pack("hhqqi4x", F_UNLCK, os.SEEK_SET, _BYTE, 1, 0)
            fcntl(self._handle, F_OFD_SETLK, no_lock)

    def close(self) -> None:
        """Allow other writers; the file is closed when this process has no connection left."""
        self.let_go()
        _close(self._handle, self.inode)


def connected(
    path: str, how: str = "mode=rw", one_thread: bool = True, patience: float | None = None
) -> StoreConnection:
    """A connection to an existing file, whatever its name; `how` is the mode in SQLite's URIs.

    Without `one_thread` other threads may use it; `patience` is the number of seconds to wait for a
    lock.
    """
    return sqlite3.connect(
        f"file:{quote(os.fsencode(os.path.realpath(path)))}?{how}",
        uri=True,
        timeout=_PATIENCE if patience is None else patience,
        isolation_level=None,
        check_same_thread=one_thread,
        factory=StoreConnection,
    )


def _inode_at(path: Path) -> Inode | None:
    """The file that a name leads to; None if there is none."""
    try:
        return _inode_of(path.stat())
    except OSError:
        return None


def log_of(path: str) -> Path:
    """The log to which SQLite writes before it writes to a store's file."""
    return Path(f"{os.path.realpath(path)}-wal")


def _has_log(path: str) -> bool:
    """Whether a store has a log that is not empty."""
    try:
        return log_of(path).stat().st_size > 0
    except OSError:
        return False


def _close_reader(connection: sqlite3.Connection, path: str, inode: Inode) -> None:
    """Close a reading connection; the last one to a store without a writer removes its log.

    SQLite does so if the last connection may write. A store whose mark says that its log has more
    is left alone: a writer is active, or was killed.
    """
    with contextlib.suppress(sqlite3.Error, OSError):
        empties = os.access(log_of(path), os.W_OK) and os.access(path, os.W_OK)
        empties = empties and _mark_of(connection) is None and _inode_of(os.stat(path)) == inode
        connection.close()
        if empties:
            last = connected(path)
            last.execute("SELECT count(*) FROM sqlite_master").fetchone()
            last.close()


def _mark_of(connection: sqlite3.Connection) -> bytes | None:
    """What a store's mark says of its log; None if it has no readable mark."""
    try:
        row = connection.execute("SELECT value FROM meta WHERE name = ?", (MARK,)).fetchone()
    except sqlite3.DatabaseError:
        return None
    return None if row is None else bytes(row[0])


def is_store(path: str) -> bool:
    """Whether a file is a database, by its first bytes; pipes and devices are not read."""
    try:
        status = os.stat(path)
        if not stat.S_ISREG(status.st_mode):
            return False
        with _counting:
            if _connections[_inode_of(status)]:
                return True
            handle = os.open(path, os.O_RDONLY | getattr(os, "O_CLOEXEC", 0))
            try:
                return os.read(handle, len(_MAGIC)) == _MAGIC
            finally:
                _close(handle, _inode_of(os.fstat(handle)))
    except (OSError, ValueError):  # a name with a null character
        return False


def remove_index(path: str) -> None:
    """Remove the search index beside a store, which contains words of its fragments.

    Raises OSError if it cannot be removed.
    """
    for ending in ("", "-wal", "-shm", "-journal"):
        Path(f"{os.path.realpath(path)}{SEARCH}{ending}").unlink(missing_ok=True)


class Database:
    """One connection, which writes or reads; `verify` first reads a small file completely.

    Without `one_thread` several threads may use a reader, one at a time.

    Raises:
        StoreError: it cannot be read, is not a store, is damaged, or has a later version.
        OutputError: it cannot be written, or another program is writing to it.

    """

    def __init__(
        self, path: str, write: bool = False, verify: bool = True, one_thread: bool = True
    ) -> None:
        self.path, self._write, self._one_thread = path, write, one_thread
        self.version: int | None = None
        self._seen = 0
        self._marked = False  # whether the store says that its log has more
        self._told = False  # whether the file alone says so
        self.rehearsing = False  # whether all transactions will be undone
        self._settles = write  # until it is closed
        self._rested: tuple[int, int, int] | None = None  # see `rest`
        self._held = contextlib.ExitStack()
        try:
            if write:
                self._hold()
            with self._in_words():
                self._connect()
                if self.version is not None and self.version < VERSION:
                    self._bring_up_to_date()
                if self.version is not None and verify:
                    if self.size <= SMALL:
                        refuse_damage(self.path, self.examined()[1])
                    elif not write:
                        self.connection.unexamined = frozenset(COLUMNS)
                if self.version is None and not write:
                    empty = f"{quoted(self.path, 400)} is empty"
                    raise StoreError(f"{empty}: kbforge cluster --into fills a store")
        except BaseException:
            self._held.close()
            raise

    def _hold(self) -> None:
        """Open the file, which is created if it does not exist, and become its only writer."""
        where = f"cannot write {quoted(self.path, 400)}"
        path = Path(os.path.realpath(self.path))
        if not path.parent.is_dir():
            raise OutputError(f"{where}: no such folder")
        try:
            if path.exists() and (other := _other_kind(path.stat())) is not None:
                raise OutputError(f"{where}: expected a store or a new file, got {other}")
            self._lock = writer = _WriterLock(path)
            self._held.callback(weakref.finalize(self, writer.close))
            if writer.take() and writer.made:
                self._held.callback(self._remove_empty, path, writer.inode)
        except OSError as error:
            raise OutputError(f"{where}: {reason_of(error)}") from error
        self._require_lock()
        sweep(path.parent)
        if writer.status.st_size and not is_store(self.path):
            raise OutputError(f"{where}: expected a store or a new file, got {what_is(self.path)}")

    def _require_lock(self) -> None:
        if not self._lock.held:
            raise BusyError(
                f"cannot write {quoted(self.path, 400)}: another kbforge command is writing to it; "
                "try again when it has ended"
            )

    def let_go(self) -> None:
        """Allow other writers until `take`; the data read so far stay."""
        self.rest()
        self._lock.let_go()

    def rest(self) -> None:
        """Record the file's state while this connection is idle, for `replaced`."""
        self._rested = None
        with contextlib.suppress(OSError, sqlite3.Error):
            version = self._data_version()
            status = os.stat(self.path)
            if not _has_log(self.path):
                self._rested = version, status.st_mtime_ns, status.st_size

    @property
    def replaced(self) -> bool:
        """Whether another file has the name now, or its content was copied over this one.

        A copy is detected if the log was empty before; during copying, the file looks damaged.
        Raises StoreError (a writer OutputError) if there is no such file.
        """
        try:
            status = os.stat(self.path)
        except OSError:
            raise self._fault("the file was removed") from None
        if _inode_of(status) != self.inode:
            return True
        if self._rested is not None and self._rested[1:] != (status.st_mtime_ns, status.st_size):
            with self._in_words():
                version = self._data_version()
            if version == self._rested[0]:  # nobody has written it as a database is written
                _overwritten.add(self.inode)
        return self.inode in _overwritten

    def leave(self) -> None:
        """Close after another file took the name; no program reads it with the old log.

        Data that only the log has go into the file that was opened, wherever it is now.

        Raises:
            BusyError: the log has more, or another program writes the new file.
            OutputError: the log cannot be removed.

        """
        log = log_of(self.path)
        try:
            if self._write and _inode_at(Path(self.path)) != self.inode:
                with contextlib.suppress(OutputError):
                    if self._data_version() == self._seen:
                        self.settle()
            if self._log is not None and _inode_at(log) == self._log:
                with self._unwritten() as unwritten:
                    # another thread may have removed it, and begun a log of the new file
                    theirs = _inode_at(log) != self._log
                    if not theirs and (not unwritten or _has_log(self.path)):
                        raise self._just_replaced()
                    if not theirs:
                        Path(f"{str(log).removesuffix('-wal')}-shm").unlink(missing_ok=True)
                        log.unlink(missing_ok=True)
        except (OSError, sqlite3.Error) as error:
            raise OutputError(f"cannot reopen {quoted(self.path, 400)}: {error}") from error
        self._settles = False
        self.close()

    def _just_replaced(self) -> BusyError:
        return BusyError(f"{quoted(self.path, 400)} was replaced a moment ago; try again")

    @contextlib.contextmanager
    def _unwritten(self) -> Iterator[bool]:
        """Whether no other program writes the file that has the name now, or begins to within this
        block."""
        try:
            lock = _WriterLock(Path(os.path.realpath(self.path)), make=False)
        except PermissionError:  # nobody can
            yield True
            return
        with contextlib.closing(lock):
            yield lock.take(patience=0.0)

    def take(self) -> bool:
        """Become the only writer again; returns whether no other program wrote in between.

        Raises:
            BusyError: another is writing.
            OutputError: the file was removed, or another has its name.

        """
        with contextlib.suppress(OSError):
            self._lock.take()
        if self.replaced:
            self._lock.let_go()
            raise OutputError(f"cannot write {quoted(self.path, 400)}: the file was replaced")
        self._require_lock()
        with self._in_words():
            seen = self._data_version()
        unchanged, self._seen = seen == self._seen, seen
        return unchanged

    def _require_store(self) -> None:
        where = quoted(self.path, 400)
        try:
            status = os.stat(self.path)
        except (OSError, ValueError) as error:
            reason = (getattr(error, "strerror", None) or "no such file").lower()
            raise StoreError(f"cannot read {where}: {reason}") from None
        if (other := _other_kind(status)) is not None or (
            status.st_size and not is_store(self.path) and os.access(self.path, os.R_OK)
        ):
            raise StoreError(
                f"{where}: expected a store of kbforge cluster --into, got "
                f"{other or what_is(self.path)}"
            )

    def _opened(self) -> StoreConnection:
        if self._write:
            return connected(self.path)
        made = connected(self.path, "mode=ro", self._one_thread)
        try:
            made.execute("SELECT count(*) FROM sqlite_master").fetchone()
        except sqlite3.OperationalError:
            made.close()
            if _has_log(self.path):
                raise
            # a folder that cannot be written has no room for a log, and so there is none
            made = connected(self.path, "immutable=1", self._one_thread)
        return made

    def _connect(self) -> None:
        log = log_of(self.path)
        self.inode = inode = _inode_at(Path(self.path)) or (0, 0)
        now = _inode_at(log)
        with _counting:
            others = {kept for of, kept in _logs.items() if of != inode}
            if inode in _overwritten or (now is not None and (log, now) in others):
                raise self._just_replaced()
            if not self._write:
                self._require_store()
            # from now on other threads leave their descriptors of the file open
            _connections[inode] += 1
        self._held.callback(weakref.finalize(self, _disconnect, inode))
        connection = self._opened()
        if _inode_at(Path(self.path)) != inode:
            connection.close()
            raise self._just_replaced()
        if self._write:
            self._held.callback(connection.close)
        else:  # many readers are never closed, and end with the program
            self._held.callback(weakref.finalize(self, _close_reader, connection, self.path, inode))
        self.connection = connection
        connection.execute("PRAGMA trusted_schema = OFF")
        connection.execute("PRAGMA cell_size_check = ON")
        with self.snapshot():
            self.version = version_of(connection, self.path)
            if self.version == VERSION:
                self._marked = _mark_of(connection) is not None
        if self._write:
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("PRAGMA synchronous = FULL")
            connection.execute(f"PRAGMA wal_autocheckpoint = {_LOGGED}")
            connection.execute("PRAGMA secure_delete = FAST")
            connection.execute(f"PRAGMA cache_size = -{_CACHED}")
        self._seen = self._data_version()
        with _counting:
            self._log = _logs.setdefault(inode, (log, _inode_at(log)))[1]

    def _bring_up_to_date(self) -> None:
        """Migrate an older store, in one transaction under the lock."""
        if self._write:
            refuse_damage(self.path, list(unsound(self.connection)))
            self.transaction(migrate)
            self.version = VERSION
            return
        self.connection.close()
        try:
            Database(self.path, write=True).close()
        except OutputError as error:
            raise StoreError(
                f"{quoted(self.path, 400)} is a store of version {self.version}, and must be "
                f"updated to version {VERSION} before it is read: {error}"
            ) from None
        self._connect()

    def _data_version(self) -> int:
        found: int = self.connection.execute("PRAGMA data_version").fetchone()[0]
        return found

    def transaction(self, write: Callable[[sqlite3.Connection], None]) -> None:
        """Let `write` change the tables: all its changes are made, or none.

        Raises OutputError if there is no room, the file cannot be written, or another program has
        written to it since the last transaction.
        """
        if self.version == VERSION and not self.rehearsing:
            if not self._marked:
                self._commit(_mark)
                self._marked, self._told = True, False
            # who reads a file whose log was empty keeps it as it is
            self._told = self._told or self._checkpoint("PASSIVE")
        self._commit(write)

    def _commit(self, write: Callable[[sqlite3.Connection], None]) -> None:
        connection = self.connection
        begin, end, undo = _PART if self.rehearsing else _WHOLE
        with self._in_words():
            connection.execute(begin)
            try:
                if self._data_version() != self._seen:
                    raise OutputError(
                        f"cannot write {quoted(self.path, 400)}: another program has written to it "
                        "in the meantime; run the same command again"
                    )
                write(connection)
                connection.execute(end)
            except BaseException:
                with contextlib.suppress(sqlite3.Error):
                    connection.execute(undo)
                raise
            if self.version is None:
                self.version = version_of(connection, self.path)

    @contextlib.contextmanager
    def rehearsal(self) -> Iterator[None]:
        """All transactions in this block are undone at its end; its reads see what they wrote.

        No other connection sees anything of it. Sessions that took part are outdated afterwards.
        """
        with self._in_words():
            self.connection.execute(_WHOLE[0])
        self.rehearsing = True
        try:
            yield
        finally:
            self.rehearsing = False
            if self.connection.in_transaction:  # SQLite ends it after some errors
                self.connection.execute("ROLLBACK")

    @contextlib.contextmanager
    def snapshot(self) -> Iterator[None]:
        """Reads in this block, and in nested blocks, see one state."""
        if self.connection.in_transaction:
            yield
            return
        with self._in_words():
            self.connection.execute("BEGIN")
        try:
            yield
        finally:
            if self.connection.in_transaction:  # SQLite ends it after some errors
                self.connection.execute("ROLLBACK")

    def copy_to(self, file: str, on_copied: Callable[[int], None]) -> None:
        """Copy all pages of one state into an empty file.

        `on_copied` is called with the number copied. Raises OutputError if there is no room.
        """
        with (
            self.snapshot(),
            self._in_words(),
            contextlib.closing(connected(file)) as copy,
        ):
            self.connection.execute("SELECT count(*) FROM sqlite_master").fetchone()  # the moment
            self.connection.backup(
                copy, pages=_STEP, progress=lambda _, left, pages: on_copied(pages - left)
            )

    @contextlib.contextmanager
    def _in_words(self) -> Iterator[None]:
        """Errors of SQLite as sentences."""
        try:
            yield
        except sqlite3.OperationalError as error:
            said = str(error).lower()
            if any(part in said for part in _FULL):
                full = (
                    "the disk is full or failing; committed work is kept: free some space and run "
                    "the same command again"
                )
                raise OutputError(str(self._fault(full))) from error
            raise self._fault(said) from error
        except FileNotFoundError as error:
            raise self._fault("the file was removed") from error
        # a message of SQLite that quotes damage may be no UTF-8
        except (sqlite3.DatabaseError, UnicodeDecodeError) as error:
            said = f"the file is damaged ({str(error).lower()}); restore it from a copy"
            raise self._fault(said) from error

    def _fault(self, said: str) -> OutputError | StoreError:
        kind, doing = (OutputError, "write") if self._write else (StoreError, "read")
        return kind(f"cannot {doing} {quoted(self.path, 400)}: {said}")

    def examined(self) -> tuple[dict[str, int], list[str]]:
        """Read everything; returns the number of intact rows by table, and sentences about
        damage."""
        with self.snapshot():
            damage = list(unsound(self.connection))
            rows: dict[str, int] = {}
            references = References()
            for table in COLUMNS:
                rows[table] = 0
                for found in whole_rows(self.connection, table):
                    if isinstance(found, str):
                        damage.append(found)
                    else:
                        rows[table] += 1
                        references.add(table, found)
            if not damage:
                damage.extend(references.amiss(rows))
            return rows, damage

    def compact(self) -> None:
        """Rewrite the file without deleted data, and empty its log.

        Raises OutputError if there is no room, or another program reads the old state for too long.
        """
        with self._in_words():
            self.connection.execute("VACUUM")
        if not self._checkpoint("TRUNCATE"):
            raise OutputError(
                f"{quoted(self.path, 400)}: deleted data are still in its log, because another "
                "program is reading it; when that has ended, run the same command again"
            )

    def _checkpoint(self, how: str) -> bool:
        """Copy the log into the file; returns whether no other program was in the way."""
        with self._in_words():
            checkpoint = self.connection.execute(f"PRAGMA wal_checkpoint({how})")
            busy, pages, copied = checkpoint.fetchone()
            self._seen = self._data_version()
        return not busy and pages == copied

    def settle(self) -> bool:
        """Move all written data into the file, and empty its log.

        Returns whether this succeeded: it fails while another program reads an older state; the
        last one to close the store then does it. Raises OutputError as `transaction`.
        """
        self.connection.execute(f"PRAGMA busy_timeout = {int(1000 * _SETTLING)}")
        try:
            if self._marked:
                self._checkpoint("PASSIVE")  # most of it, while the file says that there is more
                self._commit(lambda rows: write_rows(rows, "meta", {MARK: None}))
                self._marked = False
            return self._checkpoint("TRUNCATE")
        finally:
            self.connection.execute(f"PRAGMA busy_timeout = {int(1000 * _PATIENCE)}")

    @property
    def size(self) -> int:
        """The bytes of the file; raises StoreError (a writer OutputError)."""
        with self._in_words():
            return os.stat(self.path).st_size

    @property
    def lacking(self) -> str | None:
        """A sentence if data are missing from the file; None if none are known to be missing."""
        with self.snapshot():
            before = _mark_of(self.connection)
            if before is None or _has_log(self.path):
                return None
        name, run = quoted(self.path, 400), quoted(before.decode(errors="replace"))
        return (
            f"{name} may lack data written after run {run}: it was copied without its log "
            f"{name}-wal, or lost that file; kbforge backup copies a store as a whole"
        )

    def close(self) -> None:
        """Close the file; uncommitted changes are lost, and with them a file without tables.

        Committed changes are in the file then, and its log is gone, unless another program reads an
        older state or the disk is full: then they stay in the log, which the last one to close
        removes.
        """
        settles, self._settles = self._settles, False
        with self._held, contextlib.suppress(OutputError):
            if settles and not self._lock.held:
                self.take()
            if settles:
                self.settle()

    def _remove_empty(self, path: Path, made: Inode) -> None:
        """Remove a file without tables that was created here, while no other program can write to
        it."""
        with contextlib.suppress(FileNotFoundError):
            if self.version is None and _inode_of(path.lstat()) == made:
                path.unlink()
                for beside in (f"{path}-wal", f"{path}-shm"):
                    Path(beside).unlink(missing_ok=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


def _mark(rows: sqlite3.Connection) -> None:
    """Mark in the file that its log has more."""
    (last,) = ask(rows, "SELECT coalesce(max(number), 0) FROM run")[0]
    write_rows(rows, "meta", {MARK: (b"%d" % last,)})

"""The file of a store: opened to read or to write, and written in whole transactions.

Readers never wait for a writer, nor it for them: SQLite keeps a write-ahead log beside the file.
There is one writer at a time, which holds the file `NAME-lock`; and each transaction makes sure
that nobody else has written since the one before.
"""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from types import TracebackType
from typing import Self
from urllib.parse import quote

from kbforge.errors import KBForgeError, OutputError, quoted
from kbforge.files.locks import locked
from kbforge.store import schema

MAGIC = b"SQLite format 3\0"
_PATIENCE = 30.0  # seconds that a reader or writer waits for a lock of SQLite's own
_LOGGED = 1 << 14
"""Pages of the log, 64 MB, from which on it is copied into the file: what several transactions
write is copied once."""
_CACHED = 1 << 16
"""KiB of pages that a writer holds: keys are all over the tables, and what does not fit is written
several times in one transaction."""
_FULL = ("database or disk is full", "disk i/o error", "no space")


def is_store(path: str) -> bool:
    """Whether a file is a database, by its first bytes."""
    try:
        with open(path, "rb") as file:
            return file.read(len(MAGIC)) == MAGIC
    except OSError:
        return False


class Database:
    """One connection.

    Args:
        path: of the file.
        write: whether to write; the file is made if it is not there.

    Raises:
        KBForgeError: it cannot be read, or is no store.
        OutputError: it cannot be written, or another program is writing it.
        KBForgeError: it is a store of a later version.

    """

    def __init__(self, path: str, write: bool = False) -> None:
        self.path, self._write = path, write
        self._held = contextlib.ExitStack()
        try:
            if write:
                self._hold()
            with self._told():
                self._connect()
                if self.version is not None and self.version < schema.VERSION:
                    self._bring_up_to_date(self.version)
        except BaseException:
            self._held.close()
            raise
        if self.version is None and not write:
            self._held.close()
            raise KBForgeError(
                f"{quoted(path, 400)} is empty: kbforge cluster --into fills a store"
            )

    def _hold(self) -> None:
        if not Path(self.path).parent.is_dir():
            raise OutputError(f"cannot write {quoted(self.path, 400)}: no such folder")
        path = Path(self.path)
        if path.exists() and not is_store(self.path) and (path.is_dir() or path.stat().st_size):
            raise OutputError(
                f"cannot write {quoted(self.path, 400)}: expected a store or a new file, got "
                f"{'a folder' if path.is_dir() else 'a file of another kind'}"
            )
        try:
            self._held.enter_context(locked(Path(f"{self.path}-lock")))
        except BlockingIOError:
            raise OutputError(
                f"cannot write {quoted(self.path, 400)}: another kbforge is writing it; try again "
                "when it has ended"
            ) from None
        except OSError as error:
            reason = (error.strerror or str(error)).lower()
            raise OutputError(f"cannot write {quoted(self.path, 400)}: {reason}") from error

    def _opened(self) -> sqlite3.Connection:
        if self._write:
            made = sqlite3.connect(self.path, timeout=_PATIENCE, isolation_level=None)
            made.execute("PRAGMA journal_mode = WAL")
            made.execute("PRAGMA synchronous = FULL")
            made.execute(f"PRAGMA wal_autocheckpoint = {_LOGGED}")
            made.execute("PRAGMA secure_delete = FAST")
            made.execute(f"PRAGMA cache_size = -{_CACHED}")
            return made
        if not is_store(self.path):
            if not Path(self.path).is_file():
                raise KBForgeError(f"cannot read {quoted(self.path, 400)}: no such file")
            if Path(self.path).stat().st_size:
                raise KBForgeError(
                    f"{quoted(self.path, 400)}: expected a store of kbforge cluster --into, got a "
                    "file of another kind"
                )
        where = quote(str(Path(self.path).absolute()))
        made = sqlite3.connect(
            f"file:{where}?mode=ro", uri=True, timeout=_PATIENCE, isolation_level=None
        )
        try:
            made.execute("SELECT count(*) FROM sqlite_master").fetchone()
        except sqlite3.OperationalError:
            # a folder that cannot be written has no room for a log, and so there is none
            made.close()
            made = sqlite3.connect(f"file:{where}?immutable=1", uri=True, isolation_level=None)
        return made

    def _connect(self) -> None:
        self.connection = self._opened()
        self._held.callback(self.connection.close)
        self.version = schema.version_of(self.connection, self.path)
        self._seen = self._data_version()

    def _bring_up_to_date(self, version: int) -> None:
        """Make an older store one of today's version, in one transaction under the lock."""
        if self._write:
            self.transaction(lambda database: schema.migrate(database, version))
            self.version = schema.VERSION
            return
        self.connection.close()
        try:
            Database(self.path, write=True).close()
        except OutputError as error:
            raise KBForgeError(
                f"{quoted(self.path, 400)} is a store of version {version}, and must be brought up "
                f"to version {schema.VERSION} before it is read: {error}"
            ) from None
        self._connect()

    def _data_version(self) -> int:
        found: int = self.connection.execute("PRAGMA data_version").fetchone()[0]
        return found

    def transaction(self, write: Callable[[sqlite3.Connection], None]) -> None:
        """Have `write` change the tables: all that it does is done, or nothing.

        Raises:
            OutputError: there is no room, the file cannot be written, or another program has
                written it since the last transaction.

        """
        connection = self.connection
        with self._told():
            connection.execute("BEGIN IMMEDIATE")
            try:
                if self._data_version() != self._seen:
                    raise OutputError(
                        f"cannot write {quoted(self.path, 400)}: another program has written it in "
                        "the meantime; give the same command again"
                    )
                write(connection)
                connection.execute("COMMIT")
            except BaseException:
                with contextlib.suppress(sqlite3.Error):
                    connection.execute("ROLLBACK")
                raise
            if self.version is None:
                self.version = schema.version_of(connection, self.path)

    @contextlib.contextmanager
    def snapshot(self) -> Iterator[None]:
        """What is read within is of one moment, whatever is written meanwhile.

        A snapshot within another one is of the same moment.
        """
        if self.connection.in_transaction:
            yield
            return
        with self._told():
            self.connection.execute("BEGIN")
        try:
            yield
        finally:
            self.connection.execute("ROLLBACK")

    @contextlib.contextmanager
    def _told(self) -> Iterator[None]:
        """Errors of SQLite as sentences."""
        kind: type[KBForgeError] = OutputError if self._write else KBForgeError
        doing = "write" if self._write else "read"
        where = f"cannot {doing} {quoted(self.path, 400)}"
        try:
            yield
        except sqlite3.OperationalError as error:
            said = str(error).lower()
            if any(part in said for part in _FULL):
                raise OutputError(
                    f"{where}: the disk is full or fails; what was committed is kept: make room "
                    "and give the same command again"
                ) from error
            raise kind(f"{where}: {said}") from error
        except sqlite3.DatabaseError as error:
            raise kind(
                f"{where}: the file is damaged ({str(error).lower()}); restore it from a copy"
            ) from error

    def compact(self) -> None:
        """Rewrite the file without what was deleted, and empty its log.

        Raises:
            OutputError: there is no room, or another program reads the old state for so long that
                the log cannot be emptied.

        """
        with self._told():
            self.connection.execute("VACUUM")
            busy, _, _ = self.connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
            self._seen = self._data_version()
        if busy:
            raise OutputError(
                f"{quoted(self.path, 400)}: what was deleted is still in its log, because another "
                "program is reading it; when that has ended, give the same command again"
            )

    def close(self) -> None:
        """Let go of the file; what was not committed is lost, and with it a file without tables."""
        if self._write and self.version is None:
            self.connection.close()
            for path in (self.path, f"{self.path}-wal", f"{self.path}-shm", f"{self.path}-lock"):
                Path(path).unlink(missing_ok=True)
        self._held.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

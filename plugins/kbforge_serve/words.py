"""The search index: from words to the fragments of a store that have them.

It is an FTS5 database in a file beside the store (`kb.sqlite-search`), derived from it: it can be
deleted, and is made again when it is missing or damaged, or belongs to another store. It is a
temporary file if the folder cannot be written, or if the index file is removed during use.
Fragments get numbers in order and never change, so an index is updated with the numbers after its
last; those of removed fragments find nothing. An erasure empties it.

Words are transliterated, so that "Ivanov" finds "Иванов".
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import itertools
import os
import re
import sqlite3
import tempfile
import threading
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import orjson
from anyascii import anyascii

from kbforge.errors import KBForgeError
from kbforge.files.io import mode_of, sweep, temporary_folder
from kbforge.jobs.erasure import ERASES
from kbforge.kb.entities import naming
from kbforge.store.database import MODE, SEARCH, connected, remove_index
from kbforge.store.store import Store
from kbforge.store.tables import ask, read_rows
from kbforge_serve.readers import Readers

OnIndexed: TypeAlias = Callable[[int], None]
"""Called with the number of indexed fragments."""

_LONGEST_WORD = 40
_MOST_CHARACTERS = 4_000  # of a fragment's names, and of its other values, that are indexed
_MOST_ATTRIBUTES = 100  # of a fragment that are indexed
_AT_ONCE = 2_000  # fragments indexed in one transaction
_MANY = 10_000  # new fragments after which the index is merged into one piece
_NOW = 500  # fragments that a search indexes before it answers; more are left to a thread
_PATIENCE = 5.0  # seconds
_LETTERS = "abcdefghijklmnopqrstuvwxyz0123456789"
_SHORTEST_SLIP = 3  # letters of a word that may be misspelt
_LONGEST_PREFIX = 5  # that FTS5 has an index of
_MOST_TERMS = 64
_HIGHEST = "\U0010ffff"
_ID_OF = "SELECT id FROM fragment WHERE number = ?"

_APPLICATION = 0x4B424653  # "KBFS"
_VERSION = 2
_TABLES = (
    "CREATE TABLE state (next INTEGER, began REAL, erased INTEGER, last TEXT)",
    "CREATE TABLE terms (word TEXT PRIMARY KEY) WITHOUT ROWID",
    # two tables, because FTS5 filters columns by reading all that has the word
    "CREATE VIRTUAL TABLE names USING fts5(said, content='', detail=none, columnsize=0, "
    "tokenize='ascii')",
    "CREATE VIRTUAL TABLE words USING fts5(said, content='', detail=none, columnsize=0, "
    "prefix='1 2 3 4 5', tokenize='ascii')",
)
_FTS = ("names", "words")
_FOREIGN = re.compile(r"[^\x00-\x7f]+")
_SYLLABLE = re.compile(r"(?<=[a-z])(?=[A-Z])")
_WORD = re.compile(r"[a-z0-9]+")


class WordIndex:
    """The index of one store; it returns ascending numbers of fragments."""

    def __init__(self, readers: Readers) -> None:
        self._readers = readers
        self._path = f"{os.path.realpath(readers.path)}{SEARCH}"
        self._folders = contextlib.ExitStack()
        self._idle: list[tuple[str, sqlite3.Connection]] = []
        self._writing = threading.Lock()  # one thread of this process indexes
        self._behind: threading.Thread | None = None
        self._closing = threading.Event()
        self._indexed = 0  # the number of the first fragment that is not
        self._caught_up = (0, 0)  # with which run, of which file
        self._prepared = False

    def prepare(self, on_indexed: OnIndexed | None = None) -> None:
        """Make the index, or update it, unless that was done before."""
        with self._writing:
            if self._prepared:
                return
            with self._readers.store() as store:
                if not self._suits(store):
                    self._make()
            before = self._indexed
            try:
                self._index_all(on_indexed)
            except sqlite3.DatabaseError:  # it was removed by an erasure, or its disk is full
                self._make_elsewhere()
                self._index_all(on_indexed)
            if self._indexed - before > _MANY:
                with contextlib.suppress(sqlite3.OperationalError), self._lent() as index:
                    for table in _FTS:  # unless another program indexes
                        index.execute(f"INSERT INTO {table}({table}) VALUES ('optimize')")
            self._prepared = True

    def close(self) -> None:
        """Close all connections."""
        self._closing.set()
        if self._behind is not None:
            self._behind.join()
        while self._idle:
            self._idle.pop()[1].close()
        self._folders.close()

    # --- asking ---

    def with_words(self, words: Sequence[str], most: int) -> list[int]:
        """Fragments with all these words: in names, anywhere, or the last one as a prefix."""
        found = dict[int, None]()
        for table, begun in (("names", False), ("words", False), ("words", True)):
            if words and len(found) < most:
                asked = [f'"{word}"' for word in words]
                if begun:
                    asked[-1] = self._begun(words[-1])
                found |= dict.fromkeys(self._matching(table, " AND ".join(asked), most))
        return list(found)[:most]

    def having(self, store: Store, words: Sequence[str], most: int) -> list[int] | None:
        """Fragments with all these words anywhere; None while the index lacks some fragments."""
        self.prepare()
        self.catch_up(store)
        newest = ask(store.database.connection, "SELECT max(number) FROM fragment")[0][0]
        if (newest or 0) >= self._indexed:
            return None
        return self._matching("words", " AND ".join(f'"{word}"' for word in words), most)

    def misspelt(self, words: Sequence[str], most: int) -> list[int]:
        """Fragments with all these words, allowing one edit in any of them."""
        there = "SELECT word FROM terms WHERE word IN (SELECT value FROM json_each(?)) LIMIT ?"
        asked = []
        for word in words:
            slips = orjson.dumps(_slips(word)).decode()
            asked.append(_either([word, *self._asked(there, (slips, _MOST_TERMS))]))
        return self._matching("words", " AND ".join(asked), most) if words else []

    def _begun(self, word: str) -> str:
        """The FTS5 query for words with this prefix."""
        if len(word) > _LONGEST_PREFIX:
            # FTS5 reads all that any of the words leads to, before it answers
            asked = "SELECT word FROM terms WHERE word >= ? AND word < ? LIMIT ?"
            longer = self._asked(asked, (word, word + _HIGHEST, _MOST_TERMS))
            if len(longer) < _MOST_TERMS:
                return _either([word, *longer])
        return f'"{word}" *'

    def _matching(self, table: str, question: str, most: int) -> list[int]:
        """The numbers of the first fragments that FTS5 finds."""
        # a word has letters and digits alone: nothing in it is an operator of FTS5
        asked = f"SELECT rowid FROM {table} WHERE {table} MATCH ? ORDER BY rowid LIMIT ?"
        return self._asked(asked, (question, most))

    def _asked(self, question: str, values: Sequence[Any]) -> list[Any]:
        """The single column of the index's answer; empty if the index is damaged."""
        (column,) = re.findall(r"^SELECT (\w+)", question)
        try:
            with self._lent() as index:
                # in one row: for each row SQLite gives up Python's lock, and other threads take it
                asked = f"SELECT json_group_array({column}) FROM ({question})"
                row = index.execute(asked, values).fetchone()
        except sqlite3.DatabaseError:
            self._begin_again()
            return []
        found: list[Any] = orjson.loads(row[0])
        return found

    # --- the file ---

    @contextlib.contextmanager
    def _lent(self) -> Iterator[sqlite3.Connection]:
        """A connection to the index."""
        path = self._path
        while self._idle:
            with contextlib.suppress(IndexError):  # another thread took the last one
                of, index = self._idle.pop()
                if of == path:
                    break
                index.close()
        else:
            index = _connect(path)
        yield index
        self._idle.append((path, index))  # one that failed is closed with what refers to it

    def _suits(self, store: Store) -> bool:
        """Whether there is an index of this store."""
        if not os.path.exists(self._path):
            return False
        try:
            with contextlib.closing(_connect(self._path)) as index:
                if not _is_index(index):
                    return False
                self._indexed = _state(index)[0]
                return _is_of(index, store)
        except (sqlite3.Error, ValueError):
            return False

    def _make(self) -> None:
        """Make an empty index, a temporary one if the folder cannot be written."""
        try:
            remove_index(self._readers.path)
            _create(self._path, self._readers.path)
        except (sqlite3.Error, OSError):
            self._make_elsewhere()
        self._indexed = 0

    def _make_elsewhere(self) -> None:
        temporary = Path(tempfile.gettempdir())
        sweep(temporary)
        folder = self._folders.enter_context(temporary_folder(temporary))
        self._path = str(folder / SEARCH)
        _create(self._path, self._readers.path)
        self._indexed = 0

    def _begin_again(self) -> None:
        """Replace a damaged index with a temporary one; the next start rebuilds it."""
        damaged = self._path
        with self._writing:
            if self._path == damaged:
                self._make_elsewhere()
        self._index_behind()

    def catch_up(self, store: Store) -> None:
        """Index what others have written since; a thread does long work."""
        rows = store.database.connection
        newest = ask(rows, "SELECT max(number) FROM fragment")[0][0]
        last_run = ask(rows, "SELECT max(number) FROM run")[0][0] or 0, self._readers.file
        if (newest or 0) < self._indexed and last_run == self._caught_up:
            return
        if not self._writing.acquire(blocking=False):
            return
        more = damaged = False
        try:
            more = self._index_some(store, _NOW)
            self._caught_up = last_run
        except sqlite3.OperationalError:  # the disk is full: what is indexed is searched
            return
        except sqlite3.DatabaseError:
            damaged = True
        finally:
            self._writing.release()
        if damaged:
            self._begin_again()
        elif more:
            self._index_behind()

    def _index_behind(self) -> None:
        if self._behind is None or not self._behind.is_alive():
            self._behind = threading.Thread(target=self._index_all_locked, daemon=True)
            self._behind.start()

    def _index_all_locked(self) -> None:
        # whoever searches next meets the same error, and makes another index or says what it is
        with contextlib.suppress(sqlite3.Error, KBForgeError), self._writing:
            self._index_all()

    def _index_all(self, on_indexed: OnIndexed | None = None) -> None:
        more = True
        while more and not self._closing.is_set():
            with self._readers.store() as store:
                more = self._index_some(store, _AT_ONCE)
                if on_indexed is not None:
                    on_indexed(self._indexed)

    def _index_some(self, store: Store, most: int) -> bool:
        """Index the next fragments in one transaction; returns whether more are left."""
        with self._lent() as index:
            try:
                index.execute("BEGIN IMMEDIATE")
            except sqlite3.OperationalError:  # another program indexes
                return False
            try:
                self._indexed, n = _add(store, index, most)
                index.execute("COMMIT")
            except BaseException:
                with contextlib.suppress(sqlite3.Error):
                    index.execute("ROLLBACK")
                raise
        return n == most


def naming_of(store: Store) -> set[str]:
    """The attributes that name entities."""
    return naming(store.attributes)


def properties_of(line: bytes) -> dict[str, list[str]]:
    """The content of a stored fragment whose row was verified."""
    properties: dict[str, list[str]] = orjson.loads(line).get("properties", {})
    return properties


def words_of(text: str) -> list[str]:
    """The words of a text in Latin letters without accents, in lower case.

    Scripts without spaces are split by syllable.
    """
    if not text.isascii():
        text = _FOREIGN.sub(lambda part: _SYLLABLE.sub(" ", anyascii(part[0])), text)
    return [word[:_LONGEST_WORD] for word in _WORD.findall(text.lower())]


def _either(words: Sequence[str]) -> str:
    """The FTS5 query for any of some words."""
    return "(" + " OR ".join(f'"{word}"' for word in words) + ")"


def _slips(word: str) -> list[str]:
    """Possible corrections: one letter deleted, inserted or replaced, or two swapped."""
    if len(word) < _SHORTEST_SLIP:
        return []
    parts = [(word[:at], word[at:]) for at in range(len(word) + 1)]
    found = {left + right[1:] for left, right in parts if right}
    found |= {left + letter + right for left, right in parts for letter in _LETTERS}
    found |= {left + letter + right[1:] for left, right in parts if right for letter in _LETTERS}
    found |= {left + right[1] + right[0] + right[2:] for left, right in parts if len(right) > 1}
    return sorted(found)


def _texts(properties: Mapping[str, Sequence[str]], named: Collection[str]) -> tuple[str, str]:
    """The indexed words of a fragment's names and of its other values."""
    names, others = list[str](), list[str]()
    for attribute, values in properties.items():
        (names if attribute in named else others).extend(values)
    stated = map(attribute_word, itertools.islice(properties, _MOST_ATTRIBUTES))
    return _words(names), " ".join([*stated, _words(others)])


def attribute_word(attribute: str) -> str:
    """The word of all fragments that state an attribute, which no text is likely to have."""
    return f"attribute{hashlib.blake2b(attribute.encode(), digest_size=8).hexdigest()}"


def _words(values: Sequence[str]) -> str:
    left, words = _MOST_CHARACTERS, list[str]()
    for value in values:
        words += words_of(value[:left])
        left -= len(value)
        if left <= 0:
            break
    return " ".join(words)


# --- the index as a file ---


def _add(store: Store, index: sqlite3.Connection, most: int) -> tuple[int, int]:
    """Add the next fragments; returns the number of the first that is left, and how many were
    added."""
    names = naming_of(store)
    next_one = _state(index)[0]
    began, erased = _origin(store)
    if next_one and not _is_of(index, store):
        for table in _FTS:
            index.execute(f"INSERT INTO {table}({table}) VALUES ('delete-all')")
        index.execute("DELETE FROM terms")
        next_one = 0
    where = "WHERE number >= ? ORDER BY number LIMIT ?"
    rows = read_rows(store.database.connection, "fragment", where, (next_one, most))
    said, last = list[tuple[int, str, str]](), ""
    for number, id, *_, line in rows:
        said.append((number, *_texts(properties_of(line), names)))
        next_one, last = number + 1, id
    if said:
        add = "INSERT INTO {}(rowid, said) VALUES (?, ?)"
        index.executemany(add.format("names"), ((n, named) for n, named, _ in said))
        index.executemany(add.format("words"), ((n, f"{named} {rest}") for n, named, rest in said))
        terms = {word for _, *texts in said for text in texts for word in text.split()}
        index.executemany(
            "INSERT OR IGNORE INTO terms VALUES (?)", ((word,) for word in sorted(terms))
        )
        index.execute("DELETE FROM state")
        index.execute("INSERT INTO state VALUES (?, ?, ?, ?)", (next_one, began, erased, last))
    return next_one, len(said)


def _is_of(index: sqlite3.Connection, store: Store) -> bool:
    """Whether an index has only words of this store: not of erased fragments, or of a later copy.

    Numbers are never reused, and the last indexed fragment may have been removed.
    """
    next_one, began, erased, last = _state(index)
    held = ask(store.database.connection, _ID_OF, (next_one - 1,))
    counted = store.pages.totals.n_numbers if store.has_session else 0
    same = not held or held[0][0] == last
    return same and next_one <= counted and (began, erased) == _origin(store)


def _origin(store: Store) -> tuple[float, int]:
    """When the store was begun, and the last run that erased, 0 if none has."""
    rows = store.database.connection
    began = ask(rows, "SELECT began FROM run ORDER BY number LIMIT 1")
    erased = ask(rows, "SELECT max(number) FROM run WHERE verb = ?", (ERASES,))[0][0]
    return began[0][0] if began else 0.0, erased or 0


def _connect(path: str) -> sqlite3.Connection:
    made = connected(path, one_thread=False, patience=_PATIENCE)
    made.execute("PRAGMA trusted_schema = OFF")
    made.execute("PRAGMA cell_size_check = ON")
    made.execute("PRAGMA synchronous = NORMAL")
    made.execute("PRAGMA secure_delete = ON")
    return made


def _create(path: str, store: str) -> None:
    """Make an empty index for a store, with the store's read permissions."""
    os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, MODE))
    os.chmod(path, mode_of(Path(store), MODE))
    with contextlib.closing(_connect(path)) as index:
        index.execute("PRAGMA journal_mode = WAL")
        for statement in _TABLES:
            index.execute(statement)
        index.execute(f"PRAGMA application_id = {_APPLICATION}")
        index.execute(f"PRAGMA user_version = {_VERSION}")


def _is_index(index: sqlite3.Connection) -> bool:
    """Whether a database is an index of this version, with exactly its tables."""
    return (
        index.execute("PRAGMA application_id").fetchone()[0] == _APPLICATION
        and index.execute("PRAGMA user_version").fetchone()[0] == _VERSION
        and _schema_of(index) == _schema_of_today()
        and index.execute("PRAGMA quick_check(1)").fetchone()[0] == "ok"
    )


def _schema_of(index: sqlite3.Connection) -> list[tuple[str, str]]:
    return sorted(index.execute("SELECT name, coalesce(sql, '') FROM sqlite_master"))


@functools.cache
def _schema_of_today() -> list[tuple[str, str]]:
    with contextlib.closing(sqlite3.connect(":memory:", isolation_level=None)) as index:
        for statement in _TABLES:
            index.execute(statement)
        return _schema_of(index)


def _state(index: sqlite3.Connection) -> tuple[int, float, int, str]:
    """The first unindexed number, `_origin`, and the id before that number."""
    row = index.execute("SELECT next, began, erased, last FROM state").fetchone()
    if row is None:
        return 0, 0.0, 0, ""
    return int(row[0]), float(row[1]), int(row[2]), str(row[3])

"""Search: entities by the words of their fragments, as a person types them.

An FTS5 index in a file beside the store (`kb.sqlite-search`) leads from words to fragments. It is
derived: it can be deleted, and is made again when it is missing, damaged or of another store. In a
folder that cannot be written it is a temporary file. Words are transliterated, so that "Ivanov"
finds "Иванов". What is shown comes from the store; the index only says where to look.

A search takes these steps until it has enough fragments:

1. ids: the text is the id of an entity or of a fragment, or the beginning of an entity's;
2. whole words, all of them in the fragment's names;
3. all words anywhere, and then with the last one as a beginning;
4. where these are few: fragments with words that differ by one slip, and candidates of the store's
   own index, which survives greater errors; those with similar names.

The entities of these fragments are ordered by how similar a value is to the text.
"""

from __future__ import annotations

import contextlib
import functools
import os
import re
import sqlite3
import tempfile
import threading
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import orjson
from anyascii import anyascii
from rapidfuzz import fuzz

from kbforge.contracts import Fragment
from kbforge.errors import UsageError, quoted
from kbforge.jobs.remove import ERASES
from kbforge.kb.entities import naming
from kbforge.serve.facts import Facts, references
from kbforge.serve.readers import Readers
from kbforge.store.database import SEARCH, remove_index
from kbforge.store.pages import numbers_from_bytes
from kbforge.store.store import Store
from kbforge.store.tables import ask, read_rows, rows_of

OnIndexed: TypeAlias = Callable[[int], None]
"""Told how many fragments are indexed."""

MOST_RESULTS = 100
"""The most that one answer may have."""
_BLOCK = 96
"""Fragments that are ordered together, so that a word that half of all fragments have is answered
as fast as another; further pages go through further blocks."""
_MOST_FOUND = 10 * _BLOCK  # fragments of one search; more words narrow it down
_FEW = 10  # fragments; with fewer, typing errors are considered
_SIMILAR = 70.0  # percent that a value found in spite of errors must resemble the text
_MOST_WORDS = 12  # of a text that are looked up
_LONGEST_TEXT = 1_000
_LONGEST_WORD = 40
_MOST_CHARACTERS = 4_000  # of a fragment's names, and of its other values, that are indexed
_SHOWN = 6  # attributes of a result
_STEP = 5.0  # percent of similarity that count less than the size of an entity
_MOST_COMPARED = 16  # values of an attribute
_LONGEST_CURSOR = 8
_PATIENCE = 5.0  # seconds
_HIGHEST = "\U0010ffff"
_ID_OF = "SELECT id FROM fragment WHERE number = ?"
_LONGEST_SHOWN = 200
_AT_ONCE = 2_000  # fragments indexed in one transaction
_MANY = 10_000  # new fragments after which the index is merged into one piece
_NOW = 500  # fragments that a search indexes before it answers; more are left to a thread

_APPLICATION = 0x4B424653  # "KBFS"
_VERSION = 1
_TABLES = (
    "CREATE TABLE state (next INTEGER, began REAL, erased INTEGER, last TEXT)",
    "CREATE TABLE terms (word TEXT PRIMARY KEY) WITHOUT ROWID",
    # two tables, because FTS5 filters columns by reading all that has the word
    "CREATE VIRTUAL TABLE names USING fts5(said, content='', detail=none, columnsize=0, "
    "tokenize='ascii')",
    "CREATE VIRTUAL TABLE words USING fts5(said, content='', detail=none, columnsize=0, "
    "prefix='1 2 3 4 5', tokenize='ascii')",
)
_LETTERS = "abcdefghijklmnopqrstuvwxyz0123456789"
_SHORTEST_SLIP = 3  # letters of a word that may be misspelt
_LONGEST_PREFIX = 5  # that FTS5 has an index of
_MOST_TERMS = 64
_FTS = ("names", "words")
_FOREIGN = re.compile(r"[^\x00-\x7f]+")
_SYLLABLE = re.compile(r"(?<=[a-z])(?=[A-Z])")
_WORD = re.compile(r"[a-z0-9]+")


def words_of(text: str) -> list[str]:
    """The words of a text in Latin letters without accents, in lower case.

    Scripts without spaces are parted by syllable.
    """
    if not text.isascii():
        text = _FOREIGN.sub(lambda part: _SYLLABLE.sub(" ", anyascii(part[0])), text)
    return [word[:_LONGEST_WORD] for word in _WORD.findall(text.lower())]


def _either(words: Sequence[str]) -> str:
    """What FTS5 is asked for any of some words."""
    return "(" + " OR ".join(f'"{word}"' for word in words) + ")"


def _slips(word: str) -> list[str]:
    """What may have been meant: a letter too many, too few, another, or two in turn."""
    if len(word) < _SHORTEST_SLIP:
        return []
    parts = [(word[:at], word[at:]) for at in range(len(word) + 1)]
    found = {left + right[1:] for left, right in parts if right}
    found |= {left + letter + right for left, right in parts for letter in _LETTERS}
    found |= {left + letter + right[1:] for left, right in parts if right for letter in _LETTERS}
    found |= {left + right[1] + right[0] + right[2:] for left, right in parts if len(right) > 1}
    return sorted(found)


def _texts(properties: Mapping[str, Sequence[str]], named: Collection[str]) -> tuple[str, str]:
    """The words of a fragment's names and of its other values, as they are indexed."""
    names, others = list[str](), list[str]()
    for attribute, values in properties.items():
        (names if attribute in named else others).extend(values)
    return _words(names), _words(others)


def _words(values: Sequence[str]) -> str:
    left, words = _MOST_CHARACTERS, list[str]()
    for value in values:
        words += words_of(value[:left])
        left -= len(value)
        if left <= 0:
            break
    return " ".join(words)


@dataclass(frozen=True, slots=True)
class _Hit:
    """A fragment that was found, and the entity that holds it."""

    number: int
    entity: str
    members: Sequence[int]  # numbers of the entity's fragments, ascending
    properties: Mapping[str, Sequence[str]]


@dataclass(frozen=True, slots=True)
class _Match:
    """What of a fragment resembles a text: a value, how much in percent, and the fragment."""

    hit: _Hit
    attribute: str | None
    value: str | None
    score: float


class Search:
    """The search of one store."""

    def __init__(self, readers: Readers) -> None:
        self._readers = readers
        self._path = f"{os.path.realpath(readers.path)}{SEARCH}"
        self._folders: list[tempfile.TemporaryDirectory[str]] = []
        self._of_thread = threading.local()
        self._open: list[sqlite3.Connection] = []
        self._writing = threading.Lock()  # one thread of this process indexes
        self._behind: threading.Thread | None = None
        self._closing = threading.Event()
        self._indexed = 0  # the number of the first fragment that is not
        self._last_run = 0
        self._prepared = False

    def prepare(self, on_indexed: OnIndexed | None = None) -> None:
        """Make the index or bring it up to date; the first search does, if nobody has."""
        with self._writing:
            if self._prepared:
                return
            with self._readers.store() as store:
                if not self._suits(store):
                    self._make()
                before = self._indexed
                self._readers.loaded(store)  # they load while it is indexed
            self._index_all(on_indexed)
            if self._indexed - before > _MANY:
                with contextlib.suppress(sqlite3.OperationalError):  # another program indexes
                    for table in _FTS:
                        self._index().execute(f"INSERT INTO {table}({table}) VALUES ('optimize')")
            self._prepared = True

    def find(self, text: str, limit: int = 20, cursor: str | None = None) -> Facts:
        """The entities that a text finds, best first.

        Returns `results`, each a reference to an entity with some `values` by attribute of the
        fragment that was found, and `matched`, the attribute and the value that are most similar
        to the text; and `next`, the cursor of the next results, or None.

        Raises a UsageError if the text is too long, or the limit or the cursor is no such number.
        """
        begin = _begin(text, limit, cursor)
        if not self._prepared:
            self.prepare()
        with self._readers.store() as store:
            self._catch_up(store)
            end = begin + limit
            ranked = self._ranked(store, text.strip(), end + 1)
            shown = {match.hit.entity: match for match in ranked[begin:end]}
            return {
                "results": [
                    _result(shown[one["id"]], one)
                    for one in references(self._readers, store, list(shown))
                ],
                "next": str(end) if end < len(ranked) else None,
            }

    def close(self) -> None:
        """Close all connections; no thread searches any more."""
        self._closing.set()
        if self._behind is not None:
            self._behind.join()
        for connection in self._open:
            connection.close()
        for folder in self._folders:
            folder.cleanup()

    # --- finding ---

    def _ranked(self, store: Store, text: str, most: int) -> list[_Match]:
        """The first entities that a text finds, best first, each by its best fragment."""
        words = words_of(text)[:_MOST_WORDS]
        plain, names = " ".join(words), _naming(store)
        by_id = dict.fromkeys(_with_ids(store, text))
        found = list(by_id | dict.fromkeys(self._with_words(words)))
        best: dict[str, _Match] = {}
        for begin in range(0, len(found), _BLOCK):
            if len(best) >= most:
                break
            hits = _located(store, found[begin : begin + _BLOCK])
            _order([_matched(hit, plain, names) for hit in hits], by_id, best)
        if words and len(found) < _FEW:
            more = [n for n in self._misspelt(words)[:_BLOCK] if n not in found]
            if not found and not more:  # the store's index may compare pairs, which takes longest
                more = self._candidates(store, text, names)
            similar = [_matched(hit, plain, names) for hit in _located(store, more)]
            _order([match for match in similar if match.score >= _SIMILAR], (), best)
        return list(best.values())

    def _with_words(self, words: Sequence[str]) -> list[int]:
        """The numbers of fragments with all these words: in names, anywhere, as beginnings."""
        if not words:
            return []
        found = dict[int, None]()
        for table, begun in (("names", False), ("words", False), ("words", True)):
            if len(found) < _MOST_FOUND:
                asked = [f'"{word}"' for word in words]
                if begun:
                    asked[-1] = self._begun(words[-1])
                found |= dict.fromkeys(self._matching(table, " AND ".join(asked)))
        return list(found)[:_MOST_FOUND]

    def _begun(self, word: str) -> str:
        """What FTS5 is asked for words that begin so."""
        if len(word) > _LONGEST_PREFIX:
            # FTS5 reads all that any of the words leads to, before it answers
            asked = "SELECT word FROM terms WHERE word >= ? AND word < ? LIMIT ?"
            above = word + _HIGHEST
            longer = self._index().execute(asked, (word, above, _MOST_TERMS)).fetchall()
            if len(longer) < _MOST_TERMS:
                return _either([word, *(one for (one,) in longer)])
        return f'"{word}" *'

    def _misspelt(self, words: Sequence[str]) -> list[int]:
        """The numbers of fragments with these words but for a slip in any of them."""
        there = (
            "SELECT json_group_array(word) FROM "
            "(SELECT word FROM terms WHERE word IN (SELECT value FROM json_each(?)) LIMIT ?)"
        )
        asked = []
        for word in words:
            slips = orjson.dumps(_slips(word)).decode()
            found = self._index().execute(there, (slips, _MOST_TERMS)).fetchone()
            asked.append(_either([word, *orjson.loads(found[0])]))
        return self._matching("words", " AND ".join(asked)) if words else []

    def _matching(self, table: str, question: str) -> list[int]:
        """The numbers of the first fragments that FTS5 finds."""
        # in one row: for each row SQLite gives up Python's lock, and other threads take it
        asked = (
            "SELECT json_group_array(rowid) FROM "
            f"(SELECT rowid FROM {table} WHERE {table} MATCH ? ORDER BY rowid LIMIT ?)"
        )
        try:
            row = self._index().execute(asked, (question, _MOST_FOUND)).fetchone()
        except sqlite3.DatabaseError:
            self._begin_again()
            return []
        numbers: list[int] = orjson.loads(row[0])
        return numbers

    def _candidates(self, store: Store, text: str, names: Collection[str]) -> list[int]:
        """First fragments of clusters that the store's own index leads to, most keys first."""
        fit = self._readers.loaded(store)
        index = None if fit is None else fit.models.index
        if index is None:
            return []
        # names in several attributes: any of the words may be any of them
        values = (text,) if len(names) == 1 else tuple(dict.fromkeys([text, *text.split()]))
        with self._readers.scoring:  # an index has caches, which one thread at a time may change
            keys = index.keys(Fragment("?", dict.fromkeys(sorted(names), values)))
        counts = Counter[int]()
        for led in store.pages.led(keys).values():
            if not led.closed:
                counts.update(led.families)
        return [number for number, _ in counts.most_common(_BLOCK // 2)]

    # --- the file ---

    def _index(self) -> sqlite3.Connection:
        """This thread's connection to the index."""
        held: tuple[str, sqlite3.Connection] | None = getattr(self._of_thread, "held", None)
        if held is None or held[0] != self._path:
            held = self._of_thread.held = (self._path, _connect(self._path))
            self._open.append(held[1])
        return held[1]

    def _suits(self, store: Store) -> bool:
        """Whether there is an index, and of this store."""
        if not os.path.exists(self._path):
            return False
        try:
            with contextlib.closing(_connect(self._path)) as index:
                if not _is_index(index):
                    return False
                self._indexed, began, erased, last = _state(index)
        except (sqlite3.Error, ValueError):
            return False
        held = ask(store.database.connection, _ID_OF, (self._indexed - 1,))
        same = not held or held[0][0] == last  # that one may have been removed
        return same and (began, erased) == _origin(store)

    def _make(self) -> None:
        """Make an empty index; in a folder that cannot be written, a temporary one."""
        try:
            remove_index(self._readers.path)
            _create(self._path)
        except (sqlite3.Error, OSError):
            self._make_elsewhere()
        self._indexed = 0

    def _make_elsewhere(self) -> None:
        self._folders.append(tempfile.TemporaryDirectory(prefix="kbforge-"))
        self._path = os.path.join(self._folders[-1].name, SEARCH)
        _create(self._path)
        self._indexed = 0

    def _begin_again(self) -> None:
        """Leave a damaged index, which the next start replaces, for a temporary one."""
        damaged = self._path
        with self._writing:
            if self._path == damaged:
                self._make_elsewhere()
        self._index_behind()

    def _catch_up(self, store: Store) -> None:
        """Index what others have written since; a thread does what takes long."""
        rows = store.database.connection
        newest = ask(rows, "SELECT max(number) FROM fragment")[0][0]
        last_run = ask(rows, "SELECT max(number) FROM run")[0][0]
        if (newest or 0) < self._indexed and last_run == self._last_run:
            return
        if not self._writing.acquire(blocking=False):
            return
        more = damaged = False
        try:
            more = self._index_some(store, _NOW)
            self._last_run = last_run
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
        with self._writing:
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
        index = self._index()
        names = _naming(store)
        try:
            index.execute("BEGIN IMMEDIATE")
        except sqlite3.OperationalError:  # another program indexes
            return False
        try:
            next_one, *before = _state(index)
            began, erased = _origin(store)
            if next_one and before[:2] != [began, erased]:  # it has the words of erased fragments
                for table in _FTS:
                    index.execute(f"INSERT INTO {table}({table}) VALUES ('delete-all')")
                index.execute("DELETE FROM terms")
                next_one = 0
            where = "WHERE number >= ? ORDER BY number LIMIT ?"
            said, last, n = list[tuple[int, str, str]](), "", 0
            for number, id, *_, line in read_rows(
                store.database.connection, "fragment", where, (next_one, most)
            ):
                said.append((number, *_texts(_properties(line), names)))
                next_one, last, n = number + 1, id, n + 1
            if n:
                add = "INSERT INTO {}(rowid, said) VALUES (?, ?)"
                index.executemany(add.format("names"), ((n, named) for n, named, _ in said))
                index.executemany(
                    add.format("words"), ((n, f"{named} {rest}") for n, named, rest in said)
                )
                terms = {word for _, *texts in said for text in texts for word in text.split()}
                one = "INSERT OR IGNORE INTO terms VALUES (?)"
                index.executemany(one, ((word,) for word in sorted(terms)))
                _note(index, next_one, began, erased, last)
            index.execute("COMMIT")
        except BaseException:
            index.execute("ROLLBACK")
            raise
        self._indexed = next_one
        return n == most


def _begin(text: str, limit: int, cursor: str | None) -> int:
    """The place of the first result, of a search that is possible."""
    if len(text) > _LONGEST_TEXT:
        raise UsageError(
            f"search: expected at most {_LONGEST_TEXT:,} characters, got {len(text):,}"
        )
    if not 1 <= limit <= MOST_RESULTS:
        raise UsageError(f"limit: expected a number from 1 to {MOST_RESULTS}, got {limit}")
    if cursor is None:
        return 0
    if not (cursor.isascii() and cursor.isdigit() and len(cursor) < _LONGEST_CURSOR):
        raise UsageError(f'cursor: expected what "next" said, got "{quoted(cursor)}"')
    return int(cursor)


# --- what is read of the store ---


def _naming(store: Store) -> set[str]:
    """The attributes that name entities."""
    return naming(tuple(store.fact("drift", {}).get("learned", {})))


def _order(matches: Sequence[_Match], first: Collection[int], best: dict[str, _Match]) -> None:
    """Add the entities of some matches to `best`, the best ones first.

    Fragments found by id come `first`. Of equally similar ones, the entity with the most comes
    first: one with a hundred names, of which one is the text, is not what it names.
    """

    def closeness(match: _Match) -> tuple[bool, float]:
        return (match.hit.number in first, match.score // _STEP)

    as_close = Counter((match.hit.entity, closeness(match)) for match in matches)

    def rank(match: _Match) -> tuple[bool, float, int, int]:
        by_id, close = closeness(match)
        return (not by_id, -close, -as_close[match.hit.entity, (by_id, close)], match.hit.number)

    for match in sorted(matches, key=rank):
        best.setdefault(match.hit.entity, match)


def _properties(line: bytes) -> dict[str, list[str]]:
    properties: dict[str, list[str]] = orjson.loads(line).get("properties", {})
    return properties


def _with_ids(store: Store, text: str) -> list[int]:
    """Fragments of entities whose id is the text or begins with it, or with the text as id."""
    if not text or "\0" in text:
        return []
    rows = store.database.connection
    begins = "SELECT id FROM entity WHERE id >= ?1 AND id < ?2 ORDER BY id LIMIT ?3"
    ids = [id for (id,) in ask(rows, begins, (text, text + _HIGHEST, _FEW))]
    if not ids:
        with contextlib.suppress(UsageError):
            ids = list(store.now(text))
    firsts = (
        int(numbers_from_bytes(members).min())
        for _, _, members in rows_of(rows, "entity", "id", ids)
    )
    return [*firsts, *store.pages.numbers([text]).values()]


def _located(store: Store, numbers: Sequence[int]) -> list[_Hit]:
    """Those of the fragments that exist, in this order, with their entities."""
    rows = store.database.connection
    found = {
        n: (home, line) for n, _, _, home, _, line in rows_of(rows, "fragment", "number", numbers)
    }
    homes = sorted({home for home, _ in found.values()})
    holding: dict[int, tuple[str, list[int]]] = {}
    for id, _, members in rows_of(rows, "entity", "subproblem", homes):
        held = numbers_from_bytes(members).tolist()
        holding.update((n, (id, held)) for n in held if n in found)
    return [
        _Hit(n, *holding[n], _properties(found[n][1]))
        for n in numbers
        if n in found and n in holding
    ]


def _matched(hit: _Hit, plain: str, names: Collection[str]) -> _Match:
    """The value of a fragment that is most similar to some words; names first."""
    best = _Match(hit, None, None, 0.0)
    for of_names in (True, False):
        for attribute, values in hit.properties.items():
            if (attribute in names) is not of_names:
                continue
            for value in values[:_MOST_COMPARED]:
                said = words_of(value[:_LONGEST_SHOWN])
                score = fuzz.token_sort_ratio(plain, " ".join(said))
                score = score if of_names else score / 2
                if score > best.score:
                    best = _Match(hit, attribute, value, score)
        if best.score >= _SIMILAR:
            break
    return best


def _result(match: _Match, reference: Facts) -> Facts:
    """A result: the entity, and what the fragment says that was found."""
    matched = None
    if match.value is not None:
        matched = {"attribute": match.attribute, "value": match.value[:_LONGEST_SHOWN]}
    said = list(match.hit.properties.items())[:_SHOWN]
    values = {attribute: values[0][:_LONGEST_SHOWN] for attribute, values in said}
    return {**reference, "values": values, "matched": matched}


def _origin(store: Store) -> tuple[float, int]:
    """When the store was begun, and the last run that erased, 0 if none has."""
    rows = store.database.connection
    began = ask(rows, "SELECT min(began) FROM run")[0][0]
    erased = ask(rows, "SELECT max(number) FROM run WHERE verb = ?", (ERASES,))[0][0]
    return began or 0.0, erased or 0


# --- the index as a file ---


def _connect(path: str) -> sqlite3.Connection:
    made = sqlite3.connect(path, timeout=_PATIENCE, isolation_level=None, check_same_thread=False)
    made.execute("PRAGMA trusted_schema = OFF")
    made.execute("PRAGMA cell_size_check = ON")
    made.execute("PRAGMA synchronous = NORMAL")
    made.execute("PRAGMA secure_delete = ON")
    return made


def _create(path: str) -> None:
    with contextlib.closing(_connect(path)) as index:
        index.execute("PRAGMA journal_mode = WAL")
        for statement in _TABLES:
            index.execute(statement)
        index.execute(f"PRAGMA application_id = {_APPLICATION}")
        index.execute(f"PRAGMA user_version = {_VERSION}")


def _is_index(index: sqlite3.Connection) -> bool:
    """Whether a database is an index of this version, with its tables and nothing else."""
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
    """The first number that is not indexed, `_origin`, and the id before that number."""
    row = index.execute("SELECT next, began, erased, last FROM state").fetchone()
    if row is None:
        return 0, 0.0, 0, ""
    return int(row[0]), float(row[1]), int(row[2]), str(row[3])


def _note(index: sqlite3.Connection, next_one: int, began: float, erased: int, last: str) -> None:
    index.execute("DELETE FROM state")
    index.execute("INSERT INTO state VALUES (?, ?, ?, ?)", (next_one, began, erased, last))

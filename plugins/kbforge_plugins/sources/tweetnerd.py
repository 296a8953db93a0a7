"""The tweetnerd source: TweetNERD's annotations, with the texts of tweets if you have them.

The release is a tab-separated file `tweet_id phrase start end entityId score`, and no texts: these
come from a file of hydrated tweets (`tweets=FILE`: JSON lines with `id` or `tweet_id`, and `text`;
or two columns, tab-separated). Each row that annotates a phrase gives one fragment with that phrase
as its `name`; the Wikidata item is its label.

- Offsets count UTF-16 code units, end exclusive. The phrase is trusted: if the text does not have
  it there, the nearest occurrence is taken; a text without the phrase makes a bad record. A tweet
  that is not in the file keeps its phrase alone.
- `NO_ENTITY` rows say that a tweet has no entity, and are left out.
- `NOT FOUND` and `AMBIGUOUS` are mentions of an entity that Wikidata lacks, or that annotators
  could not tell: fragments without a label (`unlinked=drop` leaves them out).
- A row that repeats an earlier one is left out.

`top=N` makes the main paper's clustering set: the distinct names of each of the N entities with the
most distinct names (of equals, the one with more mentions), one fragment a name, in order of first
mention. Tweets and the names for `top` are kept in a temporary file, so memory does not grow.
"""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Literal

from kbforge.contracts.fragment import Fragment
from kbforge.contracts.source import OnBad, Source
from kbforge.errors import BadRecord, KBForgeError, UsageError, quoted
from kbforge.files.fragments import DigestSet, parse_json, shown
from kbforge.files.io import called, read_lines
from kbforge_plugins.sources.rebel import nearest

_FIELDS = "tweet_id, phrase, start, end, entityId and score"
_UNLINKED = {"NOT FOUND": "not-found", "AMBIGUOUS": "ambiguous"}


class TweetNerdSource(Source):
    """TweetNERD's public files.

    Args:
        tweets: file of hydrated tweets.
        top: make a clustering set of the N entities with the most distinct names.
        unlinked: whether mentions without a Wikidata item become fragments without a label.

    """

    def __init__(
        self,
        tweets: str | None = None,
        top: int | None = None,
        unlinked: Literal["keep", "drop"] = "keep",
    ) -> None:
        if top is not None and top < 1:
            raise UsageError(f"top: expected at least 1, got {top}")
        self._tweets, self._top, self._unlinked = tweets, top, unlinked
        self.where = ""
        self.counts: Counter[str] = Counter()

    def read(self, inputs: Sequence[str], on_bad: OnBad) -> Iterator[Fragment]:
        """Yield one fragment an annotated phrase, or a distinct name with `top`."""
        self.counts.clear()
        try:
            # an empty name is a private file on disk that vanishes when it is closed
            with closing(sqlite3.connect("")) as store:
                yield from self._read(inputs, store, on_bad)
        except sqlite3.Error as error:
            raise KBForgeError(f"the temporary file of tweets cannot be used: {error}") from error

    def _read(
        self, inputs: Sequence[str], store: sqlite3.Connection, on_bad: OnBad
    ) -> Iterator[Fragment]:
        store.execute("PRAGMA journal_mode=OFF")
        store.execute("CREATE TABLE tweets (id TEXT PRIMARY KEY, text TEXT) WITHOUT ROWID")
        if self._tweets is not None:
            _store_tweets(store, self._tweets, on_bad)
        fragments = self._mentions(inputs, store, on_bad)
        yield from fragments if self._top is None else self._largest(fragments, store)

    def _mentions(
        self, inputs: Sequence[str], store: sqlite3.Connection, on_bad: OnBad
    ) -> Iterator[Fragment]:
        seen = DigestSet()
        for path in inputs:
            for number, line in read_lines(path, on_bad):
                self.where = f"{called(path)}:{number}"
                if number == 1 and line.startswith(b"tweet_id\t"):
                    continue
                try:
                    fragment = self._fragment(_Row.parse(line, self.where), line, seen, store)
                except BadRecord as error:
                    on_bad(error, line)
                    continue
                if fragment is not None:
                    yield fragment

    def _fragment(
        self, row: _Row, line: bytes, seen: DigestSet, store: sqlite3.Connection
    ) -> Fragment | None:
        if row.entity == "NO_ENTITY":
            self.counts["tweets without an entity"] += 1
            return None
        if row.entity in _UNLINKED and self._unlinked == "drop":
            self.counts["unlinked mentions"] += 1
            return None
        metadata: dict[str, object] = {"tweet": row.tweet, "score": row.score}
        if self._tweets is not None:
            found = store.execute("SELECT text FROM tweets WHERE id = ?", (row.tweet,)).fetchone()
            if found is None:
                self.counts["mentions without their tweet"] += 1
            else:
                metadata |= {"text": found[0], "span": self._span(row, found[0])}
        if not seen.add(line):
            self.counts["repeated rows"] += 1
            return None
        suffix = _UNLINKED.get(row.entity, row.entity)
        record = {
            "id": f"{row.tweet}-{row.start}-{row.end}-{suffix}",
            "properties": {"name": [row.phrase]},
            "label": None if row.entity in _UNLINKED else row.entity,
            "source": "tweetnerd",
            "metadata": metadata,
        }
        return Fragment.from_json(record, row.where)

    def _span(self, row: _Row, text: str) -> list[int]:
        """The characters of the phrase in its tweet."""
        stated = _characters_before(text, row.start)
        start = nearest(text, row.phrase, stated)
        if start is None:
            got = f'"{quoted(text, 60)}"'
            raise BadRecord(row.where, f'a tweet with "{quoted(row.phrase)}" in it', got, "phrase")
        if start != stated or _characters_before(text, row.end) != start + len(row.phrase):
            self.counts["mentions realigned"] += 1
        return [start, start + len(row.phrase)]

    def _largest(
        self, fragments: Iterator[Fragment], store: sqlite3.Connection
    ) -> Iterator[Fragment]:
        """One fragment for each distinct name of the N largest entities."""
        store.execute(
            "CREATE TABLE names (entity TEXT, name TEXT, mentions INTEGER, first INTEGER, "
            "PRIMARY KEY (entity, name)) WITHOUT ROWID"
        )
        for order, fragment in enumerate(fragments):
            if fragment.label is None:
                self.counts["unlinked mentions"] += 1
                continue
            store.execute(
                "INSERT INTO names VALUES (?, ?, 1, ?) "
                "ON CONFLICT DO UPDATE SET mentions = mentions + 1",
                (fragment.label, fragment.names[0], order),
            )
        chosen = store.execute(
            "WITH top AS (SELECT entity FROM names GROUP BY entity "
            "ORDER BY COUNT(*) DESC, SUM(mentions) DESC, entity LIMIT ?) "
            "SELECT entity, name, mentions, row_number() OVER "
            "(PARTITION BY entity ORDER BY first) AS place "
            "FROM names WHERE entity IN top ORDER BY first",
            (self._top,),
        )
        for entity, name, mentions, place in chosen:
            yield Fragment.from_json(
                {
                    "id": f"{entity}-{place}",
                    "properties": {"name": [name]},
                    "label": entity,
                    "source": "tweetnerd",
                    "metadata": {"mentions": mentions},
                },
                f"tweetnerd {entity}",
            )


@dataclass(frozen=True, slots=True)
class _Row:
    """One line of the release."""

    where: str
    tweet: str
    phrase: str
    start: int
    end: int
    entity: str
    score: int

    @classmethod
    def parse(cls, line: bytes, where: str) -> _Row:
        """Check a line.

        Raises:
            BadRecord: not UTF-8, not six fields, or a field that cannot be.

        """
        cells = _decoded(line, where).split("\t")
        if len(cells) != 6:
            expected = f"6 tab-separated fields ({_FIELDS})"
            raise BadRecord(where, expected, f"{len(cells)}")
        tweet, phrase, start, end, entity, score = (cell.strip(" ") for cell in cells)
        if not (tweet.isascii() and tweet.isdigit()):
            raise BadRecord(where, "a number", f'"{quoted(tweet)}"', "tweet_id")
        linked = entity[:1] == "Q" and entity[1:].isascii() and entity[1:].isdigit()
        if not (linked or entity in _UNLINKED or entity == "NO_ENTITY"):
            expected = "a Wikidata item, NOT FOUND, AMBIGUOUS or NO_ENTITY"
            raise BadRecord(where, expected, f'"{quoted(entity)}"', "entityId")
        row = cls(
            where,
            tweet,
            phrase,
            _integer(start, where, "start"),
            _integer(end, where, "end"),
            entity,
            _integer(score, where, "score"),
        )
        if entity == "NO_ENTITY":
            return row
        if not phrase:
            raise BadRecord(where, "a non-empty string", "an empty one", "phrase")
        if not 0 <= row.start < row.end:
            raise BadRecord(where, "0 <= start < end", f"{row.start} and {row.end}", "start")
        return row


def _integer(cell: str, where: str, field: str) -> int:
    digits = cell.removeprefix("-")
    if not (digits.isascii() and digits.isdigit() and len(digits) < 10):
        raise BadRecord(where, "a whole number", f'"{quoted(cell)}"', field)
    return int(cell)


def _decoded(line: bytes, where: str) -> str:
    try:
        return line.decode()
    except UnicodeDecodeError as error:
        got = f"the byte 0x{line[error.start]:02x} at byte {error.start + 1}"
        raise BadRecord(where, "UTF-8 text", got) from None


def _characters_before(text: str, units: int) -> int:
    """How many characters lie before an offset in UTF-16 code units."""
    return len(text.encode("utf-16-be")[: 2 * units].decode("utf-16-be", "ignore"))


def _store_tweets(store: sqlite3.Connection, path: str, on_bad: OnBad) -> None:
    """Put the hydrated tweets where annotations can find them; the first of an id counts."""
    for number, line in read_lines(path, on_bad):
        where = f"{called(path)}:{number}"
        try:
            tweet = _tweet(line, where)
        except BadRecord as error:
            on_bad(error, line)
            continue
        store.execute("INSERT OR IGNORE INTO tweets VALUES (?, ?)", tweet)


def _tweet(line: bytes, where: str) -> tuple[str, str]:
    if not line.lstrip().startswith(b"{"):
        cells = _decoded(line, where).split("\t")
        if len(cells) != 2:
            expected = "a JSON object, or a tweet's id and text with a tab between"
            raise BadRecord(where, expected, f'"{quoted(cells[0], 40)}"')
        return cells[0], cells[1]
    record = parse_json(line, where)
    key = record.get("tweet_id", record.get("id_str", record.get("id")))
    if isinstance(key, bool) or not isinstance(key, str | int):
        raise BadRecord(where, "the tweet's number", shown(key), "tweet_id")
    text = record.get("text", record.get("full_text"))
    if not isinstance(text, str):
        raise BadRecord(where, "the tweet's text", shown(text), "text")
    return str(key), text

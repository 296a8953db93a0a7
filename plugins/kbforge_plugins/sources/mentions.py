"""Sources of mentions: the releases of REBEL and TweetNERD.

*rebel*: raw REBEL documents (JSON lines, or the release's zip). Each line is a Wikipedia abstract
with entity mentions and triples. The rules are those of MS-KeBAB, the benchmark that the main paper
builds its data with:

1. A document is left out if its text ends in "refer to:", has fewer than `min_text` characters, or
   if the page's own entity is not among its mentions.
2. Each distinct Wikidata item (Q-id) among the mentions gives one fragment, and all its surface
   forms go to `name`. Dates, decimals, "None" and empty identifiers are values, never fragments.
3. A triple adds predicate -> object to the fragment of its subject. The predicate is its English
   label; the object is its surface form as written in this sentence ("Belgian" as well as
   "Belgium"), because that is what an extractor of text sees.
4. Pronouns are no names; fragments without a name are left out; so are repeats of an earlier
   fragment (same entity, same properties) anywhere in the input.

Order is that of the document, and ids are `docid-Qid`. A sixth of the release's offsets are wrong:
the surface form is trusted, the nearest occurrence is searched, and the character span that was
found is kept in the metadata.

*tweetnerd*: a tab-separated file `tweet_id phrase start end entityId score`, and no texts: these
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

import re
import sqlite3
import zipfile
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO, Literal, NamedTuple

import orjson

from kbforge.contracts.fragment import Fragment, OnBad, Source
from kbforge.errors import BadRecord, KBForgeError, UsageError, quoted
from kbforge.files.fragments import DigestSet, parse_json, shown
from kbforge.files.io import called, lines_of, read_lines, stream_of
from kbforge_plugins.sources.values import list_in, object_of, text_in


def nearest(text: str, form: str, start: int) -> int | None:
    """The start of the `form` nearest to `start`, of two the earlier; None if it does not occur."""
    if not form:
        return None
    if text.startswith(form, start):
        return start
    before = text.rfind(form, 0, start + len(form))
    after = text.find(form, start)
    if before < 0 or after < 0:
        found = max(before, after)
        return found if found >= 0 else None
    return before if start - before <= after - start else after


_ITEM = re.compile(r"Q[1-9][0-9]*")
_PRONOUNS = frozenset({"it", "he", "she", "they", ""})


class RebelSource(Source):
    """REBEL's release, one document per line.

    Args:
        min_text: leave out documents with a shorter text.
        relations: keep only triples with these predicates (labels or P-ids); empty keeps all.
        relations_file: the same, from the first column of a tab-separated file.
        dedupe: leave out repeats of an earlier fragment. This costs about 16 bytes of memory per
            fragment; without it memory is constant.
        members: files of a zip to read; empty reads every .jsonl file, in order of name.

    """

    def __init__(
        self,
        min_text: int = 100,
        relations: list[str] | None = None,
        relations_file: Path | None = None,
        dedupe: bool = True,
        members: list[str] | None = None,
    ) -> None:
        self._min_text, self._dedupe = min_text, dedupe
        self._relations = frozenset(relations or ()) | _first_column(relations_file)
        self._members = members or []
        self.where = ""
        self.counts: Counter[str] = Counter()

    def read(self, inputs: Sequence[str], on_bad: OnBad) -> Iterator[Fragment]:
        """Yield one fragment for each entity of each document."""
        self.counts.clear()
        seen = DigestSet() if self._dedupe else None
        for path in inputs:
            for name, number, line in self._lines(path, on_bad):
                self.where = f"{name}:{number}"
                try:
                    fragments = list(self._fragments(parse_json(line, self.where), self.where))
                except BadRecord as error:
                    on_bad(error, line)
                    continue
                for fragment in fragments:
                    if seen is None or seen.add(_content(fragment)):
                        yield fragment
                    else:
                        self.counts["repeated fragments"] += 1

    def _lines(self, path: str, on_bad: OnBad) -> Iterator[tuple[str, int, bytes]]:
        if not path.endswith(".zip"):
            for number, line in read_lines(path, on_bad):
                yield called(path), number, line
            return
        for member, stream in _zip_members(path, self._members):
            name = f"{path}/{member}"
            for number, line in lines_of(stream, name, on_bad):
                yield name, number, line

    def _fragments(self, record: object, where: str) -> Iterator[Fragment]:
        """The fragments of a document, in order of first mention."""
        document = object_of(record, where, "")
        number = document.get("docid")
        docid = str(number) if type(number) is int else text_in(document, "docid", where, "")
        if not docid:
            raise BadRecord(where, "a non-empty string", "an empty one", "docid")
        title, page = (text_in(document, key, where, "", default="") for key in ("title", "uri"))
        text = text_in(document, "text", where, "")
        entities = [
            _mention(entity, where, f"entities[{i}]")
            for i, entity in enumerate(list_in(document, "entities", where))
        ]
        facts = self._facts(list_in(document, "triples", where), where)
        self.counts["documents"] += 1
        if reason := self._reason_against(text, page, entities):
            self.counts[reason] += 1
            return
        mentions: dict[str, list[_Mention]] = {}
        for entity in entities:
            if _ITEM.fullmatch(entity.item):
                mentions.setdefault(entity.item, []).append(entity)
        for item, found in mentions.items():
            names = [one.form for one in found if one.form.lower() not in _PRONOUNS]
            if not names:
                self.counts["entities without a name"] += 1
                continue
            properties = {"name": list(dict.fromkeys(names))}
            for predicate, values in facts.get(item, {}).items():
                properties.setdefault(predicate, []).extend(values)
            metadata = {"document": docid, "title": title, "page": page}
            yield Fragment.from_json(
                {
                    "id": f"{docid}-{item}",
                    "properties": properties,
                    "label": item,
                    "source": "rebel",
                    "metadata": {**metadata, "spans": self._spans(text, found)},
                },
                where,
            )

    def _reason_against(self, text: str, page: str, entities: Sequence[_Mention]) -> str:
        """Why a document is left out, or ""."""
        if text.endswith("refer to:"):
            return "documents that list meanings"
        if len(text) < self._min_text:
            return "documents too short"
        if not any(entity.item == page for entity in entities):
            return "documents without their own entity"
        return ""

    def _facts(self, triples: Sequence[object], where: str) -> dict[str, dict[str, list[str]]]:
        """{subject: {predicate: distinct values in order}}."""
        out: dict[str, dict[str, list[str]]] = {}
        for number, record in enumerate(triples):
            field = f"triples[{number}]"
            triple = object_of(record, where, field)
            subject, predicate, value = (
                _mention(triple.get(part), where, f"{field}.{part}")
                for part in ("subject", "predicate", "object")
            )
            allowed = self._relations
            wanted = not allowed or predicate.form in allowed or predicate.item in allowed
            label = predicate.form or predicate.item
            if label == "name":  # reserved for the surface forms
                label = predicate.item
            if wanted and label and value.form:
                values = out.setdefault(subject.item, {}).setdefault(label, [])
                if value.form not in values:
                    values.append(value.form)
        return out

    def _spans(self, text: str, mentions: Sequence[_Mention]) -> list[list[int]]:
        spans = []
        for mention in mentions:
            start = nearest(text, mention.form, mention.start)
            if start is None:
                self.counts["mentions not found in the text"] += 1
                continue
            if start != mention.start:
                self.counts["mentions realigned"] += 1
            spans.append([start, start + len(mention.form)])
        return spans


class _Mention(NamedTuple):
    """One mention of an entity: identifier, surface form, claimed start."""

    item: str
    form: str
    start: int


def _mention(record: object, where: str, field: str) -> _Mention:
    fields = object_of(record, where, field)
    item = text_in(fields, "uri", where, field, default="")
    form = text_in(fields, "surfaceform", where, field, default="").strip()
    bounds = fields.get("boundaries")
    if bounds is None:
        return _Mention(item, form, 0)
    good = isinstance(bounds, list) and len(bounds) == 2
    if not good or any(type(bound) is not int for bound in bounds):
        raise BadRecord(where, "two whole numbers", shown(bounds), f"{field}.boundaries")
    return _Mention(item, form, max(0, bounds[0]))


def _content(fragment: Fragment) -> bytes:
    """What makes a fragment a repeat: its entity and its properties, in any order."""
    properties = sorted((key, sorted(values)) for key, values in fragment.properties.items())
    return orjson.dumps([fragment.label, properties])


def _first_column(path: Path | None) -> frozenset[str]:
    if path is None:
        return frozenset()
    try:
        cells = [line.split(b"\t")[0].decode() for _, line in read_lines(str(path))]
    except UnicodeDecodeError as error:
        raise UsageError(f"relations_file {quoted(str(path), 400)}: {error.reason}") from error
    return frozenset(cells)


def _zip_members(path: str, wanted: Sequence[str]) -> Iterator[tuple[str, BinaryIO]]:
    """(name, stream) of each member to read."""
    try:
        archive = zipfile.ZipFile(path)
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise KBForgeError(f"cannot read {quoted(path, 400)}: {reason}") from error
    except zipfile.BadZipFile as error:
        raise KBForgeError(f"{quoted(path, 400)}: expected a zip file, got {error}") from error
    with archive:
        present = sorted(name for name in archive.namelist() if name.endswith(".jsonl"))
        missing = sorted(set(wanted) - set(present))
        if missing or not present:
            expected = f"{missing[0]} in it" if missing else "a .jsonl file in it"
            got = ", ".join(present) or "none"
            raise KBForgeError(f"{quoted(path, 400)}: expected {quoted(expected)}, got {got}")
        for name in wanted or present:
            try:
                member = archive.open(name)
            except (zipfile.BadZipFile, NotImplementedError, RuntimeError) as error:
                raise KBForgeError(f"{quoted(path, 400)}/{quoted(name)}: {error}") from error
            with member:
                yield name, stream_of(_chunks(member))


def _chunks(member: Any) -> Iterator[bytes]:
    """A member of a zip, whose damage is an OSError, as it is for every other stream."""
    try:
        yield from iter(partial(member.read, 1 << 20), b"")
    except (zipfile.BadZipFile, EOFError) as error:
        raise OSError(str(error) or "it ends too early") from error


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
        """Check a line."""
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

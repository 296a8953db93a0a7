"""Sources of mentions of entities in texts: the releases of REBEL and of TweetNERD.

*rebel*: JSON lines, each a Wikipedia abstract with mentions and triples, by the rules of MS-KeBAB,
the benchmark of the main paper:

1. A document is left out if its text ends in "refer to:", has fewer than `min_text` characters, or
   if the page's own entity is not among its mentions.
2. Each Wikidata item among the mentions gives one fragment, `docid-Qid`, in order of first mention.
   All its surface forms except pronouns become values of `name`; without any, the fragment is left
   out.
3. A triple adds predicate -> object to the fragment of its subject: the predicate's English label,
   and the object as written in the sentence ("Belgian" as well as "Belgium").
4. A repeat of an earlier fragment (same entity, same properties) is left out.

*tweetnerd*: a tab-separated file `tweet_id phrase start end entityId score`, without texts, which
come from a file of hydrated tweets (`tweets=FILE`: JSON lines with `id` or `tweet_id`, and `text`;
or two columns, tab-separated). Each row gives one fragment with the phrase as its `name` and the
Wikidata item as its label, unless it repeats another row or has `NO_ENTITY`. Mentions `NOT FOUND`
in Wikidata, or `AMBIGUOUS`, have no label (`unlinked=drop` leaves them out). A phrase that is not
in its tweet is a bad record; a mention whose tweet is missing keeps only its phrase.

`top=N` makes the main paper's clustering set: the distinct names of each of the N entities with the
most distinct names (ties go to the one with more mentions), one fragment per name, in order of
first mention. Tweets, and the names for `top`, are held in memory.

A sixth of REBEL's offsets are wrong, and TweetNERD's count UTF-16 code units: the spans in the
metadata are those of the occurrence nearest to the stated offset.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from operator import itemgetter
from typing import Any, Literal, NamedTuple

import orjson

from kbforge.contracts.fragment import Fragment, OnBad, Source
from kbforge.errors import BadRecord, UsageError, quoted
from kbforge.files.fragments import DigestSet, decoded, located_lines, parse_json, read_each, shown
from kbforge.files.io import called, read_lines
from kbforge_plugins.sources.values import list_in, object_of, text_in

_ITEM = re.compile(r"Q[1-9][0-9]*")
_PRONOUNS = frozenset({"it", "he", "she", "they", ""})


def nearest(text: str, form: str, start: int) -> int | None:
    """The start of the `form` nearest to `start` (ties go to the earlier); None if it does not
    occur."""
    if not form:
        return None
    before, after = text.rfind(form, 0, start + len(form)), text.find(form, start)
    found = [at for at in (before, after) if at >= 0]
    return min(found, key=lambda at: abs(at - start), default=None)


class RebelSource(Source):
    """REBEL's release, one document per line.

    Args:
        min_text: leave out documents with a shorter text.
        relations: keep only triples with these predicates (labels or P-ids); empty keeps all.
        dedupe: leave out repeats of an earlier fragment. This costs about 16 bytes of memory per
            fragment; without it memory is constant.

    """

    def __init__(
        self, min_text: int = 100, relations: list[str] | None = None, dedupe: bool = True
    ) -> None:
        self._min_text, self._relations, self._dedupe = min_text, set(relations or ()), dedupe

    def read(self, inputs: Sequence[str], on_bad: OnBad) -> Iterator[Fragment]:
        """Yield one fragment for each entity of each document."""
        self.counts.clear()
        seen = DigestSet()
        for path in inputs:
            lines = located_lines(path, on_bad)
            for fragments in read_each(lines, self._document, itemgetter(1), on_bad):
                for fragment in fragments:
                    if not self._dedupe or seen.add(_content(fragment)):
                        yield fragment
                    else:
                        self.counts["repeated fragments"] += 1

    def _document(self, located: tuple[str, bytes]) -> list[Fragment]:
        self.where, line = located
        return list(self._fragments(parse_json(line, self.where), self.where))

    def _fragments(self, record: object, where: str) -> Iterator[Fragment]:
        """The fragments of a document, in order of first mention."""
        document = object_of(record, where, "")
        number = document.get("docid")
        docid = str(number) if type(number) is int else text_in(document, "docid", where, "")
        if not docid:
            raise BadRecord(where, "a non-empty string", "an empty one", "docid")
        title, page = (text_in(document, key, where, "", default="") for key in ("title", "uri"))
        text = text_in(document, "text", where, "")
        entities = list_in(document, "entities", where)
        mentions: dict[str, list[_Mention]] = {}
        for i, entity in enumerate(entities):
            mention = _mention(entity, where, f"entities[{i}]")
            mentions.setdefault(mention.item, []).append(mention)
        facts = self._facts(list_in(document, "triples", where), where)
        self.counts["documents"] += 1
        if text.endswith("refer to:"):
            self.counts["documents that list meanings"] += 1
        elif len(text) < self._min_text:
            self.counts["documents too short"] += 1
        elif page not in mentions:
            self.counts["documents without their own entity"] += 1
        else:
            about = {"document": docid, "title": title, "page": page}
            for item in filter(_ITEM.fullmatch, mentions):
                forms = dict.fromkeys(one.form for one in mentions[item])
                names = [form for form in forms if form.lower() not in _PRONOUNS]
                if not names:
                    self.counts["entities without a name"] += 1
                    continue
                properties = {"name": names, **facts.get(item, {})}
                metadata = {**about, "spans": self._spans(text, mentions[item])}
                yield _fragment(f"{docid}-{item}", properties, item, "rebel", metadata, where)

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
            wanted = not self._relations or not self._relations.isdisjoint(predicate[:2])
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
    if not (isinstance(bounds, list) and [type(bound) for bound in bounds] == [int, int]):
        raise BadRecord(where, "two whole numbers", shown(bounds), f"{field}.boundaries")
    return _Mention(item, form, max(0, bounds[0]))


def _fragment(
    id: str, properties: Any, label: str | None, source: str, metadata: Any, where: str
) -> Fragment:
    record = {"id": id, "properties": properties, "label": label, "source": source}
    return Fragment.from_json({**record, "metadata": metadata}, where)


def _content(fragment: Fragment) -> bytes:
    """The key of repeated fragments: entity and properties, in any order."""
    properties = sorted((key, sorted(values)) for key, values in fragment.properties.items())
    return orjson.dumps([fragment.label, properties])


_FIELDS = "tweet_id, phrase, start, end, entityId and score"
_UNLINKED = {"NOT FOUND": "not-found", "AMBIGUOUS": "ambiguous"}
_NO_ENTITY = "NO_ENTITY"


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

    def read(self, inputs: Sequence[str], on_bad: OnBad) -> Iterator[Fragment]:
        """Yield one fragment per annotated phrase or, with `top`, per distinct name."""
        self.counts.clear()
        texts = None if self._tweets is None else _texts_of(self._tweets, on_bad)
        fragments = self._mentions(inputs, texts, on_bad)
        yield from fragments if self._top is None else self._largest(fragments, self._top)

    def _mentions(
        self, inputs: Sequence[str], texts: Mapping[str, str] | None, on_bad: OnBad
    ) -> Iterator[Fragment]:
        seen = DigestSet()
        for path in inputs:
            for number, line in read_lines(path, on_bad):
                self.where = f"{called(path)}:{number}"
                if number == 1 and line.startswith(b"tweet_id\t"):
                    continue
                try:
                    fragment = self._annotated(_row(line, self.where), texts)
                except BadRecord as error:
                    on_bad(error, line)
                    continue
                if fragment is not None and seen.add(line):
                    yield fragment
                elif fragment is not None:
                    self.counts["repeated rows"] += 1

    def _annotated(self, row: _Row, texts: Mapping[str, str] | None) -> Fragment | None:
        if row.entity == _NO_ENTITY:
            self.counts["tweets without an entity"] += 1
            return None
        if row.entity in _UNLINKED and self._unlinked == "drop":
            self.counts["unlinked mentions"] += 1
            return None
        metadata: dict[str, object] = {"tweet": row.tweet, "score": row.score}
        text = None if texts is None else texts.get(row.tweet)
        if text is not None:
            metadata |= {"text": text, "span": self._span(row, text)}
        elif texts is not None:
            self.counts["mentions without their tweet"] += 1
        id = f"{row.tweet}-{row.start}-{row.end}-{_UNLINKED.get(row.entity, row.entity)}"
        label = None if row.entity in _UNLINKED else row.entity
        return _fragment(id, {"name": [row.phrase]}, label, "tweetnerd", metadata, self.where)

    def _span(self, row: _Row, text: str) -> list[int]:
        """The characters of the phrase in its tweet."""
        start, end = (
            # so many characters lie before an offset in UTF-16 code units
            len(text.encode("utf-16-be")[: 2 * units].decode("utf-16-be", "ignore"))
            for units in (row.start, row.end)
        )
        found = nearest(text, row.phrase, start)
        if found is None:
            got = f'"{quoted(text, 60)}"'
            raise BadRecord(self.where, f'a tweet with "{quoted(row.phrase)}" in it', got, "phrase")
        span = [found, found + len(row.phrase)]
        if span != [start, end]:
            self.counts["mentions realigned"] += 1
        return span

    def _largest(self, fragments: Iterator[Fragment], top: int) -> Iterator[Fragment]:
        """One fragment for each distinct name of the N largest entities."""
        mentions: Counter[tuple[str, str]] = Counter()  # in order of the first of each name
        for fragment in fragments:
            if fragment.label is None:
                self.counts["unlinked mentions"] += 1
            else:
                mentions[fragment.label, fragment.names[0]] += 1
        names, total, place = (Counter[str]() for _ in range(3))
        for (entity, _), n in mentions.items():
            names[entity] += 1
            total[entity] += n
        largest = {*sorted(names, key=lambda e: (-names[e], -total[e], e))[:top]}
        for (entity, name), n in mentions.items():
            if entity in largest:
                place[entity] += 1
                id, metadata = f"{entity}-{place[entity]}", {"mentions": n}
                where = f"tweetnerd {entity}"
                yield _fragment(id, {"name": [name]}, entity, "tweetnerd", metadata, where)


class _Row(NamedTuple):
    """One line of the release."""

    tweet: str
    phrase: str
    start: int
    end: int
    entity: str
    score: int


def _row(line: bytes, where: str) -> _Row:
    cells = [cell.strip(" ") for cell in decoded(line, where).split("\t")]
    if len(cells) != 6:
        raise BadRecord(where, f"6 tab-separated fields ({_FIELDS})", f"{len(cells)}")
    tweet, phrase, _, _, entity, _ = cells
    if not (tweet.isascii() and tweet.isdigit()):
        raise BadRecord(where, "a number", f'"{quoted(tweet)}"', "tweet_id")
    linked = entity[:1] == "Q" and entity[1:].isascii() and entity[1:].isdigit()
    if not (linked or entity in _UNLINKED or entity == _NO_ENTITY):
        expected = "a Wikidata item, NOT FOUND, AMBIGUOUS or NO_ENTITY"
        raise BadRecord(where, expected, f'"{quoted(entity)}"', "entityId")
    for field, cell in zip(("start", "end", "score"), (cells[2], cells[3], cells[5]), strict=True):
        digits = cell.removeprefix("-")
        if not (digits.isascii() and digits.isdigit() and len(digits) < 10):
            raise BadRecord(where, "a whole number", f'"{quoted(cell)}"', field)
    row = _Row(tweet, phrase, int(cells[2]), int(cells[3]), entity, int(cells[5]))
    if entity != _NO_ENTITY and not phrase:
        raise BadRecord(where, "a non-empty string", "an empty one", "phrase")
    if entity != _NO_ENTITY and not 0 <= row.start < row.end:
        raise BadRecord(where, "0 <= start < end", f"{row.start} and {row.end}", "start")
    return row


def _texts_of(path: str, on_bad: OnBad) -> dict[str, str]:
    """The texts of hydrated tweets; the first one with an id counts."""
    texts: dict[str, str] = {}
    for tweet, text in read_each(located_lines(path, on_bad), _tweet, itemgetter(1), on_bad):
        texts.setdefault(tweet, text)
    return texts


def _tweet(located: tuple[str, bytes]) -> tuple[str, str]:
    where, line = located
    if not line.lstrip().startswith(b"{"):
        tweet, *others = decoded(line, where).split("\t")
        if len(others) != 1:
            expected = "a JSON object, or a tweet's id and text with a tab between"
            raise BadRecord(where, expected, f'"{quoted(tweet, 40)}"')
        return tweet, others[0]
    record = parse_json(line, where)
    key = record.get("tweet_id", record.get("id_str", record.get("id")))
    if isinstance(key, bool) or not isinstance(key, str | int):
        raise BadRecord(where, "the tweet's number", shown(key), "tweet_id")
    text = record.get("text", record.get("full_text"))
    if not isinstance(text, str):
        raise BadRecord(where, "the tweet's text", shown(text), "text")
    return str(key), text

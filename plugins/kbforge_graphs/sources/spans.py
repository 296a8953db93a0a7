"""Turns spans of a text into fragments; the shared code of sources of recognised entities.

A recogniser marks spans of a text and gives each a type. Spans of one text with the same words and
the same type are one entity there, and each entity of each text gives one fragment:

| attribute | values |
|---|---|
| name | the words, with single blanks |
| type | the type |
| neighbour | names of other entities of the text: related ones, then the nearest, ten at most |

The id consists of the file's name, the text's number and the entity's: `news-3#1`. Metadata have
the spans (characters of the text), the passage around the first one, if the text is known, and the
relations as [head, type, tail].
"""

from __future__ import annotations

from abc import abstractmethod
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import NamedTuple

from kbforge.contracts import Fragment, OnBad, Source
from kbforge.contracts.fragment import ROW
from kbforge.errors import BadRecord, counted, quoted
from kbforge.files.fragments import shown
from kbforge.files.io import called
from kbforge_plugins.sources.rows import TableName, table_name

_MOST_NEIGHBOURS = 10
_BEFORE = 200  # characters of the passage before and behind a span


class Span(NamedTuple):
    """One mention: characters `start` to `end` (exclusive), words, type and gold entity."""

    start: int
    end: int
    words: str
    type: str
    label: str | None = None


class AnnotatedText(NamedTuple):
    """A text and the entities recognised in it; the text is "" if it is unknown."""

    number: int
    where: str
    raw: bytes
    text: str
    spans: Sequence[Span]
    relations: Sequence[tuple[Span, str, Span]] = ()  # head, type and tail


@dataclass
class _Entity:
    name: str
    type: str
    spans: list[Span] = field(default_factory=list)
    related: list[str] = field(default_factory=list)
    relations: list[list[str]] = field(default_factory=list)


class SpanSource(Source):
    """A reader of annotated texts; subclasses read a format."""

    @abstractmethod
    def texts(self, path: str, on_bad: OnBad) -> Iterator[AnnotatedText]:
        """Yield the texts of an input.

        Raises:
            KBForgeError: an input that cannot be opened or is not of this format.
            BadRecord: a bad record, if `on_bad` raises it.

        """

    def read(self, inputs: Sequence[str], on_bad: OnBad) -> Iterator[Fragment]:
        """Yield one fragment for each entity in each text."""
        self.counts.clear()
        self.taken.clear()
        names, stems = Counter[str](), Counter[str]()
        for path in inputs:
            texts = spans = 0
            table = table_name(path, names, stems)
            for text in self.texts(path, on_bad):
                self.where = text.where
                try:
                    fragments = list(_fragments(text, table))
                except BadRecord as error:
                    on_bad(error, text.raw)
                    continue
                texts += 1
                spans += len(text.spans)
                yield from fragments
            found = f"{counted(texts, 'text')}, {counted(spans, 'mention')}"
            self.taken.append(f"{quoted(called(path), 400)}: {found}")


def span_of(fields: object, where: str, path: str) -> tuple[int, int]:
    """The `start` and `end` of a span, checked; `path` names it in errors."""
    start, end = (fields.get(k) if isinstance(fields, dict) else None for k in ("start", "end"))
    if type(start) is int and type(end) is int and 0 <= start < end:
        return start, end
    got = f"{shown(start)} and {shown(end)}" if isinstance(fields, dict) else shown(fields)
    raise BadRecord(where, "whole numbers 0 <= start < end", got, path)


def words_at(text: str, start: int, end: int, where: str, path: str) -> str:
    """The words of a span of a text; there must be some."""
    words = " ".join(text[start:end].split())
    if end > len(text) or not words:
        got = f"{start} to {end} of {len(text):,} characters"
        raise BadRecord(where, "a span of the text with words in it", got, path)
    return words


def _fragments(text: AnnotatedText, table: TableName) -> Iterator[Fragment]:
    entities = _entities(text)
    for number, entity in enumerate(entities, 1):
        properties = {"name": [entity.name]}
        if entity.type:
            properties["type"] = [entity.type]
        if neighbours := _neighbours(number - 1, entities):
            properties["neighbour"] = neighbours
        spans = [[span.start, span.end] for span in entity.spans]
        metadata: dict[str, object] = {ROW: text.number, "spans": spans}
        if text.text:
            metadata["text"] = _passage(text.text, entity.spans[0])
        if entity.relations:
            metadata["relations"] = entity.relations
        labels = {span.label for span in entity.spans}
        record = {
            "id": f"{table.stem}-{text.number}#{number}",
            "properties": properties,
            # mentions of two gold entities with the same words have none
            "label": labels.pop() if len(labels) == 1 else None,
            "source": table.name,
            "metadata": metadata,
        }
        yield Fragment.from_json(record, text.where)


def _entities(text: AnnotatedText) -> list[_Entity]:
    """The entities of a text, in order of their first spans, with their relations."""
    found: dict[tuple[str, str], _Entity] = {}

    def entity_of(span: Span) -> _Entity:
        return found.setdefault((span.words, span.type), _Entity(span.words, span.type))

    ends = [end for head, _, tail in text.relations for end in (head, tail)]
    for span in sorted({*text.spans, *ends}, key=lambda span: span[:2]):
        entity_of(span).spans.append(span)
    for head, kind, tail in text.relations:
        pair = entity_of(head), entity_of(tail)
        for entity, other in (pair, pair[::-1]):
            entity.related.append(other.name)
            stated = [head.words, kind, tail.words]
            if stated not in entity.relations:
                entity.relations.append(stated)
    return list(found.values())


def _neighbours(place: int, entities: Sequence[_Entity]) -> list[str]:
    """The names of other entities: related ones, then the nearest."""
    near = max(0, place - _MOST_NEIGHBOURS), place + _MOST_NEIGHBOURS
    around = zip_longest(entities[place + 1 : near[1] + 1], entities[near[0] : place][::-1])
    names = [*entities[place].related, *(one.name for two in around for one in two if one)]
    others = (name for name in names if name != entities[place].name)
    return list(dict.fromkeys(others))[:_MOST_NEIGHBOURS]


def _passage(text: str, span: Span) -> str:
    """The words around a span, cut between words."""
    first, last = max(0, span.start - _BEFORE), min(len(text), span.end + _BEFORE)
    if first:
        cut = text.find(" ", first, span.start)
        first = cut + 1 if cut >= 0 else span.start
    if last < len(text):
        cut = text.rfind(" ", span.end, last)
        last = cut if cut >= 0 else span.end
    return text[first:last].strip()

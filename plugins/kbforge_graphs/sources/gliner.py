"""The gliner source: entities and relations that GLiNER finds in texts.

GLiNER returns a list of entities for each text: objects with `start`, `end`, `text`, `label` and
`score`, and for relations `head`, `tail` and `relation`. The source reads files in these forms: an
array of such lists, one such list, a list per line, or objects with the key `entities` and
optionally `relations` and `text`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import groupby
from typing import Any

from kbforge.contracts import OnBad
from kbforge.errors import BadRecord
from kbforge.files.fragments import shown
from kbforge_graphs.sources.spans import AnnotatedText, Span, SpanSource, span_of, words_at
from kbforge_plugins.sources.values import (
    JsonValue,
    json_values,
    list_in,
    object_of,
    read_values,
    text_in,
)


class GlinerSource(SpanSource):
    """GLiNER's entities and relations.

    Args:
        min_score: leave out entities and relations with a lower score.

    """

    def __init__(self, min_score: float = 0.0) -> None:
        self._min_score = min_score

    def texts(self, path: str, on_bad: OnBad) -> Iterator[AnnotatedText]:
        return read_values(_by_text(json_values(path, on_bad)), self._text, on_bad)

    def _text(self, value: JsonValue) -> AnnotatedText:
        where, held = value.where, value.value
        text, records = "", held
        if isinstance(held, dict):
            text = text_in(held, "text", where, "", "")
            entities = list_in(held, "entities", where)
            records = entities + (list_in(held, "relations", where) if "relations" in held else [])
        elif not isinstance(held, list):
            raise BadRecord(where, "a list of entities", shown(held))
        spans, relations = [], []
        for number, one in enumerate(records):
            path = f"[{number}]"
            record = object_of(one, where, path)
            if not self._is_sure(record, where, path):
                continue
            if "head" in record:
                ends = (_span(record.get(end), where, f"{path}.{end}") for end in ("head", "tail"))
                head, tail = ends
                kind = text_in(record, "relation", where, path)
                relations.append((head, kind, tail))
            else:
                spans.append(_span(record, where, path))
        return AnnotatedText(value.number, where, value.raw, text, spans, relations)

    def _is_sure(self, record: Mapping[str, Any], where: str, path: str) -> bool:
        score = record.get("score", 1.0)
        if isinstance(score, bool) or not isinstance(score, int | float):
            raise BadRecord(where, "a number", shown(score), f"{path}.score")
        if score < self._min_score:
            self.counts["entities and relations below min_score"] += 1
            return False
        return True


def _by_text(values: Iterator[JsonValue]) -> Iterator[JsonValue]:
    """Values that hold a text each; entities without a text belong to the text of their array."""
    for outer, group in groupby(values, key=lambda value: value.outer):
        alone: list[JsonValue] = []
        for value in group:
            fields = value.value
            if isinstance(fields, dict) and "entities" not in fields:
                alone.append(value)
            else:
                yield value
        if alone:
            raw = b"[" + b", ".join(value.raw for value in alone) + b"]"
            yield JsonValue(outer, alone[0].where, raw, [one.value for one in alone], outer)


def _span(value: object, where: str, path: str) -> Span:
    entity = object_of(value, where, path)
    start, end = span_of(entity, where, path)
    text = text_in(entity, "text", where, path)
    words = words_at(text, 0, len(text), where, f"{path}.text")
    # the ends of relations have their type under another name than entities
    kind = text_in(entity, "type" if "type" in entity else "label", where, path, "")
    return Span(start, end, words, kind)

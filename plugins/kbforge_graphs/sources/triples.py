"""The triples source: head, relation and tail in each row, object or line.

- *csv*: columns of these names, and `context` if it is there. The option `columns` names those of a
  file without a header.
- *json*: objects with these keys, one per line or in an array. An array of arrays has one for each
  text. Of CoreNLP's JSON, `openie` of each sentence is read; a sentence is a text unit.
- *nt*: N-Triples, or N-Quads, whose graph is the context.

The extension of the file implies the format, unless the option `format` names it. A context is the
id of a text unit, or its text, whose digest becomes the id. Without a context all triples of a file
are one text unit, and entities with equal names one fragment. Triples whose head or tail is a
placeholder, such as NONE, are left out and counted.

In RDF an entity is named by its `label`, `prefLabel` or `name`, otherwise by the last part of its
IRI; `rdf:type` is its type, other literals are attributes. Triples of one subject must be adjacent
to form one record.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from hashlib import blake2b
from itertools import groupby
from operator import itemgetter
from typing import Any, ClassVar, Literal, TypeAlias
from urllib.parse import unquote

import orjson

from kbforge.contracts import OnBad
from kbforge.errors import BadRecord, UsageError, option, quoted
from kbforge.files.fragments import decoded, located_lines, read_each, shown
from kbforge.files.io import called
from kbforge.registry import ending_of
from kbforge_graphs.sources.graphs import GraphEntity, GraphSource, Record, Relation, said
from kbforge_plugins.sources.csv import UTF8, CsvSource, encoding_named
from kbforge_plugins.sources.jsonl import JsonlSource
from kbforge_plugins.sources.rows import table_name
from kbforge_plugins.sources.values import JsonValue, json_values, list_in, object_of, read_values

_RDF = (".nt", ".nq")
_LONGEST_ID = 64  # characters; a longer context is the text itself
_OPENIE = {"head": "subject", "relation": "relation", "tail": "object"}
_NOTHING = "triples without a head or a tail"


class TriplesSource(GraphSource):
    """Triples of entities and relations.

    Args:
        head: column or key of the first entity.
        relation: column or key of the relation.
        tail: column or key of the second entity.
        context: column or key of the text unit.
        columns: names of the columns of a csv file without a header line.
        format: csv, json or nt; the default is what the file's extension says.
        delimiter: character between the columns of a csv file, or tab; the default is detected.
        encoding: encoding of a csv or json file; the default is detected.

    """

    endings: ClassVar = _RDF
    ends_only: ClassVar = True

    def __init__(
        self,
        head: str = "head",
        relation: str = "relation",
        tail: str = "tail",
        context: str = "context",
        columns: list[str] | None = None,
        format: Literal["csv", "json", "nt"] | None = None,
        delimiter: str | None = None,
        encoding: str | None = None,
    ) -> None:
        self._keys = {"head": head, "relation": relation, "tail": tail, "context": context}
        self._format = format
        wanted = [f"{self._keys[part]}={part}" for part in ("head", "relation", "tail")]
        self._table = CsvSource(
            id=None, map=wanted, null=(), delimiter=delimiter, encoding=encoding, columns=columns
        )
        self._encoding = encoding_named(encoding or UTF8)

    def records(self, path: str, on_bad: OnBad) -> Iterator[Record]:
        match self._format or _format_of(path):
            case "csv":
                yield from self._rows(path, on_bad)
            case "json":
                yield from self._objects(path, on_bad)
            case _:
                yield from _statements(path, on_bad)

    def name_of(self, key: str) -> str:
        return _local_name(key) if "://" in key or key.startswith("urn:") else key

    def _rows(self, path: str, on_bad: OnBad) -> Iterator[Record]:
        context = self._keys["context"]
        for row in self._table.read([path], on_bad):
            of_row = {part: values[0] for part, values in row.properties.items()}
            fields = {part: of_row.get(part) for part in ("head", "relation", "tail")}
            parts = {**fields, "context": of_row.get(context)}
            yield from self._relation(parts, "", self._table.where, on_bad, fields)

    def _objects(self, path: str, on_bad: OnBad) -> Iterator[Record]:
        stem = table_name(path, Counter(), Counter()).stem
        values = json_values(path, on_bad, self._encoding)
        for triples in read_values(values, lambda value: list(_triples(value, stem)), on_bad):
            for where, unit, keys, fields in triples:
                parts = {part: fields.get(key) for part, key in (keys or self._keys).items()}
                yield from self._relation(parts, unit, where, on_bad, fields)

    def _relation(
        self,
        parts: Mapping[str, Any],
        unit: str,
        where: str,
        on_bad: OnBad,
        raw: Mapping[str, Any],
    ) -> Iterator[Relation]:
        """The relation of a triple, if it has one; `unit` is its text unit, unless it has a
        context."""
        try:
            texts = {part: _plain(value, where, part) for part, value in parts.items()}
        except BadRecord as error:
            on_bad(error, orjson.dumps(raw))
            return
        if not (said(texts["head"]) and said(texts["tail"])):
            self.counts[_NOTHING] += 1
            return
        unit = _unit_id(texts.get("context", "")) or unit
        units = [unit] if unit else ()
        yield Relation(texts["head"], texts["tail"], units, texts["relation"], place=where)


def _format_of(path: str) -> str:
    ending = ending_of(path)
    for name, endings in (("csv", CsvSource.endings), ("json", JsonlSource.endings), ("nt", _RDF)):
        if ending in endings:
            return name
    raise UsageError(
        f"{quoted(called(path), 400)}: the extension does not imply how its triples are written; "
        f"{option('source.format', 'csv')}, json or nt does"
    )


def _triples(
    value: JsonValue, stem: str
) -> Iterator[tuple[str, str, Mapping[str, str] | None, Mapping[str, Any]]]:
    """(where, text unit, keys unless they are those of the options, fields) of each triple."""
    where, unit = value.where, f"{stem}-{value.number}"
    if isinstance(value.value, list):
        for number, one in enumerate(value.value):
            yield where, unit, None, object_of(one, where, f"[{number}]")
        return
    record = object_of(value.value, where, "")
    if "sentences" not in record:
        yield where, "", None, record
        return
    for number, one in enumerate(list_in(record, "sentences", where)):
        sentence = object_of(one, where, f"sentences[{number}]")
        for triple in list_in(sentence, "openie", where):
            fields = object_of(triple, where, "openie")
            yield where, f"{unit}.{number + 1}", _OPENIE, fields


def _plain(value: object, where: str, part: str) -> str:
    if value is None:
        return ""
    if isinstance(value, bool | list | dict):
        raise BadRecord(where, "a text", shown(value), part)
    return " ".join(str(value).split())


def _unit_id(context: str) -> str:
    if len(context) <= _LONGEST_ID:
        return context
    return blake2b(context.encode(errors="replace"), digest_size=16).hexdigest()


_IRI = r'<([^<>"{}|^`\x00-\x20]*)>'
_BLANK = r"(_:[^\s<>\"]+)"
_LITERAL = r'"((?:[^"\\]|\\.)*)"(?:\^\^<[^<>\s]*>|@[A-Za-z0-9-]+)?'
_STATEMENT = re.compile(
    rf"\s*(?:{_IRI}|{_BLANK})\s*{_IRI}\s*(?:{_IRI}|{_BLANK}|{_LITERAL})\s*(?:{_IRI}|{_BLANK})?"
    r"\s*\.\s*(?:#.*)?"
)
_ESCAPE = re.compile(r"\\(?:u([0-9A-Fa-f]{4})|U([0-9A-Fa-f]{8})|(.))")
_PLAIN = {"t": "\t", "b": "\b", "n": "\n", "r": "\r", "f": "\f", '"': '"', "'": "'", "\\": "\\"}
_TYPE = "http://www.w3.org/1999/02/22-rdf-syntax-ns#type"
_NAMES = ("label", "prefLabel", "name")


_Statement: TypeAlias = tuple[str, str, str | None, str, str, str]
"""Subject, predicate, entity or else literal, graph and place of a statement of RDF."""


def _statements(path: str, on_bad: OnBad) -> Iterator[Record]:
    lines = (one for one in located_lines(path, on_bad) if not one[1].lstrip().startswith(b"#"))
    parsed = read_each(lines, _statement, itemgetter(1), on_bad)
    for (subject, graph), group in groupby(parsed, key=itemgetter(0, 4)):
        units = [graph] if graph else ()
        literals: dict[str, list[str]] = {}
        types, where = [], ""
        for _, predicate, entity, literal, _, place in group:
            where = where or place
            attribute = _local_name(predicate)
            if predicate == _TYPE:
                types.append(_local_name(entity or literal))
            elif entity is None:
                literals.setdefault(attribute, []).append(literal)
            else:
                yield Relation(subject, entity, units, attribute, place=place)
        if not (literals or types):
            continue
        names = [name for key in _NAMES for name in literals.pop(key, [])]
        if names[1:]:
            literals.setdefault("other name", []).extend(names[1:])
        if types[1:]:
            literals.setdefault("other type", []).extend(types[1:])
        name = names[0] if names else _local_name(subject)
        kind = types[0] if types else ""
        yield GraphEntity(subject, name, units, kind, properties=literals, place=where)


def _statement(located: tuple[str, bytes]) -> _Statement:
    where, line = located
    match = _STATEMENT.fullmatch(decoded(line, where))
    if match is None:
        expected = "a statement of N-Triples, such as <subject> <predicate> <object> ."
        raise BadRecord(where, expected, quoted(line.decode(), 60))
    terms = [None if term is None else _unescaped(term, where) for term in match.groups()]
    subject, predicate, entity = terms[0] or terms[1] or "", terms[2] or "", terms[3] or terms[4]
    literal = " ".join((terms[5] or "").split())
    if entity is None and not literal:
        raise BadRecord(where, "a literal with text in it", "an empty one")
    return subject, predicate, entity, literal, terms[6] or terms[7] or "", where


def _unescaped(term: str, where: str) -> str:
    def character(match: re.Match[str]) -> str:
        code = match[1] or match[2]
        try:
            return chr(int(code, 16)) if code else _PLAIN[match[3]]
        except (KeyError, ValueError, OverflowError):
            raise BadRecord(where, "an escape of N-Triples", quoted(match[0])) from None

    return _ESCAPE.sub(character, term)


def _local_name(iri: str) -> str:
    """The last part of an IRI, as words; the whole of it if that is empty."""
    last = re.split(r"[#/:]", iri.rstrip("#/:"))[-1]
    return " ".join(unquote(last).replace("_", " ").split()) or iri

"""The wikidata source: entities from JSON dumps of Wikidata or another Wikibase.

A dump is one array with one entity per line; it is read line by line, compressed or not. Files with
one entity (Special:EntityData) and JSON lines are read too. Each entity gives one fragment, and its
id is also the fragment's label:

| attribute | values |
|---|---|
| name | labels, then aliases, in the chosen languages; of a lexeme its lemmas |
| description | descriptions in the chosen languages |
| any other | values of a chosen property, under its id or a name of your own |

- Statements count as in Wikidata's own "truthy" dumps: those of the preferred rank if there are
  any, else those of the normal rank. Unknown values and "no value" are left out.
- An entity as a value is its id (Q42), because its label is elsewhere in the dump. A date has the
  digits that its precision allows: 1952-03-11, 1952-03, 1952, 195X for a decade, 19XX for a
  century. A quantity is its number without the unit, a place `latitude,longitude`.
- The qualifiers start time, end time and point in time say when statements hold
  (`kbforge.kb.times`).
- Old dumps have an empty list where an empty object is meant, and numbers of entities without ids.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any

from kbforge.contracts import Fragment, OnBad, Source
from kbforge.contracts.fragment import TIMES
from kbforge.errors import BadRecord, UsageError, option, quoted
from kbforge.files.fragments import shown
from kbforge_plugins.sources.values import (
    JsonValue,
    json_values,
    list_in,
    object_of,
    read_values,
    text_in,
)

_PROPERTY = re.compile("P[1-9][0-9]*")
_LETTERS = {"item": "Q", "property": "P", "lexeme": "L"}
_TIME = re.compile(r"([+-])0*(\d{4,})-(\d\d)-(\d\d)T[\d:]+Z")
_QUALIFIERS = ("P580", "P582", "P585")  # start time, end time, point in time
_YEAR, _MONTH, _DAY = 9, 10, 11  # Wikibase's numbers of precisions
_ROUNDED = {8: 1, 7: 2}  # decade and century: how many digits of the year are unknown


class WikidataSource(Source):
    """Wikidata's JSON dumps.

    Args:
        languages: codes of the languages of names and descriptions; empty for all. `mul` holds
            names that are the same in all languages.
        claims: properties to take as attributes, such as P31 or P569=born.
        types: kinds of entities to read: item, property, lexeme; empty for all.

    """

    def __init__(
        self,
        languages: tuple[str, ...] = ("en", "mul"),
        claims: list[str] | None = None,
        types: tuple[str, ...] = ("item",),
    ) -> None:
        self._languages = tuple(filter(None, languages))
        self._types = frozenset(filter(None, types))
        self._claims: dict[str, str] = {}
        for claim in claims or ():
            number, _, attribute = claim.partition("=")
            if not _PROPERTY.fullmatch(number):
                expected = "expected properties such as P31 or P569=born"
                raise UsageError(f'claims: {expected}, got "{quoted(claim)}"')
            self._claims[number] = attribute or number

    def read(self, inputs: Sequence[str], on_bad: OnBad) -> Iterator[Fragment]:
        """Yield one fragment per entity."""
        self.counts.clear()
        for path in inputs:
            for fragments in read_values(json_values(path, on_bad), self._fragments, on_bad):
                yield from filter(None, fragments)

    def _fragments(self, value: JsonValue) -> list[Fragment | None]:
        self.where = value.where
        return [self._fragment(one, self.where) for one in _entities(value.value, self.where)]

    def _fragment(self, entity: Mapping[str, Any], where: str) -> Fragment | None:
        number, kind = (text_in(entity, key, where, "") for key in ("id", "type"))
        if self._types and kind not in self._types:
            kinds = "properties" if kind == "property" else f"{quoted(kind, 40)}s"
            self.counts[f"{kinds} left out (see {option('source.types')})"] += 1
            return None
        properties: dict[str, list[str]] = {}
        times: dict[str, dict[str, list[list[str]]]] = {}
        names = self._texts(entity, "lemmas" if "lemmas" in entity else "labels", where)
        for attribute, values in (
            ("name", [*names, *self._texts(entity, "aliases", where)]),
            ("description", [*self._texts(entity, "descriptions", where)]),
            *self._statements(entity, where, times),
        ):
            if values:
                values = [*properties.get(attribute, []), *values]
                properties[attribute] = list(dict.fromkeys(values))
        if not properties:
            told = f"see {option('source.languages')} and source.claims"
            self.counts[f"entities without a name, description or chosen claim ({told})"] += 1
            return None
        record: dict[str, Any] = {"id": number, "properties": properties, "label": number}
        record |= {"source": "wikidata"} | ({"metadata": {TIMES: times}} if times else {})
        return Fragment.from_json(record, where)

    def _texts(self, entity: Mapping[str, Any], key: str, where: str) -> Iterator[str]:
        """The texts of labels, aliases or descriptions, in the order of the chosen languages."""
        held = _map(entity, key, where)
        for language in self._languages or held:
            if language in held:
                field = f"{key}.{quoted(language, 40)}"
                texts = held[language] if isinstance(held[language], list) else [held[language]]
                for one in texts:
                    text = text_in(object_of(one, where, field), "value", where, field).strip()
                    if text:
                        yield text

    def _statements(
        self, entity: Mapping[str, Any], where: str, times: dict[str, dict[str, list[list[str]]]]
    ) -> Iterator[tuple[str, list[str]]]:
        """(attribute, values) of each chosen property; their times are added to `times`."""
        held = _map(entity, "claims", where)
        for number, attribute in self._claims.items():
            field = f"claims.{number}"
            statements = held.get(number, [])
            if not isinstance(statements, list):
                raise BadRecord(where, "a list", shown(statements), field)
            by_rank: dict[str, list[tuple[str, list[str]]]]
            by_rank = {"preferred": [], "normal": [], "deprecated": []}
            for one in statements:
                statement = object_of(one, where, field)
                rank = text_in(statement, "rank", where, field, "normal")
                if rank not in by_rank:
                    raise BadRecord(where, "preferred, normal or deprecated", quoted(rank), field)
                snak = object_of(statement.get("mainsnak"), where, f"{field}.mainsnak")
                held_then = self._times(statement, where)
                values = self._values(snak, where, f"{field}.mainsnak")
                by_rank[rank] += ((value, held_then) for value in values)
            taken = by_rank["preferred"] or by_rank["normal"]
            for value, held_then in taken:
                if any(held_then):
                    times.setdefault(attribute, {}).setdefault(value, []).append(held_then)
            yield attribute, [value for value, _ in taken]

    def _times(self, statement: Mapping[str, Any], where: str) -> list[str]:
        """The begin and the end of a statement; "" if unknown."""
        stated, found = _map(statement, "qualifiers", where), list[str]()
        for number in _QUALIFIERS:
            snaks = list_in(stated, number, where) if number in stated else []
            known = (self._values(object_of(one, where, number), where, number) for one in snaks)
            found.append(next(chain.from_iterable(known), ""))
        begin, end, at = found
        return [begin or at, end]

    def _values(self, snak: Mapping[str, Any], where: str, field: str) -> Iterator[str]:
        if text_in(snak, "snaktype", where, field) != "value":
            return
        field = f"{field}.datavalue"
        held = object_of(snak.get("datavalue"), where, field)
        kind = text_in(held, "type", where, field)
        text_of = _TEXTS.get(kind)
        if text_of is None:
            self.counts[f'values of the type "{quoted(kind, 40)}" left out'] += 1
            return
        try:
            text = text_of(held.get("value")).strip()
        except (KeyError, TypeError, AttributeError, ValueError):
            got = shown(held.get("value"))
            raise BadRecord(where, f"a value of the type {kind}", got, f"{field}.value") from None
        if text:
            yield text


def _entities(value: object, where: str) -> Iterator[Mapping[str, Any]]:
    """The entities of a record: itself, or those inside a Special:EntityData object."""
    record = object_of(value, where, "")
    if "entities" not in record:
        yield record
        return
    for number, entity in _map(record, "entities", where).items():
        yield object_of(entity, where, f"entities.{quoted(number, 40)}")


def _map(fields: Mapping[str, Any], key: str, where: str) -> Mapping[str, Any]:
    """An object that may be missing, or an empty list, as PHP writes an empty map."""
    value = fields.get(key)
    return {} if value is None or value == [] else object_of(value, where, key)


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError
    return value


def _entity_id(value: Any) -> str:
    if "id" in value:
        return _text(value["id"])
    number = value["numeric-id"]
    if type(number) is not int:
        raise TypeError
    return f"{_LETTERS[value['entity-type']]}{number}"


def _date(value: Any) -> str:
    match = _TIME.fullmatch(value["time"])
    if match is None:
        raise ValueError
    sign, year, month, day = match.groups()
    year = year if sign == "+" else f"-{year}"
    precision = value["precision"]
    if precision >= _DAY:
        return f"{year}-{month}-{day}"
    if precision == _MONTH:
        return f"{year}-{month}"
    unknown = _ROUNDED.get(precision, 0)
    return year[: len(year) - unknown] + "X" * unknown if precision <= _YEAR else year


_TEXTS: Mapping[str, Callable[[Any], str]] = {
    "string": _text,
    "wikibase-entityid": _entity_id,
    "time": _date,
    "quantity": lambda value: _text(value["amount"]).removeprefix("+"),
    "monolingualtext": lambda value: _text(value["text"]),
    "globecoordinate": lambda value: f"{float(value['latitude'])},{float(value['longitude'])}",
}
"""The text of a value by its type; a wrong value raises an error that `_values` catches."""

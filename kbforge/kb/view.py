"""Views of a knowledge base, golden records, tables, and export by a plugin.

A golden record is an entity with only the values that a *policy* selects for each attribute:

| rule | selects |
|---|---|
| fused | the most probable value (`kbforge.kb.facts`); the first one, if nothing is in question |
| most-stated | the first value, which is the best spelling of the most stated one |
| longest | the value with the most characters |
| latest | the value with the latest date, or stated last; without times, by the last fragment |
| preferred | the value from the best source; sources that are not listed come last |
| all | all of them |

The values of an attribute are in the order of `kbforge.kb.entities.described`. If a rule does not
distinguish several, it selects the first. A value keeps the fragments that state it. Each rule but
`all` selects the value on which a person settled (`kbforge.kb.assertions`).

A policy is the name of a rule, for all attributes, or a TOML file:

    default = "fused"
    sources = ["registry", "gazette"]   # best first; used by `preferred`
    date = "metadata.updated"           # used by `latest`; or "properties.updated"

    [attributes]
    name = "longest"
    born = "preferred"

    [relations]
    works_for = "employer"   # its values are values of employer; rules apply to these

A table of a knowledge base is made for data frames. | table | a row is | columns |
|---|---|---|
| members | a fragment | id, entity_id, entity_name, confidence, reported |
| pairs | two fragments that are probably one entity | left, right, probability, rest, entity_id |
| relations | an edge | head_id, head, relation, tail_id, tail, probability, statements, ... |
| wide | an entity | entity_id, entity_name, confidence, reported, fragments, every attribute |

Values are unchanged; escaping formulas is the exporters' task.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeAlias

import orjson

from kbforge import registry
from kbforge.contracts import Entity, Exporter, Fragment, Value, View
from kbforge.contracts.fragment import is_of_source
from kbforge.errors import KBForgeError, UsageError, option, quoted
from kbforge.files.arrow import ArrowTable, Cell
from kbforge.files.fragments import read_fragments, to_line
from kbforge.files.io import called, read_small
from kbforge.files.records import Record, toml_of, toml_record
from kbforge.kb.entities import fragments_of, naming
from kbforge.kb.read import read_entities
from kbforge.kb.spelling import best_of
from kbforge.kb.times import EXPECTED, Period, holds, last_stated, read_time, with_times_of

JSON_LINES = "jsonl"
_OF_STORES = (".sqlite", ".sqlite3", ".db")


class EntitiesView(View):
    """A view of entities in memory or in a file, and of their fragments.

    Fragments may be in any order, and include others; None derives them from the entities' values.
    """

    def __init__(
        self,
        entities: Callable[[], Iterator[Entity]],
        fragments: Iterable[Fragment] | None = None,
    ) -> None:
        self._entities = entities
        self._find = None if fragments is None else _by_id(fragments)

    @property
    def knows_fragments(self) -> bool:
        return self._find is not None

    def entities(self) -> Iterator[Entity]:
        return self._entities()

    def fragments(self, entity: Entity) -> Sequence[Fragment]:
        """As `View`; a UsageError if one is missing from the fragments given."""
        if self._find is None:
            return fragments_of(entity)
        return [self._find(fragment) for fragment in entity.fragments]


def file_view(kb: str, fragments: str | None = None) -> EntitiesView:
    """A view of a file of entities; `fragments` is the file that was clustered."""
    if kb == fragments == "-":
        raise UsageError(f"only one of KB and {option('fragments')} can be standard input")
    given = None if fragments is None else read_fragments(fragments)
    return EntitiesView(lambda: read_entities(kb), given)


def _by_id(fragments: Iterable[Fragment]) -> Callable[[str], Fragment]:
    """Fragments by id, in a temporary database that may exceed memory."""
    database = sqlite3.connect("")
    try:
        with database:
            database.execute("CREATE TABLE fragment (id TEXT PRIMARY KEY, line BLOB)")
            rows = ((fragment.id, to_line(fragment)) for fragment in fragments)
            database.executemany("INSERT INTO fragment VALUES (?, ?)", rows)
    except sqlite3.OperationalError as error:
        raise KBForgeError(f"cannot put the fragments into a temporary file: {error}") from error

    def found(fragment: str) -> Fragment:
        row = database.execute("SELECT line FROM fragment WHERE id = ?", (fragment,)).fetchone()
        if row is None:
            raise UsageError(
                f'{option("fragments")} lacks the fragment "{quoted(fragment)}" of the knowledge '
                "base; give the file that was clustered"
            )
        return Fragment.from_json(orjson.loads(row[0]), quoted(fragment))

    return found


class CountingView(View):
    """A view that counts the entities read from it."""

    def __init__(self, view: View) -> None:
        self._view = view
        self.count = 0

    @property
    def knows_fragments(self) -> bool:
        return self._view.knows_fragments

    def entities(self) -> Iterator[Entity]:
        for entity in self._view.entities():
            self.count += 1
            yield entity

    def lines(self) -> Iterator[tuple[int, bytes]]:
        for count, lines in self._view.lines():
            self.count += count
            yield count, lines

    def fragments(self, entity: Entity) -> Sequence[Fragment]:
        return self._view.fragments(entity)


def export(view: View, exporter: Exporter, target: str) -> int:
    """Export a view to `target` ("-" is standard output); returns the entity count."""
    counted = CountingView(view)
    exporter.export(counted, target)
    return counted.count


def exporter_for(output: str) -> str:
    """The default exporter of an output: by its extension, otherwise JSON lines."""
    if output == "-" or not registry.ending_of(output):
        return JSON_LINES
    if output.lower().endswith((".zst", ".zstd")):
        raise UsageError(
            f"{quoted(output, 400)}: expected an output without compression or with .gz, got zstd"
        )
    return registry.require_plugin_of(
        "exporters",
        output,
        f"{option('format', 'NAME')} selects another (see kbforge plugins list)",
    )


def require_json_lines(output: str, what: str, instead: str, store: str = "") -> None:
    """Refuse an output whose extension belongs to a format other than JSON lines.

    `instead` and `store` name the commands for the other format and for a store.
    """
    ending = "" if output == "-" else registry.ending_of(output)
    is_store = ending in _OF_STORES
    if is_store or (ending and registry.plugin_of("exporters", output) not in (None, JSON_LINES)):
        raise UsageError(
            f"-o {quoted(output, 400)}: {what} written as JSON lines, got the extension "
            f"{quoted(ending, 40)}; {(store if is_store else '') or instead}"
        )


ALL, FUSED, LATEST, LONGEST, MOST_STATED, PREFERRED = RULES = (
    *("all", "fused", "latest", "longest"),
    *("most-stated", "preferred"),
)
_PLACES = ("metadata", "properties")
_MAX_BYTES = 1 << 20
_NEVER = float("-inf")
_UNDATED = "no value has a time; kbforge cluster --time ATTRIBUTE says when values were stated"

Rank: TypeAlias = Callable[[Value], float]
"""The key by which a rule sorts values, the best first."""


@dataclass(frozen=True, slots=True)
class Policy:
    """A rule for each attribute; `sources` are the preferred ones, best first; `relations` has
    attributes that mean the same as others.

    `date` is the place of a fragment's date ("metadata" or "properties", and the name): ISO 8601, a
    year, or a year and a month. None uses the order of arrival. With a period `at` only what held
    then is selected, and what was stated later does not count.
    """

    default: str = FUSED
    attributes: Mapping[str, str] = field(default_factory=dict)
    sources: tuple[str, ...] = ()
    date: tuple[str, str] | None = None
    relations: Mapping[str, str] = field(default_factory=dict)
    at: Period | None = None

    @property
    def rules(self) -> set[str]:
        """The rules of the policy."""
        return {self.default, *self.attributes.values()}

    @property
    def needs_fragments(self) -> bool:
        """Whether the policy needs fragments, not only entities."""
        by_date = LATEST in self.rules and self.date is not None and self.date[0] == "metadata"
        return by_date or PREFERRED in self.rules


def read_policy(given: str) -> Policy:
    """A policy given by the name of a rule, or of a TOML file; "-" is standard input."""
    if given == PREFERRED:
        raise UsageError(
            "the policy preferred needs sources to prefer; give a TOML file with sources"
        )
    if given in RULES:
        return Policy(given)
    if given != "-" and not Path(given).exists():
        raise UsageError(
            f"expected a policy ({', '.join(RULES)}) or a file with one, got "
            f'"{quoted(given, 400)}", which is neither'
        )
    content = read_small(given, "a policy", _MAX_BYTES)
    toml_of(content, given, "policy", KBForgeError)
    top = toml_record(content, quoted(called(given), 400))
    top.only("default", "attributes", "sources", "date", "relations")
    none = Record({}, top.wrong)
    own, same = (top.table(key) if key in top else none for key in ("attributes", "relations"))
    policy = Policy(
        top.choice("default", RULES) if "default" in top else FUSED,
        {attribute: own.choice(attribute, RULES) for attribute in own},
        top.texts("sources") if "sources" in top else (),
        _date(top) if "date" in top else None,
        {relation: same.get(relation, str, "the name of an attribute") for relation in same},
    )
    if PREFERRED in policy.rules and not policy.sources:
        raise top.wrong("sources", "the sources that are preferred, best first", None)
    return policy


def _date(top: Record) -> tuple[str, str]:
    expected = "metadata.NAME or properties.NAME"
    place, _, name = top.get("date", str, expected).partition(".")
    if place not in _PLACES or not name:
        raise top.wrong("date", expected, top.get("date", str))
    return place, name


class GoldenView(CountingView):
    """A view of the entities with only the values that a policy selects.

    If it has a period, from those that held then (`kbforge.kb.times`).
    """

    def __init__(self, view: View, policy: Policy) -> None:
        if policy.needs_fragments and not view.knows_fragments:
            raise UsageError(
                "the policy uses sources or metadata, which entities do not have; give the file "
                f"that was clustered as {option('fragments', 'FILE')}"
            )
        super().__init__(view)
        self._policy = policy
        self._whole: Entity | None = None
        self.unused = set(policy.attributes)
        """Attributes with a rule that no entity read so far has."""
        self.notes: tuple[str, ...] = () if policy.at is None else (_UNDATED,)
        """A sentence for the user if no entity read so far has a time."""

    def entities(self) -> Iterator[Entity]:
        for entity in super().entities():
            self._whole = entity
            if self._policy.at is not None:
                self.notes = () if _is_dated(entity) else self.notes
                entity = held_at(entity, self._policy.at)
            joined = _with_joined(entity, self._policy.relations)
            self.unused -= joined.properties.keys()
            yield golden(joined, self._policy, self.fragments)

    def lines(self) -> Iterator[tuple[int, bytes]]:
        return View.lines(self)  # of the golden records, not of what they are made from

    def fragments(self, entity: Entity) -> Sequence[Fragment]:
        """As `View`; the policy does not change fragments."""
        whole = self._whole
        return self._view.fragments(
            entity if whole is None or whole.id != entity.id else whole  # the one being read
        )


def selected(view: View, policy: str | None, at: str | None) -> GoldenView:
    """A view of what a policy selects, by name or file, and of what held at a time; None is all."""
    period = None if at is None else read_time(at)
    if at is not None and period is None:
        raise UsageError(f'{option("at")}: expected {EXPECTED}, got "{quoted(at)}"')
    chosen = Policy(ALL) if policy is None else read_policy(policy)
    return GoldenView(view, replace(chosen, at=period))


def held_at(entity: Entity, at: Period) -> Entity:
    """The entity with only the values that held in a period, and the name that these give."""
    whole = entity.properties
    held = {name: tuple(value for value in of if holds(value, at)) for name, of in whole.items()}
    of_names = naming(tuple(whole))
    name = " ".join(held[one][0].value for one in whole if one in of_names and held[one])
    if not name or all(held[one][:1] == tuple(whole[one])[:1] for one in of_names):
        name = entity.name
    return replace(entity, name=name, properties={k: v for k, v in held.items() if v})


def _with_joined(entity: Entity, relations: Mapping[str, str]) -> Entity:
    """The entity with the values of some attributes as values of others, the most stated first."""
    joined = {relations[name] for name in relations.keys() & entity.properties.keys()}
    if not joined:
        return entity
    found: dict[str, dict[str, Value]] = {}
    for attribute, values in entity.properties.items():
        held = found.setdefault(relations.get(attribute, attribute), {})
        for value in values:
            known = held.get(value.value)
            held[value.value] = value if known is None else _one_value(known, value)
    for name in joined:
        order = lambda item: (item[1].by is None, -item[1].count)  # noqa: E731
        found[name] = dict(sorted(found[name].items(), key=order))
    properties = {name: tuple(held.values()) for name, held in found.items()}
    return replace(entity, properties=properties)


def _one_value(one: Value, other: Value) -> Value:
    """A value that two attributes state; what else is known of it is the surer one's."""
    surer = max(
        one, other, key=lambda value: value.meanings[0].probability if value.meanings else 0
    )
    fragments = tuple(dict.fromkeys((*one.fragments, *other.fragments)))
    return replace(with_times_of(surer, one, other), fragments=fragments, by=one.by or other.by)


def golden(
    entity: Entity, policy: Policy, fragments: Callable[[Entity], Sequence[Fragment]]
) -> Entity:
    """The entity with the values that a policy selects; fetches fragments if it needs them."""
    ranks: dict[str, Rank] = {}
    chosen: dict[str, tuple[Value, ...]] = {}
    for attribute, values in entity.properties.items():
        rule = policy.attributes.get(attribute, policy.default)
        if rule == ALL:
            chosen[attribute] = tuple(values)
        elif rule == MOST_STATED or len(values) == 1 or values[0].by is not None:
            chosen[attribute] = tuple(values[:1])
        elif rule == FUSED:
            chosen[attribute] = (most_probable(values),)
        else:
            if rule not in ranks:
                ranks[rule] = _rank(rule, policy, entity, fragments)
            chosen[attribute] = (min(values, key=ranks[rule]),)
    return replace(entity, properties=chosen)


def most_probable(values: Sequence[Value]) -> Value:
    """The most probable value in its best spelling; the first one, if none is in question."""
    sure = {v.value: 1.0 if v.confidence is None else v.confidence for v in values}
    best = {v.value: v for v in values if sure[v.value] == max(sure.values())}
    if values[0].value in best:
        return values[0]
    return best[best_of({text: value.count for text, value in best.items()})]


def _rank(
    rule: str, policy: Policy, entity: Entity, fragments: Callable[[Entity], Sequence[Fragment]]
) -> Rank:
    if rule == LONGEST:
        return lambda value: -len(value.value)
    if rule == PREFERRED:
        place = {f.id: _place(f.source, policy.sources) for f in fragments(entity)}
        return lambda value: min(place[f] for f in value.fragments)
    when = {}
    if policy.date is not None:
        when = {f.id: _dated(f, *policy.date, policy.at) for f in fragments(entity)}
    if _is_dated(entity) and max(when.values(), default=_NEVER) == _NEVER:
        return lambda value: -last_stated(value, policy.at)
    when = when or {fragment: float(at) for at, fragment in enumerate(entity.fragments)}
    return lambda value: -max(when[f] for f in value.fragments)


def _is_dated(entity: Entity) -> bool:
    return any(value.last is not None for of in entity.properties.values() for value in of)


def _place(source: str | None, sources: Sequence[str]) -> int:
    """The rank of a fragment's source among the preferred ones."""
    for at, preferred in enumerate(sources):
        if source is not None and is_of_source(source, preferred):
            return at
    return len(sources)


def _dated(fragment: Fragment, place: str, name: str, at: Period | None) -> float:
    """The latest date of a fragment in microseconds since 1970, by the end of a period; minus
    infinity without one."""
    if place == "properties":
        texts: Sequence[Any] = fragment.properties.get(name, ())
    else:
        texts = [(fragment.metadata or {}).get(name)]
    begins = [time.begin for text in texts if isinstance(text, str) and (time := read_time(text))]
    return max((begin for begin in begins if at is None or begin <= at.end), default=_NEVER)


_IDS = ("id", "left", "right")  # of fragments
_NUMBERS = ("confidence", "reported", "probability", "rest")


def table_of(view: View, format: str, number_ids: bool = False, **options: object) -> ArrowTable:
    """The output of the exporter `members`, `pairs`, `relations` or `wide`, as a table in memory.

    With `number_ids` the ids of fragments are integers, as in the table that they come from.
    """
    exporter = registry.create("exporters", format, {"guard_formulas": False, **options})
    rows: Iterator[Sequence[Cell]] = exporter.rows(view)
    columns = [str(column) for column in next(rows)]
    if number_ids:
        places = {columns.index(column) for column in _IDS if column in columns}
        rows = ([int(str(c)) if i in places else c for i, c in enumerate(row)] for row in rows)
    return ArrowTable(columns, rows, _NUMBERS)

"""Explains why a fragment is in its entity, attribute by attribute."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Generic, Literal, TypeAlias, TypeVar

import numpy as np

from kbforge.clustering.rules import DirichletProcess
from kbforge.clustering.scoring import without_model
from kbforge.contracts import (
    Cluster,
    Entity,
    Explanation,
    Fragment,
    ModelSpec,
    Provenance,
    SubproblemData,
)
from kbforge.contracts.entity import Natural, Probability
from kbforge.errors import KBForgeError, UsageError, option, quoted
from kbforge.fit.choices import PreparedRun, RunOptions, choices_of
from kbforge.fit.prepare import prepare
from kbforge.fit.review import explained, explained_all
from kbforge.jobs.models import restore, rules_of
from kbforge.jobs.rules import fired
from kbforge.jobs.views import entities_of, store_view
from kbforge.kb.entities import described, fragments_of
from kbforge.kb.read import made_by, with_fragment
from kbforge.store.database import Database, is_store
from kbforge.store.pages import numbers_from_bytes
from kbforge.store.store import Store
from kbforge.store.tables import damaged, read_rows, rows_of

_MOST_NEAR = 32
"""Maximum number of families of clusters whose entities are compared with a fragment."""
_MOST_COMPARED = 100
"""Maximum number of fragments compared of each of two entities."""

E = TypeVar("E")
"""An answer's reference to an entity of a store: its id, or more."""

OnFragments: TypeAlias = Callable[[int], None]
"""Called with a number of fragments."""


class Explainer:
    """A knowledge base and the likelihood that explains it.

    The defaults are the choices that the knowledge base was made with. A likelihood without a model
    learns from the entities; a store's likelihood has learned already.

    Raises:
        KBForgeError: an empty knowledge base, or one whose model has changed; or as `prepare`.
        UsageError: the likelihood has no contributions by attribute.

    """

    def __init__(self, kb: str, given: RunOptions) -> None:
        entities = list(entities_of(kb))
        if not entities:
            raise KBForgeError("the knowledge base is empty")
        self._entities = {entity.id: entity for entity in entities}
        self._fragments = {entity.id: fragments_of(entity) for entity in entities}
        everything = [f for fs in self._fragments.values() for f in fs]
        prepared = _prepared(kb, everything, given, made_by(entities))
        _require_explaining(prepared)
        self.prepared: PreparedRun = prepared

    @property
    def fragments(self) -> int:
        """The number of fragments."""
        return sum(map(len, self._fragments.values()))

    def reasons(
        self, fragment_id: str, rivals: int, on_fragments: OnFragments = lambda n: None
    ) -> list[Place[Entity]]:
        """Explain the fragment in its own entity, then in the `rivals` others that fit it best.

        `on_fragments` is called with the number of fragments compared so far.
        """
        own = with_fragment(self._entities.values(), fragment_id)
        x = next(f for f in self._fragments[own.id] if f.id == fragment_id)
        found, done, spec = [], 0, self.prepared.spec
        for name, entity in self._entities.items():
            if name != own.id and _share_keys(spec, x, self._fragments[name]):
                explanation = explained(spec, x, self._fragments[name])
                found.append(_place(entity, len(entity.fragments), explanation))
            done += len(entity.fragments)
            on_fragments(done)
        found.sort(key=lambda place: (-(place.total or 0.0), place.entity.id))
        rest = [f for f in self._fragments[own.id] if f.id != fragment_id]
        why = explained(spec, x, rest) if rest else None
        return [_place(own, len(rest), why), *found[:rivals]]

    def explained(self, on_fragments: OnFragments = lambda n: None) -> Iterator[Entity]:
        """Every entity with explanations of its fragments, unless it has only one.

        `on_fragments` is called with the number of fragments explained so far.
        """
        done, spec = 0, self.prepared.spec
        for name, entity in self._entities.items():
            explanations: dict[str, Explanation] = {}
            # identical fragments have the same others
            known: dict[frozenset[tuple[str, tuple[str, ...]]], Explanation] = {}
            fragments = self._fragments[name]
            for i, x in enumerate(fragments):
                if len(fragments) > 1:
                    says = frozenset((key, tuple(v)) for key, v in x.properties.items())
                    if says not in known:
                        rest = [*fragments[:i], *fragments[i + 1 :]]
                        known[says] = explained(spec, x, rest)
                    explanations[x.id] = known[says]
                done += 1
                on_fragments(done)
            yield replace(entity, explanations=explanations)


def _require_explaining(prepared: PreparedRun) -> None:
    if not prepared.spec.likelihood.explains:
        raise UsageError(
            f"likelihood {quoted(prepared.likelihood, 400)} does not explain what each attribute "
            "contributes; attributes does"
        )


def _prepared(
    kb: str, fragments: Sequence[Fragment], given: RunOptions, ways: Sequence[Provenance]
) -> PreparedRun:
    """The models that the knowledge base was made with, except those given instead."""
    made = ways[0] if len(ways) == 1 else None
    if given.likelihood is not None or given.calibration is not None:
        return _saying(prepare(fragments, given), made)
    if len(ways) > 1:
        raise UsageError(
            f"{quoted(kb, 400)} was made in {len(ways)} ways, as by joining files; name one "
            f"{option('likelihood')}, such as {quoted(ways[0].likelihood, 400)}"
        )
    if is_store(kb) and not any(given.options.values()):
        with Database(kb) as database:
            prepared, choices = restore(Store(database))
        prior = DirichletProcess.of(prepared.spec)
        if given.alpha is not None:
            prior = replace(prior, alpha=given.alpha)
        return _saying(replace(prepared, spec=prepared.models.spec(prior, choices)), made)
    if made is None:
        return prepare(fragments, given)
    own = choices_of(made, kb)
    options = {**own.of("likelihood"), **given.of("likelihood")}
    choices = replace(own, options={"likelihood": options})
    if given.alpha is not None:
        choices = replace(choices, alpha=given.alpha)
    return _saying(prepare(fragments, choices), made, options != own.of("likelihood"))


def _saying(prepared: PreparedRun, made: Provenance | None, options: bool = False) -> PreparedRun:
    """Add a note if these models differ from those that the knowledge base was made with."""
    if made is None:
        return prepared
    mine, own = (prepared.likelihood, prepared.alpha), (made.likelihood, made.alpha)
    if mine == own and not options:
        return prepared
    with_options = " and other options" if options else ""
    note = (
        f"explained by {quoted(mine[0], 400)} with alpha {mine[1]:,.6g}{with_options}; the "
        f"knowledge base was made by {quoted(own[0], 400)} with alpha {own[1]:,.6g}"
    )
    return replace(prepared, notes=(*prepared.notes, note))


# --- in a store, of which only what is asked for is read ------------------------------------------


@dataclass(frozen=True, slots=True)
class Place(Generic[E]):
    """An entity, and the evidence for a fragment in it.

    `others` is how many fragments it has besides that one, and `total` the log odds of joining them
    against staying alone, nats, None without others. `explanation` is what each attribute says;
    None without others, or if the likelihood does not tell attributes apart.
    """

    entity: E
    others: Natural
    total: float | None
    explanation: Explanation | None


def _place(entity: E, others: int, why: Explanation | None) -> Place[E]:
    return Place(entity, others, None if why is None else why.total, why)


def reasons_in_store(
    path: str, fragment_id: str, rivals: int
) -> tuple[list[Place[Entity]], PreparedRun]:
    """Explain a fragment like `Explainer`, with a store's models.

    Raises as `Explainer`, and as `why`.
    """
    with Database(path) as database, database.snapshot():
        store = Store(database)
        view = store_view(store)
        prepared, _ = restore(store)
        _require_explaining(prepared)
        places = why(store, prepared, fragment_id, rivals)
        entities = {one.id: one for one in view.with_ids([place.entity for place in places])}
        found = [_place(entities[one.entity], one.others, one.explanation) for one in places]
        return found, prepared


def why(store: Store, fit: PreparedRun, fragment_id: str, rivals: int = 5) -> list[Place[str]]:
    """Explain the fragment in its own entity, then in the `rivals` others that fit it best.

    The others are the bounded number of entities that share most index keys: an entity that shares
    only common values may be missing. `fit` is as in `kbforge.jobs.match.match`.

    Raises:
        NotFoundError: the store has no such fragment.

    """
    spec = without_model(fit.spec)
    with store.database.snapshot():
        number, x = store.fragment(fragment_id)
        if (about := x.asserted_of) is not None:
            said = f'"{quoted(x.id)}" is what a person asserts'
            raise UsageError(f'{said}: it is beside the fragment "{quoted(about)}"')
        own, members = store.entity_of(number)
        rest = tuple(one for one in members if one != number)
        near = [one for one in _near(store, spec, x) if one[0] != own]
        places = _places(store, spec, x, [(own, rest), *near] if rest else near)
        mine = places.pop(0) if rest else Place(own, 0, None, None)
        places.sort(key=lambda place: (-(place.total or 0.0), place.entity))
        held = dict(near)
        # a cluster of an improbable grouping may have led to an entity without the key
        alike = (
            place
            for place in places
            if _share_keys(spec, x, store.pages.fragments(held[place.entity]).values())
        )
        return [mine, *islice(alike, rivals)]


def _near(store: Store, spec: ModelSpec, x: Fragment) -> list[tuple[str, Cluster]]:
    """The entities that share keys with a fragment, and their fragments' numbers."""
    rows = store.database.connection
    if spec.index is None:
        return [
            (id, tuple(numbers_from_bytes(members).tolist()))
            for id, _, members in read_rows(rows, "entity")
        ]
    postings = store.pages.postings(spec.index.keys(x)).values()
    counts = Counter(family for one in postings for family in one.families)
    nearest = sorted(counts, key=lambda family: (-counts[family], family))
    families = set(nearest[:_MOST_NEAR])
    homes = store.pages.homes(sorted(families))
    out, held = [], set[int]()
    for id, _, content in rows_of(rows, "entity", "subproblem", sorted(set(homes.values()))):
        members = tuple(numbers_from_bytes(content).tolist())
        held.update(members)
        if min(members) in families:
            out.append((id, members))
    if not held.issuperset(homes):
        damaged(rows, "the index of entity")
    return out


def _share_keys(spec: ModelSpec, x: Fragment, fragments: Iterable[Fragment]) -> bool:
    """Whether a fragment shares a key with others; without an index all are compared."""
    if spec.index is None:
        return True
    keys = set(spec.index.keys(x))
    return any(not keys.isdisjoint(spec.index.keys(one)) for one in fragments)


def _places(
    store: Store, spec: ModelSpec, x: Fragment, entities: Sequence[tuple[str, Cluster]]
) -> list[Place[str]]:
    """The evidence for a fragment in entities, given by ids and other fragments."""
    fragments = store.pages.fragments(sorted({n for _, members in entities for n in members}))
    sets = [[fragments[n] for n in members] for _, members in entities]
    if spec.likelihood.explains:
        return [
            _place(id, len(held), why)
            for (id, _), held, why in zip(entities, sets, explained_all(spec, x, sets), strict=True)
        ]
    scores = spec.likelihood.log_marginal([*([*held, x] for held in sets), *sets, [x]])
    gains = np.asarray(scores[: len(sets)] - scores[len(sets) : -1] - scores[-1]).tolist()
    return [
        Place(
            id, len(held), spec.exponent * math.log(len(held)) - math.log(spec.alpha) + gain, None
        )
        for (id, _), held, gain in zip(entities, sets, gains, strict=True)
    ]


@dataclass(frozen=True, slots=True)
class SharedValues:
    """Values of an attribute that two entities share, and those of each alone."""

    both: Sequence[str]
    first: Sequence[str]
    second: Sequence[str]


@dataclass(frozen=True, slots=True)
class Comparison(Generic[E]):
    """Why two entities are separate: `total` is the log odds of one entity against two.

    `compared` is how many fragments of each were read; of large entities only some are. `together`
    is the probability, by the groupings that the store keeps, that all of their fragments are one
    entity, `mixed` that some are. `explanation` is None if the likelihood has no contributions of
    attributes. `rules` are those that keep some of their fragments apart.
    """

    first: E
    second: E
    compared: Sequence[Natural]
    total: float | None
    explanation: Explanation | None
    together: Probability
    mixed: Probability
    values: Mapping[str, SharedValues]
    rules: Sequence[str]
    likelihood: str
    unit: Literal["nats", "points"]


def compare(store: Store, fit: PreparedRun, first: str, second: str) -> Comparison[str]:
    """Why two entities of a store are separate; a former id stands for the first entity that it
    became.

    `fit` is as in `kbforge.jobs.match.match`.

    Raises:
        NotFoundError: the store never had one of them.
        UsageError: they are one entity.

    """
    spec = without_model(fit.spec)
    with store.database.snapshot():
        one, two = store.now(first)[0], store.now(second)[0]
        if one == two:
            raise UsageError(
                f'"{quoted(first)}" and "{quoted(second)}" are one entity; expected two'
            )
        rows = {
            id: row for id, *row in rows_of(store.database.connection, "entity", "id", [one, two])
        }
        numbers = [tuple(numbers_from_bytes(rows[id][1]).tolist()) for id in (one, two)]
        homes = [rows[id][0] for id in (one, two)]
        together, mixed = 0.0, 0.0
        if homes[0] == homes[1]:
            together, mixed = _grouped(store.pages.page(homes[0]), *numbers)
        parts = [held[:_MOST_COMPARED] for held in numbers]
        found = store.pages.fragments([n for part in parts for n in part])
        a, b = ([found[n] for n in part] for part in parts)
        total, why = _merged(spec, a, b)
        return Comparison(
            *(one, two, (len(a), len(b)), total, why, together, mixed, _values(a, b)),
            rules=fired(rules_of(store), a, b),
            likelihood=fit.likelihood,
            unit=fit.unit,
        )


def _grouped(page: SubproblemData, first: Cluster, second: Cluster) -> tuple[float, float]:
    """The weight of the particles with all of both entities in one cluster, and with some of
    both."""
    one, two = set(first), set(second)
    together = mixed = 0.0
    for particle in page.subproblem().particles:
        weight = math.exp(particle.log_weight)
        both = [c for c in particle.clusters if not (one.isdisjoint(c) or two.isdisjoint(c))]
        mixed += weight if both else 0.0
        together += weight if any(one | two <= {*c} for c in both) else 0.0
    return min(together, 1.0), min(mixed, 1.0)


def _merged(
    spec: ModelSpec, first: Sequence[Fragment], second: Sequence[Fragment]
) -> tuple[float, Explanation | None]:
    """The log odds of merging two clusters, nats, and the contributions of attributes.

    L(C + D) - L(C) - L(D) is a sum over the fragments of D: each joins C and the fragments before
    it, minus the same without C.
    """
    likelihood, n, m = spec.likelihood, len(first), len(second)
    sizes = math.lgamma(n + m) - math.lgamma(n) - math.lgamma(m)
    prior = spec.exponent * sizes - math.log(spec.alpha)
    if not likelihood.explains:
        scores = likelihood.log_marginal([[*first, *second], first, second])
        return prior + float(scores[0] - scores[1] - scores[2]), None
    if n < m:
        first, second = second, first
    said: dict[str, float] = {}
    for at, x in enumerate(second):
        before = second[:at]
        for sign, cluster in ((1, [*first, *before]), (-1, before)):
            if cluster:
                for attribute, nats in likelihood.contributions(x, cluster).items():
                    said[attribute] = said.get(attribute, 0.0) + sign * nats
    why = Explanation(prior, said)
    return why.total, why


def _values(first: Sequence[Fragment], second: Sequence[Fragment]) -> dict[str, SharedValues]:
    """For each attribute, the values that both state, and each alone, most stated first."""
    one, two = described(first).properties, described(second).properties
    out = {}
    for attribute in dict.fromkeys([*one, *two]):
        a, b = ([value.value for value in of.get(attribute, ())] for of in (one, two))
        out[attribute] = SharedValues(
            [value for value in a if value in {*b}],
            [value for value in a if value not in {*b}],
            [value for value in b if value not in {*a}],
        )
    return out

"""Explains matches, places of fragments, and why two entities are separate.

Totals and explanations are in nats (`unit`), or in points of a score if the likelihood gives scores
and no probabilities. The answers are those of `kbforge.jobs`, with references in place of ids.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

from kbforge.contracts import Fragment
from kbforge.contracts.clusterer import RuleSet
from kbforge.contracts.entity import Probability
from kbforge.jobs import explain
from kbforge.jobs.explain import Comparison, Place
from kbforge.jobs.match import Match
from kbforge.jobs.match import match as matched
from kbforge.jobs.models import rules_of
from kbforge.jobs.rules import fired
from kbforge.store.pages import numbers_from_bytes
from kbforge.store.store import Store
from kbforge.store.tables import rows_of
from kbforge_serve.answers import Answer, EntityReference, Record, record_of
from kbforge_serve.facts import MadeDecision, decisions_about, references
from kbforge_serve.helpers import aside
from kbforge_serve.readers import Readers

_MOST_COMPARED = 50  # fragments of an entity


class Why(Answer, frozen=True):
    """Why a fragment is in its entity and not in others.

    `shares` are the probabilities, by the groupings that the store keeps, that it is with others of
    its entity (or alone, if it is), and of each rival; `rules` are those that merge it with
    some of them, or keep it apart. `decisions` are the last that name it.
    """

    fragment: Record
    own: Place[EntityReference]
    rivals: list[Place[EntityReference]]
    shares: list[Probability]
    rules: list[list[str]]
    decisions: list[MadeDecision]
    likelihood: str
    unit: Literal["nats", "points"]


@aside
def match(readers: Readers, fragment: Fragment, most: int = 10) -> Match[EntityReference]:
    """The entities that a fragment would join; it is not added.

    Raises as `kbforge.jobs.match.match`.
    """
    with readers.store() as store:
        fit = readers.models(store)[0]
        with readers.scoring():
            found: Any = matched(store, fit, fragment, most, readers.clusters)
        return replace(found, candidates=_referring(readers, store, found.candidates))


@aside
def why(readers: Readers, fragment: str, rivals: int = 5) -> Why:
    """Why a fragment is in its entity, and the evidence for its being in others.

    Raises as `kbforge.jobs.explain.why`.
    """
    with readers.store() as store:
        fit = readers.models(store)[0]
        with readers.scoring():
            places = explain.why(store, fit, fragment, rivals)
        number, found = store.fragment(fragment)
        others_of = _others_of(store, number, [place.entity for place in places])
        shares, ruled = _shares(store, number, others_of), _ruled(store, found, others_of)
        own, *others = _referring(readers, store, places)
        decided = decisions_about(readers, store, [fragment])
        told = shares, ruled, decided, fit.likelihood, fit.unit
        return Why(record_of(found), own, others, *told)


@aside
def compare(readers: Readers, first: str, second: str) -> Comparison[EntityReference]:
    """Why two entities are separate; raises as `kbforge.jobs.explain.compare`."""
    with readers.store() as store:
        fit = readers.models(store)[0]
        with readers.scoring():
            found: Any = explain.compare(store, fit, first, second)
        one, two = references(readers, store, [found.first, found.second])
        return replace(found, first=one, second=two)


def _others_of(store: Store, number: int, entities: Sequence[str]) -> dict[str, list[int]]:
    """The fragments of entities but one, by entity."""
    rows = rows_of(store.database.connection, "entity", "id", entities)
    held = {id: numbers_from_bytes(members).tolist() for id, _, members in rows}
    return {id: [n for n in held[id] if n != number] for id in entities}


def _shares(store: Store, number: int, others_of: Mapping[str, Sequence[int]]) -> list[float]:
    """The weight of the kept groupings in which a fragment is with others of each entity, or alone
    like it in its entity."""
    shares = dict.fromkeys(others_of, 0.0)
    for particle in store.pages.page(store.pages.homes([number])[number]).subproblem().particles:
        beside = next({*c} - {number} for c in particle.clusters if number in c)
        for id, others in others_of.items():
            if not beside.isdisjoint(others) or not (beside or others):
                shares[id] += math.exp(particle.log_weight)
    return [min(share, 1.0) for share in shares.values()]


def _ruled(store: Store, x: Fragment, others_of: Mapping[str, Sequence[int]]) -> list[list[str]]:
    """The rules about a fragment and some of the others of each entity."""
    rules = rules_of(store)
    if rules == RuleSet():
        return [[] for _ in others_of]
    some = [others[:_MOST_COMPARED] for others in others_of.values()]
    found = store.pages.fragments([n for others in some for n in others])
    return [fired(rules, [x], [found[n] for n in others]) for others in some]


def _referring(readers: Readers, store: Store, found: Sequence[Any]) -> list[Any]:
    """Answers about entities with references in place of ids."""
    entities = references(readers, store, [one.entity for one in found])
    return [replace(one, entity=entity) for one, entity in zip(found, entities, strict=True)]

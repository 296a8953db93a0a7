"""Explains matches, places of fragments, and why two entities are separate.

Totals and explanations are in nats (`unit`), or in points of a score if the likelihood gives scores
and no probabilities. The answers are those of `kbforge.jobs`, with references in place of ids.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Literal

from kbforge.contracts import Fragment
from kbforge.jobs import explain
from kbforge.jobs.explain import Comparison, Place
from kbforge.jobs.match import Match
from kbforge.jobs.match import match as matched
from kbforge.store.store import Store
from kbforge_serve.answers import Answer, EntityReference, Record, record_of
from kbforge_serve.facts import references
from kbforge_serve.helpers import aside
from kbforge_serve.readers import Readers


class Why(Answer, frozen=True):
    """Why a fragment is in its entity and not in others."""

    fragment: Record
    own: Place[EntityReference]
    rivals: list[Place[EntityReference]]
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
        own, *others = _referring(readers, store, places)
        return Why(record_of(store.fragment(fragment)[1]), own, others, fit.likelihood, fit.unit)


@aside
def compare(readers: Readers, first: str, second: str) -> Comparison[EntityReference]:
    """Why two entities are separate; raises as `kbforge.jobs.explain.compare`."""
    with readers.store() as store:
        fit = readers.models(store)[0]
        with readers.scoring():
            found: Any = explain.compare(store, fit, first, second)
        one, two = references(readers, store, [found.first, found.second])
        return replace(found, first=one, second=two)


def _referring(readers: Readers, store: Store, found: Sequence[Any]) -> list[Any]:
    """Answers about entities with references in place of ids."""
    entities = references(readers, store, [one.entity for one in found])
    return [replace(one, entity=entity) for one, entity in zip(found, entities, strict=True)]

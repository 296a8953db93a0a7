"""Explains matches, places of fragments, and why two entities are separate.

Totals and explanations are in nats (`unit`), or in points of a score if the likelihood gives scores
and no probabilities.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from kbforge.contracts import Explanation, Fragment
from kbforge.contracts.entity import Natural, Probability
from kbforge.fit.choices import PreparedRun
from kbforge.jobs import explain
from kbforge.jobs.match import match as matched
from kbforge_serve.answers import Answer, EntityReference, Record, record_of
from kbforge_serve.facts import references
from kbforge_serve.helpers import aside
from kbforge_serve.readers import Readers


class MatchCandidate(Answer, frozen=True):
    """An entity that a fragment may belong to."""

    entity: EntityReference
    probability: Probability
    reported: Probability
    total: float | None
    explanation: Explanation | None


class MatchResult(Answer, frozen=True):
    """What a fragment would join; `new` is the probability that it is none of the entities."""

    candidates: list[MatchCandidate]
    new: Probability
    compared: Natural
    likelihood: str
    unit: Literal["nats", "points"]


class FragmentReason(Answer, frozen=True):
    """What speaks for a fragment in an entity with so many others."""

    entity: EntityReference
    others: Natural
    total: float | None
    explanation: Explanation | None


class Why(Answer, frozen=True):
    """Why a fragment is in its entity and not in others."""

    fragment: Record
    own: FragmentReason
    rivals: list[FragmentReason]
    likelihood: str
    unit: Literal["nats", "points"]


class SharedValues(Answer, frozen=True):
    """Values of an attribute that two entities share, and that one has alone."""

    both: Sequence[str]
    first: Sequence[str]
    second: Sequence[str]


class EntityComparison(Answer, frozen=True):
    """Why two entities are not one: `total` is the log odds of one entity against two.

    `together` is the probability that all of their fragments are one entity, `mixed` that some are.
    """

    first: EntityReference
    second: EntityReference
    compared: list[Natural]
    total: float | None
    explanation: Explanation | None
    together: Probability
    mixed: Probability
    values: dict[str, SharedValues]
    likelihood: str
    unit: Literal["nats", "points"]


@aside
def match(readers: Readers, fragment: Fragment, most: int = 10) -> MatchResult:
    """The entities that a fragment would join; it is not kept.

    Raises as `kbforge.jobs.match.match`.
    """
    with readers.store() as store:
        fit = readers.models(store)[0]
        with readers.scoring:
            found = matched(store, fit, fragment, most, readers.clusters)
        entities = references(readers, store, [one.entity for one in found.candidates])
        candidates = [
            MatchCandidate(entity, one.probability, one.reported, one.total, one.explanation)
            for entity, one in zip(entities, found.candidates, strict=True)
        ]
        return MatchResult(candidates, found.new, found.compared, **_unit(fit))


@aside
def why(readers: Readers, fragment: str, rivals: int = 5) -> Why:
    """Why a fragment is in its entity, and what speaks for its being in others.

    Raises as `kbforge.jobs.explain.why`.
    """
    with readers.store() as store:
        fit = readers.models(store)[0]
        with readers.scoring:
            places = explain.why(store, fit, fragment, rivals)
        found = store.fragment(fragment)
        assert found is not None, "it was read at the same moment"
        entities = references(readers, store, [place.entity for place in places])
        own, *others = [
            FragmentReason(entity, place.others, place.total, place.explanation)
            for entity, place in zip(entities, places, strict=True)
        ]
        return Why(record_of(found[1]), own, others, **_unit(fit))


@aside
def compare(readers: Readers, first: str, second: str) -> EntityComparison:
    """Why two entities are not one; raises as `kbforge.jobs.explain.compare`."""
    with readers.store() as store:
        fit = readers.models(store)[0]
        with readers.scoring:
            found = explain.compare(store, fit, first, second)
        one, two = references(readers, store, [found.first, found.second])
        return EntityComparison(
            first=one,
            second=two,
            compared=list(found.compared),
            total=found.total,
            explanation=found.explanation,
            together=found.together,
            mixed=found.mixed,
            values={name: SharedValues(*values) for name, values in found.values.items()},
            **_unit(fit),
        )


def _unit(fit: PreparedRun) -> dict[str, Any]:
    """The likelihood, and what its numbers are in."""
    unit = "nats" if fit.spec.likelihood.probability else "points"
    return {"likelihood": fit.likelihood, "unit": unit}

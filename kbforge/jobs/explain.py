"""Explaining: why a fragment is in its entity, attribute by attribute."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from kbforge.contracts import Entity, Explanation, Fragment, Problem
from kbforge.errors import KBForgeError, UsageError, quoted
from kbforge.jobs.choices import Choices
from kbforge.jobs.making import Prepared
from kbforge.jobs.prepare import prepare
from kbforge.kb.fragments import fragments_of
from kbforge.kb.select import with_fragment

OnFragments: TypeAlias = Callable[[int], None]
"""Called with a number of fragments."""


@dataclass(frozen=True, slots=True)
class Reason:
    """An entity and what speaks for a fragment's being one of its fragments.

    Attributes:
        entity: as it is in the knowledge base.
        own: whether the fragment is in it.
        others: how many fragments it has besides that one.
        explanation: None if there are no others.

    """

    entity: Entity
    own: bool
    others: int
    explanation: Explanation | None


class Explainer:
    """A knowledge base and the likelihood that explains it.

    Args:
        entities: all of the knowledge base: a likelihood without a model learns from them.
        choices: likelihood, alpha and options.

    Raises:
        KBForgeError: the knowledge base is empty, or as `prepare`.
        UsageError: the likelihood does not tell attributes apart.

    """

    def __init__(self, entities: Sequence[Entity], choices: Choices) -> None:
        if not entities:
            raise KBForgeError("the knowledge base is empty")
        self._entities = {entity.id: entity for entity in entities}
        self._fragments = {entity.id: fragments_of(entity) for entity in entities}
        prepared = prepare([f for fs in self._fragments.values() for f in fs], choices)
        if not prepared.problem.likelihood.explains:
            name = quoted(choices.likelihood_name, 400)
            raise UsageError(
                f"likelihood {name} does not tell what each attribute says; attributes does"
            )
        self.prepared: Prepared = prepared

    @property
    def fragments(self) -> int:
        """How many the knowledge base has."""
        return sum(map(len, self._fragments.values()))

    def reasons(
        self, fragment_id: str, rivals: int, on_fragments: OnFragments | None = None
    ) -> list[Reason]:
        """For the fragment's own entity, then those of the others that it would fit best.

        Args:
            fragment_id: of the fragment.
            rivals: how many others.
            on_fragments: called with how many of all fragments were compared with so far.

        Raises:
            UsageError: the knowledge base has no such fragment.

        """
        own = with_fragment(self._entities.values(), fragment_id)
        x = next(f for f in self._fragments[own.id] if f.id == fragment_id)
        found = []
        for name, entity in self._told(on_fragments):
            if name != own.id and self._comparable(x, self._fragments[name]):
                explanation = self._explain(x, self._fragments[name])
                found.append(Reason(entity, False, len(entity.fragments), explanation))
        found.sort(key=lambda reason: (-_total(reason), reason.entity.id))
        rest = [f for f in self._fragments[own.id] if f.id != fragment_id]
        why = self._explain(x, rest) if rest else None
        return [Reason(own, True, len(rest), why), *found[:rivals]]

    def explained(self, on_fragments: OnFragments | None = None) -> Iterator[Entity]:
        """Every entity with the explanation of each fragment that is not alone in it.

        Args:
            on_fragments: called with how many fragments were explained so far.

        """
        done = 0
        for name, entity in self._entities.items():
            explanations: dict[str, Explanation] = {}
            # fragments that say the same are with the same others
            known: dict[frozenset[tuple[str, tuple[str, ...]]], Explanation] = {}
            fragments = self._fragments[name]
            for i, x in enumerate(fragments):
                if len(fragments) > 1:
                    says = frozenset((key, tuple(v)) for key, v in x.properties.items())
                    if says not in known:
                        known[says] = self._explain(x, [*fragments[:i], *fragments[i + 1 :]])
                    explanations[x.id] = known[says]
                done += 1
                if on_fragments is not None:
                    on_fragments(done)
            yield replace(entity, explanations=explanations)

    def _told(self, on_fragments: OnFragments | None) -> Iterator[tuple[str, Entity]]:
        done = 0
        for name, entity in self._entities.items():
            yield name, entity
            done += len(entity.fragments)
            if on_fragments is not None:
                on_fragments(done)

    def _explain(self, x: Fragment, cluster: Sequence[Fragment]) -> Explanation:
        return explained(self.prepared.problem, x, cluster)

    def _comparable(self, x: Fragment, cluster: Sequence[Fragment]) -> bool:
        index = self.prepared.problem.index
        if index is None:
            return True
        keys = set(index.keys(x))
        return any(not keys.isdisjoint(index.keys(fragment)) for fragment in cluster)


def explained(problem: Problem, x: Fragment, cluster: Sequence[Fragment]) -> Explanation:
    """What speaks for a fragment's being with others; the likelihood explains.

    Args:
        problem: likelihood and alpha.
        x: the fragment.
        cluster: the others; at least one.

    """
    prior = math.log(len(cluster)) - math.log(problem.alpha)
    return Explanation(prior, dict(problem.likelihood.contributions(x, cluster)))


def _total(reason: Reason) -> float:
    return -math.inf if reason.explanation is None else reason.explanation.total

"""Explaining: why a fragment is in its entity, attribute by attribute."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from kbforge.clustering.state import DirichletProcess
from kbforge.contracts import Entity, Explanation, Fragment, Provenance
from kbforge.errors import KBForgeError, UsageError, quoted
from kbforge.fit.choices import Choices, Fit, choices_of
from kbforge.fit.prepare import prepare
from kbforge.fit.review import explained
from kbforge.jobs.models import restore
from kbforge.jobs.views import entities_of
from kbforge.kb.entities import fragments_of
from kbforge.kb.read import made_by, with_fragment
from kbforge.store.database import Database, is_store
from kbforge.store.store import Store

OnFragments: TypeAlias = Callable[[int], None]
"""Called with a number of fragments."""


@dataclass(frozen=True, slots=True)
class Reason:
    """An entity, and what speaks for a fragment's being one of its fragments."""

    entity: Entity
    own: bool  # whether the fragment is in it
    others: int  # how many fragments it has besides that one
    explanation: Explanation | None  # None if there are no others

    def _repr_html_(self) -> str:
        """The entity and the explanation, for notebooks."""
        why = "" if self.explanation is None else self.explanation._repr_html_()
        return self.entity._repr_html_() + why


class Explainer:
    """A knowledge base and the likelihood that explains it.

    Choices that are not given are as the knowledge base was made. A likelihood without a model
    learns from the entities; a store's has learned.

    Raises:
        KBForgeError: an empty knowledge base, or one whose model has changed; or as `prepare`.
        UsageError: the likelihood does not tell attributes apart.

    """

    def __init__(self, kb: str, given: Choices) -> None:
        entities = list(entities_of(kb))
        if not entities:
            raise KBForgeError("the knowledge base is empty")
        self._entities = {entity.id: entity for entity in entities}
        self._fragments = {entity.id: fragments_of(entity) for entity in entities}
        everything = [f for fs in self._fragments.values() for f in fs]
        prepared = _prepared(kb, everything, given, made_by(entities))
        if not prepared.problem.likelihood.explains:
            raise UsageError(
                f"likelihood {quoted(prepared.likelihood, 400)} does not say what each attribute "
                "contributes; attributes does"
            )
        self.prepared: Fit = prepared

    @property
    def fragments(self) -> int:
        """How many the knowledge base has."""
        return sum(map(len, self._fragments.values()))

    def reasons(
        self, fragment_id: str, rivals: int, on_fragments: OnFragments | None = None
    ) -> list[Reason]:
        """For the fragment's own entity, then those `rivals` others that it would fit best.

        `on_fragments` is called with how many fragments were compared with so far.
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

        `on_fragments` is called with how many fragments were explained so far.
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


def _prepared(
    kb: str, fragments: Sequence[Fragment], given: Choices, ways: Sequence[Provenance]
) -> Fit:
    """The models that the knowledge base was made with, but for what is given instead."""
    made = ways[0] if len(ways) == 1 else None
    if given.likelihood is not None or given.calibration is not None:
        return _saying(prepare(fragments, given), made)
    if len(ways) > 1:
        raise UsageError(
            f"{quoted(kb, 400)} was made in {len(ways)} ways, as by joining files; name one "
            f"--likelihood, such as {quoted(ways[0].likelihood, 400)}"
        )
    if is_store(kb) and not any(given.options.values()):
        with Database(kb) as database:
            prepared, choices = restore(Store(database))
        alpha = prepared.alpha
        if given.alpha is not None:
            alpha = DirichletProcess(given.alpha).alpha
        problem = prepared.models.problem(alpha, choices)
        return _saying(replace(prepared, alpha=alpha, problem=problem), made)
    if made is None:
        return prepare(fragments, given)
    own = choices_of(made, kb)
    options = {**own.of("likelihood"), **given.of("likelihood")}
    choices = replace(own, options={"likelihood": options})
    if given.alpha is not None:
        choices = replace(choices, alpha=given.alpha)
    return _saying(prepare(fragments, choices), made, options != own.of("likelihood"))


def _saying(prepared: Fit, made: Provenance | None, options: bool = False) -> Fit:
    """Add a note if these are not the models that the knowledge base was made with."""
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


def _total(reason: Reason) -> float:
    return -math.inf if reason.explanation is None else reason.explanation.total

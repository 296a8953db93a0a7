"""Labelled fragments clustered without their labels, in one order or several.

What a clustering claims depends on the order in which the fragments arrive. The mean over several
orders claims less.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from kbforge.contracts import Fragment, Posterior, Progress
from kbforge.errors import KBForgeError
from kbforge.evaluation.reliability import (
    Entities,
    Pairs,
    entity_probabilities,
    pair_probabilities,
    renumbered,
)
from kbforge.fit.choices import Choices
from kbforge.fit.confidence import Reading
from kbforge.fit.prepare import prepare

OnOrder = Callable[[int, Progress], None]
"""Called with the number of the order, from 0, and how far its clustering has come."""


@dataclass(frozen=True, slots=True)
class Orders:
    """Fragments clustered in one order or several.

    Attributes:
        fragments: in the order given.
        posteriors: one an order, all in the numbers of the first.
        labels: gold.
        alpha: before tempering.
        confidence: the map that goes with the choices.
        notes: sentences for the user.

    """

    fragments: tuple[Fragment, ...]
    posteriors: tuple[Posterior, ...]
    labels: tuple[str | None, ...]
    alpha: float
    confidence: Reading | None
    notes: tuple[str, ...]

    def pairs(self, least: float) -> Pairs:
        """What is reported of pairs more probable than `least`."""
        return pair_probabilities(self.posteriors, least)

    def entities(self) -> Entities:
        """What is reported of entities."""
        return entity_probabilities(self.posteriors)


def cluster_orders(
    fragments: Sequence[Fragment], choices: Choices, shuffles: int, on_order: OnOrder | None
) -> Orders:
    """Cluster the fragments in the order given, then in random ones, `shuffles` in all.

    Raises:
        KBForgeError: no labels, or as `kbforge.jobs.cluster.cluster`.

    """
    labels = tuple(fragment.label for fragment in fragments)
    if fragments and all(label is None for label in labels):
        raise KBForgeError(f"none of the {len(fragments):,} fragments has a label")
    prepared = prepare(fragments, choices)
    posteriors = []
    for number in range(shuffles):
        order = _order(len(fragments), number, choices.seed)
        posterior = prepared.clusterer.cluster(
            [fragments[k] for k in order],
            prepared.problem,
            np.random.default_rng(choices.seed),
            None if on_order is None else _numbered(on_order, number),
        )
        posteriors.append(renumbered(posterior, order) if number else posterior)
    return Orders(
        tuple(fragments),
        tuple(posteriors),
        labels,
        prepared.alpha,
        prepared.confidence,
        prepared.notes,
    )


def _order(n: int, number: int, seed: int) -> list[int]:
    """The order given, then random ones."""
    if not number:
        return list(range(n))
    found: list[int] = np.random.default_rng([seed, number]).permutation(n).tolist()
    return found


def _numbered(on_order: OnOrder, number: int) -> Callable[[Progress], None]:
    return lambda progress: on_order(number, progress)

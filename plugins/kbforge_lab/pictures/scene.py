"""What a picture shows: points, how they are grouped, and the blocks that are separate problems.

A scene comes from a posterior, which knows its particles, or from a knowledge base, which keeps
the best grouping alone. Side by side stand the heaviest groupings of all fragments: particles of
the subproblems, combined. Subproblems are independent, so the best combination takes the heaviest
particle of each, and the next ones differ from it in the subproblem that is least sure.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from kbforge.contracts import Cluster, Entity, FloatArray, Fragment, Posterior, Subproblem
from kbforge.errors import UsageError, quoted
from kbforge.words import counted, percent
from kbforge_lab.pictures import matching


@dataclass(frozen=True, slots=True)
class View:
    """One grouping.

    Attributes:
        title: stands above it.
        clusters: every fragment shown, each once.
        blocks: the fragments of each subproblem.
        moved: fragments that are in another cluster than in the first view.

    """

    title: str
    clusters: tuple[Cluster, ...]
    blocks: tuple[Cluster, ...]
    moved: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Scene:
    """Points of shape [n, 2] and one or more views of them."""

    points: FloatArray
    views: tuple[View, ...]


def points_of(fragments: Sequence[Fragment]) -> FloatArray:
    """The fragments' vectors, shape [n, 2]."""
    if not fragments:
        raise UsageError("there are no fragments to draw")
    for fragment in fragments:
        count = len(fragment.vector or ())
        if count != 2:
            has = f"one of {count}" if count else "none"
            raise UsageError(
                f'fragment "{quoted(fragment.id)}": expected a vector of 2 numbers to draw, '
                f"got {has} (kbforge load csv --vector x,y makes them from columns)"
            )
    return np.array([fragment.vector for fragment in fragments], dtype=np.float64)


def scene_of_kb(entities: Iterable[Entity], fragments: Sequence[Fragment]) -> Scene:
    """The best grouping, as a knowledge base keeps it."""
    points = points_of(fragments)
    index = {fragment.id: i for i, fragment in enumerate(fragments)}
    clusters: list[Cluster] = []
    blocks: dict[int, list[int]] = {}
    for entity in entities:
        unknown = [f for f in entity.fragments if f not in index]
        if unknown:
            raise UsageError(
                f'entity "{quoted(entity.id)}" has the fragment "{quoted(unknown[0])}", which the '
                "fragments lack: give those that were clustered"
            )
        members = tuple(sorted(index[f] for f in entity.fragments))
        clusters.append(members)
        blocks.setdefault(entity.subproblem, []).extend(members)
    missing = len(fragments) - sum(map(len, clusters))
    if missing:
        raise UsageError(f"the knowledge base lacks {missing:,} of the fragments")
    title = counted(len(clusters), "entity", "entities")
    view = View(title, tuple(clusters), tuple(tuple(sorted(b)) for b in blocks.values()))
    return Scene(points, (view,))


def scene_of_posterior(
    fragments: Sequence[Fragment], posterior: Posterior, count: int = 1
) -> Scene:
    """The `count` most probable groupings, side by side; fewer if there are not so many.

    Where one grouping is all that was kept, there is no saying how probable it is.
    """
    blocks = tuple(subproblem.fragments for subproblem in posterior.subproblems)
    alone = all(len(subproblem.particles) == 1 for subproblem in posterior.subproblems)
    views: list[View] = []
    for rank, (log_weight, clusters) in enumerate(heaviest(posterior.subproblems, count), 1):
        moved = matching.moved(views[0].clusters, clusters) if views else ()
        entities = counted(len(clusters), "entity", "entities")
        title = entities if alone else f"{rank}. {entities}, {_percent(math.exp(log_weight))}"
        views.append(View(title, clusters, blocks, moved))
    return Scene(points_of(fragments[: posterior.n_fragments]), tuple(views))


def heaviest(
    subproblems: Sequence[Subproblem], count: int
) -> list[tuple[float, tuple[Cluster, ...]]]:
    """The heaviest combinations of one particle of each subproblem, with their log weights.

    Exact: among the heaviest of a sum, each part is among the heaviest of its own.
    """
    found: list[tuple[float, tuple[int, ...]]] = [(0.0, ())]
    for subproblem in subproblems:
        extended = (
            (weight + particle.log_weight, (*ranks, rank))
            for weight, ranks in found
            for rank, particle in enumerate(subproblem.particles[:count])
        )
        found = heapq.nsmallest(count, extended, key=lambda item: (-item[0], item[1]))
    return [
        (
            weight,
            tuple(
                cluster
                for subproblem, rank in zip(subproblems, ranks, strict=True)
                for cluster in subproblem.particles[rank].clusters
            ),
        )
        for weight, ranks in found
    ]


def _percent(probability: float) -> str:
    """A probability in words that stay honest at both ends."""
    if probability < 0.0001:
        return f"probability {probability:.0e}"
    if probability < 0.1:
        return f"probability {100 * probability:.2g} %"
    return f"probability {percent(probability)}"

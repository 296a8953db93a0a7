"""The joint of several subproblems, and what remains of it without some fragments."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from kbforge.clustering.revise.groupings import (
    Row,
    heaviest,
    joint,
    log_densities,
    rows_of,
    terms_of,
)
from kbforge.clustering.state import State
from kbforge.contracts import Cluster, FloatArray
from kbforge.numerics import log_sum_exp


class JointParticles(NamedTuple):
    """Particles of several subproblems together, at most P.

    Attributes:
        rows: the heaviest combinations, heaviest first.
        values: their log target densities, shape [rows].
        term: log alpha + lgamma(|C|) + L(C) of every cluster of the subproblems.
        mass: log of the sum of the densities of *all* combinations.

    """

    rows: list[Row]
    values: FloatArray
    term: Mapping[Cluster, float]
    mass: float


def joined(state: State, names: Collection[int], particles: int) -> JointParticles:
    """The particles of some subproblems together, at most so many."""
    parts = []
    term: dict[Cluster, float] = {}
    mass = 0.0
    for name in sorted(names):
        own = terms_of(state, name)
        rows = rows_of(state, name)
        # sampled merges and stochastic resamplers weigh otherwise, so the order may be another
        rows, values = heaviest(rows, log_densities(rows, own), len(rows))
        parts.append((rows, values))
        term |= own
        mass += log_sum_exp(values)
    return JointParticles(*joint(parts, particles), term, mass)


def rests_of(
    rows: Sequence[Row], taken: Collection[int], term: Mapping[Cluster, float]
) -> tuple[list[Row], FloatArray]:
    """What is left of rows without some fragments, of those that group these by themselves.

    Args:
        rows: any, of the same fragments.
        taken: some of them.
        term: log alpha + lgamma(|C|) + L(C) of the rows' clusters.

    """
    wanted = set(taken)
    rests = []
    for row in rows:
        rest = tuple(cluster for cluster in row if wanted.isdisjoint(cluster))
        if sum(map(len, rest)) + len(wanted) == sum(map(len, row)):
            rests.append(rest)
    return heaviest(rests, log_densities(rests, term), len(rests))

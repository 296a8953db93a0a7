"""What a clusterer knows of the grouping: weighted particles of independent subproblems."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias

import numpy as np

Cluster: TypeAlias = tuple[int, ...]
"""Indices of fragments in order of arrival, ascending."""


@dataclass(frozen=True, slots=True)
class Particle:
    """One weighted grouping of a subproblem's fragments. `log_weight` is in nats."""

    log_weight: float
    clusters: tuple[Cluster, ...]


@dataclass(frozen=True, slots=True)
class Subproblem:
    """A block of fragments that share a cluster with no other block on any particle.

    Attributes:
        fragments: ascending.
        particles: distinct, heaviest first.
        estimate: the grouping that is taken; None takes the heaviest particle's.

    """

    fragments: Cluster
    particles: tuple[Particle, ...]
    estimate: tuple[Cluster, ...] | None = None

    @property
    def clusters(self) -> tuple[Cluster, ...]:
        """The point estimate."""
        return self.particles[0].clusters if self.estimate is None else self.estimate


class Ending(StrEnum):
    """What ended a run."""

    DONE = "done"
    """Nothing is left to do: every fragment is taken in, no merge gains anything."""

    PATIENCE = "patience"
    """So many sweeps in a row brought no more probable grouping."""

    SWEEPS = "sweeps"
    """So many sweeps were asked for."""

    BUDGET = "budget"
    """So many seconds were."""

    INTERRUPTED = "interrupted"
    """The callback, or a budget that was spent before all fragments had a possible grouping."""


@dataclass(frozen=True, slots=True)
class Posterior:
    """What is known about the grouping of fragments 0..n_fragments-1.

    Attributes:
        subproblems: in order of their smallest fragment.
        log_posterior: unnormalised log posterior (Ewens) of the heaviest particles, in nats:
            the sum over its clusters of log alpha + lgamma(|C|) + L(C). With `max_evals` 0 the
            surrogate's L takes the likelihood's place.
        n_fragments: how many fragments were clustered.
        model_evaluations: sets scored: distinct ones by a black box; by a conjugate likelihood,
            clusters made.
        ended: why the run did not go on.

    """

    subproblems: tuple[Subproblem, ...]
    log_posterior: float
    n_fragments: int
    model_evaluations: int
    ended: Ending = Ending.DONE

    @property
    def complete(self) -> bool:
        """Whether this is the result, and not what an interrupted run had by then."""
        return self.ended is not Ending.INTERRUPTED

    @property
    def log10_effective_particles(self) -> float:
        """log10 of the number of groupings represented: the product over subproblems."""
        return float(sum(np.log10(len(s.particles)) for s in self.subproblems))

    def clusters(self) -> list[Cluster]:
        """The point estimate: clusters of each subproblem's heaviest particle, or its estimate."""
        return [c for s in self.subproblems for c in s.clusters]

    def labels(self) -> list[int]:
        """The point estimate as one cluster number a fragment, shape [n_fragments]."""
        out = [-1] * self.n_fragments
        for number, cluster in enumerate(self.clusters()):
            for fragment in cluster:
                out[fragment] = number
        return out

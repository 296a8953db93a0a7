"""Clusterers: fragments in, a posterior over groupings out.

One signature for the family:

    cluster(fragments, problem, rng, on_step) -> Posterior

Laws, tested for every member by `kbforge.testing.clusterer`:

1. Every fragment is in exactly one cluster of every particle of exactly one subproblem.
2. No cluster reaches across subproblems; particles of a subproblem are distinct.
3. The weights of a subproblem are normalised (logsumexp 0) and sorted, heaviest first.
4. Same fragments, problem and seed give the same posterior, bit for bit.
5. Gold labels are not read.
6. An `on_step` that raises `Interrupted` ends the run early with the posterior of a prefix of
   the fragments, marked `INTERRUPTED`: those taken in so far by an online method, all of them, as
   well as they are grouped by then, by one that goes over them again and again and has begun to.

A clusterer with a budget of its own says in `ended` that it was spent: `kbforge bench` has it from
there.

What a particle's weight means is the clusterer's to say: a truncated and renormalised posterior
probability in sequential Monte Carlo, how often a Markov chain came by, 1 where one grouping is all
there is.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import ClassVar, TypeAlias

import numpy as np

from kbforge.contracts.fragment import Fragment
from kbforge.contracts.index import CandidateIndex
from kbforge.contracts.likelihood import ConjugateLikelihood, Likelihood

Cluster: TypeAlias = tuple[int, ...]
"""Indices of fragments in order of arrival, ascending."""


@dataclass(frozen=True, slots=True)
class Problem:
    """What to cluster by: prior, model and proposal.

    Attributes:
        likelihood: L(C), perhaps a black box.
        alpha: concentration of the Dirichlet process, > 0.
        surrogate: proposes when the likelihood is a black box; None lets the likelihood itself
            score every putative particle.
        max_evals: M, the most non-singleton putative particles that the surrogate proposes a
            step; None is unlimited, 0 clusters by the surrogate alone.
        index: which clusters the online clusterers compare a fragment with; None is all.

    """

    likelihood: Likelihood
    alpha: float
    surrogate: ConjugateLikelihood | None = None
    max_evals: int | None = None
    index: CandidateIndex | None = None


@dataclass(frozen=True, slots=True)
class Particle:
    """One weighted grouping of a subproblem's fragments. `log_weight` is in nats."""

    log_weight: float
    clusters: tuple[Cluster, ...]


@dataclass(frozen=True, slots=True)
class Subproblem:
    """A block of fragments that share a cluster with no other block on any particle."""

    fragments: Cluster
    particles: tuple[Particle, ...]


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
        log_posterior: unnormalised log posterior (Ewens) of the point estimate, in nats:
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
        """The point estimate: clusters of each subproblem's heaviest particle."""
        return [c for s in self.subproblems for c in s.particles[0].clusters]

    def labels(self) -> list[int]:
        """The point estimate as one cluster number a fragment, shape [n_fragments]."""
        out = [-1] * self.n_fragments
        for number, cluster in enumerate(self.clusters()):
            for fragment in cluster:
                out[fragment] = number
        return out


@dataclass(frozen=True, slots=True)
class Rounds:
    """How far a method has come that goes over all fragments again and again.

    Attributes:
        done: sweeps (or merges) so far.
        most: after how many it ends at the latest, None if that is not known.
        clusters: how many there are in the most probable grouping so far.
        log_posterior: of that grouping, unnormalised, in nats.

    """

    done: int
    most: int | None
    clusters: int
    log_posterior: float


@dataclass(frozen=True, slots=True)
class Progress:
    """The state of a run after a step, for progress bars, plots and logs.

    `posterior()`, where the clusterer offers it, is what the run would return if it ended here; it
    costs as much as the state is large, and is valid only during the call of `on_step`.

    Online methods step from fragment to fragment. Offline ones, which have `rounds`, step from
    round to round, and within long rounds once in a while; they hold one grouping as they go, so
    that `subproblems` is 1 until their posterior is made of what they have visited.
    """

    fragments: int
    total: int
    subproblems: int
    log10_effective_particles: float
    model_evaluations: int
    posterior: Callable[[], Posterior] | None = field(default=None, compare=False, repr=False)
    rounds: Rounds | None = None


class Interrupted(Exception):
    """Raised by an `on_step` callback to end a run early and keep what there is."""


OnStep: TypeAlias = Callable[[Progress], None]


class Clusterer(ABC):
    """An algorithm. Its options are its constructor's parameters.

    Attributes:
        particles: P, the most particles of a subproblem; None where there is no such number.
        takes_budget: whether the constructor has the option `budget`, the seconds it may take.
        unindexed: whether it compares with all clusters, whatever the problem's index says.

    """

    particles: int | None = None
    takes_budget: ClassVar[bool] = False
    unindexed: ClassVar[bool] = False

    @abstractmethod
    def cluster(
        self,
        fragments: Sequence[Fragment],
        problem: Problem,
        rng: np.random.Generator,
        on_step: OnStep | None = None,
    ) -> Posterior:
        """Group the fragments, in the order given.

        Raises:
            LikelihoodError: the likelihood returned NaN, or some fragment has no finite
                assignment; the message names the fragment.

        """

"""Clusterers: fragments in, a posterior over groupings out.

One signature for the family, and a second one for those that are online:

    cluster(fragments, problem, rng, on_step) -> Posterior
    open(problem, rng, snapshot) -> Session

An `OnlineClusterer` writes `open` and has `cluster` for it; a `BatchClusterer` writes `cluster`. A
clusterer that only has `cluster`, of neither base, is a batch method: `open_session` says so.

Laws, tested for every member by `kbforge.testing.clusterer`:

1. Every fragment is in exactly one cluster of every particle of exactly one subproblem.
2. No cluster reaches across subproblems; particles of a subproblem are distinct.
3. The weights of a subproblem are normalised (logsumexp 0) and sorted, heaviest first.
4. Same fragments, problem and seed give the same posterior, bit for bit.
5. Gold labels are not read.
6. An `on_step` that raises `Interrupted` ends the run early with the posterior of a prefix of
   the fragments, marked `INTERRUPTED`: those taken in so far by an online method, all of them, as
   well as they are grouped by then, by one that goes over them again and again and has begun to.

Of sessions:

7. However the fragments are portioned, the posterior is that of `cluster`, bit for bit.
8. A session opened with a snapshot goes on as the one that it is of, bit for bit.
9. A fragment that is refused leaves the session as if it had never come, bit for bit.

A clusterer with a budget of its own says in `ended` that it was spent: `kbforge bench` has it from
there.

What a particle's weight means is the clusterer's to say: a truncated and renormalised posterior
probability in sequential Monte Carlo, how often a Markov chain came by, 1 where one grouping is all
there is.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import partial
from typing import Any, Literal, Protocol, TypeAlias, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from kbforge.contracts.fragment import Fragment
from kbforge.contracts.index import CandidateIndex
from kbforge.contracts.likelihood import ConjugateLikelihood, Likelihood
from kbforge.errors import UsageError

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


class Fate(StrEnum):
    """What became of a fragment."""

    OPENED = "opened"
    """It has a subproblem of its own."""

    JOINED = "joined"
    """One subproblem took it in, and may have fallen apart since."""

    MERGED = "merged"
    """It connected several subproblems, and they may have fallen apart in another way."""


@dataclass(frozen=True, slots=True)
class Info:
    """What taking in one fragment did.

    Attributes:
        fragment: its index, in order of arrival.
        fate: what became of it.
        before: names of the subproblems that were replaced; a subproblem's name is its smallest
            fragment.
        after: names of those in their place, the fragment's own among them.
        subproblems: how many there are now.
        log10_effective_particles: log10 of the number of groupings represented now.
        model_evaluations: sets scored so far, as `Posterior` counts them.

    """

    fragment: int
    fate: Fate
    before: tuple[int, ...]
    after: tuple[int, ...]
    subproblems: int
    log10_effective_particles: float
    model_evaluations: int


@dataclass(frozen=True, slots=True)
class Touched:
    """Subproblems that are not as they were, by name (their smallest fragment), ascending.

    Attributes:
        changed: those that are new or other than before.
        gone: those that are no more.

    """

    changed: tuple[int, ...]
    gone: tuple[int, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Snapshot:
    """A session as plain data: what it takes to go on from here.

    Attributes:
        fragments: those taken in, in order.
        settings: the options that the session was opened with; another clusterer is refused.
        values: numbers, strings, and tuples and mappings of them.
        arrays: by name.
        rng: the state of the random numbers' bit generator.

    """

    fragments: tuple[Fragment, ...]
    settings: Mapping[str, Any]
    values: Mapping[str, Any]
    arrays: Mapping[str, NDArray[Any]]
    rng: Mapping[str, Any]


class Session(Protocol):
    """A clustering that goes on: fragments come when they come.

    Vocabulary, base counts and alpha are fixed when it is opened: the problem holds a likelihood
    that has been fitted, and its alpha. A fragment with values that the likelihood was not fitted
    to is scored by the probability it has for values never seen. To fit again, open a new session
    with a new problem and add the fragments to it.
    """

    @property
    def n_fragments(self) -> int:
        """How many fragments have been taken in."""
        ...

    def add(self, fragments: Sequence[Fragment]) -> list[Info]:
        """Take in fragments, one after another; ids are the caller's to keep unique.

        If one is refused, those before it have been taken in, it and those after it have not.

        Returns:
            What happened, one entry a fragment.

        Raises:
            LikelihoodError: as `Clusterer.cluster`; the message names the fragment.

        """
        ...

    def remove(self, ids: Sequence[str]) -> None:
        """Take fragments out again.

        Raises:
            UsageError: the session cannot do that.

        """
        ...

    def posterior(self) -> Posterior:
        """What is known about the grouping of the fragments taken in."""
        ...

    def touched(self) -> Touched:
        """The subproblems changed since this was last asked, or else since the opening."""
        ...

    def snapshot(self) -> Snapshot:
        """The session as plain data. It shares nothing with the session that will change."""
        ...


class Clusterer(Protocol):
    """An algorithm. Its options are its constructor's parameters."""

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
        ...


class OnlineClusterer(ABC):
    """A clusterer that takes in fragments as they come; clustering a batch is a loop over that."""

    @abstractmethod
    def open(
        self, problem: Problem, rng: np.random.Generator, snapshot: Snapshot | None = None
    ) -> Session:
        """Begin a session, or go on with one.

        Args:
            problem: what to cluster by, its likelihood fitted; to go on, the same as before.
            rng: the session draws from it, and nobody else may; to go on, it is set to where it
                stood.
            snapshot: of a session of the same clusterer.

        Raises:
            UsageError: the snapshot is of a session with other settings.

        """

    def cluster(
        self,
        fragments: Sequence[Fragment],
        problem: Problem,
        rng: np.random.Generator,
        on_step: OnStep | None = None,
    ) -> Posterior:
        """See `Clusterer`: one session, one fragment after another."""
        session = self.open(problem, rng)
        try:
            for fragment in fragments:
                (info,) = session.add((fragment,))
                if on_step is not None:
                    on_step(
                        Progress(
                            session.n_fragments,
                            len(fragments),
                            info.subproblems,
                            info.log10_effective_particles,
                            info.model_evaluations,
                            partial(_interrupted, session),
                        )
                    )
        except Interrupted:
            pass  # what has been taken in is the result
        if session.n_fragments < len(fragments):
            return _interrupted(session)
        return session.posterior()


def _interrupted(session: Session) -> Posterior:
    """What a session knows by now, marked as that of a run which ended early."""
    return replace(session.posterior(), ended=Ending.INTERRUPTED)


class BatchClusterer(ABC):
    """A clusterer that goes over all fragments again and again, so that it needs them at once."""

    @abstractmethod
    def cluster(
        self,
        fragments: Sequence[Fragment],
        problem: Problem,
        rng: np.random.Generator,
        on_step: OnStep | None = None,
    ) -> Posterior:
        """See `Clusterer`."""

    def open(
        self, problem: Problem, rng: np.random.Generator, snapshot: Snapshot | None = None
    ) -> Session:
        """There is no session.

        Raises:
            UsageError: always; it names clusterers that have one.

        """
        raise _no_session(self)


def open_session(
    clusterer: Clusterer,
    problem: Problem,
    rng: np.random.Generator,
    snapshot: Snapshot | None = None,
) -> Session:
    """A session of any clusterer that has one; see `OnlineClusterer.open`.

    Raises:
        UsageError: the clusterer is a batch method: it says so, or only has `cluster`.

    """
    if not isinstance(clusterer, OnlineClusterer | BatchClusterer):
        raise _no_session(clusterer)
    return clusterer.open(problem, rng, snapshot)


def _no_session(clusterer: object) -> UsageError:
    name = type(clusterer).__name__.lower()
    return UsageError(
        f"{name} goes over all fragments again and again: it is a batch method and has no session; "
        "split-smc, smc and greedy have one"
    )


@runtime_checkable
class Unindexed(Protocol):
    """A clusterer that compares with all clusters, whatever the problem's index says."""

    unindexed: Literal[True]

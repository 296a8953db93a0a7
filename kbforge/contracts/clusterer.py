"""Clusterers: compute a posterior over groupings of fragments.

One signature for the family, and a second one for those that are online:

    cluster(fragments, spec, rng, on_step) -> Posterior
    open(spec, rng, snapshot, pages) -> Session

An `OnlineClusterer` writes `open`, and inherits `cluster`. Any other `Clusterer` is an offline
method: it writes `cluster`, and its `open` refuses.

Laws, tested for every member by `kbforge.testing.ClustererContract`:

1. Every fragment is in exactly one cluster of every particle of exactly one subproblem.
2. No cluster reaches across subproblems; particles of a subproblem are distinct.
3. The weights of a subproblem are normalised (logsumexp 0) and sorted, heaviest first.
4. Same fragments, spec and seed give the same posterior, bit for bit.
5. Gold labels are not read.
6. An `on_step` that raises `Interrupted` ends the run with a posterior marked `INTERRUPTED`. An
   online method gives that of the fragments taken in so far; an offline method that has begun to
   go over all fragments gives that of all of them, as they are grouped by then.

Of sessions:

7. However the fragments are portioned, and whatever was foreseen, the posterior is that of
    `cluster`, bit for bit, unless the clusterer `finishes` batches in a way of its own.
8. A session opened with a snapshot goes on as the session it was taken of, bit for bit.
9. A fragment that is refused leaves the session as if it had never come, bit for bit.
10. A removed fragment is in no cluster any more, and laws 1 to 3 hold of those that are left; so
    does law 8. Every particle of what held it weighs its target density.
11. No particle ever violates a constraint that is in force, whenever it came.
12. A revision never makes the point estimate less probable, once it is the densest particle.
13. A session opened on the pages of another goes on as that one, bit for bit: every
    `StepResult`, its posterior, its later checkpoints. Only a black box that gives other bits when
    it is asked again may differ, and sets that it is asked for again may count again.

A clusterer with a budget of its own says in `ended` that it was spent.

What a particle's weight means is the clusterer's to say: a truncated and renormalised posterior
probability in sequential Monte Carlo, the share of a Markov chain's visits, or 1 for a single
grouping.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import ClassVar, TypeAlias

import numpy as np

from kbforge.contracts.fragment import Fragment
from kbforge.contracts.index import CandidateIndex
from kbforge.contracts.likelihood import ConjugateLikelihood, Likelihood
from kbforge.contracts.posterior import Ending, Posterior
from kbforge.contracts.session import Constraints, Pages, Session, Snapshot, StepResult
from kbforge.errors import UsageError


@dataclass(frozen=True, slots=True)
class ModelSpec:
    """What to cluster by: prior, model and proposal.

    Attributes:
        likelihood: L(C), perhaps a black box.
        alpha: concentration of the Dirichlet process, > 0.
        surrogate: proposes when the likelihood is a black box; None lets the likelihood itself
            score every putative particle.
        max_evals: M, the most non-singleton putative particles that the surrogate proposes a
            step; None is unlimited, 0 clusters by the surrogate alone.
        index: which clusters the online clusterers compare a fragment with; None is all.
        constraints: what every grouping must satisfy; only for online clusterers. A session opened
            with a snapshot or on pages has the constraints in force there: give the same, or none,
            or the same without decisions.

    """

    likelihood: Likelihood
    alpha: float
    surrogate: ConjugateLikelihood | None = None
    max_evals: int | None = None
    index: CandidateIndex | None = None
    constraints: Constraints = Constraints()  # noqa: RUF009  # it is frozen

    def require_free(self) -> None:
        """Refuse constraints with a UsageError, as every offline method does."""
        if self.constraints:
            raise UsageError(
                "answers, decisions and a linking attribute need an online clusterer: expected "
                "split-smc, smc or greedy"
            )


_OFTEN = 0.05
"""Seconds after which a progress bar wants to be told."""
_MOST_AT_ONCE = 4096
"""Fragments that are taken in at once, at most."""


class Clusterer(ABC):
    """An algorithm. Its options are its constructor's parameters.

    Attributes:
        particles: P, the most particles of a subproblem; None where there is no such number.
        takes_budget: whether the constructor has the option `budget`, the seconds it may take.
        unindexed: whether it compares with all clusters, whatever the index of the spec says.

    """

    particles: int | None = None
    takes_budget: ClassVar[bool] = False
    unindexed: ClassVar[bool] = False

    @abstractmethod
    def cluster(
        self,
        fragments: Sequence[Fragment],
        spec: ModelSpec,
        rng: np.random.Generator,
        on_step: OnStep | None = None,
    ) -> Posterior:
        """Group the fragments, in the order given.

        Raises:
            LikelihoodError: the likelihood returned NaN, or some fragment has no finite
                assignment; the message names the fragment.

        """

    def open(
        self,
        spec: ModelSpec,
        rng: np.random.Generator,
        snapshot: Snapshot | None = None,
        pages: Pages | None = None,
    ) -> Session:
        """Refuse with a UsageError that names the online clusterers; see `OnlineClusterer.open`."""
        raise UsageError(
            f"{type(self).__name__.lower()} visits all fragments again and again: it is an "
            "offline method and has no session; split-smc, smc and greedy have one"
        )


class OnlineClusterer(Clusterer):
    """A clusterer that takes in fragments as they come.

    Attributes:
        finishes: whether a batch ends with `finish`.

    """

    finishes: bool = False

    @abstractmethod
    def open(
        self,
        spec: ModelSpec,
        rng: np.random.Generator,
        snapshot: Snapshot | None = None,
        pages: Pages | None = None,
    ) -> Session:
        """Begin a session, or go on with one.

        Args:
            spec: what to cluster by, its likelihood fitted; to go on, the same as before.
            rng: only the session may draw from it; to go on, it is set to where it stood.
            snapshot: of a session of the same clusterer.
            pages: likewise, instead of a snapshot; fetched when a fragment leads there. Without an
                index, or where it does not fall apart into subproblems, all are fetched as
                soon as one is needed.

        Raises:
            UsageError: the snapshot or the pages are of a session with other settings, or both are
                given.

        """

    def cluster(
        self,
        fragments: Sequence[Fragment],
        spec: ModelSpec,
        rng: np.random.Generator,
        on_step: OnStep | None = None,
    ) -> Posterior:
        """Open a session, add one fragment after another, and `finish` if it does."""
        session = self.open(spec, rng)
        session.foresee(fragments)
        finishes = self.finishes_with(spec)

        def told(done: StepResult) -> None:
            if on_step is not None:
                on_step(
                    Progress(
                        session.n_fragments,
                        len(fragments),
                        done.subproblems,
                        done.log10_effective_particles,
                        done.model_evaluations,
                        partial(_interrupted, session),
                    )
                )

        try:
            begin, size = 0, 1
            while begin < len(fragments):
                before = time.monotonic()
                step = session.add(fragments[begin : begin + size])[-1]
                begin += size
                told(step)
                size = _next_size(size, time.monotonic() - before, on_step)
            if finishes and fragments:
                self.finish(session, lambda: told(step))
        except Interrupted:  # what has been taken in is the result
            if finishes or session.n_fragments < len(fragments):
                return _interrupted(session)
        return session.posterior()

    def finishes_with(self, spec: ModelSpec) -> bool:
        """Whether a run over a batch by this spec ends with `finish`."""
        return self.finishes

    def finish(self, session: Session, after_step: Callable[[], None]) -> None:
        """What a run over a batch does when all fragments are in the session, if it `finishes`.

        `after_step` is to be called now and then; it may raise `Interrupted`.
        """


def _next_size(size: int, seconds: float, on_step: OnStep | None) -> int:
    """How many fragments to take in before `on_step` is next told; the result is the same."""
    if on_step is not None and not getattr(on_step, "seldom", False):
        return 1
    return min(2 * size, _MOST_AT_ONCE) if seconds < _OFTEN else max(size // 2, 1)


def _interrupted(session: Session) -> Posterior:
    """What a session knows by now, marked as an interrupted run's."""
    return replace(session.posterior(), ended=Ending.INTERRUPTED)


@dataclass(frozen=True, slots=True)
class Stage:
    """A stage of the work before the first step."""

    doing: str  # such as `choosing a likelihood: learning attributes`
    number: int  # from 1
    of: int


OnStage: TypeAlias = Callable[[Stage], None]
"""Is told of every stage when it begins."""


@dataclass(frozen=True, slots=True)
class Rounds:
    """The progress of a method that goes over all fragments again and again."""

    done: int  # sweeps (or merges)
    most: int | None  # when it ends at the latest, None if unknown
    clusters: int  # in the most probable grouping so far
    log_posterior: float  # of that grouping, unnormalised, nats
    probability: bool = True  # else it is a score; see `Likelihood.probability`


@dataclass(frozen=True, slots=True)
class Progress:
    """The state of a run after a step, for progress bars, plots and logs.

    `posterior()`, where the clusterer offers it, is what the run would return if it ended here; it
    costs as much as the state is large, and is valid only during the call of `on_step`.

    Online methods step from fragment to fragment. Offline ones, which have `rounds`, step from
    round to round, and now and then within long rounds; they hold one grouping, so `subproblems`
    is 1 until their posterior is made of what they have visited.
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
"""Is told of every step; one with an attribute `seldom` that is True, some times a second."""

"""Clusterers: compute a posterior over groupings of fragments.

One signature for the family, and a second one for online clusterers:

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

Laws of sessions:

7. However the fragments are split into portions, and whatever was announced, the posterior is that
    of `cluster`, bit for bit, unless the clusterer `finishes` batches in its own way.
8. A session opened with a snapshot continues like the session that made the snapshot, bit for bit.
9. A refused fragment leaves no trace in the session, bit for bit.
10. A removed fragment is in no cluster any more, and laws 1 to 3 and 8 hold for the others. Every
    particle of its former subproblem weighs its target density.
11. No particle ever violates a constraint that is in force.
12. A revision never makes the point estimate less probable, once it is the densest particle.
13. A session opened on the pages of another continues like the other, bit for bit: every
    `StepResult`, its posterior, its later checkpoints. Only a black box that is not deterministic
    may differ, and sets that are scored twice may count twice.

A clusterer with its own budget reports in `ended` that it ran out.

Each clusterer defines what a particle's weight means: a truncated and renormalised posterior
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
    """What to cluster with: prior, model and proposal.

    Attributes:
        likelihood: L(C), perhaps a black box.
        alpha: concentration of the Dirichlet process, > 0.
        surrogate: proposes joins when the likelihood is a black box; without one the likelihood
            itself scores every putative particle.
        max_evals: M, the maximum of non-singleton putative particles that the surrogate proposes
            per step; None is unlimited, 0 clusters by the surrogate alone.
        index: which clusters the online clusterers compare a fragment with; None is all.
        constraints: what every grouping must satisfy; only for online clusterers. A session opened
            with a snapshot or on pages keeps its constraints: give the same, or none, or the same
            without decisions.

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
"""Maximum seconds between calls to a progress bar."""
_MOST_AT_ONCE = 4096
"""Maximum fragments that are added at once."""


class Clusterer(ABC):
    """A clustering algorithm. The constructor's parameters are its options.

    Attributes:
        particles: P, the maximum of particles per subproblem; None if there is no maximum.
        takes_budget: whether the constructor has the option `budget`, in seconds.
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
    """A clusterer that accepts fragments as they arrive.

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
        """Open a new session, or continue one.

        Args:
            spec: what to cluster with, its likelihood fitted; the same as before when it continues.
            rng: only the session may draw from it; when the session continues, its old state is
                restored.
            snapshot: of a session of the same clusterer.
            pages: of such a session, instead of a snapshot; each is fetched when a fragment needs
                it. Without an index, or if there are no subproblems, all are fetched as soon as one
                is needed.

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
        """Open a session, add the fragments one by one, and `finish` if the clusterer does."""
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
        """Whether a run over a batch with this spec ends with `finish`."""
        return self.finishes

    def finish(self, session: Session, after_step: Callable[[], None]) -> None:
        """Work of a run over a batch once all fragments are in the session, if it `finishes`.

        It calls `after_step` now and then, which may raise `Interrupted`.
        """


def _next_size(size: int, seconds: float, on_step: OnStep | None) -> int:
    """How many fragments to add before the next call of `on_step`; the result is the same."""
    if on_step is not None and not getattr(on_step, "seldom", False):
        return 1
    return min(2 * size, _MOST_AT_ONCE) if seconds < _OFTEN else max(size // 2, 1)


def _interrupted(session: Session) -> Posterior:
    """The session's current posterior, marked as an interrupted run's."""
    return replace(session.posterior(), ended=Ending.INTERRUPTED)


@dataclass(frozen=True, slots=True)
class Stage:
    """A stage of the work before the first step."""

    doing: str  # such as `choosing a likelihood: learning attributes`
    number: int  # from 1
    of: int


OnStage: TypeAlias = Callable[[Stage], None]
"""Called at the start of every stage."""


@dataclass(frozen=True, slots=True)
class Rounds:
    """The progress of a method that makes several passes over all fragments."""

    done: int  # sweeps (or merges)
    most: int | None  # when it ends at the latest, None if unknown
    clusters: int  # in the most probable grouping so far
    log_posterior: float  # of that grouping, unnormalised, nats
    probability: bool = True  # else it is a score; see `Likelihood.probability`


@dataclass(frozen=True, slots=True)
class Progress:
    """The state of a run after a step, for progress bars, plots and logs.

    `posterior()`, where the clusterer offers it, is what the run would return if it ended now. Its
    cost grows with the state, and it is valid only during the call of `on_step`.

    Online methods step from fragment to fragment. Offline methods, which have `rounds`, step from
    round to round, and now and then within a long round. They hold one grouping, so `subproblems`
    is 1 until their posterior is built from the groupings that they visited.
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
"""Called after every step; if its attribute `seldom` is True, a few times a second."""

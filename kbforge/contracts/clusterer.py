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
   online method returns the posterior of the fragments added so far; an offline method that has
   begun its passes returns that of all fragments in their current grouping.

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

*Numbers and places.* A fragment's number says how many came before it. No number is used twice,
even if a removed fragment is added again. A subproblem's name is its smallest number. `StepResult`,
`SubproblemChanges` and `Session.subproblem` use numbers, so a store may keep them. A `Posterior`
uses places in `Session.fragments`, which are the same until a fragment is removed.

*Constraints.* A decision says that two fragments are the same entity (a must-link) or that they are
not (a cannot-link). If A and B are the same entity, anything that is the same as A is the same as
B, and anything that differs from A differs from B. A decision may name fragments that do not exist
yet or no longer. `link` names an attribute whose values are unique within an entity, as when two
tables without duplicates are linked. `known` separates the entities of an authority. A grouping
that violates a constraint has no weight.

*Rules.* Values are compared without case and spaces; a missing value says nothing. `always` names
attributes: fragments that share a value of one are the same entity, in order of arrival, unless
another constraint keeps them apart. `never` names attributes: two fragments whose values of one are
disjoint are different entities. Decisions that merge such fragments win: what they merge is exempt
from that rule.

*Paging.* A `Snapshot` holds a whole session. A store holds it in pages instead, one for each
subproblem. A session that is opened on pages fetches those that a fragment's keys lead to before it
adds the fragment. Its results equal those of a session that holds all pages, bit for bit.
`Session.checkpoint` returns what changed, and the owner of the pages writes it.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import partial
from typing import Any, ClassVar, NamedTuple, Protocol, TypeAlias

import numpy as np

from kbforge.contracts.fragment import Fragment, comparable
from kbforge.contracts.index import CandidateIndex
from kbforge.contracts.likelihood import ConjugateLikelihood, FloatArray, IntArray, Likelihood
from kbforge.contracts.posterior import Cluster, Ending, Posterior, Subproblem, parts_of
from kbforge.errors import UsageError, option


@dataclass(frozen=True, slots=True)
class Decision:
    """Whether the fragments with these two ids are the same entity.

    If `same` is None, somebody could not tell, which binds nothing: nobody is asked again.
    `name` identifies the decision in messages, such as "decision 7"; it may be "".
    """

    same: bool | None
    first: str
    second: str
    name: str = ""

    @property
    def word(self) -> str:
        """What it says."""
        return "cannot tell" if self.same is None else "same" if self.same else "different"


StatedSet: TypeAlias = tuple[str, frozenset[str]]  # an attribute, and comparable values of it


class RuleSet(NamedTuple):
    """Attributes that must not differ within an entity, and those that merge fragments."""

    never: tuple[str, ...] = ()
    always: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Constraints:
    """The constraints on groupings.

    Two fragments that share a value of the attribute `link` are different entities; "source" is
    where a fragment comes from, and None sets no such rule. With `known`, so are two fragments that
    represent entities of an authority (`Fragment.known`). `never` and `always` are rules.
    """

    decisions: tuple[Decision, ...] = ()
    link: str | None = None
    known: bool = False
    never: tuple[str, ...] = ()
    always: tuple[str, ...] = ()

    def stated(self, fragment: Fragment) -> tuple[str, ...]:
        """The fragment's values of `link`; no other fragment of its entity has one of them.

        Entities of an authority also share the value `KNOWN`.
        """
        known = (KNOWN,) if self.known and fragment.known is not None else ()
        if self.link is None:
            return known
        values = fragment.properties.get(self.link)
        if values is None and self.link == "source" and fragment.source is not None:
            return (fragment.source, *known)
        return (*dict.fromkeys(values or ()), *known)

    def differing(self, fragment: Fragment) -> tuple[StatedSet, ...]:
        """What a fragment states of the attributes that must not differ."""
        sets = ((name, comparable(fragment.properties.get(name, ()))) for name in self.never)
        return tuple((name, frozenset(values)) for name, values in sets if values)

    def shared(self, fragment: Fragment) -> tuple[tuple[str, str], ...]:
        """The attributes and values that make a fragment the same entity as others with them."""
        of = fragment.properties
        return tuple((name, v) for name in self.always for v in comparable(of.get(name, ())))

    @property
    def rules(self) -> RuleSet:
        """The rules."""
        return RuleSet(self.never, self.always)

    def __bool__(self) -> bool:
        """Whether there are any constraints."""
        return any((self.decisions, self.link is not None, self.known, self.never, self.always))


KNOWN = "\0known"
"""The value that all entities of an authority share; no value of a record contains NUL."""


class Fate(StrEnum):
    """What happened to a fragment."""

    OPENED = "opened"
    """It has a new subproblem."""

    JOINED = "joined"
    """It joined one subproblem, which may have split since."""

    MERGED = "merged"
    """It connected several subproblems, which may have split differently."""


@dataclass(frozen=True, slots=True)
class StepResult:
    """The result of adding one fragment."""

    fragment: int  # its number
    fate: Fate
    before: tuple[int, ...]  # names of the subproblems that were replaced
    after: tuple[int, ...]  # names of those in their place, the fragment's own among them
    subproblems: int  # how many there are now
    log10_effective_particles: float
    model_evaluations: int  # sets scored so far, as `Posterior` counts them


@dataclass(frozen=True, slots=True)
class SubproblemChanges:
    """Names of the subproblems that changed or no longer exist, ascending."""

    changed: tuple[int, ...]  # also new ones
    gone: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Revision:
    """The result of a revision."""

    steps: int
    changed: int  # the steps that changed anything
    gain: float  # in the log of the sum of the target densities held, nats; >= 0


@dataclass(frozen=True, slots=True, eq=False)
class Snapshot:
    """A session as plain data: all that another needs to continue.

    Attributes:
        fragments: all, in order of arrival.
        totals: data outside the subproblems.
        pages: of all subproblems, by ascending name.
        postings: the families that each index key leads to; keys without any are left out.
        scores: the sets that a black box scored, as fragments with their contents, and their L in
            nats; empty for a conjugate likelihood.
        merges_cut: as of a `Posterior`.

    """

    fragments: Sequence[Fragment]
    totals: Totals
    pages: tuple[SubproblemData, ...]
    postings: Mapping[int, KeyFamilies]
    scores: Mapping[tuple[int, ...], float]
    merges_cut: float = 0.0


class Session(Protocol):
    """A clustering that continues as fragments arrive.

    The spec holds a fitted likelihood and its alpha, which never change: a value outside the fitted
    data has the probability of an unseen value. To fit again, open a new session with a new spec
    and add the fragments to it.
    """

    @property
    def n_fragments(self) -> int:
        """The number of fragments added and not removed."""
        ...

    @property
    def fragments(self) -> tuple[Fragment, ...]:
        """The current fragments, in order of arrival."""
        ...

    def number(self, id: str) -> int:
        """The number of the fragment with this id; a UsageError if there is none, or several."""
        ...

    def foresee(self, fragments: Sequence[Fragment]) -> None:
        """Announce the fragments to be added next, in any portions.

        This is a hint: the session may prepare them together, with the same result. Adding other
        fragments drops the hint.
        """
        ...

    def add(self, fragments: Sequence[Fragment]) -> list[StepResult]:
        """Add fragments one by one; the caller keeps ids unique.

        Returns one result per fragment. If a fragment is refused, those before it have been added;
        it and those after it have not.

        Raises:
            LikelihoodError: as `Clusterer.cluster`; the message names the fragment.
            ContradictionError: decisions make a fragment the same entity as another that has the
                same value of the linking attribute.

        """
        ...

    def adding(self, fragments: Iterable[Fragment]) -> Iterator[StepResult]:
        """Add fragments like `add`, each when its result is requested, with the same errors.

        The session accepts other calls in between. It may look ahead at many fragments, so this is
        faster than adding one by one.
        """
        ...

    def remove(self, ids: Sequence[str]) -> None:
        """Remove fragments from every particle.

        Every particle's weight becomes its target density: the posterior of the other fragments, up
        to a constant of the subproblem. Particles that become equal count once; their weights are
        not summed. Subproblems split if no cluster connects them any more. A fragment with a
        removed id may be added again, and gets a new number.

        Raises:
            UsageError: an id that no fragment has, or several have; nothing has changed.
            LikelihoodError: the likelihood fails on the rest of a cluster, or no grouping of the
                rest is possible; nothing has changed.

        """
        ...

    def revise(
        self,
        passes: int = 1,
        ids: Sequence[str] | None = None,
        after_step: Callable[[], None] | None = None,
    ) -> Revision:
        """Improve the grouping: cluster neighbours again, split, merge, move fragments.

        Over all subproblems, neither the log of the summed target densities of the kept particles
        nor the density of any heaviest particle falls.

        Args:
            passes: passes over the clusters, two steps each; then one step per fragment.
            ids: visit these fragments instead of all clusters.
            after_step: called after each step; an exception ends the revision and leaves the
                session consistent.

        Raises:
            UsageError: an id that no fragment has, or several have.
            LikelihoodError: the likelihood fails; the steps before stay.

        """
        ...

    def bridge(self, id: str) -> float:
        """Merge two clusters that a new fragment fits; `add` never merges clusters.

        If the fragment would rather join a second cluster than be alone, this tries both as one.
        Returns the gain in the log of the summed target densities, nats; >= 0.

        Raises:
            UsageError: an id that no fragment has, or several have.
            LikelihoodError: the likelihood fails; merges before it stay.

        """
        ...

    @property
    def constraints(self) -> Constraints:
        """the constraints in force: those of the spec, and those decided since."""
        ...

    def constrain(self, decisions: Sequence[Decision]) -> None:
        """Make every particle satisfy these decisions from now on.

        Particles that violate one are dropped. If none is left, the subproblems concerned are
        merged, and the fragments of their clusters are removed and clustered again.

        Raises:
            ContradictionError: not all decisions can hold; nothing has changed. The message
                names those that cause it.
            LikelihoodError: no grouping that satisfies them is possible; nothing has changed.

        """
        ...

    def govern(self, never: Sequence[str], always: Sequence[str]) -> None:
        """Replace the rules; what former ones alone parted or merged is clustered again.

        All subproblems are loaded. Raises a LikelihoodError if no grouping that satisfies the rules
        is possible; nothing has changed.
        """
        ...

    @property
    def contradictions(self) -> Sequence[str]:
        """Sentences about rules that other constraints overrule for fragments in memory."""
        ...

    def lift(self, decisions: Sequence[Decision]) -> None:
        """Drop these decisions, and cluster again the fragments that they affected.

        The state differs from that of a session without them; a snapshot from before restores that.
        Raises a UsageError if one of them is not in force; nothing has changed.
        """
        ...

    def posterior(self) -> Posterior:
        """The posterior of the current fragments, by place."""
        ...

    def subproblem(self, name: int) -> Subproblem:
        """One subproblem, by number, at a cost that grows with its size; a KeyError if there is
        none."""
        ...

    def clusters(self, name: int) -> Sequence[Cluster]:
        """The point estimate of one subproblem, at the same cost; a KeyError if there is none."""
        ...

    def touched(self) -> SubproblemChanges:
        """The subproblems changed since the last call, or since the opening."""
        ...

    def snapshot(self) -> Snapshot:
        """The session as plain data, independent of the session."""
        ...

    def checkpoint(self) -> Checkpoint:
        """What changed since the last checkpoint, or since the opening on pages.

        If the session was opened otherwise, its first checkpoint has everything. The checkpoint
        shares nothing with the session. The caller writes it, and `Pages` return it from then on;
        if that fails, the session must not be used any more.
        """
        ...


@dataclass(frozen=True, slots=True, eq=False)
class SubproblemData:
    """One subproblem: its distinct clusters, and its particles as rows of them.

    Attributes:
        name: its smallest fragment.
        slots: of its clusters, shape [clusters], in the order in which they are to be freed.
        lengths: fragments of each cluster, shape [clusters].
        members: the numbers of their fragments, cluster after cluster, each ascending.
        scores: L of each cluster, nats, shape [clusters].
        rows: clusters of each particle, shape [particles].
        cells: places of these among the clusters, particle after particle.
        weights: log weights, normalised, descending, shape [particles].

    """

    name: int
    slots: IntArray
    lengths: IntArray
    members: IntArray
    scores: FloatArray
    rows: IntArray
    cells: IntArray
    weights: FloatArray

    def clusters(self) -> dict[int, Cluster]:
        """The fragments of each cluster, by slot."""
        held = np.split(self.members, np.cumsum(self.lengths)[:-1])
        return {
            slot: tuple(members.tolist())
            for slot, members in zip(self.slots.tolist(), held, strict=True)
        }

    def heaviest(self) -> tuple[Cluster, ...]:
        """The clusters of the heaviest particle."""
        held = parts_of(self.members, self.lengths.tolist())
        return tuple(sorted([tuple(held[k]) for k in self.cells[: self.rows[0]].tolist()]))

    def subproblem(self) -> Subproblem:
        """The page as plain tuples."""
        clusters = [tuple(held) for held in parts_of(self.members, self.lengths.tolist())]
        rows = parts_of(self.cells, self.rows.tolist())
        return Subproblem.of(clusters, self.weights.tolist(), rows)


class KeyFamilies(NamedTuple):
    """Where an index key leads.

    Attributes:
        families: first fragments of the clusters that it leads to, in the order of the session;
            some may be outdated now and valid again later.
        closed: whether it leads to too many.

    """

    families: tuple[int, ...]
    closed: bool


@dataclass(frozen=True, slots=True, eq=False)
class Totals:
    """Session data outside its pages; small, whatever the number of pages."""

    settings: Mapping[str, Any]  # the options that it was opened with; another clusterer is refused
    constraints: Constraints  # in force
    n_fragments: int
    n_numbers: int  # how many were given
    n_slots: int  # how many were used
    free: IntArray  # slots to be taken again, the last one first
    n_subproblems: int
    log10_effective_particles: float
    evaluations: int  # sets scored; a black box that a session asks again may count some again
    rng: Mapping[str, Any]  # the state of the bit generator


class Pages(Protocol):
    """A session's pages, read only, as of the last checkpoint."""

    @property
    def totals(self) -> Totals:
        """The session data outside the pages."""
        ...

    def pages(self, names: Sequence[int]) -> list[SubproblemData]:
        """Subproblems, in this order; a KeyError if one of the names is no subproblem's."""
        ...

    def names(self) -> Sequence[int]:
        """All subproblems, ascending."""
        ...

    def fragments(self, numbers: Sequence[int]) -> Mapping[int, Fragment]:
        """Fragments by number; all of them exist."""
        ...

    def numbers(self, ids: Sequence[str]) -> Mapping[str, int]:
        """The numbers of fragments by id, without ids that no fragment has."""
        ...

    def homes(self, numbers: Sequence[int]) -> Mapping[int, int]:
        """The subproblem of each fragment that exists."""
        ...

    def postings(self, keys: Sequence[int]) -> Mapping[int, KeyFamilies]:
        """The families of each key, without keys that have none."""
        ...

    def keys(self) -> Sequence[int]:
        """All keys that have families; only a snapshot asks for them."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class Checkpoint:
    """What changed in a session since the last checkpoint, or since its pages were opened."""

    totals: Totals
    pages: tuple[SubproblemData, ...]  # of the subproblems that changed, by ascending name
    gone: tuple[int, ...]  # names, ascending
    postings: Mapping[int, KeyFamilies]  # that changed; without families and not closed: nowhere


@dataclass(frozen=True, slots=True)
class ModelSpec:
    """What to cluster with: prior, model and proposal.

    Attributes:
        likelihood: L(C), perhaps a black box.
        alpha: concentration of the Dirichlet process, > 0.
        exponent: of the factor (|C| - 1)! in the prior; 1 is the Dirichlet process. Only online
            clusterers take another.
        surrogate: proposes joins when the likelihood is a black box; without one the likelihood
            itself scores every putative particle.
        max_evals: M, the maximum number of non-singleton putative particles that the surrogate
            proposes per step; None is unlimited, 0 clusters by the surrogate alone.
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
    constraints: Constraints = Constraints()  # it is frozen
    exponent: float = 1.0

    def require_free(self) -> None:
        """Refuse constraints and size exponents with a UsageError, as offline methods do."""
        if self.exponent != 1:
            raise UsageError(
                f"{option('size-exponent')}: an offline clusterer expects 1, got "
                f"{self.exponent}; split-smc, smc and greedy take others"
            )
        if self.constraints:
            raise UsageError(
                "answers, decisions and a linking attribute need an online clusterer: expected "
                "split-smc, smc or greedy"
            )


_OFTEN = 0.05
"""Maximum time between calls to a progress bar, in seconds."""
_MOST_AT_ONCE = 4096
"""Maximum number of fragments that are added at once."""


class Clusterer(ABC):
    """A clustering algorithm. The constructor's parameters are its options.

    Attributes:
        particles: P, the maximum number of particles per subproblem; None if there is no maximum.
        unindexed: whether it compares with all clusters, whatever the index of the spec says.

    """

    particles: int | None = None
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
            UsageError: the snapshot or the pages are of a session with different settings, or both
                are given.

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

    def begun(
        self,
        fragments: Sequence[Fragment],
        spec: ModelSpec,
        rng: np.random.Generator,
        on_step: OnStep | None = None,
    ) -> Snapshot | None:
        """A session that has clustered a whole file, to be opened and continued.

        None if the clusterer adds fragments one by one. An `on_step` may raise `Interrupted`.
        """
        return None

    def finishes_with(self, spec: ModelSpec) -> bool:
        """Whether a run over a batch with this spec groups it in its own way, as by `finish`."""
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

"""Sessions: a clustering that accepts more fragments and can be saved as plain data.

*Numbers and places.* A fragment's number says how many came before it. No number is given twice,
not even when a removed fragment comes again. A subproblem's name is its smallest number.
`StepResult`, `SubproblemChanges` and `Session.subproblem` speak of numbers, so a store may keep
what they say. A `Posterior` speaks of places in `Session.fragments`: the same, as long as nothing
was removed.

*Constraints.* A decision says that two fragments are the same entity (a must-link) or that they are
not (a cannot-link). If A and B are the same entity, anything that is the same as A is the same as
B, and anything that differs from A differs from B. A decision may name fragments that have not come
yet, or that are gone. `link` names an attribute: no entity holds a value of it twice, as when two
tables are linked and no table lists an entity twice. `known` keeps the entities of an authority
apart. A grouping that violates a constraint has no weight.

*Paging.* A `Snapshot` holds a whole session. A store holds it in pages instead, one for each
subproblem. A session that is opened on pages fetches those that a fragment's keys lead to before it
takes the fragment in, and decides, bit for bit, as a session that holds all of them.
`Session.checkpoint` gives what changed, and whoever keeps the pages writes it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, NamedTuple, Protocol

from kbforge.contracts.fragment import Fragment
from kbforge.contracts.likelihood import FloatArray, IntArray
from kbforge.contracts.posterior import Cluster, Posterior, Subproblem


@dataclass(frozen=True, slots=True)
class Decision:
    """Whether the fragments with these two ids are the same entity.

    `name` is what messages call the decision, such as "decision 7"; it may be "".
    """

    same: bool
    first: str
    second: str
    name: str = ""


@dataclass(frozen=True, slots=True)
class Constraints:
    """All that groupings must satisfy.

    Two fragments that share a value of the attribute `link` are different entities; "source" is
    where a fragment is from, and None sets no such rule. With `known`, so are two fragments that
    stand for entities of an authority (`Fragment.known`).
    """

    decisions: tuple[Decision, ...] = ()
    link: str | None = None
    known: bool = False

    def stated(self, fragment: Fragment) -> tuple[str, ...]:
        """The fragment's values of `link`; no other fragment of its entity has one of them.

        Entities of an authority share the value `KNOWN` besides.
        """
        known = (KNOWN,) if self.known and fragment.known is not None else ()
        if self.link is None:
            return known
        values = fragment.properties.get(self.link)
        if values is None and self.link == "source" and fragment.source is not None:
            return (fragment.source, *known)
        return (*dict.fromkeys(values or ()), *known)

    def __bool__(self) -> bool:
        """Whether there are any constraints."""
        return bool(self.decisions) or self.link is not None or self.known


KNOWN = "\0known"
"""What entities of an authority state; no value of a record has a NUL."""


class Fate(StrEnum):
    """What became of a fragment."""

    OPENED = "opened"
    """It has a subproblem of its own."""

    JOINED = "joined"
    """One subproblem took it in, and may have fallen apart since."""

    MERGED = "merged"
    """It connected several subproblems, and they may have fallen apart in another way."""


@dataclass(frozen=True, slots=True)
class StepResult:
    """What taking in one fragment did."""

    fragment: int  # its number
    fate: Fate
    before: tuple[int, ...]  # names of the subproblems that were replaced
    after: tuple[int, ...]  # names of those in their place, the fragment's own among them
    subproblems: int  # how many there are now
    log10_effective_particles: float
    model_evaluations: int  # sets scored so far, as `Posterior` counts them


@dataclass(frozen=True, slots=True)
class SubproblemChanges:
    """Subproblems that changed, or are gone, by name, ascending."""

    changed: tuple[int, ...]  # also new ones
    gone: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Revision:
    """What a revision did."""

    steps: int
    changed: int  # the steps that changed anything
    gain: float  # in the log of the sum of the target densities held, nats; >= 0


@dataclass(frozen=True, slots=True, eq=False)
class Snapshot:
    """A session as plain data: all that another needs to go on.

    Attributes:
        fragments: all, in order of arrival.
        totals: what belongs to no subproblem.
        pages: of all subproblems, by ascending name.
        led: where the keys of the index lead; those that lead nowhere are left out.
        scores: the sets, as fragments with their contents, that a black box was asked for, and
            their L in nats; none of a conjugate likelihood.

    """

    fragments: tuple[Fragment, ...]
    totals: Totals
    pages: tuple[SubproblemData, ...]
    postings: Mapping[int, KeyFamilies]
    scores: Mapping[tuple[int, ...], float]


class Session(Protocol):
    """A clustering that goes on: fragments come when they come.

    The spec holds a fitted likelihood and its alpha, which never change: a value that the
    likelihood was not fitted to has the probability of a value never seen. To fit again, open a new
    session with a new spec and add the fragments to it.
    """

    @property
    def n_fragments(self) -> int:
        """The number of fragments taken in and not removed since."""
        ...

    @property
    def fragments(self) -> tuple[Fragment, ...]:
        """The present fragments, in order of arrival."""
        ...

    def number(self, id: str) -> int:
        """The number of the fragment with this id; a UsageError if there is none, or several."""
        ...

    def foresee(self, fragments: Sequence[Fragment]) -> None:
        """Announce the fragments to be added next, one after another, in any portions.

        This is a hint: the session may do at once what they all need, with the same result. Adding
        others drops the hint.
        """
        ...

    def add(self, fragments: Sequence[Fragment]) -> list[StepResult]:
        """Take in fragments, one after another; ids are the caller's to keep unique.

        Returns what happened, one entry a fragment. If a fragment is refused, those before it have
        been taken in; it and those after it have not.

        Raises:
            LikelihoodError: as `Clusterer.cluster`; the message names the fragment.
            ContradictionError: decisions make a fragment the same entity as another that has the
                same value of the linking attribute.

        """
        ...

    def adding(self, fragments: Iterable[Fragment]) -> Iterator[StepResult]:
        """Take in fragments as `add`, each when its entry is asked for, with the same errors.

        In between the session may be asked for anything else. It may look ahead at many fragments,
        so this is faster than adding one by one.
        """
        ...

    def remove(self, ids: Sequence[str]) -> None:
        """Take fragments out of every particle.

        Every particle's weight becomes its target density: the posterior of what is left, up to a
        constant of the subproblem. Particles that become equal count once; their weights are not
        summed. Subproblems fall apart where nothing connects them any more. A fragment with a
        removed id may be added again, and gets a new number.

        Raises:
            UsageError: an id that no fragment has, or several have; nothing has changed then.
            LikelihoodError: the likelihood fails on what is left of a cluster, or no grouping that
                is left is possible; nothing has changed then.

        """
        ...

    def revise(
        self,
        passes: int = 1,
        ids: Sequence[str] | None = None,
        after_step: Callable[[], None] | None = None,
    ) -> Revision:
        """Spend time on old mistakes: cluster neighbours again, split, merge, move fragments.

        The log of the sum of the target densities held, over all subproblems, and the density of
        every subproblem's heaviest particle never fall.

        Args:
            passes: how often to go over the clusters, two steps each; then one step a fragment.
            ids: go over these fragments instead of all clusters.
            after_step: is called after each step; what it raises ends the revision, and the session
                stays whole.

        Raises:
            UsageError: an id that no fragment has, or several have.
            LikelihoodError: the likelihood fails; the steps before stay.

        """
        ...

    def bridge(self, id: str) -> float:
        """Merge two clusters that a new fragment belongs to; `add` never merges clusters.

        If the fragment would rather join a second cluster than be alone, this offers both as one.
        Returns the gain in the log of the sum of the target densities held, nats; >= 0.

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
        """Make every particle satisfy these decisions, too, from now on.

        Particles that violate one go. Where none is left, the subproblems concerned are merged,
        and the fragments of the clusters concerned are taken out and clustered again.

        Raises:
            ContradictionError: not all decisions can hold; nothing has changed then. The message
                names those that cause it.
            LikelihoodError: no grouping that satisfies them is possible; nothing has changed then.

        """
        ...

    def lift(self, decisions: Sequence[Decision]) -> None:
        """Drop these decisions, and cluster again what they decided.

        The state is not that of a session without them; a snapshot from before restores that.
        Raises a UsageError if one of them is not in force; nothing has changed then.
        """
        ...

    def posterior(self) -> Posterior:
        """What is known about the grouping of the present fragments, by place."""
        ...

    def subproblem(self, name: int) -> Subproblem:
        """One subproblem, by number, at a cost that grows with its size; a KeyError without it."""
        ...

    def clusters(self, name: int) -> Sequence[Cluster]:
        """The point estimate of one subproblem, at the same cost; a KeyError without it."""
        ...

    def touched(self) -> SubproblemChanges:
        """The subproblems changed since the last call, or else since the opening."""
        ...

    def snapshot(self) -> Snapshot:
        """The session as plain data, which shares nothing with it."""
        ...

    def checkpoint(self) -> Checkpoint:
        """What changed since the last checkpoint, or since the pages that it was opened on.

        The first checkpoint of a session that was opened otherwise has everything. It shares
        nothing with the session. The caller writes it, and `Pages` give it from then on; if that
        fails, the session is of no more use.
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


class KeyFamilies(NamedTuple):
    """Where a key of the index leads.

    Attributes:
        families: first fragments of the clusters that it leads to, in the order of the session;
            some may be the first of no cluster now, but of one again later.
        closed: whether it leads too far.

    """

    families: tuple[int, ...]
    closed: bool


@dataclass(frozen=True, slots=True, eq=False)
class Totals:
    """What a session knows beside its pages; small, whatever their number."""

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
    """Where the pages of a session lie, read only, as of the last checkpoint."""

    @property
    def totals(self) -> Totals:
        """What the session knew beside the pages."""
        ...

    def page(self, name: int) -> SubproblemData:
        """One subproblem; a KeyError if there is none of that name."""
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
        """Where keys lead, without keys that lead nowhere."""
        ...

    def keys(self) -> Sequence[int]:
        """All keys that lead anywhere; only a snapshot asks for them."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class Checkpoint:
    """What of a session changed since the checkpoint before, or since its pages."""

    totals: Totals
    pages: tuple[SubproblemData, ...]  # of the subproblems that changed, by ascending name
    gone: tuple[int, ...]  # names, ascending
    postings: Mapping[int, KeyFamilies]  # that changed; without families and not closed: nowhere

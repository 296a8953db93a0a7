"""Sessions: a clustering that goes on, fragment by fragment, and that is kept as plain data.

*Numbers and places.* A fragment's number says how many came before it. No number is given twice,
not even when a removed fragment comes again. A subproblem's name is its smallest number. `Info`,
`SubproblemChanges` and `Session.subproblem` speak of numbers, so a store may keep what they say. A
`Posterior` speaks of places in `Session.fragments`: the same, as long as nothing was removed.

*Constraints.* A decision says that two fragments are the same entity (a must-link) or that they are
not (a cannot-link). If A and B are the same entity, anything that is the same as A is the same as
B, and anything that differs from A differs from B. A decision may name fragments that have not come
yet, or that are gone. `link` names an attribute: no entity holds a value of it twice, as when two
tables are linked and no table lists an entity twice. A grouping that violates a constraint has no
weight.

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
    where a fragment is from, and None sets no such rule.
    """

    decisions: tuple[Decision, ...] = ()
    link: str | None = None

    def stated(self, fragment: Fragment) -> tuple[str, ...]:
        """The fragment's values of `link`; no other fragment of its entity has one of them."""
        if self.link is None:
            return ()
        values = fragment.properties.get(self.link)
        if values is None and self.link == "source" and fragment.source is not None:
            return (fragment.source,)
        return tuple(dict.fromkeys(values or ()))

    def __bool__(self) -> bool:
        """Whether there are any constraints."""
        return bool(self.decisions) or self.link is not None


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
        fragment: its number.
        fate: what became of it.
        before: names of the subproblems that were replaced.
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
class SubproblemChanges:
    """Subproblems that are not as they were, by name, ascending.

    Attributes:
        changed: those that are new or other than before.
        gone: those that are no more.

    """

    changed: tuple[int, ...]
    gone: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Revision:
    """What a revision did.

    Attributes:
        steps: how many there were.
        changed: how many of them changed anything.
        gain: by how much the log of the sum of the target densities held has grown, nats; >= 0.

    """

    steps: int
    changed: int
    gain: float


@dataclass(frozen=True, slots=True, eq=False)
class Snapshot:
    """A session as plain data: what it takes to go on from here.

    Attributes:
        fragments: those that there were, in order of arrival.
        totals: what is not of one subproblem.
        pages: of all subproblems, by ascending name.
        led: where the keys of the index lead; those that lead nowhere are left out.
        scores: of a black box, the sets asked for and their L, nats, each by fragments with its
            contents; of a conjugate likelihood, none.

    """

    fragments: tuple[Fragment, ...]
    totals: Totals
    pages: tuple[Page, ...]
    led: Mapping[int, KeyFamilies]
    scores: Mapping[tuple[int, ...], float]


class Session(Protocol):
    """A clustering that goes on: fragments come when they come.

    Vocabulary, base counts and alpha are fixed when it is opened: the problem holds a likelihood
    that has been fitted, and its alpha. A fragment with values that the likelihood was not fitted
    to is scored by the probability it has for values never seen. To fit again, open a new session
    with a new problem and add the fragments to it.
    """

    @property
    def n_fragments(self) -> int:
        """How many fragments there are: taken in, and not removed since."""
        ...

    @property
    def fragments(self) -> tuple[Fragment, ...]:
        """Those that there are, in order of arrival."""
        ...

    def number(self, id: str) -> int:
        """The number of the fragment with this id.

        Raises:
            UsageError: there is none, or there are several.

        """
        ...

    def foresee(self, fragments: Sequence[Fragment]) -> None:
        """These are to be added next, one after another, in any portions.

        A hint: the session may have done for several at once what they all need, and what happens
        is the same. Whoever is given fragments that were not foreseen forgets the hint.
        """
        ...

    def add(self, fragments: Sequence[Fragment]) -> list[Info]:
        """Take in fragments, one after another; ids are the caller's to keep unique.

        If one is refused, those before it have been taken in, it and those after it have not.

        Returns:
            What happened, one entry a fragment.

        Raises:
            LikelihoodError: as `Clusterer.cluster`; the message names the fragment.
            ContradictionError: decisions make a fragment one with another that has the same value
                of the linking attribute.

        """
        ...

    def adding(self, fragments: Iterable[Fragment]) -> Iterator[Info]:
        """Take in fragments as `add`, each when what happened is asked for.

        In between the session may be asked for anything else. Many may be looked at ahead, so
        this is faster than to add one and one.

        Returns:
            What happened, one entry a fragment.

        Raises:
            LikelihoodError: as `add`, when the fragment's turn has come.
            ContradictionError: likewise.

        """
        ...

    def remove(self, ids: Sequence[str]) -> None:
        """Take fragments out of every particle, as if they had not come.

        Every particle's weight becomes its target density: the posterior of what is left, up to
        a constant of the subproblem. Particles that are equal now are one, and are not summed.
        Subproblems fall apart where nothing connects them any more. A fragment with a removed
        one's id may be added again, and has a new number then.

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
            passes: how often to go over the clusters; each time two steps a cluster, and in the
                end one a fragment.
            ids: go over these fragments instead of all clusters.
            after_step: is called after each; what it raises ends the revision there, and leaves
                the session whole.

        Raises:
            UsageError: an id that no fragment has, or several have.
            LikelihoodError: the likelihood fails; the steps before stay.

        """
        ...

    def bridge(self, id: str) -> float:
        """Make one of the clusters that a new fragment belongs to.

        Taking in a fragment never makes one cluster of two. Where it would rather join a second
        cluster than be alone, this offers both as one.

        Returns:
            By how much the log of the sum of the target densities held has grown, nats; >= 0.

        Raises:
            UsageError: an id that no fragment has, or several have.
            LikelihoodError: the likelihood fails; what was made one before stays so.

        """
        ...

    @property
    def constraints(self) -> Constraints:
        """Those in force: the problem's, and what was decided since."""
        ...

    def constrain(self, decisions: Sequence[Decision]) -> None:
        """Have these decisions honoured, too, by every particle from now on.

        Particles that violate one go. Where none is left, the subproblems concerned are merged,
        and the fragments of the clusters concerned are taken out and clustered again.

        Raises:
            ContradictionError: not all decisions can hold; nothing has changed then. The message
                names those that cause it.
            LikelihoodError: no grouping that satisfies them is possible; nothing has changed then.

        """
        ...

    def lift(self, decisions: Sequence[Decision]) -> None:
        """Honour these decisions no longer, and cluster again what they had decided.

        The state is not that of a session which never heard of them: a snapshot from before is.

        Raises:
            UsageError: one of them is not in force; nothing has changed then.

        """
        ...

    def posterior(self) -> Posterior:
        """What is known about the grouping of the fragments that there are, by place."""
        ...

    def subproblem(self, name: int) -> Subproblem:
        """What is known of one subproblem, by number; costs no more than it is large.

        Raises:
            KeyError: there is none of that name.

        """
        ...

    def clusters(self, name: int) -> Sequence[Cluster]:
        """The point estimate of one subproblem, by number; costs no more than that is large.

        Raises:
            KeyError: there is none of that name.

        """
        ...

    def touched(self) -> SubproblemChanges:
        """The subproblems changed since this was last asked, or else since the opening."""
        ...

    def snapshot(self) -> Snapshot:
        """The session as plain data. It shares nothing with the session that will change."""
        ...

    def checkpoint(self) -> Checkpoint:
        """What is other than at the last checkpoint, or than the pages it was opened on.

        Of a session that was opened otherwise, the first one has everything. It shares nothing
        with the session that will change. Who asks for it writes it, and `Pages` say it from then
        on; if that fails, the session is of no use any more.
        """
        ...


@dataclass(frozen=True, slots=True, eq=False)
class Page:
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
            among them such as no cluster begins with any more, but may again.
        closed: whether it has been found to lead too far.

    """

    families: tuple[int, ...]
    closed: bool


@dataclass(frozen=True, slots=True, eq=False)
class Totals:
    """What a session knows beside its pages; small, whatever their number.

    Attributes:
        settings: the options that it was opened with; another clusterer is refused.
        constraints: in force.
        n_fragments: how many there are.
        n_numbers: how many numbers were given.
        n_slots: how many slots were.
        free: slots to be taken again, the last one first.
        n_subproblems: how many there are.
        log10_effective_particles: of all subproblems.
        evaluations: sets scored so far; of a black box, some that a session asked again may be
            counted again.
        rng: the state of the random numbers' bit generator.

    """

    settings: Mapping[str, Any]
    constraints: Constraints
    n_fragments: int
    n_numbers: int
    n_slots: int
    free: IntArray
    n_subproblems: int
    log10_effective_particles: float
    evaluations: int
    rng: Mapping[str, Any]


class Pages(Protocol):
    """Where the pages of a session lie. It is read only, and is as of the last checkpoint."""

    @property
    def totals(self) -> Totals:
        """What the session knew beside them."""
        ...

    def page(self, name: int) -> Page:
        """One subproblem.

        Raises:
            KeyError: there is none of that name.

        """
        ...

    def names(self) -> Sequence[int]:
        """All subproblems, ascending."""
        ...

    def fragments(self, numbers: Sequence[int]) -> Mapping[int, Fragment]:
        """Fragments by number; those that there are not are left out."""
        ...

    def numbers(self, ids: Sequence[str]) -> Mapping[str, int]:
        """The numbers of fragments by id; ids that none has are left out."""
        ...

    def homes(self, numbers: Sequence[int]) -> Mapping[int, int]:
        """The subproblem of each fragment; those that there are not are left out."""
        ...

    def led(self, keys: Sequence[int]) -> Mapping[int, KeyFamilies]:
        """Where keys lead; keys that lead nowhere are left out."""
        ...

    def keys(self) -> Sequence[int]:
        """All keys that lead anywhere; asked for by nothing but a snapshot."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class Checkpoint:
    """What of a session is other than at the checkpoint before, or than its pages.

    Attributes:
        totals: as they are now.
        pages: of the subproblems that changed, by ascending name.
        gone: names of those that are no more, ascending.
        led: where keys lead that lead elsewhere now; to no family, and not closed: nowhere.

    """

    totals: Totals
    pages: tuple[Page, ...]
    gone: tuple[int, ...]
    led: Mapping[int, KeyFamilies]

"""Paging: a session whose subproblems lie elsewhere, and are fetched when a fragment leads there.

A store holds a session in pages, one a subproblem. A session that is opened on pages holds none of
them at first. Before a fragment is taken in, the session fetches the pages that its keys lead to;
what it decides is what a session that holds all of them would, bit for bit. `Session.checkpoint`
gives what is other than before, and whoever keeps the pages writes it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from kbforge.contracts.constraints import Constraints
from kbforge.contracts.fragment import Fragment
from kbforge.contracts.likelihood import FloatArray, IntArray


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


class Led(NamedTuple):
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

    def led(self, keys: Sequence[int]) -> Mapping[int, Led]:
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
    led: Mapping[int, Led]

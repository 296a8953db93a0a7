"""The result of a clusterer: weighted particles of independent subproblems."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import accumulate, chain, pairwise
from typing import Any, NamedTuple, TypeAlias, overload

import numpy as np
from numpy.typing import NDArray

FloatArray: TypeAlias = NDArray[np.float64]
IntArray: TypeAlias = NDArray[np.int64]

Cluster: TypeAlias = tuple[int, ...]
"""Indices of fragments in order of arrival, ascending."""


@dataclass(frozen=True, slots=True)
class Particle:
    """One weighted grouping of a subproblem's fragments. `log_weight` is in nats."""

    log_weight: float
    clusters: tuple[Cluster, ...]


@dataclass(frozen=True, slots=True)
class Subproblem:
    """A block of fragments that never share a cluster with another block in any particle."""

    fragments: Cluster  # ascending
    particles: tuple[Particle, ...]  # distinct, heaviest first
    estimate: tuple[Cluster, ...] | None = None  # None takes the heaviest particle's

    @classmethod
    def of(
        cls, clusters: Sequence[Cluster], weights: Sequence[float], rows: Sequence[Sequence[int]]
    ) -> Subproblem:
        """The subproblem of particles with these log weights, each a row of the clusters."""
        particles = tuple(
            [
                Particle(weight, tuple(sorted([clusters[k] for k in row])))
                for weight, row in zip(weights, rows, strict=True)
            ]
        )
        return cls(tuple(sorted(chain.from_iterable(particles[0].clusters))), particles)

    @property
    def clusters(self) -> tuple[Cluster, ...]:
        """The point estimate."""
        return self.particles[0].clusters if self.estimate is None else self.estimate


class Estimate(NamedTuple):
    """The clusters of a point estimate, by subproblem, then by smallest fragment.

    Attributes:
        lengths: fragments of each cluster, shape [clusters].
        members: of the clusters, end to end, each ascending.
        subproblem: the number of each cluster's subproblem, shape [clusters].
        probability: the weight of the particles that hold exactly this cluster, shape [clusters].

    """

    lengths: IntArray
    members: IntArray
    subproblem: IntArray
    probability: FloatArray


class Subproblems(Sequence[Subproblem]):
    """Subproblems as arrays; each is built when it is requested.

    A million fragments may have ten million clusters in all particles. As tuples these would take
    more memory than the fragments; here each takes four bytes.

    Args:
        clusters: how many distinct clusters each subproblem has, shape [subproblems].
        lengths: fragments of each cluster, shape [all clusters].
        members: of the clusters, end to end, each ascending.
        particles: how many each subproblem has, shape [subproblems].
        weights: log weight of each, heaviest first, shape [all particles].
        rows: clusters of each particle, shape [all particles].
        cells: which of the subproblem's clusters each particle has, particle after particle.

    """

    def __init__(
        self,
        clusters: IntArray,
        lengths: IntArray,
        members: IntArray,
        particles: IntArray,
        weights: FloatArray,
        rows: IntArray,
        cells: IntArray,
    ) -> None:
        self._clusters, self._particles = starts_of(clusters), starts_of(particles)
        self._lengths, self._rows = starts_of(lengths), starts_of(rows)
        self._members = members.astype(np.int32, copy=False)
        self._cells = cells.astype(np.int32, copy=False)
        self._weights = weights

    def __len__(self) -> int:
        return len(self._clusters) - 1

    @overload
    def __getitem__(self, at: int) -> Subproblem: ...

    @overload
    def __getitem__(self, at: slice) -> tuple[Subproblem, ...]: ...

    def __getitem__(self, at: int | slice) -> Subproblem | tuple[Subproblem, ...]:
        places = range(len(self))[at]
        if isinstance(places, range):
            return tuple(map(self._made, places))
        return self._made(places)

    def __iter__(self) -> Iterator[Subproblem]:
        return map(self._made, range(len(self)))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Sequence) or len(self) != len(other):
            return NotImplemented if not isinstance(other, Sequence) else False
        return all(one == two for one, two in zip(self, other, strict=True))

    def __hash__(self) -> int:
        return hash(tuple(self))

    def heaviest(self) -> Iterator[tuple[Cluster, ...]]:
        """The clusters of each subproblem's heaviest particle."""
        for at in range(len(self)):
            clusters = self._clusters_of(at)
            row = self._particles[at]
            cells = self._cells[self._rows[row] : self._rows[row + 1]].tolist()
            yield tuple(sorted([clusters[k] for k in cells]))

    def estimate(self) -> Estimate:
        """The clusters of the heaviest particles."""
        first = self._particles[:-1]
        counts = np.diff(self._rows)[first]
        cells = self._cells[_spread(self._rows[first], counts)]
        subproblem = np.repeat(np.arange(len(self)), counts)
        chosen = cells + self._clusters[subproblem]
        begins = self._lengths[chosen]
        order = np.lexsort((self._members[begins], subproblem))
        chosen, begins = chosen[order], begins[order]
        lengths = self._lengths[chosen + 1] - begins
        members = self._members[_spread(begins, lengths)].astype(np.int64)
        return Estimate(lengths, members, subproblem, self._masses()[chosen])

    def _masses(self) -> FloatArray:
        """The weight of the particles that hold each cluster, shape [all clusters]."""
        out = np.empty(len(self._lengths) - 1)
        # NumPy's exp has other last bits on other processors
        weights = np.fromiter(map(math.exp, self._weights.tolist()), np.float64)
        at = 0
        while at < len(self):
            # as many subproblems as have some millions of cells
            begin = self._rows[self._particles[at]]
            ends = self._rows[self._particles[at + 1 :]]
            end = at + max(int(np.searchsorted(ends, begin + _MOST_CELLS, side="right")), 1)
            low, high = self._particles[at], self._particles[end]
            starts, first = self._rows[low : high + 1], self._clusters[at]
            particles = np.diff(self._particles[at : end + 1])
            offset = np.repeat(self._clusters[at:end] - first, particles)
            counts = np.diff(starts)
            cells = self._cells[starts[0] : starts[-1]] + np.repeat(offset, counts)
            out[first : self._clusters[end]] = np.bincount(
                cells,
                weights=np.repeat(weights[low:high], counts),
                minlength=int(self._clusters[end] - first),
            )
            at = end
        return out

    def arrays(self) -> tuple[NDArray[Any], ...]:
        """Where clusters, members, particles and cells begin, and what they are: clusters, lengths,
        members, particles, weights, rows, cells; not to be changed."""
        return (
            *(self._clusters, self._lengths, self._members, self._particles),
            *(self._weights, self._rows, self._cells),
        )

    def with_others(self, beside: Sequence[int], first: int) -> Subproblems:
        """The same with more fragments, numbered from `first`, the number of those that are there;
        each is in all clusters with the fragment `beside` it."""
        others: dict[int, list[int]] = {}
        for number, one in enumerate(beside, first):
            others.setdefault(one, []).append(number)
        places = np.flatnonzero(np.isin(self._members, beside))
        clusters = (np.searchsorted(self._lengths, places, side="right") - 1).tolist()
        held = zip(clusters, self._members[places].tolist(), strict=True)
        pairs = sorted((cluster, number) for cluster, one in held for number in others[one])
        at, more = np.array(pairs, np.int64).reshape(-1, 2).T
        return Subproblems(
            np.diff(self._clusters),
            np.diff(self._lengths) + np.bincount(at, minlength=len(self._lengths) - 1),
            np.insert(self._members, self._lengths[at + 1], more),
            np.diff(self._particles),
            self._weights,
            *(np.diff(self._rows), self._cells.astype(np.int64)),
        )

    def counts(self) -> IntArray:
        """The number of particles of each, shape [subproblems]."""
        return np.diff(self._particles)

    def _clusters_of(self, at: int) -> list[Cluster]:
        first, last = self._clusters[at : at + 2].tolist()
        ends = self._lengths[first : last + 1]
        members = self._members[ends[0] : ends[-1]]
        return [tuple(held) for held in parts_of(members, np.diff(ends).tolist())]

    def _made(self, at: int) -> Subproblem:
        first, last = self._particles[at : at + 2].tolist()
        ends = self._rows[first : last + 1]
        cells = parts_of(self._cells[ends[0] : ends[-1]], np.diff(ends).tolist())
        return Subproblem.of(self._clusters_of(at), self._weights[first:last].tolist(), cells)


def starts_of(lengths: Sequence[int] | NDArray[np.int64 | np.bool_]) -> IntArray:
    """Where parts of these lengths begin, and where the last part ends."""
    starts = np.zeros(len(lengths) + 1, dtype=np.int64)
    np.cumsum(lengths, out=starts[1:])
    return starts


def parts_of(numbers: NDArray[np.integer[Any]], lengths: Sequence[int]) -> list[list[int]]:
    """Parts of these lengths, in order; most are short, and lists are cut sooner than arrays."""
    cut: list[int] = numbers.tolist()
    return [cut[begin:end] for begin, end in pairwise(accumulate(lengths, initial=0))]


def _spread(begins: IntArray, sizes: IntArray) -> IntArray:
    """The places of parts that begin there and have these sizes, part after part."""
    starts = starts_of(sizes)
    return np.arange(starts[-1]) + np.repeat(begins - starts[:-1], sizes)


_MOST_CELLS = 1 << 21


class Ending(StrEnum):
    """Why a run ended."""

    DONE = "done"
    """Nothing is left to do: every fragment is clustered, and no merge helps."""

    PATIENCE = "patience"
    """The limit of sweeps without a more probable grouping was reached."""

    SWEEPS = "sweeps"
    """The requested number of sweeps was reached."""

    BUDGET = "budget"
    """The requested time was used up."""

    INTERRUPTED = "interrupted"
    """The callback, or a budget that ran out before all fragments had a possible grouping."""


@dataclass(frozen=True, slots=True, repr=False)
class Posterior:
    """The posterior over groupings of fragments 0..n_fragments-1.

    Attributes:
        subproblems: in order of their smallest fragment, as tuples or as `Subproblems`.
        log_posterior: unnormalised log posterior (Ewens) of the heaviest particles, in nats:
            the sum over its clusters of log alpha + e lgamma(|C|) + L(C). With `max_evals` 0, L is
            the surrogate's.
        model_evaluations: distinct sets that a black box scored, or clusters that a conjugate
            likelihood made.
        ended: why the run ended.
        evaluations_in_vain: sets that a black box scored ahead but no step used;
            `model_evaluations` does not count them.
        merges_cut: the expected number of further merges that a bound on the size of subproblems
            left out.

    """

    subproblems: Sequence[Subproblem]
    log_posterior: float
    n_fragments: int
    model_evaluations: int
    ended: Ending = Ending.DONE
    evaluations_in_vain: int = field(default=0, compare=False)
    merges_cut: float = 0.0

    def __repr__(self) -> str:
        blocks = f"{self.n_fragments:,} fragments, {len(self.subproblems):,} subproblems"
        return f"Posterior({blocks}, log posterior {self.log_posterior:,.6g}, {self.ended})"

    @property
    def complete(self) -> bool:
        """Whether the run was completed, not interrupted."""
        return self.ended is not Ending.INTERRUPTED

    @property
    def log10_effective_particles(self) -> float:
        """log10 of the number of groupings represented: the product over subproblems."""
        if isinstance(self.subproblems, Subproblems):
            counts = self.subproblems.counts()
        else:
            counts = np.array([len(s.particles) for s in self.subproblems], np.int64)
        return float(np.cumsum(np.log10(counts))[-1]) if len(counts) else 0.0

    def estimates(self) -> Iterator[tuple[Cluster, ...]]:
        """The point estimate of each subproblem."""
        if isinstance(self.subproblems, Subproblems):
            return self.subproblems.heaviest()
        return (s.clusters for s in self.subproblems)

    def clusters(self) -> list[Cluster]:
        """The point estimate: clusters of each subproblem's heaviest particle, or its estimate."""
        return list(chain.from_iterable(self.estimates()))

    def labels(self) -> list[int]:
        """The point estimate as one cluster number per fragment, shape [n_fragments]."""
        out = [-1] * self.n_fragments
        for number, cluster in enumerate(self.clusters()):
            for fragment in cluster:
                out[fragment] = number
        return out

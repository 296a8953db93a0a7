"""The state of sequential Monte Carlo clustering, as flat arrays.

Three levels, each an array or a row of one, so that a step is a few dozen vectorised operations
whatever the number of clusters:

    cluster     a set of fragments that some live particle holds; addressed by *slot*
    particle    a row: the slots of its clusters, ordered by their smallest fragments
    subproblem  a block of rows; addressed by its smallest fragment, which no other block holds

The rows of all subproblems lie in one arena, and their cells in another, each subproblem's
contiguous and heaviest first, so that the particles of many subproblems are gathered in one
operation. What a step replaces is appended; an arena is compacted when half of it is dead.

| array | indexed by | meaning |
|---|---|---|
| size, log_size | slot | |C| and its log |
| score | slot | L(C), nats |
| term | slot | log alpha + lgamma(|C|) + L(C): the cluster's part of the log posterior |
| reach | slot | max over particles i holding C of w_i, plus log |C|; -inf if the slot is free |
| first | slot | C's smallest fragment |
| owner | slot | the subproblem that holds C |
| mask | slot | C's members as bits, numbered by the subproblem that holds C |
| row_weight, row_begin, row_end | row | the particle's log weight, its range of cells |
| cells | cell | the cluster |
| row_start, row_count | subproblem | its range of rows |

All log weights, and what is added to them, lie on the grid of `kbforge.numerics`.

Reading never changes what is known: `mark`, `place` and `gain` are scratch that no reader finds
anything in that it did not write, and what is kept of the arange, the logs and the hashes are
values of fixed functions. Only `commit` (`kbforge.clustering.step`)
writes.


Lineage: how the clusters of a run grew, so that a live table can be rebuilt the same way.

A cluster grew by its fragments in order of arrival, and clusters that began alike share what they
began with: a tree, of which a node is a cluster, now or once, and its parent the cluster without
the newest fragment. A table that is extended along the tree has seen for each cluster the same
additions in the same order as in the run, so that it holds the same bits.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy.special import digamma, gammaln

from kbforge.contracts import Cluster, FloatArray, Fragment, IntArray, LiveClusters, Observation
from kbforge.errors import UsageError
from kbforge.numerics import on_grid

_START_CAPACITY = 256
_NO_PAIRS = 1e9
"""An alpha so many times the fragments leaves each alone."""

_Number = TypeVar("_Number", bound=np.generic)

Link: TypeAlias = "tuple[Link | None, int]"
"""A cluster as a linked list: the cluster before its newest fragment, and that fragment."""


@dataclass(frozen=True, slots=True)
class DirichletProcess:
    """The prior over partitions (Ewens 1972; split-SMC paper, eqs. 1 and 3); all values in nats.

    A new fragment joins a cluster C with probability proportional to |C| and opens a new cluster
    with probability proportional to alpha, the concentration, > 0. The shared normaliser
    log(t - 1 + alpha) cancels wherever assignments of one fragment are compared; it is left out.
    """

    alpha: float

    def __post_init__(self) -> None:
        if not (self.alpha > 0 and math.isfinite(self.alpha)):
            raise UsageError(f"alpha: expected a finite positive number, got {self.alpha}")

    @property
    def log_alpha(self) -> float:
        """The prior term of a new cluster."""
        return math.log(self.alpha)

    def expected_clusters(self, fragments: int) -> float:
        """E[K] = alpha (psi(alpha + n) - psi(alpha)) of n fragments, Antoniak (1974)."""
        if self.alpha > _NO_PAIRS * fragments:  # the difference of the two loses all digits
            return float(fragments)
        return float(self.alpha * (digamma(self.alpha + fragments) - digamma(self.alpha)))

    def log_cluster(self, sizes: IntArray) -> FloatArray:
        """The factor of each cluster in the unnormalised prior: log alpha + lgamma(|C|)."""
        return np.asarray(self.log_alpha + gammaln(sizes), dtype=np.float64)

    def log_terms(self, clusters: Sequence[Cluster], log_marginal: FloatArray) -> FloatArray:
        """log alpha + lgamma(|C|) + L(C) of each cluster, on the grid of `kbforge.numerics`."""
        sizes = np.array([len(cluster) for cluster in clusters], dtype=np.int64)
        return on_grid(self.log_cluster(sizes) + log_marginal)


@dataclass(frozen=True, slots=True)
class Block:
    """A subproblem's particles: what `State.install` puts in place.

    `row_start`, shape [particles + 1], is where each row starts in `cells`; `weights` are
    normalised log weights, descending; `slots` are the distinct ones; `bits` is how many bits its
    masks use.
    """

    cells: IntArray
    row_start: IntArray
    weights: FloatArray
    slots: IntArray
    bits: int


class NewClusters(NamedTuple):
    """The clusters that hold the new fragment: parents[k] + x, a parent of -1 being empty.

    All of shape [k]; `first` are smallest fragments, `score` is L(C), `term` log alpha +
    lgamma(|C|) + L(C), nats.
    """

    parents: IntArray
    slots: IntArray
    size: IntArray
    first: IntArray
    score: FloatArray
    term: FloatArray


class State:
    """All clusters, particles and subproblems of a run."""

    def __init__(self, prior: DirichletProcess) -> None:
        self.prior = prior
        self.n_fragments = 0
        self.log10_effective_particles = 0.0
        self.blocks: dict[int, Block] = {}
        self.blocks_elsewhere = 0  # of a session whose pages lie elsewhere
        # clusters
        self.n_slots = 0
        self.size: IntArray = np.zeros(0, dtype=np.int64)
        self.log_size: FloatArray = np.zeros(0)
        self.score: FloatArray = np.zeros(0)
        self.term: FloatArray = np.zeros(0)
        self.reach: FloatArray = np.zeros(0)
        self.first: IntArray = np.zeros(0, dtype=np.int64)
        self.owner: IntArray = np.zeros(0, dtype=np.int64)
        self.mask: list[int] = []
        # a cluster shares its members with the cluster that it grew from
        self.links: list[Link | None] = []
        self.free: list[int] = []
        # particles
        self.cells: IntArray = np.zeros(0, dtype=np.int64)
        self.row_weight: FloatArray = np.zeros(0)
        self.row_begin: IntArray = np.zeros(0, dtype=np.int64)
        self.row_end: IntArray = np.zeros(0, dtype=np.int64)
        self._cells_used = self._rows_used = 0
        # subproblems
        self.row_start: IntArray = np.zeros(0, dtype=np.int64)
        self.row_count: IntArray = np.zeros(0, dtype=np.int64)
        # scratch, and values of fixed functions
        self.mark: NDArray[np.bool_] = np.zeros(0, dtype=np.bool_)
        self.place: IntArray = np.zeros(0, dtype=np.int64)
        self.gain: FloatArray = np.zeros(0)
        self._arange: IntArray = np.arange(_START_CAPACITY)
        self._log_cluster: FloatArray = np.zeros(0)
        self._log_size: FloatArray = np.zeros(0)
        self._hashes: NDArray[np.uint64] = np.zeros(0, dtype=np.uint64)

    def resume(
        self, n_fragments: int, n_slots: int, free: list[int], subproblems: int, effective: float
    ) -> None:
        """Be as a state that had numbered so many, of which other blocks are yet to come.

        `free` slots are in the order that they were freed; `effective` is log10 of all particles.
        """
        self.count_fragments(n_fragments - self.n_fragments)
        self.n_slots, self.free = n_slots, free
        if n_slots > len(self.log_size):
            self.grow_slots(n_slots + n_slots // 8 + _START_CAPACITY)
        self.blocks_elsewhere = subproblems - len(self.blocks)
        self.log10_effective_particles = effective

    # -- clusters ---------------------------------------------------------------------------

    def new_clusters(self, fragment: int, parents: IntArray, score: FloatArray) -> NewClusters:
        """What parents[k] + fragment will be, with L `score` in nats, and where; writes nothing."""
        if self.n_slots:
            grown = parents >= 0
            size = np.where(grown, self.size[parents], 0) + 1
            first = np.where(grown, self.first[parents], fragment)
        else:
            size, first = np.ones_like(parents), np.full_like(parents, fragment)
        term = self.log_terms(size, score)
        return NewClusters(parents, self.vacant(len(parents)), size, first, score, term)

    def place_clusters(self, fragment: int, new: NewClusters) -> None:
        """Put new clusters where `new_clusters` said; they have no mask and no owner yet."""
        self.take(len(new.slots))
        self.put_clusters(new.slots, new.size, new.first, new.score, new.term)
        links = self.links
        for slot, parent in zip(new.slots.tolist(), new.parents.tolist(), strict=True):
            links[slot] = (links[parent] if parent >= 0 else None, fragment)

    def log_terms(self, sizes: IntArray, score: FloatArray) -> FloatArray:
        """log alpha + lgamma(|C|) + L(C) of clusters by size and L, nats."""
        largest = int(sizes.max(initial=1))
        return on_grid(self.log_clusters(largest)[sizes] + score)

    def put_clusters(
        self,
        slots: IntArray,
        size: IntArray,
        first: IntArray,
        score: FloatArray,
        term: FloatArray,
    ) -> None:
        """Write what is known of clusters in slots that are taken; each of shape [clusters]."""
        self.size[slots] = size
        self.first[slots] = first
        self.log_size[slots] = self.log_sizes(int(size.max(initial=1)))[size]
        self.score[slots] = score
        self.term[slots] = term

    def members(self, slot: int) -> Cluster:
        """The fragments of a cluster, ascending."""
        return members_of(self.links[slot])

    def in_heaviest(self, slots: IntArray) -> NDArray[np.bool_]:
        """Which clusters the heaviest particle of their subproblem holds, or one as heavy."""
        heaviest = self.row_weight[self.row_start[self.owner[slots]]]
        return np.asarray(self.reach[slots] - self.log_size[slots] >= heaviest)

    def release(self, slots: IntArray) -> None:
        """Free clusters that no particle holds any more."""
        self.forget(slots)
        self.free.extend(slots.tolist())

    def forget(self, slots: IntArray) -> None:
        """No particle here holds these clusters any more."""
        self.reach[slots] = -np.inf
        for slot in slots.tolist():
            self.links[slot] = None
            self.mask[slot] = 0

    def hashes(self, slots: IntArray) -> NDArray[np.uint64]:
        """A fixed random-looking number for each slot."""
        largest = int(slots.max(initial=-1))
        if largest >= len(self._hashes):
            if self.blocks_elsewhere:  # few of the slots are in use here
                return _mixed(slots.astype(np.uint64))
            self._hashes = _mixed(np.arange(2 * largest + _START_CAPACITY, dtype=np.uint64))
        return self._hashes[slots]

    def vacant(self, count: int) -> IntArray:
        """The slots that the next `count` clusters take: the latest freed first, then new ones."""
        reused = self.free[: -count - 1 : -1]
        fresh = range(self.n_slots, self.n_slots + count - len(reused))
        return np.array([*reused, *fresh], dtype=np.int64)

    def take(self, count: int) -> None:
        """Take the slots that `vacant` named."""
        reused = min(count, len(self.free))
        del self.free[len(self.free) - reused :]
        self.n_slots += count - reused
        if self.n_slots > len(self.log_size):
            self.grow_slots(max(_START_CAPACITY, 2 * self.n_slots))

    def grow_slots(self, capacity: int) -> None:
        """Make room for clusters in slots below `capacity`."""
        extra = capacity - len(self.log_size)
        self.size = _longer(self.size, capacity)
        self.log_size = _longer(self.log_size, capacity)
        self.score = _longer(self.score, capacity)
        self.term = _longer(self.term, capacity)
        self.reach = np.concatenate([self.reach, np.full(extra, -np.inf)])
        self.first = _longer(self.first, capacity)
        self.owner = _longer(self.owner, capacity)
        self.mark = np.zeros(capacity, dtype=np.bool_)
        self.place = np.zeros(capacity, dtype=np.int64)
        self.gain = np.zeros(capacity)
        self.links += [None] * extra
        self.mask += [0] * extra

    def log_clusters(self, largest: int) -> FloatArray:
        """log alpha + lgamma(|C|) by size, for sizes up to `largest` at least."""
        if largest >= len(self._log_cluster):
            sizes = np.arange(1, 2 * largest + 64)
            self._log_cluster = np.concatenate([[np.nan], self.prior.log_cluster(sizes)])
        return self._log_cluster

    def log_sizes(self, largest: int) -> FloatArray:
        """log|C| by size, for sizes up to `largest` at least."""
        if largest >= len(self._log_size):
            sizes = np.arange(1, 2 * largest + 64)
            self._log_size = np.concatenate([[np.nan], on_grid(np.log(sizes))])
        return self._log_size

    # -- subproblems ------------------------------------------------------------------------

    @property
    def n_subproblems(self) -> int:
        """How many there are, here and elsewhere."""
        return len(self.blocks) + self.blocks_elsewhere

    def install(self, name: int, block: Block) -> None:
        """Put a subproblem in place under its smallest fragment."""
        cells, weights = block.cells, block.weights
        count = len(weights)
        if self._cells_used + len(cells) > len(self.cells):
            self._compact_cells(len(cells))
        if self._rows_used + count > len(self.row_weight):
            self._compact_rows(count)
        begin, row = self._cells_used, self._rows_used
        self._cells_used += len(cells)
        self._rows_used += count
        self.cells[begin : begin + len(cells)] = cells
        self.row_weight[row : row + count] = weights
        np.add(block.row_start[:-1], begin, out=self.row_begin[row : row + count])
        np.add(block.row_start[1:], begin, out=self.row_end[row : row + count])
        self.row_start[name], self.row_count[name] = row, count
        # rows are sorted by weight and a repeated index keeps its last value, so backwards
        # each cluster gets the weight of the heaviest particle that holds it
        cell_weight = weights.repeat(block.row_start[1:] - block.row_start[:-1])
        self.reach[cells[::-1]] = cell_weight[::-1]
        self.reach[block.slots] += self.log_size[block.slots]
        self.owner[block.slots] = name
        self.blocks[name] = block
        self.log10_effective_particles += math.log10(count)

    def remove(self, name: int) -> Block:
        """Take a subproblem out; its clusters stay until released or installed again."""
        block = self.blocks.pop(name)
        self.log10_effective_particles -= math.log10(len(block.weights))
        return block

    def count_fragments(self, more: int) -> None:
        """Number so many more fragments."""
        self.n_fragments += more
        if self.n_fragments > len(self.row_start):
            capacity = len(self.row_start) + max(_START_CAPACITY, self.n_fragments)
            self.row_start = _longer(self.row_start, capacity)
            self.row_count = _longer(self.row_count, capacity)

    def ranges(self, starts: IntArray, lengths: IntArray) -> IntArray:
        """start, start+1, ..., start+length-1 for each pair, concatenated."""
        ends = lengths.cumsum()
        out: IntArray = (starts - ends + lengths).repeat(lengths)
        out += self.arange(len(out))
        return out

    def arange(self, n: int) -> IntArray:
        """0..n-1, a view of a kept array: do not write to it."""
        if n > len(self._arange):
            self._arange = np.arange(2 * n)
        return self._arange[:n]

    def _compact_rows(self, count: int) -> None:
        """Move the live rows to the front of an arena at least twice their size."""
        names = np.fromiter(self.blocks, dtype=np.int64, count=len(self.blocks))
        counts = self.row_count[names]
        rows = self.ranges(self.row_start[names], counts)
        capacity = max(4 * _START_CAPACITY, 2 * (len(rows) + count))
        for field in ("row_weight", "row_begin", "row_end"):
            old = getattr(self, field)
            new = np.zeros(capacity, dtype=old.dtype)
            new[: len(rows)] = old[rows]
            setattr(self, field, new)
        self.row_start[names] = np.cumsum(counts) - counts
        self._rows_used = len(rows)

    def _compact_cells(self, count: int) -> None:
        """Move the live cells to the front of an arena at least twice their size."""
        names = np.fromiter(self.blocks, dtype=np.int64, count=len(self.blocks))
        rows = self.ranges(self.row_start[names], self.row_count[names])
        lengths = self.row_end[rows] - self.row_begin[rows]
        cells = self.cells[self.ranges(self.row_begin[rows], lengths)]
        self.cells = np.zeros(max(4 * _START_CAPACITY, 2 * (len(cells) + count)), dtype=np.int64)
        self.cells[: len(cells)] = cells
        ends = np.cumsum(lengths)
        self.row_begin[rows], self.row_end[rows] = ends - lengths, ends
        self._cells_used = len(cells)


def _longer(array: NDArray[_Number], capacity: int) -> NDArray[_Number]:
    """The array with zeros behind it; those take no time before they are used."""
    out = np.zeros(capacity, dtype=array.dtype)
    out[: len(array)] = array
    return out


def members_of(link: Link | None) -> Cluster:
    """The fragments of a cluster, ascending."""
    out = []
    while link is not None:
        link, fragment = link
        out.append(fragment)
    return tuple(reversed(out))


def _mixed(x: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """SplitMix64 (Steele, Lea and Flood 2014): a fixed random-looking number for each slot."""
    x = (x + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.asarray(x ^ (x >> np.uint64(31)), dtype=np.uint64)


class Lineage:
    """The tree of some clusters; `slots` is how many the run has numbered."""

    def __init__(self, members: Mapping[int, Cluster], slots: int) -> None:
        self._slots = slots
        self._parent: list[int] = []
        self._fragment: list[int] = []
        self._links: list[Link] = []
        self._node: dict[int, int] = {}
        known: dict[tuple[int, int], int] = {}
        for slot, cluster in members.items():
            node = -1
            for fragment in cluster:
                at = known.get((node, fragment))
                if at is None:
                    at = known[node, fragment] = len(self._parent)
                    self._links.append((self._links[node] if node >= 0 else None, fragment))
                    self._parent.append(node)
                    self._fragment.append(fragment)
                node = at
            self._node[slot] = node

    def link(self, slot: int) -> Link:
        """A cluster as a list linked to what it grew from."""
        return self._links[self._node[slot]]

    def replay(
        self, table: LiveClusters, fragments: Mapping[int, Fragment], known: float = 0
    ) -> None:
        """Extend a table along the tree, fragment by fragment.

        The table holds no cluster in the tree's slots and knows of `known` slots: 0 if it is empty,
        infinitely many if gaps are nothing to it.
        """
        self._extend(table, fragments, known, None)

    def score(
        self, table: LiveClusters, fragments: Mapping[int, Fragment], known: float
    ) -> dict[int, float]:
        """As `replay`; L(C) by slot, nats, as the sums of what each fragment adds.

        Whatever is raised, the table holds the clusters that it held.
        """
        scores: list[float] = [0.0] * len(self._parent)
        self._extend(table, fragments, known, scores)
        return {slot: scores[node] for slot, node in self._node.items()}

    def _extend(
        self,
        table: LiveClusters,
        fragments: Mapping[int, Fragment],
        known: float,
        scores: list[float] | None,
    ) -> None:
        born: dict[int, list[int]] = {}
        for node, fragment in enumerate(self._fragment):
            born.setdefault(fragment, []).append(node)
        slot_of, ended, needed = self._places(born)
        if not born:
            return
        if needed > known:
            # a caller numbers slots without gaps: let all of them be there before they are used
            first = table.encode(fragments[min(born)])
            room = np.arange(int(known), needed)
            table.extend(first, np.full(len(room), -1), room)
            table.release(room)
        held: set[int] = set()
        try:
            for index in sorted(born):
                nodes = born[index]
                x = table.encode(fragments[index])
                parents = [self._parent[node] for node in nodes]
                places = np.array([slot_of[p] if p >= 0 else -1 for p in parents])
                children = [slot_of[node] for node in nodes]
                if scores is not None:
                    gains = _gains(table, x, places).tolist()
                    for node, parent, gain in zip(nodes, parents, gains, strict=True):
                        scores[node] = gain + (scores[parent] if parent >= 0 else 0.0)
                table.extend(x, places, np.array(children))
                held.update(children)
                if ended[index]:
                    table.release(np.array(ended[index]))
                    held.difference_update(ended[index])
        except BaseException:
            table.release(np.array(sorted(held), dtype=np.int64))
            raise

    def _places(
        self, born: Mapping[int, Sequence[int]]
    ) -> tuple[list[int], dict[int, list[int]], int]:
        """The slot of every node; by fragment, the slots that end with it; how many slots it takes.

        A cluster that is no more has a slot of no live cluster until its last child is made.
        """
        slot_of = [-1] * len(self._parent)
        for slot, node in self._node.items():
            slot_of[node] = slot
        stays = [slot >= 0 for slot in slot_of]
        children = np.bincount([p for p in self._parent if p >= 0], minlength=len(slot_of)).tolist()
        free: list[int] = []
        needed = self._slots
        ended: dict[int, list[int]] = {}
        for fragment in sorted(born):
            for node in born[fragment]:
                if not stays[node]:
                    if not free:
                        free.append(needed)
                        needed += 1
                    slot_of[node] = free.pop()
            ended[fragment] = []
            for node in born[fragment]:
                parent = self._parent[node]
                if parent >= 0:
                    children[parent] -= 1
                    if not children[parent] and not stays[parent]:
                        ended[fragment].append(slot_of[parent])
            free += ended[fragment]
        return slot_of, ended, needed


def _gains(table: LiveClusters, x: Observation, parents: np.ndarray) -> FloatArray:
    """L(C + x) - L(C) of the clusters in these slots, L({x}) where a slot is -1."""
    out = np.empty(len(parents))
    opened = parents < 0
    if opened.any():
        out[opened] = table.log_predictive_new(x)
    if not opened.all():
        out[~opened] = table.log_predictive_of(x, parents[~opened])
    return out

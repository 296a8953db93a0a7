"""Clusters a whole file: best merges in rounds, then split SMC where they leave a doubt.

1. Fragments are taken in the order of their content, so that the order of the file does not matter.
   Those that certainly are one entity, because they state the same, are one unit.
2. Clusters that share keys are compared. In a round each finds the partner with which a merge gains
   most, and clusters that are each other's best partner merge, until no merge gains (reciprocal
   nearest neighbours; Murtagh 1983). A gain is L(C + D) - L(C) - L(D) with the prior's terms.
3. The clusters are compared once more by their keys, many of which lead to few clusters now.
4. Units that certain merges brought together are contracted. Clusters that might as well be merged,
   or exchange units, form subproblems of bounded size, and split SMC runs in each.

The kernel does all of it (`kbforge/kernel/src/rounds.cpp`, `local.cpp`); the result does not depend
on the number of threads.
"""

from __future__ import annotations

import math
import weakref
from collections.abc import Iterator, Sequence
from copy import deepcopy
from ctypes import Structure, byref, c_double
from dataclasses import dataclass
from itertools import chain, pairwise, product
from typing import NamedTuple, TypeGuard

import numpy as np
from numpy.typing import NDArray

from kbforge.clustering.constraints import Numbers, components_of, keys_of_values
from kbforge.clustering.rules import DirichletProcess, Rules
from kbforge.clustering.state import settings_of
from kbforge.clustering.tables import RuledIndex, keys_of
from kbforge.contracts import (
    ConjugateLikelihood,
    Constraints,
    FloatArray,
    Fragment,
    IntArray,
    KeyFamilies,
    LearnedState,
    Likelihood,
    ModelSpec,
    Posterior,
    Snapshot,
    SubproblemData,
    Subproblems,
    Totals,
)
from kbforge.errors import LikelihoodError
from kbforge.files.columns import Taken
from kbforge.kernel.binding import (
    MergingClusters,
    address,
    lent,
    structure,
    workers,
)
from kbforge.numerics import end_to_end, spread, starts_of

LEAST = -10.0
"""Pairs of clusters whose merge would lose more nats are left out."""
MOST_SHARING = 60
"""A key that more units share leads nowhere, unless a unit has no other."""
TOP = 32  # clusters that one is compared with, if the index does not say
_AT_ONCE = 1 << 15  # units whose keys are made at a time
_A_TURN, _MOST_TURNS = 1 << 19, 8
"""Units whose keys are kept at a time; with more, keys are made in turns, as each keeps others."""


@dataclass(frozen=True, slots=True)
class DoubtRules:
    """What is in doubt after the rounds, and the rules of split SMC there."""

    particles: int = 100  # P
    floor: float = 1e-3  # putative particles below this fraction of the heaviest are dropped
    nats: float = 5.0  # merges within so many nats of what they exclude are in doubt
    most: int = 200  # maximum number of fragments of a subproblem that several clusters form


class _Columns(NamedTuple):
    """The arguments of `Subproblems`, L of each cluster, and the log posterior, nats."""

    clusters: IntArray
    lengths: IntArray
    members: IntArray
    particles: IntArray
    weights: FloatArray
    rows: IntArray
    cells: IntArray
    scores: FloatArray
    log_posterior: float


class Units(NamedTuple):
    """Units, written as the kernel writes clusters that go elsewhere (`written.cpp`)."""

    starts: IntArray  # where each begins in `written`, shape [units + 1]
    written: NDArray[np.int32]  # the units
    key_starts: IntArray  # where the keys of each begin, shape [units + 1]
    keys: IntArray  # their keys
    sizes: IntArray  # how many fragments each has
    table: LearnedState | None  # what a table elsewhere needs; None if there cannot be one


class Done(NamedTuple):
    """What rounds elsewhere did with units that were compared by their keys."""

    # what went into what, and by how much that was better than what it excluded, in the kernel's
    # units, in order; shape [merges, 3]
    merges: IntArray
    # clusters that a merge kept apart, and by how much it was better; shape [rivals, 3]
    rivals: IntArray
    edges: IntArray  # clusters that are left, and what their merge gains; shape [edges, 3]
    compared: IntArray  # units that were compared and kept; shape [pairs, 2]
    scored: int  # pairs that were compared


def merges(spec: ModelSpec) -> bool:
    """Whether the clusters of a spec can be merged in rounds."""
    return spec.index is not None and mergeable(spec.likelihood)


def mergeable(likelihood: Likelihood) -> TypeGuard[ConjugateLikelihood]:
    """Whether the kernel can merge the clusters of a likelihood."""
    if not isinstance(likelihood, ConjugateLikelihood):
        return False
    return isinstance(likelihood.live_clusters(), MergingClusters)


class Agglomeration:
    """The clusters of fragments, which merge in rounds.

    Args:
        fragments: to cluster.
        spec: with what; it `merges`.
        doubt: what is in doubt afterwards.
        order: their places, in an order that does not depend on that of the file.

    Attributes:
        scored: pairs of clusters that were compared by their keys.
        log_posterior: of the clusters, unnormalised, nats.
        in_doubt: fragments of subproblems with several units, known with the posterior.
        cut: the expected number of further merges that the bound on subproblems left out.

    """

    def __init__(
        self, fragments: Sequence[Fragment], spec: ModelSpec, doubt: DoubtRules, order: IntArray
    ) -> None:
        likelihood, index = spec.likelihood, spec.index
        assert isinstance(likelihood, ConjugateLikelihood), "see `merges`"
        assert index is not None, "see `merges`"
        self._spec, self._doubt, self._index = spec, doubt, index
        table = likelihood.live_clusters()
        assert isinstance(table, MergingClusters)
        self._table, self._kernel = table, table.kernel
        self._order, n = np.ascontiguousarray(order, dtype=np.int64), len(fragments)
        self._fragments = Taken(fragments, self._order)
        prior = DirichletProcess.of(spec).log_cluster_by_size(n + 1)
        encoded, bounds = table.read_all(self._fragments), self._bounds(spec.constraints)
        self._arrays = encoded, bounds  # the kernel reads them as long as it has the rounds
        self.handle: int = self._kernel.kb_rounds_new(
            *(self._table.handle, n, address(encoded.starts)),
            *(address(encoded.attributes), address(encoded.values)),
            None if bounds is None else byref(bounds),
            *(len(prior), address(prior), LEAST, doubt.nats, workers()),
        )
        self._finalizer = weakref.finalize(self, self._kernel.kb_rounds_free, self.handle)
        firsts = self._firsts().astype(np.int32)
        self._n_clusters = len(firsts)
        turns = min(_MOST_TURNS, -(-self._n_clusters // _A_TURN))
        for turn, begin in product(range(turns), range(0, self._n_clusters, _AT_ONCE)):
            starts, keys = self._keys_of(firsts[begin : begin + _AT_ONCE])
            told = begin, len(starts) - 1, address(starts), address(keys)
            self._kernel.kb_rounds_keys(self.handle, *told, turn, turns)
        self.scored, self.in_doubt, self._resumed = 0, 0, False
        self.log_posterior, self.cut = -np.inf, 0.0

    def _firsts(self) -> IntArray:
        """The first fragment of each unit, in order."""
        firsts = np.empty(len(self._order), np.int64)
        return firsts[: self._kernel.kb_rounds_units(self.handle, address(firsts))]

    def _keys_of(self, places: IntArray | NDArray[np.int32]) -> tuple[IntArray, IntArray]:
        taken = Taken(self._fragments.fragments, self._order[places])
        return keys_of(self._index, taken)

    def _bounds(self, constraints: Constraints) -> Structure | None:
        """What keeps fragments apart, in order."""
        if not constraints:
            return None
        components, numbers = components_of(constraints, self._fragments.fragments), Numbers()
        tags = [numbers.of(components.tags(fragment)) for fragment in self._fragments]
        apart = numbers.apart(components.apart)
        component, values, sets = zip(*tags, strict=True) if tags else ((), (), ())
        (value_start, flat), (apart_start, others) = end_to_end(values), end_to_end(apart)
        set_start, flat_sets = end_to_end(sets)
        stated_start, stated = end_to_end([values for _, values in numbers.sets])
        return structure(
            "kb_apart",
            component=np.array(component, np.int64),
            value_start=value_start,
            values=flat,
            set_start=set_start,
            sets=flat_sets,
            components=len(apart),
            apart_start=apart_start,
            apart=others,
            n_sets=len(numbers.sets),
            attribute=np.array([attribute for attribute, _ in numbers.sets], np.int64),
            stated_start=stated_start,
            stated=stated,
        )

    def run(self) -> Iterator[int]:
        """Compare and merge until no merge gains; gives the number of clusters after each round.

        Raises:
            LikelihoodError: a cluster's likelihood is not finite.

        """
        for last, most in enumerate((MOST_SHARING, self._index.families)):
            if last or not self._resumed:
                self._connect(most, self._index.shared, self._index.compared or TOP, last)
            yield from self._merged()

    def along(self, floors: Sequence[float]) -> Iterator[IntArray]:
        """Instead of `run`: compare all that share a key, and make the merges that gain most first.

        By fragment, in order, the first one of its cluster, when all merges are made that gain more
        nats than each of the `floors`, which descend to 0. Raises as `run`.
        """
        n = len(self._order)
        self._connect(MOST_SHARING, 1, n, last=1)
        for floor in floors:
            self._kernel.kb_rounds_above(self.handle, floor)
            for _ in self._merged():
                pass
            labels = np.empty(n, np.int64)
            self._kernel.kb_rounds_labels(self.handle, address(labels))
            yield labels

    def _connect(self, most: int, shared: int, top: int, last: int) -> None:
        self.scored += self._kernel.kb_rounds_connect(self.handle, most, shared, top, last)

    def _merged(self) -> Iterator[int]:
        """The number of clusters after each round."""
        total, made = c_double(), -1
        while made:
            made = self._kernel.kb_rounds_merge(self.handle, byref(total))
            self._n_clusters -= made
            self.log_posterior = total.value
            if not math.isfinite(total.value):
                raise LikelihoodError("the likelihood of a cluster is not finite")
            yield self._n_clusters

    def units(self) -> Units:
        """What rounds elsewhere need."""
        starts, _, values, _ = self._arrays[0]
        n, n_units = len(starts) - 1, self._n_clusters
        begin = np.empty(n_units + 1, np.int64)
        written = np.empty(2 * n - n_units + 2 * len(values), np.int32)
        sizes = np.empty(n_units, np.int64)
        told = address(begin), address(written), address(sizes)
        self._kernel.kb_rounds_written(self.handle, *told)
        keys = self._keys_of(self._firsts())
        return Units(begin, written, *keys, sizes, self._table.sent())

    def resume(self, done: Done) -> None:
        """Go on from rounds elsewhere; `run` makes those that are left.

        Raises:
            ValueError: they cannot be of these units.

        """
        told = [np.ascontiguousarray(rows, np.int32) for rows in done[:4]]
        lengths_and_rows = chain.from_iterable((len(rows), address(rows)) for rows in told)
        if not self._kernel.kb_rounds_resume(self.handle, *lengths_and_rows):
            raise ValueError("the rounds are of other fragments")
        self._n_clusters -= len(done.merges)
        self.scored, self._resumed = done.scored, True

    def posterior(self) -> Posterior:
        """The clusters of the rounds, and split SMC where they are in doubt."""
        return self._posterior(self._solved(self._doubt.nats, self._doubt.most))

    def without_doubt(self) -> Posterior:
        """The clusters as they are, one particle each."""
        return self._posterior(self._solved(0.0, 0))

    def _posterior(self, found: _Columns) -> Posterior:
        subproblems = Subproblems(*found[:-2])
        return Posterior(
            *(subproblems, found.log_posterior, len(self._order), self.scored), merges_cut=self.cut
        )

    def snapshot(self, rules: Rules, rng: np.random.Generator) -> Snapshot:
        """The posterior as that of a session, which can be opened and continued."""
        found = self._solved(self._doubt.nats, self._doubt.most)
        spec, fragments = self._spec, self._fragments.fragments
        n, slots = len(fragments), np.arange(len(found.lengths))
        totals = Totals(
            settings=settings_of(spec, rules.settled(indexed=True)),
            constraints=spec.constraints,
            n_fragments=n,
            n_numbers=n,
            n_slots=len(slots),
            free=np.zeros(0, np.int64),
            n_subproblems=len(found.clusters),
            log10_effective_particles=float(np.log10(found.particles).sum()),
            evaluations=len(slots),
            rng=deepcopy(rng.bit_generator.state),
        )
        led = self._postings(found)
        return Snapshot(fragments, totals, tuple(_pages(found)), led, {}, self.cut)

    def _solved(self, nats: float, most: int) -> _Columns:
        pages, told, rules = structure("kb_pages"), (c_double * 4)(), self._doubt
        log_floor = math.log(rules.floor) if rules.floor else -math.inf
        handle = self._kernel.kb_local_new(
            *(self.handle, rules.particles, log_floor, nats, most),
            *(address(self._order), byref(pages), told),
        )
        self.in_doubt, self.cut = int(told[2]), told[3]
        weakref.finalize(pages, self._kernel.kb_local_free, handle)
        n, clusters, rows = int(told[0]), pages.n_slots, pages.n_rows
        sizes = n, clusters, pages.n_members, n, rows, rows, pages.n_cells, clusters
        columns = zip(_Columns._fields, sizes, strict=False)
        return _Columns._make([*(lent(getattr(pages, c), k, pages) for c, k in columns), told[1]])

    def _postings(self, found: _Columns) -> dict[int, KeyFamilies]:
        """The families that keys lead to: of the clusters that hold a fragment with the key."""
        index = RuledIndex(self._index, self._spec.constraints)
        starts, keys = keys_of(index, Taken.of(self._fragments.fragments))
        n, firsts = len(starts) - 1, found.members[starts_of(found.lengths)[:-1]]
        in_family = np.unique(np.repeat(firsts, found.lengths) * n + found.members)
        families, held = np.divmod(in_family, n)
        at, number = spread(starts, held)
        order = np.argsort(keys[at], kind="stable")
        key, family = keys[at[order]], families[number[order]]
        new = np.ones(len(key), np.bool_)
        new[1:] = (key[1:] != key[:-1]) | (family[1:] != family[:-1])
        key, family = key[new], family[new]
        begin = np.flatnonzero(np.concatenate([[True], key[1:] != key[:-1]])[: len(key)])
        ends, led = [*begin[1:].tolist(), len(key)], family.tolist()
        constraints = self._spec.constraints
        ruled = self._fragments.fragments if constraints.always else ()
        shared = map(constraints.shared, ruled)
        most = dict.fromkeys(chain.from_iterable(map(keys_of_values, shared)), n)
        return {
            one: _families(led[first:end], most.get(one, self._index.families))
            for one, first, end in zip(key[begin].tolist(), begin.tolist(), ends, strict=True)
        }


def _families(led: Sequence[int], most: int) -> KeyFamilies:
    return KeyFamilies(tuple(led[:most]), len(led) > most)


def _pages(found: _Columns) -> Iterator[SubproblemData]:
    """The subproblems of a session, whose slots are numbered in their order."""
    of_cluster, of_row = starts_of(found.clusters), starts_of(found.particles)
    of_member, of_cell = starts_of(found.lengths)[of_cluster], starts_of(found.rows)[of_row]
    slots = np.arange(len(found.lengths))
    bounds = np.stack([of_cluster, of_member, of_row, of_cell])
    for begin, end in pairwise(bounds.T.tolist()):
        cluster, member, row, cell = map(slice, begin, end)
        yield SubproblemData(
            name=int(found.members[member].min()),
            slots=slots[cluster],
            lengths=found.lengths[cluster],
            members=found.members[member],
            scores=found.scores[cluster],
            rows=found.rows[row],
            cells=found.cells[cell],
            weights=found.weights[row],
        )

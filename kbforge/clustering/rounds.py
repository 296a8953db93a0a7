"""Clusters a whole file: best merges in rounds, then split SMC where they leave a doubt.

1. Fragments are put in the order of their content, so that the order of the file does not matter.
   Those that state the same are one unit, if that is more probable than each by itself.
2. Clusters that share keys are compared. In a round each finds the partner with which a merge gains
   most, and clusters that are each other's best partner merge (reciprocal nearest neighbours; Murtagh
   1983), until no merge gains. A gain is L(C + D) - L(C) - L(D) with the prior's terms.
3. The clusters are compared once more by their keys, many of which lead to few clusters now.
4. Units that certain merges brought together are contracted. Clusters that might as well be merged,
   or exchange units, form subproblems of bounded size, and split SMC runs in each.

The kernel does all of it (`kbforge/kernel/src/rounds.cpp`, `local.cpp`); the result does not depend
on the number of threads.
"""

from __future__ import annotations

import hashlib
import weakref
from collections.abc import Iterator, Sequence
from ctypes import byref, c_double
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import orjson
from numpy.typing import NDArray

from kbforge.clustering.constraints import DecisionGraph
from kbforge.clustering.rules import DirichletProcess
from kbforge.clustering.tables import keys_of
from kbforge.contracts import (
    ConjugateLikelihood,
    Constraints,
    Fragment,
    IntArray,
    ModelSpec,
    Posterior,
    Subproblems,
)
from kbforge.errors import UsageError
from kbforge.kernel import binding
from kbforge.kernel.binding import MergingClusters, address, workers
from kbforge.numerics import starts_of

_LEAST = -10.0
"""Pairs of clusters whose merge would lose more nats are left out."""
_MOST_SHARING = 60
"""A key that more units share leads nowhere, unless a unit has no other."""
_TOP = 32  # clusters that one is compared with, if the index does not say
_AT_ONCE = 1 << 14  # fragments read at once


class Doubt(NamedTuple):
    """What split SMC does after the rounds.

    Attributes:
        particles: P.
        floor: putative particles below this fraction of the heaviest are dropped.
        nats: merges within so many nats of what they exclude are in doubt.
        most: fragments of a subproblem that several clusters form.

    """

    particles: int
    floor: float
    nats: float
    most: int


def merges(spec: ModelSpec) -> bool:
    """Whether the clusters of a spec can be merged in rounds."""
    likelihood = spec.likelihood
    if spec.index is None or not isinstance(likelihood, ConjugateLikelihood):
        return False
    return isinstance(likelihood.live_clusters(), MergingClusters)


class Agglomeration:
    """The clusters of fragments, which merge in rounds.

    Attributes:
        order: places of the fragments, in the order of their content.
        scored: pairs of clusters that were compared.
        merged: merges.

    """

    def __init__(self, fragments: Sequence[Fragment], spec: ModelSpec) -> None:
        if not merges(spec):
            raise UsageError(
                "clustering in rounds needs an index and a likelihood whose clusters the kernel "
                "merges, such as attributes, pairs or bigram; split-smc takes any"
            )
        self.order = np.array(sorted(range(len(fragments)), key=_content(fragments)), np.int64)
        held = [fragments[i] for i in self.order.tolist()]
        assert isinstance(spec.likelihood, ConjugateLikelihood) and spec.index is not None
        self._index, self._table = spec.index, spec.likelihood.live_clusters()
        assert isinstance(self._table, MergingClusters)
        self._kernel = self._table.kernel
        prior = DirichletProcess(spec.alpha).log_cluster(np.arange(1, len(held) + 2))
        prior = np.concatenate([[0.0], prior])
        records = _read(self._table, held)
        bounds = _bounds(held, spec.constraints)
        self._arrays = records, bounds  # the kernel reads them as long as it has the rounds
        self.handle: int = self._kernel.kb_rounds_new(
            *(self._table.handle, len(held), *map(address, records)),
            None if bounds is None else byref(bounds.as_struct()),
            *(len(prior), address(prior), _LEAST, workers()),
        )
        self._finalizer = weakref.finalize(self, self._kernel.kb_rounds_free, self.handle)
        firsts = np.empty(len(held), np.int64)
        units = self._kernel.kb_rounds_units(self.handle, address(firsts))
        self._units = [held[i] for i in firsts[:units].tolist()]
        self._keys = keys_of(self._index, self._units)
        self.scored = self.merged = 0

    def run(self) -> Iterator[int]:
        """Compare and merge until no merge gains; gives the number of clusters after each round."""
        for most in (_MOST_SHARING, self._index.families):
            self.scored += self._kernel.kb_rounds_connect(
                *(self.handle, *map(address, self._keys), most),
                *(self._index.shared, self._index.compared or _TOP),
            )
            while made := self._kernel.kb_rounds_merge(self.handle):
                self.merged += made
                yield len(self._units) - self.merged

    def labels(self) -> IntArray:
        """The number of each fragment's cluster, by place, shape [n]."""
        out, labels = np.empty((2, len(self.order)), np.int64)
        self._kernel.kb_rounds_labels(self.handle, address(labels))
        out[self.order] = labels
        return out

    def posterior(self, doubt: Doubt) -> Posterior:
        """The posterior, of what is in doubt by split SMC."""
        pages, told = binding.CPages(), (c_double * 4)()
        local = self._kernel.kb_local_new(
            *(self.handle, doubt.particles, float(np.log(doubt.floor)), doubt.nats, doubt.most),
            *(address(self.order), byref(pages), told),
        )
        try:
            n = int(told[0])
            subproblems = Subproblems(
                binding.ints(pages.clusters, n),
                binding.ints(pages.lengths, pages.n_slots),
                binding.ints(pages.members, pages.n_members),
                binding.ints(pages.particles, n),
                binding.floats(pages.weights, pages.n_rows),
                binding.ints(pages.rows, pages.n_rows),
                binding.ints(pages.cells, pages.n_cells),
            )
            self.in_doubt, self.cut = int(told[2]), told[3]
            return Posterior(subproblems, told[1], len(self.order), self.scored)
        finally:
            self._kernel.kb_local_free(local)


def _content(fragments: Sequence[Fragment]) -> Any:
    """The key of a fragment's place in the order of content."""
    keys = [
        hashlib.blake2b(orjson.dumps(dict(f.properties), option=orjson.OPT_SORT_KEYS)).digest()[:8]
        + f.id.encode()
        for f in fragments
    ]
    return keys.__getitem__


def _read(table: MergingClusters, fragments: Sequence[Fragment]) -> tuple[NDArray[Any], ...]:
    """Starts, attributes and values of the fragments, which the table has been told of."""
    sizes, attributes, values = [], [], []
    for begin in range(0, len(fragments), _AT_ONCE):
        encoded = table.read(fragments[begin : begin + _AT_ONCE])
        table.tell(encoded)
        sizes.append(np.diff(encoded.starts))
        attributes.append(encoded.attributes)
        values.append(encoded.values)
    starts = starts_of(np.concatenate([np.zeros(0, np.int64), *sizes]))
    nothing = np.zeros(0, np.int32)
    return starts, np.concatenate([nothing, *attributes]), np.concatenate([nothing, *values])


class _Bounds(NamedTuple):
    """What keeps fragments apart, as arrays of the kernel's `kb_apart`."""

    component: IntArray
    value_start: IntArray
    values: IntArray
    apart_start: IntArray
    apart: IntArray

    def as_struct(self) -> binding.CApart:
        columns = [address(column) for column in self]
        return binding.CApart(*columns[:3], len(self.apart_start) - 1, *columns[3:])


def _bounds(fragments: Sequence[Fragment], constraints: Constraints) -> _Bounds | None:
    if not constraints:
        return None
    graph = DecisionGraph(constraints.decisions)
    number = {name: k for k, name in enumerate(graph.members)}
    known: dict[str, int] = {}
    values = [
        [known.setdefault(value, len(known)) for value in constraints.stated(f)] for f in fragments
    ]
    apart = [[number[other] for other in graph.apart.get(name, ())] for name in number]
    component = [number.get(graph.component.get(f.id, ""), -1) for f in fragments]
    return _Bounds(np.array(component, np.int64), *_flat(values), *_flat(apart))


def _flat(lists: Sequence[Sequence[int]]) -> tuple[IntArray, IntArray]:
    starts = starts_of(np.array([len(some) for some in lists], np.int64))
    return starts, np.array([one for some in lists for one in some], np.int64)

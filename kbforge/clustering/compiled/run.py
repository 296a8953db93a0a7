"""A run of the compiled kernel: the state of a session, and what taking in fragments did to it."""

from __future__ import annotations

import math
import weakref
from collections.abc import Iterator, Sequence
from ctypes import CDLL, POINTER, byref, c_int64
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kbforge.clustering.prior import DirichletProcess
from kbforge.clustering.rules import Rules
from kbforge.contracts import (
    CandidateIndex,
    CompiledClusters,
    Encoded,
    Fate,
    FloatArray,
    Info,
    IntArray,
    Led,
    Page,
    Posterior,
    Subproblems,
)
from kbforge.errors import LikelihoodError
from kbforge.kernel import binding
from kbforge.kernel.binding import address
from kbforge.kernel.library import workers
from kbforge.numerics.logs import on_grid

_FATES = (Fate.OPENED, Fate.JOINED, Fate.MERGED)
_FIRST_SIZES = 1024
_AT_ONCE = 20_000
"""Subproblems that are copied at once: there are two of each copy for a moment."""
_REFUSALS = {
    1: "the likelihood (or surrogate) returned {predictive}",
    2: "the likelihood of the fragment alone is {alone}",
    3: "the fragment has no finite assignment",
    4: "an interrupt left the session half told of it; open another from the fragments",
}


class CompiledRun:
    """Particles in the kernel.

    Args:
        kernel: the library.
        rules: greedy resampling, exact merges, target weights.
        prior: over partitions.
        index: whose keys say what to compare; None compares with all clusters.

    Attributes:
        n_fragments: how many have been taken in.
        n_slots: how many slots are numbered.

    """

    def __init__(
        self, kernel: CDLL, rules: Rules, prior: DirichletProcess, index: CandidateIndex | None
    ) -> None:
        self._kernel, self._prior = kernel, prior
        self._run = kernel.kb_run_new(
            _small(rules.particles),
            math.log(rules.floor) if rules.floor else -math.inf,
            rules.splits,
            prior.log_alpha,
            index is not None,
            _small(index.families if index else 0),
            _small(index.shared if index else 0),
            _small(index.compared if index else 0),
        )
        self._finalizer = weakref.finalize(self, kernel.kb_run_free, self._run)
        kernel.kb_run_workers(self._run, workers())
        self._sizes = 0
        self._done = binding.Done()
        self._slots = POINTER(c_int64)()
        self.n_fragments = self.n_slots = 0

    def look_up(self, keys: Sequence[int]) -> IntArray:
        """The clusters to compare the next fragment with, ascending; nothing changes.

        Args:
            keys: its keys in the index; of no meaning without one.

        Raises:
            LikelihoodError: a key is too large.

        """
        try:
            wanted = np.array(keys, dtype=np.int64)
        except OverflowError:
            raise LikelihoodError("the index gave a key of more than 64 bits") from None
        n = self._kernel.kb_look_up(self._run, address(wanted), len(wanted), byref(self._slots))
        return binding.ints(self._slots, n)

    def take_in(self, predictive: FloatArray, alone: float) -> tuple[Info, IntArray, IntArray]:
        """Take in the fragment that was looked up.

        Args:
            predictive: L(C + x) - L(C) of the clusters looked up, nats.
            alone: L({x}), nats.

        Returns:
            What was done, the parents of its clusters (-1 is none) and their slots.

        Raises:
            LikelihoodError: as `kbforge.clustering.plan.consider`; nothing has changed.

        """
        self._fit_sizes(1)
        values = np.ascontiguousarray(predictive, dtype=np.float64)
        done = self._done
        self._kernel.kb_take_in(self._run, address(values), alone, byref(done))
        if done.outcome:
            bad = math.nan if np.isnan(values).any() else math.inf
            raise LikelihoodError(_REFUSALS[done.outcome].format(predictive=bad, alone=alone))
        (info,) = self._told()
        return info, binding.ints(done.parents, done.n_children), self._children()

    def dropped(self) -> IntArray:
        """The clusters that no particle holds any more since the last fragment."""
        return binding.ints(self._done.dropped, self._done.n_dropped)

    def add(
        self, table: CompiledClusters, encoded: Encoded, keys: tuple[IntArray, ...]
    ) -> tuple[list[Info], str | None]:
        """Take in fragments by a likelihood of the kernel's own.

        Args:
            table: holds the run's clusters.
            encoded: what it reads of the fragments; the kernel has been told what is new in it.
            keys: where each fragment's keys begin, and the keys.

        Returns:
            What was done, and what is wrong with the fragment after those taken in, if any is.

        """
        n, done = len(encoded.starts) - 1, self._done
        records: tuple[NDArray[Any], ...] = encoded.starts, encoded.attributes, encoded.values
        self._fit_sizes(n)
        self._kernel.kb_add(
            self._run, table.handle, n, *map(address, records), *map(address, keys), byref(done)
        )
        wrong = None
        if done.outcome:
            wrong = _REFUSALS[done.outcome].format(predictive=math.nan, alone=math.nan)
        return list(self._told()), wrong

    def names(self) -> IntArray:
        """The names of all subproblems, ascending."""
        n = self._kernel.kb_names(self._run, byref(self._slots))
        return binding.ints(self._slots, n)

    def pages(self, names: IntArray) -> list[Page]:
        """Subproblems as plain data."""
        out = self._copied(names)
        clusters = binding.ints(out.clusters, len(names))
        particles = binding.ints(out.particles, len(names))
        slots, lengths = (
            binding.ints(out.slots, out.n_slots),
            binding.ints(out.lengths, out.n_slots),
        )
        members, scores = (
            binding.ints(out.members, out.n_members),
            binding.floats(out.scores, out.n_slots),
        )
        rows, weights = binding.ints(out.rows, out.n_rows), binding.floats(out.weights, out.n_rows)
        cells = binding.ints(out.cells, out.n_cells)
        of_cluster, of_row = _ends(clusters), _ends(particles)
        of_member, of_cell = _ends(lengths)[of_cluster], _ends(rows)[of_row]
        made = []
        for k, name in enumerate(names.tolist()):
            held = slice(of_cluster[k], of_cluster[k + 1])
            row = slice(of_row[k], of_row[k + 1])
            made.append(
                Page(
                    name=name,
                    slots=slots[held],
                    lengths=lengths[held],
                    members=members[of_member[k] : of_member[k + 1]],
                    scores=scores[held],
                    rows=rows[row],
                    cells=cells[of_cell[k] : of_cell[k + 1]],
                    weights=weights[row],
                )
            )
        return made

    def posterior(self) -> Posterior:
        """What is known about the grouping."""
        names = self.names()
        told = [self._columns(names[i : i + _AT_ONCE]) for i in range(0, len(names), _AT_ONCE)]
        empty = self._columns(names[:0])
        columns = [np.concatenate(parts) for parts in zip(*(told or [empty]), strict=True)]
        del told
        clusters, lengths, members, particles, weights, rows, cells, scores = columns
        heaviest = _heaviest(clusters, particles, rows, cells)
        terms = on_grid(self._prior.log_cluster(lengths[heaviest]) + scores[heaviest])
        return Posterior(
            Subproblems(clusters, lengths, members, particles, weights, rows, cells),
            math.fsum(terms.tolist()),
            self.n_fragments,
            self.totals().evaluations,
        )

    def _columns(self, names: IntArray) -> tuple[NDArray[Any], ...]:
        """Some subproblems as `Subproblems` has them, and the scores of the clusters."""
        out = self._copied(names)
        return (
            binding.ints(out.clusters, len(names)),
            binding.ints(out.lengths, out.n_slots),
            binding.ints(out.members, out.n_members).astype(np.int32),
            binding.ints(out.particles, len(names)),
            binding.floats(out.weights, out.n_rows),
            binding.ints(out.rows, out.n_rows),
            binding.ints(out.cells, out.n_cells).astype(np.int32),
            binding.floats(out.scores, out.n_slots),
        )

    def _copied(self, names: IntArray) -> binding.Pages:
        """Where the kernel has copied some subproblems to, until it is asked again."""
        out = binding.Pages()
        self._kernel.kb_export_pages(self._run, len(names), address(names), byref(out))
        return out

    def totals(self) -> binding.Totals:
        """What the run knows beside its subproblems."""
        out = binding.Totals()
        self._kernel.kb_export_totals(self._run, byref(out))
        return out

    def led(self) -> dict[int, Led]:
        """Where the keys of the index lead."""
        out = binding.Led()
        self._kernel.kb_export_led(self._run, byref(out))
        if not out.n_keys:
            return {}
        keys, ends = binding.ints(out.keys, out.n_keys), _ends(binding.ints(out.counts, out.n_keys))
        families = binding.ints(out.families, out.n_families).tolist()
        closed = np.ctypeslib.as_array(out.closed, (out.n_keys,)).astype(bool).tolist()
        return {
            key: Led(tuple(families[ends[k] : ends[k + 1]]), closed[k])
            for k, key in enumerate(keys.tolist())
        }

    def _children(self) -> IntArray:
        children = binding.ints(self._done.children, self._done.n_children)
        self.n_slots = max(self.n_slots, int(children.max()) + 1)
        return children

    def _told(self) -> Iterator[Info]:
        """What became of the fragments of the last call."""
        done, first = self._done, self.n_fragments
        n = done.taken
        self.n_fragments += n
        before_start, after_start = done.before_start[: n + 1], done.after_start[: n + 1]
        before, after = done.before[: before_start[n]], done.after[: after_start[n]]
        subproblems, log10 = done.subproblems_after[:n], done.log10_after[:n]
        evaluations = done.evaluations_after[:n]
        for k in range(n):
            replaced = tuple(before[before_start[k] : before_start[k + 1]])
            yield Info(
                fragment=first + k,
                fate=_FATES[min(len(replaced), 2)],
                before=replaced,
                after=tuple(after[after_start[k] : after_start[k + 1]]),
                subproblems=subproblems[k],
                log10_effective_particles=log10[k],
                model_evaluations=evaluations[k],
            )

    def _fit_sizes(self, more: int) -> None:
        """Have the logs of all sizes that a cluster may come to have."""
        needed = self._kernel.kb_run_largest(self._run) + more + 1
        if needed > self._sizes:
            self._sizes = max(_FIRST_SIZES, 2 * needed)
            sizes = np.arange(1, self._sizes)
            log_size = np.concatenate([[0.0], on_grid(np.log(sizes))])
            log_cluster = np.concatenate([[0.0], self._prior.log_cluster(sizes)])
            self._kernel.kb_run_sizes(
                self._run, self._sizes, address(log_size), address(log_cluster)
            )


def _small(number: int) -> int:
    """As much of a number as the kernel counts up to."""
    return min(number, 2**31 - 1)


def _heaviest(clusters: IntArray, particles: IntArray, rows: IntArray, cells: IntArray) -> IntArray:
    """Which of all clusters the heaviest particles hold; the arguments are those of `Pages`."""
    first = _ends(particles)[:-1]
    lengths, begin = rows[first], _ends(rows)[first]
    ends = np.cumsum(lengths)
    at = np.arange(int(lengths.sum())) + np.repeat(begin - ends + lengths, lengths)
    return cells[at] + np.repeat(_ends(clusters)[:-1], lengths)


def _ends(lengths: IntArray) -> IntArray:
    """Where parts of these lengths begin, and where the last one ends, shape [parts + 1]."""
    return np.concatenate([[0], np.cumsum(lengths)])

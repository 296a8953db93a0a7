"""The subproblems of a run of the kernel as plain data: copied out, and put in again."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from ctypes import CDLL, POINTER, byref, c_double, c_int64
from itertools import chain, islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kbforge.clustering.compiled.run import clusters_in
from kbforge.clustering.prior import DirichletProcess
from kbforge.contracts import Cluster, IntArray, KeyFamilies, Page, Posterior, Subproblems, Totals
from kbforge.kernel import binding
from kbforge.kernel.binding import address
from kbforge.numerics import on_grid

_AT_ONCE = 20_000
"""Subproblems that are copied at once: there are two of each copy for a moment."""


class Copies:
    """What a run holds, copied.

    Args:
        kernel: the library.
        run: address of the run; it lives longer.
        prior: over partitions.

    """

    def __init__(self, kernel: CDLL, run: int, prior: DirichletProcess) -> None:
        self._kernel, self._run, self._prior = kernel, run, prior
        self._numbers = POINTER(c_int64)()

    def names(self) -> IntArray:
        """The names of all subproblems, ascending."""
        n = self._kernel.kb_names(self._run, byref(self._numbers))
        return binding.ints(self._numbers, n)

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

    def page(self, name: int) -> Page:
        """One subproblem as plain data."""
        return self.pages(np.array([name]))[0]

    def heaviest(self, name: int) -> list[Cluster] | None:
        """The heaviest particle of a subproblem, by fragments' numbers; None: it is not here."""
        out = binding.CPages()
        if not self._kernel.kb_export_heaviest(self._run, name, byref(out)):
            return None
        return clusters_in(out)

    def first(self, slot: int) -> int:
        """The first fragment of a cluster that there is."""
        number: int = self._kernel.kb_first(self._run, slot)
        return number

    def posterior(
        self, places: IntArray | None, n_fragments: int, evaluations: int, in_vain: int
    ) -> Posterior:
        """What is known about the grouping.

        Args:
            places: of fragments among those that there are, by number; None: their numbers.
            n_fragments: how many there are.
            evaluations: sets scored.
            in_vain: of a black box, sets scored ahead that no step asked for.

        """
        names = self.names()
        told = [self._columns(names[i : i + _AT_ONCE]) for i in range(0, len(names), _AT_ONCE)]
        empty = self._columns(names[:0])
        columns = [np.concatenate(parts) for parts in zip(*(told or [empty]), strict=True)]
        del told
        clusters, lengths, members, particles, weights, rows, cells, scores = columns
        if places is not None:
            members = places[members].astype(np.int32)
        heaviest = _heaviest(clusters, particles, rows, cells)
        terms = on_grid(self._prior.log_cluster(lengths[heaviest]) + scores[heaviest])
        return Posterior(
            Subproblems(clusters, lengths, members, particles, weights, rows, cells),
            math.fsum(terms.tolist()),
            n_fragments,
            evaluations,
            evaluations_in_vain=in_vain,
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

    def _copied(self, names: IntArray) -> binding.CPages:
        """Where the kernel has copied some subproblems to, until it is asked again."""
        out = binding.CPages()
        self._kernel.kb_export_pages(self._run, len(names), address(names), byref(out))
        return out

    def totals(self) -> binding.CTotals:
        """What the run knows beside its subproblems."""
        out = binding.CTotals()
        self._kernel.kb_export_totals(self._run, byref(out))
        return out

    def led(self) -> dict[int, KeyFamilies]:
        """Where all keys of the index lead that lead anywhere."""
        out = binding.CKeyFamilies()
        self._kernel.kb_export_led(self._run, byref(out))
        return _led(out)

    def changed_led(self) -> dict[int, KeyFamilies]:
        """Where keys lead that may lead elsewhere than when this was last asked; at first, all."""
        out = binding.CKeyFamilies()
        self._kernel.kb_changed_led(self._run, byref(out))
        return _led(out)

    def led_of(self, keys: Sequence[int]) -> dict[int, KeyFamilies]:
        """Where these keys lead."""
        out, wanted = binding.CKeyFamilies(), np.array(keys, dtype=np.int64)
        self._kernel.kb_led_of(self._run, len(wanted), address(wanted), byref(out))
        return _led(out)

    def put_led(self, led: Mapping[int, KeyFamilies], changes: bool) -> None:
        """Keys lead there from now on.

        Args:
            led: by key.
            changes: whether they led elsewhere before.

        """
        keys = np.fromiter(led, dtype=np.int64, count=len(led))
        counts = np.array([len(one.families) for one in led.values()], dtype=np.int64)
        all_of_them = chain.from_iterable(one.families for one in led.values())
        families = np.fromiter(all_of_them, dtype=np.int64, count=int(counts.sum()))
        closed = np.array([one.closed for one in led.values()], dtype=np.uint8)
        columns: tuple[NDArray[Any], ...] = keys, counts, families, closed
        self._kernel.kb_put_led(self._run, len(keys), *map(address, columns), changes)

    # -- subproblems that come and go ---------------------------------------------------------

    def resume(self, totals: Totals, elsewhere: bool) -> None:
        """Be as a run that knew this beside its subproblems.

        Args:
            totals: what it knew.
            elsewhere: whether all fragments lie elsewhere until they are held.

        """
        free = np.ascontiguousarray(totals.free, dtype=np.int64)
        told = binding.CTotals(
            fragments=totals.n_numbers,
            slots=totals.n_slots,
            subproblems=totals.n_subproblems,
            evaluations=totals.evaluations,
            n_free=len(free),
            free=free.ctypes.data_as(POINTER(c_int64)),
            log10_effective=totals.log10_effective_particles,
        )
        self._kernel.kb_resume(self._run, byref(told), elsewhere)

    def hold(self, pages: Sequence[Page]) -> None:
        """Hold more subproblems; what is known beside them stays."""
        whole = {
            "clusters": np.array([len(page.slots) for page in pages], dtype=np.int64),
            "particles": np.array([len(page.rows) for page in pages], dtype=np.int64),
        }
        for name in ("slots", "lengths", "members", "rows", "cells", "scores", "weights"):
            whole[name] = np.concatenate([getattr(page, name) for page in pages])
        pointers = {
            name: column.ctypes.data_as(POINTER(c_double if column.dtype.kind == "f" else c_int64))
            for name, column in whole.items()
        }
        names = np.array([page.name for page in pages], dtype=np.int64)
        self._kernel.kb_hold(
            self._run, len(names), address(names), byref(binding.CPages(**pointers))
        )

    def drop(self, names: Sequence[int]) -> None:
        """Hold some subproblems no longer."""
        told = np.array(names, dtype=np.int64)
        self._kernel.kb_drop(self._run, len(told), address(told))

    def absent(self, numbers: Collection[int]) -> None:
        """There are no such fragments, neither here nor elsewhere."""
        told = np.fromiter(numbers, dtype=np.int64, count=len(numbers))
        self._kernel.kb_absent(self._run, len(told), address(told))

    def homes(self, numbers: Sequence[int]) -> list[int]:
        """The subproblems that hold fragments; -1: none that is here."""
        told = np.array(numbers, dtype=np.int64)
        out = np.empty_like(told)
        self._kernel.kb_homes(self._run, len(told), address(told), address(out))
        found: list[int] = out.tolist()
        return found

    def elsewhere(self, keys: IntArray, closed: bool) -> list[int]:
        """The families that keys lead to and that lie elsewhere.

        Args:
            keys: any.
            closed: whether closed keys count, too.

        """
        n = self._kernel.kb_elsewhere(
            self._run, address(keys), len(keys), closed, byref(self._numbers)
        )
        return self._numbers[:n]


def _led(out: binding.CKeyFamilies) -> dict[int, KeyFamilies]:
    if not out.n_keys:
        return {}
    keys, counts = binding.ints(out.keys, out.n_keys), binding.ints(out.counts, out.n_keys)
    families = iter(binding.ints(out.families, out.n_families).tolist())
    closed = np.ctypeslib.as_array(out.closed, (out.n_keys,)).astype(bool).tolist()
    return {
        key: KeyFamilies(tuple(islice(families, count)), shut)
        for key, count, shut in zip(keys.tolist(), counts.tolist(), closed, strict=True)
    }


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

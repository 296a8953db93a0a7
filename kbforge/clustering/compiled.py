"""A run of the kernel."""

from __future__ import annotations

import math
import weakref
from collections.abc import Collection, Iterator, Mapping, Sequence
from ctypes import CDLL, POINTER, Structure, byref, c_int64, memmove
from itertools import accumulate, islice, pairwise
from typing import Any, NamedTuple, NoReturn, TypeAlias

import numpy as np
from numpy.typing import NDArray

from kbforge.clustering.rules import FATES, DirichletProcess, InfeasibleFragment, Rules, draw
from kbforge.contracts import (
    CandidateIndex,
    Cluster,
    FloatArray,
    IntArray,
    KeyFamilies,
    Posterior,
    StepResult,
    SubproblemData,
    Subproblems,
    Totals,
)
from kbforge.errors import LikelihoodError
from kbforge.kernel import binding
from kbforge.kernel.binding import NOT_TOLD, EncodedFragments, KernelClusters, address, structure
from kbforge.numerics import end_to_end, on_grid, spread, starts_of

_FIRST_SIZES = 1024

_ELSEWHERE, _CORNERED, _NOT_DRAWN = 5, 6, 7
_NOT_TOLD = -2

_REFUSALS = {
    1: "the likelihood (or surrogate) returned {predictive}",
    2: "the likelihood of the fragment alone is {alone}",
    3: "the fragment has no finite assignment",
    4: NOT_TOLD,
}

Refusal: TypeAlias = LikelihoodError | InfeasibleFragment
"""Why a fragment is refused, without its name."""


class RunTotals(NamedTuple):
    """A run's data outside its subproblems; the slot freed last is used first."""

    slots: int
    free: list[int]
    subproblems: int
    log10_effective: float
    evaluations: int


class EncodedBatch:
    """Encoded fragments for the kernel, and their keys.

    `key_starts` is the position of each fragment's first key, shape [fragments + 1].
    """

    def __init__(self, encoded: EncodedFragments, key_starts: IntArray, keys: IntArray) -> None:
        self.encoded, self.key_starts, self.keys = encoded, key_starts, keys
        # addresses are asked for again and again
        self._stated = address(encoded.attributes), address(encoded.values)
        self._starts, self._key_starts = address(encoded.starts), address(key_starts)
        self._keys = address(keys)

    def at(self, k: int) -> tuple[int, ...]:
        """Addresses of a record and of those after it: starts, attributes, values; of the keys."""
        begins = self._starts + 8 * k, self._key_starts + 8 * k
        return begins[0], *self._stated, begins[1], self._keys

    def keys_of(self, k: int) -> IntArray:
        """The keys of one fragment."""
        return self.keys[self.key_starts[k] : self.key_starts[k + 1]]


class Draws:
    """Random draws for the kernel; its two functions must live as long as the run."""

    def __init__(self, rules: Rules, rng: np.random.Generator) -> None:
        self._rules, self._rng = rules, rng
        self._error: BaseException | None = None
        self._before: Any = None
        self.resample, self.sample = binding.DRAW(self._resampled), binding.SAMPLE(self._sampled)

    def begin(self) -> None:
        """Begin a step."""
        if self._rules.draws:
            self._before = self._rng.bit_generator.state

    def give_back(self) -> NoReturn:
        """Restore the state before the step, and raise the error that ended it."""
        self._rng.bit_generator.state = self._before
        error, self._error = self._error, None
        assert error is not None
        raise error

    def _resampled(self, n: int, values: int, kept: int, weights: int) -> int:
        try:
            given, rules = _floats_at(values, n), self._rules
            places, drawn = rules.resampler(given, rules.particles, self._rng)
            _put(np.asarray(places, dtype=np.int64), kept)
            _put(np.asarray(drawn, dtype=np.float64), weights)
            return len(places)
        except BaseException as error:
            self._error = error
            return -1

    def _sampled(self, n: int, values: int, size: int, drawn: int) -> int:
        try:
            _put(draw(_floats_at(values, n), size, self._rng), drawn)
            return size
        except BaseException as error:
            self._error = error
            return -1


def _floats_at(values: int, n: int) -> FloatArray:
    out = np.empty(n)
    memmove(address(out), values, out.nbytes)
    return out


def _put(numbers: NDArray[Any], where: int) -> None:
    numbers = np.ascontiguousarray(numbers)
    memmove(where, address(numbers), numbers.nbytes)


class CompiledRun:
    """Particles in the kernel; `handle` is the address of its run, freed with this object.

    `n_numbers` is the next fragment number, `n_slots` the next slot.
    """

    def __init__(
        self,
        kernel: CDLL,
        rules: Rules,
        prior: DirichletProcess,
        index: CandidateIndex | None,
        rng: np.random.Generator,
    ) -> None:
        self._kernel, self._prior = kernel, prior
        self._draws = Draws(rules, rng)
        self.handle: int = kernel.kb_run_new(
            _small(rules.particles),
            math.log(rules.floor) if rules.floor else -math.inf,
            rules.splits,
            rules.weights == "marginal",
            prior.log_alpha,
            binding.DRAW() if rules.keeps_heaviest else self._draws.resample,
            self._draws.sample if rules.sampled_merges else binding.SAMPLE(),
            index is not None,
            _small(index.families if index else 0),
            _small(index.shared if index else 0),
            _small(index.compared if index else 0),
        )
        self._finalizer = weakref.finalize(self, kernel.kb_run_free, self.handle)
        self._sizes = 0
        self._done = structure("kb_done")
        self._slots = POINTER(c_int64)()
        self.n_numbers = self.n_slots = 0

    def look_up(self, number: int, keys: IntArray) -> IntArray | None:
        """The slots of the clusters to compare the next fragment with, ascending; nothing changes.

        None if its keys lead to subproblems that are not in memory.
        """
        n = self._kernel.kb_look_up(
            self.handle, number, address(keys), len(keys), byref(self._slots)
        )
        return None if n < 0 else binding.copied(self._slots, n)

    def open_keys(self) -> list[int]:
        """The open keys of the fragment that was looked up last."""
        n = self._kernel.kb_open_keys(self.handle, byref(self._slots))
        return self._slots[:n]

    def propose(self, predictive: FloatArray, limit: int | None) -> tuple[IntArray, int]:
        """The `limit` heaviest joins by a surrogate's L(C + x) - L(C), nats.

        Returns their clusters, ascending, and the subproblem of the heaviest join, -1 if there is
        none.

        Raises:
            LikelihoodError: a number is NaN or +inf.
        """
        values = np.ascontiguousarray(predictive, dtype=np.float64)
        most = 2**62 if limit is None else limit
        heaviest = c_int64()
        n = self._kernel.kb_propose(
            self.handle, address(values), most, byref(self._slots), byref(heaviest)
        )
        if n < 0:
            raise _refusal(1, math.nan if np.isnan(values).any() else math.inf, 0.0)
        return binding.copied(self._slots, n), heaviest.value

    def owners(self, slots: IntArray) -> list[int]:
        """The subproblems that hold clusters."""
        out = np.empty_like(slots)
        self._kernel.kb_owners(self.handle, len(slots), address(slots), address(out))
        found: list[int] = out.tolist()
        return found

    def clusters(self, slots: IntArray) -> tuple[list[Cluster], FloatArray]:
        """The fragments of clusters, and their L, nats."""
        out = structure("kb_pages")
        self._kernel.kb_members(self.handle, len(slots), address(slots), byref(out))
        return clusters_in(out), binding.copied(out.scores, len(slots))

    def take_in(
        self,
        predictive: FloatArray,
        alone: float,
        joined: FloatArray | None = None,
        proposed: bool = False,
        evaluations: int = -1,
        apart: bool = False,
    ) -> tuple[StepResult, IntArray, IntArray]:
        """Add the fragment that was looked up.

        Args:
            predictive: L(C + x) - L(C) of the clusters looked up, or proposed, nats.
            alone: L({x}), nats.
            joined: L(C + x) of these, nats; None derives it from L(C).
            proposed: whether it joins as proposed.
            evaluations: the number of sets scored after the step; -1 adds one per new cluster.
            apart: whether it gets its own subproblem, even if it could join another.

        Returns what was done, the parents of its clusters (-1 is none) and their slots.

        Raises:
            InfeasibleFragment: constraints leave the fragment no place; nothing has changed.
            LikelihoodError: the likelihood is NaN, or no assignment of the fragment is finite;
                nothing has changed.
        """
        self._begin(1)
        values = np.ascontiguousarray(predictive, dtype=np.float64)
        done = self._done
        self._kernel.kb_take_in(
            *(self.handle, address(values), None if joined is None else address(joined)),
            *(alone, 2 if apart else int(proposed), evaluations, byref(done)),
        )
        if done.outcome:
            self._require_drawn()
            bad = math.nan if np.isnan(values).any() else math.inf
            raise _refusal(done.outcome, bad, alone)
        (step,) = self._told()
        return step, binding.copied(done.parents, done.n_children), self._children()

    # -- constraints --------------------------------------------------------------------------

    def bind(self, apart: Sequence[Sequence[int]] | None) -> None:
        """Set the constraints: pairs of separate components, or None; tags are set later."""
        if apart is None:
            self._kernel.kb_bind(self.handle, -1, None, None)
            return
        starts, others = end_to_end(apart)
        self._kernel.kb_bind(self.handle, len(apart), address(starts), address(others))

    def put_sets(self, sets: Sequence[tuple[int, Sequence[int]]]) -> None:
        """Add sets of values, numbered on: the attribute, which must not differ, and the values."""
        if sets:
            attributes = np.array([attribute for attribute, _ in sets], dtype=np.int64)
            told = attributes, *end_to_end([values for _, values in sets])
            self._kernel.kb_put_sets(self.handle, len(sets), *map(address, told))

    def tag(self, tags: Mapping[int, tuple[int, Sequence[int], Sequence[int]]]) -> None:
        """Set the components (-1 for none), linking values and sets of fragments, by number."""
        if tags:
            told = np.array(list(tags), dtype=np.int64)
            of = np.array([component for component, _, _ in tags.values()], dtype=np.int64)
            values = end_to_end([values for _, values, _ in tags.values()])
            sets = end_to_end([sets for _, _, sets in tags.values()])
            own = told, of, *values, *sets
            self._kernel.kb_tag(self.handle, len(told), *map(address, own))

    def tag_clusters(self) -> None:
        """Give the clusters in memory the tags of their fragments."""
        self._kernel.kb_tag_clusters(self.handle)

    # -----------------------------------------------------------------------------------------

    def dropped(self) -> IntArray:
        """The clusters that no particle holds any more since the last fragment."""
        return binding.copied(self._done.dropped, self._done.n_dropped)

    def add(
        self, table: KernelClusters, records: EncodedBatch, begin: int, end: int
    ) -> tuple[list[StepResult], Refusal | None]:
        """Add the fragments from `begin` to `end` with a likelihood of the kernel's own.

        Returns what was done, and the problem with the next fragment, if any. There is none if its
        keys lead to subproblems that are not in memory: load them and try again.
        """
        done = self._done
        self._begin(end - begin)
        self._kernel.kb_add(self.handle, table.handle, end - begin, *records.at(begin), byref(done))
        self._require_drawn()
        refused = done.outcome not in (0, _ELSEWHERE)
        wrong = _refusal(done.outcome, math.nan, math.nan) if refused else None
        return list(self._told()), wrong

    def rivals(
        self,
        number: int,
        keys: IntArray,
        lone: bool,
        table: int | None = None,
        record: Sequence[int] = (),
    ) -> tuple[IntArray, FloatArray, float] | None:
        """The other clusters of heaviest particles that a fragment could belong to.

        `lone` says whether a fragment alone in its cluster has any, `record` is the encoded
        fragment. Returns slots, log|C| + L(C + x) - L(C) of each, and L({x}), nats; without a
        table, log|C| and 0. None if its keys lead to subproblems that are not in memory.
        """
        out, key_starts = structure("kb_rival"), np.array([0, len(keys)], dtype=np.int64)
        n = self._kernel.kb_rivals(
            *(self.handle, table, number, lone, *(record or (None, None, None))),
            *(address(key_starts), address(keys), byref(out)),
        )
        if n == _NOT_TOLD:
            raise LikelihoodError(NOT_TOLD)
        if n < 0:
            return None
        return binding.copied(out.slots, n), binding.copied(out.weights, n), out.alone

    def _require_drawn(self) -> None:
        """Raise what the resampler raised in the last step, before anything changed."""
        if self._done.outcome == _NOT_DRAWN:
            self._draws.give_back()

    def count(self, evaluations: int) -> None:
        """Count this many more sets as scored."""
        self._kernel.kb_count(self.handle, evaluations)

    def _children(self) -> IntArray:
        children = binding.copied(self._done.children, self._done.n_children)
        self.n_slots = max(self.n_slots, int(children.max()) + 1)
        return children

    def _told(self) -> Iterator[StepResult]:
        """The results for the fragments of the last call."""
        done, first = self._done, self.n_numbers
        n = done.taken
        self.n_numbers += n
        before_start, after_start = done.before_start[: n + 1], done.after_start[: n + 1]
        before, after = done.before[: before_start[n]], done.after[: after_start[n]]
        subproblems, log10 = done.subproblems_after[:n], done.log10_after[:n]
        evaluations = done.evaluations_after[:n]
        for k in range(n):
            replaced = tuple(before[before_start[k] : before_start[k + 1]])
            yield StepResult(
                fragment=first + k,
                fate=FATES[min(len(replaced), 2)],
                before=replaced,
                after=tuple(after[after_start[k] : after_start[k + 1]]),
                subproblems=subproblems[k],
                log10_effective_particles=log10[k],
                model_evaluations=evaluations[k],
            )

    def fit_sizes(self, largest: int) -> None:
        """Compute the logs of cluster sizes up to this one."""
        if largest >= self._sizes:
            self._sizes = max(_FIRST_SIZES, 2 * (largest + 1))
            sizes = np.arange(1, self._sizes)
            log_size = np.concatenate([[0.0], on_grid(self._prior.exponent * np.log(sizes))])
            log_cluster = self._prior.log_cluster_by_size(len(sizes))
            self._kernel.kb_run_sizes(
                self.handle, self._sizes, address(log_size), address(log_cluster)
            )

    def _begin(self, more: int) -> None:
        """Compute the logs of all sizes that a cluster may reach with this many fragments."""
        self._draws.begin()
        self.fit_sizes(self._kernel.kb_run_largest(self.handle) + more)

    # -- subproblems as plain data ------------------------------------------------------------

    def names(self) -> IntArray:
        """The names of all subproblems, ascending."""
        n = self._kernel.kb_names(self.handle, byref(self._slots))
        return binding.copied(self._slots, n)

    def pages(self, names: IntArray) -> list[SubproblemData]:
        """Subproblems as plain data."""
        out = self._copied(names)
        clusters = starts_of(binding.copied(out.clusters, len(names)))
        particles = starts_of(binding.copied(out.particles, len(names)))
        lengths, rows = (
            binding.copied(out.lengths, out.n_slots),
            binding.copied(out.rows, out.n_rows),
        )
        columns = (
            _parted(binding.copied(out.slots, out.n_slots), clusters),
            _parted(lengths, clusters),
            _parted(binding.copied(out.members, out.n_members), starts_of(lengths)[clusters]),
            _parted(binding.copied(out.scores, out.n_slots), clusters),
            _parted(rows, particles),
            _parted(binding.copied(out.cells, out.n_cells), starts_of(rows)[particles]),
            _parted(binding.copied(out.weights, out.n_rows), particles),
        )
        return [SubproblemData(*page) for page in zip(names.tolist(), *columns, strict=True)]

    def page(self, name: int) -> SubproblemData:
        """One subproblem as plain data."""
        return self.pages(np.array([name]))[0]

    def heaviest(self, name: int) -> list[Cluster] | None:
        """The heaviest particle of a subproblem, by fragments' numbers; None if it is not in
        memory."""
        out = structure("kb_pages")
        if not self._kernel.kb_export_heaviest(self.handle, name, byref(out)):
            return None
        return clusters_in(out)

    def posterior(
        self, places: IntArray | None, n_fragments: int, evaluations: int, in_vain: int
    ) -> Posterior:
        """The posterior, with fragments as places or, without them, as numbers."""
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
        """Some subproblems as arrays of `Subproblems`, and the scores of the clusters."""
        out = self._copied(names)
        return (
            binding.copied(out.clusters, len(names)),
            binding.copied(out.lengths, out.n_slots),
            binding.copied(out.members, out.n_members).astype(np.int32),
            binding.copied(out.particles, len(names)),
            binding.copied(out.weights, out.n_rows),
            binding.copied(out.rows, out.n_rows),
            binding.copied(out.cells, out.n_cells).astype(np.int32),
            binding.copied(out.scores, out.n_slots),
        )

    def _copied(self, names: IntArray) -> Structure:
        """The kernel's copy of some subproblems, valid until the next copy."""
        out = structure("kb_pages")
        self._kernel.kb_export_pages(self.handle, len(names), address(names), byref(out))
        return out

    def totals(self) -> RunTotals:
        """The run's data outside its subproblems."""
        out = structure("kb_totals")
        self._kernel.kb_export_totals(self.handle, byref(out))
        free = out.free[: out.n_free]
        return RunTotals(out.slots, free, out.subproblems, out.log10_effective, out.evaluations)

    def postings(self) -> dict[int, KeyFamilies]:
        """The families of every index key that has any."""
        out = structure("kb_led")
        self._kernel.kb_export_led(self.handle, byref(out))
        return _led(out)

    def changed_postings(self) -> dict[int, KeyFamilies]:
        """The families of the keys that may have changed since the last call; at first, of all
        keys."""
        out = structure("kb_led")
        self._kernel.kb_changed_led(self.handle, byref(out))
        return _led(out)

    def postings_of(self, keys: Sequence[int]) -> dict[int, KeyFamilies]:
        """The families of these keys."""
        out, wanted = structure("kb_led"), np.array(keys, dtype=np.int64)
        self._kernel.kb_led_of(self.handle, len(wanted), address(wanted), byref(out))
        return _led(out)

    def keep_open(self, keys: Sequence[int]) -> None:
        """Never close these keys, however many families they lead to."""
        if keys:
            told = np.array(keys, dtype=np.int64)
            self._kernel.kb_keep_open(self.handle, len(told), address(told))

    def put_postings(self, postings: Mapping[int, KeyFamilies], changes: bool) -> None:
        """Set the families of keys; `changes` if they differed before."""
        keys = np.fromiter(postings, dtype=np.int64, count=len(postings))
        starts, families = end_to_end([one.families for one in postings.values()])
        closed = np.array([one.closed for one in postings.values()], dtype=np.uint8)
        columns: tuple[NDArray[Any], ...] = keys, np.diff(starts), families, closed
        self._kernel.kb_put_led(self.handle, len(keys), *map(address, columns), changes)

    # -- subproblems that come and go ---------------------------------------------------------

    def resume(self, totals: Totals, elsewhere: bool) -> None:
        """Continue from a run's totals; `elsewhere` if no fragment is in memory yet."""
        self.n_numbers, self.n_slots = totals.n_numbers, totals.n_slots
        free = np.ascontiguousarray(totals.free, dtype=np.int64)
        told = structure(
            "kb_totals",
            fragments=totals.n_numbers,
            slots=totals.n_slots,
            subproblems=totals.n_subproblems,
            evaluations=totals.evaluations,
            n_free=len(free),
            free=free,
            log10_effective=totals.log10_effective_particles,
        )
        self._kernel.kb_resume(self.handle, byref(told), elsewhere)

    def hold(self, pages: Sequence[SubproblemData]) -> None:
        """Add more subproblems; the data outside them stay."""
        self.fit_sizes(max(int(page.lengths.max()) for page in pages))
        whole = {
            "clusters": np.array([len(page.slots) for page in pages], dtype=np.int64),
            "particles": np.array([len(page.rows) for page in pages], dtype=np.int64),
        }
        for name in ("slots", "lengths", "members", "rows", "cells", "scores", "weights"):
            whole[name] = np.concatenate([getattr(page, name) for page in pages])
        names = np.array([page.name for page in pages], dtype=np.int64)
        told = byref(structure("kb_pages", **whole))
        self._kernel.kb_hold(self.handle, len(names), address(names), told)

    def drop(self, names: Sequence[int]) -> None:
        """Drop some subproblems from memory."""
        told = np.array(names, dtype=np.int64)
        self._kernel.kb_drop(self.handle, len(told), address(told))

    def absent(self, numbers: Collection[int]) -> None:
        """Mark fragments as not existing, in memory or elsewhere."""
        told = np.fromiter(numbers, dtype=np.int64, count=len(numbers))
        self._kernel.kb_absent(self.handle, len(told), address(told))

    def homes(self, numbers: Sequence[int]) -> list[int]:
        """The subproblems that hold fragments; -1 if none in memory does."""
        told = np.array(numbers, dtype=np.int64)
        out = np.empty_like(told)
        self._kernel.kb_homes(self.handle, len(told), address(told), address(out))
        found: list[int] = out.tolist()
        return found

    def slot_of(self, number: int) -> int:
        """The cluster of a fragment in memory, in the heaviest particle."""
        slot: int = self._kernel.kb_own_slot(self.handle, number)
        return slot

    def elsewhere(self, keys: IntArray) -> list[int]:
        """The families of keys that are not in memory."""
        n = self._kernel.kb_elsewhere(self.handle, address(keys), len(keys), byref(self._slots))
        return self._slots[:n]

    def missing(self, records: EncodedBatch, begin: int, end: int) -> list[int]:
        """Families to load first, because some of these fragments may be compared with them.

        Others may be missing once these are in memory; if there are none, none is.
        """
        key_starts, keys = records.at(begin)[3:]
        n = self._kernel.kb_missing(self.handle, end - begin, key_starts, keys, byref(self._slots))
        return self._slots[:n]


def _refusal(outcome: int, predictive: float, alone: float) -> Refusal:
    """Why a fragment was refused."""
    if outcome == _CORNERED:
        return InfeasibleFragment()
    return LikelihoodError(_REFUSALS[outcome].format(predictive=predictive, alone=alone))


def _parted(column: NDArray[Any], starts: IntArray) -> list[NDArray[Any]]:
    """The parts of a column, which begin at these places; the last place is the end."""
    return [column[begin:end] for begin, end in pairwise(starts.tolist())]


def clusters_in(out: Structure) -> list[Cluster]:
    """The kernel's copies of clusters, by fragments' numbers."""
    members = out.members[: out.n_members]
    ends = pairwise(accumulate(out.lengths[: out.n_slots], initial=0))
    return [tuple(members[begin:end]) for begin, end in ends]


def _small(number: int) -> int:
    """A number, cut to the kernel's maximum."""
    return min(number, 2**31 - 1)


_AT_ONCE = 20_000
"""Maximum number of subproblems copied at once, because each copy exists twice for a moment."""


def _led(out: Structure) -> dict[int, KeyFamilies]:
    if not out.n_keys:
        return {}
    keys, counts = binding.copied(out.keys, out.n_keys), binding.copied(out.counts, out.n_keys)
    families = iter(binding.copied(out.families, out.n_families).tolist())
    closed = np.ctypeslib.as_array(out.closed, (out.n_keys,)).astype(bool).tolist()
    return {
        key: KeyFamilies(tuple(islice(families, count)), shut)
        for key, count, shut in zip(keys.tolist(), counts.tolist(), closed, strict=True)
    }


def _heaviest(clusters: IntArray, particles: IntArray, rows: IntArray, cells: IntArray) -> IntArray:
    """Which of all clusters the heaviest particles hold; the arguments are those of `Pages`."""
    at, subproblem = spread(starts_of(rows), starts_of(particles)[:-1])
    return cells[at] + starts_of(clusters)[subproblem]

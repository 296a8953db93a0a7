"""A shard: a clustering of some of the subproblems, which it hands over on request.

It takes the steps of the reference engine. Fragments have the numbers that the router gave them, so
names and the order of equals are those of one run; slots are the shard's own, because no decision
depends on them.

Router and shards exchange plain data, which may go to another machine. A checkpoint packs a whole
shard into a few long arrays: thousands of subproblems and tens of thousands of keys take longer to
send and receive as separate objects than to compute.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from itertools import chain
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from kbforge.clustering.candidates import Candidates, KeyLookup
from kbforge.clustering.core import Core
from kbforge.clustering.pages import numbers_in
from kbforge.clustering.propose import Rules
from kbforge.clustering.reference import ReferenceRun
from kbforge.contracts import (
    CandidateIndex,
    Fragment,
    IntArray,
    KeyFamilies,
    Page,
    Problem,
)
from kbforge.errors import LikelihoodError, UsageError, quoted


class ShardReport(NamedTuple):
    """What adding one fragment did, as far as the router must know."""

    fragment: int
    before: tuple[int, ...]  # names of the subproblems that were replaced
    # name and live families, ascending, of those in their place and of the fragment's own
    after: tuple[tuple[int, tuple[int, ...]], ...]
    led: tuple[int, ...]  # families of the clusters that hold it: its open keys lead there now
    closed: tuple[int, ...]  # those of its keys that were found to lead too far


@dataclass(frozen=True, slots=True, eq=False)
class Handover:
    """Subproblems on their way from one shard to another, or in a checkpoint."""

    pages: tuple[Page, ...]  # by ascending name, with the slots of the shard that had them
    fragments: Mapping[int, Fragment]  # by number
    led: Mapping[int, KeyFamilies]  # the families of these subproblems that keys lead to


class ShardCandidates(Candidates):
    """Candidates whose families can be handed over."""

    def __init__(self, index: CandidateIndex) -> None:
        super().__init__(index)
        self._leading: dict[int, set[int]] = {}  # by family, the keys that lead to it

    def close(self, keys: Iterable[int]) -> None:
        """Close keys that lead too far, here or on another shard."""
        self._closed.update(keys)

    def extend(self, reached: KeyLookup, families: IntArray, children: IntArray) -> None:
        super().extend(reached, families, children)
        for family in families.tolist():
            self._leading.setdefault(family, set()).update(reached.open)

    def release(self, slots: IntArray) -> None:
        """Keys forget families that have no cluster left."""
        families = {self._family[slot] for slot in slots.tolist()}
        super().release(slots)
        self.give(family for family in families if family not in self._live)

    def give(self, families: Iterable[int]) -> dict[int, KeyFamilies]:
        """Forget which keys lead to these families, and return it."""
        gone: dict[int, list[int]] = {}
        for family in families:
            for key in self._leading.pop(family, ()):
                gone.setdefault(key, []).append(family)
        for key, lost in gone.items():
            left = [family for family in self._families[key] if family not in lost]
            if left:
                self._families[key] = left
            else:
                del self._families[key]
        return {
            key: KeyFamilies(tuple(sorted(lost)), key in self._closed)
            for key, lost in sorted(gone.items())
        }

    def receive(self, led: Mapping[int, KeyFamilies]) -> None:
        """Let these keys lead to these families, too."""
        for key, known in led.items():
            self._families.setdefault(key, []).extend(known.families)
            if known.closed:
                self._closed.add(key)
            for family in known.families:
                self._leading.setdefault(family, set()).add(key)

    def closed(self) -> tuple[int, ...]:
        """The keys that are known to lead too far, ascending."""
        return tuple(sorted(self._closed))


PackedPages: TypeAlias = tuple[IntArray, dict[str, tuple[NDArray[Any], IntArray]]]
"""Names; by field of `Page`, the arrays of all pages joined, and where each page's part ends."""
PackedKeys: TypeAlias = tuple[IntArray, IntArray, IntArray, IntArray]
"""Keys, where the families of each one end, these families, and whether each key is closed."""


def pack_pages(pages: Sequence[Page]) -> PackedPages:
    """Pages as a few arrays."""
    packed = {}
    for field in fields(Page)[1:]:  # all but the name
        parts = [getattr(page, field.name) for page in pages]
        ends = np.cumsum(_ints(map(len, parts)))
        packed[field.name] = np.concatenate(parts) if parts else np.zeros(0), ends
    return _ints(page.name for page in pages), packed


def unpack_pages(packed: PackedPages) -> tuple[Page, ...]:
    """The pages again."""
    names, arrays = packed
    parts = {name: np.split(joined, ends) for name, (joined, ends) in arrays.items()}
    return tuple(
        Page(name, **{field: parts[field][k] for field in parts})
        for k, name in enumerate(names.tolist())
    )


def pack_led(led: Mapping[int, KeyFamilies]) -> PackedKeys:
    """Where keys lead, as a few arrays."""
    families = [one.families for one in led.values()]
    ends = np.cumsum(_ints(map(len, families)))
    closed = _ints(one.closed for one in led.values())
    return _ints(led), ends, _ints(chain.from_iterable(families)), closed


def unpack_led(packed: PackedKeys) -> dict[int, KeyFamilies]:
    """Where keys lead, again."""
    keys, ends, families, closed = (array.tolist() for array in packed)
    begins = [0, *ends]
    return {
        key: KeyFamilies(tuple(families[begin:end]), bool(shut))
        for key, begin, end, shut in zip(keys, begins, ends, closed, strict=False)
    }


def _ints(numbers: Iterable[int]) -> IntArray:
    return np.fromiter(numbers, dtype=np.int64)


@dataclass(frozen=True, slots=True, eq=False)
class ShardState:
    """A checkpoint of a shard, which needs only its fragments to go on."""

    pages: PackedPages
    led: PackedKeys
    closed: tuple[int, ...]  # keys that are known to lead too far
    n_numbers: int  # above the numbers of all fragments that it has seen
    evaluations: int

    def numbers(self) -> list[int]:
        found: list[int] = np.unique(self.pages[1]["members"][0]).tolist()
        return found


def require_shardable(problem: Problem, rules: Rules) -> None:
    """Refuse problems and rules that cannot be clustered in independent parts."""
    if not rules.splits:
        raise UsageError(
            "workers own subproblems, but plain smc has only one; use --clusterer split-smc or "
            "greedy"
        )
    if rules.draws:
        raise UsageError(
            "workers take steps in no fixed order, so no step may draw random numbers; use the "
            "greedy resampler and exact merges"
        )
    if problem.constraints:
        raise UsageError(
            "workers do not support --link, --against or --answers yet; leave it out, or the "
            "executor"
        )
    if problem.index is None:
        raise UsageError(
            "without an index every fragment is compared with all clusters, so all of them would "
            "be on one worker; name an index with --index, or leave out the executor"
        )


class Shard:
    """Some subproblems of a run, perhaps from a checkpoint and its fragments, by ascending number.

    The first fragment of the run may settle what a live table reads.
    """

    def __init__(
        self,
        problem: Problem,
        rules: Rules,
        first: Fragment,
        saved: ShardState | None = None,
        fragments: Mapping[int, Fragment] | None = None,
    ) -> None:
        rng = np.random.default_rng(0)  # nobody draws from it
        core = self._core = Core(problem, rules.settled(indexed=True), rng, sparse=True)
        core.table.show(first)
        assert isinstance(core.run, ReferenceRun)
        assert core.problem.index is not None
        self._run = core.run
        self._candidates = self._run.candidates = ShardCandidates(core.problem.index)
        if saved is not None:
            self._run.evaluations = saved.evaluations
            if core.sets is not None:
                core.sets.resume(saved.evaluations)
            self._number(saved.n_numbers)
            pages, led = unpack_pages(saved.pages), unpack_led(saved.led)
            self.take(Handover(pages, fragments or {}, led))
            self._candidates.close(saved.closed)

    def _number(self, n_numbers: int) -> None:
        """So many numbers, at least, were given to fragments."""
        more = max(0, n_numbers - len(self._core.held))
        self._core.held += [None] * more
        self._run.state.count_fragments(more)

    @property
    def evaluations(self) -> int:
        return self._core.table.evaluations

    def add(self, number: int, x: Fragment, closed: Iterable[int]) -> ShardReport:
        """Add a fragment, some of whose keys are closed; all that its step may look at is here."""
        core, run = self._core, self._run
        self._number(number)
        self._candidates.close(closed)
        try:
            info = core.table.add((x,), core.table.read((x,)), 0)
        except LikelihoodError as error:
            raise LikelihoodError(f'fragment "{quoted(x.id)}": {error}') from error
        core.took_in((x,), (number,))
        assert info is not None
        assert run.plan is not None
        assert run.reached is not None
        return ShardReport(
            number,
            info.before,
            tuple((name, self._families(name)) for name in info.after),
            tuple(sorted(set(run.plan.new.first.tolist()))),
            tuple(run.reached.closed),
        )

    def give(self, fragments: Sequence[int]) -> Handover:
        """Hand over the subproblems that hold these fragments."""
        core, run = self._core, self._run
        pages = tuple(map(run.page, sorted(set(run.homes(fragments)))))
        held = {number: core.fragment(number) for number in numbers_in(pages)}
        families = {family for page in pages for family in self._families(page.name)}
        led = self._candidates.give(sorted(families))
        run.drop([page.name for page in pages])
        run.state.blocks_elsewhere = 0
        for page in pages:
            run.state.free += page.slots.tolist()
            core.table.release(page.slots)
        core.table.adopt({}, held)
        run.absent(held)
        for number in held:
            core.held[number] = None
        return Handover(pages, held, led)

    def take(self, handed: Handover) -> None:
        """Own these subproblems from now on, in slots of this shard."""
        if not handed.pages:
            return
        self._number(max(handed.fragments) + 1)
        state, pages = self._run.state, []
        for page in handed.pages:
            slots = state.vacant(len(page.slots))
            state.take(len(slots))
            pages.append(replace(page, slots=slots))
        state.blocks_elsewhere = len(pages)
        self._core.put(pages, handed.fragments)
        self._candidates.receive(handed.led)

    def pages(self) -> tuple[Page, ...]:
        return tuple(self._run.pages(self._run.names()))

    def save(self) -> ShardState:
        """A checkpoint, which shares no data with the shard."""
        candidates = self._candidates
        return ShardState(
            pack_pages(self.pages()),
            pack_led(candidates.contents()),
            candidates.closed(),
            self._run.state.n_fragments,
            self.evaluations,
        )

    def _families(self, name: int) -> tuple[int, ...]:
        """The families that live in a subproblem, ascending."""
        state = self._run.state
        return tuple(sorted(set(state.first[state.blocks[name].slots].tolist())))

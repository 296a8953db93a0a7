"""A shard: a clustering of some of the subproblems, which it hands over on request.

It takes the steps of the reference engine. Fragments have the numbers that the router gave them, so
that names and the order of equals are those of one run; slots are the shard's own, as no decision
depends on them.

Router and shards exchange plain data, which may go to another machine. A checkpoint packs all of a
shard in a few long arrays, which cost next to nothing to send: as separate objects, thousands of
subproblems and tens of thousands of keys take longer to send, and to receive, than to compute.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kbforge.clustering.candidates import Candidates, KeyLookup
from kbforge.clustering.core import Core, FragmentHomes, Ids, hold, page_of
from kbforge.clustering.pages import numbers_in
from kbforge.clustering.prior import DirichletProcess
from kbforge.clustering.rules import Rules
from kbforge.clustering.scoring import make_scorer, shared
from kbforge.clustering.state import State
from kbforge.clustering.step import consider
from kbforge.contracts import (
    CandidateIndex,
    FloatArray,
    Fragment,
    IntArray,
    KeyFamilies,
    Page,
    Problem,
)
from kbforge.errors import LikelihoodError, UsageError, quoted


class ShardReport(NamedTuple):
    """What taking in one fragment did, as far as the router must know.

    Attributes:
        fragment: its number.
        before: names of the subproblems that were replaced.
        after: those in their place, the fragment's own among them: name, and the families that
            live in it, ascending.
        led: the families of the clusters that hold the fragment; its open keys lead there now.
        closed: those of its keys that were found to lead too far.

    """

    fragment: int
    before: tuple[int, ...]
    after: tuple[tuple[int, tuple[int, ...]], ...]
    led: tuple[int, ...]
    closed: tuple[int, ...]


class Transfer(NamedTuple):
    """Subproblems that are to be handed over.

    Attributes:
        source: the shard that has them.
        target: the shard that is to have them.
        fragments: numbers; what holds any of them goes.

    """

    source: int
    target: int
    fragments: tuple[int, ...]


class Route(NamedTuple):
    """Where a fragment goes.

    Attributes:
        fragment: its number.
        shard: that takes it in.
        moves: what is to be handed over before.
        closed: those of its keys that are known to lead too far.

    """

    fragment: int
    shard: int
    moves: tuple[Transfer, ...]
    closed: tuple[int, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Handover:
    """Subproblems on their way from one shard to another, or in a checkpoint.

    Attributes:
        pages: one a subproblem, by ascending name; slots are those of the shard that had it.
        fragments: of the subproblems, by number.
        led: where keys lead, as far as that is to families of these.

    """

    pages: tuple[Page, ...]
    fragments: Mapping[int, Fragment]
    led: Mapping[int, KeyFamilies]


class ShardCandidates(Candidates):
    """Candidates that can be handed over with their families."""

    def __init__(self, index: CandidateIndex) -> None:
        super().__init__(index)
        self._leading: dict[int, set[int]] = {}  # by family, the keys that lead to it

    def close(self, keys: Iterable[int]) -> None:
        """These keys have been found to lead too far, wherever that was."""
        self._closed.update(keys)

    def extend(self, reached: KeyLookup, families: IntArray, children: IntArray) -> None:
        """See `Candidates`."""
        super().extend(reached, families, children)
        for family in families.tolist():
            self._leading.setdefault(family, set()).update(reached.open)

    def release(self, slots: IntArray) -> None:
        """See `Candidates`; what leads to families that are no more is forgotten."""
        families = {self._family[slot] for slot in slots.tolist()}
        super().release(slots)
        self.give(family for family in families if family not in self._live)

    def give(self, families: Iterable[int]) -> dict[int, KeyFamilies]:
        """Forget what leads to these families, and say what did."""
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
        """These keys lead to these families, too."""
        for key, known in led.items():
            self._families.setdefault(key, []).extend(known.families)
            if known.closed:
                self._closed.add(key)
            for family in known.families:
                self._leading.setdefault(family, set()).add(key)

    def closed(self) -> tuple[int, ...]:
        """The keys that are known to lead too far, ascending."""
        return tuple(sorted(self._closed))


class PackedPages(NamedTuple):
    """Subproblems, one after another; the arrays behind `particles` are those of `Page`.

    Attributes:
        names: shape [pages].
        clusters: of each, shape [pages].
        particles: of each, shape [pages].

    """

    names: IntArray
    clusters: IntArray
    particles: IntArray
    slots: IntArray
    lengths: IntArray
    members: IntArray
    scores: FloatArray
    rows: IntArray
    cells: IntArray
    weights: FloatArray


class PackedKeys(NamedTuple):
    """Where keys lead.

    Attributes:
        keys: shape [keys].
        counts: families of each, shape [keys].
        families: key after key.
        closed: shape [keys].

    """

    keys: IntArray
    counts: IntArray
    families: IntArray
    closed: NDArray[np.bool_]


def pack_pages(pages: Sequence[Page]) -> PackedPages:
    """Pages in arrays."""
    return PackedPages(
        _ints(page.name for page in pages),
        _ints(len(page.slots) for page in pages),
        _ints(len(page.rows) for page in pages),
        _joined([page.slots for page in pages], np.int64),
        _joined([page.lengths for page in pages], np.int64),
        _joined([page.members for page in pages], np.int64),
        _joined([page.scores for page in pages], np.float64),
        _joined([page.rows for page in pages], np.int64),
        _joined([page.cells for page in pages], np.int64),
        _joined([page.weights for page in pages], np.float64),
    )


def unpack_pages(packed: PackedPages) -> tuple[Page, ...]:
    """The pages again."""
    of_cluster, of_row = _ends(packed.clusters), _ends(packed.particles)
    of_member, of_cell = _ends(packed.lengths)[of_cluster], _ends(packed.rows)[of_row]
    return tuple(
        Page(
            name=name,
            slots=packed.slots[of_cluster[k] : of_cluster[k + 1]],
            lengths=packed.lengths[of_cluster[k] : of_cluster[k + 1]],
            members=packed.members[of_member[k] : of_member[k + 1]],
            scores=packed.scores[of_cluster[k] : of_cluster[k + 1]],
            rows=packed.rows[of_row[k] : of_row[k + 1]],
            cells=packed.cells[of_cell[k] : of_cell[k + 1]],
            weights=packed.weights[of_row[k] : of_row[k + 1]],
        )
        for k, name in enumerate(packed.names.tolist())
    )


def pack_led(led: Mapping[int, KeyFamilies]) -> PackedKeys:
    """Where keys lead, in arrays."""
    return PackedKeys(
        _ints(led),
        _ints(len(one.families) for one in led.values()),
        _ints(chain.from_iterable(one.families for one in led.values())),
        np.fromiter((one.closed for one in led.values()), dtype=np.bool_, count=len(led)),
    )


def unpack_led(packed: PackedKeys) -> dict[int, KeyFamilies]:
    """Where keys lead, again."""
    ends, families = _ends(packed.counts).tolist(), packed.families.tolist()
    return {
        key: KeyFamilies(tuple(families[ends[k] : ends[k + 1]]), closed)
        for k, (key, closed) in enumerate(
            zip(packed.keys.tolist(), packed.closed.tolist(), strict=True)
        )
    }


def _ints(numbers: Iterable[int]) -> IntArray:
    return np.fromiter(numbers, dtype=np.int64)


def _joined(parts: Sequence[NDArray[Any]], kind: type) -> Any:
    """Arrays one after another; of none, an empty one."""
    return np.concatenate([np.zeros(0, dtype=kind), *parts])


def _ends(lengths: IntArray) -> IntArray:
    """Where parts of these lengths begin, and where the last one ends, shape [parts + 1]."""
    return np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)


@dataclass(frozen=True, slots=True, eq=False)
class ShardState:
    """All of a shard as plain data: with its fragments, what it takes to go on from here.

    Attributes:
        pages: its subproblems.
        led: where keys lead.
        closed: keys that are known to lead too far.
        n_numbers: all fragments that it has seen have smaller numbers.
        evaluations: sets that it has scored.

    """

    pages: PackedPages
    led: PackedKeys
    closed: tuple[int, ...]
    n_numbers: int
    evaluations: int

    def numbers(self) -> list[int]:
        """Of its fragments, ascending."""
        found: list[int] = np.unique(self.pages.members).tolist()
        return found


def require_shardable(problem: Problem, rules: Rules) -> None:
    """Refuse what cannot be clustered in parts that know nothing of each other.

    Raises:
        UsageError: plain SMC, a resampler that draws, constraints, or no index.

    """
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
        raise UsageError("workers do not support --link yet; leave it out, or the executor")
    if problem.index is None:
        raise UsageError(
            "without an index every fragment is compared with all clusters, so all of them would "
            "be on one worker; name an index with --index, or leave out the executor"
        )


class Shard:
    """Some subproblems of a run.

    Args:
        problem: what to cluster by; `require_shardable` has let it through.
        rules: how.
        first: the first fragment of the run, which may settle what a live table is like.
        saved: to go on from.
        fragments: those of `saved`, by number, ascending.

    """

    def __init__(
        self,
        problem: Problem,
        rules: Rules,
        first: Fragment,
        saved: ShardState | None = None,
        fragments: Mapping[int, Fragment] | None = None,
    ) -> None:
        rules = rules.settled(indexed=True)
        problem = shared(problem)
        state = State(DirichletProcess(problem.alpha))
        assert problem.index is not None
        self._candidates = ShardCandidates(problem.index)
        model = make_scorer(problem, rules.limit, self._candidates)
        if model.table is not None:
            model.table.sparse = True
            model.table.begin(first)
        rng = np.random.default_rng(0)  # nobody draws from it
        self._core = Core(
            problem, rules, rng, state, model, FragmentHomes(state), Ids(lambda: model.fragments)
        )
        if saved is not None:
            model.resume(saved.evaluations)
            state.count_fragments(saved.n_numbers)
            pages, led = unpack_pages(saved.pages), unpack_led(saved.led)
            self.take(Handover(pages, fragments or {}, led))
            self._candidates.close(saved.closed)

    @property
    def evaluations(self) -> int:
        """Sets that it has scored."""
        return self._core.model.evaluations

    def add(self, number: int, x: Fragment, closed: Iterable[int]) -> ShardReport:
        """Take in a fragment; all that its step may look at is here.

        Args:
            number: of it, larger than those before.
            x: the fragment.
            closed: those of its keys that are known to lead too far.

        Raises:
            LikelihoodError: as `kbforge.contracts.Session.add`.

        """
        core, state = self._core, self._core.state
        state.count_fragments(number - state.n_fragments)
        self._candidates.close(closed)
        try:
            plan = consider(state, core.model, x, core.rules, core.rng)
        except LikelihoodError as error:
            raise LikelihoodError(f'fragment "{quoted(x.id)}": {error}') from error
        info = core.commit(plan)
        assert plan.reading.reached is not None
        return ShardReport(
            number,
            info.before,
            tuple((name, self._families(name)) for name in info.after),
            tuple(sorted(set(plan.new.first.tolist()))),
            tuple(plan.reading.reached.closed),
        )

    def give(self, fragments: Sequence[int]) -> Handover:
        """Hand over the subproblems that hold these fragments; they are here no more."""
        core = self._core
        handed = self._handed(sorted({core.homes.of(number) for number in fragments}))
        families = {family for page in handed.pages for family in self._families(page.name)}
        led = self._candidates.give(sorted(families))
        for page in handed.pages:
            core.state.remove(page.name)
            core.state.release(page.slots)
            core.model.release(page.slots)
        core.homes.forget(handed.fragments)
        core.model.forget(handed.fragments)
        return replace(handed, led=led)

    def take(self, handed: Handover) -> None:
        """Own these subproblems from now on."""
        state = self._core.state
        if not handed.pages:
            return
        state.count_fragments(max(0, max(handed.fragments) + 1 - state.n_fragments))
        hold(self._core, [self._with_slots(page) for page in handed.pages], handed.fragments)
        self._candidates.receive(handed.led)

    def pages(self) -> tuple[Page, ...]:
        """All its subproblems, by ascending name."""
        state = self._core.state
        return tuple(page_of(state, name) for name in sorted(state.blocks))

    def save(self) -> ShardState:
        """All of it but its fragments as plain data, which shares nothing with it."""
        candidates = self._candidates
        return ShardState(
            pack_pages(self.pages()),
            pack_led(candidates.contents()),
            candidates.closed(),
            self._core.state.n_fragments,
            self.evaluations,
        )

    def _handed(self, names: Sequence[int]) -> Handover:
        pages = tuple(page_of(self._core.state, name) for name in names)
        held = self._core.model.fragments
        return Handover(pages, {number: held[number] for number in numbers_in(pages)}, {})

    def _with_slots(self, page: Page) -> Page:
        """The page in slots of this shard."""
        state = self._core.state
        slots = state.vacant(len(page.slots))
        state.take(len(slots))
        return replace(page, slots=slots)

    def _families(self, name: int) -> tuple[int, ...]:
        """The families that live in a subproblem, ascending."""
        state = self._core.state
        return tuple(sorted(set(state.first[state.blocks[name].slots].tolist())))

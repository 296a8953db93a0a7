"""A run of the reference engine: particles in NumPy arrays.

It takes the steps of `kbforge.clustering.step`, which read like the paper, and needs no compiler.
The kernel's run (`kbforge.clustering.compiled`) answers the same questions, to the last bit.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

import numpy as np

from kbforge.clustering.candidates import Candidates, KeyLookup
from kbforge.clustering.pages import RunTotals, clusters_of, numbers_in, posterior_of
from kbforge.clustering.propose import Pool, PutativeScores, Rules, propose_joins
from kbforge.clustering.state import Block, DirichletProcess, Lineage, State
from kbforge.clustering.step import Plan, commit, consider, opening
from kbforge.contracts import (
    CandidateIndex,
    Cluster,
    Fate,
    FloatArray,
    Info,
    IntArray,
    KeyFamilies,
    Page,
    Posterior,
    Totals,
)

FATES = (Fate.OPENED, Fate.JOINED, Fate.MERGED)
"""By how many subproblems took part."""
_NOTHING: IntArray = np.zeros(0, dtype=np.int64)


class ReferenceRun:
    """Particles, and where keys lead to them.

    Attributes:
        n_numbers: how many numbers were given to fragments.
        n_slots: how many slots are numbered.
        evaluations: sets scored.
        reached: where the keys of the fragment looked up last lead.
        proposed: the joins that a surrogate has proposed last.
        plan: what was decided of the fragment taken in last.
    """

    def __init__(
        self,
        rules: Rules,
        prior: DirichletProcess,
        index: CandidateIndex | None,
        rng: np.random.Generator,
    ) -> None:
        self._rules, self._rng = rules, rng
        self.state = State(prior)
        self.candidates = None if index is None else Candidates(index)
        self.evaluations = 0
        self._elsewhere = bytearray()  # by fragment, whether its subproblem is not here
        self._home: dict[int, int] | None = None  # made when it is first asked for
        self._tags = SlotTags()
        self._by_slot = np.zeros(0)
        self._joined = np.zeros(0)
        # of the fragment looked up
        self.reached: KeyLookup | None = None
        self._slots, self._must_join = _NOTHING, False
        self.proposed: Pool | None = None
        self.plan: Plan | None = None

    @property
    def n_numbers(self) -> int:
        return self.state.n_fragments

    @property
    def n_slots(self) -> int:
        return self.state.n_slots

    # -- a step -------------------------------------------------------------------------------

    def look_up(self, number: int, keys: IntArray) -> IntArray | None:
        """See `CompiledRun`, as for all of the following."""
        slots = self._looked_up(keys)
        if slots is None:
            return None
        self._slots, self._must_join = self._tags.bound(number, slots)
        return self._slots

    def _looked_up(self, keys: IntArray) -> IntArray | None:
        state = self.state
        if self.candidates is None:
            return np.flatnonzero(state.reach[: state.n_slots] > -np.inf)
        self.reached = self.candidates.look_up(keys.tolist(), state.in_heaviest)
        if self._elsewhere and any(map(self._is_elsewhere, self.reached.followed)):
            return None
        return self.reached.slots

    def open_keys(self) -> list[int]:
        assert self.reached is not None
        return list(self.reached.open)

    def propose(self, predictive: FloatArray, limit: int | None) -> tuple[IntArray, int]:
        scores = PutativeScores(self._spread(predictive, self._slots), self._slots)
        joins = self.proposed = propose_joins(self.state, scores, limit)
        heaviest = int(joins.subproblem[joins.value.argmax()]) if len(joins) else -1
        return np.unique(joins.slot), heaviest

    def _spread(self, values: FloatArray, slots: IntArray) -> FloatArray:
        """Values by slot."""
        if len(self._by_slot) < self.n_slots:
            self._by_slot = np.zeros(2 * self.n_slots)
        self._by_slot[slots] = values
        return self._by_slot

    def take_in(
        self,
        predictive: FloatArray,
        alone: float,
        joined: FloatArray | None = None,
        proposed: bool = False,
        evaluations: int = -1,
        apart: bool = False,
    ) -> tuple[Info, IntArray, IntArray]:
        state = self.state
        pool = self.proposed if proposed else None
        if apart:
            plan = opening(state, alone)
        else:
            slots = self._slots if pool is None else np.unique(pool.slot)
            if joined is not None:
                if len(self._joined) < self.n_slots:
                    self._joined = np.zeros(2 * self.n_slots)
                self._joined[slots] = joined[: len(slots)]
            by_slot = self._spread(predictive, slots)
            marginal = None if joined is None else self._joined
            scores = PutativeScores(by_slot, slots, alone, marginal)
            plan = consider(state, scores, self._rules, self._rng, pool, self._must_join)
        commit(state, plan)
        self._follow(plan)
        more = self.evaluations + len(plan.new.slots)
        self.evaluations = more if evaluations < 0 else evaluations
        info = Info(
            fragment=plan.fragment,
            fate=FATES[min(len(plan.replaced), 2)],
            before=plan.replaced,
            after=tuple(plan.blocks),
            subproblems=state.n_subproblems,
            log10_effective_particles=state.log10_effective_particles,
            model_evaluations=self.evaluations,
        )
        return info, plan.new.parents, plan.new.slots

    def _follow(self, plan: Plan) -> None:
        """A step has been taken."""
        self.plan, new = plan, plan.new
        if self.candidates is not None:
            assert self.reached is not None
            self.candidates.extend(self.reached, new.first, new.slots)
            self.candidates.release(plan.dropped)
        self._tags.follow(plan.fragment, new.parents, new.slots, plan.dropped)
        if self._home is not None:
            if plan.replaced == tuple(plan.blocks) and len(plan.blocks) == 1:
                self._home[plan.fragment] = plan.replaced[0]
            else:
                self._follow_homes(plan.blocks)

    def dropped(self) -> IntArray:
        return _NOTHING if self.plan is None else self.plan.dropped

    # -- what is here -------------------------------------------------------------------------

    def owners(self, slots: IntArray) -> list[int]:
        owners: list[int] = self.state.owner[slots].tolist()
        return owners

    def clusters(self, slots: IntArray) -> tuple[list[Cluster], FloatArray]:
        return list(map(self.state.members, slots.tolist())), self.state.score[slots]

    def rivals(
        self,
        number: int,
        keys: IntArray,
        lone: bool,
        table: int | None = None,
        record: Sequence[int] = (),
    ) -> tuple[IntArray, FloatArray, float] | None:
        state, name = self.state, self.homes([number])[0]
        own = next(slot for slot in self._heaviest([name]) if number in state.members(slot))
        if not lone and state.size[own] == 1:
            return _NOTHING, np.zeros(0), 0.0
        slots = self._looked_up(keys)
        if slots is None:
            return None
        near = self._heaviest(np.unique(state.owner[slots]))
        slots = np.intersect1d(slots, near)
        slots = slots[slots != own]
        return slots, state.log_size[slots], 0.0

    def _heaviest(self, names: Iterable[int] | IntArray) -> IntArray:
        """The clusters of the heaviest particles of some subproblems, by slot."""
        state = self.state
        rows = state.row_start[np.array(names, dtype=np.int64)]
        begin = state.row_begin[rows]
        return np.sort(state.cells[state.ranges(begin, state.row_end[rows] - begin)])

    def count(self, evaluations: int) -> None:
        self.evaluations += evaluations

    def fit_sizes(self, largest: int) -> None:
        """The state has the logs of all sizes."""

    def names(self) -> IntArray:
        return np.array(sorted(self.state.blocks), dtype=np.int64)

    def pages(self, names: IntArray) -> list[Page]:
        return list(map(self.page, names.tolist()))

    def page(self, name: int) -> Page:
        state, block = self.state, self.state.blocks[name]
        slots = block.slots.copy()
        members = [state.members(slot) for slot in slots.tolist()]
        state.place[slots] = state.arange(len(slots))
        return Page(
            name=name,
            slots=slots,
            lengths=np.array([len(held) for held in members], dtype=np.int64),
            members=np.array([number for held in members for number in held], dtype=np.int64),
            scores=state.score[slots],
            rows=np.diff(block.row_start),
            cells=state.place[block.cells],
            weights=block.weights.copy(),
        )

    def heaviest(self, name: int) -> list[Cluster] | None:
        block = self.state.blocks.get(name)
        if block is None:
            return None
        return list(map(self.state.members, block.cells[: block.row_start[1]].tolist()))

    def posterior(
        self, places: IntArray | None, n_fragments: int, evaluations: int, in_vain: int
    ) -> Posterior:
        called = None if places is None else places.tolist().__getitem__
        pages = map(self.page, sorted(self.state.blocks))
        prior = self.state.prior
        return posterior_of(pages, prior, n_fragments, evaluations, called, in_vain)

    def totals(self) -> RunTotals:
        state = self.state
        return RunTotals(
            state.n_slots,
            list(state.free),
            state.n_subproblems,
            state.log10_effective_particles,
            self.evaluations,
        )

    def led(self) -> dict[int, KeyFamilies]:
        return {} if self.candidates is None else self.candidates.contents()

    def changed_led(self) -> dict[int, KeyFamilies]:
        return {} if self.candidates is None else self.candidates.changed()

    def led_of(self, keys: Sequence[int]) -> dict[int, KeyFamilies]:
        return {} if self.candidates is None else self.candidates.led_of(keys)

    def put_led(self, led: Mapping[int, KeyFamilies], changes: bool) -> None:
        if self.candidates is not None:
            self.candidates.put(led, changes)

    # -- subproblems that come and go ---------------------------------------------------------

    def resume(self, totals: Totals, elsewhere: bool) -> None:
        free = totals.free.tolist()
        effective = totals.log10_effective_particles
        self.state.resume(totals.n_numbers, totals.n_slots, free, totals.n_subproblems, effective)
        self.evaluations = totals.evaluations
        if elsewhere:
            self._elsewhere = bytearray(b"\1") * totals.n_numbers

    def hold(self, pages: Sequence[Page]) -> None:
        state = self.state
        clusters = {slot: cluster for page in pages for slot, cluster in clusters_of(page).items()}
        lineage = Lineage(clusters, state.n_slots)
        slots = np.concatenate([page.slots for page in pages])
        size = np.concatenate([page.lengths for page in pages])
        score = np.concatenate([page.scores for page in pages])
        first = np.array([cluster[0] for cluster in clusters.values()], dtype=np.int64)
        state.put_clusters(slots, size, first, score, state.log_terms(size, score))
        for slot in clusters:
            state.links[slot] = lineage.link(slot)
        effective = state.log10_effective_particles  # counts what is not here yet
        for page in pages:
            state.install(page.name, self._block(page, clusters))
            if self._elsewhere:
                for number in page.members.tolist():
                    if number < len(self._elsewhere):
                        self._elsewhere[number] = 0
        state.log10_effective_particles = effective
        state.blocks_elsewhere -= len(pages)
        if self.candidates is not None:
            self.candidates.hold({slot: cluster[0] for slot, cluster in clusters.items()})
        self._tags.put(clusters)
        if self._home is not None:
            self._follow_homes(page.name for page in pages)

    def _block(self, page: Page, clusters: Mapping[int, Cluster]) -> Block:
        """The page's subproblem; its clusters get masks of which the bits are its fragments."""
        bit = {number: 1 << at for at, number in enumerate(numbers_in([page]))}
        for slot in page.slots.tolist():
            self.state.mask[slot] = sum(bit[number] for number in clusters[slot])
        row_start = np.concatenate([[0], np.cumsum(page.rows)])
        return Block(page.slots[page.cells], row_start, page.weights, page.slots, len(bit))

    def drop(self, names: Sequence[int]) -> None:
        for name in names:
            slots = self.state.remove(name).slots
            self.state.forget(slots)
            self._tags.release(slots.tolist())
            if self.candidates is not None:
                self.candidates.release(slots)
            self.state.blocks_elsewhere += 1

    def absent(self, numbers: Collection[int]) -> None:
        for number in numbers:
            if number < len(self._elsewhere):
                self._elsewhere[number] = 0
            if self._home is not None:
                self._home.pop(number, None)

    def homes(self, numbers: Sequence[int]) -> list[int]:
        if self._home is None:
            self._home = {}
            self._follow_homes(self.state.blocks)
        return [self._home.get(number, -1) for number in numbers]

    def _follow_homes(self, names: Iterable[int]) -> None:
        assert self._home is not None
        for name in names:
            for cluster in self.heaviest(name) or ():
                self._home.update(dict.fromkeys(cluster, name))

    def elsewhere(self, keys: IntArray, closed: bool) -> list[int]:
        if self.candidates is None:
            return []
        families = self.candidates.families_of(keys.tolist(), closed)
        return sorted({family for family in families if self._is_elsewhere(family)})

    def _is_elsewhere(self, number: int) -> bool:
        return number < len(self._elsewhere) and bool(self._elsewhere[number])

    # -- constraints --------------------------------------------------------------------------

    def bind(self, apart: Sequence[Sequence[int]] | None) -> None:
        self._tags = SlotTags(apart)

    def tag(self, tags: Mapping[int, tuple[int, Sequence[int]]]) -> None:
        self._tags.of_fragment.update(tags)

    def tag_clusters(self) -> None:
        for name in self.state.blocks:
            slots = self.state.blocks[name].slots.tolist()
            self._tags.put({slot: self.state.members(slot) for slot in slots})


class SlotTags:
    """Tags of fragments and clusters as numbers: components of decisions, and linking values."""

    def __init__(self, apart: Sequence[Sequence[int]] | None = None) -> None:
        self._apart = [frozenset(others) for others in apart or ()]
        self.of_fragment: dict[int, tuple[int, Sequence[int]]] = {}
        # by slot, the components and the values of its fragments
        self._of_slot: dict[int, tuple[frozenset[int], frozenset[int]]] = {}
        # by component, the clusters that hold one of its fragments
        self._holders: dict[int, set[int]] = {}

    def bound(self, number: int, looked_up: IntArray) -> tuple[IntArray, bool]:
        """The clusters looked up that a fragment may join, and whether it must join one."""
        component, values = self.of_fragment.get(number, (-1, ()))
        apart = self._apart[component] if component >= 0 else frozenset[int]()
        mates = self._holders.get(component)
        if mates:
            left = sorted(slot for slot in mates if not self._bars(slot, apart, values))
            return np.array(left, dtype=np.int64), True
        if not apart and not values:
            return looked_up, False
        left = [slot for slot in looked_up.tolist() if not self._bars(slot, apart, values)]
        return np.array(left, dtype=np.int64), False

    def _bars(self, slot: int, apart: frozenset[int], values: Sequence[int]) -> bool:
        components, held = self._of_slot.get(slot, (frozenset(), frozenset()))
        return not (apart.isdisjoint(components) and held.isdisjoint(values))

    def follow(self, number: int, parents: IntArray, children: IntArray, dropped: IntArray) -> None:
        """The clusters children[k] = parents[k] + fragment are here, and others are no more."""
        own = self._united([number])
        for parent, child in zip(parents.tolist(), children.tolist(), strict=True):
            components, values = self._of_slot.get(parent, (frozenset(), frozenset()))
            self._hold(child, own[0] | components, own[1] | values)
        self.release(dropped.tolist())

    def put(self, clusters: Mapping[int, Cluster]) -> None:
        """The clusters of some slots are here."""
        for slot, cluster in clusters.items():
            self._hold(slot, *self._united(cluster))

    def _united(self, cluster: Iterable[int]) -> tuple[frozenset[int], frozenset[int]]:
        tags = [self.of_fragment[number] for number in cluster if number in self.of_fragment]
        components = frozenset(component for component, _ in tags if component >= 0)
        return components, frozenset(value for _, values in tags for value in values)

    def _hold(self, slot: int, components: frozenset[int], values: frozenset[int]) -> None:
        if components or values:
            self._of_slot[slot] = components, values
            for component in components:
                self._holders.setdefault(component, set()).add(slot)

    def release(self, slots: Iterable[int]) -> None:
        """These clusters are no more."""
        for slot in slots:
            for component in self._of_slot.pop(slot, ((), ()))[0]:
                self._holders[component].discard(slot)

"""The parts of a session, and the subproblems that it has in memory.

A step changes state, model and bindings together, and so does a replacement; both are here, with
all that must be kept up beside them.

The pages of a session may lie elsewhere; then it holds those that it has read so far. A fragment is
here if its page is. Where all clusters are here that a step looks at, the step decides what it
would if all others were here, too: it looks at none of them.

Clusters keep their slots, and a page has them in the order in which they are to be freed: sums over
particles are taken in an order that slots decide. What can be worked out again to the same bits is
not in a page: membership masks, terms, and what a live table holds, which is filled again along the
clusters' lineage. A black box's scores are stored, since a neural one need not say the same to the
last bit in another batch.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from kbforge.clustering.constraints import Bindings, Closure
from kbforge.clustering.pages import clusters_of, numbers_in, require_same
from kbforge.clustering.regroup import Replacement, put_in_place
from kbforge.clustering.rules import Rules
from kbforge.clustering.scoring import BlackBoxScorer, ConjugateScorer, SessionScores, StepDemand
from kbforge.clustering.state import Block, Lineage, State
from kbforge.clustering.step import Plan, commit
from kbforge.contracts import (
    Checkpoint,
    Cluster,
    Constraints,
    Fragment,
    Info,
    IntArray,
    Page,
    Pages,
    Problem,
    Snapshot,
    Totals,
)
from kbforge.errors import UsageError, quoted


@dataclass(slots=True)
class Core:
    """A session without its interface.

    Attributes:
        problem: what to cluster by; a black box is a cache of scores, for all to share.
        rules: how.
        rng: the session's own.
        state: particles.
        model: scores.
        homes: where fragments are.
        ids: the numbers of fragments by id.
        bindings: what constraints say of the clusters; None where there are no constraints.
        changed: names of subproblems that are new since this was last asked.
        gone: names of those that are no more.
        since: by name, the subproblems that were replaced or came since the last checkpoint, and
            whether there was one of that name then; None: there was no checkpoint.

    """

    problem: Problem
    rules: Rules
    rng: np.random.Generator
    state: State
    model: ConjugateScorer | BlackBoxScorer
    homes: FragmentHomes
    ids: Ids
    bindings: Bindings | None = None
    changed: set[int] = field(default_factory=set)
    gone: set[int] = field(default_factory=set)
    since: dict[int, bool] | None = None

    # -- what is looked at is to be here; a session without pages has all of it ---------------

    def lead(self, x: Fragment) -> None:
        """Have here what a step looks at that takes in x, or that puts it elsewhere."""

    def have(self, numbers: Iterable[int]) -> None:
        """Have here the subproblems of fragments, of those that there are."""

    def have_ids(self, ids: Iterable[str]) -> None:
        """The same, of the fragments with these ids."""

    def have_all(self) -> None:
        """Have here all subproblems."""

    def have_keys(self) -> None:
        """Have it known where all keys of the index lead."""

    def have_first(self, gone: Collection[int]) -> None:
        """Have here the first fragment that there is without some, if one of these is the first.

        It is if it is the first of those that are here; then it is so of all.
        """

    # -----------------------------------------------------------------------------------------

    @property
    def n_fragments(self) -> int:
        """How many there are."""
        return len(self.model.fragments) + self.state.fragments_elsewhere

    @property
    def constraints(self) -> Constraints:
        """Those in force."""
        return Constraints() if self.bindings is None else self.bindings.constraints

    @property
    def sets(self) -> SessionScores | None:
        """What a black box was asked; None: the likelihood is none."""
        return self.model.sets if isinstance(self.model, BlackBoxScorer) else None

    def coming(self, x: Fragment, after: int) -> StepDemand:
        """See `kbforge.clustering.ahead`."""
        assert isinstance(self.model, BlackBoxScorer)
        self.lead(x)
        bounds = None if self.bindings is None else self.bindings.bounds(x)
        return self.model.coming(self.state, x, bounds)

    def commit(self, plan: Plan) -> Info:
        """Write what was decided of a new fragment."""
        info = commit(self.state, self.model, plan)
        if self.bindings is not None:
            self.bindings.follow(plan.fragment, plan.reading.fragment, plan.new, plan.dropped)
        self._note(info.before, info.after)
        if info.before == info.after and len(info.after) == 1:
            self.homes.put(info.fragment, info.after[0])
        else:
            self.homes.follow(info.after)
        return info

    def replace(self, replacement: Replacement) -> None:
        """Write what was decided of subproblems."""
        regrouped = replacement.regrouped
        removed = {number: self.model.fragments[number] for number in regrouped.removed}
        put_in_place(self.state, self.model, replacement)
        if self.bindings is not None:
            self.bindings.forget(removed)
            self.bindings.regroup(regrouped.before.tolist(), regrouped.clusters)
        self._note(replacement.gone, replacement.blocks)
        self.homes.follow(replacement.blocks)
        self.homes.forget(removed)

    def bind(self, constraints: Constraints, closure: Closure) -> None:
        """From now on these constraints are in force; the particles are as they were."""
        self.bindings = None
        if not constraints:
            return
        bindings = Bindings(constraints, closure)
        names: Iterable[int] = self.state.blocks
        if constraints.link is None:
            bound = sorted(i for i, x in self.model.fragments.items() if x.id in closure.component)
            names = sorted({self.homes.of(number) for number in bound})
        else:
            bound = sorted(self.model.fragments)
        for number in bound:
            bindings.require_possible(self.model.fragments[number])
            bindings.take_in(number, self.model.fragments[number])
        state = self.state
        for name in names:
            slots = state.blocks[name].slots.tolist()
            bindings.regroup((), {slot: state.members(slot) for slot in slots})
        self.bindings = bindings

    def _note(self, before: Collection[int], after: Collection[int]) -> None:
        """These subproblems have taken the place of those."""
        self.gone.update(before)
        self.gone.difference_update(after)
        self.changed.difference_update(before)
        self.changed.update(after)
        if self.since is not None:
            for name in before:
                self.since.setdefault(name, True)
            for name in after:
                self.since.setdefault(name, False)


_WINDOW = 64
"""Numbers to look for the first fragment among; twice as many where none of them is there."""

_AT_ONCE = 10_000
"""Pages that are fetched together, at most."""


@dataclass(slots=True, kw_only=True)
class PagedCore(Core):
    """See `Core`.

    Attributes:
        pages: as of the last checkpoint, or of the opening.
        removed: numbers of fragments that were there and are no more.
        asked: ids that were looked up in the pages.
        in_order: whether fragments are known to be here by ascending number.
        searched: no fragment with a smaller number lies elsewhere.

    """

    pages: Pages
    removed: set[int] = field(default_factory=set)
    asked: set[str] = field(default_factory=set)
    in_order: bool = True
    searched: int = 0

    def begin(self, settings: Mapping[str, Any]) -> None:
        """Go on from where the pages were left.

        Raises:
            UsageError: as `resume`.

        """
        totals = self.pages.totals
        resume(self, totals, settings, "the pages are")
        self.state.fragments_elsewhere = totals.n_fragments
        self.state.blocks_elsewhere = totals.n_subproblems
        self.since = {}
        if self.model.table is not None:
            self.model.table.sparse = True
        if self.model.candidates is not None:
            self.model.candidates.follow(self.pages.led)

    def replace(self, replacement: Replacement) -> None:
        Core.replace(self, replacement)
        self.removed.update(replacement.regrouped.removed)

    def lead(self, x: Fragment) -> None:
        candidates = self.model.candidates
        if candidates is None or not self.rules.splits:
            self.have_all()
            return
        self._settle_table()
        if self.bindings is not None:
            closure = self.bindings.closure
            self.have_ids(closure.members.get(closure.component.get(x.id, ""), ()))
        keys = candidates.keys(x)
        candidates.know(keys)
        self.have(candidates.open_families(keys))
        self.have(candidates.closed_families(keys, self.state.in_heaviest))

    def have(self, numbers: Iterable[int]) -> None:
        wanted = self._elsewhere(numbers)
        if wanted:
            self._fetch(sorted(set(self.pages.homes(wanted).values())))

    def have_ids(self, ids: Iterable[str]) -> None:
        unknown = [id for id in ids if id not in self.asked]
        if unknown:
            self.have(sorted(self.pages.numbers(unknown).values()))
            self.asked.update(unknown)

    def have_all(self) -> None:
        if self.state.blocks_elsewhere:
            names = self._elsewhere(self.pages.names())
            for begin in range(0, len(names), _AT_ONCE):
                self._fetch(names[begin : begin + _AT_ONCE])
        if not self.in_order:
            self.model.fragments = dict(sorted(self.model.fragments.items()))
            self.in_order = True

    def have_keys(self) -> None:
        if self.model.candidates is not None:
            self.model.candidates.know(self.pages.keys())

    def have_first(self, gone: Collection[int]) -> None:
        if self.model.table is not None and min(self.model.fragments) in gone:
            first = self._first(gone)
            self.have([] if first is None else [first])

    def _elsewhere(self, numbers: Iterable[int]) -> list[int]:
        """Those that are not here, and have not been."""
        here, removed = self.model.fragments, self.removed
        return [n for n in numbers if n not in here and n not in removed]

    def _fetch(self, names: list[int]) -> None:
        """Have these pages here; whatever is raised, nothing has changed."""
        pages = [self.pages.page(name) for name in names]
        numbers = numbers_in(pages)
        found = self.pages.fragments(numbers)
        fragments = {number: found[number] for number in numbers}
        self._settle_table()
        hold(self, pages, fragments)
        self.in_order = False
        self.state.fragments_elsewhere -= len(fragments)
        self.state.blocks_elsewhere -= len(pages)

    def _settle_table(self) -> None:
        """Have a table that was shown the first fragment, if there is any."""
        table = self.model.table
        if table is None or table.live is not None:
            return
        first = self._first(())
        if first is not None:
            table.begin(self.pages.fragments([first])[first])

    def _first(self, gone: Collection[int]) -> int | None:
        """The smallest number of a fragment that there is, here or elsewhere, but for some."""
        here = min((n for n in self.model.fragments if n not in gone), default=None)
        if not self.state.fragments_elsewhere:
            return here
        end = self.state.n_fragments if here is None else here
        width = _WINDOW
        while self.searched < end:
            stop = min(self.searched + width, end)
            homes = self.pages.homes(self._elsewhere(range(self.searched, stop)))
            if homes:
                return min(homes)
            self.searched, width = stop, 2 * width
        return here


_SEVERAL = -1


class Ids:
    """Which fragment has an id.

    Args:
        fragments: gives those that there are, by number.

    """

    def __init__(self, fragments: Callable[[], Mapping[int, Fragment]]) -> None:
        self._fragments = fragments
        self._number: dict[str, int] | None = None

    def of(self, id: str) -> int:
        """The number of a fragment.

        Raises:
            UsageError: there is none of that id, or there are several.

        """
        if self._number is None:
            self._number = {}
            self.put(self._fragments())
        found = self._number.get(id)
        if found is None:
            raise UsageError(f'no fragment of the session has the id "{quoted(id)}"')
        if found == _SEVERAL:
            raise UsageError(f'several fragments of the session have the id "{quoted(id)}"')
        return found

    def put(self, fragments: Mapping[int, Fragment]) -> None:
        """These are there, too, by number."""
        if self._number is not None:
            for number, x in fragments.items():
                self._number[x.id] = _SEVERAL if x.id in self._number else number

    def forget(self, ids: Iterable[str]) -> None:
        """The fragments with these ids, each of which is one's, are no more."""
        if self._number is not None:
            for id in ids:
                del self._number[id]


class FragmentHomes:
    """The subproblem of every fragment.

    Args:
        state: is read whenever something is asked.

    """

    def __init__(self, state: State) -> None:
        self._state = state
        self._home: dict[int, int] | None = None

    def of(self, fragment: int) -> int:
        """The name of the subproblem that holds a fragment."""
        if self._home is None:
            self._home = {}
            self.follow(self._state.blocks)
        return self._home[fragment]

    def put(self, fragment: int, name: int) -> None:
        """A fragment has come to a subproblem that holds the others as before."""
        if self._home is not None:
            self._home[fragment] = name

    def follow(self, names: Iterable[int]) -> None:
        """These subproblems are new."""
        if self._home is None:
            return
        for name in names:
            block = self._state.blocks[name]
            for slot in block.cells[: block.row_start[1]].tolist():
                self._home.update(dict.fromkeys(self._state.members(slot), name))

    def forget(self, fragments: Iterable[int]) -> None:
        """These fragments are no more."""
        if self._home is not None:
            for fragment in fragments:
                del self._home[fragment]


def page_of(state: State, name: int) -> Page:
    """A subproblem as plain data."""
    block = state.blocks[name]
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


def hold(core: Core, pages: Sequence[Page], fragments: Mapping[int, Fragment]) -> None:
    """Put subproblems into a session that has numbered their fragments and slots.

    Whatever is raised, nothing has changed.

    Args:
        core: holds none of them.
        pages: of the subproblems.
        fragments: theirs, by number, ascending.

    """
    if not pages:
        return
    state = core.state
    clusters = {slot: cluster for page in pages for slot, cluster in clusters_of(page).items()}
    scores: list[float] = np.concatenate([page.scores for page in pages]).tolist()
    lineage = Lineage(clusters, state.n_slots)
    core.model.hold(fragments, lineage, clusters, scores)
    _put_clusters(state, pages, lineage, clusters)
    effective = state.log10_effective_particles  # counts what lies elsewhere
    for page in pages:
        state.install(page.name, _block(state, page, clusters))
    state.log10_effective_particles = effective
    core.homes.follow([page.name for page in pages])
    core.ids.put(fragments)
    if core.bindings is not None:
        for number, x in fragments.items():
            core.bindings.take_in(number, x)
        core.bindings.regroup((), clusters)


def _put_clusters(
    state: State, pages: Sequence[Page], lineage: Lineage, clusters: Mapping[int, Cluster]
) -> None:
    slots = np.concatenate([page.slots for page in pages])
    size = np.concatenate([page.lengths for page in pages])
    score = np.concatenate([page.scores for page in pages])
    first: IntArray = np.array([cluster[0] for cluster in clusters.values()], dtype=np.int64)
    state.put_clusters(slots, size, first, score, state.log_terms(size, score))
    for slot in clusters:
        state.links[slot] = lineage.link(slot)


def _block(state: State, page: Page, clusters: Mapping[int, Cluster]) -> Block:
    """The page's subproblem; its clusters get masks of which the bits are its fragments."""
    bit = {number: 1 << at for at, number in enumerate(numbers_in([page]))}
    for slot in page.slots.tolist():
        state.mask[slot] = sum(bit[number] for number in clusters[slot])
    row_start = np.concatenate([[0], np.cumsum(page.rows)])
    return Block(page.slots[page.cells], row_start, page.weights, page.slots, len(bit))


def checkpoint_of(core: Core, settings: Mapping[str, Any]) -> Checkpoint:
    """The pages and keys that are not as they were; from now on they are as they were."""
    blocks, since = core.state.blocks, core.since
    names = blocks if since is None else [name for name in since if name in blocks]
    gone = [] if since is None else [n for n, was in since.items() if was and n not in blocks]
    candidates = core.model.candidates
    core.since = {}
    return Checkpoint(
        totals_of(core, settings),
        tuple(page_of(core.state, name) for name in sorted(names)),
        tuple(sorted(gone)),
        {} if candidates is None else candidates.changed(),
    )


def snapshot_of(core: Core, settings: Mapping[str, Any]) -> Snapshot:
    """What it takes to go on from here; the session has all of it here."""
    model = core.model
    return Snapshot(
        tuple(model.fragments.values()),
        totals_of(core, settings),
        tuple(page_of(core.state, name) for name in sorted(core.state.blocks)),
        {} if model.candidates is None else model.candidates.contents(),
        model.sets.contents() if isinstance(model, BlackBoxScorer) else {},
    )


def restore(core: Core, snapshot: Snapshot, settings: Mapping[str, Any]) -> None:
    """Put a snapshot into an empty session.

    Raises:
        UsageError: as `resume`.

    """
    resume(core, snapshot.totals, settings, "the snapshot is")
    numbers = numbers_in(snapshot.pages)
    hold(core, snapshot.pages, dict(zip(numbers, snapshot.fragments, strict=True)))
    if core.model.candidates is not None:
        core.model.candidates.take_up(snapshot.led)
    if isinstance(core.model, BlackBoxScorer):
        core.model.sets.remember(snapshot.scores)


def totals_of(core: Core, settings: Mapping[str, Any]) -> Totals:
    """What a session knows beside its subproblems."""
    state = core.state
    return Totals(
        settings=dict(settings),
        constraints=core.constraints,
        n_fragments=core.n_fragments,
        n_numbers=state.n_fragments,
        n_slots=state.n_slots,
        free=np.array(state.free, dtype=np.int64),
        n_subproblems=state.n_subproblems,
        log10_effective_particles=state.log10_effective_particles,
        evaluations=core.model.evaluations,
        rng=deepcopy(core.rng.bit_generator.state),
    )


def resume(core: Core, totals: Totals, settings: Mapping[str, Any], source: str) -> None:
    """Let an empty session go on from there; its subproblems are yet to come.

    Args:
        core: is empty, and is not yet told what constraints there are.
        totals: what it is to know.
        settings: its own.
        source: as of `require_same`.

    Raises:
        UsageError: as `require_same`.

    """
    require_same(core.problem, core.rng, totals, settings, source)
    core.rng.bit_generator.state = deepcopy(dict(totals.rng))
    core.state.resume(
        totals.n_numbers, totals.n_slots, totals.free.tolist(), totals.log10_effective_particles
    )
    core.model.resume(totals.evaluations)

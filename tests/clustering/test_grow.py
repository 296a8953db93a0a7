"""Grow: the joint's particles with the new fragment in its place, against sets of sets."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pytest

from kbforge.clustering.grow import GrownParticles, Joint, grow, merge
from kbforge.clustering.propose import Pool, propose_joins, with_singletons
from kbforge.clustering.rules import Rules
from kbforge.clustering.state import State
from kbforge.contracts import Cluster, IntArray, Problem
from kbforge_plugins.resamplers import Greedy
from tests.clustering.both_engines import ALPHA, SEEDS, after, bridging_stream, scores_of, state_of
from tests.clustering.contents import contents
from tests.clustering.oracle import Target, log_sum_exp
from tests.clustering.toys import Chain, fragments_of, normal

PREDICTIVE = normal(1.0, 6.0)


@dataclass
class Case:
    """What `grow` was given, and what came out."""

    state: State
    names: IntArray
    pool: Pool
    joint: Joint
    grown: GrownParticles
    target: Target


def cases(particles: int) -> Iterator[Case]:
    """Fragments between the groups of a stream, each into all that it may belong to."""
    rules = Rules(particles, Greedy(), splits=True)
    for seed in SEEDS:
        points = bridging_stream(seed)
        items = fragments_of(points)
        for n in (2, 9, 12, 13, 14, 20):
            core = after(items[:n], Problem(Chain(PREDICTIVE), ALPHA), rules)
            state, scores = state_of(core), scores_of(core, items[n])
            joins = propose_joins(state, scores, particles)
            pool = with_singletons(state, joins, scores.alone)
            names = np.unique(pool.subproblem)
            joint = merge(state, names, pool, rules, np.random.default_rng(0))
            before = contents(state)
            grown = grow(state, scores, names, pool, joint)
            assert contents(state) == before
            yield Case(state, names, pool, joint, grown, Target(points, PREDICTIVE, ALPHA))


def expected_row(case: Case, particle: int) -> list[Cluster]:
    """The old particles' clusters, with the new fragment where the putative particle has it."""
    state, putative = case.state, case.joint.putative[particle]
    held: set[Cluster] = set()
    for name, rank in zip(case.names, case.joint.rows[particle], strict=True):
        row = state.row_start[name] + rank
        cells = state.cells[state.row_begin[row] : state.row_end[row]]
        held |= {state.members(slot) for slot in cells.tolist()}
    slot, x = int(case.pool.slot[putative]), state.n_fragments
    if slot < 0:
        return sorted({*held, (x,)})
    return sorted((held - {state.members(slot)}) | {(*state.members(slot), x)})


@pytest.mark.parametrize("particles", [1, 4, 10])
def test_every_particle_has_the_new_fragment_in_its_place(particles: int) -> None:
    merged = alone = joined = 0
    for case in cases(particles):
        state, grown = case.state, case.grown
        rows = [
            [grown.members(state, place) for place in grown.cells[a:b].tolist()]
            for a, b in itertools.pairwise(grown.row_start.tolist())
        ]
        assert rows == [expected_row(case, i) for i in range(len(case.joint.value))]
        total = log_sum_exp(case.joint.value.tolist())
        assert grown.weights.tolist() == pytest.approx(
            (case.joint.value - total).tolist(), abs=1e-9
        )
        merged += len(case.names) > 1
        singles = [(state.n_fragments,) in row for row in rows]
        alone += any(singles)
        joined += not all(singles)
    # one particle goes into one subproblem
    assert (merged > 0) == (particles > 1)
    assert alone > 0
    assert joined > 0


def test_new_clusters_are_their_parents_and_the_fragment() -> None:
    """With the size, the smallest fragment, L and the term of that set; slots of their own."""
    reused = 0
    for case in cases(10):
        state, new, x = case.state, case.grown.new, case.state.n_fragments
        live = state.reach[: state.n_slots] > -np.inf
        assert not set(new.slots.tolist()) & set(np.flatnonzero(live).tolist())
        assert len(set(new.slots.tolist())) == len(new.slots)
        chosen = case.pool.slot[case.joint.putative]
        assert new.parents.tolist() == sorted(set(chosen.tolist()))
        for k, parent in enumerate(new.parents.tolist()):
            group = (*(state.members(parent) if parent >= 0 else ()), x)
            assert case.grown.members(state, case.grown.n_old + k) == group
            assert (new.size[k], new.first[k]) == (len(group), group[0])
            assert new.score[k] == pytest.approx(case.target.score(group))
            assert new.term[k] == pytest.approx(case.target.log_posterior(frozenset({group})))
            assert case.grown.term(state)[case.grown.n_old + k] == new.term[k]
        reused += bool((new.slots < state.n_slots).any())
    assert reused > 0


def test_used_and_dropped_are_what_particles_hold_and_do_not() -> None:
    dropped = 0
    for case in cases(4):
        state, grown = case.state, case.grown
        held = set(grown.cells.tolist())
        assert np.flatnonzero(grown.used).tolist() == sorted(held)
        gone = {int(grown.slots[place]) for place in range(len(grown.slots)) if place not in held}
        assert set(grown.dropped().tolist()) == gone
        # every cluster of the subproblems has a place, and each new one is held
        old = {slot for name in case.names.tolist() for slot in state.blocks[name].slots.tolist()}
        assert set(grown.slots[: grown.n_old].tolist()) == old
        assert gone <= old
        dropped += len(gone)
    assert dropped > 20


def test_masks_overlap_where_members_do() -> None:
    moved = 0
    for case in cases(4):
        state, grown = case.state, case.grown
        members = [set(grown.members(state, place)) for place in range(len(grown.slots))]
        for mine, mask in zip(members, grown.masks, strict=True):
            for others, other in zip(members, grown.masks, strict=True):
                assert (mask & other).bit_count() == len(mine & others)
        assert max(mask.bit_length() for mask in grown.masks) <= grown.bits
        changed = grown.changed_masks()
        for place, slot in enumerate(grown.slots.tolist()):
            assert (
                changed.get(slot, state.mask[slot] if place < grown.n_old else None)
                == (grown.masks[place])
            )
        moved += len(grown.moved)
    assert moved > 0


def test_a_whole_is_one_subproblem_under_its_smallest_fragment() -> None:
    for case in cases(4):
        grown = case.grown
        name, block = grown.whole()
        assert name == min(case.names.tolist())
        assert block.cells.tolist() == grown.slots[grown.cells].tolist()
        assert sorted(block.slots.tolist()) == sorted(set(block.cells.tolist()))
        assert block.weights.tolist() == grown.weights.tolist()
        assert block.row_start.tolist() == grown.row_start.tolist()
        assert block.bits == grown.bits

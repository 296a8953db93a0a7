"""Grow and split: the joint's particles with the new fragment in its place."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kbforge.clustering.grow import GrownParticles, Joint, grow, merge, split
from kbforge.clustering.propose import Pool, Rules, Weights, propose_joins, with_singletons
from kbforge.clustering.state import Block, DirichletProcess, NewClusters, State
from kbforge.contracts import Cluster, IntArray, Problem
from kbforge_plugins.resamplers import Greedy
from tests.clustering.both_engines import ALPHA, SEEDS, after, bridging_stream, scores_of, state_of
from tests.clustering.contents import contents
from tests.clustering.oracle import Group, Grouping, SlowSmc, Target, log_sum_exp, partitions
from tests.clustering.toys import Chain, fragments_of, normal
from tests.profile import examples

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


SPLIT_SEEDS = range(60)


@dataclass
class Drawn:
    """Particles that have grown, and what they are in plain words."""

    state: State
    grown: GrownParticles
    particles: list[tuple[float, Grouping]]
    term: dict[Group, float]


def drawn(seed: int, spacing: int = 1) -> Drawn:
    """Distinct particles on random blocks of fragments, of which the last one is the new one.

    A fragment takes `spacing` bits of a mask.
    """
    rng = np.random.default_rng(seed)
    n = int(rng.integers(2, 9))
    label = rng.integers(0, 3, size=n)
    blocks = [np.flatnonzero(label == k).tolist() for k in range(3) if (label == k).any()]
    choices = [list(partitions(block)) for block in blocks]
    groupings = {
        frozenset[Group]().union(*(options[rng.integers(len(options))] for options in choices))
        for _ in range(rng.integers(1, 9))
    }
    rows = [sorted(z) for z in sorted(groupings, key=lambda z: rng.random())]
    held = {group for row in rows for group in row}
    # two that no particle holds would connect all; they must not
    old = sorted({group for group in held if group[-1] < n - 1} | {tuple(range(n - 1))})
    new = sorted({group for group in held if group[-1] == n - 1} | {tuple(range(n))})
    clusters = [*old, *new]
    slot = {group: int(s) for group, s in zip(clusters, rng.permutation(40), strict=False)}
    # sums of quarters are exact, and tie
    term = {group: float(rng.integers(-8, 8)) / 4 for group in clusters}
    state = State(DirichletProcess(1.0))
    state.grow_slots(100)
    state.n_slots, state.n_fragments = 100, n - 1
    for group in [*old, *(group[:-1] for group in new)]:
        slot.setdefault(group, len(slot) + 40)
    for group in old:
        state.term[slot[group]] = term[group]
        state.first[slot[group]] = group[0]
    for group, at in slot.items():
        link = None
        for fragment in group:
            link = (link, fragment)
        state.links[at] = link
    place = {group: i for i, group in enumerate(clusters)}
    weights = -np.sort(rng.exponential(size=len(rows)))
    weights = np.sort(weights - log_sum_exp(weights))[::-1]
    grown = GrownParticles(
        min(group[0] for group in clusters),
        NewClusters(
            np.array([slot[group[:-1]] if len(group) > 1 else -1 for group in new]),
            np.array([slot[group] for group in new]),
            np.array([len(group) for group in new]),
            np.array([group[0] for group in new]),
            np.zeros(len(new)),
            np.array([term[group] for group in new]),
        ),
        np.array([slot[group] for group in clusters]),
        np.array([group in held for group in clusters]),
        [sum(1 << spacing * fragment for fragment in group) for group in clusters],
        [],
        np.array([place[group] for row in rows for group in row]),
        np.concatenate([[0], np.cumsum([len(row) for row in rows])]),
        weights,
        spacing * n,
    )
    particles = [(float(w), frozenset(row)) for w, row in zip(weights, rows, strict=True)]
    return Drawn(state, grown, particles, term)


def components(particles: list[tuple[float, Grouping]]) -> list[set[int]]:
    """Fragments that share a cluster, and those that these share one with, and so on."""
    links = [set(group) for _, grouping in particles for group in grouping]
    todo, found = set().union(*links), []
    while todo:
        reached, more = set[int](), {min(todo)}
        while more:
            reached |= more
            more = set().union(*(link for link in links if link & reached)) - reached
        found.append(reached)
        todo -= reached
    return found


def shown(one: Drawn, block: Block) -> list[tuple[Cluster, ...]]:
    """The block's rows, as the fragments of their clusters."""
    grown, state = one.grown, one.state
    members = {
        int(slot): grown.members(state, place) for place, slot in enumerate(grown.slots.tolist())
    }
    return [
        tuple(members[slot] for slot in block.cells[a:b].tolist())
        for a, b in itertools.pairwise(block.row_start.tolist())
    ]


@pytest.mark.parametrize("weights", ["target", "marginal"])
def test_parts_are_the_connected_components_with_their_distinct_rows(weights: Weights) -> None:
    parted = pooled = 0
    for seed in SPLIT_SEEDS:
        one = drawn(seed)
        expected = components(one.particles)
        got = split(one.state, one.grown, weights)
        assert [name for name, _ in got] == [min(part) for part in expected]
        for (_, block), part in zip(got, expected, strict=True):
            mass: dict[Grouping, float] = {}
            for weight, grouping in one.particles:
                partial = frozenset(group for group in grouping if group[0] in part)
                mass[partial] = mass.get(partial, 0.0) + math.exp(weight)
            # a whole keeps the weights that it has; parts are weighed, equals as the parents stood
            value = {z: math.log(m) for z, m in mass.items()}
            if len(expected) > 1 and weights == "target":
                value = {z: sum(one.term[group] for group in z) for z in mass}
            total = log_sum_exp(value.values())
            rows = shown(one, block)
            assert all(row == tuple(sorted(row)) for row in rows)
            assert len(set(rows)) == len(rows) == len(mass)
            assert block.weights.tolist() == pytest.approx(
                [value[frozenset(row)] - total for row in rows], abs=1e-9
            )
            assert (np.diff(block.weights) <= 0).all()
            if len(expected) > 1 and weights == "target":
                ranked = sorted(mass, key=lambda z: -value[z])
                assert [frozenset(row) for row in rows] == ranked
            assert sorted(block.slots.tolist()) == sorted(set(block.cells.tolist()))
            pooled += len(mass) < len(one.particles)
        parted += len(got) > 1
    assert parted > 20
    assert pooled > 20


def test_what_no_particle_connects_stays_apart_whatever_the_masks_look_like() -> None:
    """Masks with wide holes are numbered afresh: bits overlap where members do, and are few."""
    fresh = 0
    for seed in SPLIT_SEEDS:
        one = drawn(seed, spacing=100)
        close = split(drawn(seed).state, drawn(seed).grown, "target")
        got = split(one.state, one.grown, "target")
        grown = one.grown
        place = {int(slot): i for i, slot in enumerate(grown.slots.tolist())}
        assert [name for name, _ in got] == [name for name, _ in close]
        for (_, block), (_, other) in zip(got, close, strict=True):
            assert block.cells.tolist() == other.cells.tolist()
            assert block.weights.tolist() == other.weights.tolist()
            places = [place[slot] for slot in block.slots.tolist()]
            for a, b in itertools.product(places, repeat=2):
                both = set(grown.members(one.state, a)) & set(grown.members(one.state, b))
                assert (grown.masks[a] & grown.masks[b]).bit_count() == len(both)
            assert max(grown.masks[at].bit_length() for at in places) <= block.bits
            if block.bits < grown.bits:
                fresh += 1
                held = {f for at in places for f in grown.members(one.state, at)}
                assert block.bits == len(held)
                assert set(places) <= set(grown.moved)
    assert fresh > 20


@examples(40)
@given(n=st.integers(3, 7), seed=st.integers(0, 10_000), particles=st.sampled_from([2, 3, 5, 10]))
def test_no_split_raises_the_reverse_kl_divergence(n: int, seed: int, particles: int) -> None:
    """Proposition 3.1, for the published marginal weights and for target weights."""
    rng = np.random.default_rng(seed)
    points = [tuple(p.tolist()) for p in rng.normal(scale=4, size=(n, 1))]
    for marginal in (True, False):
        target = Target(points, normal(1.0, 5.0), 0.5)
        slow = SlowSmc(target, particles, marginal_weights=marginal)
        for x in range(n):
            slow.step(x)
        for before, parts in slow.before_and_after:
            after = [
                (sum(w for w, _ in choice), frozenset().union(*(z for _, z in choice)))
                for choice in itertools.product(*parts)
            ]
            assert reverse_kl(after, target) <= reverse_kl(before, target) + 1e-9


def reverse_kl(approximation: list[tuple[float, Grouping]], target: Target) -> float:
    """KL(q || p) up to the constant log evidence of p."""
    return sum(math.exp(w) * (w - target.log_posterior(z)) for w, z in approximation)


def test_the_splits_of_the_previous_test_happen() -> None:
    splittings = 0
    for seed in range(20):
        rng = np.random.default_rng(seed)
        points = [tuple(p.tolist()) for p in rng.normal(scale=4, size=(7, 1))]
        slow = SlowSmc(Target(points, normal(1.0, 5.0), 0.5), 3)
        for x in range(7):
            slow.step(x)
        splittings += slow.splittings
    assert splittings > 10

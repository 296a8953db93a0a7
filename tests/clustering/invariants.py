"""What holds after every step, checked against the flat arrays."""

from __future__ import annotations

import itertools
import math
from collections.abc import Collection
from dataclasses import replace

import numpy as np

from kbforge.clustering.compiled import CompiledRun
from kbforge.clustering.core import Core
from kbforge.clustering.reference import ReferenceRun
from kbforge.clustering.session import SmcSession
from kbforge.clustering.state import State
from kbforge.contracts import Session


def check_invariants(state: State, removed: Collection[int] = ()) -> None:
    seen: list[int] = []
    live: set[int] = set()
    for name, block in state.blocks.items():
        bounds = block.row_start.tolist()
        rows = [block.cells[a:b] for a, b in itertools.pairwise(bounds)]
        fragments = sorted(f for slot in rows[0] for f in state.members(slot))
        assert fragments[0] == name
        seen += fragments
        groupings = set()
        reach: dict[int, float] = {}
        for row, weight in zip(rows, block.weights, strict=True):
            groups = [state.members(slot) for slot in row]
            # every fragment once, no cluster beyond the subproblem, canonical order
            assert sorted(f for group in groups for f in group) == fragments
            assert groups == sorted(groups, key=lambda group: group[0])
            groupings.add(frozenset(groups))
            for slot in row.tolist():
                reach[slot] = max(reach.get(slot, -np.inf), weight + state.log_size[slot])
        assert len(groupings) == len(rows), "two particles are the same"
        assert abs(math.fsum(np.exp(block.weights)) - 1) < 1e-9
        assert (np.diff(block.weights) <= 0).all()
        assert sorted(block.slots.tolist()) == sorted(set(block.cells.tolist()))
        for slot in block.slots.tolist():
            assert state.owner[slot] == name
            assert state.reach[slot] == reach[slot]
            assert state.first[slot] == state.members(slot)[0]
            assert state.mask[slot].bit_count() == len(state.members(slot))
        live.update(block.slots.tolist())
        start, count = int(state.row_start[name]), int(state.row_count[name])
        assert state.row_weight[start : start + count].tolist() == block.weights.tolist()
        for rank, row in enumerate(rows, start):
            cells = state.cells[state.row_begin[rank] : state.row_end[rank]]
            assert cells.tolist() == row.tolist()
        bits: dict[int, int] = {}
        for slot in block.slots.tolist():
            # overlap of masks is overlap of members
            for other in block.slots.tolist():
                overlap = set(state.members(slot)) & set(state.members(other))
                assert (state.mask[slot] & state.mask[other]).bit_count() == len(overlap)
            bits[slot] = state.mask[slot]
        assert max(mask.bit_length() for mask in bits.values()) <= block.bits
    there = [number for number in range(state.n_fragments) if number not in removed]
    assert sorted(seen) == there, "a fragment is lost or twice there"
    free = [slot for slot in range(state.n_slots) if slot not in live]
    assert (state.reach[free] == -np.inf).all()
    effective = sum(math.log10(len(block.weights)) for block in state.blocks.values())
    assert abs(effective - state.log10_effective_particles) < 1e-9


def core_of(session: Session) -> Core:
    """What a session consists of, in the reference engine."""
    assert isinstance(session, SmcSession)
    core = session._core
    if isinstance(core.run, CompiledRun):
        problem = replace(core.problem, constraints=session.constraints)
        rng = np.random.default_rng(0)
        core = SmcSession(problem, core.rules, rng, session.snapshot())._core
    assert isinstance(core.run, ReferenceRun)
    return core

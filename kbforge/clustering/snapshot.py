"""A session as plain data, and back: arrays, numbers, tuples; no objects of any algorithm.

Clusters keep their slots, and the order in which slots are taken next, because sums over particles
are taken in an order that slots decide. What a live table holds is not stored: it is filled again
along the clusters' lineage, which gives it the same bits. A black box's scores are stored, since a
neural one need not say the same to the last bit in another batch.
"""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from typing import Any

import numpy as np

from kbforge.clustering.online.lineage import Lineage
from kbforge.clustering.online.scoring import BlackBoxScorer, ConjugateScorer
from kbforge.clustering.rules import Rules
from kbforge.clustering.state import Block, State
from kbforge.contracts import Constraints, Decision, Problem, Snapshot
from kbforge.errors import UsageError, quoted

_OF_CLUSTERS = ("size", "log_size", "score", "term", "first")


def settings_of(problem: Problem, rules: Rules) -> dict[str, Any]:
    """What must be the same when a session goes on."""
    return {
        "alpha": problem.alpha,
        "max_evals": problem.max_evals,
        "surrogate": problem.surrogate is not None,
        "index": problem.index is not None,
        "particles": rules.particles,
        "resampler": type(rules.resampler).__name__,
        "splits": rules.splits,
        "weights": rules.weights,
        "sampled_merges": rules.sampled_merges,
        "floor": rules.floor,
    }


def snapshot_of(
    settings: Mapping[str, Any],
    constraints: Constraints,
    state: State,
    model: ConjugateScorer | BlackBoxScorer,
    rng: np.random.Generator,
) -> Snapshot:
    """What it takes to go on from here."""
    names = list(state.blocks)
    blocks = list(state.blocks.values())
    slots = _joined([block.slots for block in blocks])
    members = [state.members(slot) for slot in slots.tolist()]
    arrays = {
        "slots": slots,
        "members": np.array([i for held in members for i in held], dtype=np.int64),
        "lengths": np.array([len(held) for held in members], dtype=np.int64),
        "free": np.array(state.free, dtype=np.int64),
        "numbers": np.array(list(model.fragments), dtype=np.int64),
        "names": np.array(names, dtype=np.int64),
        "bits": np.array([block.bits for block in blocks], dtype=np.int64),
        "slots_of": np.array([len(block.slots) for block in blocks], dtype=np.int64),
        "rows_of": np.array([len(block.weights) for block in blocks], dtype=np.int64),
        "cells_of": _joined([np.diff(block.row_start) for block in blocks]),
        "cells": _joined([block.cells for block in blocks]),
        "weights": np.concatenate([np.zeros(0), *(block.weights for block in blocks)]),
    }
    arrays |= {name: getattr(state, name)[slots] for name in _OF_CLUSTERS}
    values: dict[str, Any] = {
        "n_slots": state.n_slots,
        "n_numbers": state.n_fragments,
        "log10_effective_particles": state.log10_effective_particles,
        "masks": tuple(state.mask[slot] for slot in slots.tolist()),
    }
    values["link"] = constraints.link
    values["decisions"] = tuple(
        (each.same, each.first, each.second, each.name) for each in constraints.decisions
    )
    if model.candidates is not None:
        values["families"], values["closed"] = model.candidates.contents()
    if isinstance(model, BlackBoxScorer):
        values["scores"], values["forgotten"] = model.scores_asked(), model.forgotten
    else:
        values["evaluations"] = model.evaluations
    rng_state = deepcopy(rng.bit_generator.state)
    return Snapshot(tuple(model.fragments.values()), dict(settings), values, arrays, rng_state)


def constraints_of(snapshot: Snapshot) -> Constraints:
    """The constraints that were in force."""
    decisions = tuple(Decision(*each) for each in snapshot.values["decisions"])
    return Constraints(decisions, snapshot.values["link"])


def restore(
    snapshot: Snapshot,
    settings: Mapping[str, Any],
    state: State,
    model: ConjugateScorer | BlackBoxScorer,
    rng: np.random.Generator,
) -> None:
    """Put a snapshot into an empty session.

    Raises:
        UsageError: it is of a session with other settings, or random numbers of another kind.

    """
    for name, value in settings.items():
        if snapshot.settings.get(name) != value:
            raise UsageError(
                f"the snapshot is of a session with {name} {quoted(snapshot.settings.get(name))}, "
                f"this one has {quoted(value)}"
            )
    kind = type(rng.bit_generator).__name__
    if snapshot.rng.get("bit_generator") != kind:
        raise UsageError(
            f"the snapshot is of random numbers by {quoted(snapshot.rng.get('bit_generator'))}, "
            f"these are by {kind}"
        )
    rng.bit_generator.state = deepcopy(dict(snapshot.rng))
    arrays = snapshot.arrays
    slots = arrays["slots"].tolist()
    ends = np.cumsum(arrays["lengths"])
    held = np.split(arrays["members"], ends[:-1])
    members = {slot: tuple(m.tolist()) for slot, m in zip(slots, held, strict=False)}
    lineage = Lineage(members, snapshot.values["n_slots"])
    _restore_state(state, snapshot, lineage)
    _restore_model(model, snapshot, lineage)


def _restore_state(state: State, snapshot: Snapshot, lineage: Lineage) -> None:
    arrays, values = snapshot.arrays, snapshot.values
    slots = arrays["slots"]
    state.count_fragments(values["n_numbers"])
    state.n_slots = values["n_slots"]
    state.grow_slots(2 * state.n_slots)
    for name in _OF_CLUSTERS:
        getattr(state, name)[slots] = arrays[name]
    for slot, mask in zip(slots.tolist(), values["masks"], strict=True):
        state.links[slot], state.mask[slot] = lineage.link(slot), mask
    state.free = arrays["free"].tolist()
    slot = row = cell = 0
    for name, bits, n_slots, n_rows in zip(
        *(arrays[key].tolist() for key in ("names", "bits", "slots_of", "rows_of")), strict=True
    ):
        lengths = arrays["cells_of"][row : row + n_rows]
        row_start = np.concatenate([[0], np.cumsum(lengths)])
        end = cell + int(row_start[-1])
        weights = arrays["weights"][row : row + n_rows].copy()
        held = arrays["slots"][slot : slot + n_slots].copy()
        state.install(name, Block(arrays["cells"][cell:end].copy(), row_start, weights, held, bits))
        slot, row, cell = slot + n_slots, row + n_rows, end
    state.log10_effective_particles = values["log10_effective_particles"]


def _restore_model(
    model: ConjugateScorer | BlackBoxScorer, snapshot: Snapshot, lineage: Lineage
) -> None:
    values = snapshot.values
    numbers = snapshot.arrays["numbers"].tolist()
    model.fragments = dict(zip(numbers, snapshot.fragments, strict=True))
    if model.table is not None:
        model.table.refill(model.fragments, lineage)
    if model.candidates is not None:
        slots, first = snapshot.arrays["slots"].tolist(), snapshot.arrays["first"].tolist()
        family_of = dict(zip(slots, first, strict=True))
        model.candidates.restore(values["families"], values["closed"], family_of)
    if isinstance(model, BlackBoxScorer):
        model.remember(values["scores"])
        model.forgotten = values["forgotten"]
    else:
        model.evaluations = values["evaluations"]


def _joined(parts: list[Any]) -> Any:
    return np.concatenate([np.zeros(0, dtype=np.int64), *parts])

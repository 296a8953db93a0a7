"""The totals of a session (all but its subproblems) as plain data, and back."""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from typing import Any

import numpy as np

from kbforge.clustering.core import Core
from kbforge.clustering.rules import Rules
from kbforge.contracts import Problem, Totals
from kbforge.errors import UsageError, quoted


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


def require_same(
    problem: Problem,
    rng: np.random.Generator,
    totals: Totals,
    settings: Mapping[str, Any],
    source: str,
) -> None:
    """Refuse to go on from where another session was left.

    Args:
        problem: of the session that is to go on.
        rng: likewise.
        totals: what it is to know.
        settings: its own.
        source: what the totals are from, as messages call it, with its verb.

    Raises:
        UsageError: they are of a session with other settings, other constraints than the problem
            demands, or random numbers of another kind.

    """
    for name, value in settings.items():
        if totals.settings.get(name) != value:
            raise UsageError(
                f"{source} of a session with {name} {quoted(totals.settings.get(name))}, "
                f"this one has {quoted(value)}"
            )
    kind = type(rng.bit_generator).__name__
    if totals.rng.get("bit_generator") != kind:
        raise UsageError(
            f"{source} of random numbers by {quoted(totals.rng.get('bit_generator'))}, "
            f"these are by {kind}"
        )
    if problem.constraints and problem.constraints != totals.constraints:
        raise UsageError(f"{source} of a session with other constraints")


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

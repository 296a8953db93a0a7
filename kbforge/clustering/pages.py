"""Subproblems as plain data, and the checks when a session continues from them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from kbforge.contracts import (
    Cluster,
    IntArray,
    ModelSpec,
    Particle,
    Subproblem,
    SubproblemData,
    Totals,
)
from kbforge.errors import UsageError, quoted

if TYPE_CHECKING:
    # it imports SciPy, which takes longer than showing an entity of a store
    from kbforge.clustering.rules import Rules


class RunTotals(NamedTuple):
    """A run's data outside its subproblems; the slot freed last is used first."""

    slots: int
    free: list[int]
    subproblems: int
    log10_effective: float
    evaluations: int


def subproblem_of(page: SubproblemData, called: Callable[[int], int] | None = None) -> Subproblem:
    """A page as plain tuples; `called` renumbers the fragments."""
    # most pages are short, and lists are cut sooner than arrays
    held = _parts(page.members, page.lengths)
    if called is None:
        clusters = [tuple(members) for members in held]
    else:
        clusters = [tuple(sorted(map(called, members))) for members in held]
    particles = tuple(
        Particle(weight, tuple(sorted([clusters[k] for k in row])))
        for weight, row in zip(page.weights.tolist(), _parts(page.cells, page.rows), strict=True)
    )
    fragments = sorted(fragment for cluster in particles[0].clusters for fragment in cluster)
    return Subproblem(tuple(fragments), particles)


def _parts(numbers: IntArray, lengths: IntArray) -> list[list[int]]:
    """Parts of these lengths, in order."""
    cut = numbers.tolist()
    ends = accumulate(lengths.tolist(), initial=0)
    return [cut[begin:end] for begin, end in pairwise(ends)]


def settings_of(spec: ModelSpec, rules: Rules) -> dict[str, Any]:
    """Settings that must match when a session continues."""
    return {
        "alpha": spec.alpha,
        "max_evals": spec.max_evals,
        "surrogate": spec.surrogate is not None,
        "index": spec.index is not None,
        "particles": rules.particles,
        "resampler": rules.resampler.__name__.capitalize(),  # as stores have it
        "splits": rules.splits,
        "weights": rules.weights,
        "sampled_merges": rules.sampled_merges,
        "floor": rules.floor,
    }


def require_same(
    spec: ModelSpec,
    rng: np.random.Generator,
    totals: Totals,
    settings: Mapping[str, Any],
    source: str,
) -> None:
    """Refuse to continue from a session that does not match.

    Raises:
        UsageError: the totals are of a session with other settings, other constraints than the spec
            demands, or another kind of random numbers; the message calls them `source`.
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
    wanted, held = spec.constraints, totals.constraints
    # decisions may have been made since; the rules of the whole stay
    if wanted and wanted not in (held, replace(held, decisions=())):
        raise UsageError(f"{source} of a session with other constraints")


def numbers_in(pages: Sequence[SubproblemData]) -> list[int]:
    """The numbers of their fragments, ascending."""
    return sorted({number for page in pages for number in page.members.tolist()})


def clusters_of(page: SubproblemData) -> dict[int, Cluster]:
    """By slot, the fragments of a page's clusters."""
    held = np.split(page.members, np.cumsum(page.lengths)[:-1])
    return {
        slot: tuple(members.tolist())
        for slot, members in zip(page.slots.tolist(), held, strict=True)
    }

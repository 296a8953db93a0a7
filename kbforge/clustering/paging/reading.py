"""Pages as the plain tuples of a posterior."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING

from kbforge.contracts import FloatArray, IntArray, Page, Particle, Posterior, Subproblem
from kbforge.numerics import on_grid

if TYPE_CHECKING:
    # it imports SciPy, which takes longer than showing an entity of a store
    from kbforge.clustering.prior import DirichletProcess


def subproblem_of(page: Page, called: Callable[[int], int] | None = None) -> Subproblem:
    """A page as plain tuples.

    Args:
        page: one subproblem.
        called: gives the fragments other numbers, in the same order or another; None leaves them.

    """
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
    """Parts of these lengths, one after another."""
    cut = numbers.tolist()
    ends = accumulate(lengths.tolist(), initial=0)
    return [cut[begin:end] for begin, end in pairwise(ends)]


def posterior_of(
    pages: Iterable[Page],
    prior: DirichletProcess,
    n_fragments: int,
    evaluations: int,
    called: Callable[[int], int] | None = None,
) -> Posterior:
    """What is known of the grouping.

    Args:
        pages: of all subproblems, by ascending name.
        prior: over partitions.
        n_fragments: how many there are.
        evaluations: as `Posterior` counts them.
        called: see `subproblem_of`.

    """
    subproblems, terms = [], list[float]()
    for page in pages:
        subproblems.append(subproblem_of(page, called))
        terms += _heaviest_terms(page, prior).tolist()
    return Posterior(tuple(subproblems), math.fsum(terms), n_fragments, evaluations)


def _heaviest_terms(page: Page, prior: DirichletProcess) -> FloatArray:
    """log alpha + lgamma(|C|) + L(C) of the clusters of the heaviest particle, nats."""
    heaviest = page.cells[: page.rows[0]]
    return on_grid(prior.log_cluster(page.lengths[heaviest]) + page.scores[heaviest])

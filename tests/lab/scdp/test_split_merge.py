"""Splits and merges of whole clusters visit every partition as often as its probability says.

The oracle enumerates the partitions of a few references and integrates values out by itself.
"""

from collections.abc import Iterator

import numpy as np
import pytest
from scipy.special import gammaln
from scipy.stats import multivariate_normal, multivariate_t

from kbforge_lab.scdp.gaussian import MeansOpening, Near, TypePrior, TypesOpening
from kbforge_lab.scdp.seating import Seats, split_merge

ALPHA, SIGMA, ROWS, FEATURES = 0.8, 1.5, 5, 2
RNG = np.random.default_rng(4)
VALUES = RNG.normal(scale=1.5, size=(ROWS, FEATURES))
TYPES = RNG.gamma(3.0, size=(ROWS, FEATURES))
PRIOR = TypePrior(np.array([1.5, 3.0]), np.array([1.0, 0.5]))


def partitions(rows: int) -> Iterator[tuple[int, ...]]:
    if not rows:
        yield ()
        return
    for shorter in partitions(rows - 1):
        for seat in range(max(shorter, default=-1) + 2):
            yield (*shorter, seat)


def of_means(rows: np.ndarray, power: float) -> float:
    """log of the integral over the mean of the product of the rows' densities to a power."""
    total = 0.0
    for r, t in zip(VALUES[rows].T, TYPES[rows].T, strict=True):
        covariance = SIGMA + np.diag(1 / (power * t))
        total += float(multivariate_normal.logpdf(r, np.zeros(len(r)), covariance))
        total += float(((power - 1) * np.log(t / (2 * np.pi)) - np.log(power)).sum() / 2)
    return total


def of_types(rows: np.ndarray, power: float) -> float:
    """The same over the type; of power 1, where it is Student's."""
    assert power == 1
    return sum(
        float(multivariate_t.logpdf(r, np.zeros(len(r)), np.eye(len(r)) * b / a, 2 * a))
        for r, a, b in zip(VALUES[rows].T, PRIOR.shape, PRIOR.rate, strict=True)
    )


def opening(kind: str, power: float) -> MeansOpening | TypesOpening:
    if kind == "means":
        return MeansOpening(VALUES, TYPES, TYPES, SIGMA, None, power)
    return TypesOpening(np.square(VALUES), np.zeros((1, FEATURES)), PRIOR, None, power)


CASES = [("means", 1.0), ("means", 0.3), ("types", 1.0)]


@pytest.mark.parametrize(("kind", "power"), CASES)
def test_the_evidence_of_a_set_is_the_integral(kind, power):
    oracle = of_means if kind == "means" else of_types
    sets = np.array([[1, 0, 0, 0, 0], [1, 1, 0, 1, 0], [1, 1, 1, 1, 1]], dtype=np.float64)
    expected = [oracle(np.flatnonzero(each), power) for each in sets]
    np.testing.assert_allclose(opening(kind, power).evidence(sets), expected)
    alone = opening(kind, power).evidence(np.eye(ROWS))
    np.testing.assert_allclose(alone, opening(kind, power).log_marginal)


@pytest.mark.parametrize(("kind", "power"), CASES)
def test_partitions_are_visited_as_often_as_they_are_probable(kind, power):
    oracle = of_means if kind == "means" else of_types
    exact = {}
    for each in partitions(ROWS):
        clusters = [np.flatnonzero(np.array(each) == k) for k in range(max(each) + 1)]
        prior = sum(np.log(ALPHA) + gammaln(len(rows)) for rows in clusters)
        exact[each] = np.exp(prior + sum(oracle(rows, power) for rows in clusters))
    total = sum(exact.values())
    family, rng, batches = opening(kind, power), np.random.default_rng(6), 20
    none = np.zeros(ROWS, dtype=np.int64)
    seats = Seats(np.arange(ROWS), none, none == 0, VALUES)
    found: dict[tuple[int, ...], np.ndarray] = {each: np.zeros(batches) for each in exact}
    for i in range(batches * 250):
        seats = split_merge(seats, family, ALPHA, 2, rng)
        assert len(seats.values) == len(np.unique(seats.of)) == seats.of.max() + 1
        _, first = np.unique(seats.of, return_index=True)
        order = np.argsort(np.argsort(first))
        found[tuple(order[seats.of].tolist())][i // 250] += 1 / 250
    for each, weight in exact.items():
        error = found[each].std(ddof=1) / np.sqrt(batches) + 2e-4
        assert abs(found[each].mean() - weight / total) < 4.5 * error
    largest = max(exact, key=exact.__getitem__)
    assert abs(found[largest].mean() - exact[largest] / total) < 0.04


def test_clusters_with_references_that_do_not_move_are_left_alone():
    family = MeansOpening(VALUES, TYPES, TYPES, SIGMA, Near(0.1), 1.0)
    fixed = np.array([2, 0, 0])
    seats = Seats(np.array([0, 0, 1, 2, 2]), fixed, fixed < 9, VALUES[:3])
    rng = np.random.default_rng(1)
    shapes = set()
    for _ in range(200):
        seats = split_merge(seats, family, ALPHA, 1, rng)
        assert seats.fixed[0] == 2
        assert seats.of[:2].tolist() == [0, 0]
        np.testing.assert_array_equal(seats.values[0], VALUES[0])
        shapes.add(len(seats.values))
    assert len(shapes) > 1

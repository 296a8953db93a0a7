"""The learned metric is the optimum of its program, which brute force finds, too."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize, minimize_scalar

from kbforge_lab.suites.groupers import differences_apart, learned, scatter_within

SEEDS = st.integers(0, 10**6)


def spec(seed: int, features: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    labels = np.array([0, 0, 0, 1, 1, 2, 2, 2])
    rows = rng.normal(size=(3, features))[labels] + rng.normal(size=(8, features)) * 0.7
    return rows, labels


def pairs(rows: np.ndarray, labels: np.ndarray, alike: bool) -> np.ndarray:
    found = [
        rows[i] - rows[j]
        for i in range(len(rows))
        for j in range(i)
        if (labels[i] == labels[j]) is np.bool_(alike)
    ]
    return np.array(found)


def value(a: np.ndarray, same: np.ndarray, apart: np.ndarray) -> float:
    """The sum over D where the sum over S is scaled to 1."""
    scale = np.einsum("if,fg,ig->", same, a, same)
    return float(np.sqrt(np.einsum("if,fg,ig->i", apart, a, apart) / scale).sum())


@given(SEEDS, st.integers(1, 4))
def test_pairs_and_their_scatter_are_those_of_the_labels(seed, features):
    rows, labels = spec(seed, features)
    same, apart = pairs(rows, labels, True), pairs(rows, labels, False)
    np.testing.assert_allclose(scatter_within(rows, labels), same.T @ same, atol=1e-9)
    found = differences_apart(rows, labels, 1000, np.random.default_rng(0))
    assert len(found) == len(apart)
    np.testing.assert_allclose(found.T @ found, apart.T @ apart)
    few = differences_apart(rows, labels, 5, np.random.default_rng(0))
    assert len(few) == 5


@settings(max_examples=30)
@given(SEEDS)
def test_the_diagonal_metric_is_the_best_of_a_grid(seed):
    rows, labels = spec(seed, 2)
    same, apart = pairs(rows, labels, True), pairs(rows, labels, False)
    root = learned(scatter_within(rows, labels), apart, False, 20_000, 1e-7)

    def worse(t: float) -> float:
        return -value(np.diag(np.square([np.cos(t), np.sin(t)])), same, apart)

    grid = np.linspace(0, np.pi / 2, 201)
    at = int(np.argmin([worse(t) for t in grid]))
    around = grid[max(at - 1, 0)], grid[min(at + 1, 200)]
    best = -min(minimize_scalar(worse, bounds=around, method="bounded").fun, worse(grid[at]))
    assert value(root @ root.T, same, apart) == pytest.approx(best, rel=1e-5)
    assert (root == np.diag(root.diagonal())).all()


@settings(max_examples=10)
@given(SEEDS)
def test_the_full_metric_is_the_best_of_a_grid(seed):
    rows, labels = spec(seed, 2)
    same, apart = pairs(rows, labels, True), pairs(rows, labels, False)
    root = learned(scatter_within(rows, labels), apart, True, 20_000, 1e-7)

    def worse(at: np.ndarray) -> float:
        """Of the metric with axes turned by an angle, as long as another one says."""
        cos, sin = np.cos(at[0]), np.sin(at[0])
        axes = np.array([[cos, -sin], [sin, cos]])
        lengths = np.diag(np.square([np.cos(at[1]), np.sin(at[1])]))
        return -value(axes @ lengths @ axes.T, same, apart)

    grid = [np.array([a, t]) for a in np.linspace(0, 3.1, 63) for t in np.linspace(0, 1.5, 31)]
    best = -minimize(worse, min(grid, key=worse), method="Nelder-Mead", tol=1e-10).fun
    assert value(root @ root.T, same, apart) == pytest.approx(best, rel=1e-4)


@pytest.mark.parametrize("seed", range(5))
def test_the_published_form_has_the_same_diagonal_whatever_its_weight(seed):
    """Sum over S less C log of the sum over D: only the length of its solution depends on C."""
    rows, labels = spec(seed, 3)
    same, apart = pairs(rows, labels, True), pairs(rows, labels, False)
    root = learned(scatter_within(rows, labels), apart, False, 50_000, 1e-9)
    ours = np.square(root.diagonal())
    for weight in (1.0, 0.1):

        def published(a: np.ndarray, weight: float = weight) -> float:
            lengths = np.sqrt(np.square(apart) @ a)
            return float((np.square(same) @ a).sum() - weight * np.log(lengths.sum()))

        start, bounds = np.full(3, 1e-2), [(1e-9, None)] * 3
        theirs = minimize(published, start, bounds=bounds, tol=1e-14).x
        np.testing.assert_allclose(ours / ours.sum(), theirs / theirs.sum(), atol=5e-3)


def test_a_feature_that_only_scatters_is_ignored():
    rng = np.random.default_rng(1)
    labels = np.repeat(np.arange(4), 30)
    rows = np.column_stack(
        [np.arange(4.0)[labels] + 0.1 * rng.normal(size=120), rng.normal(size=120)]
    )
    apart = differences_apart(rows, labels, 2000, rng)
    for full in (False, True):
        root = learned(scatter_within(rows, labels), apart, full, 5000, 1e-6)
        metric = root @ root.T
        assert metric[1, 1] < 0.05 * metric[0, 0]


@pytest.mark.parametrize("full", [False, True])
def test_no_round_leaves_the_metric_as_it_was_and_none_makes_it_worse(full):
    rows, labels = spec(3, 3)
    same, apart = pairs(rows, labels, True), pairs(rows, labels, False)
    within = scatter_within(rows, labels)
    roots = [learned(within, apart, full, rounds) for rounds in (0, 1, 2, 4, 8, 100)]
    metrics = [root @ root.T for root in roots]
    np.testing.assert_allclose(metrics[0] / metrics[0][0, 0], np.eye(3), atol=1e-4)
    values = [value(metric, same, apart) for metric in metrics]
    assert all(late >= early for early, late in itertools.pairwise(values))
    assert values[-1] > values[0]

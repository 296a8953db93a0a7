"""The normal-inverse-gamma likelihood against SciPy's Student t and against itself."""

import numpy as np
import pytest
from scipy import stats

from kbforge.contracts import Fragment
from kbforge.errors import LikelihoodError, UsageError
from kbforge_plugins.likelihoods.gaussian import Gaussian


def points(array: np.ndarray) -> list[Fragment]:
    return [Fragment(f"p{i}", {}, tuple(map(float, row))) for i, row in enumerate(array)]


def sequential(model: Gaussian, fragments: list[Fragment]) -> float:
    table = model.live_clusters()
    total, parent = 0.0, -1
    for slot, fragment in enumerate(fragments):
        x = table.encode(fragment)
        new = parent < 0
        total += table.log_predictive_new(x) if new else table.log_predictive(x, slot)[parent]
        table.extend(x, np.array([parent]), np.array([slot]))
        parent = slot
    return total


def student_t(model: Gaussian, seen: np.ndarray, x: np.ndarray) -> float:
    """The textbook predictive, computed from raw data with SciPy."""
    n = len(seen)
    mean = seen.mean(axis=0) if n else np.zeros(len(x))
    squares = ((seen - mean) ** 2).sum(axis=0) if n else np.zeros(len(x))
    prior = model
    a_n, lam_n = prior.a + n / 2, prior.lam + n
    mu_n = (prior.lam * prior.mu + n * mean) / lam_n
    b_n = prior.b + 0.5 * (squares + prior.lam * n / lam_n * (mean - prior.mu) ** 2)
    scale = np.sqrt(b_n * (lam_n + 1) / (a_n * lam_n))
    return float(stats.t.logpdf(x, 2 * a_n, mu_n, scale).sum())


@pytest.mark.parametrize("dimensions", [1, 2, 5])
@pytest.mark.parametrize("n", [0, 1, 2, 30])
def test_predictive_is_students_t(dimensions, n):
    rng = np.random.default_rng(n * 10 + dimensions)
    model = Gaussian(a=1.3, b=0.7, mu=0.4, lam=0.05)
    data = rng.normal(size=(n + 1, dimensions))
    *seen, x = points(data)
    table = model.live_clusters()
    parent = -1
    for slot, fragment in enumerate(seen):
        table.extend(table.encode(fragment), np.array([parent]), np.array([slot]))
        parent = slot
    encoded = table.encode(x)
    got = table.log_predictive(encoded, n)[n - 1] if n else table.log_predictive_new(encoded)
    assert got == pytest.approx(student_t(model, data[:n], data[n]), rel=1e-12)


@pytest.mark.parametrize("offset", [0.0, 1e6])
def test_predictives_sum_to_the_marginal_far_from_zero(offset):
    rng = np.random.default_rng(5)
    near = rng.normal(size=(200, 2))
    model, fragments = Gaussian(lam=1e-9), points(near + offset)
    closed = model.log_marginal([fragments])[0]
    assert sequential(model, fragments) == pytest.approx(closed, rel=1e-9)
    # with a prior mean that moves along, the offset must not matter
    moved = Gaussian(mu=offset)
    home = Gaussian(mu=0.0).log_marginal([points(near)])[0]
    assert moved.log_marginal([fragments])[0] == pytest.approx(home, rel=1e-7)
    assert sequential(moved, fragments) == pytest.approx(home, rel=1e-7)


def test_many_dimensions_and_one_slot_give_the_same_bits_as_many_slots():
    rng = np.random.default_rng(1)
    fragments = points(rng.normal(size=(40, 64)))
    table = Gaussian().live_clusters()
    for slot, fragment in enumerate(fragments):
        table.extend(table.encode(fragment), np.array([-1]), np.array([slot]))
    x = table.encode(fragments[-1])
    many = table.log_predictive(x, 40).copy()
    for slots in (1, 2, 3, 17):
        assert np.array_equal(table.log_predictive(x, slots), many[:slots])


FIRST, THREE = Fragment("first", {}, (0.0, 0.0)), Fragment("n2", {}, (1.0, 2.0, 3.0))


@pytest.mark.parametrize(
    ("model", "fragments", "says"),
    [
        (Gaussian(), [FIRST, Fragment("n1", {"name": ("x",)})], 'fragment "n1" has no vector'),
        (Gaussian(), [FIRST, THREE], 'fragment "n2" has a vector of 3 numbers, expected 2'),
        (Gaussian(), [FIRST, Fragment("n3", {}, (1e200, 0.0))], '"n3" has a number beyond 1e'),
        (Gaussian(b=(1.0, 2.0)), [THREE], r"vectors have 3 numbers, and .* for 2"),
    ],
)
def test_vectors_that_cannot_be_read(model, fragments, says):
    with pytest.raises(LikelihoodError, match=says):
        list(map(model.live_clusters().encode, fragments))
    with pytest.raises(LikelihoodError, match=says):
        model.log_marginal([[fragment] for fragment in fragments])


def independent_dimensions():
    """A model of two dimensions with points, and the models and points of each alone."""
    rng = np.random.default_rng(6)
    prior = {"a": (3.0, 0.7), "b": (0.2, 4.0), "mu": (-1.0, 2.0), "lam": (0.5, 0.01)}
    data = rng.normal(size=(12, 2))
    parts = [Gaussian(**{name: values[d] for name, values in prior.items()}) for d in (0, 1)]
    alone = [points(data[:, d : d + 1]) for d in (0, 1)]
    return (Gaussian(**prior), points(data)), (parts, alone)


def test_parameters_of_their_own_make_dimensions_independent_models():
    """L is the sum of the dimensions' own, in the closed form and in every use of the table."""
    (both, fragments), (parts, alone) = independent_dimensions()
    for n in (1, 2, 12):
        apart = sum(m.log_marginal([f[:n]])[0] for m, f in zip(parts, alone, strict=True))
        assert both.log_marginal([fragments[:n]])[0] == pytest.approx(apart, rel=1e-12)
        assert sequential(both, fragments[:n]) == pytest.approx(apart, rel=1e-12)


def test_parameters_for_different_dimensions_are_refused():
    with pytest.raises(
        UsageError, match="expected the same number of values for each, got 2 of a, 3 of mu"
    ):
        Gaussian(a=(1.0, 2.0), mu=(0.0, 0.0, 0.0))


@pytest.mark.parametrize(
    "options",
    [{"a": (1.0, 0.0)}, {"a": 0.0}, {"b": -1.0}, {"lam": float("nan")}, {"mu": float("inf")}],
)
def test_parameters_out_of_range(options):
    with pytest.raises(UsageError, match=f"gaussian: {next(iter(options))} must be"):
        Gaussian(**options)

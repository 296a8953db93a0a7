"""Agglomerative clustering against a slow one that scores all pairs of clusters every time."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from kbforge.contracts import ConjugateLikelihood, Fragment, Likelihood, ModelSpec
from kbforge.errors import UsageError
from kbforge.testing import BlackBox
from kbforge_lab.batch.agglomerate import PairMatrix, RankedPairs, agglomerate
from kbforge_lab.clusterers.offline import Agglomerative
from kbforge_plugins.likelihoods.gaussian import Gaussian
from tests.clustering.exact import Group, Grouping
from tests.clustering.toys import BlackBox as Counted
from tests.clustering.toys import fragments_of, normal
from tests.lab.families import FAMILIES
from tests.profile import examples

TIE = 1e-9


class Slow:
    """Every grouping that the algorithm may end with; more than one if merges are equally good."""

    def __init__(
        self,
        fragments: list[Fragment],
        spec: ModelSpec,
        surrogate: Likelihood | None = None,
        reach: int | None = None,
    ) -> None:
        self._fragments, self._log_alpha = fragments, math.log(spec.alpha)
        self._model = spec.likelihood
        self._surrogate, self._reach = surrogate, reach

    def endings(self) -> set[Grouping]:
        return self._from(frozenset((i,) for i in range(len(self._fragments))))

    def _from(self, grouping: Grouping) -> set[Grouping]:
        gains = {pair: self._gain(self._model, *pair) for pair in self._pairs(grouping)}
        top = max(gains.values(), default=-math.inf)
        if top <= TIE:
            return {grouping} if top < -TIE else {grouping, *self._merged(grouping, gains, top)}
        return self._merged(grouping, gains, top)

    def _merged(
        self, grouping: Grouping, gains: dict[tuple[Group, Group], float], top: float
    ) -> set[Grouping]:
        best = [pair for pair, gain in gains.items() if gain >= top - TIE]
        return {
            ending
            for a, b in best
            for ending in self._from((grouping - {a, b}) | {tuple(sorted(a + b))})
        }

    def _pairs(self, grouping: Grouping) -> list[tuple[Group, Group]]:
        pairs = list(itertools.combinations(sorted(grouping), 2))
        if self._surrogate is None:
            return pairs
        rank = {pair: self._gain(self._surrogate, *pair) for pair in pairs}
        return sorted(pairs, key=lambda pair: -rank[pair])[: self._reach]

    def _gain(self, likelihood: Likelihood, a: Group, b: Group) -> float:
        sets = [[self._fragments[i] for i in group] for group in (a + b, a, b)]
        both, *apart = (
            self._log_alpha + math.lgamma(len(s)) + value
            for s, value in zip(sets, likelihood.log_marginal(sets), strict=True)
        )
        return float(both - sum(apart))


def found(fragments: list[Fragment], spec: ModelSpec, batch: int | None = None) -> Grouping:
    posterior = Agglomerative(batch=batch).cluster(fragments, spec, np.random.default_rng(2))
    assert all(len(subproblem.particles) == 1 for subproblem in posterior.subproblems)
    return frozenset(posterior.clusters())


@pytest.mark.parametrize("family", FAMILIES)
@examples(8)
@given(n=st.integers(1, 7), seed=st.integers(0, 10_000), alpha=st.sampled_from([0.05, 1.0]))
def test_it_ends_where_the_slow_one_does(family, n, seed, alpha):
    """By a live table, by sets, and by batches that hold every pair."""
    make_fragments, make_likelihood = FAMILIES[family]
    fragments = make_fragments(np.random.default_rng(seed), n)
    likelihood = make_likelihood(fragments)
    spec = ModelSpec(likelihood, alpha)
    endings = Slow(fragments, spec).endings()
    assert found(fragments, spec) in endings
    assert found(fragments, ModelSpec(BlackBox(likelihood), alpha)) in endings
    assert found(fragments, spec, batch=30) in endings


@pytest.mark.parametrize("reach", [1, 3, 100])
@pytest.mark.parametrize("seed", range(5))
def test_a_surrogate_says_what_is_looked_at(seed, reach):
    fragments = FAMILIES["gaussian"][0](np.random.default_rng(seed), 9)
    model, surrogate = Gaussian(), Gaussian(a=3.0, b=2.0, lam=0.01)
    spec = ModelSpec(BlackBox(model), 0.05, surrogate, reach)
    endings = Slow(fragments, spec, surrogate, reach).endings()
    assert found(fragments, spec) in endings


def test_a_surrogate_alone():
    fragments = FAMILIES["gaussian"][0](np.random.default_rng(1), 12)
    never: Likelihood = BlackBox(Gaussian(mu=50.0))
    surrogate: ConjugateLikelihood = Gaussian()
    by_surrogate = found(fragments, ModelSpec(never, 0.05, surrogate, 0))
    assert by_surrogate == found(fragments, ModelSpec(surrogate, 0.05))


def test_only_pairs_that_the_last_merge_touched_are_scored_in_batches():
    n, likelihood = 20, Counted(normal())
    fragments = fragments_of(np.random.default_rng(4).normal(scale=5, size=(n, 1)).tolist())
    posterior = Agglomerative().cluster(
        fragments, ModelSpec(likelihood, 0.05), np.random.default_rng(0)
    )
    merges = n - len(posterior.clusters())
    assert merges > 5
    pairs = n * (n - 1) // 2
    touched = sum(n - k - 2 for k in range(merges))
    assert sum(likelihood.asked) == posterior.model_evaluations == n + pairs + touched
    assert len(likelihood.asked) <= 1 + n + merges


def test_sampled_batches_get_close_and_are_seeded():
    rng = np.random.default_rng(6)
    centres = np.repeat(rng.normal(scale=30, size=(6, 2)), 6, axis=0)
    points = centres + rng.normal(size=centres.shape)
    fragments = [Fragment(f"f{i}", {}, tuple(p)) for i, p in enumerate(points.tolist())]
    spec = ModelSpec(Gaussian(), 1.0)
    full = Agglomerative().cluster(fragments, spec, np.random.default_rng(0))
    runs = [
        Agglomerative(batch=20).cluster(fragments, spec, np.random.default_rng(seed))
        for seed in (0, 0, 1, 2)
    ]
    assert runs[0] == runs[1]
    assert len({run.model_evaluations for run in runs}) > 1, "the seed does nothing"
    assert len(full.clusters()) == 6
    assert all(run.subproblems == full.subproblems for run in runs)
    assert all(run.model_evaluations < 36 + 36 * 35 / 2 for run in runs)


def life_of(matrix: PairMatrix, rng: np.random.Generator, n: int) -> Iterator[NDArray[np.float64]]:
    """Bring a matrix to life; its gains, [n, n], before each merge of the pair that gains most."""
    plain, alive = np.full((n, n), -np.inf), np.ones(n, dtype=bool)

    def gains(a: int) -> NDArray[np.float64]:
        row = rng.integers(0, 4, size=n).astype(float)  # many ties
        row[~alive] = -np.inf
        row[a] = -np.inf
        return row

    for a in range(n):
        row = gains(a)
        matrix.fill(a, row)
        plain[a] = plain[:, a] = row
    matrix.settle()
    while alive.sum() > 1:
        yield plain
        a, b, _ = matrix.best()
        alive[b] = False
        plain[b] = plain[:, b] = -np.inf
        row = gains(a)
        plain[a] = plain[:, a] = row
        matrix.update(a, b, row)


@given(seed=st.integers(0, 10_000), n=st.integers(2, 14))
@examples(40)
def test_the_matrix_knows_its_best_after_any_merges(seed, n):
    matrix = PairMatrix(n)
    for plain in life_of(matrix, np.random.default_rng(seed), n):
        upper = np.where(np.triu(np.ones((n, n), dtype=bool)), plain, -np.inf)
        a, b = divmod(int(upper.argmax()), n)
        assert matrix.best() == (a, b, upper[a, b])


@pytest.mark.parametrize("into", [0, 1, 7])
def test_a_merge_looks_again_only_at_rows_that_had_their_best_there(into, monkeypatch):
    """Among equals the earliest is the best, so that no row has its best in one of the late."""
    looked_at: list[int] = []
    refresh = PairMatrix._refresh

    def counting(self: PairMatrix, stale: np.ndarray) -> None:
        looked_at.append(int(stale.sum()))
        refresh(self, stale)

    monkeypatch.setattr(PairMatrix, "_refresh", counting)
    n = 40
    matrix = PairMatrix(n)
    gains = np.full((n, n), 1.0)
    gains[into] = gains[:, into] = -1.0
    np.fill_diagonal(gains, -np.inf)
    for a in range(n):
        matrix.fill(a, gains[a])
    matrix.settle()
    looked_at.clear()
    for b in range(n - 1, 19, -1):
        gains[:, b] = -np.inf
        matrix.update(into, b, gains[into])
    assert looked_at == [2] * 20


@given(seed=st.integers(0, 10_000), n=st.integers(2, 14), count=st.integers(1, 40))
@examples(40)
def test_the_heaviest_pairs_after_any_merges(seed, n, count):
    rng = np.random.default_rng(seed)
    matrix = RankedPairs(n)
    for plain in life_of(matrix, rng, n):
        upper = np.where(np.triu(np.ones((n, n), dtype=bool)), plain, -np.inf)
        firsts, seconds = matrix.heaviest(count)
        expected = np.sort(upper[upper > -np.inf])[::-1][:count]
        assert upper[firsts, seconds].tolist() == expected.tolist()
        assert len(set(zip(firsts.tolist(), seconds.tolist(), strict=True))) == len(firsts)


def test_what_was_in_memory_before_is_never_a_gain(monkeypatch):
    """Also not of slots that a start from larger clusters leaves without one."""
    make = PairMatrix.__init__

    def littered(self: PairMatrix, n: int) -> None:
        make(self, n)
        self._gain[:] = 1e9

    fragments = FAMILIES["gaussian"][0](np.random.default_rng(4), 12)
    start = [(0, 5, 11), (1, 2), *((i,) for i in (3, 4, 6, 7, 8, 9, 10))]
    spec, ends = ModelSpec(Gaussian(), 0.05), []
    for init in (make, littered):
        monkeypatch.setattr(PairMatrix, "__init__", init)
        rng = np.random.default_rng(0)
        ends.append(agglomerate(fragments, spec, start, rng))
    assert ends[0] == ends[1]
    assert all(set(g) <= set(c) for g in start[:2] for c in ends[0].clusters() if g[0] in c)


def test_too_many_fragments_for_all_pairs():
    fragments = FAMILIES["gaussian"][0](np.random.default_rng(1), 20_001)
    with pytest.raises(UsageError, match="batch"):
        found(fragments, ModelSpec(Gaussian(), 1.0))

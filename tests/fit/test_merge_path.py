"""A merge path holds what agglomerative clustering finds at each alpha."""

from __future__ import annotations

import math

import numpy as np
import pytest

from kbforge.contracts import ConjugateLikelihood, Fragment, Problem
from kbforge.errors import LikelihoodError
from kbforge.fit.hypotheses import MergePath, candidates, merge_path
from kbforge.models.resolve import make_likelihood
from kbforge_plugins.clusterers.offline import Agglomerative
from kbforge_plugins.clusterers.sequential import SplitSmc
from tests.fit.people import made


def fitted(name: str, fragments: list[Fragment]) -> ConjugateLikelihood:
    likelihood = make_likelihood(name)
    assert isinstance(likelihood, ConjugateLikelihood)
    likelihood.fit(fragments)
    return likelihood


@pytest.mark.parametrize("name", ["bigram", "pairs"])
@pytest.mark.parametrize("log_alpha", [0.5, 2.0, 6.0])
def test_a_path_is_agglomerative_clustering_at_every_alpha(name: str, log_alpha: float) -> None:
    fragments = made("people")
    likelihood = fitted(name, fragments)
    path = merge_path(likelihood, fragments, None, -5.0)
    problem = Problem(likelihood, math.exp(log_alpha))
    found = Agglomerative().cluster(fragments, problem, np.random.default_rng(0))
    (labels,) = path.labels([log_alpha])
    clusters = sorted(tuple(np.flatnonzero(labels == k)) for k in set(labels.tolist()))
    assert clusters == sorted(map(tuple, found.clusters()))


@pytest.mark.parametrize("name", ["bigram", "attributes", "pairs"])
def test_split_smc_finds_nearly_the_same(name: str) -> None:
    fragments = made("people")
    likelihood = fitted(name, fragments)
    log_alpha = 1.0 if name == "pairs" else 5.0
    (labels,) = merge_path(likelihood, fragments, likelihood.index, 0.0).labels([log_alpha])
    problem = Problem(likelihood, math.exp(log_alpha), index=likelihood.index)
    posterior = SplitSmc().cluster(fragments, problem, np.random.default_rng(0))
    same = labels[:, None] == labels
    others = np.array(posterior.labels())
    assert (same == (others[:, None] == others)).mean() > 0.98


def test_groupings_grow_coarser_as_alpha_falls() -> None:
    fragments = made("organisations")
    path = merge_path(fitted("bigram", fragments), fragments, None, 0.0)
    groupings = path.labels([0.0, 3.0, 9.0, 40.0])
    counts = [len(set(labels.tolist())) for labels in groupings]
    assert counts == sorted(counts)
    assert counts[-1] > counts[0]
    for fine, coarse in zip(groupings[1:], groupings, strict=False):
        assert len(set(zip(fine.tolist(), coarse.tolist(), strict=True))) == len(set(fine.tolist()))


def test_a_gain_that_grows_late_does_not_go_back_in_alpha() -> None:
    path = MergePath(4, np.array([[0, 1], [0, 2], [0, 3]]), np.array([5.0, 1.0, 4.0]))
    assert [labels.tolist() for labels in path.labels([4.5, 2.0, 0.5])] == [
        [0, 0, 2, 3],
        [0, 0, 2, 3],
        [0, 0, 0, 0],
    ]


def test_many_equal_fragments_are_compared_all_the_same() -> None:
    """A key that very many share leads nowhere, unless there is no other."""
    equal = [Fragment(f"e{i}", {"name": ("Ann Lee",)}) for i in range(100)]
    likelihood = fitted("attributes", [*equal, Fragment("x", {"name": ("Bo Ek",)})])
    assert likelihood.index is not None
    near = candidates(equal, likelihood.index)
    assert near.any(axis=1).all()
    assert near.sum() < 100 * 99
    (labels,) = merge_path(likelihood, equal, likelihood.index, -3.0).labels([-3.0])
    assert len(set(labels.tolist())) == 1


def test_a_likelihood_that_fails_is_said_to() -> None:
    fragments = made("people")[:5]
    likelihood = fitted("bigram", fragments)
    table = type(likelihood.live_clusters())

    class Failing(table):  # type: ignore[misc, valid-type]
        def log_merge_ratio_of(self, slot: int, slots: np.ndarray) -> np.ndarray:
            return np.full(len(slots), np.nan)

    broken = Failing(likelihood._rows)  # type: ignore[attr-defined]
    likelihood.live_clusters = lambda: broken  # type: ignore[method-assign]
    with pytest.raises(LikelihoodError, match="NaN"):
        merge_path(likelihood, fragments, None, 0.0)

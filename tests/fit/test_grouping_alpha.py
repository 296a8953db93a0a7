"""Alpha from a grouping: as many entities as it has, without labels and without scoring much."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from scipy.special import expit

from kbforge.contracts import Fragment, Likelihood
from kbforge.errors import LikelihoodError, UsageError
from kbforge.fit.alpha import DECISIONS, MEMBERS, OTHERS, alpha_by_grouping


class Agreement(Likelihood):
    """A fragment costs `cost` nats, but for the second and later ones of a name `repeat`."""

    def __init__(self, cost: float = 30.0, repeat: float = 2.0) -> None:
        self.cost, self.repeat = cost, repeat
        self.asked: list[int] = []

    def log_marginal(self, clusters: Sequence[Sequence[Fragment]]) -> np.ndarray:
        self.asked += map(len, clusters)
        return np.array([self._marginal(cluster) for cluster in clusters])

    def _marginal(self, cluster: Sequence[Fragment]) -> float:
        names = {fragment.names[0] for fragment in cluster}
        return -self.cost * len(names) - self.repeat * (len(cluster) - len(names))


def file_of(counts: Sequence[int]) -> tuple[list[Fragment], list[list[int]]]:
    """Fragments of entities with a name each, and the grouping by names."""
    names = [f"n{number}" for number, count in enumerate(counts) for _ in range(count)]
    fragments = [Fragment(str(i), {"name": (name,)}) for i, name in enumerate(names)]
    ends = np.cumsum(counts).tolist()
    return fragments, [list(range(end - n, end)) for end, n in zip(ends, counts, strict=True)]


def test_the_log_odds_balance_by_hand() -> None:
    """Two fragments of one name and a stranger: every decision can be written down."""
    fragments = [Fragment(str(i), {"name": ("same",)}) for i in range(2)]
    # the one decision joins, and half a decision is taken to open a cluster
    alpha = alpha_by_grouping(Agreement(), fragments, [[0, 1]])
    odds_new = -30.0 - (-2.0)
    assert expit(math.log(alpha) + odds_new) == pytest.approx(0.5)
    apart = alpha_by_grouping(Agreement(), fragments, [[0], [1]])
    assert apart == pytest.approx(alpha), "two fragments do not say more"


def test_alpha_lies_between_what_is_joined_and_what_is_not() -> None:
    fragments, by_name = file_of([1] * 10 + [3] * 10 + [8] * 5)
    alpha = alpha_by_grouping(Agreement(), fragments, by_name)
    # joining saves 28 nats and gains at most log 8; joining another name saves nothing
    assert 1 < alpha < math.exp(28)
    halves = [part for c in by_name for part in (c[::2], c[1::2]) if part]
    finer = alpha_by_grouping(Agreement(), fragments, halves)
    assert finer > 100 * alpha, "more entities, a larger alpha"


def test_the_same_whatever_labels_order_of_clusters_and_time() -> None:
    fragments, grouping = file_of([1, 2, 3, 4, 5, 6, 7])
    labelled = [replace(f, label=f"other{f.id}") for f in fragments]
    alpha = alpha_by_grouping(Agreement(), fragments, grouping)
    assert alpha_by_grouping(Agreement(), labelled, grouping) == alpha
    assert alpha_by_grouping(Agreement(), fragments, grouping) == alpha


def test_little_is_scored_of_a_large_file() -> None:
    fragments, grouping = file_of([100] * 20)
    likelihood = Agreement()
    alpha_by_grouping(likelihood, fragments, grouping)
    assert len(likelihood.asked) <= DECISIONS * (1 + 2 * (1 + OTHERS))
    assert max(likelihood.asked) == MEMBERS + 1


def test_nothing_in_common_with_anything() -> None:
    fragments = [Fragment(str(i), {"name": (f"n{i}",)}) for i in range(30)]
    alpha = alpha_by_grouping(Agreement(), fragments, [[i] for i in range(30)])
    assert 0 < alpha < math.inf
    equal = [Fragment(str(i), {"name": ("same",)}) for i in range(30)]
    alpha = alpha_by_grouping(Agreement(), equal, [list(range(30))])
    assert 0 < alpha < math.exp(30)
    assert alpha_by_grouping(Agreement(), equal[:1], [[0]]) == Agreement.default_alpha


@pytest.mark.parametrize("grouping", [[[0]], [[0, 1], [1]], [[0, 1], [7]], []])
def test_what_is_no_grouping_is_refused(grouping: list[list[int]]) -> None:
    fragments, _ = file_of([2])
    with pytest.raises(UsageError, match="expected each fragment in one cluster"):
        alpha_by_grouping(Agreement(), fragments, grouping)


def test_what_cannot_be_at_all_is_refused() -> None:
    fragments, grouping = file_of([3, 3])
    with (
        np.errstate(invalid="ignore"),
        pytest.raises(LikelihoodError, match="no finite place"),
    ):
        alpha_by_grouping(Agreement(cost=math.inf), fragments, grouping)

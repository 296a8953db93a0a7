"""A run of a whole way to a grouping is what `kbforge cluster` gives, and is measured as such."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest

from kbforge import registry
from kbforge.errors import KBForgeError
from kbforge.evaluation.scores import compare
from kbforge.fit.calibrate import ReliabilitySettings, fit_confidence, measure_reliability
from kbforge.fit.choices import Choices
from kbforge.jobs.cluster import cluster
from kbforge_lab.bench import ways
from kbforge_lab.bench.perform import perform
from kbforge_lab.bench.results import Row
from kbforge_lab.bench.runs import Run
from kbforge_lab.contracts.suite import Method, Model, Task
from kbforge_lab.suites.invented import invented

DEFAULT = Method("default", "split-smc")
RECORDS = Task("records", invented()["invented-records"])


def run(method: Method = DEFAULT, shuffle: int = 0, seconds: float = 60.0) -> Run:
    return Run("toys", RECORDS, method, shuffle, seconds)


def done(method: Method = DEFAULT, **changes: Any) -> Row:
    outcome = perform(run(method, **changes))
    assert outcome.trace == ()
    return outcome.row


@pytest.mark.parametrize("name", [None, "bigram"])
def test_the_row_is_that_of_kbforge_cluster(name: str | None) -> None:
    row = done(replace(DEFAULT, likelihood=name and Model(name)))
    kb = cluster(RECORDS.fragments, Choices(likelihood=name))
    scores = compare(kb.posterior.labels(), [f.label for f in RECORDS.fragments])
    assert (row.f1, row.precision) == (scores.bcubed_f1_item_mean, scores.bcubed_precision)
    assert (row.entities, row.gold_entities) == (scores.clusters, scores.gold_clusters)
    assert (row.alpha, row.log_posterior) == (kb.alpha, kb.posterior.log_posterior)
    assert row.model in registry.names("likelihoods")
    assert row.model == (name or row.model)
    assert (row.fragments, row.of, row.cut) == (len(RECORDS.fragments),) * 2 + (False,)
    assert row.seconds > kb.seconds / 100 > 0
    assert row.peak_mib is None or row.peak_mib > 10


def test_calibration_is_measured_as_kbforge_reliability_does() -> None:
    row = done(replace(DEFAULT, likelihood=Model("attributes")))
    report = measure_reliability(
        RECORDS.fragments, Choices(likelihood="attributes"), ReliabilitySettings()
    )
    assert row.pairs_ece == report.pairs.raw.ece
    assert row.entities_ece == report.entities.raw.ece


def test_a_map_that_goes_with_the_likelihood_is_measured_too(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    choices, settings = Choices(likelihood="bigram"), ReliabilitySettings()
    found = fit_confidence(RECORDS.fragments, choices, settings)
    before = ways.prepare
    monkeypatch.setattr(ways, "prepare", lambda *g: replace(before(*g), confidence=found))
    row = done(replace(DEFAULT, likelihood=Model("bigram")))
    report = measure_reliability(RECORDS.fragments, choices, settings, found)
    assert report.pairs.mapped is not None
    assert report.entities.mapped is not None
    assert row.pairs_ece_mapped == report.pairs.mapped.ece != report.pairs.raw.ece
    assert row.entities_ece_mapped == report.entities.mapped.ece != report.entities.raw.ece


def test_more_pairs_than_can_be_held_are_not_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kbforge.evaluation.reliability._MOST_PAIRS", 1)
    row = done()
    assert row.pairs_ece is None
    assert row.entities_ece is not None


def test_baselines_cluster_nothing() -> None:
    row = done(Method("exact name", baseline="exact name"))
    names = [f.names[0].casefold() for f in RECORDS.fragments]
    scores = compare(names, [f.label for f in RECORDS.fragments])
    assert row.f1 == scores.bcubed_f1_item_mean
    assert (row.log_posterior, row.alpha, row.model) == (-math.inf, None, "")
    assert done(Method("ceiling", baseline="ceiling")).f1 == 1.0


def test_the_best_alpha_is_the_best_by_the_labels() -> None:
    method = Method("best", "greedy", likelihood=Model("bigram"), alphas=(1e2, 1e6, 1e-3, 1e5))
    row = done(method)
    gold = [f.label for f in RECORDS.fragments]
    f1 = {}
    for alpha in method.alphas:
        choices = Choices(clusterer="greedy", likelihood="bigram", alpha=alpha)
        found = cluster(RECORDS.fragments, choices).posterior
        f1[alpha] = compare(found.labels(), gold).bcubed_f1_item_mean
    assert row.f1 == max(f1.values()) > min(f1.values())
    assert f1[row.alpha or 0.0] == row.f1


def test_the_budget_ends_a_clustering_and_a_search() -> None:
    row = done(seconds=1e-9)
    assert row.cut
    assert row.fragments < row.of
    method = Method("best", "greedy", likelihood=Model("bigram"), alphas=(1e5, 1e6))
    assert done(method, seconds=1e-9).fragments < row.of


def test_a_search_without_time_left_keeps_the_best_so_far(monkeypatch: pytest.MonkeyPatch) -> None:
    method = Method("best", "greedy", likelihood=Model("bigram"), alphas=(1e5, 1e6, 1e7))
    alone = done(replace(method, alphas=(1e5,)))
    ends = iter([math.inf, 0.0])
    before = ways._until
    monkeypatch.setattr(ways, "_until", lambda _: before(next(ends)))
    row = done(method)
    assert (row.f1, row.alpha, row.fragments) == (alone.f1, 1e5, row.of)
    assert row.cut


def test_other_orders_are_other_clusterings_with_other_seeds(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seen = []
    before = ways.prepare
    monkeypatch.setattr(
        ways, "prepare", lambda held, given: (seen.append((held, given)), before(held, given))[1]
    )
    for shuffle in (0, 1):
        done(shuffle=shuffle)
    (first, plain), (second, other) = seen
    assert [f.id for f in first] == [f.id for f in RECORDS.fragments] != [f.id for f in second]
    assert plain == Choices()
    assert other == Choices(seed=1)


def test_what_fails_is_a_sentence() -> None:
    with pytest.raises(KBForgeError, match='"nothing"'):
        done(replace(DEFAULT, likelihood=Model("nothing")))

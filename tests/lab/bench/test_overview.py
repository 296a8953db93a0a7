"""The table over all tasks: what stands in it, what is marked, and what the means are of."""

import csv
import io
import math
from collections.abc import Hashable, Sequence
from dataclasses import replace
from typing import Any, get_args

import pytest

from kbforge import registry
from kbforge.contracts.fragment import Fragment
from kbforge.errors import KBForgeError
from kbforge.evaluation.scores import compare
from kbforge.fit.calibrate import measure_reliability
from kbforge.fit.choices import RunOptions
from kbforge.jobs.cluster import cluster
from kbforge_lab.bench import perform as performing
from kbforge_lab.bench.baselines import group
from kbforge_lab.bench.perform import perform
from kbforge_lab.bench.report import Grid, details, long_table, overview, standings
from kbforge_lab.bench.results import Row
from kbforge_lab.bench.runs import BenchRun
from kbforge_lab.bench.summary import lines
from kbforge_lab.suites.accuracy import invented
from kbforge_lab.suites.plan import Baseline, Method, Model, SuitePlan, Task
from tests.lab.bench import toys

APART = Method("all apart", baseline="all apart")
EXACT = Method("exact name", baseline="exact name")
TF_IDF = Method("TF-IDF", baseline="TF-IDF")
DEFAULT = Method("default", "batch")
BIGRAM = Method("bigram", "batch", likelihood=Model("bigram"))
BEST = Method("best alpha: bigram", "greedy", likelihood=Model("bigram"), alphas=(1.0, 10.0))
OTHER_BEST = replace(BEST, name="best alpha: attributes", likelihood=Model("attributes"))
CEILING = Method("ceiling", baseline="ceiling")


def task(name: str, family: str = "", **changes: Any) -> Task:
    return Task(name, (Fragment("f", {"name": ("A",)}, label="a"),) * 40, family=family, **changes)


def plan(*tasks: Task, **changes: Any) -> SuitePlan:
    methods = (APART, EXACT, TF_IDF, DEFAULT, BIGRAM, BEST, OTHER_BEST, CEILING)
    return SuitePlan(tasks=tasks, methods=methods, reference="default", **changes)


def row(task: str, method: Method, f1: float, **changes: Any) -> Row:
    model = method.likelihood.name if method.likelihood else "attributes"
    made = toys.row(method, key=f"{task} {method.name} {changes}", task=task, f1=f1)
    return replace(made, **({"model": model, "alpha": 3.0} | changes))


def cells(grid: Grid, name: str) -> dict[str, str]:
    (found,) = (cells for cells in grid.rows if cells[0] == name)
    return dict(zip(grid.head, found, strict=True))


def shown(rows: list[Row], of: SuitePlan) -> tuple[Grid, Grid, Grid]:
    items, pairs, means = overview(of, lines(rows, of))
    assert (items.title, pairs.title) == ("F1 of items", "F1 of pairs")
    assert all(len(line) == len(g.head) for g in (items, pairs, means) for line in g.rows)
    return items, pairs, means


def mean(grid: Grid, over: str, measure: str = "items") -> dict[str, str]:
    (found,) = (cells for cells in grid.rows if cells[:2] == [over, measure])
    return dict(zip(grid.head, found, strict=True))


@pytest.mark.parametrize(
    ("f1", "mark", "behind"),
    [
        (0.9, "+0.100", "0 of 1"),
        (0.795, "-0.005", "0 of 1"),
        (0.7949, "-0.005 !", "1 of 1"),
        (0.7, "-0.100 !", "1 of 1"),
    ],
)
@pytest.mark.parametrize("rivals", [(EXACT, TF_IDF), (TF_IDF, EXACT), (EXACT,), (TF_IDF,)])
def test_what_is_below_the_better_is_marked_and_counted(f1, mark, behind, rivals):
    rows = [row("people", r, f1) for r, f1 in zip(rivals, (0.8, 0.3), strict=False)]
    items, _, means = shown([*rows, row("people", DEFAULT, f1)], plan(task("people")))
    assert cells(items, "people")["above the better"] == mark
    assert mean(means, "all sets")["above the better"] == mark.removesuffix(" !")
    assert mean(means, "all sets")["behind"] == behind


def test_a_row_of_all_methods():
    rows = [
        row("people", APART, 0.1, model="", alpha=None),
        row("people", EXACT, 0.5, model="", alpha=None),
        row("people", TF_IDF, 0.55, model="", alpha=None),
        row("people", DEFAULT, 0.6),
        row("people", DEFAULT, 0.8, shuffle=1, model="bigram"),
        row("people", BIGRAM, 0.65),
        row("people", BEST, 0.75, alpha=1e5),
        row("people", OTHER_BEST, 0.72),
        row("people", CEILING, 0.9, model="", alpha=None),
    ]
    items, _, means = shown(rows, plan(task("people", "records")))
    assert cells(items, "people") == {
        "set": "people",
        "family": "records",
        "fragments": "40",
        "entities": "5",
        "all apart": "0.100",
        "exact name": "0.500",
        "TF-IDF": "0.550",
        "default": "0.700 (0.141)",
        "above the better": "+0.150",
        "bigram": "0.650",
        "best alpha": "0.750 (bigram 100,000)",
        "ceiling": "0.900",
        "took": "attributes, bigram 3",
    }
    assert mean(means, "all sets")["best alpha"] == "0.750"
    assert not any("by family" in line[0] for line in means.rows)


def test_both_measures_stand_side_by_side():
    """The best alpha is the best by items in both."""
    rows = [
        row("a", EXACT, 0.7, pairwise_f1=0.2),
        row("a", TF_IDF, 0.6, pairwise_f1=0.9),
        row("a", DEFAULT, 0.8, pairwise_f1=0.3),
        row("a", BEST, 0.85, pairwise_f1=0.1),
    ]
    items, pairs, means = shown(rows, plan(task("a")))
    assert [cells(g, "a")["above the better"] for g in (items, pairs)] == ["+0.100", "-0.600 !"]
    assert cells(pairs, "a")["best alpha"] == "0.100 (bigram 3)"
    assert mean(means, "all sets")["TF-IDF"] == "0.600"
    assert mean(means, "all sets", "pairs")["TF-IDF"] == "0.900"
    assert [mean(means, "all sets", m)["behind"] for m in ("items", "pairs")] == [
        *("0 of 1", "1 of 1")
    ]


def test_means_are_over_groups_and_their_families():
    tasks = (task("a", "x"), task("b", "x"), task("c", "y"))
    f1 = {"a": 0.2, "b": 0.4, "c": 0.9}
    rows = [row(name, DEFAULT, value) for name, value in f1.items()]
    rows += [row(name, EXACT, 0.1) for name in "ab"]
    *_, means = shown(rows, plan(*tasks))
    assert mean(means, "all sets")["default"] == "0.500"
    assert mean(means, "all sets, by family")["default"] == "0.600"
    # exact name lacks c, and with it the family y
    assert mean(means, "all sets")["exact name"] == "0.100 (2 of 3)"
    assert mean(means, "all sets")["above the better"] == "+0.200 (2 of 3)"
    assert mean(means, "all sets")["behind"] == "0 of 2"
    assert mean(means, "all sets, by family")["exact name"] == "0.100 (1 of 2)"
    groups = {"two": ("a", "c"), "more": ("a", "gone"), "none": ("gone", "away")}
    *_, means = shown(rows, plan(*tasks, groups=groups))
    assert mean(means, "two")["default"] == "0.550"
    assert mean(means, "more")["default"] == "0.200 (1 of 2)"
    assert {line[0] for line in means.rows} == {"two", "more"}


def test_a_run_that_saw_a_part_counts_for_no_mean():
    rows = [row("a", DEFAULT, 0.9, fragments=7), row("b", DEFAULT, 0.5)]
    rows += [row("a", BEST, 0.9, fragments=7), row("a", EXACT, 0.5)]
    items, _, means = shown(rows, plan(task("a"), task("b")))
    assert cells(items, "a")["default"] == "over time"
    assert cells(items, "a")["above the better"] == cells(items, "a")["best alpha"] == ""
    assert mean(means, "all sets")["default"] == "0.500 (1 of 2)"


def test_methods_and_tasks_that_did_not_run_are_not_there():
    items, _, means = shown([row("a", DEFAULT, 0.5)], plan(task("a"), task("b")))
    assert items.head == ["set", "family", "fragments", "entities", "default", "took"]
    assert [line[0] for line in items.rows] == ["a"]
    assert mean(means, "all sets")["behind"] == ""


def test_every_method_that_clusters_once_has_a_table_of_its_own():
    known = {"peak_mib": 100.0, "pairs_ece": 0.25, "entities_ece": 0.5, "entities_ece_mapped": 0.1}
    known |= {"pairwise_precision": 0.4, "pairwise_recall": 0.2, "pairwise_f1": 0.3}
    rows = [
        row("a", EXACT, 0.5),
        row("a", DEFAULT, 0.5, precision=0.9, recall=0.6, seconds=2.25, **known),
        row("b", DEFAULT, 0.5, pairs_ece=0.75),
        row("a", BEST, 0.7),
    ]
    of = plan(task("a"), task("b"))
    (grid,) = details(of, lines(rows, of))
    assert grid.title == "default"
    assert grid.rows[0] == [
        *("a", "1", "0.900", "0.600", "0.500", "0.720", "0.400", "0.200", "0.300"),
        *("5", "5", "3", "2.2", "100"),
        *("0.250", "", "0.500", "0.100"),
    ]
    assert grid.rows[-1] == ["mean over 2", *[""] * 13, "0.500", "", "0.500", "0.100"]
    assert grid.markdown().splitlines()[1].count("---:") == len(grid.head) - 1


def test_the_report_says_which_sets_the_models_had_seen():
    of = plan(
        task("a", standing="held out"),
        task("b", standing="seen"),
        task("c", standing="seen"),
        task("d", standing="unseen"),
        task("e"),
    )
    held_out, unseen, seen, unknown = standings(of)
    assert held_out.startswith("Leave-one-family-out:")
    assert held_out.endswith(": a.")
    assert unseen.endswith(": d.")
    assert seen.startswith("NOT leave-one-family-out:")
    assert seen.endswith(": b, c.")
    assert unknown.endswith("is not known: e.")


def test_csv_has_a_line_a_task_and_method():
    of = plan(task("a", "x", standing="held out"))
    rows = [
        row("a", EXACT, 0.5, model="", alpha=None, pairwise_f1=0.25),
        row("a", DEFAULT, 0.625, peak_mib=7.5),
    ]
    exact, default = csv.DictReader(io.StringIO(long_table(of, lines(rows, of))))
    assert [exact[name] for name in ("set", "method", "f1", "pairwise_f1", "alpha")] == [
        *("a", "exact name", "0.5", "0.25", ""),
    ]
    assert (default["family"], default["standing"], default["peak_mib"]) == ("x", "held out", "7.5")
    assert long_table(of, []) == ""


def test_no_way_that_was_tried_is_above_the_best_in_hindsight():
    rows = [row("a", EXACT, 0.9), row("a", DEFAULT, 0.8), row("a", BEST, 0.7, alpha=1.0)]
    items, *_ = shown(rows, plan(task("a")))
    assert cells(items, "a")["best alpha"] == "0.800 (attributes 3)"


# A run of a whole way to a grouping is what `kbforge cluster` gives, and is measured as such.


RECORDS = Task("records", invented()["invented-records"])
GOLD = [f.label for f in RECORDS.fragments]


def run(method: Method = DEFAULT, shuffle: int = 0, seconds: float = 60.0) -> BenchRun:
    return BenchRun("toys", RECORDS, method, shuffle, seconds)


def done(method: Method = DEFAULT, **changes: Any) -> Row:
    outcome = perform(run(method, **changes))
    assert outcome.trace == ()
    return outcome.row


@pytest.mark.parametrize("name", [None, "bigram"])
@pytest.mark.parametrize("shuffle", [0, 1])
def test_the_row_is_that_of_kbforge_cluster(name, shuffle):
    method = replace(DEFAULT, likelihood=name and Model(name))
    row, held = done(method, shuffle=shuffle), run(method, shuffle).fragments()
    kb = cluster(held, RunOptions(likelihood=name, seed=shuffle))
    scores = compare(kb.posterior.labels(), [f.label for f in held])
    assert (row.f1, row.precision) == (scores.bcubed_f1_item_mean, scores.bcubed_precision)
    assert (row.pairwise_f1, row.pairwise_recall) == (scores.pairwise_f1, scores.pairwise_recall)
    assert (row.entities, row.gold_entities) == (scores.clusters, scores.gold_clusters)
    assert (row.alpha, row.log_posterior) == (kb.alpha, kb.posterior.log_posterior)
    assert row.model in registry.names("likelihoods")
    assert row.model == (name or row.model)
    assert (row.fragments, row.of, row.cut) == (len(RECORDS.fragments),) * 2 + (False,)
    assert row.seconds > kb.seconds / 100 > 0
    assert row.peak_mib is None or row.peak_mib > 10


def test_calibration_is_measured_as_kbforge_reliability_does():
    row = done(replace(DEFAULT, likelihood=Model("attributes")))
    report = measure_reliability(RECORDS.fragments, RunOptions(likelihood="attributes"))
    assert row.pairs_ece == report.pairs[0].ece
    assert row.entities_ece == report.entities[0].ece
    # by the map that goes with the likelihood
    assert row.pairs_ece_mapped == report.pairs[1].ece != report.pairs[0].ece
    assert row.entities_ece_mapped == report.entities[1].ece != report.entities[0].ece


def test_more_pairs_than_can_be_held_are_not_measured(monkeypatch):
    monkeypatch.setattr("kbforge.evaluation.reliability._MOST_PAIRS", 1)
    row = done()
    assert row.pairs_ece is None
    assert row.entities_ece is not None


@pytest.mark.parametrize("baseline", get_args(Baseline))
def test_baselines_cluster_nothing(baseline):
    row = done(Method(baseline, baseline=baseline))
    labels = group(baseline, RECORDS.fragments, linked=False)
    scores = compare(labels, [f.label for f in RECORDS.fragments])
    assert (row.f1, row.pairwise_f1) == (scores.bcubed_f1_item_mean, scores.pairwise_f1)
    assert (row.log_posterior, row.alpha, row.model) == (-math.inf, None, "")


def test_a_baseline_that_grouped_the_first_fragments_saw_a_part(monkeypatch):
    monkeypatch.setattr("kbforge_lab.bench.baselines.MOST", 7)
    row = done(TF_IDF)
    scores = compare(group("TF-IDF", RECORDS.fragments, False), GOLD[:7])
    assert len(group("TF-IDF", RECORDS.fragments, True)) == 7
    assert (row.fragments, row.of, row.f1) == (7, len(GOLD), scores.bcubed_f1_item_mean)


@pytest.mark.parametrize("method", [TF_IDF, DEFAULT, BIGRAM])
def test_of_linked_tables_no_entity_has_two_fragments_of_one(method, monkeypatch):
    held = tuple(replace(f, source="xy"[k % 2]) for k, f in enumerate(RECORDS.fragments))
    found: list[Sequence[Hashable]] = []
    before = performing.compare
    monkeypatch.setattr(performing, "compare", lambda *g: (found.append(g[0]), before(*g))[1])
    for linked in (False, True):
        perform(replace(run(method), task=replace(RECORDS, fragments=held, linked=linked)))
    apart, linked_labels = (
        len({(f.source, label) for f, label in zip(held, labels, strict=True)}) == len(held)
        for labels in found
    )
    assert (apart, linked_labels) == (False, True)


def test_the_best_alpha_is_the_best_by_the_labels():
    method = Method("best", "greedy", likelihood=Model("bigram"), alphas=(1e2, 1e6, 1e-3, 1e5))
    row = done(method)
    gold = [f.label for f in RECORDS.fragments]
    f1 = {}
    for alpha in method.alphas:
        choices = RunOptions(clusterer="greedy", likelihood="bigram", alpha=alpha)
        found = cluster(RECORDS.fragments, choices).posterior
        f1[alpha] = compare(found.labels(), gold).bcubed_f1_item_mean
    assert row.f1 == max(f1.values()) > min(f1.values())
    assert f1[row.alpha or 0.0] == row.f1


def test_the_budget_ends_a_clustering_and_a_search():
    row = done(replace(DEFAULT, clusterer="split-smc"), seconds=1e-9)
    assert row.cut
    assert row.fragments < row.of
    method = Method("best", "greedy", likelihood=Model("bigram"), alphas=(1e5, 1e6))
    assert done(method, seconds=1e-9).fragments < row.of


def test_a_search_without_time_left_keeps_the_best_so_far(monkeypatch):
    method = Method("best", "greedy", likelihood=Model("bigram"), alphas=(1e5, 1e6, 1e7))
    alone = done(replace(method, alphas=(1e5,)))
    ends = iter([math.inf, 0.0])
    before = performing._until
    monkeypatch.setattr(performing, "_until", lambda _: before(next(ends)))
    row = done(method)
    assert (row.f1, row.alpha, row.fragments) == (alone.f1, 1e5, row.of)
    assert row.cut


def test_what_fails_is_a_sentence():
    with pytest.raises(KBForgeError, match='"nothing"'):
        done(replace(DEFAULT, likelihood=Model("nothing")))

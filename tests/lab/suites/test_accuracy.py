"""The suite `accuracy`: which sets, which families, which models a set is clustered by."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from kbforge.errors import KBForgeError, UsageError
from kbforge.files.fragments import write_fragments as write_records
from kbforge_lab.suites.accuracy import (
    SETS,
    UNSEEN,
    Accuracy,
    LabelledSet,
    first_entities,
    invented,
)
from kbforge_lab.suites.plan import SuitePlan
from kbforge_lab.training.defaults.families import FAMILIES
from tests.lab.suites.laws import SuiteLaws
from tests.lab.suites.test_suites import write_fragments


def put(folder: Path, *names: str) -> None:
    """Three fragments in the place of each set."""
    for one in SETS:
        if one.name in names:
            (folder / one.file).parent.mkdir(parents=True, exist_ok=True)
            file = folder / one.file.removesuffix(".gz")
            write_fragments(file, "a", None, "a", "b")
            file.rename(folder / one.file)


@pytest.fixture
def data(tmp_path, monkeypatch):
    monkeypatch.setenv("KBFORGE_DATA", str(tmp_path))
    return tmp_path


def names(plan: SuitePlan) -> list[str]:
    return [task.name for task in plan.tasks]


class TestAccuracyOnAFile(SuiteLaws):
    name = "accuracy"

    @pytest.fixture(autouse=True)
    def _file(self, tmp_path):
        self._path = write_fragments(tmp_path / "people.jsonl", "a", "a", "b")

    def make(self) -> Accuracy:
        return Accuracy(data=(self._path,))


def test_families_are_those_that_models_are_trained_on():
    theirs = {file: family.name for family in FAMILIES for file in family.files}
    ours = {one.file: one.family for one in SETS}
    assert {file: ours.get(file) for file in theirs} == theirs
    # measured only, because of their size or licence
    rest = {one.name for one in SETS if one.file not in theirs}
    linked = {one.name for one in SETS if one.kind == "link"}
    assert rest == {"chadwick_100k", "chadwick_1M", "gum_ccbysa"} | linked
    assert {family.name for family in FAMILIES if not family.ships} == UNSEEN


def test_names_of_sets_are_their_own_and_26_are_counted():
    assert len({one.name for one in SETS}) == len(SETS)
    assert sum(one.counted for one in SETS) == 26


def test_subsets_are_whole_entities_in_order_of_first_appearance(data):
    write_fragments(data / "people.jsonl", "b", "a", "c", "a", "b", "d")
    sets = [LabelledSet("s", "people.jsonl", "f", 6, first=n).read(data) for n in (1, 2, 3, 5)]
    assert ["".join(str(f.label) for f in one) for one in sets] == ["bb", "bb", "baab", "bacab"]
    assert first_entities([], 3) == []


def test_what_is_there_is_compared_on_and_what_is_not_is_said(data):
    put(data, "wd50_dev", "febrl4", "gum_ccbysa")
    plan = Accuracy().plan()
    assert names(plan) == ["wd50_dev", "febrl4", "gum_ccbysa"]
    assert [task.family for task in plan.tasks] == ["wd", "febrl", "fair_el"]
    assert [task.standing for task in plan.tasks] == ["unseen", "seen", "seen"]
    assert [f.label for f in plan.tasks[0].fragments] == ["a", "a", "b"]
    missing, large = plan.notes
    assert "wd50_train" in missing
    assert "febrl4" not in missing
    assert large.startswith("larger than 12,000 fragments and left out (--set suite.most=NUMBER)")
    assert large.endswith("webnlg")
    wanted = [(w.task, w.metric) for w in plan.expectations]
    assert wanted == [(name, m) for name in names(plan) for m in ("f1", "pairwise_f1")]
    bounds = {(w.no_worse_than, w.slack) for w in plan.expectations}
    assert bounds == {(("exact name", "TF-IDF"), 0.005)}


def test_large_sets_are_for_who_asks(data):
    put(data, *(one.name for one in SETS))
    whole = Accuracy().plan()
    assert len(plan := names(whole)) == 33 + 8
    assert set(whole.groups["the 26 sets"]) < set(whole.groups["plain"]) < set(plan)
    assert "walmart_amazon" not in names(Accuracy(most=11_999).plan())
    assert names(Accuracy(most=199).plan()) == ["wd50_dev"]
    assert len(names(Accuracy(most=1_000_000).plan())) == len(SETS)
    with pytest.raises(UsageError, match=r"most: expected at least 195, .* got 100"):
        Accuracy(most=100).plan()


def test_tables_are_linked_and_once_more_one_file(data):
    put(data, "link_abt_buy", "abt_buy", "abt_buy_full")
    plan = Accuracy().plan()
    assert {task.name: task.linked for task in plan.tasks} == {
        "abt_buy": False,
        "link_abt_buy": True,
        "abt_buy_full": False,
    }
    assert {name: found for name, found in plan.groups.items() if name != "the 26 sets"} == {
        "plain": ("abt_buy",),
        "link": ("link_abt_buy",),
        "link, as one file": ("abt_buy_full",),
    }
    assert names(Accuracy(kinds=("plain",)).plan()) == ["abt_buy"]
    only = Accuracy(kinds=("link",)).plan()
    assert (names(only), list(only.groups)) == (
        ["link_abt_buy", "abt_buy_full"],
        ["link", "link, as one file"],
    )


def test_plain_sets_come_in_other_shapes_for_who_asks(data):
    put(data, "wd50_dev", "link_abt_buy")
    records = [replace(f, source=None) for f in invented()["invented-records"]]
    febrl = next(one for one in SETS if one.name == "febrl1")
    (data / febrl.file).parent.mkdir(parents=True)
    write_records(records, data / febrl.file)
    plan = Accuracy(kinds=("namesakes", "flattened")).plan()
    # wd50_dev has names alone here, so there is nothing to exchange or to join
    assert names(plan) == ["namesakes-febrl1", "flattened-febrl1"]
    assert plan.groups == {"namesakes": ("namesakes-febrl1",), "flattened": ("flattened-febrl1",)}
    for task in plan.tasks:
        assert (task.family, task.standing, task.linked) == ("febrl", "seen", False)
        assert [(f.id, f.label) for f in task.fragments] == [(f.id, f.label) for f in records]
        assert [f.properties for f in task.fragments] != [f.properties for f in records]
    both = Accuracy(kinds=("plain", "flattened")).plan()
    assert names(both) == ["wd50_dev", "febrl1", "flattened-febrl1"]
    assert both.groups["plain"] == ("wd50_dev", "febrl1")
    with pytest.raises(UsageError, match=r"kinds: expected some of plain, .*offers, got plane"):
        Accuracy(kinds=("plane",))


def test_without_data_the_sentence_says_what_to_do(monkeypatch, data):
    with pytest.raises(KBForgeError, match=r"there is no \S+wd50_train.jsonl; .*suite.data=FILE"):
        Accuracy().plan()
    monkeypatch.delenv("KBFORGE_DATA")
    with pytest.raises(KBForgeError, match=r"KBFORGE_DATA names, which is not set; .*suite.data"):
        Accuracy().plan()
    assert names(Accuracy().plan(quick=True)) == ["invented-records", "invented-names"]


def test_each_set_is_clustered_by_models_that_have_not_seen_its_family(data, tmp_path):
    put(data, "wd50_dev", "febrl1", "febrl2", "cora")
    held_out = tmp_path / "without"
    for family in ("febrl", "wd"):
        (held_out / family).mkdir(parents=True)
    plan = Accuracy(without=str(held_out)).plan()
    assert {task.name: (task.standing, task.defaults) for task in plan.tasks} == {
        "wd50_dev": ("held out", str(held_out / "wd")),
        "febrl1": ("held out", str(held_out / "febrl")),
        "febrl2": ("held out", str(held_out / "febrl")),
        "cora": ("seen", None),
    }
    assert "cora: no models without the family papers" in plan.notes[-1]
    with pytest.raises(KBForgeError, match=r"a folder for each family, .* which has none"):
        Accuracy(without=str(data / "confusable"))


def test_methods_are_the_default_likelihoods_and_what_bounds_them():
    plan = Accuracy(likelihoods=("bigram", "gpt")).plan(quick=True)
    assert [method.name for method in plan.methods] == [
        *("all apart", "exact name", "TF-IDF"),
        *("default", "bigram", "gpt", "best alpha: bigram", "ceiling"),
    ]
    default = plan.methods[3]
    assert (default.likelihood, default.alphas, default.particles) == (None, (), None)
    given = Accuracy(likelihoods=("gpt",), alphas=(1.0, 2.0)).plan(quick=True)
    assert given.methods[5].alphas == (1.0, 2.0)
    assert Accuracy(orders=5).plan(quick=True).shuffles == 1


def test_any_labelled_files_are_sets(tmp_path):
    files = [write_fragments(tmp_path / f"{name}.jsonl", "a", "b") for name in "xy"]
    plan = Accuracy(data=tuple(files), orders=5).plan()
    assert (names(plan), plan.shuffles) == (["x", "y"], 5)
    assert [task.standing for task in plan.tasks] == [None, None]
    with pytest.raises(UsageError, match=r"files of different names, .* got x, x"):
        Accuracy(data=(files[0], files[0]))
    bare = write_fragments(tmp_path / "bare.jsonl", "a", None)
    with pytest.raises(KBForgeError, match=r"suite accuracy: \S+bare.jsonl: expected a label"):
        Accuracy(data=(bare,)).plan()


@pytest.mark.parametrize("option", ["most", "orders"])
def test_numbers_are_positive(option):
    with pytest.raises(UsageError, match=f"{option} must be at least 1, got 0"):
        Accuracy(**{option: 0})  # type: ignore[arg-type]


def test_invented_sets_are_the_same_every_time_and_ambiguous():
    assert invented() == invented() != invented(seed=1)
    for held in invented().values():
        assert len({f.id for f in held}) == len(held) > 50
        labels = {f.label for f in held}
        assert len(labels) < len(held)
        assert json.dumps(held[0].to_json())


@pytest.mark.data
def test_sizes_are_those_of_the_data(data_dir):
    small = [one for one in SETS if one.fragments <= 12_000 or one.kind == "link"]
    assert {one.name: len(one.read(data_dir)) for one in small} == {
        one.name: one.fragments for one in small
    }

"""The suites' own promises."""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kbforge.contracts import Fragment
from kbforge.errors import KBForgeError, UsageError
from kbforge.registry.options import describe
from kbforge_lab.suites import make_suite, suite_class
from kbforge_lab.suites.documents import DocumentMixture, Documents
from kbforge_lab.suites.gauss import Gauss
from kbforge_lab.suites.plan import TASK_NAME, SuitePlan
from kbforge_lab.suites.text import Text, name_variants
from kbforge_lm.likelihoods.gpt.likelihood import Gpt
from tests.lab.bench.toys import plan, task
from tests.lab.suites.laws import SuiteLaws

TEXT_TASKS = ("wd50", "dwie50", "webnlg-names")
ONLINE = ("greedy", "smc", "split-smc")


def test_the_seed_draws_the_points_of_gauss():
    plans = [Gauss(seed=seed).plan() for seed in (0, 0, 1)]
    same, again, other = ([f.vector for f in plan.tasks[0].fragments] for plan in plans)
    assert same == again != other
    assert len(Gauss(points=30).plan().tasks[0].fragments) == 30


def test_published_figures_stand_only_beside_the_published_points():
    assert not Gauss().plan().published


def test_without_data_the_sentence_says_what_to_do(monkeypatch, tmp_path):
    monkeypatch.delenv("KBFORGE_DATA", raising=False)
    needs = r"gauss/gauss700\.csv and gauss/orders\.json in the folder that KBFORGE_DATA names"
    with pytest.raises(KBForgeError, match=rf"{needs}, which is not set; .*data=generated"):
        Gauss(data="published").plan()
    needs = (
        r"confusable/wd50_dev\.jsonl, confusable/dwie50_dev\.jsonl and "
        r"webnlg/webnlg_1text_per_entry\.jsonl\.gz in the folder that KBFORGE_DATA names"
    )
    with pytest.raises(KBForgeError, match=rf"{needs}, which is not set; .* suite\.data=FILE"):
        Text().plan()
    monkeypatch.setenv("KBFORGE_DATA", str(tmp_path))
    with pytest.raises(KBForgeError, match=r"there is no \S+/wd50_dev\.jsonl; .* suite\.data=FILE"):
        Text().plan(quick=True)


@pytest.mark.parametrize("suite", ["gauss", "circles", "hashing", "text"])
def test_what_is_shown_of_a_suite_names_its_tasks_and_methods(suite, tmp_path):
    file = write_fragments(tmp_path / "people.jsonl", "a", "b")
    plan = make_suite(suite, {"data": file} if suite == "text" else {}).plan()
    summary, _ = describe(suite_class(suite))
    said = re.search(r"Tasks?: (.*?)\. Methods: (.*?)\. Quick: .*\.", summary)
    assert said, summary
    tasks = list(TEXT_TASKS) if suite == "text" else [task.name for task in plan.tasks]
    assert said[1].split(", ") == tasks
    assert said[2].split(", ") == [method.name for method in plan.methods]


def write_fragments(path: Path, *labels: str | None) -> str:
    records = [
        {"id": f"f{i}", "properties": {"name": [f"name {i}"]}, "label": label}
        for i, label in enumerate(labels)
    ]
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return str(path)


@pytest.mark.parametrize("quick", [True, False])
def test_any_labelled_fragments_are_a_task_for_text(tmp_path, quick):
    file = write_fragments(tmp_path / "people.jsonl", "a", "a", "b")
    plan = Text(data=file).plan(quick)
    (task,) = plan.tasks
    assert (task.name, [f.label for f in task.fragments]) == ("people", ["a", "a", "b"])
    assert task.alpha == pytest.approx(math.exp(9.35))
    assert [wanted.task for wanted in plan.expectations] == ["people"]
    assert Text(data=file, alpha=3.0).plan().tasks[0].alpha == 3.0


def test_fragments_without_labels_cannot_be_compared_on(tmp_path):
    file = write_fragments(tmp_path / "people.jsonl", "a", None, None)
    with pytest.raises(KBForgeError, match=r'people.jsonl: expected a label .* 2 of 3 .* "f1"'):
        Text(data=file).plan()
    with pytest.raises(KBForgeError, match="holds no fragment"):
        Text(data=write_fragments(tmp_path / "empty.jsonl")).plan()
    with pytest.raises(KBForgeError, match=r"cannot read \S+/none.jsonl"):
        Text(data=str(tmp_path / "none.jsonl")).plan()


class TestTextOnAFile(SuiteLaws):
    name = "text"

    @pytest.fixture(autouse=True)
    def _file(self, tmp_path):
        self._path = write_fragments(tmp_path / "people.jsonl", "a", "a", "b")

    def make(self) -> Text:
        return Text(data=self._path)


def test_a_damaged_data_folder_is_a_sentence(monkeypatch, tmp_path):
    monkeypatch.setenv("KBFORGE_DATA", str(tmp_path))
    (tmp_path / "gauss").mkdir()
    (tmp_path / "gauss/gauss700.csv").write_text("x,y,label\n1,2,a\n3,4,b\n")
    with pytest.raises(KBForgeError, match=r"there is no \S+/gauss/orders.json"):
        Gauss(data="published").plan()
    (tmp_path / "gauss/orders.json").write_text("{")
    with pytest.raises(KBForgeError, match="does not hold the published points"):
        Gauss(data="published").plan()
    (tmp_path / "gauss/orders.json").write_text('{"0": [0, 0]}')
    with pytest.raises(KBForgeError, match="no shuffle"):
        Gauss(data="published").plan()
    (tmp_path / "gauss/orders.json").write_text('{"1": [1, 0], "0": [0, 1]}')
    assert Gauss(data="published").plan().tasks[0].orders == ((0, 1), (1, 0))


def test_another_likelihood_for_text_needs_its_own_alpha():
    with pytest.raises(UsageError, match="alpha"):
        Text(likelihood="trigram")


@pytest.mark.parametrize("name", ["a/b", "a b", "../a", "-a", ".a", "", "a|b", "a,b", "a" * 101])
def test_the_contract_refuses_tasks_that_cannot_name_a_file(name):
    class Named(SuiteLaws):
        def make(self) -> Any:
            return self

        def plan(self, quick: bool = False) -> SuitePlan:
            return plan(tasks=(replace(task(), name=name),))

    with pytest.raises(AssertionError):
        Named().test_names_are_unambiguous()


@pytest.mark.parametrize("name", ["gauss", "webnlg-names", "wd50_dev", "größe.2+3"])
def test_the_contract_takes_plain_names(name):
    assert TASK_NAME.fullmatch(name)


@pytest.mark.data
def test_the_published_points_come_with_the_papers_table(data_dir):
    plan = Gauss(data="published").plan()
    assert len(plan.tasks[0].fragments) == 700
    assert len(plan.tasks[0].orders) == 3
    assert plan.published["gauss", "Split SMC"].log_posterior == (-1424, 7)
    bounds = {(e.method, e.metric): e.at_least for e in plan.expectations if not e.no_worse_than}
    assert bounds["Split SMC", "log_posterior"] == -1431
    assert bounds["Agglomerative", "log_posterior"] == -1426


@pytest.mark.data
def test_text_has_both_sets(data_dir):
    sizes = {task.name: len(task.fragments) for task in Text().plan().tasks}
    assert sizes == dict(zip(TEXT_TASKS, (195, 488, 1681), strict=True))


@pytest.mark.data
def test_a_black_box_for_text_has_its_own_alpha_and_the_bigrams_propose(data_dir):
    plan = Text(likelihood="gpt").plan()
    assert {task.alpha for task in plan.tasks} == {Gpt().default_alpha}
    assert all(method.surrogate for method in plan.methods if method.clusterer in ONLINE)
    assert plan.seconds == 1800
    assert Text(likelihood="gpt", alpha=3.0).plan(quick=True).tasks[0].alpha == 3.0
    assert not any(method.surrogate for method in Text().plan().methods[:3])


# Generated documents: what the urn draws is the Dirichlet-multinomial model.


def test_the_urn_draws_as_many_different_words_as_the_model_expects():
    """E of the new draws is c (psi(c + n) - psi(c)), here 100 (log 6 + ...) of 500."""
    mixture = DocumentMixture(concentration=100.0, vocabulary=10**9)
    rng = np.random.default_rng(0)
    different = [len(set(mixture._urn(500, rng).tolist())) for _ in range(60)]
    expected = sum(100.0 / (100.0 + t) for t in range(500))
    assert np.mean(different) == pytest.approx(expected, abs=4 * np.std(different) / 60**0.5)


def test_two_words_of_a_cluster_are_equal_as_often_as_the_model_says():
    mixture = DocumentMixture(concentration=3.0, vocabulary=20)
    rng = np.random.default_rng(1)
    equal = np.mean([len(set(mixture._urn(2, rng).tolist())) == 1 for _ in range(4000)])
    assert equal == pytest.approx(1 / 4 + 3 / 4 / 20, abs=0.03)


def test_documents_are_of_clusters_and_have_words():
    mixture = DocumentMixture(documents=200, clusters=5)
    fragments = mixture.fragments(np.random.default_rng(2))
    assert len({f.id for f in fragments}) == 200
    assert set(Counter(f.label for f in fragments)) == {f"cluster-{k}" for k in range(5)}
    lengths = [len(f.properties["words"]) for f in fragments]
    assert min(lengths) >= 5
    assert np.mean(lengths) == pytest.approx(60, abs=3)


def test_more_clusters_than_documents_are_refused():
    with pytest.raises(UsageError, match="no fewer documents than clusters"):
        Documents(documents=3, clusters=5)


# Name variants: each different name once, of the entities that have most.


def mention(number: int, label: str | None, *names: str) -> Fragment:
    return Fragment(str(number), {"name": names, "type": ("t",)}, label=label)


MENTIONS = [
    mention(0, "us", "US", "the US"),
    mention(1, "us", "US"),
    mention(2, "paris", "Paris"),
    mention(3, "paris", "Paris"),
    mention(4, "uk", "UK", "Britain"),
    mention(5, None, "nobody", "no one", "nil"),
    mention(6, "berlin", "Berlin"),
    Fragment("7", {"type": ("nameless",)}, label="berlin"),
]


def pairs(entities: int) -> list[tuple[str | None, str]]:
    made = name_variants(MENTIONS, entities)
    assert all(set(f.properties) == {"name"} and len(f.properties["name"]) == 1 for f in made)
    assert len({f.id for f in made}) == len(made)
    assert made == name_variants(MENTIONS, entities)
    return sorted((f.label, f.properties["name"][0]) for f in made)


def test_each_name_of_the_largest_entities_is_a_fragment():
    us = [("us", "US"), ("us", "the US")]
    uk = [("uk", "Britain"), ("uk", "UK")]
    # "us" has as many names as "uk" and more mentions; Paris more mentions than Berlin
    assert pairs(1) == us
    assert pairs(2) == sorted(us + uk)
    assert pairs(3) == sorted([*us, *uk, ("paris", "Paris")])
    assert pairs(9) == sorted([*us, *uk, ("paris", "Paris"), ("berlin", "Berlin")])

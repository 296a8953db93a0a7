"""The suites' own promises."""

from __future__ import annotations

from pathlib import Path

import pytest

from kbforge.errors import KBForgeError, UsageError
from kbforge_plugins.likelihoods.gpt import Gpt
from kbforge_plugins.suites.gauss import Gauss
from kbforge_plugins.suites.text import Text

ONLINE = ("greedy", "smc", "split-smc")


def test_the_seed_draws_the_points_of_gauss() -> None:
    plans = [Gauss(seed=seed).plan() for seed in (0, 0, 1)]
    same, again, other = ([f.vector for f in plan.tasks[0].fragments] for plan in plans)
    assert same == again != other
    assert len(Gauss(points=30).plan().tasks[0].fragments) == 30


def test_published_figures_stand_only_beside_the_published_points() -> None:
    assert not Gauss().plan().published


def test_without_data_the_sentence_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KBFORGE_DATA", raising=False)
    with pytest.raises(KBForgeError, match=r"KBFORGE_DATA .* suite\.data=generated"):
        Gauss(data="published").plan()
    with pytest.raises(KBForgeError, match="KBFORGE_DATA"):
        Text().plan()


def test_a_damaged_data_folder_is_a_sentence(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("KBFORGE_DATA", str(tmp_path))
    (tmp_path / "gauss").mkdir()
    (tmp_path / "gauss/gauss700.csv").write_text("x,y,label\n1,2,a\n3,4,b\n")
    with pytest.raises(KBForgeError, match="does not hold the published points"):
        Gauss(data="published").plan()
    (tmp_path / "gauss/orders.json").write_text('{"0": [0, 0]}')
    with pytest.raises(KBForgeError, match="no shuffle"):
        Gauss(data="published").plan()
    (tmp_path / "gauss/orders.json").write_text('{"1": [1, 0], "0": [0, 1]}')
    assert Gauss(data="published").plan().tasks[0].orders == ((0, 1), (1, 0))


def test_another_likelihood_for_text_needs_its_own_alpha() -> None:
    with pytest.raises(UsageError, match="alpha"):
        Text(likelihood="trigram")


@pytest.mark.data
def test_the_published_points_come_with_the_papers_table(data_dir: Path) -> None:
    plan = Gauss(data="published").plan()
    assert len(plan.tasks[0].fragments) == 700
    assert len(plan.tasks[0].orders) == 3
    assert plan.published["gauss", "Split SMC"].log_posterior == (-1424, 7)
    bounds = {(e.method, e.metric): e.at_least for e in plan.expectations if not e.no_worse_than}
    assert bounds["Split SMC", "log_posterior"] == -1431
    assert bounds["Agglomerative", "log_posterior"] == -1426


@pytest.mark.data
def test_text_has_both_sets(data_dir: Path) -> None:
    sizes = {task.name: len(task.fragments) for task in Text().plan().tasks}
    assert sizes == {"wd50": 195, "dwie50": 488, "webnlg-names": 1681}


@pytest.mark.data
def test_a_black_box_for_text_has_its_own_alpha_and_the_bigrams_propose(data_dir: Path) -> None:
    plan = Text(likelihood="gpt").plan()
    assert {task.alpha for task in plan.tasks} == {Gpt().default_alpha}
    assert all(method.surrogate for method in plan.methods if method.clusterer in ONLINE)
    assert plan.seconds == 1800
    assert Text(likelihood="gpt", alpha=3.0).plan(quick=True).tasks[0].alpha == 3.0
    assert not any(method.surrogate for method in Text().plan().methods[:3])

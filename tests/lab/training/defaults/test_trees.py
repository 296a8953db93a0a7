"""Shipped trees predict what LightGBM predicts, and a damaged file is refused."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from kbforge.errors import ModelError
from kbforge.models.trees import Trees, read_trees
from kbforge_lab.training.defaults.trees import averaged, fit_trees, trees_of

lightgbm = pytest.importorskip("lightgbm")
FEATURES = ("length of name", 'a "quoted" one', "третий")


def data() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(3)
    rows = rng.normal(size=(600, 3))
    rows[rng.random(rows.shape) < 0.1] = np.nan
    return rows, np.nan_to_num(rows[:, 0]) * 2 + (np.nan_to_num(rows[:, 1]) > 0.5)


def fitted(seed: int = 1) -> Trees:
    rows, targets = data()
    parameters = {"objective": "l2", "num_leaves": 7, "seed": seed}
    parameters |= {"bagging_fraction": 0.5, "bagging_freq": 1}
    return fit_trees(FEATURES, rows, targets, parameters, 20)


@pytest.mark.parametrize(("objective", "leaves"), [("l2", 15), ("binary", 15), ("l2", 100)])
def test_sums_are_those_of_the_booster(objective: str, leaves: int) -> None:
    rows, targets = data()
    if objective == "binary":
        targets = (targets > 0.5).astype(float)
    parameters = {"objective": objective, "verbosity": -1, "num_threads": 1, "seed": 1}
    parameters |= {"num_leaves": leaves, "min_data_in_leaf": 2}
    booster = lightgbm.train(parameters, lightgbm.Dataset(rows, targets), 30)
    trees = trees_of(booster, FEATURES)
    fresh = np.random.default_rng(4).normal(size=(200, 3))
    for seen in (rows, fresh):
        expected = booster.predict(seen, raw_score=True)
        assert np.allclose(trees.predict(seen), expected, atol=1e-12)


def test_missing_values_in_columns_that_had_none() -> None:
    rows = np.random.default_rng(0).normal(size=(300, 1))
    booster = lightgbm.train(
        {"objective": "l2", "verbosity": -1}, lightgbm.Dataset(rows, rows[:, 0]), 5
    )
    absent = np.array([[np.nan]])
    assert trees_of(booster, ("x",)).predict(absent) == pytest.approx(
        booster.predict(absent, raw_score=True)
    )


def test_written_trees_are_read_back_and_fitting_repeats() -> None:
    trees = fitted()
    back = read_trees(trees.to_bytes(), "judge")
    assert back.features == FEATURES
    assert np.array_equal(back.predict(data()[0]), trees.predict(data()[0]))
    assert fitted().to_bytes() == trees.to_bytes() == back.to_bytes()


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"left": "loop"}, "does not come after its parent"),
        ({"leaves": "short"}, "each leaf to be held once"),
        ({"threshold": "nan"}, "threshold holds values that are not finite"),
        ({"feature": "beyond"}, "feature: expected columns 0 to 2"),
    ],
)
def test_what_is_no_tree_is_refused(change: dict[str, str], said: str) -> None:
    trees = fitted()
    ((name, how),) = change.items()
    tensor = getattr(trees, name).copy()
    if how == "short":
        tensor = tensor[:-1]
    else:
        tensor[5] = {"loop": 0, "nan": np.nan, "beyond": 3}[how]
    with pytest.raises(ModelError, match=said):
        read_trees(replace(trees, **{name: tensor}).to_bytes(), "judge")


def test_other_files_are_refused() -> None:
    content = fitted().to_bytes()
    for damaged in (b"", b"x" * 100, content[:-8], content.replace(b"trees 1", b"trees 9")):
        with pytest.raises(ModelError, match="damaged"):
            read_trees(damaged, "judge")


def test_rows_of_another_width_are_refused() -> None:
    with pytest.raises(ValueError, match="rows of 3 columns"):
        fitted().predict(np.zeros((2, 4)))


def test_the_average_of_ensembles_says_what_they_say_on_average() -> None:
    ensembles = [fitted(seed) for seed in (1, 2, 3)]
    rows = data()[0]
    said = np.mean([one.predict(rows) for one in ensembles], axis=0)
    whole = read_trees(averaged(ensembles).to_bytes(), "judge")
    assert np.allclose(whole.predict(rows), said, atol=1e-12)
    assert not np.allclose(ensembles[0].predict(rows), said)

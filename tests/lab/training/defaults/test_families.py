"""Resampled files are files of their own: sizes, ids, labels, names first, the same each time."""

from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from kbforge.contracts import Fragment
from kbforge.errors import ModelError, UsageError
from kbforge.files.fragments import write_fragments
from kbforge.models.boosting import averaged, fit_trees, trees_of
from kbforge.models.trees import Trees, read_trees
from kbforge_lab.training.defaults.families import (
    FAMILIES,
    Family,
    family_named,
    generated,
    resampled,
    vast,
)
from kbforge_lab.training.defaults.pairs import (
    FamilyPairs,
    TrainingPairs,
    in_all_shapes,
)


def _name(entity: int) -> str:
    """Half of the entities share their name with two others; all share a word."""
    return f"Name{entity // 3 if entity < 300 else entity} Common"


@pytest.fixture(scope="module")
def toy(tmp_path_factory):
    """A family of one file: clusters of up to 1000, the label in every id."""
    root = tmp_path_factory.mktemp("data")
    fragments = [
        Fragment(
            f"label{entity}-{member}",
            {"city": (f"c{entity % 7}",), "name": (_name(entity),)},
            label=f"label{entity}",
            source="where",
        )
        for entity in range(600)
        for member in range(1000 if entity == 0 else entity % 5 + 1)
    ]
    write_fragments(fragments, root / "toy.jsonl")
    return root, Family("toy", ("toy.jsonl",), ships=True)


def test_files_are_small_and_say_nothing_of_their_labels(toy):
    files = list(resampled(*toy, 24, seed=1))
    assert len({file.name for file in files}) == 24
    for file in files:
        assert 150 <= len(file.fragments) <= 600 + 120
        ids = [f.id for f in file.fragments]
        assert len(set(ids)) == len(ids)
        assert not any("label" in fragment_id for fragment_id in ids)
        assert all(f.label and f.source is None for f in file.fragments)
        assert all(next(iter(f.properties)) == "name" for f in file.fragments)
        assert max(Counter(f.label for f in file.fragments).values()) <= 144


def test_files_vary_and_repeat(toy):
    files = list(resampled(*toy, 24, seed=1))
    assert files[:5] == list(resampled(*toy, 5, seed=1))
    assert files[:5] != list(resampled(*toy, 5, seed=2))
    names_only = [all("city" not in f.properties for f in file.fragments) for file in files]
    assert 0 < sum(names_only) < 24
    # shares of fragments whose name another entity bears
    shares = []
    for file in files:
        bearers: dict[str, set[str | None]] = {}
        for f in file.fragments:
            bearers.setdefault(f.names[0], set()).add(f.label)
        shares.append(
            sum(len(bearers[f.names[0]]) > 1 for f in file.fragments) / len(file.fragments)
        )
    assert max(shares) - min(shares) > 0.4


def test_generated_files():
    files = list(generated(9, seed=5))
    assert files == list(generated(9, seed=5))
    assert {file.name.split("-")[0] for file in files} == {"people", "organisations", "products"}
    for file in files:
        assert file.family == "generated"
        assert len({f.id for f in file.fragments}) == len(file.fragments) >= 150
        assert all(f.names and f.label for f in file.fragments)
    assert list(resampled(Path("nowhere"), family_named("generated"), 9, seed=5)) == files


def test_made_up_catalogues():
    family = family_named("catalogues")
    files = list(resampled(Path("nowhere"), family, 8, seed=5))
    assert files == list(resampled(Path("nowhere"), family, 8, seed=5))
    (vast_one,) = list(vast(Path("nowhere"), family, 1, seed=5))
    assert len(vast_one.fragments) >= 3_000
    for file in files:
        assert len({f.id for f in file.fragments}) == len(file.fragments) >= 150
        assert all(f.names and f.label for f in file.fragments)
    # variants of a line: titles that differ in a word are mostly of two products
    offers = [(f.label, frozenset(f.names[0].split())) for f in vast_one.fragments[:3_000]]
    of_words: dict[str, list[tuple[str | None, frozenset[str]]]] = {}
    for label, words in offers:
        for word in words:
            of_words.setdefault(word, []).append((label, words))
    near = {
        (a, b)
        for some in of_words.values()
        if len(some) < 50
        for k, (a, x) in enumerate(some)
        for b, y in some[:k]
        if len(x) > 4 and len(x ^ y) == 2
    }
    assert len(near) > 50
    assert sum(a == b for a, b in near) < len(near) / 2


def test_a_family_without_that_name():
    assert len({family.name for family in FAMILIES}) == len(FAMILIES)
    with pytest.raises(UsageError, match=r'expected one of febrl, .* got "febr"'):
        family_named("febr")


@pytest.mark.data
@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.name)
def test_every_family_can_be_drawn_from(family, data_dir):
    (file,) = resampled(data_dir, family, 1, seed=0)
    assert len(file.fragments) >= 150


@pytest.mark.parametrize(
    ("plain", "shaped", "share"), [(4, 0, 0.0), (4, 1, 0.2), (4, 2, 1 / 3), (4, 50, 1 / 3)]
)
def test_other_shapes_weigh_at_most_a_third_of_their_family(plain, shaped, share):
    file = TrainingPairs(np.zeros((1, 1), np.float32), np.zeros(1))
    weights = [w for _, w in in_all_shapes(FamilyPairs([file] * plain, [], [file] * shaped, []))]
    assert sum(weights) == pytest.approx(1.0)
    assert sum(weights[plain:]) == pytest.approx(share)


# Shipped trees predict what LightGBM predicts, and a damaged file is refused.


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
def test_sums_are_those_of_the_booster(objective, leaves):
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


def test_missing_values_in_columns_that_had_none():
    rows = np.random.default_rng(0).normal(size=(300, 1))
    booster = lightgbm.train(
        {"objective": "l2", "verbosity": -1}, lightgbm.Dataset(rows, rows[:, 0]), 5
    )
    absent = np.array([[np.nan]])
    assert trees_of(booster, ("x",)).predict(absent) == pytest.approx(
        booster.predict(absent, raw_score=True)
    )


def test_written_trees_are_read_back_and_fitting_repeats():
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
def test_what_is_no_tree_is_refused(change, said):
    trees = fitted()
    ((name, how),) = change.items()
    tensor = getattr(trees, name).copy()
    if how == "short":
        tensor = tensor[:-1]
    else:
        tensor[5] = {"loop": 0, "nan": np.nan, "beyond": 3}[how]
    with pytest.raises(ModelError, match=said):
        read_trees(replace(trees, **{name: tensor}).to_bytes(), "judge")


def test_other_files_are_refused():
    content = fitted().to_bytes()
    for damaged in (b"", b"x" * 100, content[:-8], content.replace(b"trees 1", b"trees 9")):
        with pytest.raises(ModelError, match="damaged"):
            read_trees(damaged, "judge")


def test_rows_of_another_width_are_refused():
    with pytest.raises(ValueError, match="rows of 3 columns"):
        fitted().predict(np.zeros((2, 4)))


def test_the_average_of_ensembles_says_what_they_say_on_average():
    ensembles = [fitted(seed) for seed in (1, 2, 3)]
    rows = data()[0]
    said = np.mean([one.predict(rows) for one in ensembles], axis=0)
    whole = read_trees(averaged(ensembles).to_bytes(), "judge")
    assert np.allclose(whole.predict(rows), said, atol=1e-12)
    assert not np.allclose(ensembles[0].predict(rows), said)

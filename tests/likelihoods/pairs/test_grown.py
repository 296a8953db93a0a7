"""Trees grown on labelled pairs: only where they predict labels of other entities, and kept."""

from itertools import pairwise

import numpy as np
import pytest

from kbforge.errors import ModelError
from kbforge.fit.labels import Labels
from kbforge.models.boosting import summed
from kbforge.models.bundle import Bundle, make_likelihood, write_bundle
from kbforge_plugins.likelihoods.pairs import grown as grown_module
from kbforge_plugins.likelihoods.pairs.grown import grown
from kbforge_plugins.likelihoods.pairs.likelihood import Pairs
from tests.fit.test_labels import FRAGMENTS, LABELLED

pytest.importorskip("lightgbm")

PLAIN = Pairs()
PLAIN.fit(FRAGMENTS)
ENTITIES = Labels("labels", {x.id: x.label for x in LABELLED[:80]}, ())
TAUGHT = ENTITIES.teach(PLAIN, FRAGMENTS)
LATER = LABELLED[80:]


def gains(model: Pairs) -> np.ndarray:
    """Of joining each two neighbours of what nobody labelled."""
    pairs = [[x, y] for x, y in pairwise(LATER)]
    return model.log_marginal(pairs)


def test_trees_are_added_and_those_of_the_model_stay():
    before, after = PLAIN.trees, TAUGHT.trees
    assert len(after.roots) > len(before.roots)
    assert np.array_equal(after.leaves[: len(before.leaves)], before.leaves)
    assert TAUGHT.lesson.loss_after < 0.1 * TAUGHT.lesson.loss_before
    rows = np.random.default_rng(0).normal(size=(50, len(before.features)))
    twice = summed([before, before]).predict(rows)
    assert twice == pytest.approx(2 * before.predict(rows))


def test_the_same_labels_teach_the_same():
    again = ENTITIES.teach(PLAIN, FRAGMENTS)
    assert again.to_bytes() == TAUGHT.to_bytes()
    assert again.layer == TAUGHT.layer


def test_pairs_of_one_entity_are_in_one_fold():
    rows = np.array([[0, 1], [1, 2], [3, 4], [2, 5], [5, 6], [7, 8]])
    same = np.array([1.0, 1.0, 1.0, 0.0, 0.9, 0.0])
    folds = grown_module._folds(rows, same)
    one = {int(x) for x in folds[[0, 1]].ravel()} | {int(folds[3, 0])}
    assert len(one) == 1
    assert folds[3, 1] == folds[4, 0] == folds[4, 1]
    assert len(np.unique(folds)) > 1


def test_labels_by_chance_grow_nothing():
    """The log odds are right, and the features say nothing more."""
    trees, rng = PLAIN.trees, np.random.default_rng(3)
    plain = rng.normal(size=400)
    features = rng.normal(size=(400, len(trees.features))).astype(np.float32)
    same = (rng.random(400) < 1 / (1 + np.exp(-plain))).astype(np.float64)
    rows = np.arange(800).reshape(-1, 2)
    kept, predicted = grown(trees, plain, features, same, rows)
    assert kept is trees
    assert predicted is plain


@pytest.mark.parametrize("labels", [0.0, 1.0])
def test_labels_of_one_kind_grow_nothing(labels):
    trees, n = PLAIN.trees, 60
    features = np.zeros((n, len(trees.features)), np.float32)
    told = np.zeros(n), features, np.full(n, labels), np.arange(2 * n).reshape(-1, 2)
    assert grown(trees, *told)[0] is trees


def test_a_written_model_does_the_same(tmp_path):
    bundle = Bundle(
        "likelihoods",
        "pairs",
        {"pairs.safetensors": TAUGHT.to_bytes()},
        {"layer": list(TAUGHT.layer), "link": None},
        {},
    )
    write_bundle(tmp_path / "model", bundle)
    loaded = make_likelihood(str(tmp_path / "model"))
    loaded.fit(FRAGMENTS)
    assert np.array_equal(gains(loaded), gains(TAUGHT))
    assert not np.array_equal(gains(loaded), gains(PLAIN))
    linked = make_likelihood(str(tmp_path / "model"), {"link": "shop"})
    assert linked.layer == ()
    other = make_likelihood(str(tmp_path / "model"), {"layer": "1.5"})
    assert other.layer == (1.5,)


@pytest.mark.parametrize(
    "recipe", [{}, {"layer": "x", "link": None}, {"layer": ["x"], "link": None}]
)
def test_a_damaged_model_is_refused(recipe, tmp_path):
    content = {"pairs.safetensors": TAUGHT.to_bytes()}
    write_bundle(tmp_path / "model", Bundle("likelihoods", "pairs", content, recipe, {}))
    with pytest.raises(ModelError, match="layer"):
        make_likelihood(str(tmp_path / "model"))

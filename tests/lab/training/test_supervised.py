"""Training by hidden entities."""

import numpy as np
import pytest

from kbforge.contracts import Fragment
from kbforge.errors import KBForgeError, ModelError, UsageError
from kbforge.models.bundle import read_bundle
from kbforge_lab.likelihoods.supervised import from_bundle
from kbforge_lab.training import supervised
from kbforge_lab.training.supervised import PARTS, train
from tests.people import people

NAMES = ("name=edit",)


def test_the_model_is_what_was_told(tmp_path):
    labelled, parts = people(9, 4), []
    stray = [Fragment("stray", {"name": ("Nobody",)})]
    found = train([*stray, *labelled], tmp_path / "model", NAMES, on_part=parts.append)
    assert parts == list(range(1, PARTS + 1))
    assert found.fragments == len(labelled) == len(found.trained.references)
    bundle = read_bundle(tmp_path / "model")
    assert from_bundle(bundle, "model") == found.trained
    assert bundle.data["fragments"] == len(labelled)
    assert found.linkage == max(found.dimensions.values())
    settings = found.trained.settings
    best = {"scdp": settings.choices[settings.model].score, "linkage": found.linkage}
    best["agglomerative"] = found.one_type
    assert best[found.best] == max(best.values())
    assert f"`{found.best}`" in bundle.files["MODEL_CARD.md"].decode()


def test_whole_entities_are_left_out(tmp_path):
    labelled = people(30, 4)
    kept = supervised._some(labelled, 40, np.random.default_rng(1))
    assert 30 < len(kept) <= 40
    names = {each.label for each in kept}
    assert kept == [each for each in labelled if each.label in names]
    found = train(labelled, tmp_path / "model", NAMES, most=40)
    assert len(found.trained.references) <= 40 < found.fragments == len(labelled)


def test_hidden_entities_are_whole_and_each_is_hidden_once():
    labelled = people(12, 4)
    compared = supervised.named(NAMES, labelled)
    hidden = supervised._HiddenEntities(labelled, compared, False, np.random.default_rng(1), None)
    seen: list[int] = []
    for data, gold in hidden._folds(hidden._columns.first(3)):
        names = set(gold.tolist())
        assert len(data.train) + len(data.test) == len(labelled)
        assert len(set(data.labels.tolist())) + len(names) == 12
        seen += names
    assert sorted(seen) == list(range(12))


def test_too_little_is_refused(tmp_path):
    apart = [Fragment(str(i), {"name": (f"n{i}",)}, label=str(i)) for i in range(20)]
    with pytest.raises(KBForgeError, match="3 of them with several fragments, got 20 and 0"):
        train(apart, tmp_path / "model")
    with pytest.raises(KBForgeError, match="expected at least 6 entities"):
        train(people(4, 1), tmp_path / "model")
    some = [Fragment(f"{i}", {}, (1.0 * i,) if i % 2 else None, str(i // 3)) for i in range(21)]
    with pytest.raises(UsageError, match="neither properties to compare nor vectors"):
        train(some, tmp_path / "model")
    (tmp_path / "mine").mkdir()
    with pytest.raises(ModelError, match="is not a model bundle"):
        train(people(9, 1), tmp_path / "mine")

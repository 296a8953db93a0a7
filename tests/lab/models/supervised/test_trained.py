"""Files of a model: what is written is read again, and nothing damaged is."""

import random
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import orjson
import pytest

from kbforge.contracts import Fragment
from kbforge.errors import KBForgeError, LikelihoodError, ModelError, UsageError
from kbforge.models.bundle import Bundle, make_likelihood, read_bundle, write_bundle
from kbforge.testing import examples
from kbforge_lab.likelihoods.supervised import (
    PLUGIN,
    REFERENCES,
    SETTINGS,
    Comparison,
    Supervised,
    SupervisedModel,
    files_of,
    from_bundle,
    slimmed,
)
from tests.lab.models.supervised.models import COMPARED, fitted, small_model, write
from tests.lab.models.supervised.models import SETTINGS as CHOSEN


def bundle(files: dict[str, bytes], plugin: str = PLUGIN) -> Bundle:
    return Bundle("likelihoods", plugin, files, {}, {})


def test_a_model_is_read_as_it_was_written(tmp_path):
    for vectors in (False, True):
        trained = small_model(vectors=vectors)
        folder = write(trained, tmp_path / f"model-{vectors}")
        assert from_bundle(read_bundle(folder), "model") == trained


def test_a_model_keeps_no_more_than_it_compares():
    items = examples.fragments(18)
    kept = slimmed(items, COMPARED, False)
    assert {name for each in kept for name in each.properties} == {"colour", "name"}
    assert all(each.vector is None and each.source is None for each in kept)
    assert {each.label for each in kept} == {"0", "1", "2"}
    gold = [item.label for item in items]
    numbers = SupervisedModel(COMPARED, False, kept, CHOSEN).labels
    assert len({*zip(gold, numbers, strict=True)}) == 3
    whole = slimmed(items, [Comparison("*", "rare-words")], True)
    assert [each.properties for each in whole] == [item.properties for item in items]
    assert [each.vector for each in whole] == [item.vector for item in items]


def test_a_reference_may_have_nothing_that_is_compared():
    items = [*examples.fragments(18), Fragment("odd", {"shoe": ("42",)}, label="person-1")]
    trained = small_model(items)
    assert trained.references[-1].properties == {}
    assert from_bundle(bundle(files_of(trained)), "model") == trained


def changed(key: str, value: Any) -> Callable[[dict[str, Any]], None]:
    def change(told: dict[str, Any]) -> None:
        told[key] = value

    return change


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (changed("format", 2), r"format: expected 1, got 2"),
        (changed("format", True), r"format: expected 1, got True"),
        (changed("surprise", 1), "an unknown field"),
        (changed("features", []), "features: expected at least one, or vectors, got none"),
        (changed("features", [{"attribute": "name"}]), r"features\[0\].feature"),
        (changed("vectors", "no"), "vectors: expected true or false"),
        (changed("dimensions", 0), "dimensions: expected a whole number above 0"),
        (changed("dimensions", 10**9), "dimensions: expected at most 1000"),
        (changed("model", 4), "model: expected 1, 2 or 3"),
        (changed("factor", float("nan")), "factor"),
        (changed("factor", 0), "factor: expected a number from"),
        (changed("choices", {}), "choices.1: expected a table"),
        (lambda told: told["choices"]["3"].update(rate=-1), "choices.3.rate"),
        (lambda told: told["choices"]["1"].update(power=2), "choices.1.power"),
        (lambda told: told["choices"]["2"].update(start="linked"), "an unknown field"),
        (lambda told: told["choices"].update({"4": {}}), "an unknown field"),
    ],
)
def test_settings_that_cannot_be_are_refused(change, says):
    files = files_of(small_model())
    told = orjson.loads(files[SETTINGS])
    change(told)
    with pytest.raises(ModelError, match=says):
        from_bundle(bundle({**files, SETTINGS: orjson.dumps(told)}), "model")


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"", "expected from 2 to 5,000 lines, got 0"),
        (b'{"properties":{"name":["a"]},"label":"0"}\n' * 2, "expected at least two entities"),
        (b'{"properties":{"name":["a"]},"label":"0"}\n{"properties":{}}\n', "jsonl:2"),
        (b'{"properties":{"name":["a"]},"label":"0"}\n[]\n', "jsonl:2: expected a JSON object"),
        (b'{"properties":{"name":["a"]},"label":"0"}\nnot\n', "jsonl:2 is not JSON"),
        (b'{"properties":{"name":["a"]}}\n' * 2, "jsonl:1: expected a label, got nothing"),
        (b'{"properties":{"name":[1]},"label":"0"}\n' * 2, "properties.name"),
        (b"\xff\n\xff\n", "jsonl:1 is not JSON"),
        (b"{}\n" * 6000, "got 6,000"),
    ],
)
def test_references_that_cannot_be_are_refused(content, says):
    files = {**files_of(small_model()), REFERENCES: content}
    with pytest.raises(ModelError, match=says):
        from_bundle(bundle(files), "model")


def test_files_of_another_model_are_refused(tmp_path):
    files = files_of(small_model())
    with pytest.raises(ModelError, match="is a model for bigram, expected supervised"):
        from_bundle(bundle(files, "bigram"), "model")
    with pytest.raises(ModelError, match=f"has no {REFERENCES}"):
        from_bundle(bundle({SETTINGS: files[SETTINGS]}), "model")
    with pytest.raises(ModelError, match='"extra" does not belong to such a model'):
        from_bundle(bundle({**files, "extra": b""}), "model")
    folder = write(small_model(), tmp_path / "model")
    (folder / SETTINGS).write_bytes(b"{}")
    with pytest.raises(ModelError, match="its manifest says"):
        make_likelihood(str(folder))


def test_no_damage_of_a_byte_goes_further_than_one_sentence(tmp_path):
    """Whatever a file says that the manifest accounts for, it is read or refused."""
    rng, said = random.Random(4), []
    items = examples.fragments(4)
    for name, content in files_of(small_model()).items():
        for _ in range(60):
            damaged = bytearray(content)
            damaged[rng.randrange(len(damaged))] = rng.randrange(256)
            files = {**files_of(small_model()), name: bytes(damaged)}
            folder = tmp_path / "model"
            write_bundle(folder, bundle(files))
            try:
                make_likelihood(str(folder)).fit(items)
            except KBForgeError as error:
                said.append(str(error))
    assert len(said) > 20
    assert not [sentence for sentence in said if "\n" in sentence]


def test_a_feature_that_is_not_installed_is_named(tmp_path):
    trained = replace(small_model(), compared=(Comparison("name", "gone"),))
    likelihood = make_likelihood(str(write(trained, tmp_path / "model")))
    with pytest.raises(UsageError, match='there is no feature "gone"'):
        likelihood.fit(examples.fragments(4))


def test_a_model_is_named_once():
    with pytest.raises(UsageError, match="kbforge lab train-supervised makes one"):
        make_likelihood("supervised")
    with pytest.raises(ModelError, match="there is no model bundle at nowhere"):
        make_likelihood("supervised", {"model": "nowhere"})


def test_fragments_that_it_was_not_fitted_to_are_named():
    items = examples.fragments(8)
    likelihood = fitted(items)
    other = Fragment("other", {"name": ("Somebody Else",)})
    with pytest.raises(LikelihoodError, match='got "other"; all fragments are embedded'):
        likelihood.log_marginal([[items[0], other]])
    with pytest.raises(LikelihoodError, match="expected a fragment that the model was fitted to"):
        Supervised.of(small_model()).log_marginal([[items[0]]])


def test_fragments_without_what_the_model_compares_are_refused():
    likelihood = Supervised.of(small_model())
    with pytest.raises(UsageError, match=r"an attribute that the model compares \(colour, name\)"):
        likelihood.fit([Fragment("a", {"shoe": ("42",)}), Fragment("b", {"shoe": ("43",)})])


def test_too_many_fragments_are_refused():
    likelihood = Supervised.of(small_model())
    with pytest.raises(UsageError, match=r"expected at most 5,?000 fragments, got 5,?001"):
        likelihood.fit(examples.fragments(5_001))


def test_labelled_and_new_fragments_that_agree_are_at_one_place():
    items = examples.fragments(18)
    data = fitted(items).vectors(items)
    np.testing.assert_array_equal(data.train, data.test)

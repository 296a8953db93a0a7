"""The default models are what their manifest says, and no absurd number of theirs is used."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from safetensors.numpy import load, save

from kbforge.errors import ModelError
from kbforge.fit.confidence import CONFIDENCE_FILE
from kbforge.models.bundle import FILES, MANIFEST, default_folder, list_defaults, read_default
from kbforge.models.trees import read_trees
from tests.people import write_people
from tests.profile import examples

SHIPPED = default_folder(None, CONFIDENCE_FILE)
CONTENTS = {name: (SHIPPED / name).read_bytes() for name in FILES}
TREES = {
    "pairs": load(CONTENTS["pairs.safetensors"])["fragments"].tobytes(),
    "entities": load(CONTENTS["confidence.safetensors"])["entities"].tobytes(),
}


@pytest.fixture
def folder(tmp_path):
    return Path(shutil.copytree(SHIPPED, tmp_path / "models"))


def test_what_ships_is_listed_whole():
    listed = json.loads((SHIPPED / MANIFEST).read_bytes())["files"]
    assert sorted(listed) == sorted(FILES)
    assert {name: read_default(SHIPPED, name) for name in FILES} == CONTENTS


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("place", [0, -1])
def test_a_changed_byte_is_noticed(folder, name, place):
    content = bytearray(CONTENTS[name])
    content[place] ^= 1
    (folder / name).write_bytes(content)
    with pytest.raises(ModelError, match=f'models is damaged: "{name}" has SHA-256'):
        read_default(folder, name)
    list_defaults(folder)
    assert read_default(folder, name) == bytes(content)


@pytest.mark.parametrize("name", FILES)
def test_every_verb_that_takes_the_models_notices_damage(program, folder, name):
    """By the plain default, which reads all of them."""
    people = write_people(folder.parent / "people.jsonl", 10)
    (folder / name).write_bytes(CONTENTS[name] + b" ")
    out = folder.parent / "kb.jsonl"
    ran = program("cluster", people, "--set", f"defaults={folder}", "-o", out)
    assert ran.code == 1
    assert f'is damaged: "{name}" has' in ran.err
    assert not out.exists()


def test_a_folder_says_which_of_them_it_has(folder):
    (folder / CONFIDENCE_FILE).unlink()
    with pytest.raises(
        ModelError, match=f'the file "{CONFIDENCE_FILE}" of its manifest is missing'
    ):
        read_default(folder, CONFIDENCE_FILE)
    list_defaults(folder)
    with pytest.raises(ModelError, match=f'"{CONFIDENCE_FILE}" is not in the manifest'):
        read_default(folder, CONFIDENCE_FILE)
    assert default_folder(str(folder), CONFIDENCE_FILE) == SHIPPED
    (folder / MANIFEST).unlink()
    with pytest.raises(ModelError, match=r"no manifest.json \(kbforge lab train-default writes"):
        read_default(folder, FILES[0])


def spoilt(content: bytes, name: str, place: int, value: float) -> bytes:
    """The same tensors with one number of one of them replaced."""
    header = json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")])
    tensors = load(content)
    tensor = tensors[name].copy()
    tensor[place % len(tensor)] = value
    return bytes(save({**tensors, name: tensor}, metadata=header.get("__metadata__")))


SUMMED = ("leaves", "offset", "threshold")
POINTING = ("left", "right", "roots", "feature")


NAMES, PLACES = st.sampled_from(sorted(TREES)), st.integers(0, 10**6)
ABSURD = st.sampled_from([np.nan, np.inf, -np.inf, 1e300, -1e300, 1.1e6])
SMALL_OR_ANY = st.one_of(st.integers(-(2**31), 2**31 - 1), st.integers(-10, 10))


@examples(60)
@given(NAMES, st.sampled_from(SUMMED), PLACES, ABSURD)
def test_absurd_numbers_in_trees_are_refused(name, tensor, place, value):
    """A threshold of 1e300 is none: so LightGBM writes that only missing values go right."""
    content = spoilt(TREES[name], tensor, place, value)
    if tensor == "threshold" and np.isfinite(value):
        read_trees(content, name)
        return
    with pytest.raises(ModelError, match=rf"^{name}: {tensor}.*(finite|to 1e\+06, got)"):
        read_trees(content, name)


@examples(60)
@given(NAMES, st.sampled_from(POINTING), PLACES, SMALL_OR_ANY)
def test_trees_that_point_elsewhere_are_refused(name, tensor, place, value):
    """Out of range, into a circle, or twice at one node; a feature only out of range."""
    before = load(TREES[name])[tensor]
    features = len(read_trees(TREES[name], name).features)
    content = spoilt(TREES[name], tensor, place, value)
    whole = tensor == "feature" and 0 <= value < features
    if whole or before[place % len(before)] == value:
        read_trees(content, name)
        return
    with pytest.raises(ModelError, match=f"^{name}: "):
        read_trees(content, name)

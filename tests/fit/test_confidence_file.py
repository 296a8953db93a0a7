"""The confidence map as a file: read back as written, anything else is one sentence."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kbforge.errors import KBForgeError
from kbforge.fit.alpha import read_calibration, to_toml
from kbforge.fit.confidence import (
    Band,
    MonotoneConfidence,
    MonotoneMap,
    confidence_toml,
    read_confidence,
)
from tests.fit.test_calibration_file import GOOD as CALIBRATION
from tests.fit.test_calibration_file import options, texts

GOOD = """format = 1
kbforge = "0.1.0"
[likelihood]
name = "bigram"
[likelihood.options]
scale = "25"
[clustering]
clusterer = "split-smc"
alpha = 12.5
temperature = 1.0
shuffles = 1
[data]
fragments = 5000
sha256 = "ab"
[[pairs]]
largest = 4
claims = 120
reported = [0.02, 0.5, 0.999]
calibrated = [0.04, 0.4, 0.95]
[[pairs]]
claims = 9
reported = [1]
calibrated = [0.5]
[[entities]]
claims = 12
reported = [0.25, 1.0]
calibrated = [0.125, 0.5]
"""


@st.composite
def maps(draw):
    edges = sorted(draw(st.sets(st.integers(1, 4096), max_size=4)))
    bands = []
    for largest in (*edges, math.inf):
        reported = sorted(draw(st.sets(st.floats(0, 1), min_size=1, max_size=5)))
        size = len(reported)
        calibrated = sorted(draw(st.lists(st.floats(0, 1), min_size=size, max_size=size)))
        claims = draw(st.integers(1, 10**9))
        bands.append(Band(float(largest), claims, tuple(reported), tuple(calibrated)))
    return MonotoneMap(tuple(bands))


found = st.builds(
    MonotoneConfidence,
    pairs=maps(),
    entities=maps(),
    likelihood=texts,
    clusterer=texts,
    alpha=st.floats(1e-300, 1e300),
    temperature=st.floats(0.01, 100),
    shuffles=st.integers(1, 99),
    fragments=st.integers(1, 10**9),
    sha256=texts,
    options=options,
)


@given(found)
def test_what_was_written_is_read(tmp_path_factory, written):
    path = tmp_path_factory.getbasetemp() / "confidence.toml"
    path.write_bytes(confidence_toml(written))
    assert read_confidence(str(path)) == written


@given(found)
def test_it_travels_in_a_calibration_file(tmp_path_factory, written):
    path = tmp_path_factory.getbasetemp() / "calibration.toml"
    path.write_text(CALIBRATION)
    plain = read_calibration(str(path))
    assert plain.confidence is None
    path.write_bytes(to_toml(replace(plain, confidence=written)))
    assert read_calibration(str(path)) == replace(plain, confidence=written)


def test_the_documented_file_is_read(tmp_path):
    path = tmp_path / "c.toml"
    path.write_text(GOOD)
    read = read_confidence(str(path))
    assert read.pairs.one(0.5, 4) == pytest.approx(0.4)
    assert read.pairs.one(0.5, 5) == pytest.approx(0.5)
    assert read.entities.one(1, 100) == pytest.approx(0.5)


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("format = 1\n", "format = 2\n", "format: expected 1, got 2"),
        ("format = 1\n", "format = 1\nmore = 1\n", "more: expected one of"),
        ("alpha = 12.5", "alpha = 0.0", "clustering.alpha: expected a number above 0, got 0.0"),
        ("temperature = 1.0", "temperature = -1", "clustering.temperature: expected a number"),
        ("shuffles = 1", 'shuffles = "1"', "clustering.shuffles: expected a whole number, got 1"),
        ("shuffles = 1", "shuffles = 0", "clustering.shuffles: expected a whole number above 0"),
        ("fragments = 5000", "fragments = -1", "data.fragments: expected a whole number above 0"),
        ("claims = 120", "claims = -5", "pairs[0].claims: expected a whole number above 0, got -5"),
        ("largest = 4", "largest = -4", "pairs[0].largest: expected more than 0, got -4"),
        ("[data]", "[date]", "date: expected one of"),
        ("largest = 4", "", "pairs[0].largest: expected a number, got nothing"),
        ("claims = 9", "claims = 9\nlargest = 8", "pairs[1].largest: expected nothing, for it is"),
        (
            "[[pairs]]\nclaims = 9",
            "[[pairs]]\nlargest = 3\nclaims = 1\nreported = [1]\ncalibrated = [1]\n"
            "[[pairs]]\nclaims = 9",
            "pairs[1].largest: expected more than 4, got 3",
        ),
        ("claims = 12\n", "claims = 1.5\n", "entities[0].claims: expected a whole number, got 1.5"),
        ("[0.25, 1.0]", "[]", "entities[0].reported: expected at least one number, got none"),
        ("[0.25, 1.0]", "[0.25]", "entities[0].calibrated: expected 1 numbers, as many as"),
        ("[0.25, 1.0]", "[1.0, 0.25]", "reported: expected numbers that never descend, got 0.25"),
        ("[0.25, 1.0]", "[0.25, 1.5]", "reported: expected numbers from 0 to 1, got 1.5"),
        ("[0.25, 1.0]", "[0.25, nan]", "reported: expected a finite number, got nan"),
        ("[0.25, 1.0]", '[0.25, "x"]', "reported: expected a number, got x"),
        ("[0.25, 1.0]", "[0.25, true]", "reported: expected a number, got True"),
        ("[0.25, 1.0]", "3", "entities[0].reported: expected an array, got 3"),
        ("[0.125, 0.5]", "[0.5, 0.125]", "expected numbers that never descend, got 0.125 after"),
        ("[[entities]]", "[entities]", "entities: expected an array, got "),
        ("[[entities]]", "[[entity]]", "entity: expected one of"),
        (GOOD[GOOD.index("[[entities]]") :], "", "entities: expected an array, got nothing"),
        ("format = 1\n", "format = 1\nentities = []\n", "expected TOML"),
        ("format = 1\n", "\n", "format: expected a whole number, got nothing"),
    ],
)
def test_bad_files_give_one_sentence_with_the_field(tmp_path, old, new, said):
    path = tmp_path / "c.toml"
    assert old in GOOD
    path.write_text(GOOD.replace(old, new))
    with pytest.raises(KBForgeError) as caught:
        read_confidence(str(path))
    assert said in str(caught.value)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_bad_map_within_a_calibration_file_is_named(tmp_path):
    path = tmp_path / "c.toml"
    path.write_text(CALIBRATION + "[confidence]\nformat = 1\nmore = 2\n")
    with pytest.raises(KBForgeError, match=r"confidence\.more: expected one of"):
        read_calibration(str(path))


def test_empty_arrays_are_refused(tmp_path):
    path = tmp_path / "c.toml"
    start = GOOD.index("[[pairs]]")
    path.write_text("pairs = []\nentities = []\n" + GOOD[:start])
    with pytest.raises(KBForgeError, match="pairs: expected at least one table, got none"):
        read_confidence(str(path))

"""The laws of `kbforge_lab.features`, for each of them."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from kbforge.contracts import Fragment
from kbforge.testing import examples
from kbforge_lab.features import ALL, FEATURES, Feature

FRAGMENTS = [
    replace(one, properties={**one.properties, "born": (f"in {1900 + i}",)})
    for i, one in enumerate(examples.fragments())
]
Make = Callable[[], Feature]


CASES = [("years", "born"), ("rare-words", ALL), *((name, "name") for name in FEATURES)]


@pytest.fixture(params=[case for case in CASES if case != ("years", "name")], ids=" ".join)
def make(request):
    name, attribute = request.param
    return lambda: FEATURES[name](attribute)


def fitted(make: Make) -> Feature:
    feature = make()
    feature.fit(FRAGMENTS)
    return feature


def readings_of(feature: Feature) -> list[str]:
    """The different readings of the fragments, in their order."""
    found = [feature.reading(fragment) for fragment in FRAGMENTS]
    return list(dict.fromkeys(each for each in found if each is not None))


def test_a_reading_is_a_text_or_nothing(make):
    feature = fitted(make)
    assert len(readings_of(feature)) > 1
    assert all(isinstance(reading, str) for reading in readings_of(feature))
    assert feature.reading(Fragment("bare", {}, (0.0,))) is None


def test_labels_and_ids_are_not_read(make):
    feature, items = fitted(make), FRAGMENTS
    for fragment, blind in zip(items, examples.without_gold(items), strict=True):
        assert feature.reading(replace(blind, id="another")) == feature.reading(fragment)


def test_distances_are_from_0_to_1(make):
    feature = fitted(make)
    readings = readings_of(feature)
    found = feature.distances(readings, readings[:-1])
    assert found.shape == (len(readings), len(readings) - 1)
    assert found.dtype == np.float64
    assert np.isfinite(found).all()
    assert found.min() >= 0
    assert 0 < found.max() <= 1


def test_equal_readings_are_together(make):
    feature = fitted(make)
    readings = readings_of(feature)
    assert (feature.distances(readings, readings).diagonal() == 0).all()


def test_the_way_round_does_not_matter(make):
    feature = fitted(make)
    readings = readings_of(feature)
    found = feature.distances(readings, readings)
    assert (found == found.T).all()


def test_who_else_is_compared_does_not_matter(make):
    feature = fitted(make)
    readings = readings_of(feature)
    whole = feature.distances(readings, readings)
    alone = [[feature.distances([x], [y])[0, 0] for y in readings] for x in readings]
    assert (whole == np.array(alone)).all()


def test_deterministic(make):
    one, other = fitted(make), fitted(make)
    readings = readings_of(one)
    assert readings == readings_of(other)
    assert (one.distances(readings, readings) == other.distances(readings, readings)).all()


def test_readings_that_it_has_not_seen_are_compared_too(make):
    *items, last = FRAGMENTS
    feature = make()
    feature.fit(items)
    readings = readings_of(feature)
    new = Fragment("new", dict.fromkeys(last.properties, ("ünseen 1789",)))
    read = [each for each in [feature.reading(new)] if each is not None]
    found = feature.distances([*readings, *read], [*readings, *read])
    assert ((found >= 0) & (found <= 1)).all()

"""The laws of `kbforge_lab.contracts.feature`, as tests."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np

from kbforge.contracts import Fragment
from kbforge.testing import examples
from kbforge.testing.contract import Contract


class FeatureContract(Contract):
    """Distances from 0 to 1, symmetric, 0 between equals, of what the properties say."""

    kind: ClassVar[str] = "features"

    def fragments(self) -> Sequence[Fragment]:
        """Fragments with at least two different readings; override for other attributes."""
        return examples.fragments()

    def fitted(self) -> Any:
        """The feature, fitted to the fragments."""
        feature = self.make()
        feature.fit(self.fragments())
        return feature

    def readings(self, feature: Any) -> list[str]:
        """The different readings of the fragments, in their order."""
        found = [feature.reading(fragment) for fragment in self.fragments()]
        return list(dict.fromkeys(each for each in found if each is not None))

    def test_a_reading_is_a_text_or_nothing(self) -> None:
        feature = self.fitted()
        assert len(self.readings(feature)) > 1
        assert all(isinstance(reading, str) for reading in self.readings(feature))
        assert feature.reading(Fragment("bare", {}, (0.0,))) is None

    def test_labels_and_ids_are_not_read(self) -> None:
        feature, items = self.fitted(), self.fragments()
        for fragment, blind in zip(items, examples.without_gold(items), strict=True):
            assert feature.reading(replace(blind, id="another")) == feature.reading(fragment)

    def test_distances_are_from_0_to_1(self) -> None:
        feature = self.fitted()
        readings = self.readings(feature)
        found = feature.distances(readings, readings[:-1])
        assert found.shape == (len(readings), len(readings) - 1)
        assert found.dtype == np.float64
        assert np.isfinite(found).all()
        assert found.min() >= 0
        assert 0 < found.max() <= 1

    def test_equal_readings_are_together(self) -> None:
        feature = self.fitted()
        readings = self.readings(feature)
        assert (feature.distances(readings, readings).diagonal() == 0).all()

    def test_the_way_round_does_not_matter(self) -> None:
        feature = self.fitted()
        readings = self.readings(feature)
        found = feature.distances(readings, readings)
        assert (found == found.T).all()

    def test_who_else_is_compared_does_not_matter(self) -> None:
        feature = self.fitted()
        readings = self.readings(feature)
        whole = feature.distances(readings, readings)
        alone = [[feature.distances([x], [y])[0, 0] for y in readings] for x in readings]
        assert (whole == np.array(alone)).all()

    def test_deterministic(self) -> None:
        one, other = self.fitted(), self.fitted()
        readings = self.readings(one)
        assert readings == self.readings(other)
        assert (one.distances(readings, readings) == other.distances(readings, readings)).all()

    def test_readings_that_it_has_not_seen_are_compared_too(self) -> None:
        *items, last = self.fragments()
        feature = self.make()
        feature.fit(items)
        readings = self.readings(feature)
        new = Fragment("new", dict.fromkeys(last.properties, ("ünseen 1789",)))
        read = [each for each in [feature.reading(new)] if each is not None]
        found = feature.distances([*readings, *read], [*readings, *read])
        assert ((found >= 0) & (found <= 1)).all()

"""Maps that were kept say what they said before, bit for bit."""

from __future__ import annotations

import numpy as np
import pytest

from kbforge.contracts import Fragment
from kbforge.errors import KBForgeError, ModelError
from kbforge.fit.choices import Choices
from kbforge.fit.confidence import Band, ConfidenceMap, MonotoneMap, Reading, Reported
from kbforge.fit.description import Heard, Predicted
from kbforge.fit.maps import Answered, Audit, Doubt, kept_reading, reading_from, shipped_doubt
from kbforge.fit.models import Prepared
from kbforge.fit.prepare import prepare
from kbforge.testing.keeping import not_refused, same, stored
from tests.fit.test_covariates import entities_of, pairs_of
from tests.fit.test_shipped import write
from tests.people import people

MAP = ConfidenceMap(
    MonotoneMap((Band(4.0, 12, (0.02, 0.5), (0.1, 1 / 3)), Band(np.inf, 3, (0.5,), (0.7,)))),
    MonotoneMap((Band(np.inf, 3, (0.1, 0.5), (0.2, 0.7)),)),
    "a \"likelihood\" of 'mine'",
    "split-smc",
    12.123456789012345,
    1.0,
    2,
    500,
    "0" * 64,
    {"scale": "25"},
)


def told(reading: Reading, fragments: list[Fragment]) -> tuple[list[float], list[float]]:
    """What a map says of the fragments, two by two."""
    clusters = [tuple(range(len(fragments)))[k : k + 2] for k in range(0, len(fragments), 2)]
    said = np.linspace(0.05, 1.0, len(clusters))
    reported = Reported(fragments, entities_of(*clusters, probability=said))
    return (
        reading.of_entities(reported).tolist(),
        reading.of_pairs(reported, pairs_of(*(c for c in clusters if len(c) == 2))).tolist(),
    )


@pytest.fixture(scope="module")
def prepared() -> tuple[list[Fragment], Prepared]:
    fragments = people(60, 5)
    return fragments, prepare(fragments, Choices())


def test_a_map_of_reports() -> None:
    fragments = people(10, 1)
    read = reading_from(stored(kept_reading(MAP)))
    assert read == MAP
    assert told(read, fragments) == told(MAP, fragments)


def test_the_map_that_a_run_prepares(prepared: tuple[list[Fragment], Prepared]) -> None:
    fragments, how = prepared
    reading = how.confidence
    assert isinstance(reading, Doubt)
    assert reading.heard.predicted is not None
    kept = stored(kept_reading(reading))
    read = reading_from(kept, reading.heard.pairs)
    assert told(read, fragments) == told(reading, fragments)
    assert same(kept_reading(read), kept)
    # some are gone, some have come, and the order is another one
    later = [*people(3, 9), *fragments[:30:-1]]
    assert told(read, later) == told(reading, later)


def test_a_map_that_has_heard_answers(prepared: tuple[list[Fragment], Prepared]) -> None:
    fragments, how = prepared
    doubt = how.confidence
    assert isinstance(doubt, Doubt)
    audits = tuple(Audit(fragments[k].id, fragments[k + 1].id, k % 3 > 0) for k in range(0, 9, 2))
    reading = Answered(doubt, audits)
    read = reading_from(stored(kept_reading(reading)), doubt.heard.pairs)
    assert told(read, fragments) == told(reading, fragments) != told(doubt, fragments)


def test_maps_of_a_folder_are_named_and_not_copied(tmp_path) -> None:
    fragments = people(10, 1)
    heard = Heard("bigram")
    reading = shipped_doubt(heard, str(write(tmp_path)))
    kept = stored(kept_reading(reading))
    assert told(reading_from(kept, defaults=str(tmp_path)), fragments) == told(reading, fragments)
    assert told(reading_from(kept), fragments) != told(reading, fragments)


def test_it_needs_the_model_of_pairs_that_it_heard(
    prepared: tuple[list[Fragment], Prepared],
) -> None:
    reading = prepared[1].confidence
    assert reading is not None
    with pytest.raises(ModelError, match="made with a model of pairs, and none is given"):
        reading_from(kept_reading(reading))


@pytest.mark.parametrize("kind", ["map", "doubt", "answered"])
def test_nothing_damaged_is_read(kind: str) -> None:
    fragments = people(3, 1)
    weights, labels = np.array([0.25, 0.75]), np.zeros((2, len(fragments)), np.int64)
    predicted = Predicted.of(0.8, 0.1, weights, labels, fragments)
    doubt = shipped_doubt(Heard("names", None, predicted))
    readings: dict[str, Reading] = {
        "map": MAP,
        "doubt": doubt,
        "answered": Answered(doubt, (Audit("a", "b", True),)),
    }
    assert not_refused(reading_from, kept_reading(readings[kind])) == []


def test_a_map_of_nobody_knows_whom_is_not_kept() -> None:
    with pytest.raises(KBForgeError, match="object cannot be kept"):
        kept_reading(object())  # type: ignore[arg-type]

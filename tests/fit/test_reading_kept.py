"""Maps that were kept say what they said before, bit for bit."""

from __future__ import annotations

import numpy as np
import pytest

from kbforge.contracts import Fragment
from kbforge.errors import KBForgeError, ModelError
from kbforge.fit.choices import Choices
from kbforge.fit.confidence import (
    Band,
    ClusteringReport,
    ConfidenceMap,
    MonotoneConfidence,
    MonotoneMap,
)
from kbforge.fit.description import FileContext, Prediction
from kbforge.fit.maps import (
    Audit,
    AuditedConfidence,
    TreeConfidence,
    kept_map,
    map_from,
    shipped_confidence,
)
from kbforge.fit.models import Fit
from kbforge.fit.prepare import prepare
from kbforge.testing.keeping import not_refused, same, stored
from tests.fit.test_covariates import entities_of, pairs_of
from tests.fit.test_shipped import write
from tests.people import people

MAP = MonotoneConfidence(
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


def told(reading: ConfidenceMap, fragments: list[Fragment]) -> tuple[list[float], list[float]]:
    """What a map says of the fragments, two by two."""
    clusters = [tuple(range(len(fragments)))[k : k + 2] for k in range(0, len(fragments), 2)]
    said = np.linspace(0.05, 1.0, len(clusters))
    reported = ClusteringReport(fragments, entities_of(*clusters, probability=said))
    return (
        reading.of_entities(reported).tolist(),
        reading.of_pairs(reported, pairs_of(*(c for c in clusters if len(c) == 2))).tolist(),
    )


@pytest.fixture(scope="module")
def prepared() -> tuple[list[Fragment], Fit]:
    fragments = people(60, 5)
    return fragments, prepare(fragments, Choices())


def test_a_map_of_reports() -> None:
    fragments = people(10, 1)
    read = map_from(stored(kept_map(MAP)))
    assert read == MAP
    assert told(read, fragments) == told(MAP, fragments)


def test_the_map_that_a_run_prepares(prepared: tuple[list[Fragment], Fit]) -> None:
    fragments, how = prepared
    reading = how.confidence
    assert isinstance(reading, TreeConfidence)
    assert reading.context.predicted is not None
    kept = stored(kept_map(reading))
    read = map_from(kept, reading.context.pairs)
    assert told(read, fragments) == told(reading, fragments)
    assert same(kept_map(read), kept)
    # some are gone, some have come, and the order is another one
    later = [*people(3, 9), *fragments[:30:-1]]
    assert told(read, later) == told(reading, later)


def test_a_map_that_has_heard_answers(prepared: tuple[list[Fragment], Fit]) -> None:
    fragments, how = prepared
    doubt = how.confidence
    assert isinstance(doubt, TreeConfidence)
    audits = tuple(Audit(fragments[k].id, fragments[k + 1].id, k % 3 > 0) for k in range(0, 9, 2))
    reading = AuditedConfidence(doubt, audits)
    read = map_from(stored(kept_map(reading)), doubt.context.pairs)
    assert told(read, fragments) == told(reading, fragments) != told(doubt, fragments)


def test_maps_of_a_folder_are_named_and_not_copied(tmp_path) -> None:
    fragments = people(10, 1)
    context = FileContext("bigram")
    reading = shipped_confidence(context, str(write(tmp_path)))
    kept = stored(kept_map(reading))
    assert told(map_from(kept, defaults=str(tmp_path)), fragments) == told(reading, fragments)
    assert told(map_from(kept), fragments) != told(reading, fragments)


def test_it_needs_the_model_of_pairs_that_it_heard(
    prepared: tuple[list[Fragment], Fit],
) -> None:
    reading = prepared[1].confidence
    assert reading is not None
    with pytest.raises(ModelError, match="made with a model of pairs, and none is given"):
        map_from(kept_map(reading))


@pytest.mark.parametrize("kind", ["map", "doubt", "answered"])
def test_nothing_damaged_is_read(kind: str) -> None:
    fragments = people(3, 1)
    weights, labels = np.array([0.25, 0.75]), np.zeros((2, len(fragments)), np.int64)
    predicted = Prediction.of(0.8, 0.1, weights, labels, fragments)
    doubt = shipped_confidence(FileContext("names", None, predicted))
    readings: dict[str, ConfidenceMap] = {
        "map": MAP,
        "doubt": doubt,
        "answered": AuditedConfidence(doubt, (Audit("a", "b", True),)),
    }
    assert not_refused(map_from, kept_map(readings[kind])) == []


def test_a_map_of_nobody_knows_whom_is_not_kept() -> None:
    with pytest.raises(KBForgeError, match="object cannot be kept"):
        kept_map(object())  # type: ignore[arg-type]

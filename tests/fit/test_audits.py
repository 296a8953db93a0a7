"""A map that has heard answers believes entities as often as audits found them right."""

from __future__ import annotations

import numpy as np

from kbforge.contracts import Fragment
from kbforge.evaluation.reliability import ReportedEntities, ReportedPairs
from kbforge.files.answers import NumberedAnswer
from kbforge.fit.confidence import ClusteringReport
from kbforge.fit.maps import AuditedConfidence, Shift, shift_by

CLUSTERS = ((0, 1), (2, 3), (4,), (5,))
SURE = np.array([0.9, 0.8, 0.7, 0.6])


class Fixed:
    """A map that says the same of all data."""

    def of_entities(self, reported: ClusteringReport) -> np.ndarray:
        return SURE[: len(reported.entities)]

    def of_pairs(self, reported: ClusteringReport, pairs: ReportedPairs) -> np.ndarray:
        return np.full(len(pairs), 0.5)


def reported() -> ClusteringReport:
    fragments = [Fragment(f"f{k}", {"name": ("x",)}) for k in range(6)]
    ones = np.ones(4)
    return ClusteringReport(fragments, ReportedEntities(CLUSTERS, ones, ones, np.arange(4)))


def audit(first: int, second: int, same: bool | None) -> NumberedAnswer:
    return NumberedAnswer(first, second, same, audit=True)


def test_an_answer_contradicts_what_was_joined_or_left_apart() -> None:
    failed = [audit(0, 1, False), audit(2, 3, False), audit(4, 5, True), audit(5, 0, True)]
    held = [audit(0, 1, True), audit(2, 3, True), audit(4, 5, False), audit(5, 0, False)]
    assert shift_by(failed, CLUSTERS, SURE).offset < -0.5
    assert shift_by(held, CLUSTERS, SURE).offset > 0
    told = AuditedConfidence.of(Fixed(), failed, reported().fragments).of_entities(reported())
    assert (told < SURE).all()
    assert (np.diff(told) < 0).all()  # the order stays


def test_what_is_no_audit_shifts_nothing() -> None:
    others = [
        NumberedAnswer(0, 1, False, audit=False),  # asked about because it is uncertain
        audit(0, 1, None),
        audit(0, 9, False),  # a fragment that an interrupted run did not get to
    ]
    assert shift_by(others, CLUSTERS, SURE) == Shift(0.0)
    told = AuditedConfidence.of(Fixed(), others[:2], reported().fragments)
    assert told.of_entities(reported()).tolist() == SURE.tolist()


def test_pairs_are_told_as_the_map_does() -> None:
    one = np.zeros(1, np.int64)
    pairs = ReportedPairs(one, one + 1, np.ones(1), np.ones(1), one)
    heard = AuditedConfidence.of(Fixed(), [audit(0, 1, False)], reported().fragments)
    assert heard.of_pairs(reported(), pairs).tolist() == [0.5]


def test_answers_hold_for_fragments_wherever_they_are_by_now() -> None:
    """One more came first, and the last one is gone: its answers are passed over."""
    fragments = reported().fragments
    heard = AuditedConfidence.of(Fixed(), [audit(0, 1, False), audit(5, 0, True)], fragments)
    now = [Fragment("new", {"name": ("y",)}), *fragments[:5]]
    clusters = ((1, 2), (3, 4), (5,), (0,))
    later = ClusteringReport(now, ReportedEntities(clusters, np.ones(4), np.ones(4), np.arange(4)))
    expected = shift_by([audit(1, 2, False)], clusters, SURE).apply(SURE)
    assert heard.of_entities(later).tolist() == expected.tolist()

"""A confidence map that has heard answers: what it says of entities is shifted by their audits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from kbforge.contracts import Cluster, FloatArray, Fragment
from kbforge.evaluation.reliability import Pairs
from kbforge.files.answers import Placed
from kbforge.fit.confidence import Reading, Reported
from kbforge.fit.shift import Shift, shift_of


@dataclass(frozen=True, slots=True)
class Audit:
    """What was answered of an entity that was put to the test.

    Attributes:
        a: id of a fragment.
        b: id of another one.
        same: whether they are one entity.

    """

    a: str
    b: str
    same: bool


@dataclass(frozen=True, slots=True)
class Answered:
    """A map, and answers about the fragments that it reads.

    What it says of pairs stays: pairs are asked about because they are doubtful, so their answers
    do not stand for the others.

    Attributes:
        reading: the map.
        audits: of fragments, of which some may not be there when it is read.
        shift: by the audits, if some of the fragments are read alone; None tells it from those
            that are read.

    """

    reading: Reading
    audits: tuple[Audit, ...]
    shift: Shift | None = None

    @classmethod
    def of(
        cls, reading: Reading, answers: Sequence[Placed], fragments: Sequence[Fragment]
    ) -> Answered:
        """The map with the audits among some answers.

        Args:
            reading: the map.
            answers: by numbers of the fragments.
            fragments: that the answers are about.

        """
        audits = (
            Audit(fragments[answer.first].id, fragments[answer.second].id, answer.same)
            for answer in answers
            if answer.audit and answer.same is not None
        )
        return cls(reading, tuple(audits))

    def of_entities(self, reported: Reported) -> FloatArray:
        """As `Reading`, shifted."""
        before = self.reading.of_entities(reported)
        return (self.shift or self.shift_of(reported, before)).apply(before)

    def shift_of(self, reported: Reported, before: FloatArray) -> Shift:
        """The shift by all that is reported.

        Args:
            reported: of all fragments.
            before: what the map says of the entities.

        """
        asked = {name for audit in self.audits for name in (audit.a, audit.b)}
        number = {f.id: k for k, f in enumerate(reported.fragments) if f.id in asked}
        placed = [
            Placed(number[audit.a], number[audit.b], audit.same, audit=True)
            for audit in self.audits
            if audit.a in number and audit.b in number
        ]
        return shift_by(placed, reported.entities.clusters, before)

    def of_pairs(self, reported: Reported, pairs: Pairs) -> FloatArray:
        """As `Reading`."""
        return self.reading.of_pairs(reported, pairs)


def shift_by(
    answers: Sequence[Placed], clusters: Sequence[Cluster], probability: FloatArray
) -> Shift:
    """How much surer or less sure of its entities a run may be, by the audits among the answers.

    Args:
        answers: about the fragments that were clustered, or others, which are passed over.
        clusters: the point estimate.
        probability: that each cluster is exactly an entity, by the map, shape [clusters].

    """
    holder = {fragment: number for number, held in enumerate(clusters) for fragment in held}
    tested = [
        (holder[a.first], a.same != (holder[a.first] == holder[a.second]))
        for a in answers
        if a.audit and a.same is not None and a.first in holder and a.second in holder
    ]
    numbers = np.array([number for number, _ in tested], np.int64)
    return shift_of(probability[numbers], np.array([failed for _, failed in tested], np.bool_))

"""Judging a knowledge base: its entities against the labels of the fragments, joined by id."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from kbforge.contracts import Entity, Fragment
from kbforge.errors import UsageError, quoted
from kbforge.evaluation.scores import Scores, compare
from kbforge.words import counted

_ADVICE = "use --partial to evaluate the fragments that both have"


@dataclass(frozen=True, slots=True)
class Judgement:
    """The scores, and what they leave out.

    Attributes:
        scores: over the fragments that have an entity and a label.
        unlabelled: fragments left out because gold gives them no label.
        only_in_kb: fragments of the knowledge base that gold does not know.
        only_in_gold: fragments of gold that no entity has.

    """

    scores: Scores
    unlabelled: int
    only_in_kb: int
    only_in_gold: int

    def to_json(self) -> dict[str, Any]:
        """The scores by name, then the three counts."""
        return {
            **self.scores.to_json(),
            "unlabelled": self.unlabelled,
            "only_in_kb": self.only_in_kb,
            "only_in_gold": self.only_in_gold,
        }


def judge(entities: Iterable[Entity], gold: Iterable[Fragment], partial: bool = False) -> Judgement:
    """Compare the grouping of fragments into entities with their labels.

    Args:
        entities: a knowledge base; no fragment is in two entities.
        gold: fragments with labels; those without are left out and counted.
        partial: leave out, and count, fragments that one side lacks.

    Raises:
        UsageError: nothing to compare, or one side lacks fragments and `partial` is False.

    """
    entity_of = {f: number for number, entity in enumerate(entities) for f in entity.fragments}
    predicted: list[int] = []
    labels: list[str] = []
    known = unlabelled = 0
    missing: list[str] = []
    for fragment in gold:
        number = entity_of.get(fragment.id)
        if number is None:
            missing.append(fragment.id)
            continue
        known += 1
        # emptied as it is matched: what remains is what gold does not know
        del entity_of[fragment.id]
        if fragment.label is None:
            unlabelled += 1
        else:
            predicted.append(number)
            labels.append(fragment.label)
    if not partial:
        _demand_none(missing, "the gold file", "the knowledge base")
        _demand_none(list(entity_of), "the knowledge base", "the gold file")
    if not known:
        raise UsageError("the knowledge base and the gold file have no fragment id in common")
    if not labels:
        raise UsageError("no fragment of the knowledge base has a label in the gold file")
    return Judgement(compare(predicted, labels), unlabelled, len(entity_of), len(missing))


def _demand_none(missing: list[str], has: str, lacks: str) -> None:
    if missing:
        count = counted(len(missing), "fragment")
        raise UsageError(
            f'{has} has {count} that {lacks} lacks, first "{quoted(missing[0])}"; {_ADVICE}'
        )

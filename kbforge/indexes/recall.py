"""Measures the recall of an index on labelled fragments.

Each fragment in turn is looked up, then added to its gold entity. What counts is whether an entity
that is there already is found, and how many others have to be compared.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kbforge.clustering.candidates import Candidates
from kbforge.contracts import CandidateIndex, IntArray
from kbforge.contracts.fragment import Fragment


@dataclass(frozen=True, slots=True)
class IndexRecall:
    """What an index finds."""

    recall: float  # of fragments with an earlier one of their entity; 1 without any
    candidates: float  # entities that a fragment is compared with, on average
    entities: int


def recall_of(index: CandidateIndex, fragments: Sequence[Fragment]) -> IndexRecall:
    """Measure a fitted index on fragments that all have labels."""
    candidates = Candidates(index)
    starts, flat = index.keys_of(fragments)
    keys = np.split(flat, starts[1:-1])
    slot_of: dict[str, int] = {}
    looked_up = found = compared = 0
    for fragment, own in zip(fragments, keys, strict=False):  # of none there is one empty part
        reached = candidates.look_up(own.tolist(), _all)
        compared += len(reached.slots)
        assert fragment.label is not None
        slot = slot_of.get(fragment.label)
        if slot is None:
            slot = slot_of[fragment.label] = len(slot_of)
        else:
            looked_up += 1
            found += bool(slot in reached.slots)
        family = np.array([slot])
        candidates.extend(reached, family, family)
    return IndexRecall(
        recall=found / looked_up if looked_up else 1.0,
        candidates=compared / max(len(fragments), 1),
        entities=len(slot_of),
    )


def _all(slots: IntArray) -> NDArray[np.bool_]:
    return np.ones(len(slots), dtype=np.bool_)

"""Measures the recall of an index on labelled fragments.

Each fragment in turn is looked up, then added to its gold entity. It measures whether an existing
entity is found, and how many others must be compared.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from kbforge.contracts import CandidateIndex
from kbforge.contracts.fragment import Fragment


@dataclass(frozen=True, slots=True)
class IndexRecall:
    """What an index finds."""

    recall: float  # of fragments with an earlier one of their entity; 1 without any
    candidates: float  # entities that a fragment is compared with, on average
    entities: int


def recall_of(index: CandidateIndex, fragments: Sequence[Fragment]) -> IndexRecall:
    """Measure a fitted index on fragments that all have labels."""
    starts, flat = index.keys_of(fragments)
    keys = np.split(flat, starts[1:-1])
    postings: dict[int, list[int]] = {}  # by key, the entities that it leads to
    closed: set[int] = set()
    number: dict[str, int] = {}  # of an entity, by its label
    looked_up = found = compared = 0
    for fragment, own in zip(fragments, keys, strict=False):  # of none there is one empty part
        of_fragment = own.tolist()
        closed.update(key for key in of_fragment if len(postings.get(key, ())) > index.families)
        left = [key for key in of_fragment if key not in closed]
        near = _nearest(index, postings, left, index.shared) or _nearest(
            index, postings, of_fragment, 1
        )
        assert fragment.label is not None
        looked_up += fragment.label in number
        entity = number.setdefault(fragment.label, len(number))
        compared += len(near)
        found += entity in near
        for key in left:
            if entity not in postings.setdefault(key, []):
                postings[key].append(entity)
    return IndexRecall(
        recall=found / looked_up if looked_up else 1.0,
        candidates=compared / max(len(fragments), 1),
        entities=len(number),
    )


def _nearest(
    index: CandidateIndex, postings: Mapping[int, Sequence[int]], keys: Sequence[int], shared: int
) -> list[int]:
    """The entities to compare with a fragment: those with this many keys, or else any."""
    counts = Counter(entity for key in keys for entity in postings.get(key, ()))
    enough = [entity for entity, n in counts.items() if n >= shared] or list(counts)
    enough.sort(key=lambda entity: (-counts[entity], entity))
    return enough[: index.compared or None]

"""A sample of fragments, each seed with those that a model of pairs finds likest to it.

Keys that many fragments share lead to the wrong pairs of a large file as well as to the right ones,
so that a sample by rare keys alone flatters every grouping. The model of pairs has compared them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from kbforge.clustering.sample import MOST_RELATIVES, Sample, by_digest, drawn
from kbforge.contracts import Fragment
from kbforge.fit.heard import PairOdds

_LEAST = -3.0
"""Log odds, nats, from which on two fragments might be one."""


def close_ones(fragments: Sequence[Fragment], odds: PairOdds, most: int) -> Sample:
    """All fragments if there are at most so many, else seeds, each with its likest relatives.

    Which ones they are depends on properties and odds alone, not on the order or on ids.

    Args:
        fragments: distinct ids.
        odds: of them.
        most: fragments from which on no seed is added.

    """
    order = by_digest(fragments)
    rows = odds.row[order]
    holders: dict[int, list[int]] = {}
    for place, row in enumerate(rows.tolist()):
        holders.setdefault(row, []).append(place)
    begin = np.searchsorted(odds.first, np.arange(int(odds.row.max(initial=-1)) + 2))

    def relatives(seed: int) -> Iterator[int]:
        row = rows[seed]
        links = slice(begin[row], begin[row + 1])
        near = odds.nats[links] >= _LEAST
        places = [
            (-nats, place)
            for nats, other in zip(
                odds.nats[links][near].tolist(), odds.second[links][near].tolist(), strict=True
            )
            for place in holders.get(other, ())[: MOST_RELATIVES + 1]
            if place != seed
        ]
        return (place for _, place in sorted(places)[:MOST_RELATIVES])

    return drawn(fragments, order, relatives, most)

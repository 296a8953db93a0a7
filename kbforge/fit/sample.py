"""The sample of a large file for the judge, and the part in which pairs are compared.

The sample is seeds, each with the fragments that a model of pairs finds most similar. Keys that
many fragments share lead to the wrong pairs of a large file as well as to the right ones, so a
sample by rare keys alone would flatter every grouping.

To compare all pairs of a large file would take long. The part is some thousand fragments, each with
those of the whole file that share most with it: keys of an index, where a key counts more the fewer
fragments have it. So the wrong relatives of a common name come along as well as the right ones,
however large the file is.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import chain

import numpy as np

from kbforge.clustering.sample import (
    MOST_RELATIVES,
    Sample,
    by_digest,
    drawn,
    holders_of,
    keys_of_each,
)
from kbforge.contracts import CandidateIndex, Fragment
from kbforge.fit.description import PairOdds

_LEAST = -3.0
"""Log odds, nats, from which on two fragments might be one."""


def close_ones(fragments: Sequence[Fragment], odds: PairOdds, most: int) -> Sample:
    """All fragments if there are at most so many, else seeds, each with its nearest relatives.

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


MOST_COMPARED = 20_000
"""A file with more fragments is compared in part, if its likelihood is known."""
MOST_TO_CHOOSE = 50_000
"""A file with more fragments is compared in part, even if its likelihood is to be chosen.

A part has fewer wrong relatives than the file, which flatters likelihoods beside exact names. Of
25,000 products it chose attributes with an F1 of .81, and all of them choose names with .97."""
MOST_OF_PAIRS = 300_000
"""A file with more fragments is not given to the model of pairs, if nobody asks for it.

Reading a file takes it a millisecond and 14 kilobytes a fragment, ten times what attributes do."""
PART = 4_000
_RELATIVES = 40
"""So many fragments come along with one, right and wrong ones."""
_MOST_HOLDERS = 1_000
"""A key that more fragments have does not say who is alike."""


def part_of(fragments: Sequence[Fragment], index: CandidateIndex) -> Sample:
    """The part of a file; all of it if it is no larger than that.

    Which fragments it has depends on properties alone, not on the order or on ids.

    Args:
        fragments: distinct ids.
        index: fitted to them.

    """
    order = by_digest(fragments)
    keys = keys_of_each([fragments[i] for i in order[:PART]], index)
    wanted = chain.from_iterable(keys)
    holders = holders_of(wanted, (fragments[i] for i in order), index, _MOST_HOLDERS)

    def relatives(seed: int) -> Iterator[int]:
        shared: defaultdict[int, float] = defaultdict(float)
        for key in keys[seed]:
            held = holders[key]
            if len(held) <= _MOST_HOLDERS:
                worth = math.log(len(order) / len(held))
                for place in held:
                    shared[place] += worth
        shared.pop(seed, None)
        alike = sorted((-worth, place) for place, worth in shared.items())
        return (place for _, place in alike[:_RELATIVES])

    return drawn(fragments, order, relatives, PART)

"""The part of a large file in which pairs are compared, as all pairs of the file would take long.

It is a few hundred fragments, each with those of the whole file that share most with it. What they
share are keys of an index, each worth the more the fewer fragments have it. So the wrong relatives
of a common name come along as well as the right ones, however large the file is.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import chain

from kbforge.clustering.sample import MOST_RELATIVES, Sample, by_digest, drawn, holders_of
from kbforge.contracts import CandidateIndex, Fragment

MOST_COMPARED = 20_000
"""A file with more fragments is compared in part."""
PART = 4_000
_MOST_HOLDERS = 1_000
"""A key that more fragments have does not say who is alike."""


def part_of(fragments: Sequence[Fragment], index: CandidateIndex) -> Sample | None:
    """The part of a file with more than `MOST_COMPARED` fragments; None of a smaller one.

    Which fragments it has depends on properties alone, not on the order or on ids.

    Args:
        fragments: distinct ids.
        index: fitted to them.

    """
    if len(fragments) <= MOST_COMPARED:
        return None
    order = by_digest(fragments)
    keys = [tuple(index.keys(fragments[i])) for i in order[:PART]]
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
        return (place for _, place in alike[:MOST_RELATIVES])

    return drawn(fragments, order, relatives, PART)

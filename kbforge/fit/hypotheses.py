"""Samples of a file, and their groupings by exact names and by likelihoods.

**The sample** consists of seeds, each with the fragments that a model of pairs finds most similar:
a sample by rare keys alone would favour every grouping. Comparing all pairs of a large file takes
long, so the model of pairs reads only a *part*: some thousand fragments, each with those of the
whole file that share most with it. A key of an index counts more the fewer fragments have it, so
the wrong relatives of a common name come along as well. Neither depends on the order of the file or
on ids.

**A merge path** gives the grouping at every alpha at once. Clusters merge in rounds
(`kbforge.clustering.rounds`), first at the largest alpha. A merge gains

    gain(C, D) = L(C + D) - L(C) - L(D) - log alpha
                 + e (lgamma(|C| + |D|) - lgamma(|C|) - lgamma(|D|))

where alpha is a constant: when no merge gains any more, alpha falls, and the clusters go on
merging.

**Exact names** group the fragments whose first names are equal, and no others. This is what people
try first by hand, so every other hypothesis is measured against it.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import chain

import numpy as np

from kbforge.clustering.rounds import Agglomeration, DoubtRules
from kbforge.contracts import (
    CandidateIndex,
    ConjugateLikelihood,
    Fragment,
    IntArray,
    ModelSpec,
)
from kbforge.files.columns import Taken
from kbforge.fit.description import PairModel, PairOdds
from kbforge.indexes.selective import (
    MOST_RELATIVES,
    Sample,
    by_digest,
    drawn,
    holders_of,
    keys_of_each,
    neighbourhoods,
)

MOST_FRAGMENTS = 800
"""A larger file is sampled."""
MOST_COMPARED = 20_000
"""In a larger file only a part is compared, if its likelihood is known."""
MOST_TO_CHOOSE = 50_000
"""In a larger file only a part is compared, even if its likelihood must be chosen, and the model of
pairs, which takes four times as long as attributes, is chosen only if answers teach it.

A part has fewer wrong relatives than the file, which favours likelihoods over exact names. In
25,000 products it selected attributes with an F1 of .81, whereas the whole file selects names with
.97."""
MOST_OF_PAIRS = 300_000
"""A larger file is not given to the model of pairs, unless the user names it.

It needs half a millisecond and 12 kilobytes per fragment."""
PART = 4_000

_LEAST_ODDS = -3.0  # nats: from here on two fragments might be one
_RELATIVES = 40  # that come along into a part with each fragment, right and wrong ones
_MOST_SHARING = 1_000  # a key that more fragments have does not say who is alike


def sample_of(
    fragments: Sequence[Fragment],
    index: CandidateIndex,
    pairs: PairModel | None,
    part: Sample | None = None,
) -> Sample:
    """The file, or a sample of a large one; `pairs` is fitted to the part, if there is one."""
    if pairs is None or len(fragments) <= MOST_FRAGMENTS:
        return neighbourhoods(fragments, index, MOST_FRAGMENTS)
    if part is None:
        return close_ones(fragments, pairs.pair_odds(fragments), MOST_FRAGMENTS)
    found = close_ones(part.fragments, pairs.pair_odds(part.fragments), MOST_FRAGMENTS)
    return replace(found, places=tuple(part.places[i] for i in found.places))


def close_ones(fragments: Sequence[Fragment], odds: PairOdds, most: int) -> Sample:
    """All fragments if there are at most `most`, else seeds, each with its nearest relatives."""
    order = by_digest(fragments)
    rows = odds.row[order]
    holders: dict[int, list[int]] = {}
    for place, row in enumerate(rows.tolist()):
        holders.setdefault(row, []).append(place)
    begin = np.searchsorted(odds.first, np.arange(int(odds.row.max(initial=-1)) + 2))

    def relatives(seed: int) -> Iterator[int]:
        row = rows[seed]
        links = slice(begin[row], begin[row + 1])
        near = odds.nats[links] >= _LEAST_ODDS
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


def part_of(fragments: Sequence[Fragment], index: CandidateIndex) -> Sample:
    """The part of a file, or all of a small one; the index is fitted to it."""
    order = by_digest(fragments)
    keys = keys_of_each(Taken(fragments, np.array(order[:PART])), index)
    wanted = chain.from_iterable(keys)
    holders = holders_of(wanted, fragments, order, index, _MOST_SHARING)

    def relatives(seed: int) -> Iterator[int]:
        shared: defaultdict[int, float] = defaultdict(float)
        for key in keys[seed]:
            if held := holders(key):
                worth = math.log(len(order) / len(held))
                for place in held:
                    shared[place] += worth
        shared.pop(seed, None)
        alike = sorted((-worth, place) for place, worth in shared.items())
        return (place for _, place in alike[:_RELATIVES])

    return drawn(fragments, order, relatives, PART)


def groupings(
    likelihood: ConjugateLikelihood,
    fragments: Sequence[Fragment],
    log_alphas: Sequence[float],
    exponent: float = 1.0,
) -> list[IntArray]:
    """The groupings of a `mergeable` likelihood along its merge path; log alphas ascend.

    A cluster's number is its smallest fragment; shape [n] each. A score that is not finite is a
    LikelihoodError.
    """
    index = likelihood.index
    if index is None and (index := likelihood.index_of_many()) is not None:
        index.fit(fragments)
    least = log_alphas[0]
    spec = ModelSpec(likelihood, math.exp(least), index=index, exponent=exponent)
    # what is certain at the smallest alpha may not be at a larger one
    doubt = DoubtRules(nats=math.inf)
    run = Agglomeration(fragments, spec, doubt, np.arange(len(fragments)))
    return [*run.along([log_alpha - least for log_alpha in reversed(log_alphas)])][::-1]


_LONGEST_NAME = 4_096


def exact_name(fragment: Fragment) -> str:
    """The first name with folded case and single spaces; "" without a name.

    Without an attribute `name` it joins those whose names contain "name" (first_name, surname), in
    the order of the fragment, or else all values.
    """
    names = fragment.names
    if names:
        return _folded(names[0])
    properties = fragment.properties
    parts = [values[0] for key, values in properties.items() if "name" in key.casefold()]
    if parts:
        return _folded(" ".join(parts))
    stated = (f"{key}: {values[0]}" for key, values in sorted(properties.items()))
    return _folded("; ".join(stated))


def exact_groups(fragments: Sequence[Fragment]) -> list[int]:
    """For each fragment, the first one with the same exact name; without a name, the fragment
    itself."""
    first: dict[str, int] = {}
    return [
        first.setdefault(name, i) if (name := exact_name(fragment)) else i
        for i, fragment in enumerate(fragments)
    ]


def _folded(text: str) -> str:
    return " ".join(text[:_LONGEST_NAME].casefold().split())


NAMES, ALIASES = "names", "aliases"
PAIRS, ATTRIBUTES = "pairs", "attributes"

"""Statistics of an unlabelled file and its groupings, which the judge reads.

All groupings of a sample are measured on the same pairs, so the pairs are compared once: the
similarity of their names, and whether each attribute that both have agrees or contradicts, and how
rare the shared value is. No statistic refers to an attribute, a language or a kind of entity. The
statistics of a file are the same for all its groupings. Those of a grouping compare it with exact
names and with the other groupings. They measure which similar pairs it joins or separates, and
whether attributes agree inside clusters more often than among near misses: separate pairs that
share something. A statistic without any counts is missing (NaN).

A model of pairs gives the probability that two fragments are one entity. These probabilities
give the expected B-cubed precision and recall of a grouping, fragment by fragment (Bagga and
Baldwin, 1998, with probabilities for counts).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rapidfuzz import fuzz, process
from scipy.sparse import csr_array
from scipy.special import expit

from kbforge.clustering.rounds import pairs_sharing
from kbforge.clustering.rules import DirichletProcess
from kbforge.contracts import CandidateIndex, FloatArray, Fragment, IntArray
from kbforge.files.columns import Taken
from kbforge.fit.description import PairOdds
from kbforge.fit.hypotheses import (
    ANCHORS,
    KINDS,
    NAMES,
    Hypothesis,
    exact_groups,
    exact_name,
)
from kbforge.numerics import starts_of
from kbforge.texts.statements import JoinedStatements

_LONGEST = 160  # characters of a value that are compared
_MOST_PAIRS = 60_000
_MOST_ATTRIBUTES = 24
_EQUAL_NAMES_NEXT = 8  # a fragment is paired with so many of those that bear its name after it
_AGREES, _CONTRADICTS = 0.9, 0.6


@dataclass(frozen=True, eq=False)
class SamplePairs:
    """A sample and its pairs. A pair is two fragments that share a key or a name."""

    n: int  # fragments
    exact: IntArray  # [n] cluster numbers of the grouping by exact names
    names: list[str]  # [n] exact names, cut
    words: list[list[str]]  # [n] their words
    word_rarity: dict[str, float]  # of these, -log of the share of the file's exact names with it
    attributes: IntArray  # [n] how many each fragment has, its name apart
    record: IntArray  # [n] a number by all that a fragment states
    one: IntArray  # [pairs]
    two: IntArray  # [pairs]
    equal: NDArray[np.bool_]  # [pairs] whether their exact names are equal
    similarity: FloatArray  # [pairs] of names, 0 to 1
    common: FloatArray  # [pairs] of the words of both names, by rarity, the share that both have
    agree: FloatArray  # [pairs, attributes] 1 if both have it and it agrees
    contradict: FloatArray  # [pairs, attributes] 1 if both have it and it is clearly another
    rarity: FloatArray  # [pairs, attributes] -log of the share of fragments with the value
    random: FloatArray  # [attributes] how often two fragments agree by chance

    @cached_property
    def agreed(self) -> FloatArray:
        """[pairs] The number of attributes that agree."""
        return np.asarray(self.agree.sum(axis=1))

    @cached_property
    def against(self) -> FloatArray:
        """[pairs] The number of attributes that contradict."""
        return np.asarray(self.contradict.sum(axis=1))

    @cached_property
    def rare(self) -> FloatArray:
        """[pairs] The rarity of what both have, nats."""
        return np.asarray(self.rarity.sum(axis=1))


def compare_sample(
    sample: Sequence[Fragment], index: CandidateIndex, everything: Sequence[Fragment]
) -> SamplePairs:
    """Compare the pairs of a sample, some thousand fragments; rarity is measured on
    `everything`."""
    n = len(sample)
    exact = np.array(exact_groups(sample), dtype=np.int64)
    names = [exact_name(fragment)[:_LONGEST] for fragment in sample]
    words = [list(dict.fromkeys(name.split())) for name in names]
    word_rarity = _word_rarity(everything, {word for held in words for word in held})
    one, two = _pairs(sample, index, exact)
    first, second = [names[i] for i in one.tolist()], [names[j] for j in two.tolist()]
    values = _values(sample)
    shares = _shares(everything, list(values))
    agree, contradict, rarity, random = _compared(values, shares, one, two)
    return SamplePairs(
        n=n,
        exact=exact,
        names=names,
        words=words,
        word_rarity=word_rarity,
        attributes=np.array([len(f.properties) - ("name" in f.properties) for f in sample]),
        record=_records(sample),
        one=one,
        two=two,
        equal=exact[one] == exact[two],
        similarity=_similar(first, second, fuzz.token_sort_ratio),
        common=_common(words, word_rarity, one, two),
        agree=agree,
        contradict=contradict,
        rarity=rarity,
        random=random,
    )


def stated(values: Sequence[str]) -> str:
    """The values of an attribute as one text, case folded, in any order."""
    return "; ".join(sorted({" ".join(v[:_LONGEST].casefold().split()) for v in values[:32]}))


def _pairs(
    sample: Sequence[Fragment], index: CandidateIndex, exact: IntArray
) -> tuple[IntArray, IntArray]:
    pairs = [pairs_sharing(sample, index)]
    order = np.argsort(exact, kind="stable")
    for step in range(1, _EQUAL_NAMES_NEXT + 1):
        a, b = order[:-step], order[step:]  # the first ones of a name come first
        same = exact[a] == exact[b]
        pairs.append(np.stack([a[same], b[same]]))
    one, two = np.unique(np.concatenate(pairs, axis=1), axis=1)
    # a regular choice of too many
    step = max(1, math.ceil(len(one) / _MOST_PAIRS))
    return one[::step], two[::step]


def _similar(first: list[str], second: list[str], scorer: Any) -> FloatArray:
    if not first:
        return np.zeros(0)
    found = process.cpdist(first, second, scorer=scorer, dtype=np.float32, workers=1)
    return np.asarray(found, dtype=np.float64) / 100


def _word_rarity(everything: Sequence[Fragment], wanted: set[str]) -> dict[str, float]:
    names = _exact_names(everything)
    counts = Counter(chain.from_iterable(wanted.intersection(name.split()) for name in names))
    return {word: math.log((len(names) + 1) / count) for word, count in counts.items()}


def _exact_names(fragments: Sequence[Fragment]) -> set[str]:
    """The different exact names, as far as they are compared; no fragment with one is made."""
    said = JoinedStatements.of(fragments)
    naming = [2 if name == "name" else "name" in name.casefold() for name in said.attributes]
    rank = np.array(naming, np.int8)[said.attribute]
    owner = np.arange(len(fragments)).repeat(np.diff(said.starts))
    best = np.zeros(len(fragments), np.int8)
    np.maximum.at(best, owner, rank)
    read = np.flatnonzero((rank > 0) & (rank == best[owner]))
    sizes, values = np.bincount(owner[read], minlength=len(fragments)), said.value[read]
    used = np.flatnonzero(np.bincount(values)).tolist()
    folded = {k: " ".join(said.values_of(k)[0].casefold().split()) for k in used}
    names = {exact_name(one)[:_LONGEST] for one in Taken(fragments, np.flatnonzero(best == 0))}
    for size in np.flatnonzero(np.bincount(sizes[best > 0])).tolist():
        parts = values[starts_of(sizes)[:-1][sizes == size, None] + np.arange(size)]
        for row in parts[_first_of_each(parts)].tolist():
            names.add(" ".join(filter(None, map(folded.__getitem__, row)))[:_LONGEST])
    return names


def _first_of_each(rows: NDArray[np.int32]) -> IntArray:
    """The places of the different rows."""
    code = np.zeros(len(rows), np.uint64)
    for column in rows.T:
        code = code * np.uint64(0x9E3779B97F4A7C15) + column.astype(np.uint64)
        code ^= code >> np.uint64(29)
    return np.asarray(np.unique(code, return_index=True)[1])


def _common(
    words: list[list[str]], rarity: dict[str, float], one: IntArray, two: IntArray
) -> FloatArray:
    weights = [{word: rarity.get(word, 1.0) for word in held} for held in words]
    totals = [sum(held.values()) for held in weights]
    out = np.zeros(len(one))
    for place, (i, j) in enumerate(zip(one.tolist(), two.tolist(), strict=True)):
        a, b = weights[i], weights[j]
        both = sum(weight for word, weight in a.items() if word in b)
        either = totals[i] + totals[j] - both
        out[place] = both / either if either else 0.0
    return out


def _values(sample: Sequence[Fragment]) -> dict[str, list[str]]:
    """For each attribute, each fragment's text, "" if it has none; the most common attributes."""
    counts = Counter(key for f in sample for key in f.properties if key != "name")
    common = sorted(counts, key=lambda key: (-counts[key], key))[:_MOST_ATTRIBUTES]
    return {key: [stated(f.properties.get(key, ())) for f in sample] for key in sorted(common)}


def _shares(everything: Sequence[Fragment], attributes: list[str]) -> dict[str, dict[str, float]]:
    """For each attribute, the share of the fragments that state a fragment's value."""
    said = JoinedStatements.of(everything)
    often = np.bincount(said.value, minlength=len(said.texts))
    counts: dict[str, Counter[str]] = {key: Counter() for key in attributes}
    used, owners = said.in_order()
    read = np.array([name in counts for name in said.attributes], np.bool_)[owners]
    for k, a in zip(used[read].tolist(), owners[read].tolist(), strict=True):
        counts[said.attributes[a]][stated(said.values_of(k))] += int(often[k])
    return {
        key: {value: n / total for value, n in counter.items()}
        for key, counter in counts.items()
        for total in (counter.total(),)
    }


def _compared(
    values: dict[str, list[str]],
    shares: dict[str, dict[str, float]],
    one: IntArray,
    two: IntArray,
) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
    """`agree`, `contradict`, `rarity` and `random` of `SamplePairs`."""
    shape = len(one), len(values)
    agree, contradict, rarity = np.zeros(shape), np.zeros(shape), np.zeros(shape)
    random = np.zeros(len(values))
    for column, (key, texts) in enumerate(values.items()):
        number = {text: k for k, text in enumerate(dict.fromkeys(texts))}
        codes = np.array([number[text] if text else -1 for text in texts])
        a, b = codes[one], codes[two]
        both = (a >= 0) & (b >= 0)
        same = both & (a == b)
        close = np.where(same, 1.0, 0.0)
        differ = np.flatnonzero(both & ~same)
        first = [texts[i] for i in one[differ].tolist()]
        second = [texts[j] for j in two[differ].tolist()]
        close[differ] = _similar(first, second, fuzz.ratio)
        agree[:, column] = both & (close >= _AGREES)
        contradict[:, column] = both & (close < _CONTRADICTS)
        share = shares[key]
        rare = np.array([-math.log(share.get(text, 1.0)) for text in number])
        rarity[:, column] = np.where(same, rare[np.maximum(a, 0)], 0.0)
        random[column] = sum(part * part for part in share.values())
    return agree, contradict, rarity, random


def _records(sample: Sequence[Fragment]) -> IntArray:
    number: dict[tuple[tuple[str, str], ...], int] = {}
    records = (
        tuple((key, stated(values)) for key, values in sorted(f.properties.items())) for f in sample
    )
    found = [number.setdefault(record, len(number)) for record in records]
    return np.array(found, dtype=np.int64)


NAN = float("nan")
ATTRIBUTES = "attributes a fragment"
LOG_FRAGMENTS = "log fragments"


def file_statistics(seen: SamplePairs, everything: Sequence[Fragment]) -> dict[str, float]:
    """Statistics of a file, by name."""
    n = max(seen.n, 1)
    names, words = seen.names, seen.words
    text = "".join(names)
    letters = max(len(text), 1)
    of_exact = np.bincount(seen.exact, minlength=seen.n)[seen.exact]
    alike = ~seen.equal
    said = JoinedStatements.of(everything)
    having = np.bincount(said.attribute, minlength=len(said.attributes)).tolist()
    by_name = sorted(zip(said.attributes, having, strict=True))
    coverage = [count / max(len(everything), 1) for _, count in by_name[:200]]
    of_several = np.flatnonzero(said.several > 1)
    several = len(np.unique(np.searchsorted(said.starts, of_several, side="right")))
    rarity = [seen.word_rarity.get(word, NAN) for held in words for word in held]
    out = {
        LOG_FRAGMENTS: math.log(max(len(everything), 1)),
        ATTRIBUTES: float(np.mean(seen.attributes)),
        "fragments with a name only": float(np.mean(seen.attributes == 0)),
        "attributes that most have": float(sum(share > 0.5 for share in coverage)),
        "words a name": float(np.mean([len(held) for held in words])),
        "names of one word": float(np.mean([len(held) <= 1 for held in words])),
        "characters a name": letters / n,
        "digits in names": sum(map(str.isdigit, text)) / letters,
        "names with a digit": float(np.mean([any(map(str.isdigit, x)) for x in names])),
        "no ASCII in names": sum(not c.isascii() for c in text) / letters,
        "marks in names": sum(not c.isalnum() and c != " " for c in text) / letters,
        "names with a comma": float(np.mean(["," in x for x in names])),
        "short names": float(np.mean([len(x) <= 4 for x in names])),
        "rarity of words": _mean(np.array(rarity)),
        "different names": len(np.unique(seen.exact)) / n,
        "different records": len(np.unique(seen.record)) / n,
        "records a name": len(np.unique(seen.record)) / max(len(np.unique(seen.exact)), 1),
        "fragments with an equal name": float(np.mean(of_exact > 1)),
        "bearers of a fragment's name": float(np.mean(of_exact)),
        "largest exact name": float(of_exact.max(initial=0)) / n,
        "pairs a fragment": len(seen.one) / n,
        "several values": several / max(len(everything), 1),
    }
    for floor in (0.95, 0.85, 0.75):
        similar = alike & (seen.similarity >= floor)
        out[f"similar names a fragment, {floor}"] = float(similar.sum()) / n
        out[f"fragments with a similar name, {floor}"] = (
            len(np.unique(np.concatenate([seen.one[similar], seen.two[similar]]))) / n
        )
    out["pairs with half the words"] = float((alike & (seen.common >= 0.5)).sum()) / n
    for name, chosen in (
        ("equal names", seen.equal),
        ("similar names", alike & (seen.similarity >= 0.85)),
        ("other names", alike & (seen.similarity < 0.6)),
    ):
        out |= {f"{name}: {key}": value for key, value in _attributes(seen, chosen).items()}
    return out


def grouping_statistics(seen: SamplePairs, labels: IntArray) -> dict[str, float]:
    """Statistics of a grouping of a sample, by name; its cluster numbers [n] are below n."""
    n = max(seen.n, 1)
    sizes = np.bincount(labels, minlength=seen.n)
    of_item = sizes[labels].astype(np.float64)
    clusters = sizes[sizes > 0]
    precision, recall, f1 = agreement(labels, seen.exact)
    together = labels[seen.one] == labels[seen.two]
    exact_sizes = np.bincount(seen.exact, minlength=seen.n)
    out = {
        "entities a fragment": len(clusters) / n,
        "entities a name": len(clusters) / max(int((exact_sizes > 0).sum()), 1),
        "entities a record": len(clusters) / max(len(np.unique(seen.record)), 1),
        "alone": float(np.mean(of_item == 1)),
        "pairs of all": float(np.mean(of_item <= 2)),
        "size of a fragment's entity": float(np.mean(of_item)),
        "log size of a fragment's entity": float(np.mean(np.log(of_item))),
        "largest entity": float(sizes.max(initial=0)) / n,
        "names of the largest entity": _names_of_largest(seen, labels, sizes),
        "like exact names, precision": precision,
        "like exact names, recall": recall,
        "like exact names, F1": f1,
    }
    out |= _kept(seen, together)
    apart = ~together
    for name, chosen in (
        ("inside", together),
        ("inside, other names", together & ~seen.equal),
        ("apart", apart),
        ("apart, equal names", apart & seen.equal),
        ("apart, similar names", apart & ~seen.equal & (seen.similarity >= 0.85)),
    ):
        out |= {f"{name}: {key}": value for key, value in _attributes(seen, chosen).items()}
    out |= _lift(seen, together, apart)
    return out


def agreement(
    labels: IntArray, others: IntArray, first: int | None = None
) -> tuple[float, float, float]:
    """B-cubed precision, recall and mean F1 of one grouping [n] against another, numbers below n.

    They are means over the `first` fragments; None means all.
    """
    n = max(len(labels), 1)
    _, inverse, counts = np.unique(
        labels * np.int64(n) + others, return_inverse=True, return_counts=True
    )
    both = counts[inverse].astype(np.float64)
    ours, theirs = np.bincount(labels)[labels], np.bincount(others)[others]
    return (
        float(np.mean((both / ours)[:first])),
        float(np.mean((both / theirs)[:first])),
        float(np.mean((2 * both / (ours + theirs))[:first])),
    )


def path_statistics(
    n: int, log_alphas: Sequence[float], groupings: Sequence[IntArray]
) -> list[dict[str, float]]:
    """The position of each grouping on its merge path, by name; alphas ascend."""
    counts = [len(np.unique(labels)) for labels in groupings]
    steps = [agreement(a, b)[2] for a, b in pairwise(groupings)]
    far = [agreement(a, b)[2] for a, b in zip(groupings, groupings[4:], strict=False)]
    out = []
    for k, log_alpha in enumerate(log_alphas):
        expected = DirichletProcess(math.exp(log_alpha)).expected_clusters(n)
        out.append(
            {
                "expected entities over found": math.log(expected / max(counts[k], 1)),
                "log alpha": log_alpha,
                "alpha over fragments": log_alpha - math.log(max(n, 1)),
                "same at a smaller alpha": steps[k - 1] if k else NAN,
                "same at a larger alpha": steps[k] if k < len(steps) else NAN,
                "same far below": far[k - 4] if k >= 4 else NAN,
                "same far above": far[k] if k < len(far) else NAN,
                "entities: slope": math.log(
                    counts[min(k + 2, len(counts) - 1)] / counts[max(k - 2, 0)]
                ),
            }
        )
    return out


def _kept(seen: SamplePairs, together: NDArray[np.bool_]) -> dict[str, float]:
    """Which similar pairs are joined, and how similar the joined pairs are."""
    several = np.array([len(held) > 1 for held in seen.words], dtype=np.bool_)
    long = several[seen.one]
    rare, alike = seen.rare, ~seen.equal
    contradicted, agreed = seen.against > 0, seen.agreed > 0
    n = max(seen.n, 1)
    out = {
        "equal names kept": _mean(together[seen.equal]),
        "equal names of one word kept": _mean(together[seen.equal & ~long]),
        "equal names of several words kept": _mean(together[seen.equal & long]),
        "equal names kept against a contradiction": _mean(together[seen.equal & contradicted]),
        "equal names kept with an agreement": _mean(together[seen.equal & agreed]),
        "rare agreements kept": _mean(together[rare > math.log(n)]),
        "subsets of words kept": _mean(together[alike & (seen.common >= 0.5)]),
        "other names inside": _mean(alike[together]),
        "unlike names inside": _mean((seen.similarity < 0.6)[together]),
        "no common word inside": _mean((seen.common == 0)[together & long]),
        "similarity inside": _mean(seen.similarity[together & alike]),
        "similarity apart": _mean(seen.similarity[~together & alike]),
        "common words inside": _mean(seen.common[together & alike]),
        "pairs inside a fragment": float(together.sum()) / n,
        "other names inside a fragment": float((together & alike).sum()) / n,
        "rarity inside": _mean(rare[together]),
        "rarity apart": _mean(rare[~together]),
    }
    for low, high in ((0.95, 1.1), (0.85, 0.95), (0.75, 0.85), (0.6, 0.75)):
        band = alike & (seen.similarity >= low) & (seen.similarity < high)
        out[f"similar names kept, {low}"] = _mean(together[band])
    return out


def _attributes(seen: SamplePairs, chosen: NDArray[np.bool_]) -> dict[str, float]:
    """Statistics of attributes among some pairs: agreement, contradiction, rarity of shared
    values."""
    agreed, against = seen.agreed[chosen], seen.against[chosen]
    said = agreed + against
    return {
        "agreement": float(agreed.sum() / said.sum()) if said.sum() else NAN,
        "any contradiction": _mean((against > 0)[said > 0]),
        "contradictions only": _mean(((against > 0) & (agreed == 0))[said > 0]),
        "nothing to compare": _mean(said == 0),
        "rarity agreed on": _mean(seen.rare[chosen][said > 0]),
    }


def _lift(
    seen: SamplePairs, inside: NDArray[np.bool_], apart: NDArray[np.bool_]
) -> dict[str, float]:
    """Agreement inside clusters relative to near misses, attribute by attribute.

    An attribute that varies but hardly ever contradicts inside clusters is near-functional: then a
    contradiction is evidence against a cluster.
    """
    if not seen.agree.shape[1]:
        missing = ("lift", "least lift", "lift over chance", "contradictions of functional ones")
        return dict.fromkeys(missing, NAN)
    within, without = _rates(seen, inside), _rates(seen, apart)
    said_in = inside @ seen.agree + inside @ seen.contradict
    weight = np.where(np.isnan(within) | np.isnan(without), 0.0, said_in)
    known = weight > 0
    lifts = np.log((within + 0.02) / (without + 0.02))
    chance = np.log((within + 0.02) / (seen.random + 0.02))
    telling = np.clip(1 - np.nan_to_num(without, nan=1.0), 0, 1) * (seen.random < 0.3)
    equal = _rates(seen, seen.equal)
    functional = np.nan_to_num(equal) * telling
    against = seen.contradict[inside] @ functional
    return {
        "lift": float(np.average(lifts[known], weights=weight[known])) if known.any() else NAN,
        "least lift": float(lifts[known].min()) if known.any() else NAN,
        "lift over chance": (
            float(np.average(chance[known], weights=weight[known])) if known.any() else NAN
        ),
        "contradictions of functional ones": _mean(against),
    }


def _rates(seen: SamplePairs, chosen: NDArray[np.bool_]) -> FloatArray:
    """[attributes] agreement among some pairs that state the attribute."""
    agreed, against = chosen @ seen.agree, chosen @ seen.contradict  # whole numbers, so exact
    with np.errstate(invalid="ignore"):
        return np.asarray(agreed / (agreed + against))


def _names_of_largest(seen: SamplePairs, labels: IntArray, sizes: IntArray) -> float:
    if not len(labels):
        return NAN
    members = np.flatnonzero(labels == int(sizes.argmax()))
    return len(np.unique(seen.exact[members])) / len(members)


def _mean(values: NDArray[np.bool_] | FloatArray) -> float:
    return float(np.mean(values)) if len(values) else NAN


EXPECTED_F1 = "expected F1 by pairs"
EXPECTED = (
    "expected precision by pairs",
    "expected recall by pairs",
    EXPECTED_F1,
    "entities expected by pairs over found",
)


class PairExpectations:
    """Expectations of groupings of one sample, from the odds of its fragments."""

    def __init__(self, odds: PairOdds) -> None:
        self._n = len(odds.row)
        self._first, self._second, self._probability = _links(odds)
        self._others = self._summed(np.ones(len(self._first), dtype=np.bool_))

    def of(self, labels: IntArray) -> dict[str, float]:
        """Expectations of a grouping, by name; cluster numbers [n] below n, n at least 1."""
        sizes = np.bincount(labels, minlength=self._n)
        size = sizes[labels]
        right = 1 + self._summed(labels[self._first] == labels[self._second])
        wanted = 1 + self._others
        values = (
            float(np.mean(right / size)),
            float(np.mean(right / wanted)),
            float(np.mean(2 * right / (size + wanted))),
            math.log(float((1 / wanted).sum()) / max(int((sizes > 0).sum()), 1)),
        )
        return dict(zip(EXPECTED, values, strict=True))

    def _summed(self, chosen: NDArray[np.bool_]) -> FloatArray:
        """For each fragment, the sum of the probabilities of its links."""
        return np.bincount(
            self._first[chosen], self._probability[chosen], minlength=self._n
        ).astype(np.float64)


def _links(odds: PairOdds) -> tuple[IntArray, IntArray, FloatArray]:
    """Two fragments and the probability that they are one, in both directions, without
    repetition."""
    rows, of_fragment = np.unique(odds.row, return_inverse=True)
    here = np.isin(odds.first, rows) & np.isin(odds.second, rows)
    ends = np.searchsorted(rows, odds.first[here]), np.searchsorted(rows, odds.second[here])
    between = csr_array((expit(odds.nats[here]), ends), shape=(len(rows), len(rows)))
    of_fragments = between[of_fragment][:, of_fragment].tocoo()
    one, two = of_fragments.coords
    other = one != two
    return one[other].astype(np.int64), two[other].astype(np.int64), of_fragments.data[other]


def statistics_of(
    seen: SamplePairs,
    found: Sequence[Hypothesis],
    everything: Sequence[Fragment],
    expected: PairExpectations | None,
) -> tuple[tuple[str, ...], FloatArray]:
    """The judge's inputs: names of the statistics, and [hypotheses, statistics]."""
    of_file = file_statistics(seen, everything)
    on_path: list[dict[str, float]] = []
    for likelihood in dict.fromkeys(h.likelihood for h in found):
        along = [h for h in found if h.likelihood == likelihood]
        if likelihood == NAMES:
            (row,) = path_statistics(1, [0.0], [np.zeros(1, dtype=np.int64)])
            on_path.append(dict.fromkeys(row, NAN))
        else:
            log_alphas, groupings = [h.log_alpha for h in along], [h.labels for h in along]
            on_path += path_statistics(seen.n, log_alphas, groupings)
    others = _beside_others(found)
    anchored = _beside_anchors(found)
    unknown = dict.fromkeys(EXPECTED, NAN)
    rows = [
        {
            **of_file,
            **grouping_statistics(seen, hypothesis.labels),
            **path,
            **beside,
            **anchor,
            **(unknown if expected is None else expected.of(hypothesis.labels)),
            **{f"is {kind}": float(kind == hypothesis.likelihood) for kind in KINDS},
        }
        for hypothesis, path, beside, anchor in zip(found, on_path, others, anchored, strict=True)
    ]
    names = tuple(rows[0])
    return names, np.array([[row[name] for name in names] for row in rows], dtype=np.float64)


def _beside_others(found: Sequence[Hypothesis]) -> list[dict[str, float]]:
    """The agreement of each with the other likelihoods' hypotheses: best, and on average."""
    n = len(found)
    kinds = [h.likelihood for h in found]
    alike = np.full((n, n), NAN)
    for a in range(n):
        for b in range(a):
            if kinds[a] != kinds[b]:
                alike[a, b] = alike[b, a] = agreement(found[a].labels, found[b].labels)[2]
    out = []
    for a in range(n):
        row = {}
        for kind in KINDS[1:]:
            columns = [b for b in range(n) if found[b].likelihood == kind]
            values = alike[a, columns] if kind != kinds[a] else np.zeros(0)
            row[f"best like {kind}"] = float(values.max()) if len(values) else NAN
            row[f"mean like {kind}"] = float(values.mean()) if len(values) else NAN
        out.append(row)
    return out


def _beside_anchors(found: Sequence[Hypothesis]) -> list[dict[str, float]]:
    """The relation of each to the groupings that likelihoods find at their own alphas."""
    anchors: dict[str, Hypothesis] = {}
    for kind in ANCHORS:
        along = [h for h in found if h.likelihood == kind]
        if along:
            anchors[kind] = min(along, key=lambda h: abs(h.log_alpha - h.own))
    out = []
    for hypothesis in found:
        row = {"log alpha over its own": hypothesis.log_alpha - hypothesis.own}
        for kind in ANCHORS:
            measured = (NAN,) * 3
            if kind in anchors:
                measured = agreement(hypothesis.labels, anchors[kind].labels)
            for name, value in zip(("precision", "recall", "F1"), measured, strict=True):
                row[f"like {kind} at its own alpha, {name}"] = value
        out.append(row)
    return out

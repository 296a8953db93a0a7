"""Unlabelled statistics of a file and of a grouping of it: all that the judge reads.

None of them names an attribute, a language or a kind of entity. Those of a file are the same for
all its groupings; those of a grouping say how it stands to exact names, what it keeps together and
apart among pairs that are alike, and whether attributes agree inside clusters more often than
among near misses: pairs that share something and are apart. A statistic that counts nothing is
missing (NaN).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from kbforge.clustering.prior import DirichletProcess
from kbforge.contracts import FloatArray, Fragment, IntArray
from kbforge.fit.seen import Seen

NAN = float("nan")
ATTRIBUTES = "attributes a fragment"


def file_statistics(seen: Seen, everything: Sequence[Fragment]) -> dict[str, float]:
    """What a file is like, by name."""
    n = max(seen.n, 1)
    names, words = seen.names, seen.words
    text = "".join(names)
    letters = max(len(text), 1)
    of_exact = np.bincount(seen.exact, minlength=seen.n)[seen.exact]
    alike = ~seen.equal
    having: Counter[str] = Counter()
    several = 0
    for fragment in everything:
        having.update(fragment.properties.keys())
        several += any(len(values) > 1 for values in fragment.properties.values())
    coverage = [having[key] / max(len(everything), 1) for key in sorted(having)[:200]]
    rarity = [seen.word_rarity.get(word, NAN) for held in words for word in held]
    out = {
        "log fragments": math.log(max(len(everything), 1)),
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


def grouping_statistics(seen: Seen, labels: IntArray) -> dict[str, float]:
    """What a grouping of a sample is like, by name.

    Args:
        seen: of the sample.
        labels: [n] cluster numbers below n.

    """
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
    inside, apart = together, ~together
    for name, chosen in (
        ("inside", inside),
        ("inside, other names", inside & ~seen.equal),
        ("apart", apart),
        ("apart, equal names", apart & seen.equal),
        ("apart, similar names", apart & ~seen.equal & (seen.similarity >= 0.85)),
    ):
        out |= {f"{name}: {key}": value for key, value in _attributes(seen, chosen).items()}
    out |= _lift(seen, inside, apart)
    return out


def agreement(
    labels: IntArray, others: IntArray, first: int | None = None
) -> tuple[float, float, float]:
    """B-cubed precision, recall and mean F1 of one grouping against another, numbers below n.

    Args:
        labels: [n] cluster numbers.
        others: [n] those of the other grouping.
        first: of so many fragments; None is of all.

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
    """How each grouping of one merge path stands on the path, by name; alphas ascend."""
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


def _kept(seen: Seen, together: NDArray[np.bool_]) -> dict[str, float]:
    """Which alike pairs are kept together, and how alike those are that are together."""
    several = np.array([len(held) > 1 for held in seen.words], dtype=np.bool_)
    long = several[seen.one]
    rare = seen.rarity.sum(axis=1)
    alike, contradicted = ~seen.equal, seen.contradict.sum(axis=1) > 0
    agreed = seen.agree.sum(axis=1) > 0
    n = max(seen.n, 1)
    out = {
        "equal names kept": _share(together, seen.equal),
        "equal names of one word kept": _share(together, seen.equal & ~long),
        "equal names of several words kept": _share(together, seen.equal & long),
        "equal names kept against a contradiction": _share(together, seen.equal & contradicted),
        "equal names kept with an agreement": _share(together, seen.equal & agreed),
        "rare agreements kept": _share(together, rare > math.log(n)),
        "subsets of words kept": _share(together, alike & (seen.common >= 0.5)),
        "other names inside": _share(alike, together),
        "unlike names inside": _share(seen.similarity < 0.6, together),
        "no common word inside": _share(seen.common == 0, together & long),
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
        out[f"similar names kept, {low}"] = _share(together, band)
    return out


def _attributes(seen: Seen, chosen: NDArray[np.bool_]) -> dict[str, float]:
    """How attributes stand among some pairs: agreement, contradiction, how rare what agrees is."""
    agree, contradict = seen.agree[chosen], seen.contradict[chosen]
    agreed, against = agree.sum(axis=1), contradict.sum(axis=1)
    said = agreed + against
    return {
        "agreement": float(agreed.sum() / said.sum()) if said.sum() else NAN,
        "any contradiction": _mean((against > 0)[said > 0]),
        "contradictions only": _mean(((against > 0) & (agreed == 0))[said > 0]),
        "nothing to compare": _mean(said == 0),
        "rarity agreed on": _mean(seen.rarity[chosen].sum(axis=1)[said > 0]),
    }


def _lift(seen: Seen, inside: NDArray[np.bool_], apart: NDArray[np.bool_]) -> dict[str, float]:
    """Agreement inside clusters over that of near misses, attribute by attribute.

    An attribute is near-functional if it hardly ever contradicts inside clusters and is not the
    same everywhere; then a contradiction speaks against a cluster.
    """
    if not seen.agree.shape[1]:
        missing = ("lift", "least lift", "lift over chance", "contradictions of functional ones")
        return dict.fromkeys(missing, NAN)
    within, without = _rates(seen, inside), _rates(seen, apart)
    said_in = (seen.agree + seen.contradict)[inside].sum(axis=0)
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


def _rates(seen: Seen, chosen: NDArray[np.bool_]) -> FloatArray:
    """[attributes] agreement among some pairs, of those that say something."""
    agreed, against = seen.agree[chosen].sum(axis=0), seen.contradict[chosen].sum(axis=0)
    with np.errstate(invalid="ignore"):
        return np.asarray(agreed / (agreed + against))


def _names_of_largest(seen: Seen, labels: IntArray, sizes: IntArray) -> float:
    if not len(labels):
        return NAN
    members = np.flatnonzero(labels == int(sizes.argmax()))
    return len(np.unique(seen.exact[members])) / len(members)


def _share(of: NDArray[np.bool_], among: NDArray[np.bool_]) -> float:
    return _mean(of[among])


def _mean(values: NDArray[np.bool_] | FloatArray) -> float:
    return float(np.mean(values)) if len(values) else NAN

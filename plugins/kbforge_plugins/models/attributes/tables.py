"""What is kept of a vocabulary: arrays in which a value or a feature is found by its digest.

What follows from a value alone, its features, is not kept. Nothing here is worked out for all
values when it is read: a file of a million records is taken up as fast as one of a thousand, but
for looking at the arrays once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kbforge.contracts import FloatArray, IntArray
from kbforge.contracts.kept import Kept
from kbforge.models.keeping import TakenUp
from kbforge_plugins.models.digests import LARGEST, Places, digests_of, nowhere

_MOST_VALUES = 2**31 - 1
_LAST_LETTER = 0x10FFFF


@dataclass(frozen=True, slots=True)
class Totals:
    """What base probabilities are made of.

    Attributes:
        letters: how often each occurs in the values, each value once.
        values: how many there are.
        observed: sum of their counts.
        discounted: sum of what is taken off these.

    """

    letters: Mapping[str, int]
    values: int
    observed: float
    discounted: float


@dataclass(frozen=True, slots=True, eq=False)
class Tables:
    """Values and their features by digest.

    Attributes:
        values: of each value.
        number: of each of these, shape [values].
        base: base probability by number, shape [values].
        features: of each feature.
        mass: of each of these, shape [features].
        starts: where the holders of each feature begin, and where all end, shape [features + 1]; of
            titles, else empty.
        holders: numbers of the values that have a word, feature after feature, each ascending.

    """

    values: Places
    number: NDArray[np.int32]
    base: FloatArray
    features: Places
    mass: FloatArray
    starts: IntArray
    holders: NDArray[np.int32]

    def holding(self, feature: int) -> list[int]:
        """The numbers of the titles that have the word at this place."""
        held: list[int] = self.holders[self.starts[feature] : self.starts[feature + 1]].tolist()
        return held


NO_TABLES = Tables(
    nowhere(),
    np.zeros(0, np.int32),
    np.zeros(0),
    nowhere(),
    np.zeros(0),
    np.zeros(0, np.int64),
    np.zeros(0, np.int32),
)
"""Of a vocabulary that was not taken up."""


def feature_text(name: int, key: str) -> str:
    """What the digest of a feature is of."""
    return f"{name}\0{key}"


def tables_of(
    values: Sequence[str],
    base: Sequence[float],
    features: Mapping[tuple[int, str], float],
    holders: Mapping[tuple[int, str], AbstractSet[int]] | None,
) -> Tables:
    """The tables of a vocabulary.

    Args:
        values: by number.
        base: by number.
        features: the mass of each.
        holders: of titles, the values that have each word.

    """
    digests = digests_of(values)
    order = np.argsort(digests, kind="stable")
    of_features = digests_of(feature_text(*feature) for feature in features)
    ranked = np.argsort(of_features, kind="stable")
    starts, held = np.zeros(0, np.int64), np.zeros(0, np.int32)
    if holders is not None:
        known = list(features)
        lists = [sorted(holders.get(known[i], ())) for i in ranked.tolist()]
        starts = np.cumsum([0, *map(len, lists)], dtype=np.int64)
        held = np.fromiter((u for part in lists for u in part), np.int32, int(starts[-1]))
    return Tables(
        Places(digests[order]),
        order.astype(np.int32),
        np.array(base, np.float64),
        Places(of_features[ranked]),
        np.fromiter(features.values(), np.float64, len(features))[ranked],
        starts,
        held,
    )


def to_kept(totals: Totals, tables: Tables) -> Kept:
    """Totals and tables as they are stored."""
    letters = sorted(totals.letters.items())
    return Kept(
        {"observed": totals.observed, "discounted": totals.discounted},
        {
            "letters": np.array([ord(letter) for letter, _ in letters], np.int32),
            "letter_counts": np.array([n for _, n in letters], np.int64),
            "values": tables.values.digests,
            "number": tables.number,
            "base": tables.base,
            "features": tables.features.digests,
            "mass": tables.mass,
            "starts": tables.starts,
            "holders": tables.holders,
        },
    )


def read_kept(kept: Kept, titles: bool, whose: str) -> tuple[Totals, Tables]:
    """What `to_kept` made.

    Args:
        kept: by someone of whom nothing is known.
        titles: whether the values are titles.
        whose: vocabulary, for errors.

    Raises:
        ModelError: it is damaged, or something else.

    """
    read = TakenUp(kept, whose)
    fields = read.only("observed", "discounted")
    letters = read.array("letters", np.int32, least=0, most=_LAST_LETTER, ascending=True)
    letter_counts = read.array("letter_counts", np.int64, len(letters), least=1, most=2**53)
    values = read.array("values", np.int64, least=0, most=LARGEST, ascending=True)
    n = len(values)
    number = read.array("number", np.int32, n, least=0, most=n - 1)
    if n and np.bincount(number, minlength=n).max() > 1:
        raise read.wrong("number", "each number once", "one of them twice")
    base = read.array("base", np.float64, n, least=np.finfo(np.float64).tiny, most=1.0)
    features = read.array("features", np.int64, least=0, most=LARGEST, ascending=True)
    mass = read.array("mass", np.float64, len(features), least=0.0, most=max(n, 1))
    starts = read.array(
        "starts", np.int64, len(features) + 1 if titles else 0, least=0, ascending=True
    )
    if titles and starts[0]:
        raise read.wrong("starts", "0 as the first one", str(starts[0]))
    total = int(starts[-1]) if titles else 0
    holders = read.array("holders", np.int32, total, least=0, most=n - 1)
    return (
        Totals(
            dict(zip(map(chr, letters.tolist()), letter_counts.tolist(), strict=True)),
            n,
            fields.within("observed", 0.0, 2.0**53),
            fields.within("discounted", 0.0, 2.0**53),
        ),
        Tables(Places(values), number, base, Places(features), mass, starts, holders),
    )

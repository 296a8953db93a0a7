"""What else is known of a file when doubt is told: pairs by a model of pairs, groupings by a judge.

Both are at hand where a likelihood and its alpha were chosen. The model of pairs says of two rows
how probable it is that they are one entity; fragments that state the same are one row. The judge
has looked at many groupings of a sample, and says what F1 each is expected to have.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias

import numpy as np
import orjson
from numpy.typing import NDArray

from kbforge.contracts import FloatArray, Fragment, IntArray
from kbforge.fit.told import Counted

UNREAD = -1

BoolArray: TypeAlias = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class PairOdds:
    """Log odds that two rows are of one entity.

    Attributes:
        row: of each fragment, shape [n]; `UNREAD` of one that the model has not read.
        first: a row, ascending, shape [links]; a link is there both ways round.
        second: another row, or the same one for two fragments that state the same.
        nats: log odds of each link.
        apart: log odds of two rows without a link.

    """

    row: IntArray
    first: IntArray
    second: IntArray
    nats: FloatArray
    apart: float


class ReadsPairs(Protocol):
    """A model of pairs that was fitted to the file."""

    def pair_odds(self, fragments: Sequence[Fragment], placed: BoolArray | None = None) -> PairOdds:
        """The log odds of the pairs of these fragments that it looks at.

        Args:
            fragments: of the file, or others.
            placed: which of the others to place against the file, the rest being `UNREAD`; None is
                all. It takes milliseconds each.

        """


@dataclass(frozen=True, eq=False)
class Predicted:
    """What a judge expects of groupings.

    Attributes:
        f1: of the one that was chosen.
        gain: of the one that was chosen, over exact names.
        weights: how probable each grouping is to be the best, shape [groupings].
        labels: number of the cluster of each fragment of the sample, [groupings, sample].
        ids: of the fragments of the sample, distinct.
        stated: digest of what each of them states, shape [sample].

    """

    f1: float
    gain: float
    weights: FloatArray
    labels: IntArray
    ids: tuple[str, ...]
    stated: IntArray

    @classmethod
    def of(
        cls,
        f1: float,
        gain: float,
        weights: FloatArray,
        labels: IntArray,
        sample: Sequence[Fragment],
    ) -> Predicted:
        """What is expected of groupings of a sample; all else as the attributes."""
        stated = np.fromiter(map(_stated, sample), np.int64, len(sample))
        return cls(f1, gain, weights, labels, tuple(f.id for f in sample), stated)

    def places(self, fragments: Sequence[Fragment]) -> IntArray:
        """Where each fragment is in the sample, -1 outside, shape [fragments].

        Fragments may have come, gone and changed their order since. One that states something else
        by now is outside.
        """
        place = {name: k for k, name in enumerate(self.ids)}
        out = np.full(len(fragments), -1, np.int64)
        for number, fragment in enumerate(fragments):
            k = place.get(fragment.id, -1)
            if k >= 0 and self.stated[k] == _stated(fragment):
                out[number] = k
        return out


@dataclass(frozen=True, eq=False)
class Whole:
    """What holds of a file as a whole, frozen when it was read the last time.

    Attributes:
        counted: of what its fragments say.
        columns: the covariates of the file, by name; NaN for what was not heard.

    """

    counted: Counted
    columns: Mapping[str, float]


@dataclass(frozen=True, eq=False)
class Heard:
    """All of it.

    Attributes:
        likelihood: name of the one that clustered.
        pairs: None where no model of pairs can read the file.
        predicted: None where no grouping was judged.
        whole: of the file that fragments to be read are some of; None if they are all of it.

    """

    likelihood: str
    pairs: ReadsPairs | None = None
    predicted: Predicted | None = None
    whole: Whole | None = None


def _stated(fragment: Fragment) -> int:
    stated = orjson.dumps(dict(fragment.properties), option=orjson.OPT_SORT_KEYS)
    return int.from_bytes(hashlib.blake2b(stated, digest_size=8).digest()) >> 1

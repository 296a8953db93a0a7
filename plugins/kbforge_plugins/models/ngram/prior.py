"""The prior of the n-gram models: how characters follow each other in general.

For every attribute and history h (the n-1 symbols before), a cluster's next characters are drawn
from a categorical distribution with a Dirichlet prior

    alpha[h, c] = scale * P(c | h),      so that sum over c of alpha[h, c] = scale

where P is estimated from counts n(.) of training text, each order smoothed by the one below:

    P(c | h) = (n(hc) + kappa P(c | h')) / (n(h) + kappa),    h' = h without its first symbol

down to P(c) = 1 / U, uniform over the U characters of Unicode and the end symbol. So the model is
normalised over all strings, and unseen characters share the mass that kappa leaves them.

This is Chien (2015), "Hierarchical Pitman-Yor-Dirichlet Language Model", with the split-SMC paper's
rescaling (appendix D.2.1), in units that do not depend on how much text was counted: the published
alpha[h, c] is a constant times a plus-one smoothed *count*, whose history totals grow with the
history's frequency; here `scale` is the number of pseudo-observations of each history.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

import numpy as np
import orjson
from numpy.typing import NDArray

from kbforge.contracts.fragment import Fragment
from kbforge.contracts.kept import Kept
from kbforge.errors import ModelError, quoted
from kbforge.files.digests import DigestSet
from kbforge.models.keeping import TakenUp
from kbforge_plugins.models.ngram.text import ngrams_of_all, normalised

COUNTS_FILE = "counts.json"
ALPHABET = sys.maxunicode + 1 + 1  # every code point, and the end symbol
KAPPA = 1.0
_AT_ONCE = 10_000
"""Values whose n-grams are counted at once."""


@dataclass
class NgramCounts:
    """n-gram counts by attribute: {attribute: {n-gram: count}}.

    Each different value of an attribute counts once, however often it is repeated: what a file
    repeats, it repeats because of its entities, and the prior should know the language instead.
    """

    order: int
    by_attribute: dict[str, Counter[str]]
    _seen: DigestSet = field(default_factory=DigestSet, init=False, repr=False, compare=False)

    @classmethod
    def empty(cls, order: int, attributes: Iterable[str]) -> NgramCounts:
        """No text seen yet."""
        return cls(order, {attribute: Counter() for attribute in attributes})

    @property
    def values(self) -> int:
        """How many different (normalised) values `add` has counted."""
        return len(self._seen)

    def add(self, fragments: Sequence[Fragment]) -> None:
        """Count the values of some fragments that are new."""
        for attribute, counter in self.by_attribute.items():
            values = dict.fromkeys(
                value for f in fragments for value in f.properties.get(attribute, ())
            )
            new = (
                text
                for text in map(normalised, values)
                if self._seen.add(f"{attribute}\0{text}".encode())
            )
            while some := list(islice(new, _AT_ONCE)):
                counter.update(ngrams_of_all(some, self.order))

    def kept(self, values: Mapping[str, Any]) -> Kept:
        """The counts, and further values, as `taken_up` reads them."""
        arrays: dict[str, NDArray[Any]] = {}
        for number, counter in enumerate(self.by_attribute.values()):
            counted = sorted(counter.items())
            letters = [[ord(letter) for letter in gram] for gram, _ in counted]
            arrays[f"ngrams_{number}"] = np.array(letters, np.int32).reshape(-1, self.order)
            arrays[f"counts_{number}"] = np.array([n for _, n in counted], np.int64)
        return Kept({**values, "attributes": list(self.by_attribute)}, arrays)

    @classmethod
    def taken_up(cls, order: int, read: TakenUp) -> NgramCounts:
        """The counts that kept this.

        Args:
            order: of the n-grams.
            read: what was kept.

        Raises:
            ModelError: it is damaged.

        """
        out = cls.empty(order, read.fields.texts("attributes"))
        for number, counter in enumerate(out.by_attribute.values()):
            name = f"ngrams_{number}"
            grams = read.array(name, np.int32, least=0, most=sys.maxunicode, width=order)
            counts = read.array(f"counts_{number}", np.int64, len(grams), least=1, most=2**53)
            spelled = ("".join(map(chr, gram)) for gram in grams.tolist())
            counter.update(dict(zip(spelled, counts.tolist(), strict=True)))
        return out

    def to_bytes(self) -> bytes:
        """The counts file of a bundle."""
        counts = {a: dict(sorted(c.items())) for a, c in sorted(self.by_attribute.items())}
        return orjson.dumps({"order": self.order, "counts": counts})

    @classmethod
    def from_bytes(cls, content: bytes, where: str) -> NgramCounts:
        """Parse strictly.

        Raises:
            ModelError: not counts, with what is wrong.

        """
        try:
            record = orjson.loads(content)
        except orjson.JSONDecodeError as error:
            raise ModelError(f"{where}: {COUNTS_FILE} is not JSON ({error})") from error
        if not isinstance(record, dict) or set(record) != {"order", "counts"}:
            raise ModelError(f"{where}: {COUNTS_FILE} should hold an order and counts")
        order, counts = record["order"], record["counts"]
        if type(order) is not int or not 1 <= order <= 9:
            raise ModelError(f"{where}: expected an order from 1 to 9, got {quoted(order)}")
        if not isinstance(counts, dict):
            raise ModelError(f"{where}: expected counts by attribute, got {quoted(counts)}")
        return cls(order, {a: _checked(c, order, f"{where}: {a}") for a, c in counts.items()})


def _checked(counter: Any, order: int, where: str) -> Counter[str]:
    if not isinstance(counter, dict):
        raise ModelError(f"{quoted(where, 400)}: expected counts of n-grams, got {quoted(counter)}")
    for gram, count in counter.items():
        if len(gram) != order or type(count) is not int or count < 1:
            raise ModelError(
                f"{quoted(where, 400)}: expected a positive count of an n-gram of {order} "
                f'characters, got {quoted(count)} of "{quoted(gram)}"'
            )
    return Counter(counter)


@dataclass
class NgramPrior:
    """P(c | h) by attribute, from counts.

    Args:
        counts: what was seen.
        alphabet: U, the number of symbols that can follow a history.

    """

    counts: NgramCounts
    alphabet: int = ALPHABET
    _ngrams: Mapping[str, list[Counter[str]]] = field(init=False)
    _histories: Mapping[str, list[Counter[str]]] = field(init=False)

    def __post_init__(self) -> None:
        lower = {
            a: _lower_orders(c, self.counts.order) for a, c in self.counts.by_attribute.items()
        }
        self._ngrams = lower
        self._histories = {a: [_totals(c) for c in orders] for a, orders in lower.items()}

    def probability(self, attribute: str, ngram: str) -> float:
        """P(last symbol | those before it), > 0; uniform for an attribute never counted."""
        p = 1.0 / self.alphabet
        orders, totals = self._ngrams.get(attribute, []), self._histories.get(attribute, [])
        for order, (counter, total) in enumerate(zip(orders, totals, strict=True), start=1):
            part = ngram[-order:]
            p = (counter[part] + KAPPA * p) / (total[part[:-1]] + KAPPA)
        return p


def _lower_orders(counter: Counter[str], order: int) -> list[Counter[str]]:
    """Counts of order 1, 2, ..., `order`: each is the one above without its first symbols."""
    orders = [counter]
    for _ in range(order - 1):
        shorter: Counter[str] = Counter()
        for gram, count in orders[0].items():
            shorter[gram[1:]] += count
        orders.insert(0, shorter)
    return orders


def _totals(counter: Counter[str]) -> Counter[str]:
    totals: Counter[str] = Counter()
    for gram, count in counter.items():
        totals[gram[:-1]] += count
    return totals

"""Character n-gram likelihoods of names (split-SMC paper, appendix D.2.1; Chien 2015).

The characters of a cluster's values follow an n-gram chain whose transition probabilities are the
cluster's own, drawn from a Dirichlet prior around the language's and integrated out. So mentions
of one entity share n-grams that are rare elsewhere, and

    L(C) = sum over histories h of log DirichletMultinomial(counts of C after h)

of the ordered characters. Each attribute has its own chains; a fragment without any of the
attributes contributes 0.

*Prior.* For every attribute and history h (the n-1 symbols before), a cluster's next characters are
drawn from a categorical distribution with a Dirichlet prior

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
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
import orjson
from numpy.typing import NDArray

from kbforge.contracts import LearnedState
from kbforge.contracts.fragment import Fragment
from kbforge.contracts.likelihood import ConjugateLikelihood, Features, FloatArray
from kbforge.errors import ModelError, UsageError, listed, quoted
from kbforge.files.columns import statements_of
from kbforge.files.fragments import DigestSet
from kbforge.indexes.hashed import gram_counts
from kbforge.indexes.ngrams import Ngrams
from kbforge.models.bundle import KeptReader, read_bundle
from kbforge.texts import END, START, normalised
from kbforge_lm.likelihoods.counts import DirichletRows, RowClusters, RowCounts

COUNTS_FILE = "counts.json"
ALPHABET = sys.maxunicode + 1 + 1  # every code point, and the end symbol
KAPPA = 1.0
_AT_ONCE = 10_000  # values whose n-grams are counted at once


def ngrams(value: str, order: int) -> Counter[str]:
    """The n-grams of a value, of `order` symbols each, one for each character and the end."""
    text = START * (order - 1) + normalised(value) + END
    return Counter(text[i : i + order] for i in range(len(text) - order + 1))


def ngrams_of_all(texts: Iterable[str], order: int) -> Counter[str]:
    """The n-grams of all of some normalised values."""
    text = "".join(f"{START * (order - 1)}{value}{END}" for value in texts)
    counts = Counter(map("".join, zip(*(text[i:] for i in range(order)), strict=False)))
    # without those that begin in one value and end in another
    return Counter({gram: n for gram, n in counts.items() if END not in gram[:-1]})


@dataclass
class NgramCounts:
    """Counts by attribute and n-gram, of different values: the prior describes the language."""

    order: int
    by_attribute: dict[str, Counter[str]]
    _seen: DigestSet = field(default_factory=DigestSet, init=False, repr=False, compare=False)

    @classmethod
    def empty(cls, order: int, attributes: Iterable[str]) -> NgramCounts:
        """No counts."""
        return cls(order, {attribute: Counter() for attribute in attributes})

    @property
    def values(self) -> int:
        """Number of different (normalised) values that `add` has counted."""
        return len(self._seen)

    def add(self, fragments: Sequence[Fragment]) -> None:
        """Count the new values of some fragments."""
        said = statements_of(fragments)
        values = dict(zip(said.attributes, said.texts, strict=True))
        for attribute, counter in self.by_attribute.items():
            new = (
                text
                for text in map(normalised, values.get(attribute, ()))
                if self._seen.add(f"{attribute}\0{text}".encode())
            )
            while some := list(islice(new, _AT_ONCE)):
                counter.update(ngrams_of_all(some, self.order))

    def dump(self, values: Mapping[str, Any]) -> LearnedState:
        """The counts, and further values, in the form that `load` reads."""
        arrays: dict[str, NDArray[Any]] = {}
        for number, counter in enumerate(self.by_attribute.values()):
            counted = sorted(counter.items())
            letters = [[ord(letter) for letter in gram] for gram, _ in counted]
            arrays[f"ngrams_{number}"] = np.array(letters, np.int32).reshape(-1, self.order)
            arrays[f"counts_{number}"] = np.array([n for _, n in counted], np.int64)
        return LearnedState({**values, "attributes": list(self.by_attribute)}, arrays)

    @classmethod
    def load(cls, order: int, read: KeptReader) -> NgramCounts:
        """Load the form of `dump`; a ModelError if it is damaged."""
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
        """Parse strictly; a ModelError says what is wrong."""
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


class NgramPrior:
    """P(c | h) by attribute, from counts of text; U symbols can follow a history."""

    def __init__(self, counts: NgramCounts, alphabet: int = ALPHABET) -> None:
        self.counts, self.alphabet = counts, alphabet
        self._ngrams = {a: _orders(c, counts.order) for a, c in counts.by_attribute.items()}
        self._histories = {a: [_totals(c) for c in lower] for a, lower in self._ngrams.items()}

    def probability(self, attribute: str, ngram: str) -> float:
        """P(last symbol | those before it), > 0; uniform for an attribute never counted."""
        p = 1.0 / self.alphabet
        orders, totals = self._ngrams.get(attribute, []), self._histories.get(attribute, [])
        for order, (counter, total) in enumerate(zip(orders, totals, strict=True), start=1):
            part = ngram[-order:]
            p = (counter[part] + KAPPA * p) / (total[part[:-1]] + KAPPA)
        return p


def _orders(counter: Counter[str], order: int) -> list[Counter[str]]:
    """Counts of order 1, 2, ..., `order`, each from the next without its first symbols."""
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


_MOST_CACHED = 1 << 15  # fragments whose encoding is cached, because names recur


class NgramRows(DirichletRows):
    """Rows of characters after histories, which each attribute has of its own."""

    def __init__(self, prior: NgramPrior, scale: float, attributes: Iterable[str]) -> None:
        super().__init__()
        self._prior, self._scale = prior, scale
        self._order = prior.counts.order
        self._row_of: dict[str, dict[str, int]] = {attribute: {} for attribute in attributes}
        self._known: dict[tuple[tuple[str, ...], ...], RowCounts] = {}

    def encode(self, fragment: Fragment) -> RowCounts:
        """The n-grams of a fragment's values; none if it has none of the attributes."""
        values = tuple(fragment.properties.get(attribute, ()) for attribute in self._row_of)
        found = self._known.get(values)
        if found is None:
            if len(self._known) >= _MOST_CACHED:
                self._known.clear()
            found = self._known[values] = super().encode(fragment)
        return found

    def count(self, fragment: Fragment) -> Counter[int]:
        """The n-grams of a fragment's values, and the histories that they come after."""
        counts: Counter[int] = Counter()
        for attribute, row_of in self._row_of.items():
            for text in fragment.properties.get(attribute, ()):
                for gram, count in ngrams(text, self._order).items():
                    for key in (gram, gram[:-1]):
                        row = row_of.get(key)
                        if row is None:
                            made = self._pseudo_count_and_sign(attribute, key)
                            row = row_of[key] = self._made(*made)
                        counts[row] += count
        return counts

    def _pseudo_count_and_sign(self, attribute: str, key: str) -> tuple[float, float]:
        if len(key) < self._order:
            return self._scale, -1.0
        return self._scale * self._prior.probability(attribute, key), 1.0


_LARGEST_SCALE = 1e6
_NAMED = 10  # attributes in a message


class NgramLikelihood(ConjugateLikelihood):
    """Common code of n-gram models of every order; each documents its options for users."""

    order: ClassVar[int]
    default_scale: ClassVar[float]
    explains = loads_bundles = alpha_from_file = keeps = True

    def __init__(self, attributes: tuple[str, ...] = ("name",), scale: float | None = None) -> None:
        if scale is not None and not 0 < scale <= _LARGEST_SCALE:
            raise UsageError(
                f"{self._called()}: scale must be above 0 and at most {_LARGEST_SCALE:g}, "
                f"got {scale}"
            )
        if not attributes or not all(attributes):
            raise UsageError(f"{self._called()}: name at least one attribute to read")
        self.attributes = tuple(dict.fromkeys(attributes))
        self.scale = self.default_scale if scale is None else scale
        self._trained = False
        self._use(NgramCounts.empty(self.order, self.attributes))

    @classmethod
    def _called(cls) -> str:
        return f"likelihood {cls.__name__.lower()}"

    def _use(self, counts: NgramCounts) -> None:
        self._counts = counts
        self.rows = NgramRows(NgramPrior(counts), self.scale, self.attributes)

    @classmethod
    def trained(
        cls, counts: NgramCounts, attributes: tuple[str, ...], scale: float | None = None
    ) -> Self:
        """A model with given counts, which `fit` does not change."""
        model = cls(attributes, scale)
        model._use(counts)
        model._trained = True
        return model

    @classmethod
    def from_bundle(
        cls, path: Path, attributes: tuple[str, ...] | None = None, scale: float | None = None
    ) -> Self:
        """Load a model that `kbforge train-ngram` wrote.

        Args:
            path: the bundle's folder.
            attributes: some of the bundle's attributes; by default all.
            scale: replaces the bundle's.

        Raises:
            ModelError: the bundle is damaged, of another order, or lacks an attribute.

        """
        bundle = read_bundle(path)
        where = quoted(str(path), 400)
        if COUNTS_FILE not in bundle.files:
            raise ModelError(f"{where} has no {COUNTS_FILE}: it is not an n-gram model")
        counts = NgramCounts.from_bytes(bundle.files[COUNTS_FILE], where)
        if counts.order != cls.order:
            raise ModelError(
                f"{where} holds n-grams of order {counts.order}, "
                f"but {cls._called()} needs {cls.order}"
            )
        missing = [a for a in attributes or () if a not in counts.by_attribute]
        if missing:
            raise ModelError(
                f'{where} was not trained on the attribute "{quoted(missing[0])}"; '
                f"it has {', '.join(map(quoted, counts.by_attribute))}"
            )
        tuned = bundle.recipe.get("scale")
        if scale is None and tuned is not None:
            if type(tuned) not in (int, float) or not 0 < tuned <= _LARGEST_SCALE:
                raise ModelError(f"{where}: its recipe has the scale {quoted(tuned)}")
            scale = float(tuned)
        return cls.trained(counts, tuple(attributes or counts.by_attribute), scale)

    def fit(self, fragments: Sequence[Fragment]) -> str | None:
        """Without trained counts, count the values of the input, and return a note.

        Raises:
            UsageError: no fragment has the attributes that are read.
        """
        if self._trained:
            return None
        said = statements_of(fragments)
        there = sorted(said.attributes)
        stated = dict(zip(said.attributes, said.texts, strict=True))
        if fragments and not any(stated.get(attribute) for attribute in self.attributes):
            raise UsageError(
                f"{self._called()} reads {listed(self.attributes, _NAMED)}, of which no fragment "
                f"has a value; they have {listed(there, _NAMED) or 'no attributes'} "
                "(the option attributes names others)"
            )
        counts = NgramCounts.empty(self.order, self.attributes)
        counts.add(fragments)
        self._use(counts)
        return (
            f"{type(self).__name__.lower()}: no trained counts, so the prior is fitted to the "
            f"{counts.values:,} different values of {listed(self.attributes, _NAMED)} in the input "
            f"(kbforge train-ngram makes a model)"
        )

    def dump(self) -> LearnedState:
        """The counts of the prior, and the scale."""
        return self._counts.dump({"scale": self.scale, "trained": self._trained})

    def load(self, kept: LearnedState) -> None:
        read = KeptReader(kept, self._called())
        fields = read.only("scale", "trained", "attributes")
        scale = fields.within("scale", 0.0, _LARGEST_SCALE)
        if not scale:
            raise read.wrong("scale", "a number above 0", "0")
        if fields.get("trained", bool, "true or false") != self._trained:
            raise read.wrong("trained", f"{self._trained}", f"{not self._trained}")
        counts = NgramCounts.load(self.order, read)
        if not {*self.attributes} <= counts.by_attribute.keys():
            said = listed(tuple(counts.by_attribute), _NAMED)
            raise read.wrong("attributes", listed(self.attributes, _NAMED), said)
        self.scale = scale
        self._use(counts)

    def log_marginal(self, clusters: Sequence[Sequence[Fragment]]) -> FloatArray:
        """L(C), shape [len(clusters)]: the closed form."""
        return self.rows.log_marginal(clusters)

    def contributions(self, fragment: Fragment, cluster: Sequence[Fragment]) -> dict[str, float]:
        """L_a(C + x) - L_a(C) - L_a({x}), in nats, by attribute a; their sum is that of L."""
        out = {}
        for attribute in self.attributes:
            if attribute in fragment.properties:
                x, *others = (_only(f, attribute) for f in (fragment, *cluster))
                both, rest, alone = self.log_marginal([[x, *others], others, [x]])
                out[attribute] = float(both - rest - alone)
        return out

    def index_of_many(self) -> Ngrams:
        """Values with the same rare n-grams, of the attributes that the model reads."""
        return Ngrams(attributes=self.attributes)

    def features(self, fragments: Sequence[Fragment]) -> Features:
        """How often each n-gram occurs."""
        return gram_counts(fragments, self.attributes, self.order)

    def live_clusters(self) -> RowClusters:
        return RowClusters(self.rows)


def _only(fragment: Fragment, attribute: str) -> Fragment:
    values = fragment.properties.get(attribute)
    return Fragment(fragment.id, {} if values is None else {attribute: values})


class Bigram(NgramLikelihood):
    """Character bigrams: each character depends on the one before.

    Args:
        attributes: the attributes whose values are read.
        scale: pseudo-observations of each history, > 0: a larger scale keeps clusters closer to the
            language. The default is the trained model's, else 1.

    Raises:
        UsageError: a scale out of range, or no attributes.

    """

    order: ClassVar[int] = 2
    default_scale: ClassVar[float] = 1.0
    default_alpha = 1000.0

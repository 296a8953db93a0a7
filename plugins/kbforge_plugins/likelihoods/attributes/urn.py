"""The probability of an attribute's values in a cluster, and its error rates.

*One value.* G(u | v) is the probability of an observed value u if the true value is v. It mixes
several origins of a value, each a distribution over u:

    copy            u = v
    substitution    one letter replaced, or two neighbours swapped, each place and letter alike
    edit            one letter more or less
    two edits       two of these
    a feature       a value of the vocabulary other than v that shares a feature of this name with
                    v, drawn from the base distribution; if v has several, each is as probable to
                    be the one kept
    a retention     of titles, in place of features: so many of the words of v (`RETENTIONS`)
    noise           any value other than v, drawn from the base distribution

The mixing weights are the attribute's rates. Typos contain only letters of the vocabulary, and in
dates and numbers only digits; they sum to at most 1 over all strings u, the other components to at
most 1 over the counted values. G(v | v) is only the weight of copies.

*A cluster.* The entity has a true value v, drawn from the base distribution. Its records draw from
a Dirichlet process around G(. | v) with concentration c, so a variant that occurred once is likely
to recur. Integrated out (Blackwell and MacQueen 1973), with n_u observations of the different
values u, n in total,

    P(x_1..x_n | v) = prod over u of [c G(u|v)]_(n_u) / [c]_n      [a]_k = a (a + 1) ... (a + k - 1)

and summed over the true value. The sum runs over the values seen in the cluster; every other true
value is assumed to explain them by chance, G(u | elsewhere) = (1 - copy) base(u):

    L = log( sum over v seen of base(v) P(x | v) + P(x | elsewhere) )

For one observation that is base(x). For n it sums to at most 1 over all sequences of counted
values: with q = [(1 - copy) c]_n / [c]_n the true value is not among them, so that the first term
sums to at most 1 - q and the second to q. As c grows it becomes the hit-miss model with independent
errors (Copas and Hilton 1990; Steorts 2015).

If other attributes mostly predict this one (`discounted`), every base probability is raised to
the power of a discount d: an agreement is worth d times the logarithm of its rarity. The odds of
two groupings depend only on ratios of L.

An urn is a multiset of values with its L; equal multisets share one in the kernel. L depends only
on the multiset, to the last bit, because logs are added as integers of a small unit.

*Rates* are the readable part of a model, read strictly:

    format = 2

    [attributes."birth place"]
    kind = "text"
    concentration = 3.2          # small: records repeat each other's variants
    discount = 0.8               # 1: no other attribute predicts this one's values
    [attributes."birth place".weights]
    copy = 0.81                  # and so on, one number a component; they sum to 1

*Live clusters* are in the kernel (`UrnClusters`). The kernel numbers values as they come. It
receives base probability, letters and features of a value before the first fragment with that
value, and first of all which counted titles have each word.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, TypeAlias, cast

import numpy as np
from numpy.typing import NDArray

from kbforge.contracts import FloatArray, Fragment, LearnedState
from kbforge.errors import ModelError
from kbforge.files.columns import Taken
from kbforge.files.records import Record, toml_record, toml_value
from kbforge.kernel.binding import (
    EncodedFragments,
    KernelRecord,
    MergingClusters,
    address,
    kernel_library,
)
from kbforge.models.bundle import together
from kbforge.numerics import by_first, starts_of
from kbforge.texts.features import characters_of
from kbforge.texts.kinds import KINDS, Kind, feature_names, stated
from kbforge.texts.statements import StatedValues
from kbforge_plugins.likelihoods.attributes.vocabulary import RETENTIONS, Encoder, Vocabulary

COPY = 0
SLIPS = ("copy", "substitution", "edit", "two edits")
NOISE = "noise"
VALUES = (
    *("base", "counted", "character_starts", "characters"),
    *("feature_starts", "feature_names", "features", "masses"),
)
"""The arrays that the kernel reads of values."""
_TITLES = ("retentions", "holder_starts", "holders", "bases")


def component_names(kind: Kind) -> tuple[str, ...]:
    """The mixture's components in order: typos, features, noise."""
    kept = [name for name, *_ in RETENTIONS] if kind == "title" else feature_names(kind)
    return (*SLIPS, *kept, NOISE)


FORMAT = 2
_TOLERANCE = 1e-3
_LEAST, _LARGEST = 1e-3, 1e6
_COPY, _NOISE = 0.75, 0.1
_COPY_OF_TITLE, _NOISE_OF_TITLE, _SLIPS_OF_TITLE = 0.42, 0.02, 0.04
_CONCENTRATION = 10.0
_LEAST_DISCOUNT = 0.01
_LEAST_WEIGHT = 1e-7
_ROUNDING = 1e-12


@dataclass(frozen=True, slots=True)
class AttributeRates:
    """The rates of one attribute."""

    kind: Kind
    mixture: Mapping[str, float]  # by component, positive, summing to 1
    concentration: float  # c of the urn
    discount: float = 1.0  # power of the base probabilities, above 0 and at most 1

    @classmethod
    def prior(cls, kind: Kind) -> AttributeRates:
        """The prior rates, before any data."""
        names = component_names(kind)
        if kind == "title":
            return cls(kind, _prior_of_titles(names), _CONCENTRATION)
        rest = (1 - _COPY - _NOISE) / (len(names) - 2)
        mixture = dict.fromkeys(names, rest) | {"copy": _COPY, NOISE: _NOISE}
        return cls(kind, mixture, _CONCENTRATION)

    @classmethod
    def of(
        cls, kind: Kind, weights: list[float], concentration: float, discount: float = 1.0
    ) -> AttributeRates:
        """From weights in the order of `component_names`; normalised weights keep every bit."""
        total = sum(weights)
        if abs(total - 1) > _ROUNDING:
            weights = [weight / total for weight in weights]
        if min(weights) < _LEAST_WEIGHT / 2:
            weights = [max(weight, _LEAST_WEIGHT) for weight in weights]
            total = sum(weights)
            weights = [weight / total for weight in weights]
        mixture = dict(zip(component_names(kind), weights, strict=True))
        return cls(kind, mixture, min(max(concentration, _LEAST), _LARGEST), discount)

    def weights(self) -> tuple[float, ...]:
        """The mixture in the order of `component_names`."""
        return tuple(self.mixture[name] for name in component_names(self.kind))


def _prior_of_titles(names: tuple[str, ...]) -> dict[str, float]:
    """A title is copied half as often as a name; its variants keep some of its words."""
    slips, kept = SLIPS[1:], names[len(SLIPS) : -1]
    rest = (1 - _COPY_OF_TITLE - _NOISE_OF_TITLE - _SLIPS_OF_TITLE) / len(kept)
    mixture = dict.fromkeys(slips, _SLIPS_OF_TITLE / len(slips)) | dict.fromkeys(kept, rest)
    return {"copy": _COPY_OF_TITLE} | mixture | {NOISE: _NOISE_OF_TITLE}


Rates: TypeAlias = Mapping[str, AttributeRates]
"""By attribute."""


def rates_to_toml(rates: Rates) -> bytes:
    """The content of a rates file."""
    lines = [
        "# How records of one entity differ, an attribute a table. A copy of this file can be",
        "# edited and used with --set likelihood.rates=FILE; weights sum to 1.",
        f"format = {FORMAT}",
    ]
    for name, attribute in sorted(rates.items()):
        table = f"attributes.{toml_value(name)}"
        lines += ["", f"[{table}]", f'kind = "{attribute.kind}"']
        lines += [f"concentration = {attribute.concentration!r}"]
        lines += [f"discount = {attribute.discount!r}", f"[{table}.weights]"]
        lines += [f"{toml_value(part)} = {weight!r}" for part, weight in attribute.mixture.items()]
    return "\n".join(lines).encode() + b"\n"


def rates_from_toml(content: bytes, where: str) -> Rates:
    """Read a rates file strictly; a ModelError names the error and its place."""
    top = toml_record(content, where, ModelError).only("format", "attributes")
    top.version(FORMAT)
    attributes = top.table("attributes", "a table per attribute")
    if not list(attributes):
        raise top.wrong("attributes", "at least one table", "none")
    return {name: _attribute(attributes.table(name)) for name in attributes}


def _attribute(entry: Record) -> AttributeRates:
    entry.only("kind", "concentration", "discount", "weights")
    kind = cast(Kind, entry.choice("kind", KINDS))
    names = component_names(kind)
    weights = entry.table("weights").only(*names)
    mixture = [weights.within(part, 0.0, 1.0) for part in names]
    if abs(sum(mixture) - 1) > _TOLERANCE:
        raise entry.wrong("weights", "weights that sum to 1", f"a sum of {sum(mixture):.6g}")
    return AttributeRates.of(
        kind,
        mixture,
        entry.within("concentration", _LEAST, _LARGEST),
        entry.within("discount", _LEAST_DISCOUNT, 1.0),
    )


_Told: TypeAlias = tuple[int, int, int, tuple[NDArray[Any], ...]]
"""The index of an attribute, the kernel's first new number, how many, and what it reads of them."""

_TOLD_AT_ONCE = 1 << 14  # values


class UrnClusters(MergingClusters):
    """One urn per cluster and attribute."""

    def __init__(
        self, encoder: Encoder, read_as: Sequence[tuple[Vocabulary, AttributeRates]]
    ) -> None:
        super().__init__(kernel_library().kb_attributes_new())
        self._encoder, self._read_as = encoder, read_as
        for of, rates in read_as:
            begin_attribute(self.handle, _begun(of, rates))
        # by attribute, the values in the kernel's order, and of values their places or -1
        self._values = [array("i") for _ in read_as]
        self._number = [array("i") for _ in read_as]
        self._index = {name: index for index, name in enumerate(encoder.attributes)}
        # by attribute, the kernel's number of each stated value, -1 of a blank one
        self._known: list[dict[tuple[str, ...], int]] = [{} for _ in read_as]

    def read(self, fragments: Sequence[Fragment]) -> EncodedFragments:
        told: list[_Told] = []
        for index, of in enumerate(self._unknown(fragments)):
            if not of:
                continue
            read = self._encoder.numbers(index, map(stated, of)).tolist()
            told += self._numbered(index, (value for value in read if value >= 0))
            numbers = self._number[index]
            places = (numbers[value] if value >= 0 else -1 for value in read)
            self._known[index].update(zip(of, places, strict=True))
        index_of, known = self._index, self._known
        records = [
            sorted(
                (index, number)
                for name, raw in fragment.properties.items()
                if (index := index_of.get(name, -1)) >= 0 and (number := known[index][raw]) >= 0
            )
            for fragment in fragments
        ]
        flat = np.array(list(chain.from_iterable(records)), np.int32).reshape(-1, 2)
        attributes, values = flat.T.copy()
        return EncodedFragments(starts_of(list(map(len, records))), attributes, values, told)

    def _unknown(self, fragments: Sequence[Fragment]) -> list[dict[tuple[str, ...], None]]:
        """By attribute, what fragments state that was not read yet."""
        said: list[dict[tuple[str, ...], None]] = [{} for _ in self._read_as]
        for fragment in fragments:
            for name, raw in fragment.properties.items():
                index = self._index.get(name)
                if index is not None and raw not in self._known[index]:
                    said[index][raw] = None
        return said

    def read_all(self, fragments: Sequence[Fragment]) -> EncodedFragments:
        """See `MergingClusters.read_all`; each different value is read once."""
        taken = Taken.of(fragments)
        said, names = StatedValues.of(taken.fragments), self._encoder.attributes
        starts, places = said.ranked(names, taken.places)
        attribute, value = said.attribute[places], said.value[places]
        number = np.full(said.begins[-1], -1, np.int32)  # the kernel's, of each value
        index_of = np.zeros(len(said.attributes), np.int32)
        for k, name in enumerate(said.attributes):
            if name not in names:
                continue
            index_of[k] = index = names.index(name)
            of = slice(said.begins[k], said.begins[k + 1])
            read = np.full(len(said.values[k]), -1, np.int32)
            for begin in range(0, len(read), _TOLD_AT_ONCE):
                block = slice(begin, begin + _TOLD_AT_ONCE)
                read[block] = self._encoder.numbers(index, said.values[k][block])
            met = read[value[attribute == k] - said.begins[k]]
            in_order = by_first(met[met >= 0], read.max(initial=-1) + 1)
            for begin in range(0, len(in_order), _TOLD_AT_ONCE):
                some = in_order[begin : begin + _TOLD_AT_ONCE].tolist()
                self._tell(self._numbered(index, some))
            known = np.full(read.max(initial=-1) + 2, -1, np.int32)  # the last is of no value
            held = np.frombuffer(self._number[index], np.int32)[: len(known) - 1]
            known[: len(held)] = held
            number[of] = known[read]
        values = number[value]
        kept = values >= 0
        starts = starts_of(kept)[starts]
        return EncodedFragments(starts, index_of[attribute[kept]], values[kept], None)

    def encode_all(self, fragments: Sequence[Fragment]) -> list[KernelRecord]:
        said = self._unknown(fragments)
        read = (self._encoder.numbers(i, map(stated, of)) for i, of in enumerate(said))
        self.meet([numbers[numbers >= 0].tolist() for numbers in read])
        return super().encode_all(fragments)

    def meet(self, values: Sequence[Iterable[int]]) -> None:
        """Number values by attribute, new ones ascending: merges are scored one way round."""
        for index, some in enumerate(values):
            self._tell(self._numbered(index, sorted({*some})))

    def evidence(self, index: int, u: int, v: int) -> float:
        """L({u, v}) - L({u}) - L({v}) of two values of an attribute that were met, nats."""
        numbers = self._number[index]
        told: float = self.kernel.kb_attributes_evidence(self.handle, index, numbers[u], numbers[v])
        return told

    def _numbered(self, index: int, met: Iterable[int]) -> list[_Told]:
        """Number values of an attribute that are new, in their order; what `tell` says of them."""
        numbers, values = self._number[index], self._values[index]
        first = len(values)
        for value in met:
            if value >= len(numbers):
                numbers.extend(array("i", [-1]) * (value + 1 - len(numbers)))
            if numbers[value] < 0:
                numbers[value] = len(values)
                values.append(value)
        new = values[first:]
        return [(index, first, len(new), _arrays_of(self._read_as[index][0], new))] if new else []

    def tell(self, encoded: EncodedFragments) -> None:
        self._tell(encoded.new)

    def _tell(self, told: Sequence[_Told]) -> None:
        for index, first, n, arrays in told:
            tell = self.kernel.kb_attributes_values
            tell(self.handle, index, first, n, *map(address, arrays))

    def sent(self) -> LearnedState:
        """The attributes that were begun, and the values that were met."""
        parts = {}
        for index, ((of, rates), met) in enumerate(zip(self._read_as, self._values, strict=True)):
            begun = _begun(of, rates)
            arrays = dict(zip(VALUES, _arrays_of(of, met), strict=True))
            parts[str(index)] = LearnedState(begun.values, {**begun.arrays, **arrays})
        return together(LearnedState(), **parts)


def components(vocabulary: Vocabulary, observed: Sequence[int], true: Sequence[int]) -> FloatArray:
    """The probabilities of observed values under each component of G, given the true values.

    Returns:
        shape [n, components], in the order of `component_names`.

    """
    kernel, kind, names = kernel_library(), vocabulary.kind, component_names(vocabulary.kind)
    met, places = np.unique(np.stack([observed, true], axis=1), return_inverse=True)
    pairs = places.reshape(-1, 2).astype(np.int32)
    arrays = _arrays_of(vocabulary, met.tolist())
    out = np.empty((len(names), len(pairs)))
    for name, of_one in zip(names, out, strict=True):
        alone = AttributeRates(kind, {**dict.fromkeys(names, 0.0), name: 1.0}, 1.0)
        table = kernel.kb_attributes_new()
        begin_attribute(table, _begun(vocabulary, alone))
        kernel.kb_attributes_values(table, 0, 0, len(met), *map(address, arrays))
        kernel.kb_attributes_component(table, 0, len(pairs), address(pairs), address(of_one))
        kernel.kb_table_free(table)
    return np.ascontiguousarray(out.T)


def _arrays_of(vocabulary: Vocabulary, new: Sequence[int]) -> tuple[NDArray[Any], ...]:
    """What the kernel reads of new values of an attribute."""
    rows = (vocabulary.word_rows if vocabulary.kind == "title" else vocabulary.rows)(new)
    of_letters, letters = characters_of([vocabulary.values[v] for v in new])
    return (
        np.array([vocabulary.base[v] for v in new], dtype=np.float64),
        np.array([vocabulary.counted(v) for v in new], dtype=np.uint8),
        of_letters,
        letters,
        *rows,
        np.frombuffer(vocabulary.mass)[rows.features],
    )


def _begun(vocabulary: Vocabulary, rates: AttributeRates) -> LearnedState:
    """What the kernel reads of an attribute before its values."""
    arrays: dict[str, NDArray[Any]] = {
        "weights": np.array(rates.weights()),
        "letters": np.array(sorted(map(ord, vocabulary.letters)), np.uint32),
    }
    if vocabulary.kind == "title":
        retentions = np.array([share for _, *shares in RETENTIONS for share in shares])
        arrays |= dict(zip(_TITLES, (retentions, *vocabulary.by_word()), strict=True))
    return LearnedState(
        {
            "concentration": rates.concentration,
            "discount": rates.discount,
            "numeric": vocabulary.numeric,
            "alphabet": vocabulary.alphabet,
        },
        arrays,
    )


def begin_attribute(table: int, begun: LearnedState) -> None:
    """Begin the next attribute of the kernel's table at this address."""
    kernel, about, arrays = kernel_library(), begun.values, begun.arrays
    weights, letters = arrays["weights"], arrays["letters"]
    kernel.kb_attributes_begin(
        *(table, about["concentration"], about["discount"], len(weights), address(weights)),
        *(about["numeric"], about["alphabet"], len(letters), address(letters)),
    )
    if _TITLES[0] in arrays:
        retentions, starts, holders, bases = map(arrays.__getitem__, _TITLES)
        kernel.kb_attributes_titles(
            *(table, len(retentions) // 2, address(retentions), len(starts) - 1),
            *(address(starts), address(holders), len(bases), address(bases)),
        )

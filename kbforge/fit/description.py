"""Fragments as numbers: names, similar names, and other values.

Nothing here reads a label, an id or a source. A part of a file is described with the counts of the
whole file (`FileCounts`), so a name or value is as rare in the part as in the file.

A confidence map also reads the context of the file (`FileContext`): a model of pairs, which gives
the probability that two rows are one entity (equal fragments share a row), and the F1 that the
judge predicts for many groupings of a sample.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Protocol, Self

import numpy as np
import orjson
from numpy.typing import NDArray

from kbforge.contracts import (
    ConjugateLikelihood,
    FloatArray,
    Fragment,
    IntArray,
    Likelihood,
    PairAnswer,
)
from kbforge.errors import ModelError, counted
from kbforge.evaluation.reliability import BoolArray
from kbforge.files.columns import Statements, ids_of, statements_of
from kbforge.kb.entities import firsts_of, naming
from kbforge.kernel.binding import address, kernel_library, workers
from kbforge.texts import normalised

NONE = -1

_MOST_ATTRIBUTES = 24  # besides the name, the ones most often stated
_NAME_CHARACTERS = 120  # of a longer name, its beginning
_KEYS = 8  # the rarest parts of a name lead to the names that are like it
_MOST_SHARING = 64  # a part that more names have leads nowhere
_MOST_ALIKE = 10  # names like a name
_LEAST_ALIKE = 0.2  # cosine
_AT_ONCE = 1 << 16  # pairs of names, whose common parts are held at one time
_ROOM = 4  # places of a table of counts, of each thing that is counted
_LEAST_ROOM, _MOST_ROOM = 1 << 6, 1 << 22
_NO_HASH = np.zeros(0, np.int64)


@dataclass(frozen=True, slots=True)
class WeightedPairs:
    """Pairs of different items, each in both directions, by the first one."""

    starts: IntArray  # [items + 1] where the links of each begin
    second: NDArray[np.int32]  # [links] ascending for each first one
    strength: FloatArray  # [links]


@dataclass(frozen=True, eq=False)
class FileCounts:
    """Counts of a whole file."""

    names: int  # distinct ones
    naming: tuple[str, ...]  # attributes that name its entities
    others: tuple[str, ...]  # attributes whose values are compared, the ones most often stated
    parts: NDArray[np.int32]  # [a power of 2] how many names have a part, by its hash


@dataclass(frozen=True, eq=False)
class Descriptions:
    """The names and values of n fragments, by number, with `NONE` for none."""

    name: NDArray[np.int32]  # [n]
    named: IntArray  # [names] how many fragments bear each name
    values: NDArray[np.int32]  # [n, attributes]
    attributes: IntArray  # [n] how many attributes each fragment has, the name included
    alike: WeightedPairs  # names, by the cosine of their tf-idf vectors of words and trigrams
    words: FloatArray  # [names] how many
    letters: FloatArray  # [names] characters
    foreign: FloatArray  # [names] share of letters that are not Latin
    counted: FileCounts  # of the whole file

    def __len__(self) -> int:
        return len(self.name)


def describe(
    fragments: Sequence[Fragment],
    file: FileCounts | None = None,
    stated: Statements | None = None,
) -> Descriptions:
    """The names and values of all fragments of a file, or of some with its counts.

    `stated` are the statements of the fragments, if known.
    """
    stated = stated or statements_of(fragments)
    n, attributes = len(fragments), _attributes_of(stated)
    if file is None:
        counts = dict(zip(stated.attributes, attributes.counts().tolist(), strict=True))
        naming_ones = naming(list(counts))
        others = sorted(counts.keys() - naming_ones, key=lambda a: (-counts[a], a))
        others = others[:_MOST_ATTRIBUTES]
    else:
        naming_ones, others = set(file.naming), list(file.others)
    name, names = attributes.names(naming_ones)
    named = np.bincount(name[name >= 0], minlength=len(names))
    values = np.full((n, len(others)), NONE, np.int32)
    for column, attribute in enumerate(others):
        values[:, column] = attributes.numbers(attribute, {}, str.casefold)
    states = np.bincount(attributes.fragment, minlength=n)
    del attributes
    alike, parts = _alike(names, file)
    counted = file or FileCounts(len(names), tuple(sorted(naming_ones)), tuple(others), parts)
    return Descriptions(
        name,
        named,
        values,
        states,
        alike,
        np.array([len(x.split()) for x in names], np.float64),
        np.array([len(x) for x in names], np.float64),
        np.array([_foreign(x) for x in names], np.float64),
        counted,
    )


@dataclass(frozen=True, slots=True)
class _FirstValues:
    """The first value of each attribute of each fragment; arrays of shape [values]."""

    stated: Statements
    fragment: NDArray[np.int32]  # ascending
    attribute: NDArray[np.int32]
    value: NDArray[np.int32]

    def counts(self) -> IntArray:
        """How many fragments have each attribute."""
        return np.bincount(self.attribute, minlength=len(self.stated.attributes))

    def numbers(
        self, attribute: str, numbers: dict[str, int], read: Callable[[str], str | None]
    ) -> NDArray[np.int32]:
        """The number of each fragment's text, as it is read; `NONE` without any, shape [n]."""
        out = np.full(len(self.stated.starts) - 1, NONE, np.int32)
        if attribute not in self.stated.attributes:
            return out
        at = self.stated.attributes.index(attribute)
        own = np.flatnonzero(self.attribute == at)
        values, texts = self.value[own], self.stated.texts[at]
        distinct, first = np.unique(values, return_index=True)
        number = np.full(len(texts), NONE, np.int32)
        for value in distinct[np.argsort(first)].tolist():
            number[value] = _number(read(texts[value]), numbers)
        out[self.fragment[own]] = number[values]
        return out

    def names(self, attributes: Collection[str]) -> tuple[NDArray[np.int32], list[str]]:
        """The number of each fragment's name in these attributes, and the names."""
        numbers: dict[str, int] = {}
        if len(attributes) == 1:
            (attribute,) = attributes
            return self.numbers(attribute, numbers, lambda text: _name((text,))), list(numbers)
        found = (_number(_name(parts), numbers) for parts in self.texts(attributes))
        name = np.fromiter(found, np.int32, len(self.stated.starts) - 1)
        return name, list(numbers)

    def texts(self, attributes: Collection[str]) -> Iterator[list[str]]:
        """The texts of some attributes, by fragment."""
        places = [at for at, name in enumerate(self.stated.attributes) if name in attributes]
        texts = {at: self.stated.texts[at] for at in places}
        n = len(self.stated.starts) - 1
        for begin in range(0, n, _AT_ONCE):
            end = min(begin + _AT_ONCE, n)
            some = slice(*np.searchsorted(self.fragment, (begin, end)))
            own = np.isin(self.attribute[some], places)
            columns = (column[some][own] for column in (self.fragment, self.attribute, self.value))
            out: list[list[str]] = [[] for _ in range(begin, end)]
            for fragment, attribute, value in zip(*(c.tolist() for c in columns), strict=True):
                out[fragment - begin].append(texts[attribute][value])
            yield from out


def _attributes_of(stated: Statements) -> _FirstValues:
    """The attributes that fragments have."""
    counts = np.diff(stated.starts)
    fragment = np.repeat(np.arange(len(counts), dtype=np.int32), counts)
    attribute, value, first = stated.attribute, stated.value, firsts_of(stated)
    if len(first) < len(value):
        fragment, attribute, value = fragment[first], attribute[first], value[first]
    return _FirstValues(stated, fragment, attribute, value)


def _name(parts: Sequence[str]) -> str | None:
    return " ".join(" ".join(parts)[:_NAME_CHARACTERS].casefold().split()) or None


def _foreign(name: str) -> float:
    if name.isascii():
        return 0.0
    letters = [c for c in name if c.isalpha()]
    return sum(c > "\u024f" for c in letters) / max(len(letters), 1)


def _number(value: str | None, numbers: dict[str, int]) -> int:
    return NONE if value is None else numbers.setdefault(value, len(numbers))


def _alike(
    names: Sequence[str], file: FileCounts | None
) -> tuple[WeightedPairs, NDArray[np.int32]]:
    """The most similar names for each, among those with one of its rarest parts; and the parts.

    Parts of a name are its words and its letter trigrams.
    """
    from scipy import sparse  # .3 s to import

    if not names:
        nothing = WeightedPairs(np.zeros(1, np.int64), np.zeros(0, np.int32), np.zeros(0))
        return nothing, _table(_NO_HASH, _NO_HASH)
    starts, columns, documents, parts = _parts_of(names, file)
    n = len(names) if file is None else max(file.names, len(names))
    rarity, width = np.log1p(n / documents), len(names)
    scale = np.empty(width)  # of a unit tf-idf vector
    for begin in range(0, width, _AT_ONCE):
        places = starts[begin : begin + _AT_ONCE + 1]
        squares = rarity[columns[places[0] : places[-1]]] ** 2
        lengths = np.sqrt(np.add.reduceat(squares, places[:-1] - places[0]))
        scale[begin : begin + _AT_ONCE] = 1 / lengths
    kernel, arrays = kernel_library(), (starts, columns, rarity, scale)
    vectors = width, *(address(array) for array in arrays)
    pairs = np.empty(width * _MOST_ALIKE, np.int64)
    most = _KEYS, _MOST_SHARING, _MOST_ALIKE
    kernel.kb_names_nearest(*vectors, address(documents), *most, workers(), address(pairs))
    pairs = pairs[pairs >= 0]
    pairs.sort()
    pairs = pairs[np.diff(pairs, prepend=-1) > 0]
    sizes, cosine = np.diff(starts), np.empty(len(pairs))
    for start in range(0, len(pairs), _AT_ONCE):
        part = slice(start, start + _AT_ONCE)
        one, other = pairs[part] // width, pairs[part] % width
        begins = np.empty(len(one) + 1, np.int64)
        products = np.empty(int(np.minimum(sizes[one], sizes[other]).sum()))
        asked = one, other, begins, products
        kernel.kb_names_products(*vectors, len(one), *map(address, asked))
        cosine[part] = np.add.reduceat(products[: begins[-1]], begins[:-1])
    kept = cosine >= _LEAST_ALIKE
    pairs, cosine = pairs[kept], np.minimum(cosine[kept], 1.0)
    first, second = pairs // width, pairs % width
    links = sparse.csr_array(
        (cosine, (first.astype(np.int32), second.astype(np.int32))), (width, width)
    )
    links = links + links.T
    return WeightedPairs(links.indptr.astype(np.int64), links.indices, links.data), parts


def _parts_of(
    names: Sequence[str], file: FileCounts | None
) -> tuple[IntArray, NDArray[np.int32], IntArray, NDArray[np.int32]]:
    """Where the parts of each name begin, their numbers, ascending, the number of names with each
    part, and `FileCounts.parts`."""
    encoded = [name.encode() for name in names]
    text = np.frombuffer(b"".join(encoded), np.uint8)
    ends = np.cumsum(np.fromiter(map(len, encoded), np.int64, len(names)))
    begins = np.concatenate([np.zeros(1, np.int64), ends])
    sizes = np.empty(len(names), np.int32)
    room = 2 * len(text) + len(names)  # words and trigrams
    columns, hashes = np.empty(room, np.int32), np.empty(room, np.int64)
    count = kernel_library().kb_names_parts(
        len(names), *map(address, (text, begins, sizes, columns, hashes))
    )
    starts = np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes, dtype=np.int64)])
    columns, hashes = columns[: starts[-1]].copy(), hashes[:count].copy()
    documents = np.bincount(columns, minlength=count)
    if file is None:
        return starts, columns, documents, _table(hashes, documents)
    documents = np.maximum(documents, file.parts[hashes % len(file.parts)])
    return starts, columns, documents, file.parts


def _table(hashes: IntArray, counts: IntArray) -> NDArray[np.int32]:
    """Counts by hash; hash collisions keep the largest."""
    size = min(max(1 << (_ROOM * len(hashes)).bit_length(), _LEAST_ROOM), _MOST_ROOM)
    out = np.zeros(size, np.int32)
    np.maximum.at(out, hashes % size, counts.astype(np.int32))
    return out


UNREAD = -1


@dataclass(frozen=True, slots=True)
class PairOdds:
    """Log odds that two rows are one entity; each link is listed in both directions."""

    row: IntArray  # [n] of each fragment; `UNREAD` of one that the model has not read
    first: IntArray  # [links] a row, ascending
    second: IntArray  # [links] another row, or the same one for two fragments that state the same
    nats: FloatArray  # [links] log odds
    apart: float  # log odds of two rows without a link


class PairModel(Protocol):
    """A model of pairs that was fitted to the file."""

    @property
    def one_to_one(self) -> bool:
        """Whether nearly every record of the smaller of two linked tables has exactly one
        partner."""

    def fit(self, fragments: Sequence[Fragment], known: Likelihood | None = None) -> str | None:
        """See `kbforge.contracts.Likelihood`; one of those that it reads may be `known`: fitted."""

    @property
    def reads(self) -> dict[str, ConjugateLikelihood]:
        """The likelihoods that it fitted to the file and reads, by name."""

    def pair_odds(self, fragments: Sequence[Fragment], placed: BoolArray | None = None) -> PairOdds:
        """The log odds of the compared pairs of these fragments.

        Fragments outside the file are compared with it, in milliseconds each: those that `placed`
        marks, or all. The others are `UNREAD`.
        """

    @property
    def lesson(self) -> Lesson | None:
        """What answers taught it, if any did."""

    def taught(self, answers: Sequence[PairAnswer]) -> Self:
        """See `kbforge.contracts.Likelihood`."""

    def trained(self, labels: Sequence[PairAnswer]) -> Self:
        """The same with what labels of many pairs teach: more than a layer."""

    def read_by(self, renaming: Renaming) -> None:
        """From now on read the values of all fragments under other names.

        It was fitted to fragments that have these names; `dump` keeps the renaming.
        """


def is_pair_model(likelihood: Likelihood) -> bool:
    """Whether a likelihood is a model of pairs, wherever it comes from."""
    return hasattr(likelihood, "pair_odds")


@dataclass(frozen=True, slots=True)
class Renaming:
    """Other names for values of the attributes that refer, by folded value.

    A value of most fragments has the name in `names`, that of a fragment in `others`, given by id,
    the one there: its own text says so, or it does not name itself.
    """

    attributes: frozenset[str]
    names: Mapping[str, str]
    others: Mapping[str, Mapping[str, str]]

    def of(self, fragment: Fragment) -> Fragment:
        """A fragment with its values renamed."""
        refer = self.attributes & fragment.properties.keys()
        if not refer:
            return fragment
        own = self.others.get(fragment.id, {})

        def read(value: str) -> str:
            key = normalised(value)
            name = own.get(key) or self.names.get(key, key)
            return value if name == key else name

        renamed = {
            attribute: tuple(dict.fromkeys(map(read, fragment.properties[attribute])))
            for attribute in refer
        }
        return replace(fragment, properties={**fragment.properties, **renamed})

    def to_json(self) -> list[Any]:
        """The form that a model keeps."""
        return [sorted(self.attributes), self.names, self.others]

    @classmethod
    def from_json(cls, told: Any) -> Self:
        """The inverse of `to_json`; a ModelError if it is damaged."""
        match told:
            case [list(attributes), dict(names), dict(others)] if all(
                isinstance(one, str)
                for texts in (attributes, names.values(), *map(_texts, others.values()))
                for one in texts
            ):
                return cls(frozenset(attributes), names, others)
        raise ModelError("the saved names of values are damaged; kbforge refit finds them again")


def _texts(names: object) -> Collection[object]:
    """The values of a mapping; something that is no text of anything else."""
    return names.values() if isinstance(names, dict) else (None,)


@dataclass(frozen=True, slots=True)
class Lesson:
    """What answers taught a model of pairs."""

    answers: int  # about two fragments that do not state the same
    loss_before: float  # mean log loss of the answers by the model without them, nats
    loss_after: float  # the same if all but the predicted one have taught it

    def __str__(self) -> str:
        said = f"{counted(self.answers, 'answer')} to learn from"
        if not self.answers:
            return said
        losses = f"the others predict an answer with a log loss of {self.loss_after:.2f} nats"
        before = f"pairs alone with {self.loss_before:.2f}"
        if self.loss_after > self.loss_before:
            return f"{said}, which say nothing of other pairs: {losses}, {before}"
        return f"{said}: {losses}, {before}"

    def to_json(self) -> dict[str, float]:
        """The figures by name."""
        return asdict(self)


@dataclass(frozen=True, eq=False)
class Prediction:
    """A judge's expectations of groupings of a sample."""

    f1: float  # of the one that was chosen
    gain: float  # of the one that was chosen, over exact names
    weights: FloatArray  # [groupings] how probable each is to be the best
    labels: IntArray  # [groupings, sample] number of each fragment's cluster
    ids: tuple[str, ...]  # of the sample's fragments, distinct
    stated: IntArray  # [sample] digest of what each of them states

    @classmethod
    def of(
        cls,
        f1: float,
        gain: float,
        weights: FloatArray,
        labels: IntArray,
        sample: Sequence[Fragment],
    ) -> Prediction:
        """The prediction for groupings of a sample."""
        stated = np.fromiter(map(_stated, sample), np.int64, len(sample))
        return cls(f1, gain, weights, labels, tuple(f.id for f in sample), stated)

    def places(self, fragments: Sequence[Fragment]) -> IntArray:
        """Each fragment's place in the sample, [fragments]; -1 outside, or if it has changed."""
        place = {name: k for k, name in enumerate(self.ids)}
        out = np.full(len(fragments), -1, np.int64)
        for number, name in enumerate(ids_of(fragments)):
            k = place.get(name, -1)
            if k >= 0 and self.stated[k] == _stated(fragments[number]):
                out[number] = k
        return out


@dataclass(frozen=True, eq=False)
class FileSummary:
    """Facts about a whole file, frozen when it was last read."""

    counted: FileCounts
    columns: Mapping[str, float]  # features of the file, by name; unknown ones are NaN


@dataclass(frozen=True, eq=False)
class FileContext:
    """A confidence map's inputs from a file besides the report."""

    likelihood: str  # name of the one that clustered
    pairs: PairModel | None = None  # None where no model of pairs can read the file
    predicted: Prediction | None = None  # None where no grouping was judged
    whole: FileSummary | None = None  # of the file, if a part of it is reported on


def _stated(fragment: Fragment) -> int:
    stated = orjson.dumps(dict(fragment.properties), option=orjson.OPT_SORT_KEYS)
    return int.from_bytes(hashlib.blake2b(stated, digest_size=8).digest()) >> 1

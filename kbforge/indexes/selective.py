"""The index `selective`: the rare values of all attributes; and samples of fragments by an index.

The keys of a fragment are its values, and features that survive distortion (`texts.kinds`): words,
the parts of a date, the district of a postcode. Two fragments with a common key are compared.
Values that many fragments have are not keys by themselves, but pairs of them are: a first name with
a year of birth. No blocking rules are needed, but some may be added.

A key is a number of 64 bits: below 0 a digest of the value, from 0 the number of a common value.
Only these numbers and the kinds of the attributes are learned.

*Samples.* A sample of fragments (`neighbourhoods`) has complete neighbourhoods, and does not depend
on their order. Drawn fragment by fragment, it would break up entities. So seeds are drawn, and all
fragments that share an index key with a seed are included: what is learned from the seeds' clusters
is valid for the file.
"""

from __future__ import annotations

import weakref
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from ctypes import CDLL, POINTER, byref, c_int64
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain, count, pairwise
from typing import NamedTuple, TypeAlias, cast
from weakref import WeakKeyDictionary

import numpy as np
import orjson
from numpy.typing import NDArray

from kbforge.contracts import CandidateIndex, Fragment, IntArray, LearnedState
from kbforge.errors import UsageError, quoted, require_least
from kbforge.files.columns import Taken, ids_of
from kbforge.indexes.hashed import HashedIndex
from kbforge.kernel import binding
from kbforge.kernel.binding import address, kernel_library, workers
from kbforge.models.bundle import KeptReader
from kbforge.numerics import end_to_end, starts_of
from kbforge.texts import LARGEST, Places, digests_of, digests_of_bytes, nowhere
from kbforge.texts.features import ValueFeatures, features_of_each
from kbforge.texts.kinds import (
    KINDS,
    Kind,
    feature_names,
    kinds_of,
    normalised,
    read_as,
    stated,
)
from kbforge.texts.statements import JoinedStatements, StatedValues, once


class ValueKeys(NamedTuple):
    """The keys of several values, end to end; where those of each begin, shape [values + 1]."""

    starts: IntArray
    singles: IntArray
    paired_starts: IntArray
    paired: IntArray  # those of common values, which are paired with those of other attributes


class NumberedValues(NamedTuple):
    """The kernel's numbers of the values of fragments, in the order of their attributes' names."""

    starts: IntArray  # where those of each fragment begin, shape [fragments + 1]
    values: NDArray[np.int32]

    @property
    def at(self) -> tuple[int, int]:
        """The addresses of both."""
        return address(self.starts), address(self.values)


class CompiledKeys:
    """Composes the keys of fragments in the kernel.

    `keys_of_values` returns the keys of values of an attribute.
    """

    def __init__(
        self,
        kernel: CDLL,
        keys_of_values: Callable[[str, Sequence[tuple[str, ...]]], ValueKeys],
        most: int,
    ) -> None:
        self._kernel, self._keys_of_values = kernel, keys_of_values
        self._handle = kernel.kb_keys_new(most)
        self._finalizer = weakref.finalize(self, kernel.kb_keys_free, self._handle)
        # by attribute, the kernel's numbers of its values
        self._numbers: defaultdict[str, dict[tuple[str, ...], int]] = defaultdict(dict)
        self._n = 0

    def keys_of(
        self, stated: Sequence[Mapping[str, tuple[str, ...]]], more: Sequence[Sequence[int]]
    ) -> tuple[IntArray, IntArray]:
        """The position of each fragment's first key, shape [fragments + 1], and all keys, including
        `more`."""
        numbers = self._numbers
        new: dict[str, dict[tuple[str, ...], None]] = {}
        for of_fragment in stated:
            for attribute, said in of_fragment.items():
                if said not in numbers[attribute]:
                    new.setdefault(attribute, {})[said] = None
        for attribute, unknown in new.items():
            self.tell(self._keys_of_values(attribute, [*unknown]))
            numbers[attribute].update(zip(unknown, count(self._n)))
            self._n += len(unknown)
        values = [numbers[attribute][of[attribute]] for of in stated for attribute in sorted(of)]
        numbered = NumberedValues(starts_of([*map(len, stated)]), np.array(values, np.int32))
        return self.composed(numbered, more)

    def composed(
        self, said: NumberedValues, more: Sequence[Sequence[int]]
    ) -> tuple[IntArray, IntArray]:
        """`keys_of` fragments whose values have these numbers; `more` may be empty."""
        starts, keys, n = POINTER(c_int64)(), POINTER(c_int64)(), len(said.starts) - 1
        none = np.zeros(0, np.int64)
        further = end_to_end(more) if more else (np.zeros_like(said.starts), none)
        told = n, *said.at, *map(address, further), workers()
        found = self._kernel.kb_keys_of(self._handle, *told, byref(starts), byref(keys))
        return binding.copied(starts, n + 1), binding.copied(keys, found)

    def tell(self, keys: ValueKeys) -> None:
        """Give the kernel the keys of more values."""
        arrays = [address(array) for array in keys]
        self._kernel.kb_keys_values(self._handle, len(keys.starts) - 1, *arrays)

    def holders(
        self, said: NumberedValues, wanted: IntArray, most: int
    ) -> tuple[IntArray, IntArray]:
        """See `Selective.holders`."""
        starts, places = POINTER(c_int64)(), POINTER(c_int64)()
        n = self._kernel.kb_keys_holders(
            *(self._handle, len(said.starts) - 1, *said.at),
            *(len(wanted), address(wanted), most, workers(), byref(starts), byref(places)),
        )
        return binding.copied(starts, len(wanted) + 1), binding.copied(places, n)


_PAIRED: Mapping[Kind, str] = {
    "text": "prefix",
    "title": "longest",
    "date": "year",
    "month first": "year",
    "email": "word",
    "phone": "beginning",
    "code": "stem",
    "number": "magnitude",
    "set": "member",
}
"""For each kind, the feature that takes part in paired keys."""
_LEFT_OUT = frozenset(("initial",))
_MOST_KEYS = 512
_MOST_BITS = 20
"""Of the ends of digests, by which common features are told from rare ones."""


_Told: TypeAlias = WeakKeyDictionary[StatedValues, tuple[CompiledKeys, NDArray[np.int32]]]
"""By values, what composes keys, and its number of each."""


class Selective(HashedIndex):
    """Keys from values, features, and pairs of common ones.

    Args:
        families: maximum number of families of clusters that a key leads to; a key with more is
            closed: it counts only for fragments without any other key that leads to a family.
        shared: minimum number of keys in common with a family of clusters, if any family has that
            many.
        compared: maximum number of families that a fragment is compared with, those with the most
            keys in common; 0 sets no limit.
        common: minimum number of fragments for a shared value or feature to be paired with others.
        rules: additional keys, each a list of attributes joined by "+": fragments with equal first
            values of all of them are compared.
        attributes: the attributes to read (rules aside); by default all.

    Raises:
        UsageError: a number below 1, or a rule without attributes.

    """

    options = ("common", "rules", "attributes")

    def __init__(
        self,
        families: int = 8,
        shared: int = 3,
        compared: int = 32,
        common: int = 20,
        rules: tuple[str, ...] = (),
        attributes: tuple[str, ...] = (),
    ) -> None:
        require_least(1, "index selective: ", families=families, shared=shared, common=common)
        require_least(0, "index selective: ", compared=compared)
        self.families, self.shared, self.compared = families, shared, compared
        self.common = common
        self.rules = tuple(tuple(rule.split("+")) for rule in rules)
        if not all(attribute for rule in self.rules for attribute in rule):
            raise UsageError('index selective: a rule names attributes joined by "+"')
        self.attributes = frozenset(attributes)
        self._kinds: dict[str, Kind] = {}
        self._made: CompiledKeys | None = None
        # by the values of a file, which live as long as it is prepared
        self._told: _Told = WeakKeyDictionary()
        self._common = nowhere()  # digests of common values, whose places are keys

    def fit(self, fragments: Sequence[Fragment]) -> str | None:
        """Find the kinds of the attributes and how many fragments share each key.

        Raises:
            UsageError: a rule names an attribute that no fragment has.

        """
        self._require_attributes_of_rules(fragments)
        self.learn(StatedValues.of(fragments))
        return None

    def learn(self, said: StatedValues) -> None:
        """`fit` to fragments that state these values, among them the attributes of rules."""
        known = kinds_of(said.counts(self.attributes)) if self.attributes else said.kinds
        self._kinds = dict(known)
        read = said.read(self._kinds)
        columns = zip(read.attributes, read.values, read.often(), strict=True)
        often = [self._often(*column) for column in columns if column[0] in self._kinds]
        self._use(np.unique(np.concatenate([np.zeros(0, np.int64), *often])))

    def _often(self, attribute: str, values: Sequence[str], counts: IntArray) -> IntArray:
        """The digests of the values and features that more than `common` fragments have."""
        beginnings = _beginnings(attribute, kind := self._kinds[attribute])
        often = np.flatnonzero(counts > self.common).tolist()
        common = [beginnings[-1] + values[k] for k in often if values[k]]
        digests, weights = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
        end = (1 << min(_MOST_BITS, (16 * len(values)).bit_length())) - 1
        ends = np.zeros(end + 1)
        for begin in range(0, len(values), _AT_ONCE):
            some = slice(begin, begin + _AT_ONCE)
            found = features_of_each(kind, values[some], beginnings)
            kept = _is_read(kind, found)
            digests.append(found.digests[kept])
            weights.append(counts[some].repeat(np.diff(found.starts))[kept])
            ends += np.bincount(digests[-1] & end, weights[-1], end + 1)
        # most features are rare, and so are those that share the end of a digest with them
        for k, of in enumerate(digests):
            kept = (ends > self.common)[of & end]
            digests[k], weights[k] = of[kept], weights[k][kept]
        different, places = np.unique(np.concatenate(digests), return_inverse=True)
        shared = np.bincount(places.ravel(), np.concatenate(weights), len(different))
        return np.concatenate([digests_of(common), different[shared > self.common]])

    def dump(self) -> LearnedState:
        """The kinds of the attributes, and the common values."""
        kinds = dict(sorted(self._kinds.items()))
        return LearnedState({"kinds": kinds}, {"common": self._common.digests})

    def load(self, kept: LearnedState) -> None:
        read = KeptReader(kept, "index selective")
        kinds = read.only("kinds").table("kinds")
        common = read.array("common", np.int64, least=0, most=LARGEST, ascending=True)
        self._kinds = {name: cast(Kind, kinds.choice(name, KINDS)) for name in kinds}
        self._use(np.unique(common))

    def __getstate__(self) -> dict[str, object]:
        """Omit the keys that were made, which another process makes again."""
        return {**self.__dict__, "_made": None, "_told": None, "_common": self._common.digests}

    def __setstate__(self, state: dict[str, object]) -> None:
        self.__dict__.update(state)
        self._use(cast(IntArray, state["_common"]))

    def _use(self, common: IntArray) -> None:
        """Take these digests, ascending, for common."""
        self._common, self._made, self._told = Places(common), None, WeakKeyDictionary()

    def keys_of(self, fragments: Sequence[Fragment]) -> tuple[IntArray, IntArray]:
        """See `kbforge.contracts.index`; composed in the kernel."""
        more = [self._keys_of_rules(f) for f in fragments] if self.rules else ()
        if isinstance(fragments, Taken):
            made, numbered = self._told_of(fragments)
            return made.composed(numbered, more)
        if self._made is None:
            self._made = CompiledKeys(kernel_library(), self._keys_of_said, _MOST_KEYS)
        said = [fragment.properties for fragment in fragments]
        if self.attributes:
            said = [{a: v for a, v in of.items() if a in self.attributes} for of in said]
        return self._made.keys_of(said, more)

    def holders(
        self, fragments: Sequence[Fragment], wanted: IntArray, most: int
    ) -> tuple[IntArray, IntArray]:
        """The fragments with each of some distinct keys, without rules; none of more than `most`.

        Returns where those of each key begin, shape [keys + 1], and their places in the sequence.
        """
        assert not self.rules
        made, said = self._told_of(Taken.of(fragments))
        return made.holders(said, wanted, most)

    def _told_of(self, taken: Taken) -> tuple[CompiledKeys, NumberedValues]:
        """What composes the keys of a file's fragments, and the numbers of their values."""
        said = StatedValues.of(taken.fragments)
        names = [a for a in sorted(said.attributes) if not self.attributes or a in self.attributes]
        if said not in self._told:
            kinds = {name: self._kinds.get(name, "text") for name in names}
            read, number = said.values_read(kinds)
            made = CompiledKeys(kernel_library(), self._keys_of_said, _MOST_KEYS)
            for attribute, values in zip(said.attributes, read, strict=True):
                for begin in range(0, len(values), _AT_ONCE):
                    made.tell(self._keys_of_values(attribute, values[begin : begin + _AT_ONCE]))
            self._told[said] = made, number
        made, number = self._told[said]
        starts, places = said.ranked(names, taken.places)
        return made, NumberedValues(starts, number[said.value[places]])

    def _keys_of_said(self, attribute: str, said: Sequence[tuple[str, ...]]) -> ValueKeys:
        kind = self._kinds.get(attribute, "text")
        return self._keys_of_values(attribute, [read_as(kind, stated(one)) for one in said])

    def _keys_of_values(self, attribute: str, values: Sequence[str]) -> ValueKeys:
        """The keys of values of an attribute: of each the value, and its features."""
        kind = self._kinds.get(attribute, "text")
        beginnings = _beginnings(attribute, kind)
        read = [value for value in values if value]
        found = features_of_each(kind, read, beginnings)
        kept = _is_read(kind, found)
        starts = starts_of(kept)[found.starts] + np.arange(len(read) + 1)  # the value, and these
        digests = np.empty(starts[-1], np.int64)
        whole = np.zeros(len(digests), np.bool_)
        whole[starts[:-1]] = True
        digests[whole] = digests_of([beginnings[-1] + value for value in read])
        digests[~whole] = found.digests[kept]
        keys = self._numbered(digests)
        paired = whole.copy()
        if kind in _PAIRED:
            paired[~whole] = found.names[kept] == feature_names(kind).index(_PAIRED[kind])
        paired &= keys >= 0
        has = np.fromiter(map(bool, values), np.int64, len(values))
        of_value = starts_of(has)  # the place among those that are read
        ends = starts_of(paired)[starts]
        return ValueKeys(starts[of_value], keys, ends[of_value], keys[paired])

    def _require_attributes_of_rules(self, fragments: Sequence[Fragment]) -> None:
        lacking = {attribute for rule in self.rules for attribute in rule}
        for fragment in fragments:
            if not lacking:
                return
            lacking -= fragment.properties.keys()
        if lacking and fragments:
            said = f'no fragment has the attribute "{quoted(min(lacking))}" of a rule'
            raise UsageError(f"index selective: {said}")

    def _keys_of_rules(self, fragment: Fragment) -> list[int]:
        keys = []
        for rule in self.rules:
            if all(attribute in fragment.properties for attribute in rule):
                values = [normalised(fragment.properties[attribute][0]) for attribute in rule]
                if all(values):
                    keys.append(self._key("+".join(rule), "rule", "\n".join(values)))
        return keys

    def _key(self, attribute: str, name: str, feature: str) -> int:
        """From 0 if many fragments of the file have the value, otherwise below."""
        return int(self._numbered(digests_of((f"{attribute}\0{name}\0{feature}",)))[0])

    def _numbered(self, digests: IntArray) -> IntArray:
        places = self._common.of_digests(digests)
        return np.where(places >= 0, places, -1 - digests)


@lru_cache(maxsize=4096)
def _beginnings(attribute: str, kind: Kind) -> tuple[str, ...]:
    """What the digests of an attribute's features begin with, by name; and those of its values."""
    return tuple(f"{attribute}\0{name}\0" for name in (*feature_names(kind), ""))


def _is_read(kind: Kind, found: ValueFeatures) -> NDArray[np.bool_]:
    """Which features are keys."""
    if not _LEFT_OUT.intersection(feature_names(kind)):
        return np.ones(len(found.names), np.bool_)
    return np.array([name not in _LEFT_OUT for name in feature_names(kind)])[found.names]


MOST_RELATIVES = 12
"""A key that more fragments share does not extend the sample."""
_AT_ONCE = 10_000
"""Fragments whose keys are computed at once."""


@dataclass(frozen=True, slots=True)
class Sample:
    """Some fragments, seeds first, with their places in the sampled sequence."""

    fragments: tuple[Fragment, ...]
    places: tuple[int, ...]
    seeds: int


def digests_of_contents(fragments: Sequence[Fragment]) -> IntArray:
    """Hashes of what fragments state, as JSON with sorted attributes; shape [fragments]."""
    return once(_digests_of_contents, fragments)


def _digests_of_contents(fragments: Sequence[Fragment]) -> IntArray:
    said = JoinedStatements.of(fragments)
    starts, order = said.ranked(sorted(said.attributes), np.arange(len(fragments)))
    written = [b""] * len(said.texts)
    for k, a in zip(*(numbers.tolist() for numbers in said.in_order()), strict=True):
        written[k] = orjson.dumps(said.attributes[a]) + b":" + orjson.dumps(said.values_of(k))
    out = np.empty(len(fragments), np.int64)
    for first in range(0, len(fragments), _AT_ONCE):
        begins = starts[first : first + _AT_ONCE + 1]
        pieces = [written[k] for k in said.value[order[begins[0] : begins[-1]]].tolist()]
        ends = pairwise((begins - begins[0]).tolist())
        rows = [b"{" + b",".join(pieces[begin:end]) + b"}" for begin, end in ends]
        out[first : first + _AT_ONCE] = digests_of_bytes(rows)
    return out


def by_content(fragments: Sequence[Fragment]) -> IntArray:
    """Places by the hashes of contents, and of the same content by id: the same in any order."""
    digests, ids = digests_of_contents(fragments), ids_of(fragments)
    order = np.argsort(digests, kind="stable")
    new = np.ones(len(order) + 1, np.bool_)
    new[1:-1] = digests[order][1:] != digests[order][:-1]
    for begin, end in pairwise(np.flatnonzero(new).tolist()):
        if end - begin > 1:
            order[begin:end] = sorted(order[begin:end].tolist(), key=ids.__getitem__)
    return order


def neighbourhoods(
    fragments: Sequence[Fragment],
    index: CandidateIndex,
    most: int,
    digests: Callable[[Sequence[Fragment]], IntArray] = digests_of_contents,
) -> Sample:
    """All fragments up to a maximum, otherwise seeds and all that share a key with them.

    Seeds are added until the sample is full, so their neighbourhoods are complete except for keys
    that very many share. The choice depends only on the digests, not on order or names.
    """
    order = by_digest(fragments, digests)
    if len(order) <= most:
        return drawn(fragments, order, lambda _: (), most)
    # as every seed fills the sample, there are no more than these
    keys = keys_of_each(Taken(fragments, np.array(order[:most])), index)
    wanted = chain.from_iterable(keys)
    holders = holders_of(wanted, fragments, order, index, MOST_RELATIVES)

    def relatives(seed: int) -> Iterable[int]:
        return chain.from_iterable(map(holders, keys[seed]))

    return drawn(fragments, order, relatives, most)


def keys_of_each(fragments: Sequence[Fragment], index: CandidateIndex) -> list[list[int]]:
    """The keys of each fragment, by an index that was fitted to it."""
    starts, flat = index.keys_of(fragments)
    keys: list[int] = flat.tolist()
    return [keys[begin:end] for begin, end in pairwise(starts.tolist())]


def holders_of(
    keys: Iterable[int],
    fragments: Sequence[Fragment],
    order: Sequence[int],
    index: CandidateIndex,
    most: int,
) -> Callable[[int], list[int]]:
    """The places in the order of the fragments that have one of these keys; none where more than
    `most` have it."""
    wanted = np.unique(np.fromiter(keys, dtype=np.int64))
    if isinstance(index, Selective) and not index.rules:
        starts, holders = index.holders(fragments, wanted, most)
    else:
        starts, holders = _holders(fragments, wanted, index, most)
    place = np.empty(len(fragments), np.int64)
    place[list(order)] = np.arange(len(order))
    places: list[int] = place[holders].tolist()
    begin = dict(zip(wanted.tolist(), pairwise(starts.tolist()), strict=True))

    def holding(key: int) -> list[int]:
        return places[slice(*begin[key])]

    return holding


def _holders(
    fragments: Sequence[Fragment], wanted: IntArray, index: CandidateIndex, most: int
) -> tuple[IntArray, IntArray]:
    """See `Selective.holders`."""
    found, places = [np.zeros(0, dtype=np.int64)], [np.zeros(0, dtype=np.int64)]
    for first in range(0, len(fragments) if len(wanted) else 0, _AT_ONCE):
        starts, flat = index.keys_of(fragments[first : first + _AT_ONCE])
        at = np.minimum(np.searchsorted(wanted, flat), len(wanted) - 1)
        held = np.flatnonzero(wanted[at] == flat)
        found.append(at[held])
        places.append(first + np.searchsorted(starts, held, side="right") - 1)
    by_key = np.concatenate(found)
    counts = np.bincount(by_key, minlength=len(wanted))
    order = np.argsort(by_key, kind="stable")
    order = order[counts[by_key[order]] <= most]
    return starts_of(np.where(counts <= most, counts, 0)), np.concatenate(places)[order]


def by_digest(
    fragments: Sequence[Fragment],
    digests: Callable[[Sequence[Fragment]], IntArray] = digests_of_contents,
) -> list[int]:
    """The numbers of the fragments, by hash."""
    order: list[int] = np.argsort(digests(fragments), kind="stable").tolist()
    return order


def drawn(
    fragments: Sequence[Fragment],
    order: Sequence[int],
    relatives: Callable[[int], Iterable[int]],
    most: int,
) -> Sample:
    """All fragments up to a maximum, otherwise seeds in order, and their relatives.

    `relatives` returns other places in the order; it is called only for seeds.
    """
    if len(order) <= most:
        return _sample(fragments, order, len(order))
    sample: set[int] = set()
    seeds = 0
    while len(sample) < most and seeds < len(order):
        sample.add(seeds)
        sample.update(relatives(seeds))
        seeds += 1
    rest = sorted(i for i in sample if i >= seeds)
    return _sample(fragments, [order[i] for i in [*range(seeds), *rest]], seeds)


def _sample(fragments: Sequence[Fragment], places: Sequence[int], seeds: int) -> Sample:
    """The fragments at these places, which are made together."""
    return Sample(tuple(Taken(fragments, np.array(places, np.int64))[:]), tuple(places), seeds)

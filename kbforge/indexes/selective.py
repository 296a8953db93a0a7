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

import hashlib
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from ctypes import CDLL, POINTER, byref, c_int64
from dataclasses import dataclass
from itertools import chain, islice, pairwise
from typing import TypeAlias, cast

import numpy as np
import orjson

from kbforge.contracts import CandidateIndex, Fragment, IntArray, LearnedState
from kbforge.errors import UsageError, quoted, require_least
from kbforge.indexes.hashed import HashedIndex
from kbforge.kernel import binding
from kbforge.kernel.binding import address, kernel_library
from kbforge.models.bundle import KeptReader
from kbforge.numerics import starts_of
from kbforge.texts import (
    LARGEST,
    Begun,
    begun_digest,
    digest_after,
    digest_of,
)
from kbforge.texts.kinds import (
    KINDS,
    Kind,
    counts_read,
    counts_stated,
    features_of,
    kinds_of,
    normalised,
    read_as,
    stated,
)

_Item: TypeAlias = tuple[str, tuple[str, ...]]
_Some: TypeAlias = tuple[int, ...]

_MOST_ORDERS = 4096  # cached orders of attributes


class CompiledKeys:
    """Composes the keys of fragments in the kernel.

    `keys_of_value` returns the keys of an attribute's values, and which are paired with others.
    """

    def __init__(
        self,
        kernel: CDLL,
        keys_of_value: Callable[[str, tuple[str, ...]], tuple[_Some, _Some]],
        most: int,
    ) -> None:
        self._kernel, self._keys_of_value = kernel, keys_of_value
        self._handle = kernel.kb_keys_new(most)
        self._finalizer = weakref.finalize(self, kernel.kb_keys_free, self._handle)
        # by attribute, the kernel's numbers of its values
        self._number: dict[str, dict[tuple[str, ...], int]] = {}
        self._n = 0
        # by names of attributes of a fragment, these in order
        self._orders: dict[tuple[str, ...], list[tuple[str, dict[tuple[str, ...], int]]]] = {}

    def keys_of(
        self, stated: Sequence[Mapping[str, tuple[str, ...]]], more: Sequence[Sequence[int]]
    ) -> tuple[IntArray, IntArray]:
        """The position of each fragment's first key, shape [fragments + 1], and all keys, including
        `more`."""
        orders, values, new = self._orders, list[int](), list[_Item]()
        for of_fragment in stated:
            order = orders.get(tuple(of_fragment))
            if order is None:
                order = self._order(of_fragment)
            for attribute, numbers in order:
                said = of_fragment[attribute]
                number = numbers.get(said)
                if number is None:
                    number = numbers[said] = self._n
                    self._n += 1
                    new.append((attribute, said))
                values.append(number)
        if new:
            self._tell(new)
        arrays = starts_of([*map(len, stated)]), np.array(values, dtype=np.int64), *_flat(more)
        starts, keys = POINTER(c_int64)(), POINTER(c_int64)()
        n = self._kernel.kb_keys_of(
            self._handle, len(stated), *map(address, arrays), byref(starts), byref(keys)
        )
        return binding.ints(starts, len(stated) + 1), binding.ints(keys, n)

    def _order(self, stated: Iterable[str]) -> list[tuple[str, dict[tuple[str, ...], int]]]:
        """Attributes in order, with the numbers of their values."""
        if len(self._orders) >= _MOST_ORDERS:
            self._orders.clear()
        attributes = tuple(stated)
        order = [(name, self._number.setdefault(name, {})) for name in sorted(attributes)]
        self._orders[attributes] = order
        return order

    def _tell(self, new: Sequence[_Item]) -> None:
        """Give the kernel the keys of new values."""
        keys = [self._keys_of_value(*item) for item in new]
        arrays = *_flat([singles for singles, _ in keys]), *_flat([paired for _, paired in keys])
        self._kernel.kb_keys_values(self._handle, len(new), *map(address, arrays))


def _flat(parts: Sequence[Sequence[int]]) -> tuple[IntArray, IntArray]:
    """Where each part begins, and all parts end to end."""
    starts = starts_of([len(part) for part in parts])
    return starts, np.fromiter(chain.from_iterable(parts), np.int64, int(starts[-1]))


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
_LEFT_OUT = ("initial",)
_MOST_KEYS = 512
_MOST_KNOWN = 1 << 23  # cached keys of values
_PAIR_SHIFT = 32

_Keys: TypeAlias = tuple[int, ...]
_Said: TypeAlias = tuple[str, str, str]
"""An attribute, the name of a feature ("" for the value itself), and the feature."""


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
        self._common: dict[int, int] = {}
        self._of_value: dict[tuple[str, tuple[str, ...]], tuple[_Keys, _Keys]] = {}
        self._made: CompiledKeys | None = None
        self._n_known = 0
        self._begun: dict[tuple[str, str], Begun] = {}

    def fit(self, fragments: Sequence[Fragment]) -> str | None:
        """Find the kinds of the attributes and how many fragments share each key.

        Raises:
            UsageError: a rule names an attribute that no fragment has.

        """
        self._require_attributes_of_rules(fragments)
        counts = counts_stated(fragments, self.attributes)
        self._kinds = kinds_of(counts)
        read = {
            attribute: counts_read(self._kinds[attribute], of) for attribute, of in counts.items()
        }
        self._use(map(_digest, self._often(read)))
        return None

    def _often(self, counts: Mapping[str, Mapping[str, int]]) -> Iterator[_Said]:
        """The values and features that more than `common` fragments have."""
        for attribute, counter in counts.items():
            shared: dict[str, dict[str, int]] = {}
            kind = self._kinds[attribute]
            for value, n in counter.items():
                if n > self.common:
                    yield attribute, "", value
                for name, features in features_of(kind, value).items():
                    if name not in _LEFT_OUT:
                        held = shared.setdefault(name, {})
                        for feature in features:
                            held[feature] = held.get(feature, 0) + n
            for name, held in shared.items():
                for feature, n in held.items():
                    if n > self.common:
                        yield attribute, name, feature

    def dump(self) -> LearnedState:
        """The kinds of the attributes, and the common values."""
        common = np.array(list(self._common), np.int64)
        return LearnedState({"kinds": dict(sorted(self._kinds.items()))}, {"common": common})

    def load(self, kept: LearnedState) -> None:
        """See `kbforge.contracts.index`."""
        read = KeptReader(kept, "index selective")
        kinds = read.only("kinds").table("kinds")
        common = read.array("common", np.int64, least=0, most=LARGEST, ascending=True)
        self._kinds = {name: cast(Kind, kinds.choice(name, KINDS)) for name in kinds}
        self._use(common.tolist())

    def __getstate__(self) -> dict[str, object]:
        """Omit caches, which another process rebuilds."""
        return {**self.__dict__, "_made": None, "_begun": {}}

    def _use(self, common: Iterable[int]) -> None:
        self._common = {digest: number for number, digest in enumerate(sorted(set(common)))}
        self._of_value.clear()
        self._made = None
        self._n_known = 0

    def keys(self, fragment: Fragment) -> Sequence[int]:
        """See `kbforge.contracts.index`."""
        singles: list[int] = []
        common: list[_Keys] = []
        known = self._of_value
        for item in sorted(self._read(fragment)):
            of_values = known.get(item)
            if of_values is None:
                of_values = known[item] = self._keys_of(item[0], stated(item[1]))
                self._n_known += len(of_values[0])
                if self._n_known > _MOST_KNOWN:
                    known.clear()
                    self._n_known = 0
            singles += of_values[0]
            if of_values[1]:
                common.append(of_values[1])
        out = dict.fromkeys([*self._keys_of_rules(fragment), *singles])
        for key, others in _paired(common):
            if len(out) >= _MOST_KEYS:
                break
            out |= dict.fromkeys(_pairs(key, others))
        return list(out)[:_MOST_KEYS]

    def keys_of(self, fragments: Sequence[Fragment]) -> tuple[IntArray, IntArray]:
        """See `kbforge.contracts.index`; composed in the kernel."""
        if self._made is None:
            self._made = CompiledKeys(kernel_library(), self._keys_of_values, _MOST_KEYS)
        said = [fragment.properties for fragment in fragments]
        if self.attributes:
            said = [dict(self._read(fragment)) for fragment in fragments]
        more = [self._keys_of_rules(f) if self.rules else () for f in fragments]
        return self._made.keys_of(said, more)

    def _keys_of_values(self, attribute: str, values: tuple[str, ...]) -> tuple[_Keys, _Keys]:
        return self._keys_of(attribute, stated(values))

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

    def _read(self, fragment: Fragment) -> list[tuple[str, tuple[str, ...]]]:
        read = self.attributes
        if not read:
            return list(fragment.properties.items())
        return [item for item in fragment.properties.items() if item[0] in read]

    def _keys_of(self, attribute: str, value: str) -> tuple[_Keys, _Keys]:
        """The keys of an attribute's values, and those that are paired because they are common."""
        kind = self._kinds.get(attribute, "text")
        value = read_as(kind, value)
        if not value:
            return (), ()
        singles = [self._key(attribute, "", value)]
        paired = [key for key in singles if key >= 0]
        for name, features in features_of(kind, value).items():
            if name not in _LEFT_OUT:
                keys = [self._key(attribute, name, feature) for feature in features]
                singles += keys
                if name == _PAIRED.get(kind):
                    paired += [key for key in keys if key >= 0]
        return tuple(singles), tuple(paired)

    def _key(self, attribute: str, name: str, feature: str) -> int:
        """From 0 if many fragments of the file have the value, otherwise below."""
        begun = self._begun.get((attribute, name))
        if begun is None:
            begun = self._begun[attribute, name] = begun_digest(f"{attribute}\0{name}\0")
        digest = digest_after(begun, feature)
        return self._common.get(digest, -1 - digest)


def _paired(common: Sequence[_Keys]) -> Iterator[tuple[int, list[int]]]:
    """Each key of some values, with the keys of the values after it."""
    for place, keys in enumerate(common[:-1], 1):
        others = [other for of_value in common[place:] for other in of_value]
        for key in keys:
            yield key, others


def _pairs(key: int, others: Iterable[int]) -> list[int]:
    """The keys that pair a key with each of some others."""
    first = (key + 1) << _PAIR_SHIFT
    return [first | other if key < other else (other + 1) << _PAIR_SHIFT | key for other in others]


def _digest(said: _Said) -> int:
    return digest_of("\0".join(said))


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


def digest_of_properties(fragment: Fragment) -> bytes:
    """A hash of a fragment's properties."""
    stated = orjson.dumps(dict(fragment.properties), option=orjson.OPT_SORT_KEYS)
    return hashlib.blake2b(stated, digest_size=8).digest()


def neighbourhoods(
    fragments: Sequence[Fragment],
    index: CandidateIndex,
    most: int,
    digest: Callable[[Fragment], bytes] = digest_of_properties,
) -> Sample:
    """All fragments up to a maximum, otherwise seeds and all that share a key with them.

    Seeds are added until the sample is full, so their neighbourhoods are complete except for keys
    that very many share. The choice depends only on the digests, not on order or names.
    """
    order = by_digest(fragments, digest)
    if len(order) <= most:
        return drawn(fragments, order, lambda _: (), most)
    # as every seed fills the sample, there are no more than these
    keys = keys_of_each([fragments[i] for i in order[:most]], index)
    wanted = chain.from_iterable(keys)
    holders = holders_of(wanted, (fragments[i] for i in order), index, MOST_RELATIVES)

    def relatives(seed: int) -> Iterable[int]:
        shared = (holders[key] for key in keys[seed])
        return chain.from_iterable(held for held in shared if len(held) <= MOST_RELATIVES)

    return drawn(fragments, order, relatives, most)


def keys_of_each(fragments: Sequence[Fragment], index: CandidateIndex) -> list[list[int]]:
    """The keys of each fragment, by an index that was fitted to it."""
    starts, flat = index.keys_of(fragments)
    keys: list[int] = flat.tolist()
    return [keys[begin:end] for begin, end in pairwise(starts.tolist())]


def holders_of(
    keys: Iterable[int], fragments: Iterable[Fragment], index: CandidateIndex, most: int
) -> dict[int, list[int]]:
    """For each key, the places of the fragments that have it, ascending; the first `most` + 1."""
    wanted = np.unique(np.fromiter(keys, dtype=np.int64))
    found = [np.zeros(0, dtype=np.int64)]
    places = [np.zeros(0, dtype=np.int64)]
    for first, block in _blocks(fragments if len(wanted) else ()):
        starts, flat = index.keys_of(block)
        at = np.minimum(np.searchsorted(wanted, flat), len(wanted) - 1)
        held = np.flatnonzero(wanted[at] == flat)
        found.append(at[held])
        places.append(first + np.searchsorted(starts, held, side="right") - 1)
    by_key = np.concatenate(found)
    order = np.argsort(by_key, kind="stable")
    of_key = np.split(
        np.concatenate(places)[order], np.searchsorted(by_key[order], np.arange(1, len(wanted)))
    )
    return {
        key: held[: most + 1].tolist() for key, held in zip(wanted.tolist(), of_key, strict=False)
    }


def _blocks(fragments: Iterable[Fragment]) -> Iterator[tuple[int, list[Fragment]]]:
    """Fragments in blocks, each with the place of its first one."""
    left, first = iter(fragments), 0
    while block := list(islice(left, _AT_ONCE)):
        yield first, block
        first += len(block)


def by_digest(
    fragments: Sequence[Fragment], digest: Callable[[Fragment], bytes] = digest_of_properties
) -> list[int]:
    """The numbers of the fragments, by hash."""
    digests = list(map(digest, fragments))
    return sorted(range(len(fragments)), key=digests.__getitem__)


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
        return Sample(tuple(fragments[i] for i in order), tuple(order), len(order))
    sample: set[int] = set()
    seeds = 0
    while len(sample) < most and seeds < len(order):
        sample.add(seeds)
        sample.update(relatives(seeds))
        seeds += 1
    rest = sorted(i for i in sample if i >= seeds)
    places = tuple(order[i] for i in [*range(seeds), *rest])
    return Sample(tuple(fragments[i] for i in places), places, seeds)

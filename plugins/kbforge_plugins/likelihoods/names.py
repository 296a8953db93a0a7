"""Equal names are one entity: the likelihood `names`.

A fragment says its exact name (`kbforge.models.exact_names`) and nothing else. Two fragments with
equal names are one entity with the probability q(name): of a cluster with k different names

    L(C) = sum over names of log base + (bearers - 1) [log base + log q / (1 - q)]  -  60 (k - 1)

so that at alpha 1 the odds of two equal names are q to 1 - q, and another name is as good as
impossible. q is the rarer the name, the nearer to one. How many other entities should bear a name
is told from its words: if a name is what its words make by chance, of D different names so many
are expected to be this one,

    expected(name) = D P(so many words) prod over words of P(word)

(words of different names, each counted once a name), and q = 1 / (1 + expected), within bounds: it
stays above one half, as this likelihood is of equal names that are one.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from kbforge.contracts import (
    CandidateIndex,
    ConjugateLikelihood,
    FloatArray,
    Fragment,
    IntArray,
    LearnedState,
    LiveClusters,
)
from kbforge.errors import UsageError
from kbforge.models.exact_names import exact_name
from kbforge.models.keeping import KeptReader
from kbforge_plugins.likelihoods.digests import LARGEST, Places, digest_of, digests_of, nowhere

_LEAST, _MOST = 0.6, 0.98
"""What q may be."""
_MOST_NAMES = 2**53
_ANOTHER_NAME = 60.0
"""Nats that speak against each name of an entity but one."""


class Names(ConjugateLikelihood):
    """Fragments with equal names (ignoring case and spaces) are one entity; all others are not.

    Args:
        together: the probability that two equal names are one entity; by default it depends on the
            words of the names in the input: rarer names are more certain.

    Raises:
        UsageError: a probability outside .5 and 1.

    """

    default_alpha = 1.0
    explains = keeps = True
    probability = False

    def __init__(self, together: float | None = None) -> None:
        if together is not None and not 0.5 < together < 1:
            raise UsageError(
                f"likelihood names: together: expected a probability between .5 and 1, got "
                f"{together:g}"
            )
        self._together = together
        self._book = _NameRegistry(_Rarity.of(()), together)
        self._by_name = NameIndex(self._book)
        self.index: CandidateIndex = self._by_name

    def fit(self, fragments: Sequence[Fragment]) -> None:
        """Count the words of the names, which say how rare a name is."""
        different = {exact_name(fragment) for fragment in fragments} - {""}
        self._use(_Rarity.of(different))

    def kept(self) -> LearnedState:
        """How many names there are, how long they are, and how many have each word."""
        return self._book.rarity.kept()

    def take_up(self, kept: LearnedState) -> None:
        """See `kbforge.contracts.likelihood`."""
        self._use(_Rarity.taken_up(kept))

    def _use(self, rarity: _Rarity) -> None:
        self._book = self._by_name.book = _NameRegistry(rarity, self._together)

    def live_clusters(self) -> NameTable:
        """A new, empty table."""
        return NameTable(self._book)

    def contributions(self, fragment: Fragment, cluster: Sequence[Fragment]) -> dict[str, float]:
        """What the equal name says, in nats; the attribute is `name`, or the first one stated."""
        both, without, alone = self.log_marginal([[*cluster, fragment], cluster, [fragment]])
        attribute = "name" if fragment.names else next(iter(fragment.properties), "name")
        return {attribute: float(both - without - alone)}


class _Rarity:
    """What the different names of a file say of how rare a name is.

    Args:
        names: how many there are.
        lengths: how many have so many words.
        words: how many have each word.
        places: of further words, by digest.
        counts: how many names have each of those, shape [places].

    """

    def __init__(
        self,
        names: int,
        lengths: Mapping[int, int],
        words: Mapping[str, int],
        places: Places,
        counts: IntArray,
    ) -> None:
        self._n, self._lengths, self._words = names, lengths, words
        self._places, self._counts = places, counts
        self.total = max(names, 1)
        self._all_words = max(sum(words.values()) + int(counts.sum()), 1)

    @classmethod
    def of(cls, names: Collection[str]) -> _Rarity:
        """That of some different names."""
        split = [name.split() for name in names]
        words = Counter(word for one in split for word in one)
        return cls(len(names), Counter(map(len, split)), words, nowhere(), np.zeros(0, np.int64))

    @classmethod
    def taken_up(cls, kept: LearnedState) -> _Rarity:
        """The one that kept this.

        Raises:
            ModelError: it is damaged, or something else.

        """
        read = KeptReader(kept, "likelihood names")
        names = read.only("names").within("names", 0, _MOST_NAMES)
        lengths = read.array("lengths", np.int64, least=0, most=_MOST_NAMES, width=2)
        words = read.array("words", np.int64, least=0, most=LARGEST, ascending=True)
        counts = read.array("counts", np.int64, len(words), least=1, most=_MOST_NAMES)
        return cls(int(names), dict(lengths.tolist()), {}, Places(words), counts)

    def kept(self) -> LearnedState:
        """All of it, words as digests."""
        words, counts = self._places.digests, self._counts
        if self._words:
            found = digests_of(self._words)
            order = np.argsort(found, kind="stable")
            words = found[order]
            counts = np.fromiter(self._words.values(), np.int64, len(found))[order]
        lengths = np.array(sorted(self._lengths.items()), np.int64).reshape(-1, 2)
        return LearnedState(
            {"names": self._n}, {"lengths": lengths, "words": words, "counts": counts}
        )

    def probability(self, name: str) -> float:
        """q: that two fragments with this name are one entity."""
        words = name.split()
        log_expected = math.log(self.total) + math.log(
            (self._lengths.get(len(words), 0) + 1) / (self.total + 1)
        )
        for word in words:
            log_expected += math.log((self._with(word) + 1) / (self._all_words + 1))
        q = 1 / (1 + math.exp(min(log_expected, 50.0)))
        return min(max(q, _LEAST), _MOST)

    def _with(self, word: str) -> int:
        found = self._words.get(word)
        if found is None:
            place = self._places.of(word)
            found = int(self._counts[place]) if place >= 0 else 0
        return found


@dataclass(frozen=True, slots=True)
class _NameFacts:
    """A name: its digest, log base, and what another fragment with it adds, in nats."""

    digest: int
    log_base: float
    log_again: float


class _NameRegistry:
    """Names, and how rare they are.

    Args:
        rarity: of names.
        together: q, if it is given.

    Attributes:
        rarity: as given.

    """

    def __init__(self, rarity: _Rarity, together: float | None) -> None:
        self.rarity, self._together = rarity, together
        self._names: dict[str, _NameFacts] = {}

    def named(self, name: str) -> _NameFacts:
        """The name."""
        found = self._names.get(name)
        if found is None:
            log_base = -math.log(self.rarity.total + 1)
            q = self._together or self.rarity.probability(name)
            found = self._names[name] = _NameFacts(
                digest_of(name), log_base, log_base + math.log(q / (1 - q))
            )
        return found


class NameIndex(CandidateIndex):
    """One key: the name. A fragment without any has none."""

    def __init__(self, book: _NameRegistry) -> None:
        self.book = book

    def keys(self, fragment: Fragment) -> Sequence[int]:
        """See `kbforge.contracts.index`."""
        name = exact_name(fragment)
        return [self.book.named(name).digest] if name else []


class NameTable(LiveClusters):
    """The live clusters: of each its names, and how many fragments bear them."""

    editable = mergeable = True

    def __init__(self, book: _NameRegistry) -> None:
        self._book = book
        self._held: list[dict[_NameFacts, int]] = []

    def encode(self, fragment: Fragment) -> _NameFacts:
        return self._book.named(exact_name(fragment))

    def log_predictive(self, x: _NameFacts, slots: int) -> FloatArray:
        return self.log_predictive_of(x, np.arange(slots))

    def log_predictive_of(self, x: _NameFacts, slots: IntArray) -> FloatArray:
        other = x.log_base - _ANOTHER_NAME
        held = self._held
        return np.array([x.log_again if x in held[slot] else other for slot in slots.tolist()])

    def log_predictive_new(self, x: _NameFacts) -> float:
        return x.log_base

    def extend(self, x: _NameFacts, parents: IntArray, children: IntArray) -> None:
        top = int(children.max(initial=-1))
        self._held.extend({} for _ in range(top + 1 - len(self._held)))
        for parent, child in zip(parents.tolist(), children.tolist(), strict=True):
            names = dict(self._held[parent]) if parent >= 0 else {}
            names[x] = names.get(x, 0) + 1
            self._held[child] = names

    def log_predictive_held(self, x: _NameFacts, slot: int) -> float:
        names = self._held[slot]
        if names[x] > 1:
            return x.log_again
        return x.log_base if len(names) == 1 else x.log_base - _ANOTHER_NAME

    def add(self, x: _NameFacts, slot: int) -> None:
        names = self._held[slot]
        names[x] = names.get(x, 0) + 1

    def remove(self, x: _NameFacts, slot: int) -> None:
        names = self._held[slot]
        names[x] -= 1
        if not names[x]:
            del names[x]

    def log_merge_ratio(self, slot: int, slots: int) -> FloatArray:
        return self.log_merge_ratio_of(slot, np.arange(slots))

    def log_merge_ratio_of(self, slot: int, slots: IntArray) -> FloatArray:
        own, held = self._held[slot], self._held
        out = np.empty(len(slots))
        for k, other in enumerate(slots.tolist()):
            shared = [name for name in own if name in held[other]]
            again = sum(name.log_again - name.log_base for name in shared)
            out[k] = again - _ANOTHER_NAME * (1 - len(shared))
        return out

    def merge(self, slot: int, into: int) -> None:
        names = self._held[into]
        for name, n in self._held[slot].items():
            names[name] = names.get(name, 0) + n

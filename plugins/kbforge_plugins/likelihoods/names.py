"""The likelihood `names`: equal names are one entity.

Only the exact name of a fragment is read (`kbforge.fit.hypotheses`). Two fragments with equal names
are one entity with probability q(name): for a cluster with k different names

    L(C) = sum over names of log base + (bearers - 1) [log base + log q / (1 - q)]  -  60 (k - 1)

so that at alpha 1 the odds of two equal names are q to 1 - q, and another name is practically
impossible, and so is another fragment without a name. The rarer the name, the closer q is to one.
The number of other entities with a name is estimated from its words: if names are random sequences
of words, then among D different names the expected number

    expected(name) = D P(so many words) prod over words of P(word)

equals this one (words of different names, each counted once per name), and q = 1 / (1 + expected),
within bounds: it stays above one half, because this likelihood groups equal names.
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
from kbforge.fit.hypotheses import exact_name
from kbforge.models.bundle import KeptReader
from kbforge.texts import LARGEST, Places, digest_of, digests_of, nowhere

_LEAST, _MOST = 0.6, 0.98  # of q
_MOST_NAMES = 2**53
_ANOTHER_NAME = 60.0  # nats against each name of an entity but one


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
        self._by_name = NameIndex(Rarity.of((), together))
        self.index: CandidateIndex = self._by_name

    def fit(self, fragments: Sequence[Fragment]) -> None:
        """Count the words of the names; the rarity of a name is estimated from these."""
        different = {exact_name(fragment) for fragment in fragments} - {""}
        self._by_name.rarity = Rarity.of(different, self._together)

    def dump(self) -> LearnedState:
        """The number of names, by length and by word."""
        return self._by_name.rarity.dump()

    def load(self, kept: LearnedState) -> None:
        self._by_name.rarity = Rarity.load(kept, self._together)

    def live_clusters(self) -> NameTable:
        return NameTable(self._by_name.rarity)

    def contributions(self, fragment: Fragment, cluster: Sequence[Fragment]) -> dict[str, float]:
        """The evidence of the equal name, in nats; the attribute is `name`, or the first one
        stated."""
        both, without, alone = self.log_marginal([[*cluster, fragment], cluster, [fragment]])
        attribute = "name" if fragment.names else next(iter(fragment.properties), "name")
        return {attribute: float(both - without - alone)}


@dataclass(frozen=True, slots=True)
class _NameFacts:
    """A name: its digest, log base, and the gain of another fragment with it, in nats."""

    digest: int
    log_base: float
    log_again: float

    @property
    def log_odds(self) -> float:
        """Of two fragments with the name to be one entity, nats."""
        return self.log_again - self.log_base


@dataclass(eq=False)
class Rarity:
    """The rarity of names: the words of the different names of a file, further ones by digest."""

    n: int  # of the names
    lengths: Mapping[int, int]
    words: Mapping[str, int]
    places: Places
    counts: IntArray
    together: float | None

    def __post_init__(self) -> None:
        self._total = max(self.n, 1)
        self._all_words = max(sum(self.words.values()) + int(self.counts.sum()), 1)
        self._facts: dict[str, _NameFacts] = {}

    @classmethod
    def of(cls, names: Collection[str], together: float | None) -> Rarity:
        """From different names."""
        split = [name.split() for name in names]
        words = Counter(word for one in split for word in one)
        lengths = Counter(map(len, split))
        return cls(len(names), lengths, words, nowhere(), np.zeros(0, np.int64), together)

    @classmethod
    def load(cls, kept: LearnedState, together: float | None) -> Rarity:
        """Load the form of `dump`; a ModelError if it is damaged."""
        read = KeptReader(kept, "likelihood names")
        names = read.only("names").within("names", 0, _MOST_NAMES)
        lengths = read.array("lengths", np.int64, least=0, most=_MOST_NAMES, width=2)
        words = read.array("words", np.int64, least=0, most=LARGEST, ascending=True)
        counts = read.array("counts", np.int64, len(words), least=1, most=_MOST_NAMES)
        return cls(int(names), dict(lengths.tolist()), {}, Places(words), counts, together)

    def dump(self) -> LearnedState:
        """All counts, with words as digests."""
        words, counts = self.places.digests, self.counts
        if self.words:
            found = digests_of(self.words)
            order = np.argsort(found, kind="stable")
            words = found[order]
            counts = np.fromiter(self.words.values(), np.int64, len(found))[order]
        lengths = np.array(sorted(self.lengths.items()), np.int64).reshape(-1, 2)
        return LearnedState(
            {"names": self.n}, {"lengths": lengths, "words": words, "counts": counts}
        )

    def facts(self, name: str) -> _NameFacts:
        """The facts about a name."""
        found = self._facts.get(name)
        if found is None:
            log_base = -math.log(self._total + 1)
            q = self.together or self._probability(name)
            log_again = log_base + (math.log(q / (1 - q)) if name else -_ANOTHER_NAME)
            found = self._facts[name] = _NameFacts(digest_of(name), log_base, log_again)
        return found

    def _probability(self, name: str) -> float:
        """q, the probability that two fragments with this name are one entity."""
        words = name.split()
        log_expected = math.log(self._total) + math.log(
            (self.lengths.get(len(words), 0) + 1) / (self._total + 1)
        )
        for word in words:
            log_expected += math.log((self._names_with(word) + 1) / (self._all_words + 1))
        q = 1 / (1 + math.exp(min(log_expected, 50.0)))
        return min(max(q, _LEAST), _MOST)

    def _names_with(self, word: str) -> int:
        found = self.words.get(word)
        if found is None:
            place = self.places.of(word)
            found = int(self.counts[place]) if place >= 0 else 0
        return found


class NameIndex(CandidateIndex):
    """One key: the name. A fragment without a name has no key."""

    def __init__(self, rarity: Rarity) -> None:
        self.rarity = rarity

    def keys(self, fragment: Fragment) -> Sequence[int]:
        name = exact_name(fragment)
        return [self.rarity.facts(name).digest] if name else []


class NameTable(LiveClusters):
    """The live clusters: the names of each."""

    def __init__(self, rarity: Rarity) -> None:
        self._rarity = rarity
        self._names: list[frozenset[_NameFacts]] = []

    def encode(self, fragment: Fragment) -> _NameFacts:
        return self._rarity.facts(exact_name(fragment))

    def log_predictive(self, x: _NameFacts, slots: int) -> FloatArray:
        return self.log_predictive_of(x, np.arange(slots))

    def log_predictive_of(self, x: _NameFacts, slots: IntArray) -> FloatArray:
        other = x.log_base - _ANOTHER_NAME
        names = self._names
        return np.array([x.log_again if x in names[slot] else other for slot in slots.tolist()])

    def log_predictive_new(self, x: _NameFacts) -> float:
        return x.log_base

    def extend(self, x: _NameFacts, parents: IntArray, children: IntArray) -> None:
        top = int(children.max(initial=-1))
        self._names.extend([frozenset()] * (top + 1 - len(self._names)))
        for parent, child in zip(parents.tolist(), children.tolist(), strict=True):
            self._names[child] = (self._names[parent] if parent >= 0 else frozenset()) | {x}

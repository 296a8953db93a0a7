"""The likelihood `aliases`: equal names are one entity, and so are names that seem to be aliases.

It reads graphs of mentions, which language models write: a fragment for each name in each text
unit. The probability q of equal names is that of the likelihood `names`, the log odds o of two
different names are those of `evidence`, in nats, minus those from which on it is worth joining two
names of this file, clipped:

    L(C) = sum over names a < b of C: s_a s_b o(a, b)
         + sum over names a of C: (n_a - 1) log q_a / (1 - q_a)

where n_a mentions of the name are in C, and s_a^2 is their share of those in the file. So the
evidence of two names counts once, however often the names were mentioned, and the prior must not
count mentions either: the exponent of sizes is 0 (`default_exponent`). Names that are not compared
have log odds of -5 for each pair of mentions, weighed as in the likelihood `pairs`, whose tables in
the kernel these are.

A name that the file does not have is only equal to itself, until the likelihood is fitted again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from kbforge.contracts import (
    CandidateIndex,
    ConjugateLikelihood,
    FloatArray,
    Fragment,
    IntArray,
    LearnedState,
)
from kbforge.fit.hypotheses import exact_name
from kbforge.models.bundle import KeptReader
from kbforge.texts import LARGEST, Places, digest_of, digests_of
from kbforge_graphs.likelihoods.aliases.evidence import WEIGHTS, Evidence
from kbforge_plugins.likelihoods.names import Rarity
from kbforge_plugins.likelihoods.pairs.likelihood import PairClusters, weight
from kbforge_plugins.likelihoods.pairs.odds import OddsLinks, above_apart, key_of_pair

_MOST = 4.0  # nats
_LEAST = -2.0  # nats, from which on two names share a key
_MOST_MENTIONS = 2**31
_NAMELESS = -60.0  # nats, of two mentions without a name


@dataclass(eq=False)
class AliasOdds:
    """The log odds of the names of a file; a name is a row of the pair tables."""

    names: Places  # of the file, n of them
    mentions: IntArray  # of each name, shape [n]
    pairs: IntArray  # of names that were compared, ascending, shape [pairs, 2]
    terms: FloatArray  # the log odds of these by attribute, nats, shape [pairs, attributes]
    rarity: Rarity
    own: FloatArray  # the log odds of two mentions of each name, nats, shape [n]

    def __post_init__(self) -> None:
        pairs = self.pairs
        clipped = np.clip(self.terms.sum(axis=1), -_MOST, _MOST)
        self.scale = 1 / np.sqrt(self.mentions[pairs].prod(axis=1, dtype=np.float64))
        self.likely = clipped >= _LEAST
        self.links = OddsLinks.fitted(
            pairs.astype(np.int32), above_apart(clipped * self.scale), above_apart(self.own)
        )
        self._later: dict[str, int] = {}

    @classmethod
    def fitted(cls, fragments: Sequence[Fragment]) -> AliasOdds:
        """Of a file."""
        evidence = Evidence(fragments)
        named = evidence.named
        rarity = Rarity.of(named, None)
        digests = digests_of(named)
        order = np.argsort(digests, kind="stable")
        names = np.array([*named], dtype=object)[order].tolist()
        row = {name: at for at, name in enumerate(names)}
        rows = [sorted((row[a], row[b])) for a, b in evidence.terms]
        pairs = np.array(rows, np.int64).reshape(-1, 2)
        terms = np.array([*evidence.terms.values()]).reshape(-1, len(WEIGHTS))
        terms[:, 0] -= evidence.least
        by_row = np.lexsort(pairs.T[::-1])
        mentions = np.array([named[name].count for name in names], np.int64)
        own = np.array([rarity.facts(name).log_odds for name in names])
        places = Places(digests[order])
        return cls(places, mentions, pairs[by_row], terms[by_row], rarity, own)

    def dump(self) -> LearnedState:
        """What `load` reads."""
        rarity = self.rarity.dump()
        names = {"digests": self.names.digests, "mentions": self.mentions, "own": self.own}
        pairs = {"pairs": self.pairs, "terms": self.terms}
        return LearnedState(rarity.values, {**rarity.arrays, **names, **pairs})

    @classmethod
    def load(cls, kept: LearnedState) -> AliasOdds:
        """Load a saved state; a ModelError if it is damaged."""
        read = KeptReader(kept, "likelihood aliases")
        digests = read.array("digests", np.int64, least=0, most=LARGEST, ascending=True)
        n = len(digests)
        mentions = read.array("mentions", np.int64, n, least=1, most=_MOST_MENTIONS)
        own = read.array("own", np.float64, n, least=-_MOST, most=_MOST)
        pairs = read.array("pairs", np.int64, least=0, most=n - 1, width=2)
        if not (np.diff(pairs) > 0).all() or (np.lexsort(pairs.T[::-1]) != range(len(pairs))).any():
            raise read.wrong("pairs", "ascending pairs of names", "others")
        terms = read.array("terms", np.float64, len(pairs), width=len(WEIGHTS))
        rarity = Rarity.load(kept, None)
        return cls(Places(digests), mentions, pairs, terms, rarity, own)

    @property
    def n_rows(self) -> int:
        """Names of the file, and later ones."""
        return len(self.names) + len(self._later)

    def row(self, fragment: Fragment) -> int:
        """The row of its name; a later one is numbered on."""
        name = exact_name(fragment)
        row = self.names.of(name)
        return row if row >= 0 else self._later.setdefault(name, self.n_rows)

    def encode_all(self, fragments: Sequence[Fragment]) -> IntArray:
        """The rows of fragments."""
        return np.fromiter(map(self.row, fragments), np.int64, len(fragments))

    def near(self, row: int) -> Mapping[int, int]:
        """Of a later name, only itself: log odds minus `APART`, in units."""
        name = [*self._later][row - len(self.names)]
        own = self.rarity.facts(name).log_odds if name else _NAMELESS
        return {row: int(above_apart(np.array([own]), -_NAMELESS)[0])}

    def terms_of(self, row: int) -> dict[int, FloatArray]:
        """For each name that was compared with one of the file: the terms by attribute, weighed
        and clipped, nats."""
        if row >= len(self.names):
            return {}
        numbers, others = self.links.of(row)
        terms = self.terms[numbers]
        total = terms.sum(axis=1)
        clipped = np.clip(total, -_MOST, _MOST) / np.where(total == 0, 1, total)
        weighed = terms * (clipped * self.scale[numbers])[:, None]
        return dict(zip(others.tolist(), weighed, strict=True))


class AliasIndex(CandidateIndex):
    """Keys of a fragment: its name, and each pair of its name with one that may be an alias."""

    def __init__(self, odds: AliasOdds) -> None:
        self.odds = odds

    def keys(self, fragment: Fragment) -> Sequence[int]:
        name = exact_name(fragment)
        if not name:
            return []
        row, odds = self.odds.row(fragment), self.odds
        keys = [-1 - digest_of(name)]
        if row < len(odds.links.own):
            numbers, others = odds.links.of(row)
            likely = others[odds.likely[numbers]].tolist()
            keys += sorted(key_of_pair(row, x) for x in likely)
        return keys


class Aliases(ConjugateLikelihood):
    """Names of one entity in a graph of mentions: equal ones, and those that seem to be aliases."""

    default_exponent = 0.0
    explains = keeps = True
    probability = False

    def __init__(self) -> None:
        self._names = AliasIndex(AliasOdds.fitted(()))
        self.index: CandidateIndex = self._names

    def fit(self, fragments: Sequence[Fragment]) -> str:
        """Compare the names of the file; says how many pairs."""
        self._names.odds = AliasOdds.fitted(fragments)
        pairs = len(self._names.odds.pairs)
        return f"aliases: {pairs:,} pairs of names compared"

    def dump(self) -> LearnedState:
        """The names of the file, and the log odds of pairs of them."""
        return self._names.odds.dump()

    def load(self, kept: LearnedState) -> None:
        self._names.odds = AliasOdds.load(kept)

    def live_clusters(self) -> PairClusters:
        return PairClusters(self._names.odds)

    def log_marginal(self, clusters: Sequence[Sequence[Fragment]]) -> FloatArray:
        table = self.live_clusters()
        return table.log_marginals(table.encode_sets(clusters))[:, 0]

    def contributions(self, fragment: Fragment, cluster: Sequence[Fragment]) -> dict[str, float]:
        """The terms of each attribute, nats; `name` has all that is said by names."""
        odds, table = self._names.odds, self.live_clusters()
        row = odds.row(fragment)
        held = Counter(map(odds.row, cluster))
        here, once = held.pop(row, 0), weight(1)
        told = np.zeros(len(WEIGHTS))
        for other, terms in odds.terms_of(row).items():
            times = (weight(here + 1) - weight(here)) * weight(held[other]) / once**2
            told += times * terms
        said = dict(zip(WEIGHTS, told.tolist(), strict=True))
        (gain,) = table.log_gains(table.encode(fragment), table.encode_sets([cluster]))
        # names that were not compared, equal names and what rounding leaves
        said["name"] += gain - sum(said.values())
        return {name: nats for name, nats in said.items() if nats or name == "name"}

"""What a file of mentions says of pairs of its names that may be aliases.

The log odds of a pair are a sum of terms, in nats, each said of one attribute:

name
    The kind of relation of the two (`words`), the log of the longer name's share of the mentions of
    all names that the shorter one may stand for, and whether what the longer one adds is told of
    the shorter one.
type
    Different.
neighbour
    Whether one is a neighbour of the other, which speaks against, and how alike the others are.
description
    How alike the descriptions are without the words of the names; whether one names the other
    ("also known as", or as its subject); whether one is "he" and the other "she".

*Alike* is measured by the file itself: the cosine of two bags, rare words count more, and of it
minus the log of the share of pairs of names, drawn at random, that are at least as alike.

The weights, `weights.json`, are those of a logistic model of the labelled pairs of four graphs that
language models made (`kbforge_lab.training.aliases`). Annotated news is not read: there, to stand
in one text unit speaks for an alias, in a graph that a model extracted against it.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from importlib import resources
from itertools import combinations
from sys import intern
from typing import TypeAlias

import numpy as np

from kbforge.contracts import FloatArray, Fragment
from kbforge.fit.hypotheses import exact_name
from kbforge_graphs.likelihoods.aliases.words import (
    ARTICLES,
    HE,
    SHE,
    NameWords,
    exclusive,
    relation,
    words_of,
    words_of_name,
)

Pair: TypeAlias = tuple[str, str]
"""Two exact names, the lesser first."""
WEIGHTS: Mapping[str, Mapping[str, float]] = json.loads(
    resources.files(__package__).joinpath("weights.json").read_text("utf-8")
)
"""By attribute and feature, nats."""
_BY_PERSON = ("head", "start")
_CONTAINED = ("title", "initials", "aside", "head", "start", "part")
_ALIKE_ANYHOW = ("number", "sibling", "unlike")
_MOST = {"near": 5.5, "words": 10.0}  # nats
_LEAST = -1.0
"""No names are joined below these log odds, nats; above, two aliases of one name are compared."""

_MOST_SHARING = 256
_CHANCE_PAIRS = 4_000
_LONGEST, _BEGINNING = 4_000, 600  # characters of a description: read, and searched for names
_AS = r"(?:known|referred to|identified) (?:\w+ )?as|nicknamed|likely|a\.?k\.?a\.?|alias"
_AS += r"|(?:another|formal|full|real) name (?:of|for)|(?:short|stands) for"
_AS += r"|abbreviat\w+ (?:of|for|as)"
_UNTIL = r" (?:is|was|are|were|has|in|by|at|of|to|and|or|who|for)\b|[.,;:)\"”(]|['’](?!\w)|$"
_SAID_AS = re.compile(rf"\b(?:{_AS}) (?:the )?[\"'“‘(]?(?=[A-Z0-9])(.*?)(?={_UNTIL})")
_PERSON = re.compile(
    r"person|people|human|character|individual|actor|artist|author|writer|player|politician"
    r"|minister|president|head of|scientist|musician|journalist"
)
_VERBS = frozenset(["is", "was", "are", "were", "refers"])
_HIS = frozenset(["he", "his", "him", "himself"])
_HER = frozenset(["she", "her", "hers", "herself"])


@dataclass(slots=True)
class Named:
    """What the mentions of one name say together."""

    words: NameWords
    count: int = 0
    types: Counter[str] = field(default_factory=Counter)
    neighbours: set[str] = field(default_factory=set)
    descriptions: list[str] = field(default_factory=list)  # their beginnings
    described: frozenset[str] = frozenset()  # the words of these
    gender: int = 0  # 1 of a man, -1 of a woman, 0 if it is not clear

    @property
    def type(self) -> str:
        """The most frequent type; "" if none is stated."""
        return min(self.types, key=lambda kind: (-self.types[kind], kind), default="")

    @property
    def person(self) -> bool:
        """Whether it seems to be one."""
        return _PERSON.search(self.type) is not None if self.type else self.gender != 0

    def read(self) -> None:
        """Read the descriptions."""
        words = [intern(word) for text in self.descriptions for word in words_of(text)]
        his = sum(word in _HIS for word in words)
        her = sum(word in _HER for word in words)
        self.described, titles = frozenset(words), self.words.titles
        self.gender = (his > 2 * her) - (her > 2 * his)
        if titles & (HE | SHE):
            self.gender = 1 if titles & HE else -1


def names_of(fragments: Iterable[Fragment]) -> dict[str, Named]:
    """The names of a file, by exact name."""
    found: dict[str, Named] = {}
    for fragment in fragments:
        name = exact_name(fragment)
        if not name:
            continue
        said = fragment.properties
        one = found.get(name)
        if one is None:
            one = found[name] = Named(words_of_name(fragment.names[0] if fragment.names else name))
        one.count += 1
        one.types.update(kind.casefold() for kind in said.get("type", ())[:1])
        one.neighbours.update(" ".join(x.casefold().split()) for x in said.get("neighbour", ()))
        one.descriptions.extend(text[:_LONGEST] for text in said.get("description", ()))
    for one in found.values():
        one.descriptions.sort()  # their order in the file does not matter
        one.read()
    return found


class Likeness:
    """How alike the bags of names are, compared with pairs by chance."""

    def __init__(self, bags: Mapping[str, Set[str]]) -> None:
        self._bags = bags
        often = Counter(token for name in sorted(bags) for token in sorted(bags[name]))
        n = len(bags)
        self._weights = {token: math.log((n + 1) / k) ** 2 for token, k in often.items()}
        names = [name for name in sorted(bags) if bags[name]]
        self._chance: FloatArray = np.zeros(0)
        if len(names) > 1:
            drawn = np.random.default_rng(0).integers(len(names), size=(_CHANCE_PAIRS, 2))
            pairs = ((names[i], names[j]) for i, j in drawn.tolist() if i != j)
            self._chance = np.sort([self._cosine(bags[a], bags[b]) for a, b in pairs])

    def of(self, a: str, b: str, without: Set[str]) -> float | None:
        """-log of the share of chance pairs that are as alike; None if one says nothing."""
        x, y = self._bags[a] - without, self._bags[b] - without
        if not x or not y:
            return None
        cosine, n = self._cosine(x, y), len(self._chance)
        if cosine <= 0:
            return 0.0
        above = n - int(np.searchsorted(self._chance, cosine - 1e-12))
        return -math.log((above + 0.5) / (n + 0.5))

    def _cosine(self, x: Set[str], y: Set[str]) -> float:
        shared = self._sum(x & y)
        return shared / math.sqrt(self._sum(x) * self._sum(y)) if shared else 0.0

    def _sum(self, tokens: Set[str]) -> float:
        return math.fsum(self._weights[token] for token in tokens)


class Evidence:
    """The log odds of the pairs of names that are compared, by attribute.

    Attributes:
        named: the names.
        terms: by pair, the sum of `WEIGHTS` for each attribute, nats.
        least: the log odds from which on it is worth joining two names, nats.

    """

    def __init__(self, fragments: Iterable[Fragment]) -> None:
        self.named = names_of(fragments)
        named = self.named
        self._described = Likeness({name: one.described for name, one in named.items()})
        self._near = Likeness({name: one.neighbours for name, one in named.items()})
        self._said = dict(_sayings(named))
        related = {pair: relation(*self._words(pair)) for pair in sorted(_related(named))}
        self._kinds = {pair: kind for pair, kind in related.items() if kind != "apart"}
        for pair in self._said:
            self._kinds.setdefault(pair, "apart")
        self._stands_for = self._longer_names()
        self._titled: dict[str, list[Named]] = defaultdict(list)
        for one in named.values():
            if one.words.titles:
                self._titled[one.words.spelled].append(one)
        self.terms = {pair: self._terms(pair) for pair in self._kinds}
        self._compare_aliases()
        self.least = least_worth([math.fsum(terms) for terms in self.terms.values()])

    def _words(self, pair: Pair) -> tuple[NameWords, NameWords]:
        return self.named[pair[0]].words, self.named[pair[1]].words

    def _longer_names(self) -> dict[str, Counter[str]]:
        """For each name the mentions of those that it may stand for, by their letters."""
        found: dict[str, Counter[str]] = defaultdict(Counter)
        for pair, kind in self._kinds.items():
            if kind in _CONTAINED and kind != "title":
                short, long = self._by_length(pair)
                found[short][self.named[long].words.spelled] += self.named[long].count
        return found

    def _by_length(self, pair: Pair) -> Pair:
        a, b = pair
        swapped = len(self.named[b].words.said) < len(self.named[a].words.said)
        return (b, a) if swapped else (a, b)

    def _compare_aliases(self) -> None:
        """Compare names that are aliases of a third one, too: they may contradict each other."""
        partners: dict[str, list[str]] = defaultdict(list)
        for (a, b), terms in self.terms.items():
            if sum(terms) >= _LEAST:
                partners[a].append(b)
                partners[b].append(a)
        for names in partners.values():
            for pair in combinations(sorted(names)[:_MOST_SHARING], 2):
                if pair not in self._kinds:
                    self._kinds[pair] = relation(*self._words(pair))
                    self.terms[pair] = self._terms(pair)

    def _terms(self, pair: Pair) -> tuple[float, ...]:
        found = self.features(pair)
        return tuple(
            math.fsum(weight * found.get(feature, 0.0) for feature, weight in weights.items())
            for weights in WEIGHTS.values()
        )

    def features(self, pair: Pair) -> dict[str, float]:
        """The features of a compared pair that are not 0."""
        a, b = (self.named[name] for name in pair)
        kind, said = self._kinds[pair], self._said.get(pair, "")
        if kind == "sibling" and said == "cue":
            kind = "apart"
        person = kind in _BY_PERSON and (a.person or b.person)
        found = {f"{kind} of a person" if person else kind: 1.0}
        if kind in _CONTAINED:
            found["share"] = math.log(self._share(pair, kind))
            short, long = (self.named[name] for name in self._by_length(pair))
            if {*short.words.said} < {*long.words.said} <= {*short.words.said} | short.described:
                found["told"] = 1.0
        if a.type and b.type and a.type != b.type:
            found["different"] = 1.0
        if pair[1] in a.neighbours or pair[0] in b.neighbours:
            found["linked"] = 1.0
        if kind not in _ALIKE_ANYHOW:
            of_names = {*a.words.said, *b.words.said}
            likenesses = self._near.of(*pair, {*pair}), self._described.of(*pair, of_names)
            for feature, alike in zip(_MOST, likenesses, strict=True):
                if alike is not None:
                    found[feature] = min(alike, _MOST[feature])
        if said and (said != "subject" or kind != "same"):
            found[said] = 1.0
        if a.gender * b.gender < 0:
            found["gender"] = 1.0
        return found

    def _share(self, pair: Pair, kind: str) -> float:
        """The longer name's share of the mentions of all that the shorter one may stand for."""
        short, long = self._by_length(pair)
        one, rivals = self.named[long], self._stands_for[short]
        if kind != "title":
            return rivals[one.words.spelled] / rivals.total()
        others = sum(
            other.count
            for other in self._titled[one.words.spelled]
            if exclusive(one.words.titles, other.words.titles)
        )
        return one.count / (one.count + others)


def least_worth(log_odds: Sequence[float]) -> float:
    """The log odds from which on joining raises the expected F1 of pairs; 0 if there are none.

    They are those of half the best F1 that can be expected of the most probable pairs, if these are
    enough for more than a guess.
    """
    if not log_odds:
        return 0.0
    likely = -np.sort(-1 / (1 + np.exp(-np.array(log_odds))))
    best = (2 * np.cumsum(likely) / (np.arange(1, len(likely) + 1) + likely.sum())).max()
    return max(_LEAST, math.log(best / (2 - best)))


def _pair(a: str, b: str) -> Pair:
    return (a, b) if a < b else (b, a)


def _related(named: Mapping[str, Named]) -> set[Pair]:
    """Pairs of names that may have a relation."""
    by_word: dict[str, list[str]] = defaultdict(list)
    by_letters: dict[str, list[str]] = defaultdict(list)
    by_initials: dict[str, list[str]] = defaultdict(list)
    for name in sorted(named):
        words = named[name].words
        for word in sorted({*words.core}):
            by_word[word].append(name)
        by_letters[words.spelled].append(name)
        for ending in {words.spelled[:4], words.spelled[-4:]}:
            by_letters[f"{len(words.core)} {ending}"].append(name)
        for initials in words.initials:
            by_initials[initials].append(name)
    found = set[Pair]()
    for name, one in named.items():
        words = one.words
        if not words.core:
            continue
        rarest = min(words.core, key=lambda word: (len(by_word[word]), word))
        letters = words.spelled
        places = (
            *(by_letters[letters], by_letters.get("".join(words.aside), ())),
            *(by_letters[f"{len(words.core)} {some}"] for some in (letters[:4], letters[-4:])),
            *(by_word[rarest], by_initials.get(words.abbreviation, ())),
        )
        for others in places:
            if len(others) <= _MOST_SHARING:
                found.update(_pair(name, other) for other in others if other != name)
    return found


def _sayings(named: Mapping[str, Named]) -> Iterator[tuple[Pair, str]]:
    """Pairs of which one's description names the other: as its subject, or with a cue."""
    by_words: dict[tuple[str, ...], str] = {}
    for name in sorted(named):
        by_words.setdefault(named[name].words.said, name)
    longest = max(map(len, by_words), default=0)

    def named_at(words: Sequence[str]) -> tuple[str, int]:
        """The longest name that the words begin with, and its end; "" if there is none."""
        skipped = next((i for i, word in enumerate(words) if word not in ARTICLES), 0)
        for end in range(min(skipped + longest, len(words)), skipped, -1):
            name = by_words.get(tuple(words[skipped:end]))
            if name is not None:
                return name, end
        return "", 0

    for name in sorted(named):
        for text in named[name].descriptions:
            text = text[:_BEGINNING]
            words = words_of(text)
            found, end = named_at(words)
            if found not in ("", name) and words[end : end + 1] and words[end] in _VERBS:
                yield _pair(name, found), "subject"
            for cue in _SAID_AS.finditer(text):
                words = words_of(cue[1])
                found, end = named_at(words)
                if found not in ("", name) and end == len(words):
                    yield _pair(name, found), "cue"

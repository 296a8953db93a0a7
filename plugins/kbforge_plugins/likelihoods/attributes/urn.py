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
    a retention     of titles, in place of features: so many of the words of v (`Titles`)
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

If other attributes mostly predict this one (`discounts_of`), every base probability is raised to
the power of a discount d: an agreement is worth d times the logarithm of its rarity. The odds of
two groupings depend only on ratios of L.

An `Urn` is the multiset of values with its L. Equal multisets are one object. L depends only on the
multiset, to the last bit, because logs are added as integers of a small unit.

*Rates* are the readable part of a model, read strictly:

    format = 2

    [attributes."birth place"]
    kind = "text"
    concentration = 3.2          # small: records repeat each other's variants
    discount = 0.8               # 1: no other attribute predicts this one's values
    [attributes."birth place".weights]
    copy = 0.81                  # and so on, one number a component; they sum to 1
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from math import exp, fsum, log
from operator import mul
from typing import TypeAlias, cast
from weakref import WeakValueDictionary

from rapidfuzz.distance import OSA

from kbforge.errors import ModelError, quoted
from kbforge.files.records import Record, parse_toml, toml_value
from kbforge.texts.kinds import KINDS, Kind, feature_names
from kbforge_plugins.likelihoods.attributes.vocabulary import RETENTIONS, Vocabulary

COPY, SUBSTITUTION, EDIT, TWO_EDITS = 0, 1, 2, 3
SLIPS = ("copy", "substitution", "edit", "two edits")
NOISE = "noise"
MOST_SLIPS = 2
_LONGEST_COMPARED = 120  # characters of the longest value that can be a slip of another
_LEAST_REST = 1e-12  # base probability beyond rounding errors: other values do have the feature


def component_names(kind: Kind) -> tuple[str, ...]:
    """The mixture's components in order: typos, features, noise."""
    kept = [name for name, *_ in RETENTIONS] if kind == "title" else feature_names(kind)
    return (*SLIPS, *kept, NOISE)


def components(vocabulary: Vocabulary, u: int, v: int) -> list[float]:
    """The probability of value u under each component if the true value is v."""
    out = [0.0] * len(component_names(vocabulary.kind))
    if u == v:
        out[COPY] = 1.0
        return out
    out[-1] = vocabulary.base[u]
    component, probability = slip(vocabulary, u, v)
    out[component] = probability
    if not vocabulary.counted(u):
        return out
    if vocabulary.titles is not None:
        kept = words_kept(vocabulary, u, v)
        out[len(SLIPS) : -1] = [vocabulary.base[u] * share for share in kept]
        return out
    shares = shares_kept(vocabulary, v)
    for name, feature in vocabulary.features[u]:
        out[len(SLIPS) + name] += vocabulary.base[u] * shares.get(feature, 0.0)
    return out


def shares_kept(vocabulary: Vocabulary, v: int, discount: float = 1.0) -> dict[int, float]:
    """For each feature of v: the probability that it is kept, over the discounted mass of other
    values.

    Times base(u) this is the probability of u, a counted value, under the feature's component.
    """
    theirs = vocabulary.features[v]
    several: dict[int, int] = {}
    for name, _ in theirs:
        several[name] = several.get(name, 0) + 1
    own = vocabulary.base[v] if vocabulary.counted(v) else 0.0
    out = {}
    for name, feature in theirs:
        rest = vocabulary.mass[feature] - own
        if rest > _LEAST_REST:
            out[feature] = 1.0 / (rest**discount * several[name])
    return out


def words_kept(vocabulary: Vocabulary, u: int, v: int, discount: float = 1.0) -> tuple[float, ...]:
    """By retention: the probability of u, a counted title, if v is true, over base(u)."""
    assert vocabulary.titles is not None, "the values are not titles"
    theirs = vocabulary.words[v]
    common = vocabulary.words[u] & theirs
    if not common:
        return (0.0,) * len(RETENTIONS)
    rest = vocabulary.titles.mass(common)
    if vocabulary.counted(v):
        rest -= vocabulary.base[v]
    if rest <= _LEAST_REST:
        return (0.0,) * len(RETENTIONS)
    rest **= discount
    return tuple(share / rest for share in vocabulary.titles.kept(common, theirs))


def slips_between(vocabulary: Vocabulary, u: int, v: int) -> int:
    """The smallest number of edits between u and v; all above `MOST_SLIPS` are equal."""
    observed, true = vocabulary.values[u], vocabulary.values[v]
    shorter, longer = sorted((len(observed), len(true)))
    if longer - shorter > MOST_SLIPS or longer > _LONGEST_COMPARED:
        return MOST_SLIPS + 1
    return OSA.distance(observed, true, score_cutoff=MOST_SLIPS)


def slip(vocabulary: Vocabulary, u: int, v: int) -> tuple[int, float]:
    """The edit that turns v into u, and its probability; 0 if there is none.

    A value of n letters over an alphabet of A has n (A - 1) substitutions and n - 1 swaps,
    n deletions and (n + 1) A insertions. In dates and numbers digits replace digits.
    """
    distance = slips_between(vocabulary, u, v)
    observed, true = vocabulary.values[u], vocabulary.values[v]
    n = len(true)
    if distance > MOST_SLIPS or not n or not _writes_the_alphabet(vocabulary, u, v):
        return SUBSTITUTION, 0.0
    letters, alphabet = vocabulary.letters, vocabulary.alphabet
    within = n if _all_letters(vocabulary, v) else sum(letter in letters for letter in true)
    # any letter can replace one that is outside the alphabet, but digits replace only digits
    ways = within * (alphabet - 1) + (0 if vocabulary.numeric else (n - within) * alphabet)
    substitutions = max(ways + n - 1, 1)
    edits = n + (n + 1) * alphabet
    if distance == 2:
        # each of the two may be any; unordered pairs of places make half as many results
        return TWO_EDITS, 1.0 / (substitutions + edits) ** 2
    if len(observed) == n:
        return SUBSTITUTION, 1.0 / substitutions
    return EDIT, 1.0 / edits


def _all_letters(vocabulary: Vocabulary, number: int) -> bool:
    """Whether a value is in the alphabet without a check."""
    return vocabulary.counted(number) and not vocabulary.numeric


def _writes_the_alphabet(vocabulary: Vocabulary, u: int, v: int) -> bool:
    """Whether the new letters of u are in the alphabet; the number of others is unknown."""
    if _all_letters(vocabulary, u):
        return True
    observed, true = Counter(vocabulary.values[u]), Counter(vocabulary.values[v])
    letters = vocabulary.letters
    if not all(letter in letters for letter in observed - true):
        return False
    # a sign that is gone from a date or number was deleted, not replaced
    gone = sum(n for letter, n in (true - observed).items() if letter not in letters)
    return not vocabulary.numeric or gone <= max(true.total() - observed.total(), 0)


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

    def wrong(field: str, expected: str, got: str) -> ModelError:
        return ModelError(f"{where}: {quoted(field)}: expected {expected}, got {got}")

    top = Record(parse_toml(content, where, ModelError), wrong).only("format", "attributes")
    top.version(FORMAT)
    attributes = top.table("attributes", "a table an attribute")
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


_UNITS = float(1 << 36)  # units of a log, in one nat
_SHORT = 8  # factors that are multiplied; gamma functions give the others and lose digits


class Urns:
    """All urns of one attribute; its vocabulary grows with new values.

    Attributes:
        most_true: true values that the sum considers, those seen most often first.
        most_kept: different values of an urn that another keeps for growing into it.
        most_pairs: cached values of G, some 100 MiB of them.

    """

    def __init__(
        self,
        vocabulary: Vocabulary,
        rates: AttributeRates,
        *,
        most_true: int = 48,
        most_kept: int = 64,
        most_pairs: int = 1 << 20,
    ) -> None:
        self.vocabulary = vocabulary
        self.most_true, self.most_kept, self.most_pairs = most_true, most_kept, most_pairs
        self.concentration = rates.concentration
        self.weights = rates.weights()
        self.discount = rates.discount
        self.titles = vocabulary.titles is not None
        self._draws: dict[int, dict[int, float]] = {}
        self._kept: dict[int, dict[int, float]] = {}
        self._remembered = 0
        self._elsewhere_scale = rates.concentration * (1.0 - self.weights[COPY])
        self._log_base: dict[int, float] = {}
        self._elsewhere: dict[int, float] = {}
        self._known: WeakValueDictionary[tuple[tuple[int, ...], tuple[int, ...]], Urn] = (
            WeakValueDictionary()
        )
        self._singles: dict[int, Urn] = {}
        self._log_rising = [0.0]

    def __getstate__(self) -> dict[str, object]:
        """Leave out the shared urns; another process makes its own."""
        return {k: v for k, v in self.__dict__.items() if k not in ("_known", "_singles")}

    def __setstate__(self, state: dict[str, object]) -> None:
        self.__dict__.update(state)
        self._known, self._singles = WeakValueDictionary(), {}

    def urn(self, values: tuple[int, ...], counts: tuple[int, ...]) -> Urn:
        """The urn with these values, ascending, and how often each was seen."""
        key = (values, counts)
        urn = self._known.get(key)
        if urn is None:
            true = self._most_seen(values, counts)
            sums = [self.units_of(values, counts, v) for v in true]
            chance = sum(map(self.chance_units, values, counts))
            urn = self._known[key] = Urn(self, values, counts, true, sums, chance)
        return urn

    def neighbour(self, urn: Urn, u: int, more: int) -> Urn:
        """The urn with one u more (1) or less (-1)."""
        values, counts = urn.values, urn.counts
        at, before = urn.place(u)
        after = before + more
        rest = at + (before > 0)
        if before == 0 or after == 0:
            values = values[:at] + (u,) * after + values[rest:]
        counts = counts[:at] + ((after,) if after else ()) + counts[rest:]
        known = self._known.get((values, counts))
        if known is not None:
            return known
        if more < 0 and len(urn.values) > self.most_true and u in urn.true:
            return self.urn(values, counts)  # any other value may take its place
        true = tuple(v for v in urn.true if v != u or after)
        if after and u not in true:
            at = bisect_left(true, u)
            true = (*true[:at], u, *true[at:])
        if len(true) > self.most_true:
            seen = tuple(after if v == u else urn.place(v)[1] for v in true)
            true = self._most_seen(true, seen)
        old = dict(zip(urn.true, urn.sums, strict=True))
        sums = [
            old[v] + self.units(u, v, after) - self.units(u, v, before)
            if v in old
            else self.units_of(values, counts, v)
            for v in true
        ]
        chance = urn.chance + self.chance_units(u, after) - self.chance_units(u, before)
        made = self._known[values, counts] = Urn(self, values, counts, true, sums, chance)
        return made

    def merged(self, urn: Urn, other: Urn) -> Urn:
        """The urn with the observations of both."""
        if urn.size == 1 or other.size == 1:
            return urn.grown(other.values[0]) if other.size == 1 else other.grown(urn.values[0])
        held = dict(zip(urn.values, urn.counts, strict=True))
        for u, n in zip(other.values, other.counts, strict=True):
            held[u] = held.get(u, 0) + n
        values = tuple(sorted(held))
        counts = tuple(held[u] for u in values)
        known = self._known.get((values, counts))
        if known is not None:
            return known
        true = self._most_seen(values, counts)
        sums = [self._units_merged(urn, other, held, v) for v in true]
        chance = urn.chance
        for u, n in zip(other.values, other.counts, strict=True):
            chance += self.chance_units(u, held[u]) - self.chance_units(u, held[u] - n)
        made = self._known[values, counts] = Urn(self, values, counts, true, sums, chance)
        return made

    def merge_gain(self, urn: Urn, other: Urn) -> float:
        """L of both together minus L of each, in nats; the same in either order."""
        if (urn.size == 1, urn.values, urn.counts) > (other.size == 1, other.values, other.counts):
            urn, other = other, urn
        if other.size == 1:
            return urn.gain(other.values[0]) - other.log_marginal
        return self.merged(urn, other).log_marginal - urn.log_marginal - other.log_marginal

    def _units_merged(self, urn: Urn, other: Urn, held: dict[int, int], v: int) -> int:
        """`units_of` both urns together, from the sums of one."""
        if v not in urn.true:
            urn, other = other, urn
            if v not in urn.true:
                return self.units_of(tuple(held), tuple(held.values()), v)
        out = urn.sums[bisect_left(urn.true, v)]
        for u, n in zip(other.values, other.counts, strict=True):
            before = held[u] - n
            out += self.units(u, v, held[u])
            if before:
                out -= self.units(u, v, before)
        return out

    def units(self, u: int, v: int, n: int) -> int:
        """log [c G(u | v)]_n, in units."""
        return int(_log_rising(self.draw(u, v), n) * _UNITS) if n else 0

    def units_of(self, values: tuple[int, ...], counts: tuple[int, ...], v: int) -> int:
        """log base(v) and the log of all [c G(u | v)]_n, in units."""
        out = int(self.log_base(v) * _UNITS)
        for u, n in zip(values, counts, strict=True):
            out += self.units(u, v, n)
        return out

    def chance_units(self, u: int, n: int) -> int:
        """log [c G(u | elsewhere)]_n, in units."""
        return int(_log_rising(self.draw_elsewhere(u), n) * _UNITS) if n else 0

    def _most_seen(self, values: tuple[int, ...], counts: tuple[int, ...]) -> tuple[int, ...]:
        """The candidates for the true value, independent of their order."""
        if len(values) <= self.most_true:
            return values
        spelled = self.vocabulary.values
        ranked = sorted(zip(counts, values, strict=True), key=lambda x: (-x[0], spelled[x[1]]))
        return tuple(sorted(value for _, value in ranked[: self.most_true]))

    def single(self, value: int) -> Urn:
        """The urn with one observation; it is cached."""
        urn = self._singles.get(value)
        if urn is None:
            urn = self._singles[value] = self.urn((value,), (1,))
        return urn

    def draw(self, u: int, v: int) -> float:
        """c G(u | v)."""
        draws = self._draws.get(v)
        found = None if draws is None else draws.get(u)
        if found is None:
            if self._remembered > self.most_pairs:
                self._remembered = 0
                self._draws.clear()
            self._compare(u, v)
            found = self._draws[v][u]
        return found

    def _compare(self, u: int, v: int) -> None:
        """Cache c G(u | v) and c G(v | u): the weighted sum of `components`, without zeros."""
        vocabulary, weights = self.vocabulary, self.weights
        if u == v:
            self._remember(u, v, weights[COPY])
            return
        u_by_chance, v_by_chance = self.by_words(u, v) if self.titles else self._shared(u, v)
        if not vocabulary.counted(u):
            u_by_chance = weights[-1]
        if not vocabulary.counted(v):
            v_by_chance = weights[-1]
        u_given_v = u_by_chance * vocabulary.base[u] ** self.discount
        v_given_u = v_by_chance * vocabulary.base[v] ** self.discount
        if slips_between(vocabulary, u, v) <= MOST_SLIPS:
            component, probability = slip(vocabulary, u, v)
            u_given_v += weights[component] * probability
            component, probability = slip(vocabulary, v, u)
            v_given_u += weights[component] * probability
        self._remember(u, v, u_given_v)
        self._remember(v, u, v_given_u)

    def _shared(self, u: int, v: int) -> tuple[float, float]:
        """The weight of noise and shared features: of u given v, of v given u."""
        noise = self.weights[-1]
        kept_of_v, kept_of_u = self._shares(v), self._shares(u)
        if len(kept_of_u) < len(kept_of_v):
            shared = [feature for feature in kept_of_u if feature in kept_of_v]
        else:
            shared = [feature for feature in kept_of_v if feature in kept_of_u]
        # exact sums: the order of features and of calls does not change a bit
        return (
            fsum([noise, *[kept_of_v[feature] for feature in shared]]),
            fsum([noise, *[kept_of_u[feature] for feature in shared]]),
        )

    def by_words(self, u: int, v: int) -> tuple[float, float]:
        """The weight of noise and shared words: of u given v, of v given u."""
        weights, vocabulary = self.weights[len(SLIPS) : -1], self.vocabulary
        return (
            self.weights[-1] + sum(map(mul, weights, words_kept(vocabulary, u, v, self.discount))),
            self.weights[-1] + sum(map(mul, weights, words_kept(vocabulary, v, u, self.discount))),
        )

    def _remember(self, u: int, v: int, probability: float) -> None:
        self._remembered += 1
        draws = self._draws.get(v)
        if draws is None:
            draws = self._draws[v] = {}
        draws[u] = self.concentration * probability

    def _shares(self, v: int) -> dict[int, float]:
        """For each feature of v: its share of the mixture, to be multiplied by base(u)."""
        kept = self._kept.get(v)
        if kept is None:
            shares = shares_kept(self.vocabulary, v, self.discount)
            weights = self.weights
            kept = self._kept[v] = {
                feature: shares.get(feature, 0.0) * weights[len(SLIPS) + name]
                for name, feature in self.vocabulary.features[v]
            }
        return kept

    def draw_elsewhere(self, u: int) -> float:
        """c G(u | elsewhere)."""
        found = self._elsewhere.get(u)
        if found is None:
            by_chance = self._elsewhere_scale * self.vocabulary.base[u] ** self.discount
            found = self._elsewhere[u] = max(by_chance, 1e-305)
        return found

    def log_base(self, v: int) -> float:
        """log base(v), in nats."""
        found = self._log_base.get(v)
        if found is None:
            found = self._log_base[v] = self.discount * log(self.vocabulary.base[v])
        return found

    def log_rising(self, n: int) -> float:
        """log [c]_n, in nats."""
        while len(self._log_rising) <= n:
            k = len(self._log_rising) - 1
            self._log_rising.append(self._log_rising[-1] + log(self.concentration + k))
        return self._log_rising[n]


class Urn:
    """A multiset of values of one attribute, ascending, and the gains of joining it.

    `true` are the candidates for the true value; `sums` the log of the term of each, in units and
    without the norm [c]_n; `chance` the same for a true value elsewhere; `log_marginal` L, in nats;
    `gains` caches L(urn + u) - L(urn) by value u.
    """

    __slots__ = (
        "__weakref__",
        "_grown",
        "_urns",
        "chance",
        "counts",
        "gains",
        "log_marginal",
        "size",
        "sums",
        "true",
        "values",
    )

    def __init__(
        self,
        urns: Urns,
        values: tuple[int, ...],
        counts: tuple[int, ...],
        true: tuple[int, ...],
        sums: list[int],
        chance: int,
    ) -> None:
        self._urns, self.values, self.counts = urns, values, counts
        self.true, self.sums, self.chance = true, sums, chance
        self.size = sum(counts)
        self.gains: dict[int, float] = {}
        self._grown: dict[int, Urn] = {}
        terms = [units / _UNITS for units in sums]
        terms.append(chance / _UNITS)
        self.log_marginal = _log_sum_exp(terms) - urns.log_rising(self.size)

    def place(self, u: int) -> tuple[int, int]:
        """The place of u among the values, and how often it was seen."""
        at = bisect_left(self.values, u)
        seen = at < len(self.values) and self.values[at] == u
        return at, self.counts[at] if seen else 0

    def gain(self, u: int) -> float:
        """L(urn + u) - L(urn), in nats."""
        found = self.gains.get(u)
        if found is None:
            found = self.gains[u] = self._gain(u)
        return found

    def _gain(self, u: int) -> float:
        urns, true = self._urns, self.true
        more = self.place(u)[1]
        if len(true) == urns.most_true and u not in true:
            return self.grown(u).log_marginal - self.log_marginal
        draw = urns.draw
        terms = [
            units / _UNITS + log(draw(u, v) + more)
            for units, v in zip(self.sums, true, strict=True)
        ]
        terms.append(self.chance / _UNITS + log(urns.draw_elsewhere(u) + more))
        if not more:
            term = [urns.log_base(u), log(draw(u, u))]
            for v, n in zip(self.values, self.counts, strict=True):
                drawn = draw(v, u)
                term.append(log(drawn) if n == 1 else _log_rising(drawn, n))
            terms.append(fsum(term))
        return _log_sum_exp(terms) - urns.log_rising(self.size + 1) - self.log_marginal

    def grown(self, u: int) -> Urn:
        """The urn with one more observation."""
        found = self._grown.get(u)
        if found is None:
            found = self._urns.neighbour(self, u, 1)
            if len(found.values) <= self._urns.most_kept:
                self._grown[u] = found
        return found

    def shrunk(self, u: int) -> Urn | None:
        """The urn with one u less; None if it becomes empty."""
        return None if self.size == 1 else self._urns.neighbour(self, u, -1)


def _log_rising(a: float, n: int) -> float:
    """log [a]_n = log a + ... + log(a + n - 1)."""
    product = a
    for k in range(1, min(n, _SHORT)):
        product *= a + k
    if n <= _SHORT:
        return log(product)
    return log(product) + (_stirling(a + n) - _stirling(a + _SHORT))


def _stirling(x: float) -> float:
    """Stirling's series of log gamma(x) without log(2 pi) / 2, for x of at least 8 (to 1e-13).

    The compiled kernel takes the same steps, which no C library guarantees for its own lgamma.
    """
    y = 1.0 / (x * x)
    series = 691.0 / 360360.0
    series = 1.0 / 1188.0 - y * series
    series = 1.0 / 1680.0 - y * series
    series = 1.0 / 1260.0 - y * series
    series = 1.0 / 360.0 - y * series
    series = 1.0 / 12.0 - y * series
    return (x - 0.5) * log(x) - x + series / x


def _log_sum_exp(values: list[float]) -> float:
    top = max(values)
    return top + log(fsum([exp(value - top) for value in values]))

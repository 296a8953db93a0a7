"""The urns of the likelihood `attributes` in Python, which the kernel's are held against.

Equal multisets are one object; see `kbforge_plugins.likelihoods.attributes.urn` for the model.
"""

from __future__ import annotations

from bisect import bisect_left
from math import exp, fsum, log
from operator import mul
from weakref import WeakValueDictionary

from kbforge_plugins.likelihoods.attributes.urn import COPY, SLIPS, AttributeRates
from kbforge_plugins.likelihoods.attributes.vocabulary import Vocabulary
from tests.likelihoods.attributes.components import (
    MOST_SLIPS,
    shares_kept,
    slip,
    slips_between,
    words_kept,
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
        self.titles = vocabulary.kind == "title"
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
                for name, feature in self.vocabulary.features(v)
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

"""The marginal probability of one attribute's values in one cluster.

The entity has a true value v, drawn from the base distribution. Its records draw from a Dirichlet
process around G(. | v) with concentration c, so that a variant that has turned up once is likely
to turn up again, which a model with independent errors does not know. Integrated out (Blackwell
and MacQueen 1973), with n_u observations of the different values u, n in all,

    P(x_1..x_n | v) = prod over u of [c G(u|v)]_(n_u) / [c]_n      [a]_k = a (a + 1) ... (a + k - 1)

and summed over the true value. The sum runs over the values seen in the cluster; every other true
value is taken to explain them by chance, G(u | elsewhere) = (1 - copy) base(u):

    L = log( sum over v seen of base(v) P(x | v) + P(x | elsewhere) )

For one observation that is base(x), a distribution over all strings. For n it sums to at most
1 + (1 - copy)^n. As c grows it becomes the hit-miss model with independent errors of Copas and
Hilton (1990) and Steorts (2015); a small c suits attributes of which an entity has several values.

An `Urn` is the multiset of values with its L. Equal multisets are one object, so what was computed
for a cluster serves every other cluster with the same values, and L depends on the multiset alone,
to the last bit.
"""

from __future__ import annotations

from math import exp, lgamma, log
from weakref import WeakValueDictionary

from kbforge_plugins.attributes.distortion import COPY, SLIPS, shares_kept, slip
from kbforge_plugins.attributes.rates import AttributeRates
from kbforge_plugins.attributes.vocabulary import Vocabulary

_MOST_PAIRS = 1 << 20
"""Remembered values of G: some 100 MiB."""
_MOST_VALUES = 48
"""Different true values that the sum considers; those seen most often come first."""


class Urns:
    """All urns of one attribute.

    Args:
        vocabulary: of the attribute; grows with values never seen.
        rates: of the attribute.

    """

    def __init__(self, vocabulary: Vocabulary, rates: AttributeRates) -> None:
        self.vocabulary = vocabulary
        self.concentration = rates.concentration
        self.weights = rates.weights()
        self._draws: dict[int, dict[int, float]] = {}
        self._kept: dict[int, dict[int, float]] = {}
        self._remembered = 0
        self._log_base: list[float] = []
        self._elsewhere: list[float] = []
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
            urn = self._known[key] = Urn(self, values, counts)
        return urn

    def single(self, value: int) -> Urn:
        """The urn with one observation; these are kept, there is one a value."""
        urn = self._singles.get(value)
        if urn is None:
            urn = self._singles[value] = self.urn((value,), (1,))
        return urn

    def draw(self, u: int, v: int) -> float:
        """c G(u | v)."""
        draws = self._draws.get(v)
        found = None if draws is None else draws.get(u)
        if found is None:
            if self._remembered > _MOST_PAIRS:
                self._remembered = 0
                self._draws.clear()
            self._compare(u, v)
            found = self._draws[v][u]
        return found

    def _compare(self, u: int, v: int) -> None:
        """Remember c G(u | v) and c G(v | u): the weighted sum of `components`, without zeros."""
        vocabulary, weights = self.vocabulary, self.weights
        u_by_chance = v_by_chance = weights[-1]
        if u == v:
            self._remember(u, v, weights[COPY] + u_by_chance * vocabulary.base[u])
            return
        kept_of_v, kept_of_u = self._shares(v), self._shares(u)
        if len(kept_of_u) < len(kept_of_v):
            shared = [feature for feature in kept_of_u if feature in kept_of_v]
        else:
            shared = [feature for feature in kept_of_v if feature in kept_of_u]
        for feature in shared:
            u_by_chance += kept_of_v[feature]
            v_by_chance += kept_of_u[feature]
        u_given_v = u_by_chance * vocabulary.base[u]
        v_given_u = v_by_chance * vocabulary.base[v]
        component, probability = slip(vocabulary, u, v)
        if probability:
            u_given_v += weights[component] * probability
            component, probability = slip(vocabulary, v, u)
            v_given_u += weights[component] * probability
        self._remember(u, v, u_given_v)
        self._remember(v, u, v_given_u)

    def _remember(self, u: int, v: int, probability: float) -> None:
        self._remembered += 1
        draws = self._draws.get(v)
        if draws is None:
            draws = self._draws[v] = {}
        draws[u] = self.concentration * probability

    def _shares(self, v: int) -> dict[int, float]:
        """By feature of v: its share of the mixture, to be multiplied by base(u)."""
        kept = self._kept.get(v)
        if kept is None:
            shares, weights = shares_kept(self.vocabulary, v), self.weights
            kept = self._kept[v] = {
                feature: shares.get(feature, 0.0) * weights[len(SLIPS) + name]
                for name, feature in self.vocabulary.features[v]
            }
        return kept

    def draw_elsewhere(self, u: int) -> float:
        """c G(u | elsewhere)."""
        if u >= len(self._elsewhere):
            self._learn_values()
        return self._elsewhere[u]

    def log_base(self, v: int) -> float:
        """Log base probability."""
        if v >= len(self._log_base):
            self._learn_values()
        return self._log_base[v]

    def log_rising(self, n: int) -> float:
        """log [c]_n."""
        while len(self._log_rising) <= n:
            k = len(self._log_rising) - 1
            self._log_rising.append(self._log_rising[-1] + log(self.concentration + k))
        return self._log_rising[n]

    def _learn_values(self) -> None:
        scale = self.concentration * (1.0 - self.weights[COPY])
        for base in self.vocabulary.base[len(self._log_base) :]:
            self._log_base.append(log(base))
            self._elsewhere.append(max(scale * base, 1e-305))


class Urn:
    """A multiset of values of one attribute, and what joining it is worth.

    Attributes:
        log_marginal: L, in nats.
        gains: L(urn + u) - L(urn) by value u, for those asked before.

    """

    __slots__ = (
        "__weakref__",
        "_elsewhere",
        "_grown",
        "_rows",
        "_true",
        "_urns",
        "counts",
        "gains",
        "log_marginal",
        "size",
        "values",
    )

    def __init__(self, urns: Urns, values: tuple[int, ...], counts: tuple[int, ...]) -> None:
        self._urns, self.values, self.counts = urns, values, counts
        self.size = sum(counts)
        self.gains: dict[int, float] = {}
        self._grown: dict[int, Urn] = {}
        self._true = _most_seen(values, counts)
        norm = urns.log_rising(self.size)
        # the log of each term of the sum: true values, then elsewhere
        self._rows = [
            urns.log_base(v)
            - norm
            + sum(_log_rising(urns.draw(u, v), n) for u, n in zip(values, counts, strict=True))
            for v in self._true
        ]
        self._elsewhere = (
            sum(_log_rising(urns.draw_elsewhere(u), n) for u, n in zip(values, counts, strict=True))
            - norm
        )
        self.log_marginal = _log_sum_exp([*self._rows, self._elsewhere])

    def gain(self, u: int) -> float:
        """L(urn + u) - L(urn), in nats."""
        found = self.gains.get(u)
        if found is None:
            found = self.gains[u] = self._gain(u)
        return found

    def _gain(self, u: int) -> float:
        urns, true = self._urns, self._true
        more = 0 if u not in self.values else self.counts[self.values.index(u)]
        if not more and len(true) == _MOST_VALUES:
            return self.grown(u).log_marginal - self.log_marginal
        draw = urns.draw
        rows = [row + log(draw(u, v) + more) for row, v in zip(self._rows, true, strict=True)]
        rows.append(self._elsewhere + log(urns.draw_elsewhere(u) + more))
        if not more:
            row = urns.log_base(u) + log(draw(u, u)) - urns.log_rising(self.size)
            for v, n in zip(self.values, self.counts, strict=True):
                drawn = draw(v, u)
                row += log(drawn) if n == 1 else lgamma(drawn + n) - lgamma(drawn)
            rows.append(row)
        norm = log(urns.concentration + self.size)
        return _log_sum_exp(rows) - norm - self.log_marginal

    def grown(self, u: int) -> Urn:
        """The urn with one more observation."""
        found = self._grown.get(u)
        if found is None:
            values, counts = self.values, self.counts
            at = 0
            while at < len(values) and values[at] < u:
                at += 1
            if at < len(values) and values[at] == u:
                counts = (*counts[:at], counts[at] + 1, *counts[at + 1 :])
            else:
                values = (*values[:at], u, *values[at:])
                counts = (*counts[:at], 1, *counts[at:])
            found = self._grown[u] = self._urns.urn(values, counts)
        return found

    def shrunk(self, u: int) -> Urn | None:
        """The urn with one observation of u less; None if it was the last of all."""
        if self.size == 1:
            return None
        at = self.values.index(u)
        values, counts = self.values, self.counts
        if counts[at] > 1:
            counts = (*counts[:at], counts[at] - 1, *counts[at + 1 :])
        else:
            values, counts = values[:at] + values[at + 1 :], counts[:at] + counts[at + 1 :]
        return self._urns.urn(values, counts)


def _most_seen(values: tuple[int, ...], counts: tuple[int, ...]) -> tuple[int, ...]:
    """The values that may be the true one."""
    if len(values) <= _MOST_VALUES:
        return values
    ranked = sorted(zip(counts, values, strict=True), key=lambda pair: (-pair[0], pair[1]))
    return tuple(sorted(value for _, value in ranked[:_MOST_VALUES]))


def _log_rising(a: float, n: int) -> float:
    """log [a]_n = log a + ... + log(a + n - 1)."""
    return log(a) if n == 1 else lgamma(a + n) - lgamma(a)


def _log_sum_exp(values: list[float]) -> float:
    top = max(values)
    total = 0.0
    for value in values:
        total += exp(value - top)
    return top + log(total)

"""Example fragments, entities and likelihoods for contract tests.

`Categorical` is a Dirichlet-multinomial over one attribute with K known values. For a cluster of n
fragments, n_v of which have value v,

    L(C) = lgamma(K beta) - lgamma(K beta + n) + sum over v of [lgamma(beta + n_v) - lgamma(beta)]
    L(C + x) - L(C) = log((beta + n_x) / (K beta + n))
"""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import numpy as np

from kbforge.contracts import (
    Alternative,
    ConjugateLikelihood,
    Entity,
    FloatArray,
    Fragment,
    IntArray,
    Likelihood,
    LiveClusters,
    Value,
)

_PEOPLE = (
    ("Ada Lovelace", "mathematician", "1815", "red"),
    ("Alan Turing", "logician", "1912", "green"),
    ("Grace Hopper", "officer", "1906", "blue"),
)

HOSTILE_VALUES = (
    "say \"hello\", twice; and 'again'",
    "back\\slash and a trailing one\\",
    "line\nbreak\r\nand\ttab",
    "<b>&amp;</b> ]]> --> {{x}} [link](http://a)",
    "=1+1",
    "\u200eright\u2028separator\u0085next\x0b\x0c",
    "Zoë \U0001f9ed 北京 e\u0301",
    "  spaces around  ",
    "| a | table |",
    "#",
    "\u202egnp.exe\u202c \u0634\u0639\u0631",
)


def fragments(n: int = 12) -> list[Fragment]:
    """`n` labelled fragments of three people with names, properties, colours and 2-d vectors."""
    rng = random.Random(20)
    return [_fragment(i, rng) for i in range(n)]


def _fragment(i: int, rng: random.Random) -> Fragment:
    number = rng.randrange(len(_PEOPLE))
    name, occupation, born, colour = _PEOPLE[number]
    first, last = name.split()
    surface = rng.choice([name, f"{first[0]}. {last}", last, name.upper()])
    properties: dict[str, tuple[str, ...]] = {
        "name": (surface,),
        "colour": (colour if rng.random() < 0.9 else "black",),
    }
    if rng.random() < 0.7:
        properties["occupation"] = (occupation, "pioneer")
    if rng.random() < 0.5:
        properties["born"] = (born,)
    vector = (10.0 * number + rng.gauss(0, 1), -5.0 * number + rng.gauss(0, 2))
    return Fragment(
        id=f"f{i}",
        properties=properties,
        vector=vector,
        label=f"person-{number}",
        source=f"book-{i % 3}",
        metadata={"page": i},
    )


def hostile() -> list[Fragment]:
    """A fragment with each of the hostile values, also as the name of an attribute."""
    return [
        Fragment(f"h{i}", {value: (value, "plain"), "name": (value,)})
        for i, value in enumerate(HOSTILE_VALUES)
    ]


def without_gold(items: Sequence[Fragment]) -> list[Fragment]:
    """The same observations, with all fields cleared that a model may not read."""
    return [replace(item, label=None, source=None, metadata=None) for item in items]


def apart(items: Sequence[Fragment]) -> Iterator[tuple[list[Fragment], Fragment]]:
    """Clusters, and a fragment of each that shares no attribute with any of theirs.

    None has a vector; the fragment has other attributes of the same, or unknown ones.
    """
    rng = random.Random(7)
    names = sorted({name for item in items for name in item.properties})
    for size in (1, 1, 2, 3, len(items)) * 4:
        cut = rng.randrange(len(names) + 1)
        mine = {*rng.sample(names, cut)}
        x = rng.choice(items)
        said = {name: values for name, values in x.properties.items() if name in mine}
        if not said or rng.random() < 0.3:
            # "names" also reads what is called like a name
            said = {f"strange {n}": values for n, values in enumerate(x.properties.values())}
            mine = set()
        others = [
            replace(item, vector=None, properties=left)
            for item in rng.sample(list(items), min(size, len(items)))
            if (left := {name: of for name, of in item.properties.items() if name not in mine})
        ]
        if others and said:
            yield others, replace(x, vector=None, properties=said)


def entities() -> list[Entity]:
    """Entities whose values try to break out of any file format."""
    hostile = [_entity(f"E{i}", f"Name {i}", value) for i, value in enumerate(HOSTILE_VALUES)]
    plain = Entity(
        id="E-plain",
        name="Ada Lovelace",
        properties={
            "name": (Value("Ada Lovelace", ("f1", "f2")), Value("A. Lovelace", ("f3",))),
            "occupation": (Value("mathematician", ("f1",)),),
        },
        fragments=("f1", "f2", "f3"),
        confidence=0.75,
        subproblem=3,
        alternatives=(Alternative(0.25, (("f1",), ("f2", "f3"))),),
    )
    vector = Entity("E-vector", "p1", {}, ("p1",), 0.875, 4, vector=(0.5, -2.0), reported=1.0)
    return [plain, *hostile, vector]


def _entity(entity_id: str, name: str, value: str) -> Entity:
    fragment = f"from {value}"
    values = (Value(value, (fragment,)),)
    return Entity(entity_id, name, {"note": values, value: values}, (fragment,), 1.0, 0)


class Categorical(ConjugateLikelihood):
    """Fragments of an entity tend to share the first value of one attribute.

    There are K = `values` known values; `beta` > 0 is the Dirichlet prior's concentration on each.
    """

    def __init__(self, attribute: str = "colour", values: int = 4, beta: float = 0.2) -> None:
        self.attribute, self.values, self.beta = attribute, values, beta

    def log_marginal(self, clusters: Sequence[Sequence[Fragment]]) -> FloatArray:
        return np.array([self._log_marginal(cluster) for cluster in clusters], dtype=np.float64)

    def live_clusters(self) -> LiveClusters:
        return _CountTable(lambda fragment: fragment.properties[self.attribute][0], self._gain)

    def _log_marginal(self, cluster: Sequence[Fragment]) -> float:
        total, beta = self.values * self.beta, self.beta
        counts = Counter(f.properties[self.attribute][0] for f in cluster)
        gains = sum(math.lgamma(beta + n) - math.lgamma(beta) for n in sorted(counts.values()))
        return math.lgamma(total) - math.lgamma(total + len(cluster)) + gains

    def _gain(self, x: str, counts: Counter[str]) -> float:
        return math.log((self.beta + counts[x]) / (self.values * self.beta + counts.total()))


class _CountTable(LiveClusters):
    """Counts of what is read of fragments, and what one more gains a cluster with these counts."""

    def __init__(
        self, read: Callable[[Fragment], str], gain: Callable[[str, Counter[str]], float]
    ) -> None:
        self._read, self._gain = read, gain
        self._counts: dict[int, Counter[str]] = {}

    def encode(self, fragment: Fragment) -> str:
        return self._read(fragment)

    def log_predictive(self, x: str, slots: int) -> FloatArray:
        return np.array([self._gain(x, self._counts.get(slot, Counter())) for slot in range(slots)])

    def log_predictive_new(self, x: str) -> float:
        return self._gain(x, Counter())

    def extend(self, x: str, parents: IntArray, children: IntArray) -> None:
        for parent, child in zip(parents.tolist(), children.tolist(), strict=True):
            known = self._counts[parent] if parent >= 0 else Counter[str]()
            self._counts[child] = known + Counter([x])

    def release(self, slots: IntArray) -> None:
        for slot in slots.tolist():
            del self._counts[slot]


class UniformLikelihood(ConjugateLikelihood):
    """Every grouping is equally likely: L(C) = `per_fragment` |C|. Only the prior decides."""

    def __init__(self, per_fragment: float = 0.0) -> None:
        self.per_fragment = per_fragment

    def log_marginal(self, clusters: Sequence[Sequence[Fragment]]) -> FloatArray:
        return self.per_fragment * np.array([len(cluster) for cluster in clusters], np.float64)

    def live_clusters(self) -> LiveClusters:
        return _CountTable(lambda fragment: "", lambda x, counts: self.per_fragment)


class BlackBox(Likelihood):
    """A likelihood without its sufficient statistics, like a neural one."""

    def __init__(self, likelihood: Likelihood) -> None:
        self._likelihood = likelihood

    def log_marginal(self, clusters: Sequence[Sequence[Fragment]]) -> FloatArray:
        return self._likelihood.log_marginal(clusters)

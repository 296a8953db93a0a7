"""Small exact likelihoods for clustering tests, with nothing in them to get wrong.

`Chain` models one point a fragment by a chain of posterior predictives. Its live table calls the
same function for every slot, so that the kernel and the oracle see the same bits.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from kbforge.clustering.session import SmcSession
from kbforge.contracts import (
    CandidateIndex,
    Checkpoint,
    ConjugateLikelihood,
    FloatArray,
    Fragment,
    IntArray,
    KeyFamilies,
    Likelihood,
    LiveClusters,
    ModelSpec,
    Pages,
    SubproblemData,
    Totals,
)
from kbforge_plugins.clusterers.sequential import Smc, SplitSmc

Point = tuple[float, ...]
Predictive = Callable[[Sequence[Point], Point], float]


SEEDS = range(6)
ALPHA = 0.01


def bridging_stream(seed: int) -> list[Point]:
    """Loose groups at the corners of a simplex, then points between two, three and four of them.

    The groups have one random shape, turned to each corner, so that a point in the middle of
    some is equally far from each and connects them; they are loose enough to keep several
    particles each. Further points at the corners make the connection implausible again.
    """
    rng = np.random.default_rng(seed)
    corners = np.eye(4)
    shape = 0.7 * rng.normal(size=(3, 2))
    inside = [
        (5 + along) * corners[i] + across / 2 * (1 - corners[i])
        for along, across in shape
        for i in rng.permutation(4)
    ]
    between = [5 * corners[:k].mean(axis=0) for k in (4, 3, 2)]
    again = [(5 + 0.3 * along) * c for along in rng.normal(size=2) for c in corners]
    points = [*inside, *between, *again, between[1], between[0]]
    return [tuple((p + 0.03 * rng.normal(size=4)).tolist()) for p in points]


POINTS: list[Point] = [(0.0,), (0.1,), (5.0,), (5.1,), (9.0,)]


def fragments_of(points: Sequence[Point]) -> list[Fragment]:
    return [Fragment(f"f{i}", {}, point) for i, point in enumerate(points)]


def opened(
    spec: ModelSpec, particles: int, items: Sequence[Fragment] = (), splits: bool = True
) -> SmcSession:
    """A session of split or plain SMC that has taken in these."""
    clusterer = SplitSmc(particles=particles) if splits else Smc(particles=particles)
    session = clusterer.open(spec, np.random.default_rng(0))
    assert isinstance(session, SmcSession)
    session.add(items)
    return session


def normal(spread: float = 1.0, prior_spread: float = 10.0) -> Predictive:
    """Known variance, normal prior on the mean, independent dimensions."""

    def predictive(members: Sequence[Point], x: Point) -> float:
        precision = 1 / prior_spread**2 + len(members) / spread**2
        variance = 1 / precision + spread**2
        out = 0.0
        for d, value in enumerate(x):
            mean = sum(m[d] for m in members) / spread**2 / precision
            out -= 0.5 * (math.log(2 * math.pi * variance) + (value - mean) ** 2 / variance)
        return out

    return predictive


def categories(kinds: int = 3, concentration: float = 0.7) -> Predictive:
    """Dirichlet-categorical on the first coordinate."""

    def predictive(members: Sequence[Point], x: Point) -> float:
        same = sum(m[0] == x[0] for m in members)
        return math.log((same + concentration) / (len(members) + kinds * concentration))

    return predictive


class Chain(ConjugateLikelihood):
    """A conjugate likelihood from a posterior predictive."""

    def __init__(self, predictive: Predictive) -> None:
        self.predictive = predictive

    def log_marginal(self, clusters: Sequence[Sequence[Fragment]]) -> FloatArray:
        out = []
        for cluster in clusters:
            values = [fragment.vector for fragment in cluster if fragment.vector]
            out.append(sum(self.predictive(values[:i], value) for i, value in enumerate(values)))
        return np.array(out)

    def live_clusters(self) -> ChainTable:
        return ChainTable(self.predictive)


@dataclass
class Keys(CandidateIndex):
    """An index of which the keys are the fragment's `key` values."""

    families: int = 10**9
    shared: int = 1

    def keys(self, fragment: Fragment) -> Sequence[int]:
        return [int(value) for value in fragment.properties.get("key", ())]


class BlackBox(Likelihood):
    """The same likelihood with its sufficient statistics hidden, counting its calls."""

    def __init__(self, predictive: Predictive) -> None:
        self._inner = Chain(predictive)
        self.asked: list[int] = []

    def log_marginal(self, clusters: Sequence[Sequence[Fragment]]) -> FloatArray:
        self.asked.append(len(clusters))
        return self._inner.log_marginal(clusters)


class Rule(Likelihood):
    """A black box from a rule on the ids of a set."""

    def __init__(self, rule: Callable[[set[str]], float]) -> None:
        self._rule = rule

    def log_marginal(self, clusters: Sequence[Sequence[Fragment]]) -> FloatArray:
        return np.array([self._rule({f.id for f in cluster}) for cluster in clusters])


class ChainTable(LiveClusters):
    """Members by slot, and a loop."""

    def __init__(self, predictive: Predictive) -> None:
        self._predictive = predictive
        self._members: dict[int, list[Point]] = {}

    def encode(self, fragment: Fragment) -> Any:
        assert fragment.vector is not None
        return fragment.vector

    def log_predictive(self, x: Any, slots: int) -> FloatArray:
        out = np.zeros(slots)
        for slot, members in self._members.items():
            if slot < slots:
                out[slot] = self._predictive(members, x)
        return out

    def log_predictive_new(self, x: Any) -> float:
        return self._predictive([], x)

    def extend(self, x: Any, parents: IntArray, children: IntArray) -> None:
        made = {
            child: [*self._members.get(parent, []), x]
            for parent, child in zip(parents.tolist(), children.tolist(), strict=True)
        }
        assert not set(made) & set(self._members), "a child took a live slot"
        self._members.update(made)

    def release(self, slots: IntArray) -> None:
        for slot in slots.tolist():
            del self._members[slot]


class MemoryPages(Pages):
    """The pages of the last checkpoint that was written, in memory.

    The first checkpoint has everything; `fragments` are all of the session's, by number, and
    `fetched` names the pages that were asked for, in order.
    """

    def __init__(self, first: Checkpoint, fragments: Mapping[int, Fragment]) -> None:
        self.fetched: list[int] = []
        self._pages: dict[int, SubproblemData] = {}
        self._fragments: dict[int, Fragment] = {}
        self._homes: dict[int, int] = {}
        self._led: dict[int, KeyFamilies] = {}
        self.write(first, fragments)

    def write(self, checkpoint: Checkpoint, fragments: Mapping[int, Fragment]) -> None:
        """Take up a checkpoint of a session with these pages.

        `fragments` are by number; those of the checkpoint's pages at least.
        """
        self._totals = checkpoint.totals
        for name in checkpoint.gone:
            del self._pages[name]
        self._pages |= {page.name: page for page in checkpoint.pages}
        for key, postings in checkpoint.postings.items():
            if postings.families or postings.closed:
                self._led[key] = postings
            else:
                self._led.pop(key, None)
        self._homes = {
            number: page.name for page in self._pages.values() for number in page.members.tolist()
        }
        known = self._fragments | dict(fragments)
        self._fragments = {number: known[number] for number in self._homes}

    @property
    def totals(self) -> Totals:
        return self._totals

    def pages(self, names: Sequence[int]) -> list[SubproblemData]:
        self.fetched += names
        return [self._pages[name] for name in names]

    def names(self) -> Sequence[int]:
        return sorted(self._pages)

    def fragments(self, numbers: Sequence[int]) -> Mapping[int, Fragment]:
        return {n: self._fragments[n] for n in numbers if n in self._fragments}

    def numbers(self, ids: Sequence[str]) -> Mapping[str, int]:
        return {x.id: n for n, x in self._fragments.items() if x.id in ids}

    def homes(self, numbers: Sequence[int]) -> Mapping[int, int]:
        return {n: self._homes[n] for n in numbers if n in self._homes}

    def postings(self, keys: Sequence[int]) -> Mapping[int, KeyFamilies]:
        return {key: self._led[key] for key in keys if key in self._led}

    def keys(self) -> Sequence[int]:
        return sorted(self._led)


class SetTable(LiveClusters):
    """Members by slot, of any likelihood: what joins is L of the sets with it and without."""

    def __init__(self, likelihood: Likelihood) -> None:
        self.likelihood = likelihood
        self._members: dict[int, list[Fragment]] = {}

    def encode(self, fragment: Fragment) -> Fragment:
        self.log_predictive_new(fragment)  # which refuses what cannot be read
        return fragment

    def log_predictive(self, x: Fragment, slots: int) -> FloatArray:
        out = np.zeros(slots)
        live = [slot for slot in self._members if slot < slots]
        out[live] = self.log_predictive_of(x, np.array(live, dtype=np.int64))
        return out

    def log_predictive_of(self, x: Fragment, slots: IntArray) -> FloatArray:
        held = [self._members[slot] for slot in slots.tolist()]
        scores = self.likelihood.log_marginal([*([*some, x] for some in held), *held])
        return scores[: len(held)] - scores[len(held) :]

    def log_predictive_new(self, x: Fragment) -> float:
        return float(self.likelihood.log_marginal([[x]])[0])

    def extend(self, x: Fragment, parents: IntArray, children: IntArray) -> None:
        self._members |= {
            child: [*self._members.get(parent, []), x]
            for parent, child in zip(parents.tolist(), children.tolist(), strict=True)
        }

    def release(self, slots: IntArray) -> None:
        for slot in slots.tolist():
            del self._members[slot]

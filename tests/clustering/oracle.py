"""The algorithm written slowly: dictionaries of groupings, no arrays, no cuts before their time.

Written from the description of the algorithm alone, phase by phase, to be read beside it. It also
keeps a log of what happened, so that a test can assert that it saw what it was built to see.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from tests.clustering.toys import Point, Predictive

Group = tuple[int, ...]
Grouping = frozenset[Group]


def partitions(items: Sequence[int]) -> Iterator[Grouping]:
    """All partitions of the items."""
    if not items:
        yield frozenset()
        return
    *rest, last = items
    for partition in partitions(rest):
        yield partition | {(last,)}
        for group in partition:
            yield (partition - {group}) | {(*group, last)}


class Target:
    """The unnormalised posterior of groupings of some points."""

    def __init__(self, values: Sequence[Point], predictive: Predictive, alpha: float) -> None:
        self.values = values
        self.predictive = predictive
        self.log_alpha = math.log(alpha)
        self._scores: dict[Group, float] = {(): 0.0}

    def gain(self, group: Group, x: int) -> float:
        """L(C + x) - L(C)."""
        return self.predictive([self.values[i] for i in group], self.values[x])

    def score(self, group: Group) -> float:
        """L(C), by the chain of predictives."""
        if group not in self._scores:
            self._scores[group] = self.score(group[:-1]) + self.gain(group[:-1], group[-1])
        return self._scores[group]

    def log_posterior(self, grouping: Grouping) -> float:
        return sum(
            self.log_alpha + math.lgamma(len(group)) + self.score(group)
            for group in sorted(grouping)
        )

    def exact(self, n: int) -> dict[Grouping, float]:
        """The posterior by enumeration, normalised log weights."""
        weights = {z: self.log_posterior(z) for z in partitions(range(n))}
        total = log_sum_exp(weights.values())
        return {z: w - total for z, w in weights.items()}


def log_sum_exp(values: object) -> float:
    listed = list(values)  # type: ignore[call-overload]
    top = max(listed)
    return top + math.log(math.fsum(math.exp(v - top) for v in listed))


@dataclass
class Putative:
    value: float
    subproblem: int
    row: int
    group: Group | None  # the cluster that takes x; None: a new one


@dataclass
class SlowSmc:
    """Split SMC (or plain) with greedy resampling."""

    target: Target
    particles: int
    splits: bool = True
    sampled_merges: bool = False
    marginal_weights: bool = False
    surrogate: Target | None = None
    max_evals: int | None = None
    rng: np.random.Generator = field(default_factory=lambda: np.random.default_rng(0))
    # a subproblem, by its smallest fragment: (log weight, grouping), heaviest first
    subproblems: dict[int, list[tuple[float, Grouping]]] = field(default_factory=dict)
    merges: list[int] = field(default_factory=list)
    sampled: int = 0
    splittings: int = 0
    #: (particles before the split, their log weights; the parts) of every split
    before_and_after: list[
        tuple[list[tuple[float, Grouping]], list[list[tuple[float, Grouping]]]]
    ] = field(default_factory=list)

    def step(self, x: int) -> None:
        if not self.subproblems:
            self.subproblems[x] = [(0.0, frozenset({(x,)}))]
            return
        pool = self._pool(x)
        pool = pool[: self.particles]
        pool = self._discard(pool)
        if self.splits and all(p.group is None for p in pool):
            self.subproblems[x] = [(0.0, frozenset({(x,)}))]
            return
        names = sorted({p.subproblem for p in pool})
        joint = self._joint(names, pool)
        total = log_sum_exp(w for w, _, _ in joint)
        merged = [(w - total, self._with_x(names, p, rows, x)) for w, p, rows in joint]
        for name in names:
            del self.subproblems[name]
        for part in self._split(merged) if self.splits else [merged]:
            smallest = min(min(group) for group in part[0][1])
            self.subproblems[smallest] = part

    def _pool(self, x: int) -> list[Putative]:
        proposer = self.surrogate or self.target
        joins = [
            Putative(w + math.log(len(group)) + proposer.gain(group, x), name, row, group)
            for name, particles in sorted(self.subproblems.items())
            for row, (w, grouping) in enumerate(particles)
            for group in sorted(grouping)
        ]
        joins.sort(key=lambda p: -p.value)
        if self.surrogate is not None:
            joins = joins[: self.max_evals]
            joins.sort(key=lambda p: (p.subproblem, p.row, p.group))
            for p in joins:
                assert p.group is not None
                w = self.subproblems[p.subproblem][p.row][0]
                p.value = w + math.log(len(p.group)) + self.target.gain(p.group, x)
        host = max(joins, key=lambda p: p.value).subproblem
        alone = self.target.log_alpha + self.target.gain((), x)
        singles = [
            Putative(w + alone, host, row, None)
            for row, (w, _) in enumerate(self.subproblems[host])
        ]
        return sorted(joins + singles, key=lambda p: -p.value)

    def _discard(self, pool: list[Putative]) -> list[Putative]:
        total = log_sum_exp(p.value for p in pool)
        mass: dict[int, float] = {}
        for p in pool:
            mass[p.subproblem] = mass.get(p.subproblem, 0.0) + math.exp(p.value - total)
        heaviest = max(sorted(mass), key=lambda name: mass[name])
        return [
            p for p in pool if mass[p.subproblem] >= 1 / self.particles or p.subproblem == heaviest
        ]

    def _joint(
        self, names: list[int], pool: list[Putative]
    ) -> list[tuple[float, Putative, tuple[int, ...]]]:
        """(weight, putative particle, row of each subproblem), heaviest first, at most P."""
        if len(names) == 1:
            return [(p.value, p, (p.row,)) for p in pool]
        self.merges.append(len(names))
        several = sum(len(self.subproblems[name]) > 1 for name in names)
        if self.sampled_merges and several > 2:
            return self._sampled_joint(names, pool)
        combinations = [(p.value, p, rows) for p in pool for rows in self._rows(names, p)]
        weighed = [
            (
                sum(
                    p.value if name == p.subproblem else self.subproblems[name][row][0]
                    for name, row in zip(names, rows, strict=True)
                ),
                p,
                rows,
            )
            for _, p, rows in combinations
        ]
        weighed.sort(key=lambda c: -c[0])
        return weighed[: self.particles]

    def _rows(self, names: list[int], p: Putative) -> Iterator[tuple[int, ...]]:
        def choose(rest: list[int]) -> Iterator[tuple[int, ...]]:
            if not rest:
                yield ()
                return
            ranks = [p.row] if rest[0] == p.subproblem else range(len(self.subproblems[rest[0]]))
            for rank in ranks:
                for others in choose(rest[1:]):
                    yield (rank, *others)

        yield from choose(names)

    def _sampled_joint(
        self, names: list[int], pool: list[Putative]
    ) -> list[tuple[float, Putative, tuple[int, ...]]]:
        self.sampled += 1
        chosen = self._draw([p.value for p in pool])
        old = [self._draw([w for w, _ in self.subproblems[name]]) for name in names]
        counts: dict[tuple[int, tuple[int, ...]], int] = {}
        for k, drawn in enumerate(chosen):
            rows = tuple(
                pool[drawn].row if name == pool[drawn].subproblem else old[j][k]
                for j, name in enumerate(names)
            )
            counts[drawn, rows] = counts.get((drawn, rows), 0) + 1
        listed = sorted(counts.items())
        listed.sort(key=lambda item: -item[1])
        return [
            (math.log(count / self.particles), pool[drawn], rows) for (drawn, rows), count in listed
        ]

    def _draw(self, log_weights: list[float]) -> list[int]:
        weights = [math.exp(w) for w in log_weights]
        total = sum(weights)
        out = []
        for u in self.rng.random(self.particles):
            rest = u * total
            drawn = 0
            while drawn < len(weights) - 1 and rest >= weights[drawn]:
                rest -= weights[drawn]
                drawn += 1
            out.append(drawn)
        return out

    def _with_x(self, names: list[int], p: Putative, rows: tuple[int, ...], x: int) -> Grouping:
        old = frozenset().union(
            *(self.subproblems[name][row][1] for name, row in zip(names, rows, strict=True))
        )
        if p.group is None:
            return old | {(x,)}
        return (old - {p.group}) | {(*p.group, x)}

    def _split(self, particles: list[tuple[float, Grouping]]) -> list[list[tuple[float, Grouping]]]:
        blocks: list[set[int]] = []
        for _, grouping in particles:
            for group in grouping:
                touching = [b for b in blocks if b & set(group)]
                blocks = [b for b in blocks if b not in touching]
                blocks.append(set(group).union(*touching))
        blocks.sort(key=min)
        if len(blocks) == 1:
            return [particles]
        self.splittings += 1
        parts = [self._part(particles, block) for block in blocks]
        self.before_and_after.append((particles, parts))
        return parts

    def _part(
        self, particles: list[tuple[float, Grouping]], block: set[int]
    ) -> list[tuple[float, Grouping]]:
        mass: dict[Grouping, float] = {}
        for w, grouping in particles:
            partial = frozenset(group for group in grouping if group[0] in block)
            mass[partial] = mass.get(partial, 0.0) + math.exp(w)
        weight = {
            partial: math.log(m) if self.marginal_weights else self.target.log_posterior(partial)
            for partial, m in mass.items()
        }
        total = log_sum_exp(weight.values())
        out = [(w - total, partial) for partial, w in weight.items()]
        out.sort(key=lambda item: -item[0])
        return out

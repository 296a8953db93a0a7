"""A step of (split) sequential Monte Carlo clustering, written to be read.

The kernel (`kbforge/kernel/src`) takes these steps in flat arrays, on several threads, and leaves
out early what cannot win; it is held against this module bit for bit. Here a cluster is a tuple of
fragments, a particle a tuple of clusters, a subproblem a list of weighted particles, and nothing is
left out before its time. Symbols are those of `kbforge.clustering.rules`.

The phases of a step: look up, propose, resample, discard, merge, grow, split (split-SMC paper,
section 3 and appendix C.1).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np

from kbforge.clustering.rules import FATES, DirichletProcess, InfeasibleFragment, Rules, draw
from kbforge.contracts import ConjugateLikelihood, Constraints, Fragment, ModelSpec, StepResult
from kbforge.contracts.serializer import content_key
from kbforge.errors import LikelihoodError
from kbforge.numerics import GRID, normalised, on_grid, rounded

Group: TypeAlias = tuple[int, ...]
"""A cluster: its fragments, ascending."""
Row: TypeAlias = tuple[Group, ...]
"""A particle: its clusters, by smallest fragment."""
Particles: TypeAlias = list[tuple[float, Row]]
"""A subproblem: normalised log weights and particles, heaviest first."""
Joint: TypeAlias = list[tuple[float, int, tuple[int, ...]]]
"""Log weight, place of the putative particle in the pool, rank of each subproblem's particle."""

NEVER = -math.inf


@dataclass(frozen=True)
class Putative:
    """A particle with the new fragment in one of its clusters, or (None) in one of its own."""

    value: float
    name: int  # of the subproblem
    rank: int  # of the particle
    group: Group | None

    @property
    def order(self) -> tuple[float, bool, int, int, Group]:
        """Heaviest first, then by subproblem, particle and cluster; singletons last."""
        return -self.value, self.group is None, self.name, self.rank, self.group or ()


class Oracle:
    """A clustering of fragments that come one after another.

    Attributes:
        subproblems: by smallest fragment.
        evaluations: clusters made, or, of a black box, distinct sets scored.
    """

    def __init__(self, spec: ModelSpec, rules: Rules, rng: np.random.Generator) -> None:
        self.rules, self.rng = rules.settled(spec.index is not None), rng
        self.prior, self.index = DirichletProcess.of(spec), spec.index
        self.fragments: list[Fragment] = []
        self.subproblems: dict[int, Particles] = {}
        self.evaluations = 0
        self.effective = 0.0  # log10 of the number of particles
        self.score: dict[Group, float] = {}  # L of each cluster that is held
        self.keys = Keys()
        self.limits = Limits(spec.constraints)
        conjugate = spec.surrogate
        if conjugate is None and isinstance(spec.likelihood, ConjugateLikelihood):
            conjugate = spec.likelihood
        self.table = None if conjugate is None else Table(conjugate)
        self.black_box = None if conjugate is spec.likelihood else spec.likelihood
        self.max_evals = spec.max_evals
        self.asked: set[tuple[bytes, ...]] = set()

    # -- the step -----------------------------------------------------------------------------

    def add(self, x: Fragment) -> StepResult:
        """Take in a fragment; if anything is raised, nothing has changed but random numbers."""
        number = len(self.fragments)
        self.fragments.append(x)
        try:
            return self._step(number)
        except BaseException:
            self.fragments.pop()
            raise

    def _step(self, x: int) -> StepResult:
        keys = list(self.index.keys(self.fragments[x])) if self.index else []
        looked_up, closing = self._look_up(keys)
        near, must_join = self.limits.bound(self.fragments, x, self._held(), looked_up)
        joins, alone, made = self._propose(x, near)
        if math.isnan(alone) or alone == math.inf:
            raise LikelihoodError(f"the likelihood of the fragment alone is {alone}")
        if must_join:
            if not joins:
                raise InfeasibleFragment
            alone = NEVER
        pool = self._pool(joins, alone)
        names = sorted({one.name for one in pool})
        if (self.rules.splits and all(one.group is None for one in pool)) or not self.subproblems:
            if alone == NEVER:
                raise LikelihoodError("the fragment has no finite assignment")
            names, blocks = [], {x: [(0.0, ((x,),))]}
            made = {(x,): alone}
        else:
            grown = self._grow(x, names, pool, self._merge(names, pool))
            kept = {group for _, row in grown for group in row}
            made = {group: score for group, score in made.items() if group in kept}
            blocks = {names[0]: grown}
            if self.rules.splits:
                blocks = self._split(grown, made)
        return self._commit(x, names, blocks, made, keys, closing)

    def _held(self) -> list[Group]:
        """All clusters."""
        held = (row for particles in self.subproblems.values() for _, row in particles)
        return list(dict.fromkeys(group for row in held for group in row))

    # -- look up ------------------------------------------------------------------------------

    def _look_up(self, keys: Sequence[int]) -> tuple[list[Group], set[int]]:
        """The clusters to compare a fragment of these keys with, and the keys to close."""
        held = self._held()
        if self.index is None:
            return held, set()
        live = {group[0] for group in held}
        likely: set[int] = set()  # families with a cluster of a heaviest particle
        for particles in self.subproblems.values():
            heaviest = (row for weight, row in particles if weight >= particles[0][0])
            likely.update(group[0] for row in heaviest for group in row)
        postings = {key: [f for f in self.keys.families.get(key, ()) if f in live] for key in keys}
        closing = {
            key
            for key in set(keys) - self.keys.closed
            if len(likely.intersection(postings[key])) > self.index.families
        }
        open_keys = [key for key in keys if key not in self.keys.closed | closing]
        counts = Counter(family for key in open_keys for family in postings[key])
        near = [f for f, n in counts.items() if n >= self.index.shared] or list(counts)
        if not counts:
            counts = Counter(family for key in keys for family in postings[key])
            near = list(counts)
        near.sort(key=lambda family: (-counts[family], family))
        families = set(near[: self.index.compared or None])
        return [group for group in held if group[0] in families], closing

    # -- propose ------------------------------------------------------------------------------

    def _propose(
        self, x: int, near: Sequence[Group]
    ) -> tuple[list[Putative], float, dict[Group, float]]:
        """Joins with some clusters, L({x}), and L of the clusters that x would make."""
        if self.table is None:
            gains = dict.fromkeys(near, 0.0)
            alone = 0.0
        else:
            gains, alone = self.table.gains(self.fragments[x], near)
        joins = self._joins(near, gains)
        if self.black_box is not None:
            if self.table is not None:
                joins = sorted(joins, key=lambda one: one.order)[: self.max_evals]
            asked = list(dict.fromkeys(one.group for one in joins if one.group is not None))
            *joined, alone = self._ask([*((*group, x) for group in asked), (x,)])
            scores = dict(zip(asked, joined, strict=True))
            gains = {group: scores[group] - self.score[group] for group in asked}
            chosen = {(one.name, one.rank, one.group) for one in joins}
            joins = [
                one
                for one in self._joins(asked, gains)
                if (one.name, one.rank, one.group) in chosen
            ]
            made = {(*group, x): score for group, score in scores.items()}
        else:
            made = {(*group, x): self.score[group] + gains[group] for group in near}
        return joins, alone, {**made, (x,): alone}

    def _joins(self, near: Iterable[Group], gains: Mapping[Group, float]) -> list[Putative]:
        """w + e log|C| + L(C + x) - L(C) of some clusters on all particles that hold them."""
        e = self.prior.exponent
        gain = {group: rounded(e * math.log(len(group))) + rounded(gains[group]) for group in near}
        for value in gain.values():
            if math.isnan(value) or value == math.inf:
                raise LikelihoodError(f"the likelihood (or surrogate) returned {value}")
        return [
            Putative(weight + gain[group], name, rank, group)
            for name, particles in self.subproblems.items()
            for rank, (weight, row) in enumerate(particles)
            for group in row
            if gain.get(group, NEVER) > NEVER
        ]

    def _ask(self, groups: Sequence[Group]) -> list[float]:
        """L of sets by a black box, each distinct content once."""
        sets = [[self.fragments[i] for i in group] for group in groups]
        self._wanted = {tuple(sorted(map(content_key, one))) for one in sets}
        assert self.black_box is not None
        scores: list[float] = self.black_box.log_marginal(sets).tolist()
        return scores

    # -- resample -----------------------------------------------------------------------------

    def _pool(self, joins: Sequence[Putative], alone: float) -> list[Putative]:
        """At most P putative particles, those with x alone among them, heaviest first.

        A new cluster is the same event in every subproblem: it is offered in the one with the
        heaviest join. A subproblem with less than 1/P of the mass goes, but for the heaviest.
        """
        if not joins and (self.rules.splits or not self.subproblems):
            return []
        log_new = rounded(self.prior.log_alpha + alone)
        if not joins and log_new == NEVER:
            raise LikelihoodError("the fragment has no finite assignment")
        host = min(joins, key=lambda one: one.order).name if joins else min(self.subproblems)
        singles = [
            Putative(weight + log_new, host, rank, None)
            for rank, (weight, _) in enumerate(self.subproblems[host])
            if log_new > NEVER
        ]
        pool = sorted([*joins, *singles], key=lambda one: one.order)
        if self.rules.floor:
            least = pool[0].value + math.log(self.rules.floor)
            pool = [one for one in pool if one.value >= least]
        values, kept = self._resampled([one.value for one in pool])
        pool = [replace(pool[at], value=value) for at, value in zip(kept, values, strict=True)]
        pool.sort(key=lambda one: -one.value)
        mass: dict[int, list[float]] = {}
        for one in pool:
            mass.setdefault(one.name, []).append(math.exp(one.value - pool[0].value))
        of = {name: math.fsum(mass[name]) for name in sorted(mass)}
        least = math.fsum(w for weights in mass.values() for w in weights) / self.rules.particles
        heaviest = max(of, key=lambda name: of[name])
        return [one for one in pool if of[one.name] >= least or one.name == heaviest]

    def _resampled(self, values: Sequence[float]) -> tuple[list[float], list[int]]:
        """At most P of some log weights, on the grid, and their places."""
        kept, left = self.rules.resampler(np.array(values), self.rules.particles, self.rng)
        return on_grid(left).tolist(), kept.tolist()

    # -- merge --------------------------------------------------------------------------------

    def _merge(self, names: Sequence[int], pool: Sequence[Putative]) -> Joint:
        """At most P combinations of putative particles with the other subproblems' particles.

        The subproblems come in one by one, with x placed or not yet, and at most P are kept after
        each; with greedy resampling that is the exact top P.
        """
        if len(names) == 1:
            return [(one.value, at, (one.rank,)) for at, one in enumerate(pool)]
        several = sum(len(self.subproblems[name]) > 1 for name in names)
        if self.rules.sampled_merges and several > 2:
            return self._merge_by_sampling(names, pool)
        placed: Joint = []
        waiting: Joint = [(0.0, -1, ())]
        for name in names:
            old = list(enumerate(self.subproblems[name]))
            mine = [(at, one) for at, one in enumerate(pool) if one.name == name]
            beside = [(v + w, at, (*r, rank)) for v, at, r in placed for rank, (w, _) in old]
            here = [(v + p.value, at, (*r, p.rank)) for v, _, r in waiting for at, p in mine]
            placed = self._cut([*beside, *here])
            if name != names[-1]:
                waiting = [(v + w, -1, (*r, rank)) for v, _, r in waiting for rank, (w, _) in old]
                waiting = self._cut(waiting) if len(old) > 1 else waiting
        return sorted(placed, key=lambda one: -one[0])

    def _cut(self, joint: Joint) -> Joint:
        joint = sorted(joint, key=lambda one: -one[0])
        values, kept = self._resampled([value for value, _, _ in joint])
        return [(value, *joint[at][1:]) for value, at in zip(values, kept, strict=True)]

    def _merge_by_sampling(self, names: Sequence[int], pool: Sequence[Putative]) -> Joint:
        """P draws of a putative particle and of the others' particles; equal draws are one."""
        size = self.rules.particles
        drawn = draw(np.array([one.value for one in pool]), size, self.rng).tolist()
        old = [
            draw(np.array([weight for weight, _ in self.subproblems[name]]), size, self.rng)
            for name in names
        ]
        counts = Counter(
            (
                at,
                tuple(
                    pool[at].rank if name == pool[at].name else int(ranks[k])
                    for name, ranks in zip(names, old, strict=True)
                ),
            )
            for k, at in enumerate(drawn)
        )
        shares = [(rounded(math.log(n / size)), *one) for one, n in sorted(counts.items())]
        return sorted(shares, key=lambda one: -one[0])

    # -- grow and split -----------------------------------------------------------------------

    def _grow(
        self, x: int, names: Sequence[int], pool: Sequence[Putative], joint: Joint
    ) -> Particles:
        """x in its place on every particle of the joint."""
        rows: list[Row] = []
        for _, at, ranks in joint:
            old = [
                group
                for name, rank in zip(names, ranks, strict=True)
                for group in self.subproblems[name][rank][1]
            ]
            parent = pool[at].group or ()
            rows.append(tuple(sorted([*(g for g in old if g != parent), (*parent, x)])))
        weights = normalised(np.array([value for value, _, _ in joint])).tolist()
        return list(zip(weights, rows, strict=True))

    def _split(self, grown: Particles, made: Mapping[Group, float]) -> dict[int, Particles]:
        """What no particle connects is a subproblem of its own, with its distinct particles."""
        parts: list[set[int]] = []
        for group in {group for _, row in grown for group in row}:
            touched = [part for part in parts if part & set(group)]
            parts = [part for part in parts if part not in touched]
            parts.append(set(group).union(*touched))
        if len(parts) == 1:
            return {min(parts[0]): grown}
        parts.sort(key=min)
        return {min(part): self._part(grown, part, made) for part in parts}

    def _part(self, grown: Particles, part: set[int], made: Mapping[Group, float]) -> Particles:
        """The distinct particles of some fragments, weighed by the target or by their mass."""
        mass: dict[Row, float] = {}
        for weight, row in grown:
            own = tuple(group for group in row if group[0] in part)
            mass[own] = mass.get(own, 0.0) + math.exp(weight)
        rows = list(mass)
        if self.rules.weights == "target":
            units = [int((self._terms(row, made) * GRID).sum()) for row in rows]
            values = [(unit - max(units)) / GRID for unit in units]
        else:
            values = [rounded(math.log(m)) if m else NEVER for m in mass.values()]
        order = sorted(range(len(rows)), key=lambda k: -values[k])
        weights = normalised(np.array([values[k] for k in order])).tolist()
        return [(weight, rows[k]) for weight, k in zip(weights, order, strict=True)]

    def _terms(self, row: Row, made: Mapping[Group, float]) -> np.ndarray:
        """log alpha + e lgamma(|C|) + L(C) of clusters."""
        scores = [made[group] if group in made else self.score[group] for group in row]
        return self.prior.log_terms(row, np.array(scores))

    # -- commit -------------------------------------------------------------------------------

    def _commit(
        self,
        x: int,
        names: Sequence[int],
        blocks: Mapping[int, Particles],
        made: Mapping[Group, float],
        keys: Sequence[int],
        closing: set[int],
    ) -> StepResult:
        before = set(self._held())
        for name in names:
            self.effective -= math.log10(len(self.subproblems.pop(name)))
        for name, particles in blocks.items():
            self.subproblems[name] = particles
            self.effective += math.log10(len(particles))
        held = set(self._held())
        self.score = {**self.score, **made}
        self.score = {group: score for group, score in self.score.items() if group in held}
        self.keys.note(keys, closing, sorted({group[0] for group in made}))
        if self.table is not None:
            self.table.follow(sorted(made), sorted(before - held))
        if self.black_box is not None:
            self.asked |= self._wanted
        self.evaluations = len(self.asked) if self.black_box else self.evaluations + len(made)
        return StepResult(
            fragment=x,
            fate=FATES[min(len(names), 2)],
            before=tuple(names),
            after=tuple(blocks),
            subproblems=len(self.subproblems),
            log10_effective_particles=self.effective,
            model_evaluations=self.evaluations,
        )


class Table:
    """A conjugate likelihood's sufficient statistics of clusters, in its live table."""

    def __init__(self, likelihood: ConjugateLikelihood) -> None:
        self._live = likelihood.live_clusters()
        self._slot: dict[Group, int] = {(): -1}

    def gains(self, x: Fragment, groups: Sequence[Group]) -> tuple[dict[Group, float], float]:
        """L(C + x) - L(C) of clusters, and L({x})."""
        self._seen = self._live.encode(x)
        slots = np.array([self._slot[group] for group in groups], dtype=np.int64)
        values = self._live.log_predictive_of(self._seen, slots).tolist() if groups else []
        alone = float(self._live.log_predictive_new(self._seen))
        return dict(zip(groups, values, strict=True)), alone

    def follow(self, made: Sequence[Group], gone: Sequence[Group]) -> None:
        """The fragment asked about is in these clusters, and those are no more."""
        parents = np.array([self._slot[group[:-1]] for group in made])
        taken = set(self._slot.values())
        free = (slot for slot in range(len(taken) + len(made)) if slot not in taken)
        self._slot |= dict(zip(made, free, strict=False))
        self._live.extend(self._seen, parents, np.array([self._slot[group] for group in made]))
        if gone:
            self._live.release(np.array([self._slot.pop(group) for group in gone]))


class Keys:
    """Which families (clusters with one first fragment) each key leads to."""

    def __init__(self) -> None:
        self.families: dict[int, list[int]] = {}
        self.closed: set[int] = set()

    def note(self, keys: Sequence[int], closing: set[int], families: Sequence[int]) -> None:
        """A fragment of these keys is in clusters of these families."""
        self.closed |= closing
        for key in keys:
            if key not in self.closed:
                known = self.families.setdefault(key, [])
                known += [family for family in families if family not in known]


class Limits:
    """What constraints say of fragments and clusters."""

    def __init__(self, constraints: Constraints) -> None:
        self._constraints = constraints
        self._same: dict[str, set[str]] = {}
        for each in constraints.decisions:
            for id in (each.first, each.second):
                self._same.setdefault(id, {id})
        for each in constraints.decisions:
            if each.same:
                both = self._same[each.first] | self._same[each.second]
                self._same |= dict.fromkeys(both, both)
        self._apart: set[tuple[str, str]] = set()
        for each in constraints.decisions:
            if not each.same:
                one, other = self._same[each.first], self._same[each.second]
                self._apart |= {(a, b) for a in one for b in other}
                self._apart |= {(b, a) for a in one for b in other}

    def bound(
        self,
        fragments: Sequence[Fragment],
        x: int,
        held: Sequence[Group],
        looked_up: Sequence[Group],
    ) -> tuple[list[Group], bool]:
        """The clusters that a fragment may join, and whether it must join one.

        A fragment that is the same as one that is here goes where that one is, wherever keys lead.
        """
        mates = self._same.get(fragments[x].id, set())
        tied = [group for group in held if any(fragments[i].id in mates for i in group)]
        near = tied or looked_up
        return [group for group in near if not self._bars(fragments, x, group)], bool(tied)

    def _bars(self, fragments: Sequence[Fragment], x: int, group: Group) -> bool:
        new, values = fragments[x], set(self._constraints.stated(fragments[x]))
        return any(
            (new.id, fragments[i].id) in self._apart
            or not values.isdisjoint(self._constraints.stated(fragments[i]))
            for i in group
        )

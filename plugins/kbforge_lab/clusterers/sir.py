"""Sequential importance resampling (MacEachern, Clyde and Liu 1999) for clustering.

Each of R replicas places the next fragment x in cluster C with probability q(C) / g, where

    q(C) = |C| exp(L(C + x) - L(C)),    q(new) = alpha exp(L({x})),    g = the sum of q

and its importance weight w becomes w g. The factor that the prior shares, 1 / (alpha + t - 1), is
left out. Where the effective sample size, 1 / sum of w^2 for normalised w, is below a share of R, R
replicas are drawn by their weights, with replacement, and have equal weights from there on.

Replicas that hold the same cluster share its slot. Clusters are scored by a live table of a
conjugate likelihood, or as whole sets of a black box, each of which is scored once.

Sources: MacEachern, Clyde and Liu (1999), "Sequential importance sampling for nonparametric Bayes
models"; the paper on sequential clustering by sampling importance resampling, sections 2 and 3.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from functools import partial

import numpy as np
from numpy.typing import NDArray

from kbforge.clustering.rules import DirichletProcess
from kbforge.clustering.scoring import without_model
from kbforge.contracts import (
    Cluster,
    Clusterer,
    ConjugateLikelihood,
    Ending,
    FloatArray,
    Fragment,
    IntArray,
    Likelihood,
    ModelSpec,
    Observation,
    OnStep,
    Posterior,
    Progress,
)
from kbforge.errors import LikelihoodError, UsageError, quoted
from kbforge.numerics import capacity_for, grown
from kbforge_lab.batch.run import Watch, concluded, require_positive
from kbforge_lab.batch.sets import SetScores
from kbforge_lab.batch.visits import VisitSample, subproblems_of


class ReplicaClusters(ABC):
    """Clusters by slot."""

    @property
    @abstractmethod
    def evaluations(self) -> int:
        """Sets scored: distinct ones by a black box, clusters made by a table."""

    @abstractmethod
    def predict(self, x: int, slots: IntArray, n_slots: int) -> tuple[FloatArray, float]:
        """L(C + x) - L(C) by slot [n_slots], unspecified of slots not asked for, and L({x})."""

    @abstractmethod
    def extend(self, parents: IntArray, children: IntArray) -> None:
        """Make cluster children[k] := parents[k] + x of the x predicted; -1 is the empty one."""

    @abstractmethod
    def release(self, slots: IntArray) -> None:
        """No replica holds these clusters any more."""


class _ByTable(ReplicaClusters):
    """Sufficient statistics."""

    def __init__(self, likelihood: Likelihood, fragments: Sequence[Fragment]) -> None:
        assert isinstance(likelihood, ConjugateLikelihood)
        self._live, self._fragments = likelihood.live_clusters(), fragments
        self._x: Observation = None
        self._made = 0

    @property
    def evaluations(self) -> int:
        return self._made

    def predict(self, x: int, slots: IntArray, n_slots: int) -> tuple[FloatArray, float]:
        self._x = self._live.encode(self._fragments[x])
        predictive = self._live.log_predictive(self._x, n_slots)
        return predictive, self._live.log_predictive_new(self._x)

    def extend(self, parents: IntArray, children: IntArray) -> None:
        self._live.extend(self._x, parents, children)
        self._made += len(children)

    def release(self, slots: IntArray) -> None:
        self._live.release(slots)


class _BySets(ReplicaClusters):
    """Members of each cluster; L is asked of whole sets."""

    def __init__(self, likelihood: Likelihood, fragments: Sequence[Fragment]) -> None:
        self._scores = SetScores(likelihood, fragments)
        self._members: dict[int, tuple[int, ...]] = {}
        self._score: dict[int, float] = {}
        self._x = -1
        self._joined = np.zeros(0)
        self._alone = 0.0

    @property
    def evaluations(self) -> int:
        return len(self._scores)

    def predict(self, x: int, slots: IntArray, n_slots: int) -> tuple[FloatArray, float]:
        held = [self._members[slot] for slot in slots.tolist()]
        sets = [*((*members, x) for members in held), (x,)]
        scores = self._scores.score(sets)
        self._x, self._alone = x, float(scores[-1])
        self._joined = np.full(n_slots, -np.inf)
        self._joined[slots] = scores[:-1]
        before = np.array([self._score[slot] for slot in slots.tolist()])
        predictive = np.full(n_slots, -np.inf)
        predictive[slots] = scores[:-1] - before
        return predictive, self._alone

    def extend(self, parents: IntArray, children: IntArray) -> None:
        for parent, child in zip(parents.tolist(), children.tolist(), strict=True):
            self._members[child] = (*self._members.get(parent, ()), self._x)
            self._score[child] = self._alone if parent < 0 else float(self._joined[parent])

    def release(self, slots: IntArray) -> None:
        for slot in slots.tolist():
            del self._members[slot], self._score[slot]


_FEW = 8


class Replicas:
    """R replicas, whose clusters have places 0, 1, ... in order of appearance.

    `log_weights` [R] is log w up to a constant, `log_target` [R] the unnormalised log posterior,
    nats.
    """

    def __init__(
        self, n_fragments: int, replicas: int, log_alpha: float, rng: np.random.Generator
    ) -> None:
        self._log_alpha, self._rng = log_alpha, rng
        self._slots = np.full((replicas, _FEW), -1, dtype=np.int64)  # by replica and place
        self._count = np.zeros(replicas, dtype=np.int64)
        self._place = np.zeros((replicas, n_fragments), dtype=np.int32)  # of each fragment
        self._log_size = np.full(_FEW, -np.inf)  # by slot; -inf if no replica holds it
        self._size = np.zeros(_FEW, dtype=np.int64)
        self._holders = np.zeros(_FEW, dtype=np.int64)
        self._free: list[int] = []
        self.placed = self.n_slots = 0
        self.log_weights = np.zeros(replicas)
        self.log_target = np.zeros(replicas)

    @property
    def held(self) -> IntArray:
        """The slots of the clusters that are held, ascending."""
        return np.flatnonzero(self._holders[: self.n_slots])

    def draw(self, predictive: FloatArray, alone: float) -> tuple[IntArray, IntArray, IntArray]:
        """Have every replica draw the next fragment's place.

        `predictive` [n_slots] is L(C + x) - L(C), not NaN for held slots; `alone` is L({x}); in
        nats.
        """
        n, width = len(self._count), int(self._count.max(initial=0))
        each = np.arange(n)
        value = np.full(self.n_slots + 1, -np.inf)  # the last of no slot
        held = self.held
        value[held] = self._log_size[held] + predictive[held]
        values = np.empty((n, width + 1))
        values[:, :width] = value[self._slots[:, :width]]
        values[:, width] = self._log_alpha + alone
        top = values.max(axis=1)
        possible = top > -np.inf  # the others weigh nothing from now on, wherever they put it
        mass = np.exp(values - np.where(possible, top, 0.0)[:, None])
        mass[~possible, width] = 1.0
        cumulative = mass.cumsum(axis=1)
        total = cumulative[:, -1]
        log_weights = self.log_weights + top + np.log(total)
        if log_weights.max() == -np.inf:
            raise ValueError("the fragment has no finite assignment")
        self.log_weights = log_weights
        chosen = (cumulative <= (self._rng.random(n) * total)[:, None]).sum(axis=1)
        chosen = np.minimum(chosen, width)
        self.log_target += values[each, chosen]
        opens = chosen == width
        place = np.where(opens, self._count, chosen)
        if int(place.max()) >= self._slots.shape[1]:
            wider = np.full((n, 2 * self._slots.shape[1]), -1, dtype=np.int64)
            wider[:, : self._slots.shape[1]] = self._slots
            self._slots = wider
        parent = self._slots[each, place] + 1
        moved = np.bincount(parent, minlength=self.n_slots + 1)
        grown_from = np.flatnonzero(moved)
        parents, moved = grown_from - 1, moved[grown_from]
        children = self._numbered(parents)
        child_of = np.empty(int(grown_from[-1]) + 1, dtype=np.int64)
        child_of[grown_from] = children
        self._slots[each, place] = child_of[parent]
        self._place[:, self.placed] = place
        self._count += opens
        self.placed += 1
        self._holders[children] = moved
        joined = parents >= 0
        self._holders[parents[joined]] -= moved[joined]
        return parents, children, self._dropped(parents[joined])

    def effective(self) -> float:
        return float(1 / np.square(self.weights()).sum())

    def weights(self) -> FloatArray:
        """Normalised w, shape [R]."""
        share = np.exp(self.log_weights - self.log_weights.max())
        return np.asarray(share / share.sum())

    def resample(self) -> IntArray:
        """Draw R replicas by their weights; the slots that none of them holds."""
        counts = self._rng.multinomial(len(self._count), self.weights())
        kept = np.repeat(np.arange(len(counts)), counts)
        before = self.held
        self._slots, self._count = self._slots[kept], self._count[kept]
        self._place, self.log_target = self._place[kept], self.log_target[kept]
        self.log_weights = np.zeros(len(kept))
        holds = self._slots[self._slots >= 0]
        self._holders[: self.n_slots] = np.bincount(holds, minlength=self.n_slots)
        return self._dropped(before)

    def groupings(self) -> NDArray[np.int32]:
        """Each replica's grouping: the first fragment of every one's cluster, shape [R, placed]."""
        place = self._place[:, : self.placed]
        each = np.arange(len(place))
        first = np.zeros((len(place), int(self._count.max(initial=0))), dtype=np.int32)
        for fragment in reversed(range(self.placed)):
            first[each, place[:, fragment]] = fragment
        return np.take_along_axis(first, place, axis=1)

    def _numbered(self, parents: IntArray) -> IntArray:
        """Slots for the clusters that grew of these, -1 being none; shape [len(parents)]."""
        found = np.array(
            [self._free.pop() if self._free else self._next() for _ in parents], dtype=np.int64
        )
        self._size[found] = np.where(parents >= 0, self._size[parents], 0) + 1
        self._log_size[found] = np.log(self._size[found])
        return found

    def _next(self) -> int:
        self.n_slots += 1
        if self.n_slots > len(self._size):
            capacity = capacity_for(self.n_slots, len(self._size))
            self._log_size = grown(self._log_size, capacity)
            self._size = grown(self._size, capacity)
            self._holders = grown(self._holders, capacity)
        return self.n_slots - 1

    def _dropped(self, slots: IntArray) -> IntArray:
        """Those of them that nobody holds, which are free to be taken again."""
        dropped: IntArray = slots[self._holders[slots] == 0]
        self._free += dropped.tolist()
        return dropped


_PARTS = 10**6
"""Weights are counted in so many parts: how often each grouping would have been visited."""


class _ReplicaRun:
    """Replicas, and the clusters that they hold."""

    def __init__(
        self,
        fragments: Sequence[Fragment],
        spec: ModelSpec,
        replicas: int,
        least_effective: float,
        particles: int,
        rng: np.random.Generator,
    ) -> None:
        self._fragments, self._particles = fragments, particles
        self._least_effective = least_effective
        self._likelihood = without_model(spec).likelihood
        self._prior = DirichletProcess(spec.alpha)
        by_table = isinstance(self._likelihood, ConjugateLikelihood)
        self._held = (_ByTable if by_table else _BySets)(self._likelihood, fragments)
        self._replicas = Replicas(len(fragments), replicas, self._prior.log_alpha, rng)

    def until_done(self, watch: Watch) -> Ending:
        for x in range(len(self._fragments)):
            try:
                self._take_in(x)
            except (LikelihoodError, ValueError) as error:
                name = quoted(self._fragments[x].id)
                raise LikelihoodError(f'fragment "{name}": {error}') from error
            watch.step(self.progress)
        watch.round(self.progress)
        return Ending.DONE

    def _take_in(self, x: int) -> None:
        replicas, held = self._replicas, self._held
        slots = replicas.held
        predictive, alone = held.predict(x, slots, replicas.n_slots)
        most = float(np.max(predictive[slots], initial=alone))  # NaN if one of them is
        if math.isnan(most) or most == math.inf:
            raise LikelihoodError("the likelihood (or surrogate) returned NaN or +inf")
        parents, children, dropped = replicas.draw(predictive, alone)
        held.extend(parents, children)
        if len(dropped):
            held.release(dropped)
        if replicas.effective() < self._least_effective:
            dropped = replicas.resample()
            if len(dropped):
                held.release(dropped)

    def progress(self) -> Progress:
        replicas = self._replicas
        return Progress(
            fragments=replicas.placed,
            total=len(self._fragments),
            subproblems=1,
            log10_effective_particles=math.log10(replicas.effective()),
            model_evaluations=self._held.evaluations,
            posterior=partial(self.posterior, Ending.INTERRUPTED),
        )

    def posterior(self, ended: Ending) -> Posterior:
        """By the weights; the point estimate is the most probable grouping that was drawn."""
        replicas = self._replicas
        if not replicas.placed:
            return Posterior((), 0.0, 0, self._held.evaluations, ended)
        groupings, number = np.unique(replicas.groupings(), axis=0, return_inverse=True)
        parts = np.bincount(number.reshape(-1), replicas.weights()) * _PARTS
        kept = parts >= 0.5
        sample = VisitSample(groupings[kept], np.round(parts[kept]).astype(np.int64))
        best = groupings[number.reshape(-1)[int(replicas.log_target.argmax())]].astype(np.int64)
        subproblems, log_posterior = subproblems_of(sample, best, self._particles, self.log_terms)
        return Posterior(subproblems, log_posterior, replicas.placed, self._held.evaluations, ended)

    def log_terms(self, clusters: Sequence[Cluster]) -> FloatArray:
        """log alpha + lgamma(|C|) + L(C), nats, shape [len(clusters)]."""
        sets = [[self._fragments[i] for i in cluster] for cluster in clusters]
        return self._prior.log_terms(clusters, self._likelihood.log_marginal(sets))


class Sir(Clusterer):
    """Sequential importance resampling: draw R groupings fragment by fragment, and weight them.

    The weights say how much more or less probable what a grouping has seen was to it than to the
    others; when they vary too much, groupings are drawn anew by their weights. What comes out says
    of any two fragments how probable it is that they are one entity (`kbforge show
    --similarity`), and its `--tree` draws the tree of these similarities. `smc` and
    `split-smc` keep the heaviest groupings instead of drawing them, and need far fewer. A black box
    scores every cluster of every replica with every fragment; a surrogate is of no use here, except
    that `--set max-evals=0` clusters by it alone.

    Args:
        replicas: R, the number of groupings.
        threshold: resample when the effective sample size is below this share of R; 0 never does.
        particles: P, the maximum number of groupings kept for a subproblem at the end. Clusters
            that at least 1/P of the weight joins are one subproblem.
        budget: stop after this many seconds (the result then depends on the machine); `none` sets
            no limit.

    """

    unindexed = True

    def __init__(
        self,
        replicas: int = 1000,
        threshold: float = 0.5,
        particles: int = 100,
        budget: float | None = None,
    ) -> None:
        require_positive(replicas=replicas, budget=budget, particles=particles)
        if not 0 <= threshold <= 1:
            raise UsageError(f"threshold: expected a number from 0 to 1, got {threshold}")
        self.particles = self._kept = particles
        self._replicas, self._budget = replicas, budget
        self._least_effective = threshold * replicas

    def cluster(
        self,
        fragments: Sequence[Fragment],
        spec: ModelSpec,
        rng: np.random.Generator,
        on_step: OnStep | None = None,
    ) -> Posterior:
        def begun() -> _ReplicaRun:
            return _ReplicaRun(
                fragments, spec, self._replicas, self._least_effective, self._kept, rng
            )

        return concluded(begun, fragments, spec, self._budget, on_step)

"""Runs a Markov chain until a stop rule holds, and computes its posterior.

*Kernels* propose moves that leave the posterior over groupings invariant. A kernel proposes a
`Move` given the grouping; a rejected proposal is `STAY`. The chain makes the move. Proposing only
reads, so that an error in a model leaves everything as it was.

    move = kernel.propose(grouping, rng)            one move
    for move in kernel.sweep(grouping, rng): ...    one sweep; each is made before the next is asked

Gibbs and Metropolis move one given fragment, and their sweep moves every fragment, in random order
(`FragmentKernel`). Other kernels may split and merge clusters.

| symbol | meaning |
|---|---|
| x | the fragment |
| C | a cluster of the others: x's own counts without it |
| pi(C) | |C| exp(L(C + x) - L(C)), for a new one alpha exp(L({x})): the posterior of x's place |
| q(C) | the same with the surrogate's L: the proposal |

Sources: Neal (2000), "Markov chain sampling methods for Dirichlet process mixture models",
algorithm 3 for Gibbs; the split-SMC paper, appendix D.1, for the surrogate's proposals.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypeAlias

import numpy as np

from kbforge.clustering.rules import DirichletProcess
from kbforge.contracts import (
    Cluster,
    Ending,
    FloatArray,
    Fragment,
    IntArray,
    ModelSpec,
    OnStep,
    Posterior,
    Progress,
    Rounds,
)
from kbforge.errors import LikelihoodError, UsageError, quoted
from kbforge.numerics import log_sum_exp
from kbforge_lab.batch.grouping import (
    NEW,
    STAY,
    Follower,
    Grouping,
    Move,
    apply,
    leaders,
    put,
)
from kbforge_lab.batch.grouping_model import IMPOSSIBLE, GroupingModel, SetModel
from kbforge_lab.batch.run import Watch, concluded, require_positive, stretches
from kbforge_lab.batch.visits import Visits, subproblems_of

_MOVING = 0.9  # see MetropolisKernel


class TransitionKernel(ABC):
    """A way of proposing moves; `models` follow the grouping, the model itself first."""

    def __init__(self, *models: Follower) -> None:
        self.models = models

    @abstractmethod
    def propose(self, grouping: Grouping, rng: np.random.Generator) -> Move:
        """A move that leaves the posterior invariant; `LikelihoodError` if no place is possible."""

    def sweep(self, grouping: Grouping, rng: np.random.Generator) -> Iterator[Move]:
        """As many proposals as there are fragments; make each before asking for the next."""
        for _ in range(grouping.n_fragments):
            yield self.propose(grouping, rng)

    def place(self, grouping: Grouping, fragment: int, u: Sequence[float]) -> Move:
        """Where a fragment without a cluster goes; u are two numbers uniform in [0, 1)."""
        raise UsageError("start: this sampler cannot start sequentially; expected singletons")


class FragmentKernel(TransitionKernel):
    """A kernel that moves one given fragment."""

    @abstractmethod
    def choose(self, grouping: Grouping, fragment: int, u: Sequence[float]) -> Move:
        """The next place of x, which may have no cluster; u are two numbers uniform in [0, 1)."""

    def propose(self, grouping: Grouping, rng: np.random.Generator) -> Move:
        fragment = int(rng.integers(grouping.n_fragments))
        return self.place(grouping, fragment, rng.random(2).tolist())

    def sweep(self, grouping: Grouping, rng: np.random.Generator) -> Iterator[Move]:
        """Move every fragment once, in random order."""
        order = rng.permutation(grouping.n_fragments).tolist()
        draws = rng.random((len(order), 2)).tolist()
        for fragment, u in zip(order, draws, strict=True):
            yield self.place(grouping, fragment, u)

    def place(self, grouping: Grouping, fragment: int, u: Sequence[float]) -> Move:
        """As `choose`, with errors that name the fragment."""
        try:
            return self.choose(grouping, fragment, u)
        except LikelihoodError as error:
            name = quoted(self.models[0].fragments[fragment].id)
            raise LikelihoodError(f'fragment "{name}": {error}') from error


class GibbsKernel(FragmentKernel):
    """x goes to C with probability proportional to pi(C)."""

    def __init__(self, model: GroupingModel, log_alpha: float) -> None:
        super().__init__(model)
        self._model, self._log_alpha = model, log_alpha

    def choose(self, grouping: Grouping, fragment: int, u: Sequence[float]) -> Move:
        log_pi = _log_weights(self._model, grouping, self._log_alpha, fragment)
        index = _draw(log_pi, u[0])
        here = _index_here(grouping, fragment)
        before = 0.0 if here is None else max(float(log_pi[here]), IMPOSSIBLE)
        return put(fragment, _place(grouping, index), float(log_pi[index]) - before)


class MetropolisKernel(FragmentKernel):
    """Propose another C for x with probability proportional to q(C), and score only C + x and x's
    own cluster without it.

    The proposal is accepted with probability

        .9 min(1, pi(C) q(here) (Q - q(here)) / (pi(here) q(C) (Q - q(C)))),    Q the sum of q

    Never to propose x's present place is much more efficient where the surrogate is surer of it
    than the model (Liu 1996, "Peskun's theorem and a modified discrete-state Gibbs sampler"). But
    two fragments that are as well together as apart would then move at every chance, and every
    sweep would end where it began: hence the .9.

    x leaves a place that the model or the surrogate calls impossible, if it can. Without a
    surrogate (`proposal`) the prior proposes, q(C) = |C|.
    """

    def __init__(self, model: SetModel, proposal: GroupingModel | None, log_alpha: float) -> None:
        super().__init__(*((model,) if proposal is None else (model, proposal)))
        self._model, self._proposal, self._log_alpha = model, proposal, log_alpha
        self._gibbs = GibbsKernel(model, log_alpha)

    def choose(self, grouping: Grouping, fragment: int, u: Sequence[float]) -> Move:
        log_prior = _log_prior(grouping, self._log_alpha, fragment)
        log_q = log_prior
        if self._proposal is not None:
            log_q = _log_weights(self._proposal, grouping, self._log_alpha, fragment)
        here = _index_here(grouping, fragment)
        if here is None:
            index = _draw(log_q, u[0])
            (gain,) = self._model.gains(fragment, (index,))
            after = float(log_prior[index]) + gain
            if after > -np.inf:
                return put(fragment, _place(grouping, index), after)
            return self._gibbs.choose(grouping, fragment, u)
        if u[1] >= _MOVING:
            return STAY
        log_elsewhere = _without(log_q, here)
        index = _draw(log_elsewhere, u[0]) if log_elsewhere.max() > -np.inf else here
        there_gain, here_gain = self._model.gains(fragment, (index, here))
        after = float(log_prior[index]) + there_gain
        before = float(log_prior[here]) + here_gain
        if before == -np.inf:  # only a start can be impossible: look everywhere for a place
            return self._gibbs.choose(grouping, fragment, u)
        gain = after - before
        log_ratio = gain + _log_back(log_q, index, here) if gain > -np.inf else gain
        if index != here and u[1] < _MOVING * math.exp(min(log_ratio, 0.0)):
            return put(fragment, _place(grouping, index), gain)
        return STAY


def _log_back(log_q: FloatArray, there: int, here: int) -> float:
    """log q(back) / q(there), staying excluded; +inf if q rules out `here`."""
    if log_q[here] == -np.inf:
        return np.inf
    log_there = float(log_q[there]) - log_sum_exp(_without(log_q, here))
    return float(log_q[here]) - log_sum_exp(_without(log_q, there)) - log_there


def _log_prior(grouping: Grouping, log_alpha: float, fragment: int) -> FloatArray:
    """log |C| by slot, then log alpha of a new cluster, shape [n_slots + 1]; -inf for no place.

    If x is alone, its own slot is no place, but a new cluster is.
    """
    n_slots = grouping.n_slots
    out = np.empty(n_slots + 1)
    out[:n_slots] = grouping.log_size[:n_slots]
    out[n_slots] = log_alpha
    own = grouping.slot_of[fragment]
    if own >= 0:
        out[own] = grouping.log_of[len(grouping.members[own]) - 1]
    return out


def _log_weights(
    model: GroupingModel, grouping: Grouping, log_alpha: float, fragment: int
) -> FloatArray:
    """log pi, shape [n_slots + 1], the last of a new cluster; refuses NaN, +inf and only -inf."""
    out = _log_prior(grouping, log_alpha, fragment)
    n_slots, own = grouping.n_slots, grouping.slot_of[fragment]
    out[:n_slots] += model.joins(fragment)
    if own >= 0:
        others = len(grouping.members[own]) - 1
        out[own] = grouping.log_of[others] + model.held(fragment) if others else -np.inf
    out[n_slots] += model.alone(fragment)
    top = out.max()
    if not -np.inf < top < np.inf:
        if top == -np.inf:
            raise LikelihoodError("the fragment has no finite assignment")
        raise LikelihoodError(f"the likelihood (or surrogate) returned {top}")
    return out


def _draw(log_weights: FloatArray, u: float) -> int:
    """An index with probability proportional to exp(log_weights)."""
    cumulative = np.exp(log_weights - log_weights.max()).cumsum()
    return int(cumulative.searchsorted(u * cumulative[-1], side="right"))


def _without(log_weights: FloatArray, index: int) -> FloatArray:
    """The weights with one of them 0."""
    out = log_weights.copy()
    out[index] = -np.inf
    return out


def _index_here(grouping: Grouping, fragment: int) -> int | None:
    """The index of x's place among the weights; None if it has none."""
    own = grouping.slot_of[fragment]
    if own < 0:
        return None
    return own if len(grouping.members[own]) > 1 else grouping.n_slots


def _place(grouping: Grouping, index: int) -> int:
    return index if index < grouping.n_slots else NEW


# a better grouping must be better by more than rounding, in nats
_BETTER = 1e-6
_FEW_SLOTS = 64


class MarkovChain:
    """The chain's state, and the most probable grouping that it has visited.

    `log_posterior` is that of the present grouping, unnormalised, in nats. It is rounded from a
    start of likelihood 0 to the end of the sweep that leaves it.
    """

    def __init__(
        self,
        kernel: TransitionKernel,
        grouping: Grouping,
        prior: DirichletProcess,
        rng: np.random.Generator,
    ) -> None:
        self.grouping = grouping
        self.placed = 0
        self.log_posterior = 0.0
        self.best_log_posterior = -np.inf
        self.best_clusters = 0
        self._best = list(grouping.slot_of)
        # whether the present grouping is the best: it is copied when the chain leaves it, because
        # on its way up a chain finds a better one at nearly every move
        self._at_best = False
        self._rounded = False
        self._kernel, self._prior, self._rng = kernel, prior, rng

    @property
    def n_fragments(self) -> int:
        return self.grouping.n_fragments

    def log_terms(self, clusters: Sequence[Cluster]) -> FloatArray:
        return self._prior.log_terms(clusters, self._kernel.models[0].log_marginal(clusters))

    @property
    def best(self) -> IntArray:
        """The most probable grouping visited (of the start, while it goes on), shape [placed]."""
        best = self.grouping.slot_of if self._at_best else self._best
        return leaders(best[: self.placed])

    def start(self, groups: Sequence[Cluster] | None) -> Iterator[None]:
        """Place all fragments as groups; None places each by the kernel, given those before it."""
        # drawn either way: the sweeps that follow do not depend on it
        draws = self._rng.random((self.n_fragments, 2)).tolist()
        if groups is not None:
            yield from self._begin(groups)
            return
        for some in stretches(self.n_fragments):
            self._read(some)
            for fragment in some:
                move = self._kernel.place(self.grouping, fragment, draws[fragment])
                self.placed += 1
                self.make(move)
                yield

    def _begin(self, groups: Sequence[Cluster]) -> Iterator[None]:
        self.grouping.begin(groups)
        self._best = list(self.grouping.slot_of)
        terms = []
        for some in stretches(self.n_fragments):
            if self.placed:
                yield
            self._read(some)
            self.placed = some.stop
            self.best_clusters = len(set(self._best[: self.placed]))
            # there are at most as many groups as fragments
            if part := groups[some.start : some.stop]:
                terms.append(self.log_terms(part))
        for model in self._kernel.models:
            model.regrouped(())
        known = np.maximum(np.concatenate(terms), IMPOSSIBLE)
        self.log_posterior, self._rounded = float(known.sum()), bool((known == IMPOSSIBLE).any())
        self._keep_best()
        yield

    def _read(self, fragments: range) -> None:
        for model in self._kernel.models:
            model.read(fragments)

    def sweep(self) -> Iterator[None]:
        """One sweep of the kernel; a step is one move."""
        for move in self._kernel.sweep(self.grouping, self._rng):
            self.make(move)
            yield
        if self._rounded:
            self._leave_the_impossible()
        grouping = self.grouping
        if grouping.n_slots > max(_FEW_SLOTS, 2 * grouping.n_clusters):
            slots = grouping.slots()
            grouping.compact()
            for model in self._kernel.models:
                model.regrouped(slots)

    def _leave_the_impossible(self) -> None:
        """Compute the log posterior exactly, if it is finite by now."""
        terms = self.log_terms([self.grouping.cluster(slot) for slot in self.grouping.slots()])
        exact = float(terms.sum())
        if exact > -np.inf:
            self.best_log_posterior += exact - self.log_posterior
            self.log_posterior, self._rounded = exact, False

    def make(self, move: Move) -> None:
        """Make a move, and keep the models and the best up to date."""
        leaves = bool(move.fragments) and not self._better(self.log_posterior + move.gain)
        if self._at_best and leaves:
            self._best = list(self.grouping.slot_of)
            self._at_best = False
        if apply(move, self.grouping, self._kernel.models):
            self.log_posterior += move.gain
        self._keep_best()

    def _keep_best(self) -> None:
        if self._better(self.log_posterior):
            if self.placed == self.n_fragments:
                self.best_log_posterior = self.log_posterior
            self._at_best = True
            self.best_clusters = self.grouping.n_clusters

    def _better(self, log_posterior: float) -> bool:
        return log_posterior > self.best_log_posterior + _BETTER


@dataclass(frozen=True, slots=True)
class ChainRules:
    """When a chain stops (None: never by that rule), and how much of it is kept."""

    patience: int | None  # sweeps without a more probable grouping
    sweeps: int | None
    budget: float | None  # seconds
    particles: int  # P, the most groupings of a subproblem that are kept

    def __post_init__(self) -> None:
        require_positive(
            patience=self.patience,
            sweeps=self.sweeps,
            budget=self.budget,
            particles=self.particles,
        )


MakeKernel: TypeAlias = Callable[[Sequence[Fragment], ModelSpec, Grouping, float], TransitionKernel]
"""From fragments, their problem, the (empty) grouping to work on, and log alpha."""


def run_chain(
    fragments: Sequence[Fragment],
    spec: ModelSpec,
    make_kernel: MakeKernel,
    rules: ChainRules,
    start: Sequence[Cluster] | None,
    rng: np.random.Generator,
    on_step: OnStep | None = None,
) -> Posterior:
    """Sample groupings of the fragments, from a `start` as of `MarkovChain.start`."""

    def begun() -> _ChainRun:
        prior = DirichletProcess(spec.alpha)
        grouping = Grouping(len(fragments))
        kernel = make_kernel(fragments, spec, grouping, prior.log_alpha)
        return _ChainRun(kernel, grouping, prior, rng, rules, start)

    return concluded(begun, fragments, spec, rules.budget, on_step)


class _ChainRun(MarkovChain):
    """A chain with its rules, its start, and the groupings that it visits."""

    def __init__(
        self,
        kernel: TransitionKernel,
        grouping: Grouping,
        prior: DirichletProcess,
        rng: np.random.Generator,
        rules: ChainRules,
        start: Sequence[Cluster] | None,
    ) -> None:
        super().__init__(kernel, grouping, prior, rng)
        self._rules, self._start = rules, start
        self._visits = Visits(grouping.n_fragments)
        self._sweeps = 0

    def until_done(self, watch: Watch) -> Ending:
        rules = self._rules
        for _ in self.start(self._start):
            watch.step(self.progress)
        idle = 0
        while self._sweeps != rules.sweeps and idle != rules.patience:
            before = self.best_log_posterior
            for _ in self.sweep():
                watch.step(self.progress)
            self._sweeps += 1
            idle = idle + 1 if self.best_log_posterior == before else 0
            self._visits.record(leaders(self.grouping.slot_of))
            watch.round(self.progress)
        return Ending.SWEEPS if self._sweeps == rules.sweeps else Ending.PATIENCE

    def progress(self) -> Progress:
        return Progress(
            fragments=self.placed,
            total=self.n_fragments,
            subproblems=1,
            log10_effective_particles=0.0,
            model_evaluations=self._kernel.models[0].evaluations,
            posterior=partial(self.posterior, Ending.INTERRUPTED),
            rounds=Rounds(
                self._sweeps, self._rules.sweeps, self.best_clusters, self.best_log_posterior
            ),
        )

    def posterior(self, ended: Ending) -> Posterior:
        subproblems, log_posterior = subproblems_of(
            self._visits.after_burn_in(),
            self.best,
            self._rules.particles,
            self.log_terms,
        )
        evaluations = self._kernel.models[0].evaluations
        return Posterior(subproblems, log_posterior, self.placed, evaluations, ended)

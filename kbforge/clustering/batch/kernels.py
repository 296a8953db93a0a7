"""Kernels: what moves next, leaving the posterior over groupings as it is.

A kernel proposes a `Move` given the grouping; a rejected proposal is `STAY`. The chain makes the
move. What proposes reads only, so that an error in a model leaves everything as it was.

    move = kernel.propose(grouping, rng)            one move
    for move in kernel.sweep(grouping, rng): ...    one sweep; each is made before the next is asked

Gibbs and Metropolis move one given fragment, and a sweep of theirs moves every one, in random
order (`FragmentKernel`). Other kernels may split and merge clusters.

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
from collections.abc import Iterator, Sequence

import numpy as np

from kbforge.clustering.batch.grouping import NEW, Grouping
from kbforge.clustering.batch.grouping_model import (
    IMPOSSIBLE,
    Follower,
    GroupingModel,
    SetModel,
)
from kbforge.clustering.batch.moves import STAY, Move, put
from kbforge.contracts import FloatArray
from kbforge.errors import LikelihoodError, UsageError, quoted
from kbforge.numerics.logs import log_sum_exp

_MOVING = 0.9  # see MetropolisKernel


class Kernel(ABC):
    """A way of proposing moves.

    Args:
        models: what is to be told of moves; the model itself first.

    Attributes:
        models: the same.

    """

    def __init__(self, *models: Follower) -> None:
        self.models = models

    @abstractmethod
    def propose(self, grouping: Grouping, rng: np.random.Generator) -> Move:
        """A move that leaves the posterior as it is; reads only.

        Raises:
            LikelihoodError: NaN, or no place is possible.

        """

    def sweep(self, grouping: Grouping, rng: np.random.Generator) -> Iterator[Move]:
        """As many proposals as there are fragments; each is made before the next is asked for."""
        for _ in range(grouping.n_fragments):
            yield self.propose(grouping, rng)

    def place(self, grouping: Grouping, fragment: int, u: Sequence[float]) -> Move:
        """Where a fragment goes that is in no cluster yet; u are two numbers uniform in [0, 1).

        Raises:
            UsageError: this kernel moves only what has a place.

        """
        raise UsageError("start: this sampler cannot start sequentially; expected singletons")


class FragmentKernel(Kernel):
    """A kernel that moves one given fragment."""

    @abstractmethod
    def choose(self, grouping: Grouping, fragment: int, u: Sequence[float]) -> Move:
        """x's next place; reads only.

        Args:
            grouping: the state.
            fragment: x, perhaps not in any cluster yet.
            u: two numbers drawn uniformly from [0, 1).

        Raises:
            LikelihoodError: NaN, or no place is possible.

        """

    def propose(self, grouping: Grouping, rng: np.random.Generator) -> Move:
        """Move a fragment drawn at random."""
        fragment = int(rng.integers(grouping.n_fragments))
        return self.place(grouping, fragment, rng.random(2).tolist())

    def sweep(self, grouping: Grouping, rng: np.random.Generator) -> Iterator[Move]:
        """Move every fragment once, in random order."""
        order = rng.permutation(grouping.n_fragments).tolist()
        draws = rng.random((len(order), 2)).tolist()
        for fragment, u in zip(order, draws, strict=True):
            yield self.place(grouping, fragment, u)

    def place(self, grouping: Grouping, fragment: int, u: Sequence[float]) -> Move:
        """As `choose`, whose errors it makes name the fragment."""
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
    """x is proposed another C than its own with probability proportional to q(C), and goes there
    with probability .9 min(1, pi(C) q(here) (Q - q(here)) / (pi(here) q(C) (Q - q(C)))), Q being
    the sum of q; only C + x and x's own cluster without it are scored.

    Proposing where x is already would cost nothing and gain nothing; never to do so is much more
    efficient where the surrogate is surer of x's place than the model (Liu 1996, "Peskun's theorem
    and a modified discrete-state Gibbs sampler"). But where two are as well together as apart, it
    would move each of them at every chance, and every sweep would end where it began: hence the .9.

    From where the model or the surrogate says that nothing can be, x goes elsewhere if it can.

    Args:
        model: L.
        proposal: the surrogate, or None to propose from the prior alone, q(C) = |C|.
        log_alpha: of the prior.

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
    """log of how much more often it is proposed to go back than to go there, if never to stay.

    +inf if q rules out `here`, which then is as good as impossible.
    """
    if log_q[here] == -np.inf:
        return np.inf
    log_there = float(log_q[there]) - log_sum_exp(_without(log_q, here))
    return float(log_q[here]) - log_sum_exp(_without(log_q, there)) - log_there


def _log_prior(grouping: Grouping, log_alpha: float, fragment: int) -> FloatArray:
    """log |C| by slot, then log alpha of a new cluster, shape [n_slots + 1]; -inf for no place.

    If x is alone, its own slot is no place: a new cluster is.
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
    """log pi, shape [n_slots + 1], the last of a new cluster.

    Raises:
        LikelihoodError: NaN, +inf, or -inf everywhere.

    """
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
    """Where x is among the weights; None if it is nowhere yet."""
    own = grouping.slot_of[fragment]
    if own < 0:
        return None
    return own if len(grouping.members[own]) > 1 else grouping.n_slots


def _place(grouping: Grouping, index: int) -> int:
    return index if index < grouping.n_slots else NEW

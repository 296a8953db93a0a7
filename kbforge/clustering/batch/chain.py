"""A Markov chain over groupings: it makes the moves that a kernel proposes, and keeps the best."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from kbforge.clustering.batch.budget import stretches
from kbforge.clustering.batch.grouping import Grouping, leaders
from kbforge.clustering.batch.grouping_model import IMPOSSIBLE
from kbforge.clustering.batch.kernels import Kernel
from kbforge.clustering.batch.moves import Move, apply
from kbforge.clustering.prior import DirichletProcess
from kbforge.contracts import Cluster, FloatArray, IntArray

# a better grouping must be better by more than rounding, in nats
_BETTER = 1e-6
_FEW_SLOTS = 64


class Chain:
    """The chain's state, and the most probable grouping that it has visited.

    Args:
        kernel: proposes moves.
        grouping: the kernel's, with no fragment placed.
        prior: of the groupings.
        rng: of all draws.

    Attributes:
        placed: how many fragments have been taken in; all of them, once the start is over.
        log_posterior: of the present grouping, unnormalised, nats; rounded where the likelihood is
            0, as the chain may start, and until the end of the sweep that leaves it.
        best: the most probable grouping visited, as `leaders`, shape [placed]; what it is to
            start from of them until all fragments are placed.
        best_log_posterior: its `log_posterior`; -inf until all fragments are placed.
        best_clusters: how many clusters it has.

    """

    def __init__(
        self,
        kernel: Kernel,
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
        """How many there are."""
        return self.grouping.n_fragments

    @property
    def evaluations(self) -> int:
        """Sets that the model itself has scored."""
        return self._kernel.models[0].evaluations

    def log_terms(self, clusters: Sequence[Cluster]) -> FloatArray:
        """What any clusters contribute to the log posterior by the model itself, one each."""
        return self._prior.log_terms(clusters, self._kernel.models[0].log_marginal(clusters))

    @property
    def best(self) -> IntArray:
        best = self.grouping.slot_of if self._at_best else self._best
        return leaders(best[: self.placed])

    def start(self, groups: Sequence[Cluster] | None) -> Iterator[None]:
        """Place all fragments: after steps in which their sets are scored, or one a step.

        Args:
            groups: a partition of them; None puts each one, in the order given, where the kernel
                wants it given those before it.

        """
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
        """One sweep of the kernel's; a step is one move."""
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
        """Know the log posterior exactly, if that is possible by now."""
        terms = self.log_terms([self.grouping.cluster(slot) for slot in self.grouping.slots()])
        exact = float(terms.sum())
        if exact > -np.inf:
            self.best_log_posterior += exact - self.log_posterior
            self.log_posterior, self._rounded = exact, False

    def make(self, move: Move) -> None:
        """Make a move: the grouping, the models and the best are what they are after it."""
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

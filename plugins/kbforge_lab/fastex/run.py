"""A run of FastEx: the start, sweeps until a stop rule holds, then the posterior."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from kbforge.clustering.batch.chain import ChainRules
from kbforge.clustering.batch.grouping import clusters_of
from kbforge.clustering.batch.run import Watch, concluded
from kbforge.contracts import (
    Cluster,
    Fragment,
    IntArray,
    OnStep,
    Posterior,
    Problem,
)
from kbforge.kernel.library import kernel_library, workers
from kbforge_lab.fastex.compiled import CompiledSampler
from kbforge_lab.fastex.counts import Counts, Taylor
from kbforge_lab.fastex.draws import stream
from kbforge_lab.fastex.hashes import TEMPERATURES, Directions
from kbforge_lab.fastex.mixture import Mixture
from kbforge_lab.fastex.mixture_run import (
    MixtureRun,
    family_of,
    require_components,
)
from kbforge_lab.fastex.points import Points
from kbforge_lab.fastex.reference import Sampler

FITTED = 20
"""The first sweeps, in which the temperature is fitted."""
_FIT_BY = 500
_PLACED_AT_ONCE = 200


@dataclass(frozen=True, slots=True)
class FastExRules:
    """What the sampler does, beside when it stops.

    Attributes:
        components: K; None is a Dirichlet process.
        bits: l, of a hash.
        blocks: of a sweep.
        tries: proposals a step.
        rehash: other directions after so many sweeps.
        delta: see `hashes.error_term`.
        temperature: t; None fits it.
        taylor: see `counts`.

    """

    components: int | None
    bits: int
    blocks: int
    tries: int
    rehash: int
    delta: float | None
    temperature: float | None
    taylor: Taylor


def sampler_of(
    family: Counts | Points, prior: Mixture, delta: float | None, tries: int
) -> Sampler | CompiledSampler:
    """The compiled sampler if there is a kernel; the moves are the same."""
    kernel = kernel_library()
    if kernel is None:
        return Sampler(family, prior, delta, tries)
    return CompiledSampler(kernel, family, prior, delta, tries, workers())


def run_fastex(
    fragments: Sequence[Fragment],
    problem: Problem,
    rules: FastExRules,
    ends: ChainRules,
    start: Sequence[Cluster] | None,
    rng: np.random.Generator,
    on_step: OnStep | None = None,
) -> Posterior:
    """Sample groupings of the fragments."""

    def begun() -> FastExRun:
        if start is not None:
            require_components(start, rules.components)
        family = family_of(problem.likelihood, fragments, rules.taylor)
        prior = Mixture(problem.alpha, rules.components)
        return FastExRun(family, prior, rules, ends, start, rng)

    return concluded(begun, fragments, problem, ends.budget, on_step)


class FastExRun(MixtureRun):
    """A run of the sampler.

    Attributes:
        sampler: the state.
        directions: the first ones.

    """

    def __init__(
        self,
        family: Counts | Points,
        prior: Mixture,
        rules: FastExRules,
        ends: ChainRules,
        start: Sequence[Cluster] | None,
        rng: np.random.Generator,
    ) -> None:
        super().__init__(family, prior, ends)
        self._rules, self._start, self._rng = rules, start, rng
        self._seed = int(rng.integers(2**63))
        self.sampler = sampler_of(family, prior, rules.delta, rules.tries)
        self.directions = Directions.drawn(family.rows, rules.bits, rng)
        self.sampler.redirect(self.directions)
        self.sampler.temperature = rules.temperature or 1.0

    def slots(self) -> IntArray:
        """The number of each fragment's cluster, shape [n]."""
        return self.sampler.slot_of

    def evaluations(self) -> int:
        """Clusters made."""
        return self.placed + 2 * self.sampler.moved

    def begin(self, watch: Watch) -> None:
        """Place all fragments."""
        n = self.family.n
        if self._start is not None:
            self.sampler.begin(self.labels_of(self._start))
            self.log_posterior = self.log_posterior_of(self._start)
            self.placed = n
        for first in range(self.placed, n, _PLACED_AT_ONCE):
            some = range(first, min(first + _PLACED_AT_ONCE, n))
            self.log_posterior += self.sampler.place(some, stream(self._seed, 0))
            self.placed = some.stop
            self.keep_best()
            watch.step(self.progress)
        if self._start is None:  # the family may know points by another measure
            self.log_posterior = self.log_posterior_of(clusters_of(self.slots()))
        self.keep_best()
        watch.step(self.progress)

    def sweep(self, watch: Watch) -> None:
        """Move every fragment once, in random order."""
        if self.sweeps and self.sweeps % self._rules.rehash == 0:
            self.sampler.redirect(self.directions.permuted(self._rng))
        order = self._rng.permutation(self.family.n)
        fits = self.sweeps < FITTED and self._rules.temperature is None
        self.sweeps += 1
        for block in np.array_split(order, self._rules.blocks):
            if not len(block):
                continue
            self.sampler.exclude(block)
            if fits:
                found = self.sampler.fit(block[:_FIT_BY])
                self.sampler.temperature = TEMPERATURES[int(np.argmax(found))]
                fits = False
            self.log_posterior += self.sampler.block(block, stream(self._seed, self.sweeps))
            self.keep_best()
            watch.step(self.progress)

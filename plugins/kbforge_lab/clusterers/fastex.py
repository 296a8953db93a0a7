"""FastEx, and uncollapsed Gibbs sampling of a finite mixture (see `kbforge_lab.fastex`)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from kbforge.contracts import Clusterer, Fragment, ModelSpec, OnStep, Posterior
from kbforge.errors import UsageError
from kbforge_lab.batch.chain import ChainRules
from kbforge_lab.batch.run import concluded
from kbforge_lab.batch.starts import SEQUENTIAL, SINGLETONS, require_start
from kbforge_lab.fastex.families import Mixture, Taylor
from kbforge_lab.fastex.run import (
    RANDOM,
    FastExRules,
    FastExRun,
    UncollapsedRun,
    family_of,
    mixture_start,
)

_MOST_BITS = 1024
_MOST_TRIES = 16


class FastEx(Clusterer):
    """Sampling with many clusters: distances of binary hashes propose a cluster, and the
    likelihoods of two clusters accept or reject it.

    For `dirichlet-multinomial` and `gaussian`. What comes out is the sample that the second half of
    the sweeps is, as with `gibbs`; a sweep takes a small part of its time, and fragments move less
    often.
    """

    unindexed = True

    def __init__(
        self,
        components: int | None = None,
        bits: int = 64,
        tries: int = 4,
        blocks: int = 2,
        rehash: int = 4,
        delta: float | None = 0.05,
        temperature: float | None = None,
        taylor: Taylor = "secant",
        particles: int = 100,
        start: str = SEQUENTIAL,
        patience: int | None = 500,
        sweeps: int | None = None,
        budget: float | None = None,
    ) -> None:
        """Take the options.

        Args:
            components: K, the components of a mixture; the symmetric Dirichlet prior of its weights
                sums to alpha. `none` is the Dirichlet process.
            bits: l, the bits of a hash; more bits propose better clusters and take longer.
            tries: clusters proposed at once, of which the likelihood chooses one; 1 as published.
            blocks: number of blocks of a sweep; the fragments of a block do not count when clusters
                are proposed for them.
            rehash: draw other hashes after this many sweeps.
            delta: probability that a bound does not hold; `none` proposes by the estimate instead
                of the bound.
            temperature: temperature of the proposals, 1 as published; `none` fits it in the first
                20 sweeps and then fixes it.
            taylor: natural parameters of documents: `tangent`, as published, or `secant`, which is
                nearer to the predictive if pseudo-counts are small.
            particles: P, the maximum number of groupings kept for a subproblem.
            start: `sequential` puts each fragment into a likely cluster, given the fragments
                before; `random` draws a component for each fragment; `singletons` starts with every
                fragment by itself; a file that `kbforge cluster` wrote starts with its groups.
            patience: stop after this many sweeps without a more probable grouping; `none` sets no
                limit.
            sweeps: stop after this many sweeps; `none` sets no limit.
            budget: stop after this many seconds (the result then depends on the machine); `none`
                sets no limit.

        """
        _require("bits", bits, _MOST_BITS)
        _require("tries", tries, _MOST_TRIES)
        _require("blocks", blocks)
        _require("rehash", rehash)
        for name, value in (("delta", delta), ("temperature", temperature)):
            if value is not None and not 0 < value <= 1:
                raise UsageError(f"clusterer fastex: {name} must be above 0 and at most 1")
        self.particles = particles
        self._start = require_start(start, SINGLETONS, SEQUENTIAL, RANDOM)
        if start == RANDOM and components is None:
            raise UsageError("clusterer fastex: start=random needs components")
        self._rules = FastExRules(
            components, bits, blocks, tries, rehash, delta, temperature, taylor
        )
        self._ends = ChainRules(patience, sweeps, budget, particles)

    def cluster(
        self,
        fragments: Sequence[Fragment],
        spec: ModelSpec,
        rng: np.random.Generator,
        on_step: OnStep | None = None,
    ) -> Posterior:
        components = self._rules.components
        start = mixture_start(self._start, fragments, components, rng)

        def begun() -> FastExRun:
            family = family_of(spec.likelihood, fragments, self._rules.taylor)
            prior = Mixture(spec.alpha, components)
            return FastExRun(family, prior, self._rules, self._ends, start, rng)

        return concluded(begun, fragments, spec, self._ends.budget, on_step)


def _require(name: str, value: int, most: int | None = None) -> None:
    if value < 1 or (most is not None and value > most):
        expected = "at least 1" if most is None else f"from 1 to {most:,}"
        raise UsageError(f"clusterer fastex: {name} must be {expected}, got {value}")


class Uncollapsed(Clusterer):
    """Sample memberships and parameters in turn, for a mixture of K components: the baseline of
    `fastex`.

    For `dirichlet-multinomial` (of one attribute) and `gaussian`. Every sweep scores every fragment
    by every component.
    """

    unindexed = True

    def __init__(
        self,
        components: int = 10,
        particles: int = 100,
        start: str = RANDOM,
        patience: int | None = 500,
        sweeps: int | None = None,
        budget: float | None = None,
    ) -> None:
        """Take the options.

        Args:
            components: K, the components of a mixture; the symmetric Dirichlet prior of its weights
                sums to alpha.
            particles: P, the maximum number of groupings kept for a subproblem.
            start: `random` draws a component for each fragment; a file that `kbforge cluster` wrote
                starts with its groups.
            patience: stop after this many sweeps without a more probable grouping; `none` sets no
                limit.
            sweeps: stop after this many sweeps; `none` sets no limit.
            budget: stop after this many seconds (the result then depends on the machine); `none`
                sets no limit.

        """
        if components < 1:
            raise UsageError(
                f"clusterer uncollapsed: components must be at least 1, got {components}"
            )
        self.particles, self._components = particles, components
        self._start = require_start(start, RANDOM)
        self._ends = ChainRules(patience, sweeps, budget, particles)

    def cluster(
        self,
        fragments: Sequence[Fragment],
        spec: ModelSpec,
        rng: np.random.Generator,
        on_step: OnStep | None = None,
    ) -> Posterior:
        start = mixture_start(self._start, fragments, self._components, rng)
        assert start is not None

        def begun() -> UncollapsedRun:
            family = family_of(spec.likelihood, fragments, "secant")
            prior = Mixture(spec.alpha, self._components)
            return UncollapsedRun(family, prior, self._ends, start, rng)

        return concluded(begun, fragments, spec, self._ends.budget, on_step)

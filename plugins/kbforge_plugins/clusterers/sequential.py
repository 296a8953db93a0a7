"""Online clusterers: sequential Monte Carlo plain and split into subproblems, and greedy.

Plain SMC (Fearnhead 2004) keeps one subproblem; greedy clustering is SMC with P = 1.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from kbforge import registry
from kbforge.clustering.rules import WAVE, Rules, Weights
from kbforge.clustering.sequential import SequentialMonteCarlo
from kbforge.contracts import Session
from kbforge.errors import UsageError


class Smc(SequentialMonteCarlo):
    """Online clustering with P groupings of all fragments; the baseline of split SMC.

    A step costs P times the number of clusters: prefer split SMC on more than a few thousand
    fragments.

    Args:
        particles: P, the number of particles.
        resampler: how a pool of putative particles is cut to P.
        floor: putative particles below this fraction of the heaviest are dropped, 0 drops none;
            none is 1e-3 if there is a candidate index and the resampler is greedy, else 0.

    """

    def __init__(
        self, particles: int = 100, resampler: str = "greedy", floor: float | None = None
    ) -> None:
        self.particles = particles
        super().__init__(
            Rules(
                particles=particles,
                resampler=registry.create("resamplers", resampler),
                splits=False,
                floor=floor,
            )
        )


class GreedyClusterer(SequentialMonteCarlo):
    """The fastest clusterer, and the one that cannot change its mind.

    Args:
        wave: with a network or another black box for its likelihood, score at once what so many
            fragments will ask for, at most; fewer where too much of that would be in vain. The
            result is that of 1, which asks for each by itself.

    """

    def __init__(self, wave: int = WAVE) -> None:
        # with one particle the grouping is the same split or not, and split each cluster is a
        # subproblem of its own, so that a step costs the same however many there are
        super().__init__(
            Rules(
                particles=1,
                resampler=registry.create("resamplers", "greedy"),
                splits=True,
                wave=wave,
            )
        )


class SplitSmc(SequentialMonteCarlo):
    """Online clustering that keeps many competing groupings alive (Trojan et al.).

    Args:
        particles: P, the most particles a subproblem keeps.
        resampler: how a pool of putative particles is cut to P. `greedy` keeps the heaviest and
            is optimal in reverse KL divergence; the others are unbiased.
        weights: how partial groupings are weighed after a split: `target` by the posterior's own
            value, `marginal` by the sum over the particles that showed them, as published.
            Resamplers other than greedy need `marginal`, which is then the default.
        merge: `exact` keeps the heaviest P of the joint of merging subproblems; `multinomial`
            samples it when more than two of them have several particles, as published; the
            block then keeps the draws' frequencies as weights until it splits.
        floor: putative particles below this fraction of the heaviest are dropped, 0 drops none;
            none is 1e-3 if there is a candidate index and the resampler is greedy, else 0.
        revise: when all fragments are in, go over the clusters so many times, each time clustering
            every one again together with its neighbours, in random order; 0 does not. The log
            posterior never falls. A pass takes some two to four times as long as the run itself,
            and the first one finds most; it needs the greedy resampler.
        wave: with a network or another black box for its likelihood, score at once what so many
            fragments will ask for, at most; fewer where too much of that would be in vain. The
            result is that of 1, which asks for each by itself.

    """

    def __init__(
        self,
        particles: int = 100,
        resampler: str = "greedy",
        weights: Weights | None = None,
        merge: Literal["exact", "multinomial"] = "exact",
        floor: float | None = None,
        revise: int = 0,
        wave: int = WAVE,
    ) -> None:
        scheme = registry.create("resamplers", resampler)
        if weights == "target" and not scheme.keeps_heaviest:
            raise UsageError(f"weights target needs the greedy resampler, got {resampler}")
        if revise < 0:
            raise UsageError(f"revise: expected at least 0, got {revise}")
        if revise and not scheme.keeps_heaviest:
            raise UsageError(f"revise needs the greedy resampler, got {resampler}")
        self.particles = particles
        self.finishes, self._passes = revise > 0, revise
        super().__init__(
            Rules(
                particles=particles,
                resampler=scheme,
                splits=True,
                weights=weights or ("target" if scheme.keeps_heaviest else "marginal"),
                sampled_merges=merge == "multinomial",
                floor=floor,
                wave=wave,
            )
        )

    def finish(self, session: Session, after_step: Callable[[], None]) -> None:
        """Revise."""
        session.revise(self._passes, after_step=after_step)

"""Online clusterers: greedy, plain and split sequential Monte Carlo.

Plain SMC (Fearnhead 2004) keeps one subproblem; greedy clustering is SMC with P = 1.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from kbforge.clustering.rules import RESAMPLERS, WAVE, ResamplerName, Rules, Weights, greedy
from kbforge.clustering.session import SequentialMonteCarlo
from kbforge.contracts import Session
from kbforge.errors import UsageError, require_least


class Smc(SequentialMonteCarlo):
    """Online clustering with P groupings of all fragments; the baseline of split SMC.

    A step costs P times the number of clusters: prefer split SMC on more than a few thousand
    fragments.

    Args:
        particles: P, the maximum number of particles.
        resampler: how a pool of putative particles is reduced to P.
        floor: drop putative particles below this fraction of the heaviest; 0 drops none. The
            default is 1e-3 with a candidate index and the greedy resampler, else 0.

    """

    def __init__(
        self,
        particles: int = 100,
        resampler: ResamplerName = "greedy",
        floor: float | None = None,
    ) -> None:
        self.particles = particles
        super().__init__(
            Rules(
                particles=particles,
                resampler=RESAMPLERS[resampler],
                splits=False,
                floor=floor,
            )
        )


class GreedyClusterer(SequentialMonteCarlo):
    """The fastest clusterer: each fragment joins its best cluster, and no decision is revised.

    Args:
        wave: with a black-box likelihood, such as a network, score the sets of up to this many
            fragments in one batch; fewer if too many scores would be wasted. The result is the
            same as with 1, which scores each fragment by itself.

    """

    def __init__(self, wave: int = WAVE) -> None:
        # with one particle the grouping is the same split or not, and split each cluster is a
        # subproblem of its own, so that a step costs the same however many there are
        super().__init__(
            Rules(
                particles=1,
                resampler=greedy,
                splits=True,
                wave=wave,
            )
        )


class SplitSmc(SequentialMonteCarlo):
    """Online clustering that keeps many competing groupings (Trojan et al.).

    Args:
        particles: P, maximum number of particles per subproblem.
        resampler: how a pool of putative particles is reduced to P. `greedy` keeps the heaviest and
            is optimal in reverse KL divergence; the others are unbiased.
        weights: how partial groupings are weighted after a split: `target` by the posterior,
            `marginal` by the sum over their particles, as published. Resamplers other than greedy
            need `marginal`, which is their default.
        merge: `exact` keeps the heaviest P of the joint of merging subproblems; `multinomial`
            samples it when more than two of them have several particles, as published; the weights
            are then the frequencies of the draws until the block splits.
        floor: drop putative particles below this fraction of the heaviest; 0 drops none. The
            default is 1e-3 with a candidate index and the greedy resampler, else 0.
        revise: passes over the clusters after the last fragment; a pass clusters each cluster again
            together with its neighbours, in random order. The log posterior never falls. A pass
            takes two to four times as long as the run itself, and the first pass finds most; it
            needs the greedy resampler.
        wave: with a black-box likelihood, such as a network, score the sets of up to this many
            fragments in one batch; fewer if too many scores would be wasted. The result is the
            same as with 1, which scores each fragment by itself.

    """

    def __init__(
        self,
        particles: int = 100,
        resampler: ResamplerName = "greedy",
        weights: Weights | None = None,
        merge: Literal["exact", "multinomial"] = "exact",
        floor: float | None = None,
        revise: int = 0,
        wave: int = WAVE,
    ) -> None:
        if weights == "target" and resampler != "greedy":
            raise UsageError(f"weights target needs the greedy resampler, got {resampler}")
        require_least(0, revise=revise)
        if revise and resampler != "greedy":
            raise UsageError(f"revise needs the greedy resampler, got {resampler}")
        self.particles = particles
        self.finishes, self._passes = revise > 0, revise
        super().__init__(
            Rules(
                particles=particles,
                resampler=RESAMPLERS[resampler],
                splits=True,
                weights=weights or ("target" if resampler == "greedy" else "marginal"),
                sampled_merges=merge == "multinomial",
                floor=floor,
                wave=wave,
            )
        )

    def finish(self, session: Session, after_step: Callable[[], None]) -> None:
        session.revise(self._passes, after_step=after_step)

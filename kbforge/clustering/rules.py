"""The options of sequential Monte Carlo clustering, which distinguish the members of the family."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

from kbforge.contracts import Resampler
from kbforge.errors import UsageError

Weights: TypeAlias = Literal["target", "marginal"]
"""How a partial grouping is weighed: by the posterior's own value for it, which is the best
choice for the stored support, or by the sum over the particles that showed it, as published."""

WAVE = 32
"""Enough for batches that fill a processor; with more, more of them is in vain."""

_FLOOR_OF_INDEXED = 1e-3


@dataclass(frozen=True, slots=True)
class Rules:
    """What distinguishes the members of the family.

    Attributes:
        particles: P.
        resampler: how a pool is cut to P.
        splits: whether the problem falls apart into subproblems; False is plain SMC.
        weights: how partial groupings are weighed after a split.
        sampled_merges: join by sampling when more than two subproblems with several particles
            meet, as the published code does, instead of exactly.
        floor: putative particles below this fraction of the heaviest are dropped; 0 drops none.
            None leaves it to the problem (`settled`).
        wave: fragments for which a black box is asked ahead, in one batch, at most; 1 is none. The
            result is the same (`kbforge.clustering.ahead`).

    """

    particles: int
    resampler: Resampler
    splits: bool
    weights: Weights = "target"
    sampled_merges: bool = False
    floor: float | None = None
    wave: int = WAVE

    def __post_init__(self) -> None:
        if self.particles < 1:
            raise UsageError(f"particles: expected at least 1, got {self.particles}")
        if self.floor is not None and not 0 <= self.floor < 1:
            raise UsageError(f"floor: expected a number from 0 to below 1, got {self.floor}")
        if self.wave < 1:
            raise UsageError(f"wave: expected at least 1, got {self.wave}")

    @property
    def draws(self) -> bool:
        """Whether a step may draw random numbers."""
        return self.sampled_merges or not self.resampler.keeps_heaviest

    @property
    def limit(self) -> int | None:
        """How many joins the resampler can use, None for all.

        One that looks at more than the heaviest P must be shown all putative particles.
        """
        return self.particles if self.resampler.keeps_heaviest else None

    def settled(self, indexed: bool) -> Rules:
        """The same with a floor: a low one if an index leaves out clusters anyway, else 0.

        A stochastic resampler is unbiased only without.
        """
        if self.floor is not None:
            return self
        low = indexed and self.resampler.keeps_heaviest
        return replace(self, floor=_FLOOR_OF_INDEXED if low else 0.0)

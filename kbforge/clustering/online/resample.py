"""Resample: cut the putative particles of a step to P.

Greedy resampling (keep the P heaviest) is optimal in reverse KL divergence (split-SMC paper, B.2);
other schemes are unbiased. Putative particles far below the heaviest may be dropped first.
"""

from __future__ import annotations

import math

import numpy as np

from kbforge.clustering.online.pool import Pool
from kbforge.clustering.rules import Rules
from kbforge.numerics import on_grid


def resample(pool: Pool, rules: Rules, rng: np.random.Generator) -> Pool:
    """At most P of the pool, canonical order."""
    if rules.floor:
        pool = pool.take(pool.value >= pool.value[0] + math.log(rules.floor))
    kept, value = rules.resampler.resample(pool.value, rules.particles, rng)
    pool = pool.take(kept)
    if rules.resampler.keeps_heaviest:
        return pool  # in the order that it was given
    return pool.with_value(on_grid(value)).heaviest_first()

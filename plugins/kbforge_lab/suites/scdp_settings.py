"""The settings of chains in the suite `supervised`, and the alternatives that it chooses from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from kbforge_lab.scdp import sampler
from kbforge_lab.scdp.sampler import SCDP1, SCDP2, SCDP3, Scdp
from kbforge_lab.scdp.separation import Near

UNTRAINED = "CDP"
"""Sees no examples."""

_POWERS = (1.0, 0.5, 0.3, 0.2)
_RATES = (1.0, 0.3, 0.1, 0.03)


def published() -> Mapping[str, Scdp]:
    """The paper's models, by name."""
    return {UNTRAINED: sampler.UNTRAINED, "SCDP-1": SCDP1, "SCDP-2": SCDP2, "SCDP-3": SCDP3}


def candidates() -> Mapping[str, tuple[Scdp, ...]]:
    """What is chosen from, by name: powers of the likelihood, and rates of the separation."""
    return {
        "SCDP-1": tuple(replace(SCDP1, power=power) for power in _POWERS),
        "SCDP-2": tuple(replace(SCDP2, power=power) for power in _POWERS),
        "SCDP-3": tuple(
            replace(SCDP3, power=power, separation=Near(rate))
            for power in _POWERS[:3]
            for rate in _RATES
        ),
    }

"""With which settings the suite `supervised` runs chains, and between which ones can be chosen.

The digits to be grouped have no say in the choice: `kbforge bench supervised --set
suite.hidden=true` measures all of `candidates()` on labelled digits that it hides.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from kbforge.clustering.supervised import sampler
from kbforge.clustering.supervised.sampler import SCDP1, SCDP2, SCDP3, Scdp
from kbforge.clustering.supervised.separation import Near

UNTRAINED = "CDP"
"""Sees no examples."""

_RATES = (1.0, 0.3, 0.1, 0.03, 0.01, 0.003)


def models() -> Mapping[str, Scdp]:
    """What the table has, by name; so far with the paper's settings alone."""
    return {UNTRAINED: sampler.UNTRAINED, "SCDP-1": SCDP1, "SCDP-2": SCDP2, "SCDP-3": SCDP3}


def candidates() -> Mapping[str, Scdp]:
    """What is tried on hidden labels, by name."""
    return {f"SCDP-3, rate {rate:g}": replace(SCDP3, separation=Near(rate)) for rate in _RATES}

"""With which settings the suite `supervised` runs the chains of SCDP, and how they were chosen.

The paper's models have the paper's settings. `chosen()` are further ones: what does best where some
of the labelled digits are hidden, which `kbforge bench supervised --set suite.hidden=true` measures
for all of `candidates()`. The digits to be grouped have no say in it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from kbforge.clustering.supervised import sampler
from kbforge.clustering.supervised.sampler import SCDP1, SCDP2, SCDP3, Scdp
from kbforge.clustering.supervised.separation import Near

UNTRAINED = "CDP"
_RATES = (1.0, 0.3, 0.1, 0.03, 0.01, 0.003)


def published() -> Mapping[str, Scdp]:
    """The models of the paper, by the names of its table; CDP sees no examples."""
    return {UNTRAINED: sampler.UNTRAINED, "SCDP-1": SCDP1, "SCDP-2": SCDP2, "SCDP-3": SCDP3}


def candidates() -> Mapping[str, Scdp]:
    """What is tried on hidden labels, by name."""
    return {f"SCDP-3, rate {rate:g}": replace(SCDP3, separation=Near(rate)) for rate in _RATES}


def chosen() -> Mapping[str, Scdp]:
    """What did best on hidden labels, by name."""
    return {name: candidates()[name] for name in ("SCDP-3, rate 0.003",)}

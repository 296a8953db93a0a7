"""An annealed warm-up, after which a chain forgets its start.

Sweeps of the same model, but of a likelihood to a power that grows to the model's own. At a small
one publications and types are few and mix; they part as the power grows. It is a burn-in only: none
of its states is one of the posterior, and the chain that follows is the model's.

Source: Kirkpatrick, Gelatt and Vecchi (1983), "Optimization by simulated annealing", for the idea.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from kbforge_lab.scdp.references import References
from kbforge_lab.scdp.sampler import Scdp, State, sweep

_LEAST = 0.02
"""Of the model's power, in the first sweep."""


def warmed_up(
    model: Scdp, data: References, state: State, sweeps: int, rng: np.random.Generator
) -> State:
    """A state to start a chain from."""
    for share in np.geomspace(_LEAST, 1.0, sweeps):
        state = sweep(replace(model, power=model.power * float(share)), data, state, rng)
    return state

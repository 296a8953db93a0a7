"""How far a run has come: its stages before clustering, its steps, and how to end it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeAlias

from kbforge.contracts.posterior import Posterior


@dataclass(frozen=True, slots=True)
class Stage:
    """A stage of the work before the first step.

    Attributes:
        doing: what is done, as `choosing a likelihood: learning attributes`.
        number: of the stage, from 1.
        of: how many stages there are.

    """

    doing: str
    number: int
    of: int


OnStage: TypeAlias = Callable[[Stage], None]
"""Is told of every stage when it begins."""


@dataclass(frozen=True, slots=True)
class Rounds:
    """How far a method has come that goes over all fragments again and again.

    Attributes:
        done: sweeps (or merges) so far.
        most: after how many it ends at the latest, None if that is not known.
        clusters: how many there are in the most probable grouping so far.
        log_posterior: of that grouping, unnormalised, in nats.
        probability: whether it is one; else it is a score, as `Likelihood.probability` says.

    """

    done: int
    most: int | None
    clusters: int
    log_posterior: float
    probability: bool = True


@dataclass(frozen=True, slots=True)
class Progress:
    """The state of a run after a step, for progress bars, plots and logs.

    `posterior()`, where the clusterer offers it, is what the run would return if it ended here; it
    costs as much as the state is large, and is valid only during the call of `on_step`.

    Online methods step from fragment to fragment. Offline ones, which have `rounds`, step from
    round to round, and within long rounds once in a while; they hold one grouping as they go, so
    that `subproblems` is 1 until their posterior is made of what they have visited.
    """

    fragments: int
    total: int
    subproblems: int
    log10_effective_particles: float
    model_evaluations: int
    posterior: Callable[[], Posterior] | None = field(default=None, compare=False, repr=False)
    rounds: Rounds | None = None


class Interrupted(Exception):
    """Raised by an `on_step` callback to end a run early and keep what there is."""


OnStep: TypeAlias = Callable[[Progress], None]
"""Is told of every step; one with an attribute `seldom` that is True, some times a second."""

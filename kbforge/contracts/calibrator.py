"""Calibrators: choose the Dirichlet-process concentration alpha for a likelihood.

Scaling every cluster's likelihood by e^c is the same as scaling alpha by e^c, so alpha is also the
likelihood's one free constant (the `offset` of the published code: alpha 1 with offset c is alpha
e^c). One signature for the family:

    calibrate(fragments, spec, clusterer, search, rng) -> CalibrationResult
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from kbforge.contracts.clusterer import Clusterer, ModelSpec
from kbforge.contracts.fragment import Fragment


@dataclass(frozen=True, slots=True)
class Search:
    """The range to search: log alpha in [low, high], natural logs."""

    low: float = -10.0
    high: float = 50.0


@dataclass(frozen=True, slots=True)
class CalibrationResult:
    """The chosen alpha."""

    alpha: float
    objective: float  # at alpha, in the calibrator's unit
    at_edge: str  # "low" or "high" if the maximum is at that edge of the search range, else ""
    curve: tuple[tuple[float, float], ...]  # (alpha, objective) of every evaluation, by alpha


class Calibrator(ABC):
    """A rule for choosing alpha. The constructor's parameters are its options.

    Attributes:
        needs_labels: whether it reads the fragments' gold labels.

    """

    needs_labels: ClassVar[bool] = False

    @abstractmethod
    def calibrate(
        self,
        fragments: Sequence[Fragment],
        spec: ModelSpec,
        clusterer: Clusterer,
        search: Search,
        rng: np.random.Generator,
        on_evaluation: Callable[[float, float], None] | None = None,
    ) -> CalibrationResult:
        """Choose alpha; `spec.alpha` is ignored.

        `clusterer` serves the calibrators that cluster. `on_evaluation(alpha, objective)` is
        called after each evaluation, for progress bars.
        """

"""Calibrating: the concentration alpha, chosen from fragments."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from kbforge import registry
from kbforge.contracts import CalibrationResult, Calibrator, Fragment, Search
from kbforge.errors import KBForgeError, UsageError
from kbforge.files.records import Option
from kbforge.fit.calibration import Calibration, fingerprint
from kbforge.fit.choices import Choices
from kbforge.fit.prepare import prepare

_BLOCKS = "▁▂▃▄▅▆▇█"


@dataclass(frozen=True, slots=True)
class Calibrated:
    """A finished calibration.

    Attributes:
        calibration: what the file holds.
        curve: (alpha, objective) of every evaluation, by alpha.
        notes: sentences for the user.

    """

    calibration: Calibration
    curve: tuple[tuple[float, float], ...]
    notes: tuple[str, ...]

    def summary(self) -> dict[str, Any]:
        """The figures that `kbforge calibrate --json` prints."""
        c = self.calibration
        return {
            "alpha": c.alpha,
            "log_alpha": c.log_alpha,
            "objective": c.objective,
            "value": c.value,
            "at_edge": c.at_edge,
            "likelihood": c.likelihood,
            "fragments": c.fragments,
            "evaluations": len(self.curve),
            "curve": [list(point) for point in self.curve],
        }


@dataclass(frozen=True, slots=True)
class CalibrationSettings:
    """Which calibrator, where it looks, and its options."""

    calibrator: str = "pseudo-likelihood"
    search: Search = field(default_factory=Search)
    options: Mapping[str, object] = field(default_factory=dict)


def search_between(low: float | None, high: float | None) -> Search:
    """The search range between two concentrations; None keeps the default.

    Raises:
        UsageError: not positive, not finite, or low is not below high.

    """
    default = Search()
    for option, alpha in (("--low", low), ("--high", high)):
        if alpha is not None and not (alpha > 0 and math.isfinite(alpha)):
            raise UsageError(f"{option}: expected an alpha above 0, got {alpha:g}")
    search = Search(
        default.low if low is None else math.log(low),
        default.high if high is None else math.log(high),
    )
    if not search.low < search.high:
        raise UsageError(
            f"--low {math.exp(search.low):g} must be below --high {math.exp(search.high):g}"
        )
    return search


def calibrate(
    fragments: Sequence[Fragment],
    choices: Choices,
    settings: CalibrationSettings,
    on_evaluation: Callable[[float, float], None] | None = None,
) -> Calibrated:
    """Choose alpha for the likelihood that `choices` names.

    Raises:
        KBForgeError: no fragments, no labels where the calibrator needs them, an unknown plugin or
            option.
        LikelihoodError: the likelihood failed on a fragment, which the message names.

    """
    if not fragments:
        raise KBForgeError("there are no fragments to calibrate on")
    calibrator: Calibrator = registry.create("calibrators", settings.calibrator, settings.options)
    # any alpha will do: it is what the calibrator looks for
    prepared = prepare(fragments, replace(choices, alpha=1.0, calibration=None))
    result = calibrator.calibrate(
        fragments,
        prepared.problem,
        prepared.clusterer,
        settings.search,
        np.random.default_rng(choices.seed),
        on_evaluation,
    )
    calibration = Calibration(
        alpha=result.alpha,
        objective=settings.calibrator,
        value=result.objective,
        at_edge=result.at_edge,
        likelihood=prepared.likelihood,
        options={key: _option(value) for key, value in choices.of("likelihood").items()},
        fragments=len(fragments),
        sha256=fingerprint(fragments),
    )
    return Calibrated(
        calibration, result.curve, prepared.notes + _edge_note(result, settings.search)
    )


def sparkline(curve: Sequence[tuple[float, float]], width: int = 48) -> str:
    """The objective over log alpha as one line of blocks, `width` characters."""
    places = np.log([alpha for alpha, _ in curve])
    values = np.array([value for _, value in curve])
    finite = np.isfinite(values)
    if not finite.any():
        return ""
    values = np.interp(np.linspace(places[0], places[-1], width), places[finite], values[finite])
    span = float(np.ptp(values)) or 1.0
    heights = (values - values.min()) / span * (len(_BLOCKS) - 1)
    return "".join(_BLOCKS[int(height)] for height in heights.round())


def _edge_note(result: CalibrationResult, search: Search) -> tuple[str, ...]:
    if not result.at_edge:
        return ()
    edge = math.exp(search.low if result.at_edge == "low" else search.high)
    return (
        f"the best alpha lies at the {result.at_edge} edge of the search range ({edge:.4g}): widen "
        f"the range with --{result.at_edge}; if it stays at the edge, these fragments do not bound "
        f"alpha",
    )


def _option(value: object) -> Option:
    return value if isinstance(value, str | int | float | bool) else str(value)

"""A monotone map from what a posterior reports to how often such reports are true.

A truncated posterior under a misspecified likelihood is too sure of itself, and the more so the
more fragments there are in a subproblem to be wrong about. The map therefore reads the report p and
the size s of the subproblem:

1. Claims with known truth are put into bands of sizes (1, 2, 3-4, 5-8, ...) and, within a band,
   into cells of equal width in logit p.
2. A cell's share of true claims is drawn towards what a map of all sizes says, as strongly as a few
   more subproblems would. Claims of one subproblem are true or false together, so subproblems count
   as evidence and claims do not. Thin bands so follow the others, and no band is certain on the
   strength of a few.
3. In each band, weighted isotonic regression (pool adjacent violators) over logit p.

Between cells the map is linear in logit p, beyond them constant. In p it never decreases. How it
goes with s is left to the data. Pairs of large subproblems are the less reliable ones. But an
entity that stands alone, with nothing to compare it to, is often a part of a larger one.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from kbforge.contracts import FloatArray, IntArray
from kbforge.evaluation.reliability import Claims

_LIMIT = math.log(999)  # logits beyond p = .999 are one cell: what 1 means is for the data to say
_CELL = 0.5  # nats of logit p
_EVIDENCE = 10.0  # what the map of all sizes counts for in a cell of a band, in subproblems


@dataclass(frozen=True, slots=True)
class Band:
    """The map for the subproblems of some sizes.

    Attributes:
        largest: fragments of the largest subproblem of the band; infinite for the last band.
        claims: how many it was fitted on.
        reported: probabilities, never descending, at least one.
        calibrated: what they are mapped to, in [0, 1], never descending.

    """

    largest: float
    claims: int
    reported: tuple[float, ...]
    calibrated: tuple[float, ...]

    def apply(self, probability: FloatArray) -> FloatArray:
        """The calibrated probabilities of reports, same shape."""
        knots = _logit(np.array(self.reported))
        return np.interp(_logit(probability), knots, self.calibrated)


@dataclass(frozen=True, slots=True)
class MonotoneMap:
    """Bands by ascending `largest`, the last of them infinite."""

    bands: tuple[Band, ...]

    def apply(self, probability: FloatArray, size: FloatArray) -> FloatArray:
        """The calibrated probabilities of reports from subproblems of these sizes, same shape."""
        out = np.empty(len(probability))
        number = np.searchsorted([band.largest for band in self.bands], size)
        for k, band in enumerate(self.bands):
            out[number == k] = band.apply(probability[number == k])
        return out

    def one(self, probability: float, size: float) -> float:
        """The calibrated probability of one report."""
        return float(self.apply(np.array([probability]), np.array([float(size)]))[0])


def fit(claims: Claims) -> MonotoneMap:
    """The map of claims whose truth is known.

    Raises:
        ValueError: there are no claims.

    """
    if not len(claims):
        raise ValueError("no claims to fit a map to")
    # one true and one false subproblem more than there were: nothing is certain for ever
    subproblems = len(np.unique(claims.subproblem))
    share = (claims.true.mean() * subproblems + 1) / (subproblems + 2)
    anywhere = _fit_band(claims, math.inf, np.full(len(claims), share), 1.0)
    doubling = np.ceil(np.log2(np.maximum(claims.size, 1))).astype(np.int64)
    bands = []
    for k in np.unique(doubling).tolist():
        part = claims.where(doubling == k)
        largest = math.inf if k == doubling.max() else float(2**k)
        bands.append(_fit_band(part, largest, anywhere.apply(part.probability), _EVIDENCE))
    return MonotoneMap(tuple(bands))


def isotonic(values: FloatArray, weights: FloatArray) -> FloatArray:
    """The non-descending sequence next to `values` in weighted least squares, same shape."""
    from scipy.optimize import isotonic_regression  # .2 s to import, and few maps are fitted

    return np.asarray(isotonic_regression(values, weights=weights).x, np.float64)


def _fit_band(claims: Claims, largest: float, prior: FloatArray, strength: float) -> Band:
    """Isotonic regression on cells of claims.

    Args:
        claims: those of the band.
        largest: its largest size.
        prior: of each claim, that it is true, shape [claims].
        strength: what the prior counts for in a cell, in subproblems.

    """
    _, cell, counts = np.unique(_cells(claims.probability), return_inverse=True, return_counts=True)
    reported, true, expected = (
        np.bincount(cell, weights=values) / counts
        for values in (claims.probability, claims.true.astype(np.float64), prior)
    )
    evidence = _distinct(cell, claims.subproblem)
    share = (evidence * true + strength * expected) / (evidence + strength)
    calibrated = np.clip(isotonic(share, counts.astype(np.float64)), 0.0, 1.0)
    # six digits say more than any data can, and people can read them
    reported, calibrated = np.round(reported, 6), np.round(calibrated, 6)
    kept = _ends_of_runs(calibrated)
    knots, values = tuple(reported[kept].tolist()), tuple(calibrated[kept].tolist())
    return Band(largest, len(claims), knots, values)


def _cells(probability: FloatArray) -> IntArray:
    return np.floor(_logit(probability) / _CELL).astype(np.int64)


def _distinct(cell: IntArray, subproblem: IntArray) -> FloatArray:
    """How many subproblems each cell has claims of, shape [cells]."""
    width = int(subproblem.max()) + 1
    return np.bincount(np.unique(cell * width + subproblem) // width).astype(np.float64)


def _ends_of_runs(values: FloatArray) -> IntArray:
    """The places between which interpolation finds all values."""
    left = np.diff(values, prepend=np.nan) != 0
    right = np.diff(values, append=np.nan) != 0
    return np.flatnonzero(left | right)


def _logit(probability: FloatArray) -> FloatArray:
    """In nats, within +-log 999."""
    with np.errstate(divide="ignore"):
        odds: FloatArray = np.log(probability) - np.log1p(-probability)
    return np.clip(odds, -_LIMIT, _LIMIT)

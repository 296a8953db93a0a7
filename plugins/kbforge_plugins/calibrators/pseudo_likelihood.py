"""Calibrate by the pseudo-likelihood of the gold clustering (Besag 1975, on assignments).

    f(a) = sum over labelled i of  log p(z_i = gold | all other gold assignments, x),  a = log alpha

each term normalised over all gold clusters plus a new one. (The unnormalised log posterior of the
gold clustering is linear in a and has no maximum.) With the terms of `reassignment`, and
r_i = new_i - existing_i the log odds at alpha = 1 that i opens a new cluster,

    f(a) = sum over i alone in its cluster of         log sigmoid(a + r_i)
         + sum over the others of  own_i - existing_i + log sigmoid(-(a + r_i)),

a logistic regression with an intercept only: concave, with one maximum, where the expected number
of new clusters equals that of the singletons in the gold clustering. The maximum is finite unless
every or no gold cluster is a singleton; then it lies at that edge.

Because one fragment at a time is taken out, entities known from one fragment pull alpha up and all
others down: the fewer singletons the gold clustering has, the smaller the alpha. A calibration set
should therefore have about as many singletons as the data it is for.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from scipy.optimize import brentq
from scipy.special import log_expit, logsumexp

from kbforge.contracts.calibrator import CalibrationResult, Calibrator, Search
from kbforge.contracts.clusterer import Clusterer, Problem
from kbforge.contracts.fragment import Fragment
from kbforge.contracts.likelihood import FloatArray
from kbforge.errors import LikelihoodError, quoted
from kbforge_plugins.calibrators.gold import gold_clusters, labelled_only
from kbforge_plugins.calibrators.reassignment import Terms, reassignment_terms

_CURVE_POINTS = 36
_TOLERANCE = 1e-9  # nats of log alpha


class PseudoLikelihood(Calibrator):
    """Maximise the pseudo-likelihood of the gold assignments. Objective: nats, summed.

    Fragments without a label are ignored.
    """

    needs_labels = True

    def calibrate(
        self,
        fragments: Sequence[Fragment],
        problem: Problem,
        clusterer: Clusterer,
        search: Search,
        rng: np.random.Generator,
        on_evaluation: Callable[[float, float], None] | None = None,
    ) -> CalibrationResult:
        """Choose alpha; neither the clusterer nor random numbers are used.

        Raises:
            KBForgeError: no fragment has a label.
            LikelihoodError: NaN, or a fragment that is impossible where gold puts it.

        """
        labelled = labelled_only(fragments, "pseudo-likelihood")
        with np.errstate(invalid="ignore"):  # -inf less -inf is NaN, which the check reports
            terms = reassignment_terms(labelled, gold_clusters(labelled), problem)
        _check(labelled, terms)
        log_odds_new = terms.new - terms.existing
        best, at_edge = _maximum(log_odds_new[terms.alone], log_odds_new[~terms.alone], search)
        curve = []
        for log_alpha in sorted({*np.linspace(search.low, search.high, _CURVE_POINTS), best}):
            point = float(np.exp(log_alpha)), _pseudo_likelihood(float(log_alpha), terms)
            curve.append(point)
            if on_evaluation is not None:
                on_evaluation(*point)
        alpha = float(np.exp(best))
        return CalibrationResult(alpha, dict(curve)[alpha], at_edge, tuple(curve))


def _pseudo_likelihood(log_alpha: float, terms: Terms) -> float:
    """f(a), in nats."""
    z = log_alpha + terms.new - terms.existing
    kept = ~terms.alone
    fit = terms.own[kept] - terms.existing[kept]
    return float(log_expit(z[terms.alone]).sum() + (fit + log_expit(-z[kept])).sum())


def _maximum(alone: FloatArray, kept: FloatArray, search: Search) -> tuple[float, str]:
    """(log alpha at the maximum, edge) from the log odds of fragments alone and in company.

    The slope is a difference of two positive sums; its sign is taken from their logs, which do not
    underflow where both sums are tiny.
    """

    def slope_sign(log_alpha: float) -> float:
        rising = logsumexp(log_expit(-(log_alpha + alone))) if alone.size else -np.inf
        falling = logsumexp(log_expit(log_alpha + kept)) if kept.size else -np.inf
        if rising == falling:
            return 0.0
        return float(np.clip(rising - falling, -1e300, 1e300))

    if slope_sign(search.low) <= 0:
        return search.low, "low"
    if slope_sign(search.high) >= 0:
        return search.high, "high"
    return float(brentq(slope_sign, search.low, search.high, xtol=_TOLERANCE)), ""


def _check(labelled: Sequence[Fragment], terms: Terms) -> None:
    """Every fragment must be possible in its gold cluster, or no alpha explains the labels."""
    gold = np.where(terms.alone, terms.new, terms.own)
    impossible = np.isneginf(gold)
    undefined = np.isnan([gold, terms.existing, terms.new]).any(axis=0)
    for bad, what in ((impossible, "probability zero in its gold cluster"), (undefined, "NaN")):
        if bad.any():
            name = quoted(labelled[int(np.argmax(bad))].id)
            raise LikelihoodError(
                f'the likelihood gives fragment "{name}" {what}; '
                f"it cannot be calibrated on these labels"
            )

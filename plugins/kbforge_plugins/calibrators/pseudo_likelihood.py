r"""The calibrator `pseudo-likelihood` of the gold clustering (Besag 1975).

    f(a) = sum over labelled i of  log p(z_i = gold | all other gold assignments, x),  a = log alpha

each term normalised over all gold clusters plus a new one. (The unnormalised log posterior of the
gold clustering is linear in a and has no maximum.) With the terms below, and
r_i = new_i - existing_i the log odds at alpha = 1 that i opens a new cluster,

    f(a) = sum over i alone in its cluster of         log sigmoid(a + r_i)
         + sum over the others of  own_i - existing_i + log sigmoid(-(a + r_i)),

a logistic regression with an intercept only: concave, with one maximum, where the expected number
of new clusters equals that of the singletons in the gold clustering. The maximum is finite unless
every or no gold cluster is a singleton; then it lies at that edge.

Only one fragment at a time is reassigned, so singletons raise alpha and all other entities lower
it: the fewer singletons the gold clustering has, the smaller the alpha. A calibration set should
therefore have about as many singletons as the data to be clustered.

Reassignment terms measure how well each fragment fits each gold cluster without it.

For fragment i of gold cluster c(i), in nats:

    own_i       log |C \ i| + L(C) - L(C \ i)         C = c(i); -inf if i is alone in it
    existing_i  logsumexp of own_i and, over all other gold clusters C,
                log |C| + L(C + i) - L(C)
    new_i       L({i})                                   to which log alpha is added

The pseudo-likelihood needs only these three numbers per fragment, and none depends on alpha.

A live table of a conjugate model holds the gold clusters. Only own_i is computed differently,
because every fragment needs it: the sets C \ i are built by halving. A table that holds everything
outside a range of members is extended by one half of the range, to serve the other half. That takes
|C| log2 |C| extensions of any table, where a table that cannot edit clusters would take |C|^2.

A black box scores whole sets, each once: in large batches, and without a cache, which would grow by
an entry for each fragment and cluster and never be used. With a surrogate only the `max_evals`
other clusters that it ranks highest are scored for each fragment; the others are left out of
existing_i.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

import numpy as np
from scipy.special import log_expit, logsumexp

from kbforge.contracts import (
    CalibrationResult,
    Calibrator,
    Cluster,
    Clusterer,
    ConjugateLikelihood,
    FloatArray,
    Fragment,
    IntArray,
    Likelihood,
    LiveClusters,
    ModelSpec,
    Observation,
    Search,
)
from kbforge.errors import LikelihoodError, quoted
from kbforge.numerics import root_of
from kbforge_plugins.calibrators import gold_clusters, labelled_only

_BATCH = 2_048  # sets that a black box scores in one call


@dataclass(frozen=True, slots=True)
class Terms:
    """The terms of each fragment; shape [n] each, in nats."""

    own: FloatArray
    existing: FloatArray
    new: FloatArray
    alone: np.ndarray[tuple[int], np.dtype[np.bool_]]


def reassignment_terms(
    fragments: Sequence[Fragment], clusters: Sequence[Cluster], spec: ModelSpec
) -> Terms:
    """The terms of every fragment under a gold clustering of all fragments."""
    model: Likelihood = spec.likelihood
    if spec.surrogate is not None and spec.max_evals == 0:
        model = spec.surrogate
    cluster_of = np.empty(len(fragments), dtype=np.int64)
    for number, cluster in enumerate(clusters):
        cluster_of[list(cluster)] = number
    sizes = np.array([len(cluster) for cluster in clusters], dtype=np.int64)
    alone = sizes[cluster_of] == 1
    if isinstance(model, ConjugateLikelihood):
        own, existing, new = _by_live_tables(model, fragments, clusters, cluster_of)
    else:
        own, existing, new = _by_scoring_sets(model, fragments, clusters, cluster_of, spec)
    return Terms(own, existing, new, alone)


# --- conjugate models -----------------------------------------------------------------------------


class GrownClusters:
    """A live table whose clusters grow by fragments, and slots 0..n_slots-1 for them."""

    def __init__(self, table: LiveClusters) -> None:
        self.table = table
        self.n_slots = 0
        self._free: list[int] = []

    def add(self, x: Observation, parent: int) -> int:
        """The slot of parent + x; the parent stays. A parent of -1 is the empty cluster."""
        if self._free:
            child = self._free.pop()
        else:
            child, self.n_slots = self.n_slots, self.n_slots + 1
        self.table.extend(x, np.array([parent]), np.array([child]))
        return child

    def add_all(self, xs: Sequence[Observation], parent: int) -> int:
        """The slot of parent + all of xs; the parent stays."""
        slot = parent
        for x in xs:
            child = self.add(x, slot)
            if slot != parent:
                self.release(slot)
            slot = child
        return slot

    def release(self, slot: int) -> None:
        """Forget a cluster; its slot is free."""
        self.table.release(np.array([slot]))
        self._free.append(slot)


class _GoldClusters:
    """A live table of all gold clusters."""

    def __init__(
        self,
        model: ConjugateLikelihood,
        fragments: Sequence[Fragment],
        clusters: Sequence[Cluster],
    ) -> None:
        self._grown = grown = GrownClusters(model.live_clusters())
        self._x = x = [grown.table.encode(fragment) for fragment in fragments]
        self.alone = np.array([grown.table.log_predictive_new(one) for one in x])
        self._slots = [grown.add_all([x[i] for i in cluster], -1) for cluster in clusters]
        self._log_size = np.log([len(cluster) for cluster in clusters])

    def joins(self, fragment: int) -> FloatArray:
        """log |C| + L(C + x) - L(C) of every cluster; unspecified for x's own."""
        everywhere = self._grown.table.log_predictive(self._x[fragment], self._grown.n_slots)
        return everywhere[self._slots] + self._log_size


def _by_live_tables(
    model: ConjugateLikelihood,
    fragments: Sequence[Fragment],
    clusters: Sequence[Cluster],
    cluster_of: IntArray,
) -> tuple[FloatArray, FloatArray, FloatArray]:
    gold = _GoldClusters(model, fragments, clusters)
    own = _leave_one_out(model, fragments, clusters)
    existing = np.empty(len(fragments))
    for i in range(len(fragments)):
        terms = gold.joins(i)
        terms[cluster_of[i]] = own[i]
        existing[i] = np.logaddexp.reduce(terms)
    return own, existing, gold.alone


def _leave_one_out(
    model: ConjugateLikelihood, fragments: Sequence[Fragment], clusters: Sequence[Cluster]
) -> FloatArray:
    """log |C \\ i| + L(C) - L(C \\ i) of every fragment, -inf for one that is alone; shape [n]."""
    table = GrownClusters(model.live_clusters())
    out = np.full(len(fragments), -np.inf)
    for cluster in clusters:
        if len(cluster) > 1:
            members = [table.table.encode(fragments[i]) for i in cluster]
            predictive = np.array(list(_each_against_the_rest(table, members, -1)))
            out[list(cluster)] = np.log(len(cluster) - 1) + predictive
    return out


def _each_against_the_rest(
    table: GrownClusters, members: Sequence[Observation], outside: int
) -> Iterator[float]:
    """Log predictive of each member given the other members and the cluster in slot `outside`."""
    if len(members) == 1:
        yield float(table.table.log_predictive(members[0], table.n_slots)[outside])
        return
    half = len(members) // 2
    for part, rest in ((members[:half], members[half:]), (members[half:], members[:half])):
        slot = table.add_all(rest, outside)
        yield from _each_against_the_rest(table, part, slot)
        table.release(slot)


# --- black boxes ----------------------------------------------------------------------------------


def _by_scoring_sets(
    model: Likelihood,
    fragments: Sequence[Fragment],
    clusters: Sequence[Cluster],
    cluster_of: IntArray,
    spec: ModelSpec,
) -> tuple[FloatArray, FloatArray, FloatArray]:
    sets = [[fragments[i] for i in cluster] for cluster in clusters]
    marginal = np.array(list(_scores(model, iter(sets))))
    new = np.array(list(_scores(model, ([fragment] for fragment in fragments))))
    without = _scores(
        model,
        (
            [f for j, f in zip(clusters[c], sets[c], strict=True) if j != i]
            for i, c in enumerate(cluster_of)
        ),
    )
    sizes = np.array([len(cluster) for cluster in clusters])
    own = np.full(len(fragments), -np.inf)
    for i, rest in enumerate(without):
        c = cluster_of[i]
        if sizes[c] > 1 and marginal[c] != -np.inf:
            own[i] = np.log(sizes[c] - 1) + marginal[c] - rest
    candidates = _candidates(fragments, clusters, cluster_of, spec)
    joined = _scores(
        model, ([*sets[k], fragments[i]] for i, ks in enumerate(candidates) for k in ks)
    )
    existing = np.empty(len(fragments))
    for i, ks in enumerate(candidates):
        others = np.fromiter(islice(joined, len(ks)), np.float64, len(ks))
        others += np.log(sizes[ks]) - marginal[ks]
        existing[i] = np.logaddexp(own[i], np.logaddexp.reduce(others, initial=-np.inf))
    return own, existing, new


def _scores(model: Likelihood, sets: Iterator[list[Fragment]]) -> Iterator[float]:
    """L of every set, in batches."""
    while batch := list(islice(sets, _BATCH)):
        yield from model.log_marginal(batch)


def _candidates(
    fragments: Sequence[Fragment],
    clusters: Sequence[Cluster],
    cluster_of: IntArray,
    spec: ModelSpec,
) -> list[IntArray]:
    """The other clusters to score for each fragment."""
    everything = np.arange(len(clusters))
    surrogate, most = spec.surrogate, spec.max_evals
    if surrogate is None or most is None or most >= len(clusters) - 1:
        return [np.delete(everything, c) for c in cluster_of]
    gold = _GoldClusters(surrogate, fragments, clusters)
    out = []
    for i, c in enumerate(cluster_of):
        score = gold.joins(i)
        score[c] = -np.inf
        out.append(np.argsort(-score, kind="stable")[:most])
    return out


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
        spec: ModelSpec,
        clusterer: Clusterer,
        search: Search,
        rng: np.random.Generator,
        on_evaluation: Callable[[float, float], None] | None = None,
    ) -> CalibrationResult:
        """Choose alpha; neither the clusterer nor random numbers are used."""
        labelled = labelled_only(fragments, "pseudo-likelihood")
        with np.errstate(invalid="ignore"):  # -inf less -inf is NaN, which the check reports
            terms = reassignment_terms(labelled, gold_clusters(labelled), spec)
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
    """(log alpha at the maximum, edge) from the log odds of individual fragments and of the others.

    The slope is a difference of two positive sums; its sign is taken from their logs, which do not
    underflow if both sums are tiny.
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
    return root_of(slope_sign, search.low, search.high, _TOLERANCE), ""


def _check(labelled: Sequence[Fragment], terms: Terms) -> None:
    """Require that every fragment is possible in its gold cluster; otherwise no alpha explains the
    labels."""
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

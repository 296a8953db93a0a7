"""Tempering: a likelihood with all its log probabilities divided by a temperature.

A likelihood that takes dependent evidence for independent counts it several times over, and the
posterior is too sure. At temperature T the likelihood of a set is p(C)^(1/T): above 1 the posterior
is flatter, below 1 sharper. It needs no labels, and no theory says which T is right.

Alpha is tempered with it, to alpha^(1/T). A concentration that was chosen for a likelihood, by
calibration or by its author, also makes up for the scale of that likelihood: it stands against
L(C + x) - L(C) - L({x}), and would split everything if that alone were divided.
"""

from __future__ import annotations

import contextlib
import math
import weakref
from collections.abc import Mapping, Sequence
from ctypes import CDLL
from dataclasses import replace

import numpy as np

from kbforge.contracts import (
    CompiledClusters,
    ConjugateLikelihood,
    EncodedFragments,
    ExponentialFamily,
    Features,
    FloatArray,
    Fragment,
    IntArray,
    LearnedState,
    Likelihood,
    LiveClusters,
    MergingClusters,
    Observation,
    Problem,
    SetMarginals,
)
from kbforge.errors import UsageError


def tempered(problem: Problem, temperature: float) -> Problem:
    """The problem at a temperature, a finite number above 0; at 1 it is the problem itself."""
    if not (temperature > 0 and math.isfinite(temperature)):
        raise UsageError(f"--temperature: expected a number above 0, got {temperature:g}")
    if temperature == 1:
        return problem
    surrogate = problem.surrogate
    return replace(
        problem,
        likelihood=temper(problem.likelihood, temperature),
        alpha=_tempered_alpha(problem.alpha, temperature),
        surrogate=None if surrogate is None else _TemperedConjugate(surrogate, temperature),
    )


def _tempered_alpha(alpha: float, temperature: float) -> float:
    with contextlib.suppress(OverflowError):
        power = 1 / temperature
        out: float = alpha**power
        if math.isfinite(power) and 0 < out < math.inf:
            return out
    raise UsageError(
        f"--temperature: alpha {alpha:g} at temperature {temperature:g} is out of the range of "
        "numbers; expected a temperature nearer 1"
    )


def temper(likelihood: Likelihood, temperature: float) -> Likelihood:
    """L / temperature, as able as the likelihood is, but of no exponential family."""
    if isinstance(likelihood, ConjugateLikelihood):
        return _TemperedConjugate(likelihood, temperature)
    return _Tempered(likelihood, temperature)


class _Tempered(Likelihood):
    explains = keeps = True

    def __init__(self, likelihood: Likelihood, temperature: float) -> None:
        self._likelihood, self._temperature = likelihood, temperature
        self.explains, self.keeps = likelihood.explains, likelihood.keeps
        self.probability = likelihood.probability
        self._follow()

    def _follow(self) -> None:
        """Have the companions of the other likelihood, which may learn of them from fragments."""
        self.index, surrogate = self._likelihood.index, self._likelihood.surrogate
        self.surrogate = None
        if surrogate is not None:
            self.surrogate = _TemperedConjugate(surrogate, self._temperature)

    @property
    def default_alpha(self) -> float:  # type: ignore[override]  # a fit may change it
        return _tempered_alpha(self._likelihood.default_alpha, self._temperature)

    @property
    def alpha_from_file(self) -> bool:  # type: ignore[override]  # of the class of the other one
        return self._likelihood.alpha_from_file

    def log_marginal(self, clusters: Sequence[Sequence[Fragment]]) -> FloatArray:
        return np.asarray(self._likelihood.log_marginal(clusters), np.float64) / self._temperature

    def fit(self, fragments: Sequence[Fragment]) -> str | None:
        said = self._likelihood.fit(fragments)
        self._follow()
        return said

    def features(self, fragments: Sequence[Fragment]) -> Features | None:
        return self._likelihood.features(fragments)

    def contributions(self, fragment: Fragment, cluster: Sequence[Fragment]) -> Mapping[str, float]:
        return self.contributions_to(fragment, [cluster])[0]

    def contributions_to(
        self, fragment: Fragment, clusters: Sequence[Sequence[Fragment]]
    ) -> Sequence[Mapping[str, float]]:
        return [
            {attribute: value / self._temperature for attribute, value in said.items()}
            for said in self._likelihood.contributions_to(fragment, clusters)
        ]

    def kept(self) -> LearnedState:
        return self._likelihood.kept()

    def take_up(self, kept: LearnedState) -> None:
        self._likelihood.take_up(kept)
        self._follow()

    def forget(self) -> None:
        self._likelihood.forget()


class _TemperedConjugate(_Tempered, ConjugateLikelihood):
    def __init__(self, likelihood: ConjugateLikelihood, temperature: float) -> None:
        super().__init__(likelihood, temperature)
        self._conjugate = likelihood

    def live_clusters(self) -> LiveClusters:
        return _TemperedClusters(self._conjugate.live_clusters(), self._temperature)

    def compiled_clusters(self, kernel: CDLL) -> CompiledClusters | None:
        table = self._conjugate.compiled_clusters(kernel)
        return None if table is None else _TemperedCompiled(kernel, table, self._temperature)

    def compiled_merges(
        self, kernel: CDLL, fragments: Sequence[Fragment]
    ) -> MergingClusters | None:
        """None: only the choice of a likelihood merges clusters, and it tempers none."""
        return None

    def set_marginals(self, fragments: Sequence[Fragment]) -> SetMarginals | None:
        read = self._conjugate.set_marginals(fragments)
        return None if read is None else _TemperedSets(read, self._temperature)

    def exponential_family(self, fragments: Sequence[Fragment]) -> ExponentialFamily | None:
        """None as the other's, or an error: no family has these probabilities.

        Raises:
            UsageError: the other likelihood has a family.

        """
        if self._conjugate.exponential_family(fragments) is None:
            return None
        name = type(self._conjugate).__name__
        raise UsageError(
            f"--temperature: at temperature {self._temperature:g} {name} is not the exponential "
            "family that this sampler needs; expected temperature 1 (leave out --temperature), or "
            "another clusterer"
        )


class _TemperedSets:
    """See `kbforge.contracts.SetMarginals`."""

    def __init__(self, read: SetMarginals, temperature: float) -> None:
        self._read, self._temperature = read, temperature

    def log_marginal(self, sets: Sequence[IntArray]) -> FloatArray:
        return np.asarray(self._read.log_marginal(sets) / self._temperature)


class _TemperedCompiled:
    """See `kbforge.contracts.CompiledClusters`: the kernel divides what the other table scores."""

    def __init__(self, kernel: CDLL, table: CompiledClusters, temperature: float) -> None:
        self._table = table  # holds the clusters, and lives as long as this one
        self.handle: int = kernel.kb_tempered_new(table.handle, temperature)
        self._finalizer = weakref.finalize(self, kernel.kb_table_free, self.handle)

    def encode(self, fragments: Sequence[Fragment]) -> EncodedFragments:
        return self._table.encode(fragments)

    def tell(self, encoded: EncodedFragments) -> None:
        self._table.tell(encoded)


class _TemperedClusters(LiveClusters):
    """A table's scores divided; what it holds, and is able to do, is the table's own affair."""

    editable = mergeable = True

    def __init__(self, table: LiveClusters, temperature: float) -> None:
        self._table, self._temperature = table, temperature
        self.editable, self.mergeable = table.editable, table.mergeable

    def encode(self, fragment: Fragment) -> Observation:
        return self._table.encode(fragment)

    def log_predictive(self, x: Observation, slots: int) -> FloatArray:
        return np.asarray(self._table.log_predictive(x, slots) / self._temperature)

    def log_predictive_of(self, x: Observation, slots: IntArray) -> FloatArray:
        return np.asarray(self._table.log_predictive_of(x, slots) / self._temperature)

    def log_predictive_new(self, x: Observation) -> float:
        return float(self._table.log_predictive_new(x) / self._temperature)

    def extend(self, x: Observation, parents: IntArray, children: IntArray) -> None:
        self._table.extend(x, parents, children)

    def release(self, slots: IntArray) -> None:
        self._table.release(slots)

    def log_predictive_held(self, x: Observation, slot: int) -> float:
        return float(self._table.log_predictive_held(x, slot) / self._temperature)

    def add(self, x: Observation, slot: int) -> None:
        self._table.add(x, slot)

    def gather(self, xs: Sequence[Observation], slot: int) -> None:
        self._table.gather(xs, slot)

    def remove(self, x: Observation, slot: int) -> None:
        self._table.remove(x, slot)

    def log_merge_ratio(self, slot: int, slots: int) -> FloatArray:
        return np.asarray(self._table.log_merge_ratio(slot, slots) / self._temperature)

    def log_merge_ratio_of(self, slot: int, slots: IntArray) -> FloatArray:
        return np.asarray(self._table.log_merge_ratio_of(slot, slots) / self._temperature)

    def merge(self, slot: int, into: int) -> None:
        self._table.merge(slot, into)

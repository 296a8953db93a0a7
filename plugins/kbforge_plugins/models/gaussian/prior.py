"""The normal-inverse-gamma prior of Gaussian clusters, and the points that they are made of."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self, TypeAlias

import numpy as np
from scipy.special import gammaln

from kbforge.contracts.fragment import Fragment
from kbforge.contracts.likelihood import FloatArray, IntArray
from kbforge.errors import LikelihoodError, UsageError, quoted
from kbforge.numerics.logs import PRODUCT
from kbforge_plugins.models.vectors import vector_of

# squares of larger numbers could overflow and turn a probability into NaN
_LARGEST = 1e100

Parameter: TypeAlias = float | tuple[float, ...]
"""One number for all dimensions, or one for each."""


@dataclass(frozen=True, eq=False)
class NormalInverseGamma:
    """sigma^2 ~ InverseGamma(a, b), mean | sigma^2 ~ Normal(mu, sigma^2 / lam), each [] or [D]."""

    a: FloatArray
    b: FloatArray
    mu: FloatArray
    lam: FloatArray
    dimensions: int | None

    @classmethod
    def checked(cls, a: Parameter, b: Parameter, mu: Parameter, lam: Parameter) -> Self:
        """The prior of these parameters.

        Raises:
            UsageError: a parameter out of range, or lists of different lengths.

        """
        given = {"a": a, "b": b, "mu": mu, "lam": lam}
        arrays = {name: np.array(value, dtype=np.float64) for name, value in given.items()}
        for name, values in arrays.items():
            if not (np.abs(values) <= _LARGEST).all():
                raise UsageError(
                    f"likelihood gaussian: {name} must be a finite number, got {given[name]}"
                )
            if name != "mu" and not (values > 0).all():
                raise UsageError(f"likelihood gaussian: {name} must be positive, got {given[name]}")
        lengths = {name: len(values) for name, values in arrays.items() if values.ndim}
        if len(set(lengths.values())) > 1:
            told = ", ".join(f"{length} of {name}" for name, length in lengths.items())
            raise UsageError(f"likelihood gaussian: expected as many values of each, got {told}")
        return cls(**arrays, dimensions=next(iter(lengths.values()), None))

    def require_dimensions(self, dimensions: int | None) -> None:
        """Refuse vectors of another length than the lists of parameters.

        Raises:
            LikelihoodError: they differ.

        """
        if None not in (dimensions, self.dimensions) and dimensions != self.dimensions:
            raise LikelihoodError(
                f"the vectors have {dimensions} numbers, and likelihood gaussian was given "
                f"parameters for {self.dimensions}"
            )


def point_of(fragment: Fragment, dimensions: int | None) -> FloatArray:
    """The vector of a fragment, shape [D].

    Args:
        fragment: any fragment.
        dimensions: how many numbers it must have; None accepts any.

    Raises:
        LikelihoodError: no vector, one of another length, or a number that is too large.

    """
    x = vector_of(fragment, dimensions, "gaussian")
    if np.abs(x).max() > _LARGEST:
        raise LikelihoodError(
            f'fragment "{quoted(fragment.id)}" has a number beyond {_LARGEST:g} in its vector; '
            f"rescale the data"
        )
    return x


@dataclass(frozen=True, eq=False)
class PlacedPrior:
    """The prior of the points of one run, which are taken relative to the first one.

    Attributes:
        origin: the first point, shape [D].
        a: shape [D], as are `b`, `lam` and `centre`.
        b: as in `NormalInverseGamma`.
        lam: likewise.
        centre: mu relative to the origin.
        runs: dimensions in a row with the same a, of which one log can be taken.

    """

    origin: FloatArray
    a: FloatArray
    b: FloatArray
    lam: FloatArray
    centre: FloatArray
    runs: tuple[slice, ...]

    @classmethod
    def by_first(cls, prior: NormalInverseGamma, fragment: Fragment) -> Self:
        """The prior of a run that begins with this fragment.

        Raises:
            LikelihoodError: it has no vector, or one that does not fit the parameters.

        """
        origin = point_of(fragment, None)
        prior.require_dimensions(len(origin))
        a, b, lam = (np.full(len(origin), each) for each in (prior.a, prior.b, prior.lam))
        return cls(origin, a, b, lam, prior.mu - origin, _runs_of(a))

    def relative(self, fragments: Sequence[Fragment]) -> FloatArray:
        """The points of fragments, shape [n, D].

        Raises:
            LikelihoodError: no vector, or one of another length than the first.

        """
        dimensions = len(self.origin)
        vectors = [fragment.vector for fragment in fragments]
        if all(vector is not None and len(vector) == dimensions for vector in vectors):
            points = np.array(vectors, dtype=np.float64).reshape(-1, dimensions)
            if (np.abs(points) <= _LARGEST).all():
                return np.asarray(points - self.origin)
        return np.array([point_of(fragment, dimensions) for fragment in fragments]) - self.origin

    def log_gamma_ratios(self, sizes: IntArray) -> FloatArray:
        """lgamma(a_n + 1/2) - lgamma(a_n) - log(pi) / 2, summed over dimensions, by size n."""
        a_n = self.a + 0.5 * sizes[:, None]
        ratios = gammaln(a_n + 0.5) - gammaln(a_n) - 0.5 * math.log(math.pi)
        summed: FloatArray = ratios.sum(axis=1)
        return summed


def _runs_of(a: FloatArray) -> tuple[slice, ...]:
    ends = [d for d in range(1, len(a)) if a[d] != a[d - 1]] + [len(a)]
    begins = [0, *ends[:-1]]
    return tuple(
        slice(at, min(at + PRODUCT, end))
        for begin, end in zip(begins, ends, strict=True)
        for at in range(begin, end, PRODUCT)
    )

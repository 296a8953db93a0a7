"""The Gaussian mixture of the split-SMC paper: close groups of clusters of very different sizes.

Appendix D.2 draws cluster sizes from a Dirichlet process by stick-breaking, and means in two steps
so that there are several close groups of clusters:

| symbol | drawn from | meaning |
|---|---|---|
| w_k | v_k (1 - v_1) ... (1 - v_{k-1}), v_k ~ Beta(1, alpha) | share of cluster k of K |
| sigma^2_kd | InverseGamma(a, b) | variance of cluster k in dimension d |
| c_g | Normal(mu, 1 / lam) | centre of group g |
| m_k | Normal(c_g, (s sigma_k)^2), g uniform | mean of cluster k |
| x | Normal(m_k, sigma_k^2), k ~ w | a point |

The paper names a = 2, b = 0.5, mu = 0, lam = 0.0002, alpha = 20, K = 100 and 16 groups. The points
that its generator published are not quite of these. Their variances within clusters follow
InverseGamma(2, 2), by 90 nats: b was taken for the scale of the Gamma distribution of 1 / sigma^2.
Of a cluster's mean the text known here says only that it is its group's centre with "an additional
Normal perturbation". That the perturbation is in units of the cluster's own standard deviations,
and that there are s = 5 of them, is not from the paper: it was fitted to the published points.
Those are the defaults here.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from kbforge.contracts.fragment import Fragment
from kbforge.contracts.likelihood import FloatArray, IntArray
from kbforge.errors import UsageError


@dataclass(frozen=True, slots=True)
class Drawn:
    """Points and what they were drawn from; n points, K clusters, G groups, D dimensions.

    Attributes:
        points: x, shape [n, D].
        clusters: the cluster of each point, shape [n].
        weights: w, shape [K], sum 1.
        groups: the group of each cluster, shape [K].
        centres: c, shape [G, D].
        means: m, shape [K, D].
        variances: sigma^2, shape [K, D].

    """

    points: FloatArray
    clusters: IntArray
    weights: FloatArray
    groups: IntArray
    centres: FloatArray
    means: FloatArray
    variances: FloatArray

    def fragments(self) -> list[Fragment]:
        """The points as labelled fragments, `point-0` first."""
        return [
            Fragment(f"point-{i}", {}, vector=tuple(x), label=f"cluster-{k}")
            for i, (x, k) in enumerate(
                zip(self.points.tolist(), self.clusters.tolist(), strict=True)
            )
        ]


@dataclass(frozen=True, slots=True)
class GaussianMixture:
    """The distribution; symbols as above.

    Attributes:
        points: n.
        atoms: K; with n points many of them stay empty.
        alpha: concentration of the Dirichlet process, > 0.
        groups: G.
        a: shape of the variances' inverse Gamma distribution, > 0.
        b: its scale, > 0.
        mu: mean of the groups' centres.
        lam: precision of the groups' centres, > 0.
        spread: s, in standard deviations of a cluster, >= 0.
        dimensions: D.

    Raises:
        UsageError: a parameter out of range.

    """

    points: int = 700
    atoms: int = 100
    alpha: float = 20.0
    groups: int = 16
    a: float = 2.0
    b: float = 2.0
    mu: float = 0.0
    lam: float = 0.0002
    spread: float = 5.0
    dimensions: int = 2

    def __post_init__(self) -> None:
        counts = ("points", "atoms", "groups", "dimensions")
        for name in (*counts, "alpha", "a", "b", "lam"):
            value = getattr(self, name)
            if not 0 < value < math.inf:
                raise UsageError(f"Gaussian mixture: {name} must be positive, got {value}")
        if not 0 <= self.spread < math.inf:
            raise UsageError(f"Gaussian mixture: spread must be at least 0, got {self.spread}")

    def draw(self, rng: np.random.Generator) -> Drawn:
        """One data set, points in random order."""
        weights = stick_breaking(self.atoms, self.alpha, rng)
        shape = (self.atoms, self.dimensions)
        variances = 1 / rng.gamma(self.a, 1 / self.b, shape)
        deviations = np.sqrt(variances)
        centres = rng.normal(self.mu, self.lam**-0.5, (self.groups, self.dimensions))
        groups = rng.integers(self.groups, size=self.atoms)
        means = centres[groups] + self.spread * deviations * rng.normal(size=shape)
        clusters = rng.choice(self.atoms, size=self.points, p=weights)
        noise = rng.normal(size=(self.points, self.dimensions))
        points = means[clusters] + deviations[clusters] * noise
        return Drawn(points, clusters, weights, groups, centres, means, variances)


def stick_breaking(atoms: int, alpha: float, rng: np.random.Generator) -> FloatArray:
    """The first shares of a Dirichlet process, scaled to sum to 1, shape [atoms] (Sethuraman)."""
    pieces = rng.beta(1.0, alpha, size=atoms)
    left = np.concatenate([[1.0], np.cumprod(1 - pieces)[:-1]])
    shares = pieces * left
    return np.asarray(shares / shares.sum())


def separate_gaussians(
    points: int, clusters: int, dimensions: int, spread: float, rng: np.random.Generator
) -> tuple[FloatArray, IntArray]:
    """Points of Gaussians with means and variances of their own, as many of each, in random order.

    Args:
        points: how many.
        clusters: of how many Gaussians.
        dimensions: D.
        spread: standard deviation of the means, which are normal around 0; the variances are
            inverse gamma with shape and scale 2.
        rng: of all draws.

    Returns:
        The points [points, D], and the cluster of each [points].

    """
    means = rng.normal(0.0, spread, (clusters, dimensions))
    deviations = np.sqrt(1 / rng.gamma(2.0, 1 / 2.0, (clusters, dimensions)))
    of = rng.permutation(np.arange(points) % clusters)
    return means[of] + deviations[of] * rng.normal(size=(points, dimensions)), of

"""The rival: memberships and parameters in turn, each given the other.

    z_i | theta, w ~ w_k p(x_i | theta_k)          w | z ~ Dirichlet(alpha/K + n)
    theta_k | z    ~ the posterior of the cluster's parameters

Every fragment is scored by every component, and parameters are drawn for every component and every
word, used or not; given them, fragments are independent of each other. For a mixture of K
components: a Dirichlet process has no end of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
from scipy.sparse import csr_array

from kbforge.clustering.batch.chain import ChainRules
from kbforge.clustering.batch.grouping import clusters_of
from kbforge.clustering.batch.run import Watch, concluded
from kbforge.contracts import (
    Cluster,
    FloatArray,
    Fragment,
    IntArray,
    OnStep,
    Posterior,
    Problem,
)
from kbforge.errors import UsageError
from kbforge_lab.fastex.counts import Counts
from kbforge_lab.fastex.mixture import Mixture
from kbforge_lab.fastex.mixture_run import (
    MixtureRun,
    family_of,
    require_components,
)
from kbforge_lab.fastex.points import Points

_AT_ONCE = 2048
_MOST_NUMBERS = 2**24
"""Of parameters that are drawn at once."""


class _Components(Protocol):
    """Parameters of components, drawn given the memberships, and how they score fragments.

    Attributes:
        size: numbers that a component's parameters are.

    """

    size: int

    def scores(self, z: IntArray, some: range, rng: np.random.Generator) -> FloatArray:
        """log p(x | theta_k) of some components, up to a number for each fragment, [n, some]."""
        ...


class DocumentComponents:
    """theta of documents: a Dirichlet draw over the words, and over those that were never seen.

    Logs of gamma variables: of small shapes they are below the smallest number, so log Gamma(a) is
    drawn as log Gamma(a + 1) + log(U) / a.
    """

    def __init__(self, family: Counts) -> None:
        data = family.data
        if len(family.totals) != 1:
            raise UsageError(
                f"clusterer uncollapsed: expected documents of one attribute, got "
                f"{len(family.totals)}; name it by --set likelihood.attributes=NAME"
            )
        shape = (family.n, family.rows)
        counts = csr_array((data.counts.astype(np.float64), data.rows, data.starts), shape)
        words = np.flatnonzero(data.signs > 0)
        self.size = len(words)
        self._counts = counts[:, words]
        self._pseudo = data.pseudo_counts[words]
        self._rest = float(data.pseudo_counts[family.totals[0]] - self._pseudo.sum())

    def scores(self, z: IntArray, some: range, rng: np.random.Generator) -> FloatArray:
        members = np.flatnonzero((z >= some.start) & (z < some.stop))
        places = (z[members] - some.start, np.arange(len(members)))
        member = csr_array((np.ones(len(members)), places), (len(some), len(members)))
        shape = self._pseudo[:, None] + (member @ self._counts[members]).toarray().T
        log_theta = np.log(rng.standard_gamma(shape + 1.0))
        log_theta += np.log1p(-rng.random(shape.shape)) / shape
        total = np.exp(log_theta).sum(axis=0)
        if self._rest > 0:
            total += rng.standard_gamma(self._rest, len(some))
        return np.asarray(self._counts @ (log_theta - np.log(total)))


class PointComponents:
    """Mean and precision of components, in each dimension."""

    def __init__(self, family: Points) -> None:
        self._family, self.size = family, family.n * family.points.shape[1]

    def scores(self, z: IntArray, some: range, rng: np.random.Generator) -> FloatArray:
        points = self._family.points
        out = np.empty((len(points), len(some)))
        for column, component in enumerate(some):
            x = points[z == component]
            mean = x.mean(axis=0) if len(x) else np.zeros(points.shape[1])
            moments = np.stack([0.0 * mean + len(x), mean, np.square(x - mean).sum(axis=0)])
            a, b, mu, lam = self._family.posterior(moments)
            precision = rng.standard_gamma(a) / b
            away = points - rng.normal(mu, 1 / np.sqrt(lam * precision))
            out[:, column] = 0.5 * (np.log(precision) - precision * np.square(away)).sum(axis=1)
        return out


class UncollapsedRun(MixtureRun):
    """A run of it."""

    def __init__(
        self,
        family: Counts | Points,
        prior: Mixture,
        ends: ChainRules,
        start: Sequence[Cluster],
        rng: np.random.Generator,
    ) -> None:
        super().__init__(family, prior, ends)
        self._rng, self._start = rng, start
        self._components: _Components
        if isinstance(family, Counts):
            self._components = DocumentComponents(family)
        else:
            self._components = PointComponents(family)
        self._z: IntArray = np.full(family.n, -1, dtype=np.int64)
        self._made = 0

    def slots(self) -> IntArray:
        """The number of each fragment's cluster, shape [n]."""
        return self._z.copy()

    def evaluations(self) -> int:
        """Clusters made."""
        return self._made

    def begin(self, watch: Watch) -> None:
        """Place all fragments."""
        self._z = self.labels_of(self._start)
        self.placed, self._made = self.family.n, len(self._start)
        self.log_posterior = self.log_posterior_of(self._start)
        self.keep_best()
        watch.step(self.progress)

    def sweep(self, watch: Watch) -> None:
        """Draw the parameters, then all memberships."""
        self.draw_memberships(watch)
        self.sweeps += 1
        clusters = clusters_of(self._z)
        self._made += len(clusters)
        self.log_posterior = self.log_posterior_of(clusters)
        self.keep_best()
        watch.step(self.progress)

    def draw_memberships(self, watch: Watch) -> None:
        """Draw the parameters, then all memberships."""
        components = self.prior.components
        assert components is not None
        sizes = np.bincount(self._z, minlength=components)
        log_w = np.log(self._rng.dirichlet(sizes + self.prior.share) + 1e-300)
        scores = np.empty((len(self._z), components), dtype=np.float32)
        at_once = max(1, _MOST_NUMBERS // self._components.size)
        for begin in range(0, components, at_once):
            some = range(begin, min(begin + at_once, components))
            scores[:, begin : some.stop] = self._components.scores(self._z, some, self._rng)
            watch.step(self.progress)
        z = self._z.copy()
        for begin in range(0, len(z), _AT_ONCE):
            rows = slice(begin, begin + _AT_ONCE)
            log_p = scores[rows] + log_w
            weights = np.exp(log_p - log_p.max(axis=1, keepdims=True)).cumsum(axis=1)
            aim = self._rng.random(len(weights)) * weights[:, -1]
            z[rows] = (weights <= aim[:, None]).sum(axis=1)
        self._z = z


def run_uncollapsed(
    fragments: Sequence[Fragment],
    problem: Problem,
    components: int,
    ends: ChainRules,
    start: Sequence[Cluster],
    rng: np.random.Generator,
    on_step: OnStep | None = None,
) -> Posterior:
    """Sample groupings of the fragments."""

    def begun() -> UncollapsedRun:
        require_components(start, components)
        family = family_of(problem.likelihood, fragments, "secant")
        return UncollapsedRun(family, Mixture(problem.alpha, components), ends, start, rng)

    return concluded(begun, fragments, problem, ends.budget, on_step)

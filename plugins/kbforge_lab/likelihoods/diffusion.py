"""The diffusion model's likelihood: how probable are these points as one cluster?

    L(C) = log p(x_1..x_n | n), an exchangeable density of n points, in nats

It is had by integrating the model's probability-flow ODE (`models.diffusion.density`). The points
are taken to be blurred by as much as the model was trained to see at least; points that lie on a
curve would have no density otherwise. How many points a cluster has is the Dirichlet process's
business.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Self

import numpy as np

from kbforge.contracts import FloatArray, Fragment, Likelihood
from kbforge.errors import UsageError, quoted
from kbforge.models.bundle import read_bundle
from kbforge_lab.models.diffusion.density import SetDensity, in_order
from kbforge_lab.models.diffusion.trained import SetDiffusion, from_bundle
from kbforge_plugins.likelihoods.gaussian import Gaussian
from kbforge_plugins.likelihoods.score_memory import ScoreMemory
from kbforge_plugins.likelihoods.vectors import vector_of

_BATCH_POINTS = 2_048
_SURE = 1_000.0  # half the points that the surrogate's variance within a cluster is worth


class Diffusion(Likelihood):
    """A diffusion model of sets of points in the plane; one of circles ships with the package.

    Its surrogate, unless the user names one, is a Gaussian whose clusters are as wide, and as far
    apart, as those that the model was trained on.

    Args:
        model: the folder that `kbforge lab train-diffusion` wrote; `none` takes the one that ships.
        steps: of the integration, an even number; more are slower and closer.
        probes: directions from which the divergence is estimated (Skilling-Hutchinson), the same
            for a set every time; 0 computes it exactly, which costs as much as two. The estimate
            of one is 4 to 5 nats off for sets of 10 to 30 circle points, of sixteen nearly 1.
        cache_mb: memory for scores already given, in MiB.

    Raises:
        UsageError: an option out of range.
        ModelError: the model is damaged.

    """

    loads_bundles = True

    def __init__(
        self, model: str | None = None, steps: int = 12, probes: int = 0, cache_mb: int = 64
    ) -> None:
        if steps < 2 or steps % 2:
            raise UsageError(f"likelihood diffusion: steps must be even, 2 or more, got {steps}")
        if probes < 0 or cache_mb < 0:
            raise UsageError("likelihood diffusion: probes and cache_mb cannot be negative")
        path = shipped_model() if model is None else Path(model)
        trained = from_bundle(read_bundle(path), quoted(str(path), 400))
        self.surrogate = _gaussian_as(trained)
        self._density = SetDensity(trained, steps, probes, _BATCH_POINTS)
        self._given: ScoreMemory[bytes] = ScoreMemory(cache_mb)

    @classmethod
    def from_bundle(cls, path: Path, steps: int = 12, probes: int = 0, cache_mb: int = 64) -> Self:
        """Load what `kbforge lab train-diffusion` wrote; the options are the constructor's."""
        return cls(str(path), steps, probes, cache_mb)

    def log_marginal(self, clusters: Sequence[Sequence[Fragment]]) -> FloatArray:
        """L(C) of every cluster, in nats, shape [len(clusters)]."""
        points = [_points(cluster) for cluster in clusters]
        keys = [one.tobytes() for one in points]
        sets = {key: one for key, one in zip(keys, points, strict=True) if key}
        # no fragments have probability one
        known = {b"": 0.0, **self._given.of(sets, self._score)}
        return np.array([known[key] for key in keys], dtype=np.float64)

    def _score(self, sets: Mapping[bytes, FloatArray]) -> FloatArray:
        return self._density(list(sets.values()))


def _gaussian_as(trained: SetDiffusion) -> Gaussian:
    """The Gaussian clusters with the variances that the model takes them to have."""
    within, standard = trained.denoiser.shape.within, trained.standard
    return Gaussian(
        a=_SURE,
        b=_SURE * within * standard.scale**2,
        mu=standard.centre,
        lam=within / (1.0 - within),
    )


def shipped_model() -> Path:
    """The folder of the default model."""
    return Path(str(files("kbforge_lab").joinpath("bundles/circles")))


def _points(cluster: Sequence[Fragment]) -> FloatArray:
    """The points of a cluster in the order that they are scored in, shape [n, 2]."""
    vectors = [vector_of(fragment, 2, "diffusion") for fragment in cluster]
    return in_order(np.array(vectors)) if vectors else np.zeros((0, 2))

"""Training data of a diffusion model of circles: an endless stream of simulated clusters.

A batch holds clusters of one size n; which n is drawn so that small sets are frequent, because
online clustering grows every cluster from one point. Batch number k is a function of the seed and
k, so that a run can go on anywhere. Noise levels are spread evenly over the batch, at random points
of the strata (Kingma et al. 2021, appendix I.1), so that the bound is estimated with less variance.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from kbforge.contracts.likelihood import IntArray
from kbforge_lab.models.diffusion.network import SetDenoiser, Shape
from kbforge_lab.models.diffusion.standard import Standard
from kbforge_lab.suites.circle import Circles
from kbforge_training.fitting.run_folder import Place

_STREAM, _HELD_OUT = 0, 1
_HELD_OUT_BATCHES = 32
_OF_EACH = 4  # clusters of a size whose evidence is averaged


@dataclass(frozen=True, slots=True)
class SizeRule:
    """Which sizes of sets are learned from.

    Attributes:
        largest: points of a set.
        few: up to how many points a set is small.
        small: the part of batches whose sets are small.

    """

    largest: int
    few: int
    small: float

    def draw(self, rng: np.random.Generator) -> int:
        """The size of a batch's sets."""
        return int(rng.integers(1, (self.few if rng.random() < self.small else self.largest) + 1))


@dataclass(frozen=True, slots=True)
class NoisySets:
    """K clusters of n points, standardised, and the noise to be found.

    Attributes:
        points: x, shape [K, n, 2].
        noise: e, shape [K, n, 2].
        log_s: shape [K].
        lengths: n of each cluster, shape [K].

    """

    points: Tensor
    noise: Tensor
    log_s: Tensor
    lengths: IntArray

    @property
    def fragments(self) -> int:
        """Points, all clusters together."""
        return int(self.lengths.sum())


class SetBatches:
    """The stream of batches.

    Args:
        circles: what clusters are; points lie exactly on the rims, the noise levels blur them.
        standard: to the model's coordinates.
        shape: says which noise levels there are.
        sizes: of sets.
        budget: most points of a batch.
        seed: of the stream.

    """

    def __init__(
        self,
        circles: Circles,
        standard: Standard,
        shape: Shape,
        sizes: SizeRule,
        budget: int,
        seed: int,
    ) -> None:
        self._rims = Circles(circles.radius, circles.reach)
        self._standard = standard
        self._low = math.log(shape.least_noise)
        self._range = math.log(shape.most_noise) - self._low
        self._sizes = sizes
        self._budget = budget
        self._seed = seed

    def stream(self, place: Place) -> Iterator[tuple[NoisySets, Place]]:
        """Batches from a place on, each with the place of the next one; never ends."""
        number = place.batch
        while True:
            rng = np.random.default_rng((self._seed, _STREAM, number))
            number += 1
            yield self._draw(rng), Place(batch=number)

    def held_out(self) -> list[NoisySets]:
        """Batches that the stream does not have, the same every time."""
        rng = np.random.default_rng((self._seed, _HELD_OUT))
        return [self._draw(rng) for _ in range(_HELD_OUT_BATCHES)]

    def _draw(self, rng: np.random.Generator) -> NoisySets:
        n = self._sizes.draw(rng)
        k = max(1, self._budget // n)
        points = self._standard(self._rims.points(self._rims.centres(k, rng), n, rng))
        strata = (rng.permutation(k) + rng.random(k)) / k
        return NoisySets(
            torch.tensor(points, dtype=torch.float32),
            torch.tensor(rng.normal(size=points.shape), dtype=torch.float32),
            torch.tensor(self._low + self._range * strata, dtype=torch.float32),
            np.full(k, n, dtype=np.int64),
        )


class DiffusionLoss:
    """The variational bound of a batch, in nats of the data's coordinates.

    The points whose density is bounded are blurred with the least noise: the entropy of that noise
    and the diffusion term of all larger ones make the bound. What the largest leaves to be told is
    less than a thousandth of a nat.

    Args:
        shape: of the model.
        standard: whose scale the density is told in.
        device: where the model is.

    """

    def __init__(self, shape: Shape, standard: Standard, device: torch.device) -> None:
        self._range = math.log(shape.most_noise / shape.least_noise)
        blur = shape.least_noise * standard.scale
        self._entropy = 1.0 + math.log(2.0 * math.pi) + 2.0 * math.log(blur)
        self._device = device

    def __call__(self, model: SetDenoiser, batch: NoisySets) -> Tensor:
        """Nats of all points together, a scalar."""
        points, noise, log_s = (
            tensor.to(self._device) for tensor in (batch.points, batch.noise, batch.log_s)
        )
        noisy = points + log_s.exp()[:, None, None] * noise
        real = torch.ones(points.shape[:2], dtype=torch.bool, device=self._device)
        missed: Tensor = (model(noisy, noisy, log_s, real) - noise).square().sum()
        return self._range * missed + self._entropy * batch.fragments


def standard_of(circles: Circles) -> tuple[Standard, float]:
    """The standardisation of a distribution of clusters, and W, in closed form.

    A centre has variance reach^2 / 3 in each dimension, a point about it radius^2 / 2.
    """
    within = circles.radius**2 / 2.0
    total = circles.reach**2 / 3.0 + within
    return Standard((0.0, 0.0), math.sqrt(total)), within / total


def truth(circles: Circles, sizes: Sequence[int], seed: int) -> float:
    """The entropy that the bound cannot fall below, in nats a point, every size counting the same.

    An estimate, with a standard error of .025 for 32 sizes of the circles that ship.

    Args:
        circles: with noise.
        sizes: of the clusters drawn, some of each.
        seed: of the draws.

    """
    rng = np.random.default_rng((seed, _HELD_OUT))
    drawn = [x for n in sizes for x in circles.points(circles.centres(_OF_EACH, rng), n, rng)]
    return -float(np.mean([circles.log_evidence(x, cells=150) / len(x) for x in drawn]))

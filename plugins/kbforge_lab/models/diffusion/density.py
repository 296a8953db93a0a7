"""The density of sets under a diffusion model, by its probability-flow ODE.

Followed from the least noise s_0 to the most, s_1, points move as dy/ds = e'(y, s), and the log
density along the way changes by minus the divergence of that (Song et al. 2021, appendix D.2):

    L = log p_1(y(s_1)) + int sum_i tr(d e'_i / d y_i) ds,  y(s_0) = x

p_1 is the Gaussian that has the variance of the data and of the noise: points of a set covary by
what their centres vary. Noise levels are equally far apart in u = log s. The path is an exponential
Adams-Bashforth method of third order: e' is a polynomial of u through its last values, integrated
exactly over ds = s du (Zhang and Chen 2023), so that far points, which move on straight lines, cost
no accuracy. The integral of the divergence is Simpson's rule over the same levels.

The divergence is exact: d e'_i / d y_i is had for all points at once by moving each as it is asked
about and leaving it where it is for the others. With `probes` it is estimated instead, as in
Skilling (1989) and Hutchinson (1990): r . J r over directions r of +1 and -1, which the set's own
points determine, so that a set has one score.

Shapes: K sets, padded to N points in two dimensions.
"""

from __future__ import annotations

import hashlib
import math
from collections import deque
from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch import Tensor

from kbforge.contracts import FloatArray
from kbforge_lab.models.diffusion.network import SetDenoiser
from kbforge_lab.models.diffusion.trained import SetDiffusion

_ORDER = 3
# beyond this many standard deviations a float can no longer tell how improbable a point is
_FURTHEST = 1e4

Flow = Callable[[Tensor, float, int], tuple[Tensor, Tensor]]
"""(y, u, step) -> (e' [K, N, 2], its divergence [K] in float64)."""


class SetDensity:
    """Log densities of sets of points."""

    def __init__(self, model: SetDiffusion, steps: int, probes: int, batch_points: int) -> None:
        self._denoiser = model.denoiser.requires_grad_(False)
        self._standard = model.standard
        self._steps = steps
        self._probes = probes
        self._batch_points = batch_points

    def __call__(self, sets: Sequence[FloatArray]) -> FloatArray:
        """L of sets [n, 2] with n >= 1, in nats, shape [len(sets)].

        A set's score does not depend on the order of its points, nor, but for rounding, on the
        sets beside it. A set with a point that is absurdly far away has -inf.
        """
        scores = np.full(len(sets), -math.inf)
        standard = [in_order(self._standard(points)) for points in sets]
        near = [i for i, points in enumerate(standard) if np.abs(points).max() <= _FURTHEST]
        near.sort(key=lambda i: len(standard[i]))
        while near:
            # the largest set of a batch decides how many of its size fit
            fit = max(1, self._batch_points // len(standard[near[-1]]))
            batch, near = near[-fit:], near[:-fit]
            scores[batch] = self._score([standard[i] for i in batch])
        sizes = np.array([len(points) for points in sets], dtype=np.float64)
        return scores - 2.0 * sizes * math.log(self._standard.scale)

    def _score(self, sets: Sequence[FloatArray]) -> FloatArray:
        """Log densities of standardised sets."""
        longest = max(map(len, sets))
        points = torch.zeros(len(sets), longest, 2)
        real = torch.zeros(len(sets), longest, dtype=torch.bool)
        for row, one in enumerate(sets):
            points[row, : len(one)] = torch.from_numpy(one)
            real[row, : len(one)] = True
        if self._probes:
            directions = probe_directions(sets, longest, self._probes, self._steps + 1)
            flow = estimated_flow(self._denoiser, real, directions)
        else:
            flow = exact_flow(self._denoiser, real)
        shape = self._denoiser.shape
        low, high = math.log(shape.least_noise), math.log(shape.most_noise)
        at_end, gained = integrate(flow, points, low, high, self._steps)
        spread = shape.within + shape.most_noise**2
        left = log_gaussian(at_end.double(), real, spread, 1.0 - shape.within)
        return np.asarray((left + gained).numpy())


def in_order(points: FloatArray) -> FloatArray:
    """The points of a set in the one order that they are scored in."""
    return points[np.lexsort(points.T)]


def integrate(
    flow: Flow, points: Tensor, low: float, high: float, steps: int
) -> tuple[Tensor, Tensor]:
    """Follow points from u = low to high in an even number of steps.

    Returns:
        where they are at the end, and the integral of the divergence [K] in float64.

    """
    h = (high - low) / steps
    weights = [adams_bashforth(order, h) for order in range(1, _ORDER + 1)]
    last: deque[Tensor] = deque(maxlen=_ORDER)
    y, gained = points, torch.zeros(len(points), dtype=torch.float64)
    for step in range(steps + 1):
        u = low + step * h
        noise, divergence = flow(y, u, step)
        ends = step in (0, steps)
        gained += (1 if ends else 2 + 2 * (step % 2)) * h / 3 * math.exp(u) * divergence
        last.appendleft(noise)
        if step < steps:
            terms = zip(weights[len(last) - 1], last, strict=True)
            y = y + math.exp(u) * sum(weight * before for weight, before in terms)
    return y, gained


def adams_bashforth(order: int, h: float) -> list[float]:
    """Weights of the last values of f, newest first, in the integral of exp(v) f(v) over [0, h].

    They were taken at v = 0, -h, -2 h ..; polynomials of lower degree than `order` are integrated
    exactly.
    """
    moments = [math.expm1(h)]  # of v^j
    for j in range(1, order):
        moments.append(h**j * math.exp(h) - j * moments[-1])
    powers = (-h * np.arange(order)) ** np.arange(order)[:, None]
    weights: list[float] = np.linalg.solve(powers, np.array(moments)).tolist()
    return weights


def exact_flow(denoiser: SetDenoiser, real: Tensor) -> Flow:
    """The flow with its divergence."""

    def flow(y: Tensor, u: float, _: int) -> tuple[Tensor, Tensor]:
        own = y.clone().requires_grad_()
        noise = denoiser(own, y, torch.full((len(y),), u), real) * real[..., None]
        traces = []
        for axis in (0, 1):
            along = noise[..., axis].sum()
            (slopes,) = torch.autograd.grad(along, own, retain_graph=axis == 0)
            traces.append(slopes[..., axis].sum(dim=1, dtype=torch.float64))
        return noise.detach(), traces[0] + traces[1]

    return flow


def estimated_flow(denoiser: SetDenoiser, real: Tensor, directions: Tensor) -> Flow:
    """The flow with its divergence estimated, by directions [steps + 1, probes, K, N, 2]."""

    def flow(y: Tensor, u: float, step: int) -> tuple[Tensor, Tensor]:
        moved = y.clone().requires_grad_()
        noise = denoiser(moved, moved, torch.full((len(y),), u), real)
        estimates = []
        for direction in directions[step]:
            along = (noise * direction).sum()
            (slopes,) = torch.autograd.grad(along, moved, retain_graph=True)
            estimates.append((slopes * direction).sum(dim=(1, 2), dtype=torch.float64))
        return noise.detach() * real[..., None], torch.stack(estimates).mean(dim=0)

    return flow


def probe_directions(
    sets: Sequence[FloatArray], longest: int, probes: int, evaluations: int
) -> Tensor:
    """Directions of +1 and -1, shape [evaluations, probes, K, N, 2]; 0 where padding is.

    Those of a set follow from its points alone.
    """
    directions = np.zeros((evaluations, probes, len(sets), longest, 2), dtype=np.float32)
    for row, one in enumerate(sets):
        seed = int.from_bytes(hashlib.sha256(one.tobytes()).digest()[:16], "little")
        drawn = np.random.default_rng(seed).integers(0, 2, (evaluations, probes, len(one), 2))
        directions[:, :, row, : len(one)] = 2.0 * drawn - 1.0
    return torch.from_numpy(directions)


def log_gaussian(y: Tensor, real: Tensor, spread: float, between: float) -> Tensor:
    """Log density of points that are Gaussian about a centre that is Gaussian about 0, [K].

    Args:
        y: shape [K, N, 2].
        real: which points are not padding, shape [K, N].

    """
    inside = real[..., None].to(y.dtype)
    n = inside.sum(dim=1)  # [K, 1]
    mean = (y * inside).sum(dim=1) / n
    about = ((y - mean[:, None]) ** 2 * inside).sum(dim=(1, 2)) / spread
    of_mean = (n * mean**2 / (spread + n * between)).sum(dim=1)
    n = n[:, 0]
    logs = (n - 1.0) * math.log(spread) + (spread + n * between).log()
    return -0.5 * (about + of_mean) - logs - n * math.log(2.0 * math.pi)

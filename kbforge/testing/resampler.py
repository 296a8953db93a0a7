"""The laws of `kbforge.contracts.resampler`, as tests."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import pytest

from kbforge.contracts import FloatArray
from kbforge.testing.contract import Contract

_STANDARD_ERRORS = 5.0


class ResamplerContract(Contract):
    """Distinct and ascending, mass preserved, exact when nothing need be dropped.

    Attributes:
        draws: how many draws the test of unbiasedness averages.

    """

    kind: ClassVar[str] = "resamplers"
    draws: ClassVar[int] = 5_000

    def cases(self) -> list[tuple[FloatArray, int]]:
        """(log weights, heaviest first, and size): skewed, tied, tiny, shifted, impossible."""
        rng = np.random.default_rng(5)
        skewed = -np.sort(rng.exponential(3.0, size=20))
        return [
            (skewed, 6),
            (skewed - 2000.0, 6),
            (np.zeros(9), 4),
            (np.log(np.array([0.45, 0.25, 0.1, 0.1, 0.05, 0.05])), 3),
            (np.array([0.0, -1.0, -1.0, -800.0, -900.0]), 2),
            (np.array([0.0, -0.5, -np.inf, -np.inf]), 1),
            (np.array([0.0, -800.0, -801.0, -802.0]), 2),
            (np.array([0.0, -0.5, -1.0, -np.inf, -np.inf]), 4),
            (skewed, 1),
        ]

    def test_distinct_ascending_and_at_most_size(self) -> None:
        for weights, size in self.cases():
            for seed in range(20):
                kept, out = self.make().resample(weights, size, np.random.default_rng(seed))
                assert kept.shape == out.shape
                assert 1 <= len(kept) <= size
                assert (np.diff(kept) > 0).all()
                assert kept[0] >= 0
                assert kept[-1] < len(weights)
                assert not np.isnan(out).any()

    def test_nothing_to_drop_is_unchanged(self) -> None:
        for weights, size in self.cases():
            short = weights[:size]
            kept, out = self.make().resample(short, size, np.random.default_rng(0))
            assert kept.tolist() == list(range(len(short)))
            assert out.tolist() == short.tolist()

    def test_the_input_is_not_changed(self) -> None:
        for weights, size in self.cases():
            before = weights.copy()
            self.make().resample(weights, size, np.random.default_rng(0))
            assert weights.tolist() == before.tolist()

    def test_a_constant_added_is_a_constant_added(self) -> None:
        for weights, size in self.cases():
            for seed in range(10):
                kept, out = self.make().resample(weights, size, np.random.default_rng(seed))
                kept2, out2 = self.make().resample(
                    weights + 64.0, size, np.random.default_rng(seed)
                )
                assert kept2.tolist() == kept.tolist()
                np.testing.assert_allclose(out2, out + 64.0, atol=1e-9)

    def test_impossible_particles_go_first(self) -> None:
        for weights, size in self.cases():
            for seed in range(20):
                kept, _ = self.make().resample(weights, size, np.random.default_rng(seed))
                dropped = np.setdiff1d(np.arange(len(weights)), kept)
                if np.isneginf(weights[kept]).any():
                    assert not np.isfinite(weights[dropped]).any()

    def test_the_seed_decides(self) -> None:
        for weights, size in self.cases():
            one, two = (
                self.make().resample(weights, size, np.random.default_rng(6)) for _ in range(2)
            )
            assert one[0].tolist() == two[0].tolist()
            assert one[1].tolist() == two[1].tolist()

    def test_deterministic_members_keep_the_heaviest(self) -> None:
        if not self.make().keeps_heaviest:
            pytest.skip("this scheme draws")
        for weights, size in self.cases():
            kept, out = self.make().resample(weights, size, np.random.default_rng(7))
            other, _ = self.make().resample(weights, size, np.random.default_rng(8))
            assert kept.tolist() == other.tolist()
            assert out.tolist() == weights[kept].tolist()
            assert out.min() >= np.delete(weights, kept).max()

    def test_drawing_members_are_unbiased(self) -> None:
        """E[W_i] = w_i within five standard errors, for every particle."""
        if self.make().keeps_heaviest:
            pytest.skip("this scheme is not random")
        resampler, rng = self.make(), np.random.default_rng(9)
        for weights, size in self.cases()[:5]:
            mass = np.exp(weights - np.logaddexp.reduce(weights))
            shift = np.logaddexp.reduce(weights)
            heaviest = 0.0
            total, squares = np.zeros(len(weights)), np.zeros(len(weights))
            for _ in range(self.draws):
                kept, out = resampler.resample(weights, size, rng)
                new = np.exp(out - shift)
                total[kept] += new
                squares[kept] += new**2
                heaviest = max(heaviest, float(new.max()))
            mean = total / self.draws
            variance = np.maximum(squares / self.draws - mean**2, 0.0)
            error = np.sqrt(variance / self.draws)
            # a particle of mass m that is kept at weight c appears m / c of the time; one that
            # appears a handful of times says nothing about its variance
            frequent = mass * self.draws >= 30 * heaviest
            off = np.abs(mean - mass) > _STANDARD_ERRORS * error + 1e-9
            assert frequent.any()
            assert not (off & frequent).any()

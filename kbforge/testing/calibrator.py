"""The laws of `kbforge.contracts.calibrator`, as tests."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
import pytest

from kbforge import registry
from kbforge.contracts import CalibrationResult, Fragment, Problem, Search
from kbforge.errors import KBForgeError
from kbforge.testing import examples
from kbforge.testing.contract import Contract
from kbforge.testing.fakes import Categorical


class CalibratorContract(Contract):
    """An alpha within the range searched, reproducible, with its curve."""

    kind: ClassVar[str] = "calibrators"
    search: ClassVar[Search] = Search(-6.0, 6.0)

    def fragments(self) -> list[Fragment]:
        """Labelled fragments."""
        return examples.fragments(24)

    def result(
        self,
        fragments: Sequence[Fragment] | None = None,
        search: Search | None = None,
        alpha: float = 1.0,
        on_evaluation: Any = None,
    ) -> CalibrationResult:
        """One calibration of a small exact model, clustering greedily, with a fixed seed."""
        found: CalibrationResult = self.make().calibrate(
            self.fragments() if fragments is None else fragments,
            Problem(Categorical(), alpha),
            registry.create("clusterers", "greedy"),
            search or self.search,
            np.random.default_rng(12),
            on_evaluation,
        )
        return found

    def test_alpha_lies_in_the_range(self) -> None:
        for search in (self.search, Search(1.0, 2.0), Search(-8.0, -7.0)):
            found = self.result(search=search)
            assert search.low - 1e-9 <= math.log(found.alpha) <= search.high + 1e-9
            assert math.isfinite(found.objective)

    def test_the_edge_is_reported(self) -> None:
        assert self.result().at_edge in ("", "low", "high")
        # far above any sensible alpha the objective cannot prefer still more
        assert self.result(search=Search(15.0, 20.0)).at_edge in ("low", "high")

    def test_the_curve_holds_the_answer(self) -> None:
        found = self.result()
        alphas = [alpha for alpha, _ in found.curve]
        assert alphas == sorted(alphas)
        assert max(value for _, value in found.curve) <= found.objective + 1e-9

    def test_every_evaluation_is_reported(self) -> None:
        reported: list[tuple[float, float]] = []
        found = self.result(on_evaluation=lambda *point: reported.append(point))
        assert reported
        assert {alpha for alpha, _ in reported} >= {alpha for alpha, _ in found.curve}

    def test_the_problems_alpha_is_ignored(self) -> None:
        assert self.result(alpha=50.0) == self.result(alpha=0.1)

    def test_same_seed_same_result(self) -> None:
        assert self.result() == self.result()

    def test_labels_are_needed_or_not_read(self) -> None:
        blind = examples.without_gold(self.fragments())
        if self.make().needs_labels:
            with pytest.raises(KBForgeError):
                self.result(blind)
        else:
            assert self.result(blind) == self.result()

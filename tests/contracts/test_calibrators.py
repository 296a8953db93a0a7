from __future__ import annotations

from kbforge.testing import CalibratorContract


class TestPseudoLikelihood(CalibratorContract):
    name = "pseudo-likelihood"


class TestBCubed(CalibratorContract):
    name = "bcubed"


class TestEmpiricalBayes(CalibratorContract):
    name = "empirical-bayes"

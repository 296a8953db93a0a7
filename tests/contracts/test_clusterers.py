from __future__ import annotations

from typing import ClassVar

from kbforge.testing import ClustererContract


class TestGreedy(ClustererContract):
    name = "greedy"


class TestSmc(ClustererContract):
    name = "smc"
    options: ClassVar = {"particles": 20}


class TestSplitSmc(ClustererContract):
    name = "split-smc"
    options: ClassVar = {"particles": 20}


class TestSplitSmcAsPublished(ClustererContract):
    name = "split-smc"
    options: ClassVar = {"particles": 10, "weights": "marginal", "merge": "multinomial"}


class TestSplitSmcStratified(ClustererContract):
    name = "split-smc"
    options: ClassVar = {"particles": 10, "resampler": "stratified"}


class TestGibbs(ClustererContract):
    name = "gibbs"
    options: ClassVar = {"sweeps": 8}


class TestGibbsSequential(ClustererContract):
    name = "gibbs"
    options: ClassVar = {"sweeps": 5, "start": "sequential", "particles": 3}


class TestMetropolis(ClustererContract):
    name = "metropolis"
    options: ClassVar = {"sweeps": 8}


class TestAgglomerative(ClustererContract):
    name = "agglomerative"


class TestAgglomerativeSampled(ClustererContract):
    name = "agglomerative"
    options: ClassVar = {"batch": 15}

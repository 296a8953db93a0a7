from __future__ import annotations

from typing import ClassVar

from kbforge.testing import ClustererContract, OnlineClustererContract


class TestGreedy(OnlineClustererContract):
    name = "greedy"


class TestSmc(OnlineClustererContract):
    name = "smc"
    options: ClassVar = {"particles": 20}


class TestSplitSmc(OnlineClustererContract):
    name = "split-smc"
    options: ClassVar = {"particles": 20}


class TestSplitSmcAsPublished(OnlineClustererContract):
    name = "split-smc"
    options: ClassVar = {"particles": 10, "weights": "marginal", "merge": "multinomial"}


class TestSplitSmcStratified(OnlineClustererContract):
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


class TestMinsm(ClustererContract):
    name = "minsm"
    options: ClassVar = {"sweeps": 8}


class TestMinsmWithGibbs(ClustererContract):
    name = "minsm"
    options: ClassVar = {"sweeps": 3, "gibbs": 1, "moves": 10, "rows": 2, "start": "sequential"}


class TestMinsmFromOne(ClustererContract):
    name = "minsm"
    options: ClassVar = {"sweeps": 5, "start": "one", "gibbs": 1}


class TestAgglomerative(ClustererContract):
    name = "agglomerative"


class TestAgglomerativeSampled(ClustererContract):
    name = "agglomerative"
    options: ClassVar = {"batch": 15}

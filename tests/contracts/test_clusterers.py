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

from __future__ import annotations

from kbforge.testing import ResamplerContract


class TestGreedy(ResamplerContract):
    name = "greedy"


class TestMultinomial(ResamplerContract):
    name = "multinomial"


class TestStratified(ResamplerContract):
    name = "stratified"


class TestOptimal(ResamplerContract):
    name = "optimal"

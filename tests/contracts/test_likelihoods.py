from __future__ import annotations

from kbforge.testing import LikelihoodContract, SurrogateContract


class TestGaussian(LikelihoodContract):
    name = "gaussian"


class TestBigram(LikelihoodContract):
    name = "bigram"


class TestTrigram(LikelihoodContract):
    name = "trigram"


class TestDirichletMultinomial(LikelihoodContract):
    name = "dirichlet-multinomial"


class TestBetaBernoulli(LikelihoodContract):
    name = "beta-bernoulli"


class TestGaussianSurrogate(SurrogateContract):
    name = "gaussian"


class TestBigramSurrogate(SurrogateContract):
    name = "bigram"


class TestTrigramSurrogate(SurrogateContract):
    name = "trigram"

"""Fragments, and likelihoods for them: the product's and the laboratory's."""

import numpy as np

from kbforge.contracts import Fragment
from kbforge_lab.likelihoods.discrete import BetaBernoulli, DirichletMultinomial
from kbforge_lab.likelihoods.trigram import Trigram
from tests.clustering.test_exactness import FAMILIES as PRODUCT
from tests.clustering.test_exactness import Family, counts, names, records
from tests.clustering.test_failures import fitted


def bits(rng: np.random.Generator, n: int) -> list[Fragment]:
    rows = rng.integers(0, 2, size=(n, 5)).astype(float)
    return [Fragment(f"f{i}", {}, tuple(r.tolist())) for i, r in enumerate(rows)]


OF_VECTORS: dict[str, Family] = {
    "dirichlet-multinomial": (counts, lambda _: DirichletMultinomial(reads="vector")),
    "beta-bernoulli": (bits, lambda _: BetaBernoulli(reads="vector")),
}
FAMILIES: dict[str, Family] = {**PRODUCT, **OF_VECTORS}
OF_RECORDS: dict[str, Family] = {
    "dirichlet-multinomial of values": (records, fitted(DirichletMultinomial)),
    "beta-bernoulli of values": (records, fitted(BetaBernoulli)),
    "trigram": (names, fitted(Trigram)),
}

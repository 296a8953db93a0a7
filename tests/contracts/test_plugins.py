"""The contract tests of the plugins whose kits need nothing more than their names and options."""

from __future__ import annotations

from importlib.util import find_spec
from typing import ClassVar

import pytest

from kbforge.testing import (
    CalibratorContract,
    ExecutorContract,
    GrammarContract,
    IndexContract,
    ResamplerContract,
)


class TestSelective(IndexContract):
    name = "selective"


class TestSelectiveWithARule(IndexContract):
    name = "selective"
    options: ClassVar = {"rules": ("name+colour",), "common": 1}


class TestNgrams(IndexContract):
    name = "ngrams"


class TestNgramsOfNamesAlone(IndexContract):
    name = "ngrams"
    options: ClassVar = {"attributes": ("name",), "order": 4, "common": 1, "rarest": 5}


class TestMinHash(IndexContract):
    name = "minhash"


class TestMinHashOfCharacters(IndexContract):
    name = "minhash"
    options: ClassVar = {"unit": "character", "order": 4, "weighted": False, "rows": 1}


class TestProjection(IndexContract):
    name = "projection"


class TestProjectionByAngles(IndexContract):
    name = "projection"
    options: ClassVar = {"angles": True, "tables": 10, "rows": 3}


class TestBinaryHash(IndexContract):
    name = "binary-hash"


class TestBinaryHashOfCharacters(IndexContract):
    name = "binary-hash"
    options: ClassVar = {"unit": "character", "order": 3, "weighted": False, "bands": 30}


class TestPseudoLikelihood(CalibratorContract):
    name = "pseudo-likelihood"


class TestBCubed(CalibratorContract):
    name = "bcubed"


class TestEmpiricalBayes(CalibratorContract):
    name = "empirical-bayes"


@pytest.mark.skipif(find_spec("ray") is None, reason="ray is not installed: kbforge[ray]")
class TestRay(ExecutorContract):
    name = "ray"


class TestCanonicalJson(GrammarContract):
    name = "canonical-json"


class TestFlatJson(GrammarContract):
    name = "flat-json"


class TestGreedy(ResamplerContract):
    name = "greedy"


class TestMultinomial(ResamplerContract):
    name = "multinomial"


class TestStratified(ResamplerContract):
    name = "stratified"


class TestOptimal(ResamplerContract):
    name = "optimal"

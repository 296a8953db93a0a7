from __future__ import annotations

from typing import ClassVar

from kbforge.testing import IndexContract


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

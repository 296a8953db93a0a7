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

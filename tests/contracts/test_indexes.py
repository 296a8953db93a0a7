from __future__ import annotations

from typing import ClassVar

from kbforge.testing import IndexContract


class TestSelective(IndexContract):
    name = "selective"


class TestSelectiveWithARule(IndexContract):
    name = "selective"
    options: ClassVar = {"rules": ("name+colour",), "common": 1}

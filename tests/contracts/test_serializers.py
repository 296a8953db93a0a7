from __future__ import annotations

from kbforge.testing import SerializerContract


class TestCanonicalJson(SerializerContract):
    name = "canonical-json"


class TestFlatJson(SerializerContract):
    name = "flat-json"

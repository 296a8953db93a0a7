from __future__ import annotations

from kbforge.testing import GrammarContract


class TestCanonicalJson(GrammarContract):
    name = "canonical-json"


class TestFlatJson(GrammarContract):
    name = "flat-json"

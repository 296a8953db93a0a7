from __future__ import annotations

from kbforge.testing import CommandContract


class TestLab(CommandContract):
    name = "lab"

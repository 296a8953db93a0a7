from __future__ import annotations

from typing import ClassVar

from kbforge.testing import CommandContract
from tests.contracts.conftest import Plugins


class TestCommands(CommandContract):
    plugins: ClassVar[Plugins] = ["mcp", "serve"]

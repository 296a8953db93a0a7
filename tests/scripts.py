"""The scripts of examples/reproductions as modules."""

import importlib
import sys
from pathlib import Path
from types import ModuleType
from unittest import mock

FOLDER = Path(__file__).parents[1] / "examples" / "reproductions"


def script(name: str) -> ModuleType:
    """One of them; they import each other as neighbours."""
    with mock.patch.object(sys, "path", [str(FOLDER), *sys.path]):
        return importlib.import_module(name)

"""The folder of real data sets that suites read, which is not part of KBForge."""

from __future__ import annotations

import os
from pathlib import Path

from kbforge.errors import KBForgeError


def data_folder(suite: str, instead: str = "") -> Path:
    """The folder that KBFORGE_DATA names.

    Args:
        suite: who asks, for the error.
        instead: what a user without the data can do, for the error.

    Raises:
        KBForgeError: the variable is not set.

    """
    name = os.environ.get("KBFORGE_DATA")
    if not name:
        hint = f"; {instead}" if instead else ""
        raise KBForgeError(
            f"suite {suite} reads its data from the folder that KBFORGE_DATA names, "
            f"which is not set{hint}"
        )
    return Path(name)

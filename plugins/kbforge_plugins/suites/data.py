"""The folder of real data sets that suites read, which is not part of KBForge."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from kbforge.errors import KBForgeError, quoted


def data_files(suite: str, names: Sequence[str], instead: str) -> list[Path]:
    """Files of the folder that KBFORGE_DATA names.

    Args:
        suite: who asks, for the error.
        names: their paths in that folder.
        instead: what a user without the data can do, for the error.

    Raises:
        KBForgeError: the variable is not set, or a file is not there.

    """
    folder = os.environ.get("KBFORGE_DATA")
    listed = " and ".join(filter(None, [", ".join(names[:-1]), names[-1]]))
    needs = f"suite {suite} reads {listed} in the folder that KBFORGE_DATA names"
    if not folder:
        raise KBForgeError(f"{needs}, which is not set; {instead}")
    paths = [Path(folder) / name for name in names]
    for path in paths:
        if not path.is_file():
            raise KBForgeError(f"{needs}; there is no {quoted(str(path), 400)}; {instead}")
    return paths

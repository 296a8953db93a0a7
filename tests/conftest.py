"""Fixtures that all rooms share."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.program import program

__all__ = ["data_dir", "program"]


@pytest.fixture(scope="session")
def data_dir() -> Path:
    """The folder of real data that KBFORGE_DATA names."""
    name = os.environ.get("KBFORGE_DATA")
    if not name:
        pytest.skip("KBFORGE_DATA is not set; it names the folder of real data sets")
    folder = Path(name)
    assert (folder / "SOURCES.md").is_file(), f"KBFORGE_DATA={name} is not a data folder"
    return folder

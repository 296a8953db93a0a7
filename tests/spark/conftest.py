"""Sessions of Spark."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from typing import Any

import pytest


@pytest.fixture(scope="module")
def spark(request: pytest.FixtureRequest) -> Iterator[Any]:
    """A session at the master that the module names; none without pyspark or Java."""
    pytest.importorskip("pyspark")
    if shutil.which("java") is None:
        pytest.skip("no Java")
    from kbforge_spark.session import session

    with session(request.module.MASTER) as made:
        yield made

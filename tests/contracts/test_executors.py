from __future__ import annotations

from importlib.util import find_spec

import pytest

from kbforge.testing import ExecutorContract


@pytest.mark.skipif(find_spec("ray") is None, reason="ray is not installed: kbforge[ray]")
class TestRay(ExecutorContract):
    name = "ray"

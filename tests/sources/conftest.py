"""Fixtures of the tests of sources."""

import pytest

pytest.register_assert_rewrite("tests.sources.harness")

from tests.sources.harness import kbforge  # noqa: E402

__all__ = ["kbforge"]

"""Contract tests of the kinds that the laboratory adds: suites and features."""

import pytest

# so that a failing assert shows its values, as in the author's own tests
pytest.register_assert_rewrite(f"{__name__}.feature", f"{__name__}.suite")

from kbforge_lab.testing.feature import FeatureContract  # noqa: E402
from kbforge_lab.testing.suite import SuiteContract  # noqa: E402

__all__ = ["FeatureContract", "SuiteContract"]

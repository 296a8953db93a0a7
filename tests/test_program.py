"""The fixture that runs the program: no failure goes unnoticed."""

import pytest

from tests.program import Ran


def test_a_failure_must_be_noticed():
    failed = Ran(("load", "x"), 2, b"", "kbforge: no such file")
    with pytest.raises(AssertionError, match="exit code 2 of: kbforge load x"):
        failed.require_noticed()
    assert failed.code == 2
    failed.require_noticed()
    Ran(("load", "x"), 0, b"", "").require_noticed()

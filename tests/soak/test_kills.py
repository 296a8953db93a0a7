"""The soak in small: a few kills, and the store is as without them."""

import pytest

from tests.people import people
from tests.soak.__main__ import compare


@pytest.mark.slow
def test_ten_kills_leave_no_trace():
    found = people(2500, 5)
    assert compare(found[:600], found[600:], 10, 0, ["--likelihood", "attributes"]) > 0

"""What is packed comes out as it went in."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from kbforge.clustering.session import OnlineSession
from kbforge.clustering.sharding.packing import pack_led, pack_pages, unpack_led, unpack_pages
from kbforge.contracts import Led
from tests.clustering.contents import contents
from tests.clustering.test_conductor import RULES, of_people
from tests.profile import examples

LED = st.builds(Led, st.lists(st.integers(0, 2**40)).map(tuple), st.booleans())


@given(led=st.dictionaries(st.integers(-(2**63), 2**63 - 1), LED))
def test_where_keys_lead(led: dict[int, Led]) -> None:
    assert unpack_led(pack_led(led)) == led
    assert list(unpack_led(pack_led(led))) == list(led)


@examples(30)
@given(entities=st.integers(0, 12), seed=st.integers(0, 1000))
def test_pages_of_a_session(entities: int, seed: int) -> None:
    fragments, problem = of_people(max(entities, 1), seed)
    session = OnlineSession(problem, RULES, np.random.default_rng(0))
    session.add(fragments if entities else [])
    pages = session.snapshot().pages
    assert contents(unpack_pages(pack_pages(pages))) == contents(pages)

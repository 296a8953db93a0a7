"""The parts of pages: sums that are kept, and texts that stay texts."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kbforge.kb.components import chief, environment, moment, source_hash
from tests.profile import examples


@given(st.dictionaries(st.text(max_size=3), st.floats(-50, 50), max_size=40), st.integers(2, 9))
@examples(50)
def test_what_is_left_out_of_a_waterfall_is_one_bar(attributes, most):
    shown = chief(attributes, most)
    assert len(shown) == min(len(attributes), most)
    assert sum(nats for _, nats in shown) == pytest.approx(sum(attributes.values()), abs=1e-9)
    if len(attributes) > most:
        named = [nats for _, nats in shown[:-1]]
        left = sorted(map(abs, attributes.values()))[: len(attributes) - len(named)]
        assert min(map(abs, named)) >= max(left)


def test_the_bars_of_a_waterfall_follow_one_another():
    made = environment().from_string(
        '{% from "components.html" import waterfall %}{{ waterfall(it) }}'
    )
    page = made.render(it={"prior": 1.0, "attributes": {"a": 3.0, "b": -2.0}, "total": 2.0})
    bars = [
        tuple(float(part.split('"')[1]) for part in (bar.split(" x=")[1], bar.split(" width=")[1]))
        for bar in page.split("<rect")[1:]
    ]
    assert bars == [(0.0, 25.0), (25.0, 75.0), (50.0, 50.0), (0.0, 50.0)]
    assert [page.count(f'class="{name}"') for name in ("for", "against")] == [3, 1]


def test_a_text_is_cut_and_cannot_turn_what_is_beside_it():
    made = environment().from_string("{{ it | text(most=12) }}")
    assert made.render(it="<b>\u202e" + "x" * 9) == r"<bdi>&lt;b&gt;\u202exxx…</bdi>"


def test_a_policy_allows_exactly_one_style():
    assert source_hash("") == "sha256-47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU="


def test_a_time_out_of_all_range_is_not_told():
    assert moment(0) == "1970-01-01 00:00"
    assert moment(1e300) == ""

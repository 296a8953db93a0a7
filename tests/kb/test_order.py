"""The order of attributes: that of the file, as far as its records show it."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kbforge.kb.order import AttributeOrder, merged_order

COLUMNS = tuple("hgfedcba")
RECORDS = st.lists(st.sets(st.sampled_from(COLUMNS), min_size=1), min_size=1, max_size=12)
ORDERS = st.lists(st.lists(st.sampled_from(COLUMNS), unique=True), max_size=12)


def of_record(held: set[str]) -> tuple[str, ...]:
    return tuple(column for column in COLUMNS if column in held)


@given(RECORDS)
def test_the_order_of_a_table_agrees_with_every_record(records: list[set[str]]) -> None:
    merged = merged_order(tuple(map(of_record, records)))
    assert set(merged) == set().union(*records)
    for held in records:
        assert tuple(column for column in merged if column in held) == of_record(held)


@given(RECORDS)
def test_a_whole_record_gives_the_order_of_the_table(records: list[set[str]]) -> None:
    assert merged_order((*map(of_record, records), COLUMNS)) == COLUMNS


@given(ORDERS)
def test_orders_that_contradict_each_other_lose_nothing(orders: list[list[str]]) -> None:
    order = AttributeOrder()
    for one in orders:
        order.add(one)
    merged = order.merged()
    assert sorted(merged) == sorted({attribute for one in orders for attribute in one})


def test_of_contradicting_orders_the_first_met_comes_first() -> None:
    assert merged_order((("a", "b"), ("b", "a"))) == ("a", "b")

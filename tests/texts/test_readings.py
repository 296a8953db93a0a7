"""Values are read by what they mean, whichever way they are written."""

import random
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kbforge.testing.examples import HOSTILE_VALUES
from kbforge.texts.kinds import (
    KINDS,
    amount,
    are_amounts,
    idle_attributes,
    kind_of,
    kinds_of,
    normalised,
    read_as,
    stated,
)
from tests.profile import examples


@pytest.mark.parametrize(
    ("kind", "spellings", "read"),
    [
        (
            "email",
            ("Ann.Lee@GMail.com", "annlee+news@gmail.com", "mailto:annlee@gmail.com"),
            "annlee@gmail.com",
        ),
        ("email", ("ann.lee@acme.org", "ANN.LEE+x@ACME.ORG"), "ann.lee@acme.org"),
        ("email", ("none@none.com", "test@acme.org", "noreply@acme.org", "ann@example.com"), ""),
        ("email", ("ask her",), "ask her"),
        (
            "phone",
            ("+44 20 7946 0018", "0044 (0)20 7946 0018", "020 7946-0018", "442079460018",
             "Tel. (020) 7946 0018 ext. 3"),
            "079460018",
        ),
        ("phone", ("+45 12 34 56 98", "12 34 56 98", "12345698"), "12345698"),
        ("phone", ("000 000 0000", "0111-111-111", "+44 123456789", "0123456789"), ""),
        ("phone", ("in the book", "12-34"), None),
        (
            "date",
            ("1984-05-03", "3/5/1984", "03.05.84", "3 May 1984", "May 3rd, 1984", "19840503",
             "1984/5/3", "03-May-1984"),
            "1984-05-03",
        ),
        ("date", ("5/23/1984", "23/5/1984"), "1984-05-23"),  # there is no month 23
        ("date", ("1984-05-03 10:20:30",), "1984-05-03 10:20:30"),
        ("date", ("may 1984", "1984-5"), "1984-05"),
        ("month first", ("5/3/1984", "05-03-84", "3.5.1984"), "1984-05-03"),
        ("nothing", ("whatever", "17"), ""),
        ("text", ("Ann.Lee+news@GMail.com",), "ann.lee+news@gmail.com"),
    ],
)  # fmt: skip
def test_spellings_of_one_meaning(kind, spellings, read):
    for spelling in spellings:
        value = stated((spelling,))
        assert read_as(kind, value) == (value if read is None else read), spelling


def test_several_values_are_read_one_by_one():
    value = stated(("ann+a@x.org", "Ann@X.org", "none@none.com", "bo@x.org"))
    assert read_as("email", value) == "ann@x.org\nbo@x.org"


@pytest.mark.parametrize("value", ["n/a", "N/A", "Unknown", "-", "--", "?", "0000-00-00", "NULL"])
def test_a_word_for_a_missing_value_is_no_value(value):
    assert stated((value,)) == ""
    assert stated((value, "Ann")) == "ann"


@pytest.mark.parametrize("value", ["!!!", "☃", "No", "Nan", "Unknown Soldier", "0"])
def test_a_value_that_may_mean_something_is_one(value):
    assert stated((value,)) == normalised(value)


@given(raw=st.text(max_size=60) | st.sampled_from(HOSTILE_VALUES), kind=st.sampled_from(KINDS))
@examples(80)
def test_what_is_read_stays_as_it_is(raw, kind):
    read = read_as(kind, stated((raw,)))
    if kind not in ("phone", "email"):  # of these, digits and tags are taken off
        assert read_as(kind, read) == read
    assert len(read) <= len(stated((raw,))) + len("1900-00-00")


def numbers(n: int, form: str = "0{}") -> dict[str, int]:
    rng = random.Random(1)
    return {form.format(rng.randrange(10**9, 10**10)): 1 for _ in range(n)}


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        ("email", {f"a{i}@x.org": 1 for i in range(8)} | {"ask": 1, "by post": 2}),
        ("phone", numbers(20) | {f"+44 20 7946 00{i}": 1 for i in range(10, 30)}),
        ("code", numbers(20, "{}x")),
        ("number", numbers(20, "{}")),  # codes of ten digits without a sign of a telephone
        ("number", {f"{i:07}": 1 for i in range(100, 130)}),
        ("date", {f"19{i}0{i % 9 + 1}11": 1 for i in range(40, 70)}),
        ("number", {f"19{i}{i}{i}": 1 for i in range(40, 70)}),  # there is no month 40
        ("month first", {"5/23/1984": 1, "5/3/1984": 1, "4/1/1984": 1}),
        ("date", {"23/5/1984": 1, "5/3/1984": 1, "4/1/1984": 1}),
    ],
)
def test_kinds_from_values(kind, values):
    assert kind_of(values) == kind


def test_running_numbers_and_times_of_entry_are_not_read():
    names, towns = {f"n{i}x": 1 for i in range(40)}, {"york": 20, "bath": 20}
    times = {f"2020-01-{i % 28 + 1:02} 10:{i:02}": 1 for i in range(40)}
    idle = {"no": {f"C-{1000 + 2 * i}": 1 for i in range(40)}, "at": times}
    kinds = kinds_of({"name": names, "town": towns, **idle})
    assert [name for name, kind in kinds.items() if kind == "nothing"] == ["no", "at"]
    assert {read_as("nothing", value) for value in idle["no"]} == {""}


@pytest.mark.parametrize(
    "values",
    [
        {**{f"{i}": 1 for i in range(40)}, "41": 2},  # one of them repeats: records share it
        {f"{i * 97}": 1 for i in range(40)},  # codes, far from dense
        {f"{i}": 1 for i in range(10)},  # few
        {f"{'ab'[i % 2]}{i}": 1 for i in range(40)},  # two series
    ],
)
def test_other_numbers_are_read(values):
    others: dict[str, dict[str, int]] = {"name": {"ann": 40}, "town": {"bath": 40}}
    assert kinds_of({**others, "no": values})["no"] != "nothing"


def test_a_running_number_is_read_if_hardly_anything_else_is():
    running = {f"{i}": 1 for i in range(40)}
    assert "nothing" not in kinds_of({"name": {"ann": 40}, "no": running}).values()


def people(same_system: bool, n: int = 200) -> list[dict[str, str]]:
    """Two records of each of n people, written by one of four systems, or both by one."""
    rng = random.Random(2)
    said = []
    for i in range(n):
        true = {"name": f"n{i}", "email": f"e{i}@x.org", "born": f"19{i % 90:02}-01-{i % 28}"}
        system = rng.choice("abcd")
        for _ in range(2):
            said.append(true | {"system": system if same_system else rng.choice("abcd")})
    return said


def of_records(said: list[dict[str, str]]) -> frozenset[str]:
    names = sorted({name for record in said for name in record})
    counts = {a: Counter(record[a] for record in said if a in record) for a in names}
    return idle_attributes(said, counts)


def test_what_related_records_share_by_chance_only_is_not_read():
    assert of_records(people(same_system=False)) == {"system"}
    assert of_records(people(same_system=True)) == frozenset()


def test_without_enough_related_records_nothing_is_left_out():
    assert of_records(people(same_system=False, n=20)) == frozenset()
    assert of_records([]) == frozenset()


@pytest.mark.parametrize(
    ("value", "number"),
    [("$24.95", 24.95), ("1,250.00", 1250.0), ("375", 375.0), ("12 eur", 12.0), ("a4", -1.0)],
)
def test_amounts(value, number):
    assert amount(value) == number


def test_prices_are_magnitudes_and_codes_are_not():
    assert are_amounts([f"${i * i}.99" for i in range(1, 30)])
    assert not are_amounts([f"{1000 + i}.00" for i in range(30)])  # hardly spread
    assert not are_amounts([f"{i * i}" for i in range(30)])  # no fraction: numbers of things

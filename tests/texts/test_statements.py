"""What fragments state as columns is what each states by itself."""

from __future__ import annotations

from collections import Counter
from itertools import accumulate

from hypothesis import given
from hypothesis import strategies as st

from kbforge.contracts import Fragment
from kbforge.texts.kinds import Kind, idle_attributes, read_as, stated
from kbforge.texts.statements import JoinedStatements, StatedValues
from tests.profile import examples

TEXTS = ("Ann", "ann", "Bo", "3/5/1984", "1984-05-03", "n/a", " ", "x@y.org", "\u3000", "é")
ROWS = st.lists(
    st.dictionaries(
        st.sampled_from("abcd"), st.lists(st.sampled_from(TEXTS), min_size=1, max_size=3)
    ),
    max_size=30,
)
KINDS_OF: dict[str, Kind] = {"a": "date", "b": "text", "c": "email"}


def fragments_of(rows: list[dict[str, list[str]]]) -> list[Fragment]:
    return [Fragment(str(k), {a: tuple(v) for a, v in row.items()}) for k, row in enumerate(rows)]


def said_by(columns: StatedValues) -> list[list[tuple[str, str]]]:
    texts = [(a, v) for a, of in zip(columns.attributes, columns.values, strict=True) for v in of]
    assert [texts[v][0] for v in columns.value.tolist()] == [
        columns.attributes[a] for a in columns.attribute.tolist()
    ]
    starts = columns.starts.tolist()
    return [
        [texts[v] for v in columns.value[starts[k] : starts[k + 1]].tolist()]
        for k in range(len(columns))
    ]


def in_order(counts: dict[str, Counter[str]]) -> list[tuple[str, list[tuple[str, int]]]]:
    return [(attribute, [*of.items()]) for attribute, of in counts.items()]


@given(ROWS)
@examples(100)
def test_values_and_their_counts_are_in_the_order_of_fragments(rows):
    fragments = fragments_of(rows)
    columns = StatedValues.of(fragments)
    expected = [[(a, stated(v)) for a, v in x.properties.items()] for x in fragments]
    assert said_by(columns) == expected
    counts: dict[str, Counter[str]] = {}
    for row in expected:
        for attribute, value in row:
            counts.setdefault(attribute, Counter())[value] += 1
    assert in_order(columns.counts()) == in_order(counts)
    assert columns.counts(("a",)).keys() == counts.keys() & {"a"}


@given(ROWS)
@examples(100)
def test_values_are_read_by_their_kinds(rows):
    fragments = fragments_of(rows)
    columns = StatedValues.of(fragments).read(KINDS_OF)
    expected = [
        [(a, read_as(KINDS_OF.get(a, "nothing"), stated(v))) for a, v in x.properties.items()]
        for x in fragments
    ]
    assert said_by(columns) == expected
    seen: set[frozenset[tuple[str, str]]] = set()
    first = []
    for row in expected:
        first.append(frozenset(row) not in seen)
        seen.add(frozenset(row))
    assert columns.first_of_content().tolist() == first
    often = Counter(pair for row in seen for pair in row)
    assert [n for of in columns.often(columns.first_of_content()) for n in of.tolist()] == [
        often[a, v] for a, of in zip(columns.attributes, columns.values, strict=True) for v in of
    ]


@given(ROWS)
@examples(100)
def test_statements_of_an_attribute_are_one(rows):
    fragments = fragments_of(rows)
    said = JoinedStatements.of(fragments)
    names = [said.attributes[a] for a in said.attribute.tolist()]
    told = [
        (name, said.values_of(value))
        for name, value in zip(names, said.value.tolist(), strict=True)
    ]
    assert told == [item for x in fragments for item in x.properties.items()]
    assert said.starts.tolist() == [0, *accumulate(len(x.properties) for x in fragments)]
    used, owners = said.in_order()
    distinct = [
        (said.attributes[a], said.values_of(value))
        for value, a in zip(used.tolist(), owners.tolist(), strict=True)
    ]
    assert distinct == list(dict.fromkeys(told))


def test_idle_attributes_need_only_the_related_records():
    fragments = [
        Fragment(
            str(k),
            {
                "name": (f"name {k // 2}",),
                "town": (f"town {k // 2 % 7000}",),
                "born": (f"19{k // 2 % 90:02}",),
                "clerk": (f"clerk {k * 7 % 5}",),
            },
        )
        for k in range(21_000)
    ]
    columns = StatedValues.of(fragments).read(
        dict.fromkeys(("name", "town", "born", "clerk"), "text")
    )
    counts = columns.counts()
    everyone = [dict(row) for row in said_by(columns)]
    related = columns.related_records()
    assert idle_attributes(everyone, counts) == {"clerk"}
    assert idle_attributes(related, counts, len(fragments)) == {"clerk"}
    assert len(related) < len(fragments)

"""Keys chosen by selectivity, and how much of what belongs together they find."""

from __future__ import annotations

import pickle
import random
from collections import Counter
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kbforge.contracts import CandidateIndex, Fragment
from kbforge.errors import UsageError
from kbforge.files.columns import Taken
from kbforge.indexes.recall import recall_of
from kbforge.indexes.selective import _PAIRED, Selective, holders_of
from kbforge.texts import digest_of
from kbforge.texts.kinds import features_of, read_as, stated
from kbforge.texts.statements import StatedValues, forget_values, values_read_once
from tests.people import people
from tests.profile import examples


def record(identity: object, **properties: str | tuple[str, ...]) -> Fragment:
    said = {a: (v,) if isinstance(v, str) else v for a, v in properties.items()}
    return Fragment(str(identity), said)


def in_common(index: Selective, one: Fragment, other: Fragment) -> int:
    return len(set(index.keys(one)) & set(index.keys(other)))


def fitted(fragments: list[Fragment], **options: object) -> Selective:
    index = Selective(**options)  # type: ignore[arg-type]
    index.fit(fragments)
    return index


@pytest.mark.parametrize(
    ("one", "other", "alike"),
    [
        ("Ann Lee", "ANN  lee", True),
        ("Ann Lee", "Lee, Ann", True),
        ("Ann Lee", "Bo Lee", True),
        ("Annabel", "Annabeth", True),
        ("Ann", "Abe", False),  # the first letter alone is not enough to be compared
        ("Ann Lee", "Bo Ek", False),
        ("北京", "北京", True),
        ("\U0001f9ed", "\U0001f9ed", True),
        (" ", "\u3000", False),  # nothing said is nothing in common
    ],
)
def test_names_that_are_compared(one, other, alike):
    index = fitted(people(30, 1))
    assert bool(in_common(index, record("x", name=one), record("y", name=other))) is alike


@pytest.mark.parametrize(
    ("one", "other", "alike"),
    [
        ("1901-02-03", "1901-02-28", True),
        ("1901-02-03", "1901-11-28", True),  # the year
        ("1901-02-03", "1945-02-03", True),
        ("1901-02-03", "3/2/1901", True),
        ("1901-02-03", "1945-11-28", False),
    ],
)
def test_dates_that_are_compared(one, other, alike):
    index = fitted(people(30, 1))
    assert bool(in_common(index, record("x", born=one), record("y", born=other))) is alike


def test_one_attribute_is_not_another():
    index = fitted(people(30, 1))
    assert not in_common(index, record("x", name="york"), record("y", town="york"))


def test_members_of_a_set_are_keys():
    fragments = [record(i, author=(f"a{i} b{i}", f"c{i} d{i}")) for i in range(9)]
    index = fitted(fragments)
    one, other = record("x", author=("a1 b1", "z z")), record("y", author=("y y", "a1 b1"))
    assert in_common(index, one, other)
    assert not in_common(index, one, fragments[5])


def test_values_that_many_have_are_paired():
    """A first name with a year: neither is rare, both together are."""
    rng = random.Random(1)
    fragments = [
        record(i, name=rng.choice(["ann", "bob", "eve"]), born=f"19{rng.choice('123')}0-01-01")
        for i in range(200)
    ]
    index = fitted(fragments, common=20)
    both = in_common(index, record("x", name="ann", born="1910-01-01"),
                     record("y", name="ann", born="1910-07-09"))  # fmt: skip
    only_name = in_common(index, record("x", name="ann", born="1910-01-01"),
                          record("y", name="ann", born="1930-07-09"))  # fmt: skip
    assert both > only_name + 1, "the pair and the year"
    unpaired = fitted(fragments, common=10**6)
    assert len(unpaired.keys(fragments[0])) < len(index.keys(fragments[0]))


def test_rules_are_keys():
    fragments = [record(i, name=f"n{i}", town=f"t{i % 3}", sex="f") for i in range(12)]
    index = fitted(fragments, rules=("town+sex",))
    plain = fitted(fragments)
    one, other = record("x", town="T9", sex="F"), record("y", town="t9", sex="f")
    assert in_common(index, one, other) == in_common(plain, one, other) + 1
    # the rule needs all its attributes, with something in them
    for part in (record("z", town="t9"), record("z", town="t9", sex=" ")):
        assert len(index.keys(part)) == len(plain.keys(part))


def test_rules_come_before_what_is_cut():
    many = tuple(f"word{i}" for i in range(9000))
    index = fitted(people(5, 1), rules=("town",))
    one = record("x", town="york", **{f"a{i}": many[i * 5 : i * 5 + 5] for i in range(700)})
    keys = index.keys(one)
    assert len(keys) == 512
    assert set(index.keys(record("y", town="york"))) & set(keys)


def test_only_the_attributes_named_are_read():
    fragments = people(30, 1)
    index = fitted(fragments, attributes=("name",))
    for fragment in fragments:
        only = Fragment(fragment.id, {"name": fragment.properties.get("name", (" ",))})
        assert index.keys(fragment) == index.keys(only)
    assert index.keys(record("x", town="york")) == []


def test_who_was_asked_about_and_what_order_fitting_took_do_not_matter():
    """The very numbers, also of values that it was not fitted to."""
    fragments, strangers = people(40, 2), people(10, 99)
    one = fitted(fragments)
    for fragment in strangers:
        one.keys(fragment)
    other = fitted(fragments[::-1])
    for fragment in [*strangers[::-1], *fragments]:
        assert list(other.keys(fragment)) == list(one.keys(fragment))
    fresh = fitted(fragments)
    assert [fresh.keys(f) for f in strangers] == [one.keys(f) for f in strangers]


def test_it_works_unfitted():
    index = Selective()
    assert in_common(index, record("x", name="Ann Lee"), record("y", name="ann lee"))
    assert not in_common(index, record("x", name="Ann Lee"), record("y", name="Bo Ek"))


def test_a_rule_of_an_attribute_that_no_fragment_has():
    with pytest.raises(UsageError) as error:
        fitted(people(5, 1), rules=("name", "town+twon"))
    said = 'index selective: no fragment has the attribute "twon" of a rule'
    assert str(error.value) == said


def test_recall_of_nothing():
    found = recall_of(Selective(), [])
    assert (found.recall, found.candidates, found.entities) == (1.0, 0.0, 0)


def test_recall_of_true_pairs():
    """Nearly every earlier record of the same person is found among a few others."""
    fragments = people(150, 7)
    found = recall_of(fitted(fragments), fragments)
    assert found.recall > 0.97
    assert found.candidates < 15
    assert found.entities == 150


def test_recall_is_counted():
    class ByName(CandidateIndex):
        families, shared = 5, 1

        def keys(self, fragment: Fragment) -> list[int]:
            return [ord(fragment.names[0])]

    fragments = [
        Fragment(str(i), {"name": (name,)}, label=label)
        for i, (name, label) in enumerate([("a", "1"), ("a", "1"), ("b", "1"), ("b", "2")])
    ]
    found = recall_of(ByName(), fragments)
    # the second finds the first; the third, of another name, does not; the fourth finds an entity
    assert (found.recall, found.candidates, found.entities) == (1 / 2, (0 + 1 + 0 + 1) / 4, 2)


def keys_of_values(index: Selective, attribute: str, values: tuple[str, ...]) -> list[list[int]]:
    """The keys of an attribute's values, and those that are paired, by the definition."""

    def key(name: str, feature: str) -> int:
        digest = digest_of(f"{attribute}\0{name}\0{feature}")
        place = index._common.of(f"{attribute}\0{name}\0{feature}")
        return place if place >= 0 else -1 - digest

    kind = index._kinds.get(attribute, "text")
    value = read_as(kind, stated(values))
    singles = [key("", value)] if value else []
    paired = [one for one in singles if one >= 0]
    for name, features in features_of(kind, value).items() if value else ():
        if name != "initial":
            singles += [key(name, feature) for feature in features]
        if name == _PAIRED.get(kind):
            paired += [one for feature in features if (one := key(name, feature)) >= 0]
    return [singles, paired]


def keys_by_definition(index: Selective, x: Fragment) -> list[int]:
    found = [keys_of_values(index, *item) for item in sorted(x.properties.items())]
    out = dict.fromkeys(key for singles, _ in found for key in singles)
    for place, (_, paired) in enumerate(found):
        for one in paired:
            for _, others in found[place + 1 :]:
                for low, high in (sorted((one, other)) for other in others):
                    out[(low + 1) << 32 | high] = None
    return list(out)


WORDS = ("Ann", "Lee", "Ångström", "3/5/1984", "x-1", " ", "n/a", "中文", "a.b@c.org", "12.0")


@given(st.lists(st.lists(st.sampled_from(WORDS), max_size=4), min_size=1, max_size=30))
@examples(60)
def test_keys_are_those_of_the_definition(rows: list[list[str]]):
    fragments = [
        record(k, **{f"a{i % 3}": (value, *row[i + 3 :]) for i, value in enumerate(row[:3])})
        for k, row in enumerate(rows * 3)
    ]
    index = fitted(fragments, common=2)
    said = Counter(
        f"{attribute}\0{name}\0{feature}"
        for x in fragments
        for attribute, values in x.properties.items()
        if (kind := index._kinds[attribute]) and (value := read_as(kind, stated(values)))
        for name, features in [("", (value,)), *features_of(kind, value).items()]
        if name != "initial"
        for feature in features
    )
    common = sorted(digest_of(one) for one, n in said.items() if n > 2)
    assert index.dump().arrays["common"].tolist() == common
    for x in fragments[: len(rows)]:
        assert index.keys(x) == keys_by_definition(index, x)


@given(
    st.lists(st.lists(st.sampled_from(WORDS), max_size=4), min_size=1, max_size=30),
    st.integers(0, 3),
    st.sampled_from([(), ("a0", "a2")]),
)
@examples(60)
def test_holders_of_keys(rows: list[list[str]], most: int, attributes: tuple[str, ...]):
    fragments = [
        Fragment(str(k), {f"a{i * 2 % 3}": (value, *row[i + 3 :]) for i, value in enumerate(row)})
        for k, row in enumerate(row[:3] for row in rows * 3)
    ]
    index = fitted(fragments, common=2, attributes=attributes)
    with_key: dict[int, list[int]] = {}
    for k, x in enumerate(fragments):
        for key in index.keys(x):
            with_key.setdefault(key, []).append(k)
    wanted = np.unique(np.array([*with_key, 12, -12], np.int64))
    few = [with_key.get(key, []) for key in wanted.tolist()]
    few = [held if len(held) <= most else [] for held in few]
    starts, places = index.holders(fragments, wanted, most)
    assert [places[a:b].tolist() for a, b in pairwise(starts.tolist())] == few
    order = list(range(len(fragments)))[::-1]
    rule = fitted(fragments, common=2, attributes=attributes)
    rule.rules = (("none",),)  # asks for keys by fragments
    for one in (index, rule):
        holders = holders_of(wanted.tolist(), fragments, order, one, most)
        found = [[order[place] for place in holders(key)] for key in wanted.tolist()]
        assert found == few


@given(
    st.lists(st.lists(st.sampled_from(WORDS), max_size=4), min_size=1, max_size=30),
    st.sampled_from([(), ("a0", "a2")]),
    st.sampled_from([(), ("a0+a1",)]),
    st.randoms(use_true_random=False),
)
@examples(60)
def test_keys_of_many_are_those_of_each(
    rows: list[list[str]], attributes: tuple[str, ...], rules: tuple[str, ...], draw: random.Random
):
    fragments = [
        Fragment(str(k), {f"a{i * 2 % 3}": (value, *row[i + 3 :]) for i, value in enumerate(row)})
        for k, row in enumerate([["a", "b", "c"], *(row[:3] for row in rows * 3)])
    ]
    index = fitted(fragments, common=2, attributes=attributes, rules=rules)
    places = draw.choices(range(len(fragments)), k=20)
    starts, keys = index.keys_of(Taken(fragments, np.array(places)))
    assert [keys[a:b].tolist() for a, b in pairwise(starts.tolist())] == [
        index.keys(fragments[place]) for place in places
    ]


def test_values_are_read_once_within_a_block_only():
    fragments = people(20, 3)
    with values_read_once():
        said = StatedValues.of(fragments)
        assert StatedValues.of(fragments) is said
        assert StatedValues.of(fragments[:5]) is not said
        with values_read_once():
            assert StatedValues.of(fragments) is said
        assert StatedValues.of(fragments) is said
        forget_values()
        assert StatedValues.of(fragments) is not said
    assert StatedValues.of(fragments) is not said


def test_a_copy_has_the_same_keys():
    index, others = fitted(people(60, 1)), people(20, 2)
    copied = pickle.loads(pickle.dumps(index))
    assert [copied.keys(x) for x in others] == [index.keys(x) for x in others]

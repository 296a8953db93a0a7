"""Training sets: the published rule's distribution, and views and variants of fragments."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chi2

from kbforge.contracts import Fragment
from kbforge_training.lm.data import SetRule, by_entity, draw, variant
from tests.lm.training.toys import entity
from tests.profile import examples

FULL = Fragment(
    "f",
    {"name": ("Angela Merkel", "A. Merkel"), "born": ("1954",), "office": ("chancellor",)},
    label="Q567",
    source="book",
)


def uniform(counts: Counter[int], values: range) -> bool:
    """Whether counts are those of uniform draws, with an error of one in ten thousand."""
    assert set(counts) <= set(values)
    expected = sum(counts.values()) / len(values)
    statistic = sum((counts[value] - expected) ** 2 / expected for value in values)
    return bool(statistic < chi2.ppf(1 - 1e-4, len(values) - 1))


def many(n: int, rule: SetRule, times: int, seed: int = 0) -> list[list[Fragment]]:
    rng = np.random.default_rng(seed)
    members = entity(n)
    return [one for _ in range(times) for one in draw(members, rule, rng)]


@pytest.mark.parametrize(("n", "draws"), [(1, 1), (2, 2), (4, 4), (5, 5), (6, 5), (200, 5)])
def test_an_entity_gives_five_sets_or_as_many_as_it_has_fragments(n, draws):
    rng = np.random.default_rng(0)
    assert len(draw(entity(n), SetRule(), rng)) == draws
    assert len(draw(entity(n), SetRule(draws=2), rng)) == min(2, n)


@pytest.mark.parametrize(("n", "largest"), [(2, 100), (7, 100), (30, 10), (120, 100)])
def test_sizes_are_uniform_up_to_the_largest(n, largest):
    sets = many(n, SetRule(largest=largest), 800)
    sizes = Counter(map(len, sets))
    assert uniform(sizes, range(1, min(n, largest) + 1))
    assert max(sizes) == min(n, largest)


def test_the_check_of_uniformity_can_fail():
    rng = np.random.default_rng(0)
    assert not uniform(Counter(rng.binomial(6, 0.5, 4_000).tolist()), range(7))


def test_members_are_drawn_without_replacement_and_equally_often():
    sets = many(8, SetRule(), 1_000)
    assert all(len({f.id for f in one}) == len(one) for one in sets)
    # every subset of a size is equally likely; here, all pairs of 8
    pairs = Counter(frozenset(f.id for f in one) for one in sets if len(one) == 2)
    assert len(pairs) == 28
    numbers = dict(zip(pairs, range(28), strict=True))
    assert uniform(Counter({numbers[p]: c for p, c in pairs.items()}), range(28))


def test_without_variants_the_fragments_are_the_entitys_own():
    members = entity(6)
    own = {id(f) for f in members}
    rng = np.random.default_rng(2)
    for _ in range(50):
        assert all(id(f) in own for one in draw(members, SetRule(), rng) for f in one)


def test_the_same_seed_draws_the_same_sets():
    rule = SetRule(views=0.5, variants=0.5)
    assert many(6, rule, 20, seed=7) == many(6, rule, 20, seed=7)
    assert many(6, rule, 20, seed=7) != many(6, rule, 20, seed=8)


def test_views_keep_names_and_some_other_attributes():
    rng = np.random.default_rng(4)
    counts, shown, sets = Counter[int](), Counter[str](), 2_000
    for _ in range(sets):
        (views,) = draw([FULL], SetRule(views=1.0), rng)
        counts[len(views)] += 1
        for view in views:
            assert view.properties["name"] == FULL.properties["name"]
            assert view.properties.items() <= FULL.properties.items()
            assert (view.id, view.label, view.source) == (FULL.id, FULL.label, FULL.source)
            shown.update(list(view.properties))
    assert uniform(counts, range(1, 5))
    for attribute in ("born", "office"):
        assert shown[attribute] / shown["name"] == pytest.approx(0.5, abs=0.03)


def test_views_come_as_often_as_the_rule_says():
    rng = np.random.default_rng(6)
    whole = [FULL]
    sets = [draw(whole, SetRule(views=0.3), rng)[0] for _ in range(3_000)]
    assert sum(one[0] is not FULL for one in sets) / 3_000 == pytest.approx(0.3, abs=0.04)
    assert all(len(one) == 1 for one in sets if one[0] is FULL)


def test_variants_change_names_and_nothing_else():
    rng = np.random.default_rng(5)
    names = Counter[str]()
    for _ in range(300):
        for view in draw([FULL], SetRule(views=1.0, variants=1.0), rng)[0]:
            assert len(view.properties["name"]) == 2
            names.update(view.properties["name"][:1])
            others = {k: v for k, v in view.properties.items() if k != "name"}
            assert others.items() <= FULL.properties.items()
    # either of two words can be the last or first, an initial, all of it in capitals, ...
    assert names["Angela Merkel"] == 0
    assert {"Merkel", "Angela", "A. Merkel", "AM", "angela merkel", "ANGELA MERKEL"} == set(names)


def test_a_fragment_without_a_name_never_becomes_empty():
    rng = np.random.default_rng(0)
    nameless = Fragment("n", {"born": ("1954",)})
    for _ in range(100):
        for view in draw([nameless], SetRule(views=1.0, variants=1.0), rng)[0]:
            assert view.properties == nameless.properties


@pytest.mark.parametrize(
    ("name", "options"),
    [
        (
            "Angela Merkel",
            {"Merkel", "Angela", "A. Merkel", "AM", "angela merkel", "ANGELA MERKEL"},
        ),
        ("Springfield (Oregon)", {"Springfield", "springfield (oregon)", "SPRINGFIELD (OREGON)"}),
        (
            "Paris, Texas",
            {"Paris", "Paris,", "Texas", "P. Texas", "PT", "paris, texas", "PARIS, TEXAS"},
        ),
        (
            "United States of America",
            {
                *("USA", "States of America", "United of America", "United States America"),
                *("United States of", "united states of america", "UNITED STATES OF AMERICA"),
            },
        ),
        # none fits, or only sometimes
        ("1954", {"1954"}),
        ("北京", {"北京"}),
        (" ", {" "}),
        ("(x)", {"(x)", "(X)"}),
    ],
)
def test_the_ways_to_write_a_name(name, options):
    rng = np.random.default_rng(1)
    assert {variant(name, rng) for _ in range(400)} == options


@given(st.text(st.characters(exclude_categories=["Cs"]), min_size=1), st.integers(0, 2**32))
@examples(300)
def test_a_variant_is_never_empty(name, seed):
    rng = np.random.default_rng(seed)
    assert all(variant(name, rng) for _ in range(5))


def test_entities_are_labels_in_order_and_unlabelled_fragments_stand_alone():
    a, b, c = (
        Fragment(i, {"name": (i,)}, label=label) for i, label in zip("abc", "XYX", strict=True)
    )
    u, v = Fragment("u", {"name": ("u",)}), Fragment("v", {"name": ("u",)})
    assert by_entity([u, a, b, v, c]) == ([[u], [a, c], [b], [v]], 2)
    assert by_entity([]) == ([], 0)
    assert by_entity(iter([a, c])) == ([[a, c]], 0)

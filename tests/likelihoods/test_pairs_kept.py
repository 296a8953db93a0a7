"""What the likelihood of pairs keeps: another that takes it up says the same, bit for bit."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kbforge.contracts import Fragment, LearnedState
from kbforge.errors import ModelError, OtherModelError
from kbforge.testing.likelihood import same, stored
from kbforge_plugins.likelihoods.pairs.bags import PartReader, Strings, flattened
from kbforge_plugins.likelihoods.pairs.likelihood import Pairs
from kbforge_plugins.likelihoods.pairs.odds import APART
from tests.likelihoods.test_pairs import _constant
from tests.people import people
from tests.profile import examples

KNOWN = [
    *people(60, 1),
    Fragment("several", {"name": ("EU", "European Union", "Évropa"), "town": ("a", "b")}),
    Fragment("none", {"name": (" ",)}),
    Fragment("odd", {"name": ("\ud800 x\0y",), "town": ("東京\nx",)}),
]
LATER = [
    *(replace(f, id=f"new {f.id}") for f in people(5, 2)),
    *(Fragment(f"slip {f.id}", {**f.properties, "note": ("n",)}) for f in KNOWN[:6]),
    Fragment("later", {"name": ("European Union", "EU")}),
    Fragment("later none", {}),
]


def fitted(fragments: Sequence[Fragment]) -> Pairs:
    model = Pairs()
    model.fit(fragments)
    return model


def taken(kept: LearnedState) -> Pairs:
    model = Pairs()
    model.load(stored(kept))
    return model


FITTED = fitted(KNOWN)
KEPT = FITTED.dump()


def said(model: Pairs, fragments: Sequence[Fragment]) -> list[object]:
    """All that a model says of some fragments, in the order in which they are given."""
    assert model.index is not None
    table = model.live_clusters()
    told: list[object] = []
    for slot, fragment in enumerate(fragments):
        x = table.encode(fragment)
        told.append(table.log_predictive(x, slot).tolist())
        table.extend(x, np.array([-1]), np.array([slot]))
        told.append(list(model.index.keys(fragment)))
    clusters = [list(fragments[k : k + 4]) for k in range(0, len(fragments), 3)]
    odds = model.pair_odds(fragments)
    return [
        *told,
        model.log_marginal(clusters).tolist(),
        [
            model.contributions(fragments[k], fragments[k + 1 : k + 3])
            for k in range(0, len(fragments) - 2, 5)
        ],
        *(getattr(odds, name).tolist() for name in ("row", "first", "second", "nats")),
    ]


def test_what_is_taken_up_says_the_same_also_of_fragments_met_later():
    some = [*KNOWN[::2], *LATER, *KNOWN[1::2]]
    assert said(fitted(KNOWN), some) == said(taken(KEPT), some)


def test_a_model_that_was_fitted_to_nothing_is_kept():
    assert said(taken(Pairs().dump()), LATER) == said(Pairs(), LATER)


def test_what_was_met_is_no_part_of_what_is_kept():
    model = fitted(KNOWN)
    model.log_marginal([LATER])
    again = taken(KEPT).dump()
    assert same(model.dump(), KEPT)
    assert same(again, KEPT)


def test_the_index_that_was_held_before_leads_to_what_was_taken_up():
    model = Pairs()
    index = model.index
    model.load(stored(KEPT))
    assert index.keys(KNOWN[0]) == FITTED.index.keys(KNOWN[0])


# the lengths of values are their own
@pytest.mark.parametrize(
    "name",
    [n for n, a in KEPT.arrays.items() if a.size and not n.endswith(("/values", "index.common"))],
)
def test_an_array_that_lacks_a_number_is_refused_and_leaves_the_model(name):
    arrays = {**KEPT.arrays, name: KEPT.arrays[name][..., :-1]}
    model = Pairs()
    before = model.dump().values
    with pytest.raises(ModelError, match=r"state is damaged: .*; kbforge refit fits it again"):
        model.load(LearnedState(KEPT.values, arrays))
    assert model.dump().values == before


@pytest.mark.parametrize("name", ["links/second", "table/which", "table/soup/columns"])
@pytest.mark.parametrize("value", [-1, 1 << 30])
def test_numbers_of_nothing_are_refused(name, value):
    array = KEPT.arrays[name].copy()
    array[3] = value
    with pytest.raises(ModelError, match=f"{name}.*expected finite numbers from"):
        Pairs().load(LearnedState(KEPT.values, {**KEPT.arrays, name: array}))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("naming", None),
        *(("attributes", ["a", "a"]), ("attributes", ["name"]), ("words/texts", -1)),
    ],
)
def test_other_values_are_refused(name, value):
    name = name if name in KEPT.values else f"reader/{name}"
    assert name in KEPT.values
    with pytest.raises(ModelError, match=rf"{name}|expected nothing of that name"):
        Pairs().load(LearnedState({**KEPT.values, name: value}, KEPT.arrays))


@pytest.mark.parametrize("name", ["model", "format"])
def test_another_model_or_format_is_told_from_damage(name):
    with pytest.raises(OtherModelError):
        Pairs().load(LearnedState({**KEPT.values, name: "another"}, KEPT.arrays))


def test_what_another_model_kept_is_refused(tmp_path):
    path = f"{tmp_path}/pairs.safetensors"
    with open(path, "wb") as out:
        out.write(_constant(Pairs().trees.features, 2.0).to_bytes())
    with pytest.raises(ModelError, match="model"):
        Pairs(path).load(KEPT)


@pytest.mark.slow
@examples(15)
@given(st.permutations(range(len(LATER))), st.integers(2, len(LATER)))
def test_what_two_say_to_each_other_does_not_depend_on_what_else_was_met(order, n):
    model = taken(KEPT)
    assert model.index is not None
    some = [LATER[k] for k in order[:n]]
    whole, table = _everything(), model._odds
    for fragment in some:
        assert list(model.index.keys(fragment)) == whole.keys[fragment.id]
    for one in [*some, *KNOWN[:5]]:
        near = table.near(table.encode(one))
        for other in [*some, *KNOWN[:5]]:
            here = near.get(table.encode(other), -APART) + APART
            assert here == whole.odds[one.id, other.id], (one, other)


class _Everything:
    """Odds and keys of all pairs, each as a model says that has met no others."""

    def __init__(self) -> None:
        everyone = [*LATER, *KNOWN[:5]]
        self.odds: dict[tuple[str, str], int] = {}
        self.keys: dict[str, list[int]] = {}
        rng = random.Random(0)
        for one in everyone:
            for other in everyone:
                both = [one, other]
                rng.shuffle(both)
                model = taken(KEPT)
                x, y = (model._odds.encode(f) for f in both)
                self.odds[one.id, other.id] = model._odds.near(x).get(y, -APART) + APART
            self.keys[one.id] = list(model.index.keys(one))


@cache
def _everything() -> _Everything:
    return _Everything()


@examples(60)
@given(st.lists(st.text(max_size=5), max_size=6))
def test_texts_of_any_script_are_kept(texts):
    kept = Strings.of(texts).dump()
    assert kept["lengths"].tolist() == [len(text) for text in texts]
    found = PartReader(flattened({"x": kept})).strings("x", len(texts))
    assert [found[at] for at in range(len(found))] == texts

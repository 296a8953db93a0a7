"""What shares no attribute gains nothing, in every likelihood that ships."""

import math
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kbforge.contracts import Fragment
from kbforge.models.bundle import make_likelihood
from tests.profile import examples

ATTRIBUTES = ("name", "town", "born", "code", "tags")
VALUES = ("ann lee", "bob", "york", "leeds", "1901-02-03", "1944", "ab-12", "x y z", "?", "red")
SHIPPED: tuple[tuple[str, dict[str, object]], ...] = (
    ("attributes", {}),
    ("pairs", {}),
    ("pairs", {"layer": (6.0, 0.5, -1.0)}),
    ("names", {}),
    ("names", {"together": 0.99}),
    ("bigram", {"attributes": ("name", "town")}),
)
LEARNED = [
    Fragment(f"f{i}", {a: (VALUES[(i * k + k) % len(VALUES)],) for k, a in enumerate(ATTRIBUTES)})
    for i in range(24)
]

records = st.dictionaries(
    st.sampled_from(ATTRIBUTES),
    st.lists(st.sampled_from(VALUES), min_size=1, max_size=2, unique=True).map(tuple),
    min_size=1,
)
a_cut = st.sets(st.sampled_from(ATTRIBUTES))


def fitted(name: str, options: dict[str, object], learned: Sequence[Fragment] = LEARNED) -> Any:
    likelihood = make_likelihood(name, options)
    likelihood.fit(learned)
    return likelihood


def gain(likelihood: Any, cluster: Sequence[Fragment], x: Fragment) -> float:
    both, without, alone = likelihood.log_marginal([[*cluster, x], cluster, [x]])
    return float(both - without - alone)


@pytest.fixture(scope="module", params=SHIPPED, ids=lambda case: f"{case[0]} {case[1] or ''}")
def likelihood(request):
    return fitted(*request.param)


@given(said=st.lists(records, min_size=2, max_size=6), cut=a_cut, strange=st.booleans())
@examples(60)
def test_what_shares_no_attribute_gains_nothing(likelihood, said, cut, strange):
    check_no_gain(likelihood, said, cut, strange)


def check_no_gain(
    likelihood: Any, said: list[dict[str, tuple[str, ...]]], cut: set[str], strange: bool
) -> None:
    """A record with other attributes than a cluster, or with such as the model has never seen."""
    *of_cluster, of_x = said
    cluster = [
        Fragment(f"c{i}", {a: v for a, v in one.items() if strange or a not in cut})
        for i, one in enumerate(of_cluster)
    ]
    cluster = [one for one in cluster if one.properties]
    mine = {a: v for a, v in of_x.items() if a in cut}
    if strange:
        mine = {f"column {ATTRIBUTES.index(a)}": v for a, v in of_x.items()}
    if cluster and mine:
        assert gain(likelihood, cluster, Fragment("x", mine)) <= 1e-8


@pytest.mark.parametrize(("name", "options"), SHIPPED, ids=str)
def test_no_cluster_is_large_enough_for_what_is_not_read(name, options):
    check_strangers_stay_apart(fitted(name, options))


def check_strangers_stay_apart(likelihood: Any) -> None:
    """The prior's log |C| stays below what is taken off, beside known and strange fragments."""
    strange = [Fragment(f"s{i}", {"Nombre": (f"juan {i}",), "Calle": (f"{i}",)}) for i in range(60)]
    for cluster in (LEARNED * 20, strange, [*strange, *LEARNED], strange[:1], LEARNED[:1]):
        for x in (Fragment("x", {"Nombre": ("juan 7",)}), Fragment("y", {"Correo": ("a@b.c",)})):
            assert gain(likelihood, cluster, x) + math.log(len(cluster)) < -4
    assert gain(likelihood, strange, LEARNED[0]) + math.log(len(strange)) < -4


def test_a_set_of_gpt_is_read_by_what_its_fragments_share():
    pytest.importorskip("torch")
    gpt = make_likelihood("gpt", {})
    name, town, both = (
        Fragment("a", {"name": ("Ada Lovelace",)}),
        Fragment("b", {"birthplace": ("London",)}),
        Fragment("c", {"name": ("A. Lovelace",), "birthplace": ("London",)}),
    )
    assert gain(gpt, [name], town) == pytest.approx(-60)
    assert gain(gpt, [town, town], name) == pytest.approx(-60)
    assert gain(gpt, [name, town], both) > 0  # the three are one part again
    assert gpt.log_marginal([[]]).tolist() == [0]

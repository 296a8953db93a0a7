"""What shares no attribute gains nothing, in the laboratory's likelihoods, too."""

from functools import cache
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.likelihoods.test_evidence import (
    a_cut,
    check_no_gain,
    check_strangers_stay_apart,
    fitted,
    records,
)
from tests.profile import examples

MODELS: list[tuple[str, dict[str, object]]] = [
    ("trigram", {"attributes": ("name", "town")}),
    ("dirichlet-multinomial", {"reads": "values"}),
    ("dirichlet-multinomial", {"reads": "words"}),
    ("beta-bernoulli", {}),
    ("beta-bernoulli", {"a": 2.0, "b": 0.1}),
]


@pytest.mark.parametrize(("name", "options"), MODELS, ids=str)
@given(said=st.lists(records, min_size=2, max_size=6), cut=a_cut, strange=st.booleans())
@examples(60)
def test_what_shares_no_attribute_gains_nothing(name, options, said, cut, strange):
    check_no_gain(model_of(name, **options), said, cut, strange)


@cache
def model_of(name: str, **options: Any) -> Any:
    return fitted(name, options)


# the Dirichlet-multinomial model reads the attributes that it has never seen, too
@pytest.mark.parametrize(
    ("name", "options"), [case for case in MODELS if case[0] != "dirichlet-multinomial"], ids=str
)
def test_no_cluster_is_large_enough_for_what_is_not_read(name, options):
    check_strangers_stay_apart(fitted(name, options))

"""A bias is added to the log odds of every compared pair, and to nothing else."""

from dataclasses import replace

import numpy as np
import pytest

from kbforge.contracts import Fragment
from kbforge.errors import UsageError
from kbforge_plugins.likelihoods.pairs.likelihood import Pairs
from tests.people import people

KNOWN = people(12, 3)
TWICE = replace(KNOWN[0], id="twice")
FRAGMENTS = [*KNOWN, TWICE]


def fitted(bias: float = 0.0) -> Pairs:
    model = Pairs(bias=bias)
    model.fit(FRAGMENTS)
    return model


PLAIN = fitted()
NAMED = next(fragment for fragment in KNOWN[1:] if fragment.names)
LATER = Fragment("later", {"name": NAMED.names})


def gains(model: Pairs, x: Fragment) -> np.ndarray:
    """What joining each fragment gains."""
    return model.log_marginal([[x, other] for other in FRAGMENTS])


@pytest.mark.parametrize("bias", [-3.0, 1.5])
@pytest.mark.parametrize("x", [NAMED, LATER])
def test_it_moves_compared_pairs_of_different_statements(bias, x):
    moved = gains(PLAIN.biased(bias), x) - gains(PLAIN, x)
    compared = np.abs(moved - bias) < 1e-4
    assert 1 < compared.sum() < len(FRAGMENTS)
    assert np.all(compared | (moved == 0))


def test_two_fragments_that_state_the_same_are_as_probably_one():
    same = [[KNOWN[0], TWICE]]
    assert PLAIN.biased(-3.0).log_marginal(same) == PLAIN.log_marginal(same)


@pytest.mark.slow
@pytest.mark.parametrize("bias", [-6.0, 6.0])
def test_however_it_is_given_the_model_is_the_same(bias):
    """Fitted with it, moved to it from another, or taken up by a model that knows no bias."""
    kept = fitted(bias).dump()
    moved = PLAIN.biased(2.0).biased(bias)
    taken = Pairs()
    taken.load(kept)
    for model in (moved, taken):
        assert model.dump().values == kept.values
        assert all(np.array_equal(a, kept.arrays[n]) for n, a in model.dump().arrays.items())
        for x in (*KNOWN[:4], LATER):
            assert np.array_equal(gains(model, x), gains(fitted(bias), x))
            assert model.index.keys(x) == fitted(bias).index.keys(x)


def test_what_the_model_says_of_pairs_is_without_it():
    plain, biased = (fitted(bias).pair_odds([*FRAGMENTS, LATER]) for bias in (0.0, 3.0))
    assert np.array_equal(plain.first, biased.first)
    assert biased.nats == pytest.approx(plain.nats, abs=1e-4)


def test_what_attributes_say_still_adds_up():
    model = PLAIN.biased(-2.0)
    x, cluster = KNOWN[1], KNOWN[2:5]
    both, alone, one = model.log_marginal([[*cluster, x], cluster, [x]])
    assert sum(model.contributions(x, cluster).values()) == pytest.approx(both - alone - one)


@pytest.mark.parametrize("bias", [-6.1, 7.0, float("nan")])
def test_a_bias_out_of_range_is_refused(bias):
    with pytest.raises(UsageError, match="bias: expected -6 to 6 nats"):
        Pairs(bias=bias)

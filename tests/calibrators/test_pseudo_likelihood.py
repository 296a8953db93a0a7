from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import logsumexp

from kbforge.contracts import Problem, Search
from kbforge.errors import KBForgeError, LikelihoodError
from kbforge_plugins.calibrators.pseudo_likelihood import PseudoLikelihood
from tests.calibrators.toys import BlackBox, Letters, draw, fragments
from tests.profile import examples

SEARCH = Search(-10.0, 25.0)
NOBODY = None  # the pseudo-likelihood uses no clusterer


def calibrate(data, model=None, search=SEARCH, **options):
    problem = Problem(model or Letters(), alpha=1.0, **options)
    return PseudoLikelihood().calibrate(data, problem, NOBODY, search, np.random.default_rng(0))


def terms_of(data, i, log_alpha):
    """The log weight of each cluster of the others for fragment i, and that of a new one."""
    rest, terms, model = [f for j, f in enumerate(data) if j != i], {}, Letters()
    for label in {f.label for f in rest}:
        c = [f for f in rest if f.label == label]
        joined, alone = model.log_marginal([[*c, data[i]], c])
        terms[label] = math.log(len(c)) + joined - alone
    return terms, log_alpha + model.log_marginal([[data[i]]])[0]


def brute_force(data, log_alpha):
    """The definition, term by term."""
    total = 0.0
    for i, x in enumerate(data):
        terms, new = terms_of(data, i, log_alpha)
        total += terms.get(x.label, new) - logsumexp([*terms.values(), new])
    return total


names = st.lists(st.text("abcd", min_size=1, max_size=5), min_size=2, max_size=9)


@examples(40)
@given(names, st.randoms(use_true_random=False))
def test_curve_equals_the_definition(texts, random):
    data = fragments(texts, [random.choice("xyz") for _ in texts])
    result = calibrate(data)
    for alpha, value in result.curve:
        assert value == pytest.approx(brute_force(data, math.log(alpha)), rel=1e-9, abs=1e-9)


def test_black_box_gives_the_same_curve_as_live_tables():
    data = draw(8, 5, seed=1)
    fast, slow = calibrate(data), calibrate(data, BlackBox(Letters()))
    assert np.allclose(fast.curve, slow.curve, rtol=1e-9)
    assert fast.alpha == pytest.approx(slow.alpha, rel=1e-6)


def test_maximum_is_the_best_of_a_fine_grid_and_balances_new_clusters():
    data = draw(6, 4, seed=2) + fragments(["dada", "cbcb"], ["s1", "s2"])
    result = calibrate(data)
    grid = np.linspace(-9, 9, 181)
    assert result.at_edge == ""
    assert result.objective >= max(brute_force(data, a) for a in grid) - 1e-9
    asked = (terms_of(data, i, math.log(result.alpha)) for i in range(len(data)))
    expected_new = sum(math.exp(new - logsumexp([*terms.values(), new])) for terms, new in asked)
    assert expected_new == pytest.approx(2, abs=1e-5)


@pytest.mark.parametrize(
    ("labels", "edge", "alpha"),
    [(["x", "x", "x"], "low", math.exp(-10)), (["x", "y", "z"], "high", math.exp(25))],
)
def test_maximum_at_an_edge_is_reported(labels, edge, alpha):
    result = calibrate(fragments(["ab", "ac", "dd"], labels))
    assert result.at_edge == edge
    assert result.alpha == pytest.approx(alpha)


def test_scaling_every_cluster_divides_alpha():
    class Scaled(Letters):
        def log_marginal(self, clusters):
            return super().log_marginal(clusters) + 3.0

    data = draw(6, 3, seed=4) + fragments(["dddd", "cacb"], ["s1", "s2"])
    plain = calibrate(data, BlackBox(Letters()))
    scaled = calibrate(data, BlackBox(Scaled()))
    assert scaled.alpha == pytest.approx(plain.alpha * math.exp(-3.0), rel=1e-6)


def test_unlabelled_fragments_are_ignored():
    data = draw(6, 3, seed=5) + fragments(["dddd"], ["s1"])
    more = [*data, *fragments(["aaaa", "bcbc"])]
    assert calibrate(more).curve == calibrate(data).curve


def test_surrogate_limits_what_a_black_box_scores():
    data = draw(10, 3, seed=6) + fragments(["dddd"], ["s1"])
    everything, few = BlackBox(Letters()), BlackBox(Letters())
    full = calibrate(data, everything)
    cut = calibrate(data, few, surrogate=Letters(), max_evals=4)
    assert few.scored < everything.scored / 1.5
    assert cut.objective >= full.objective  # a smaller normaliser
    assert cut.alpha == pytest.approx(full.alpha, rel=0.5)


def test_surrogate_alone_replaces_the_model_when_it_may_not_be_evaluated():
    data = draw(5, 3, seed=6) + fragments(["dddd"], ["s1"])
    model = BlackBox(Letters())
    assert calibrate(data, model, surrogate=Letters(), max_evals=0).curve == calibrate(data).curve
    assert model.scored == 0


def test_no_labels_is_one_sentence():
    with pytest.raises(KBForgeError, match="none of the 2 fragments has a label"):
        calibrate(fragments(["ab", "ba"]))


@pytest.mark.parametrize(("value", "said"), [(math.nan, "NaN"), (-math.inf, "probability zero")])
def test_impossible_fragment_is_named(value, said):
    class Broken:
        def log_marginal(self, clusters):
            return np.array([value if any("bad" in f.names[0] for f in c) else 0.0
                             for c in clusters])  # fmt: skip

    with pytest.raises(LikelihoodError, match=f'fragment "f[0-2]" {said}'):
        calibrate(fragments(["a", "b", "bad"], ["x", "x", "x"]), Broken())

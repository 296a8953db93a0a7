"""Each calibrator finds the alpha that its objective, by definition, is largest at."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import logsumexp

from kbforge.contracts import ModelSpec, Particle, Posterior, Search, Subproblem
from kbforge.errors import KBForgeError, LikelihoodError, UsageError
from kbforge.evaluation.scores import compare
from kbforge_plugins.calibrators.bcubed import BCubed, best_plateau
from kbforge_plugins.calibrators.pseudo_likelihood import PseudoLikelihood
from kbforge_plugins.clusterers.sequential import SplitSmc
from tests.calibrators.toys import BlackBox, Letters, draw, fragments
from tests.profile import examples

SEARCH = Search(-6.0, 8.0)


def by_bcubed(data, clusterer, seen=None, **options):
    spec, rng = ModelSpec(Letters(), 1.0), np.random.default_rng(0)
    return BCubed(**options).calibrate(data, spec, clusterer, SEARCH, rng, seen)


def by_gold(data, model=None, **options):
    spec, rng = ModelSpec(model or Letters(), alpha=1.0, **options), np.random.default_rng(0)
    return PseudoLikelihood().calibrate(data, spec, None, Search(-10.0, 25.0), rng)


@pytest.mark.parametrize(
    ("wrong", "error", "said"),
    [
        (lambda: BCubed(grid=1), UsageError, "grid >= 2"),
        (lambda: by_gold(fragments(["b"] * 2)), KBForgeError, "none of the 2 fragments has a lab"),
        (
            lambda: by_bcubed(fragments(["b"] * 3), Threshold()),
            KBForgeError,
            "none of the 3 fragments has a label",
        ),
    ],
)
def test_bad_use_is_one_sentence(wrong, error, said):
    with pytest.raises(error, match=said):
        wrong()


class Threshold:
    """Together below log alpha 1, as labelled up to 3, apart above."""

    def __init__(self, right_from=1.0, right_to=3.0):
        self.right_from, self.right_to = right_from, right_to
        self.seeds = []

    def cluster(self, data, spec, rng, on_step=None):
        self.seeds.append(int(rng.integers(1000)))
        log_alpha, n = math.log(spec.alpha), len(data)
        if log_alpha < self.right_from:
            clusters = (tuple(range(n)),)
        elif log_alpha < self.right_to:
            clusters = tuple(tuple(range(i, i + 3)) for i in range(0, n, 3))
        else:
            clusters = tuple((i,) for i in range(n))
        particle = Particle(0.0, clusters)
        return Posterior((Subproblem(tuple(range(n)), (particle,)),), 0.0, n, 0)


THREES = fragments(["a"] * 9, [f"e{i // 3}" for i in range(9)])


@pytest.mark.parametrize(("low", "high"), [(1.0, 3.0), (-2.3, 5.1), (0.05, 1.15)])
def test_the_middle_of_the_best_plateau_is_chosen(low, high):
    result = by_bcubed(THREES, Threshold(low, high), rounds=6)
    assert result.objective == 1.0
    assert result.at_edge == ""
    assert math.log(result.alpha) == pytest.approx((low + high) / 2, abs=0.02)


def test_flat_and_edge_plateaus_are_reported():
    assert by_bcubed(THREES, Threshold(-50.0, 0.0)).at_edge == "low"
    assert by_bcubed(THREES, Threshold(2.0, 50.0)).at_edge == "high"


def test_no_evaluation_beats_the_answer_and_all_are_announced():
    data = draw(8, 5, seed=3)
    seen = []
    result = by_bcubed(
        data, SplitSmc(particles=5), seen=lambda a, f: seen.append((a, f)), grid=8, rounds=2
    )
    assert sorted(seen) == list(result.curve)
    assert result.objective == max(value for _, value in result.curve)
    spec = ModelSpec(Letters(), result.alpha)
    found = SplitSmc(particles=5).cluster(data, spec, np.random.default_rng(0)).labels()
    gold = [f.label for f in data]
    assert compare(found, gold).bcubed_f1_item_mean == result.objective


def test_every_run_gets_the_same_random_numbers():
    clusterer = Threshold()
    by_bcubed(THREES, clusterer)
    assert len(clusterer.seeds) > 10
    assert len(set(clusterer.seeds)) == 1


def test_unlabelled_fragments_are_clustered_but_not_compared():
    with_noise = [*THREES, *fragments(["b"] * 3)]
    assert by_bcubed(with_noise, Threshold()).objective == 1.0


@given(st.dictionaries(st.integers(-50, 50), st.integers(0, 2), min_size=1, max_size=12))
def test_best_plateau_is_a_widest_run_at_the_maximum(curve):
    first, last = best_plateau(curve)
    best = max(curve.values())
    assert all(curve[a] == best for a in curve if first <= a <= last)
    points = sorted(curve)
    runs = [
        b - a
        for i, a in enumerate(points)
        for b in points[i:]
        if all(curve[p] == best for p in points if a <= p <= b)
    ]
    assert last - first == max(runs)


# The pseudo-likelihood against its definition, term by term.


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
    result = by_gold(data)
    for alpha, value in result.curve:
        assert value == pytest.approx(brute_force(data, math.log(alpha)), rel=1e-9, abs=1e-9)


def test_black_box_gives_the_same_curve_as_live_tables():
    data = draw(8, 5, seed=1)
    fast, slow = by_gold(data), by_gold(data, BlackBox(Letters()))
    assert np.allclose(fast.curve, slow.curve, rtol=1e-9)
    assert fast.alpha == pytest.approx(slow.alpha, rel=1e-6)


@pytest.mark.slow
def test_maximum_is_the_best_of_a_fine_grid_and_balances_new_clusters():
    data = draw(6, 4, seed=2) + fragments(["dada", "cbcb"], ["s1", "s2"])
    result = by_gold(data)
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
    result = by_gold(fragments(["ab", "ac", "dd"], labels))
    assert result.at_edge == edge
    assert result.alpha == pytest.approx(alpha)


def test_scaling_every_cluster_divides_alpha():
    class Scaled(Letters):
        def log_marginal(self, clusters):
            return super().log_marginal(clusters) + 3.0

    data = draw(6, 3, seed=4) + fragments(["dddd", "cacb"], ["s1", "s2"])
    plain = by_gold(data, BlackBox(Letters()))
    scaled = by_gold(data, BlackBox(Scaled()))
    assert scaled.alpha == pytest.approx(plain.alpha * math.exp(-3.0), rel=1e-6)


def test_unlabelled_fragments_are_ignored():
    data = draw(6, 3, seed=5) + fragments(["dddd"], ["s1"])
    more = [*data, *fragments(["aaaa", "bcbc"])]
    assert by_gold(more).curve == by_gold(data).curve


def test_surrogate_limits_what_a_black_box_scores():
    data = draw(10, 3, seed=6) + fragments(["dddd"], ["s1"])
    everything, few = BlackBox(Letters()), BlackBox(Letters())
    full = by_gold(data, everything)
    cut = by_gold(data, few, surrogate=Letters(), max_evals=4)
    assert few.scored < everything.scored / 1.5
    assert cut.objective >= full.objective  # a smaller normaliser
    assert cut.alpha == pytest.approx(full.alpha, rel=0.5)


def test_surrogate_alone_replaces_the_model_when_it_may_not_be_evaluated():
    data = draw(5, 3, seed=6) + fragments(["dddd"], ["s1"])
    model = BlackBox(Letters())
    assert by_gold(data, model, surrogate=Letters(), max_evals=0).curve == by_gold(data).curve
    assert model.scored == 0


@pytest.mark.parametrize(("value", "said"), [(math.nan, "NaN"), (-math.inf, "probability zero")])
def test_impossible_fragment_is_named(value, said):
    class Broken:
        def log_marginal(self, clusters):
            return np.array([value if any("bad" in f.names[0] for f in c) else 0.0
                             for c in clusters])  # fmt: skip

    with pytest.raises(LikelihoodError, match=f'fragment "f[0-2]" {said}'):
        by_gold(fragments(["a", "b", "bad"], ["x", "x", "x"]), Broken())

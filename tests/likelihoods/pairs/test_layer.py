"""The layer that answers teach: its arithmetic, its check, and where it holds."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import expit

from kbforge.contracts import Fragment
from kbforge.errors import ModelError, UsageError
from kbforge_plugins.likelihoods.pairs import layer as layer_module
from kbforge_plugins.likelihoods.pairs.layer import COLUMNS, WEIGHTS, Layer
from kbforge_plugins.likelihoods.pairs.likelihood import Pairs
from tests.people import people

KNOWN = people(12, 3)
TWICE = replace(KNOWN[0], id="twice")
FRAGMENTS = [*KNOWN, TWICE]
WEIGHTS_OF = (1.5, -0.2, 0.3, 0.1, -0.4)
NAMED = next(fragment for fragment in KNOWN[1:] if fragment.names)
LATER = Fragment("later", {"name": NAMED.names})


def fitted(layer: tuple[float, ...] = ()) -> Pairs:
    model = Pairs(layer=layer)
    model.fit(FRAGMENTS)
    return model


PLAIN = fitted()
ANSWERS = [
    (one, other, float(one.label == other.label))
    for k, one in enumerate(KNOWN[:9])
    for other in KNOWN[k + 1 : 9]
]


def gains(model: Pairs, x: Fragment) -> np.ndarray:
    """What joining each fragment gains."""
    return model.log_marginal([[x, other] for other in FRAGMENTS])


def drawn(seed: int, n: int, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Log odds and features of pairs, and answers by a layer with these weights."""
    rng = np.random.default_rng(seed)
    plain, features = 2 * rng.normal(size=n), rng.normal(size=(n, len(COLUMNS))).astype(np.float32)
    odds = plain + Layer.of_file(plain, features, ()).inputs(plain, features) @ weights
    return plain, features, (rng.random(n) < expit(odds)).astype(np.float64)


def test_the_weights_are_the_most_probable_ones(monkeypatch):
    monkeypatch.setattr(layer_module, "_DIGITS", 12)
    truth = np.zeros(WEIGHTS)
    truth[[0, 3]] = -2.0, 1.0
    plain, features, same = drawn(1, 60, truth)
    same[::7] = 0.8  # an answer that is not quite sure
    layer = Layer.of_file(plain, features, ())
    x = layer.inputs(plain, features)
    spread = np.array([2.0, 0.7, *([0.3] * len(COLUMNS))])

    def loss(weights: np.ndarray) -> float:
        odds = plain + x @ weights
        prior = ((weights / spread) ** 2).sum() / 2
        said = 1 - same + (2 * same - 1) * expit(odds)  # the probability of each answer "same"
        return float(prior - np.log(said).sum())

    found = layer.taught(plain, features, same)[0].weights
    assert found == pytest.approx(minimize(loss, np.zeros(WEIGHTS), tol=1e-12).x, abs=1e-4)


def test_each_answer_is_predicted_by_the_others():
    """The one step from the mode is near what teaching without the answer gives."""
    truth = np.zeros(WEIGHTS)
    truth[0] = -3.0
    plain, features, same = drawn(2, 40, truth)
    layer = Layer.of_file(plain, features, ())
    lesson = layer.taught(plain, features, same)[1]
    losses = []
    for k in range(len(same)):
        others = np.arange(len(same)) != k
        told = layer.taught(plain[others], features[others], same[others])[0]
        odds = told.odds(plain[k : k + 1], features[k : k + 1])[0]
        losses.append(np.logaddexp(0, odds) - same[k] * odds)
    assert lesson.loss_after == pytest.approx(np.mean(losses), rel=0.03)
    assert lesson.loss_after < lesson.loss_before - 0.2


def test_an_answer_that_the_others_contradict_counts_for_little():
    truth = np.zeros(WEIGHTS)
    truth[0] = -3.0
    plain, features, same = drawn(4, 60, truth)
    right = np.where(same > 0.5, 0.95, 0.05)
    layer = Layer.of_file(plain, features, ())
    odds = [layer.taught(plain, features, right)[0].odds(plain, features)]
    wrong = np.argsort(odds[0])[:3]  # surely different
    assert np.all(right[wrong] == 0.05)
    right[wrong] = 0.95
    odds.append(layer.taught(plain, features, right)[0].odds(plain, features))
    assert np.abs(odds[1] - odds[0]).max() < 1
    assert odds[1][wrong].max() < -3


def test_answers_that_do_not_predict_each_other_teach_nothing():
    """What the trees expect is true: the rare surprises are chance."""
    nothing = np.zeros(WEIGHTS)
    taught = [drawn(seed, 20, nothing) for seed in range(30)]
    layers = [Layer.of_file(p, f, ()).taught(p, f, s) for p, f, s in taught]
    dropped = [lesson.loss_after > lesson.loss_before for _, lesson in layers]
    assert sum(dropped) > 15
    for (layer, _), gone in zip(layers, dropped, strict=True):
        assert gone == (not layer.weights.any())


@pytest.mark.parametrize("x", [NAMED, LATER])
def test_a_constant_moves_compared_pairs_of_different_statements(x):
    moved = gains(fitted((1.5,)), x) - gains(PLAIN, x)
    clipped = np.abs(gains(PLAIN, x)) > 4
    compared = (np.abs(moved - 1.5) < 1e-4) | (clipped & (moved >= 0))
    assert 1 < (np.abs(moved - 1.5) < 1e-4).sum() < len(FRAGMENTS)
    assert np.all(compared | (moved == 0))


def test_two_fragments_that_state_the_same_are_as_probably_one():
    same = [[KNOWN[0], TWICE]]
    assert fitted(WEIGHTS_OF).log_marginal(same) == PLAIN.log_marginal(same)


def test_however_it_is_given_the_model_is_the_same():
    """Taught, fitted with the weights, or loaded by a model that knows none."""
    taught = PLAIN.taught(ANSWERS)
    assert taught.layer
    assert taught.lesson.answers > 0
    kept, loaded = taught.dump(), Pairs()
    loaded.load(kept)
    assert loaded.layer == taught.layer
    for model in (fitted(taught.layer), loaded, fitted((2.0,)).taught(ANSWERS)):
        assert model.dump().values == kept.values
        assert all(np.array_equal(a, kept.arrays[n]) for n, a in model.dump().arrays.items())
        for x in (*KNOWN[:4], LATER):
            assert np.array_equal(gains(model, x), gains(taught, x))
            assert model.index.keys(x) == taught.index.keys(x)


def test_a_later_fragment_is_scored_as_if_it_were_of_the_file():
    """Its pairs go through the same layer: what they state is the same as in the file."""
    model = fitted((1.0, 0.5))
    again = Pairs(layer=(1.0, 0.5))
    again.fit(FRAGMENTS)
    later = [replace(LATER, id=f"later {k}") for k in range(2)]
    assert np.array_equal(gains(model, later[0]), gains(again, later[1]))
    plain = gains(PLAIN, LATER)
    inside = np.abs(plain) < 3
    assert inside.any()
    compared = inside & (plain != gains(PLAIN, Fragment("other", {"name": ("zzz",)})))
    expected = plain + 1.0 + 0.5 * plain / 3
    assert gains(model, LATER)[compared] == pytest.approx(expected[compared], abs=1e-3)


def test_answers_about_fragments_outside_the_file_teach_too():
    other = replace(NAMED, id="other", properties={**NAMED.properties, "town": ("elsewhere",)})
    answers = [*ANSWERS[:12], (other, NAMED, 1.0), (other, KNOWN[3], 0.0)]
    rows = PLAIN._odds.n_rows
    inside, both = (PLAIN.taught(some).lesson.answers for some in (ANSWERS[:12], answers))
    assert both == inside + 2
    assert PLAIN._odds.n_rows == rows  # they do not stay


def test_no_answers_teach_nothing():
    assert PLAIN.taught([]) is PLAIN
    assert fitted((1.0,)).taught([]).layer == ()
    assert PLAIN.taught([(KNOWN[0], TWICE, 1.0)]).lesson.answers == 0


def test_what_attributes_say_still_adds_up():
    model = fitted(WEIGHTS_OF)
    x, cluster = KNOWN[1], KNOWN[2:5]
    both, alone, one = model.log_marginal([[*cluster, x], cluster, [x]])
    assert sum(model.contributions(x, cluster).values()) == pytest.approx(both - alone - one)


@pytest.mark.parametrize("layer", [(1e3,), (float("nan"),), (0.0,) * (WEIGHTS + 1)])
def test_weights_out_of_range_are_refused(layer):
    with pytest.raises(UsageError, match="layer: expected up to"):
        Pairs(layer=layer)


@pytest.mark.parametrize("name", ["weights", "deviation"])
def test_a_damaged_layer_is_refused(name):
    kept = fitted(WEIGHTS_OF).dump()
    arrays = {**kept.arrays, f"layer/{name}": np.full(3, np.nan)}
    with pytest.raises(ModelError, match=f"layer/{name}"):
        Pairs().load(replace(kept, arrays=arrays))

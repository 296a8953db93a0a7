"""The judge compares groupings of a file without labels; what it expects of pairs is by hand."""

import math
from dataclasses import replace

import numpy as np
import pytest
from safetensors.numpy import load, save
from scipy.special import expit

from kbforge.contracts import ConjugateLikelihood, FloatArray, Fragment, IntArray
from kbforge.errors import ModelError
from kbforge.fit import judge as judge_module
from kbforge.fit.description import PairOdds
from kbforge.fit.hypotheses import NAMES, Hypothesis
from kbforge.fit.judge import (
    Judgement,
    adjusted_gains,
    judge,
    read_scorer,
    shipped_scorer,
    smooth,
    with_exponent,
)
from kbforge.fit.statistics import (
    ATTRIBUTES,
    EXPECTED,
    EXPECTED_F1,
    PairExpectations,
)
from kbforge.indexes.selective import Sample, Selective
from kbforge.models.bundle import make_likelihood
from kbforge_plugins.likelihoods.pairs.likelihood import Pairs
from tests.fit.people import made

LABELS = np.arange(3)


def path(*likelihoods: str) -> list[Hypothesis]:
    return [Hypothesis(name, float(k), LABELS) for k, name in enumerate(likelihoods)]


def test_the_shipped_scorer_is_read_back_as_it_was_written():
    scorer = shipped_scorer(None)
    again = read_scorer(scorer.to_bytes(), "judge")
    assert again.to_bytes() == scorer.to_bytes()
    assert 0 <= scorer.margin < 0.2
    assert scorer.spread > 0


@pytest.mark.parametrize("how", ["cut", "margin", "lacking", "more"])
def test_what_is_no_scorer_is_refused(how):
    content = shipped_scorer(None).to_bytes()
    parts = load(content)
    if how == "margin":
        parts["margin"] = np.array([np.nan])
    elif how == "lacking":
        del parts["level"]
    elif how == "more":
        parts["further"] = np.zeros(1)
    damaged = content[:-100] if how == "cut" else save(parts)
    with pytest.raises(ModelError, match="judge"):
        read_scorer(damaged, "judge")


def test_gains_are_smoothed_along_their_own_path():
    found = path(NAMES, *["bigram"] * 5, "pairs")
    gains = smooth(np.array([7.0, 0.0, 0.0, 10.0, 0.0, 0.0, 1.0]), found)
    assert gains.tolist() == pytest.approx([0.0, 1.0, 2.0, 4.0, 2.0, 1.0, 1.0])


def worth(
    found: list[Hypothesis],
    gains: list[float],
    by_pairs: list[float] | None = None,
    attributes: float = 1.0,
) -> FloatArray:
    """What hypotheses, exact names first, are worth by these statistics; the margin is .02."""
    expected = by_pairs or [math.nan] * len(found)
    columns = np.array([expected, [attributes] * len(found)])
    return adjusted_gains(np.array(gains), (EXPECTED_F1, ATTRIBUTES), columns.T, found, 0.02)


@pytest.mark.parametrize(("gain", "chosen"), [(0.01, 0), (0.05, 2)])
def test_exact_names_yield_to_a_gain_above_the_margin(gain, chosen):
    found = path(NAMES, "bigram", "bigram")
    assert worth(found, [0.0, -1.0, gain]).argmax() == chosen


def test_what_the_model_of_pairs_expects_counts_beside_the_scorer():
    """Equal names say nothing: the scorer sees no gain, the pairs do."""
    found = path(NAMES, "attributes", "attributes")
    gains = [0.0, 0.01, 0.0]
    assert worth(found, gains).argmax() == 0
    assert worth(found, gains, [0.4, 0.42, 0.8]).argmax() == 2
    assert worth(found, gains, [0.8, 0.4, 0.42]).argmax() == 0


def test_of_equal_gains_the_one_near_the_own_alpha_of_its_likelihood_is_worth_most():
    found = path(NAMES) + [Hypothesis("pairs", a, LABELS, 0.0) for a in (-3.0, 0.5, 2.0, 6.0)]
    found.append(Hypothesis("bigram", 0.0, LABELS))
    worths = worth(found, [0.0] + [0.1] * 5)[1:]
    assert worths.argmax() == 1
    assert worths[1] > worths[2] > worths[0]
    # so far away nothing more is lost, and an alpha that says nothing is as far
    assert worths[0] == worths[3] == worths[4]


def test_on_records_what_attributes_find_by_themselves_takes_a_good_reason_to_displace():
    found = path(NAMES, "attributes", "attributes", "pairs")
    found = [replace(h, own=h.log_alpha if k == 2 else 9.0) for k, h in enumerate(found)]
    for gain, attributes, chosen in ((0.16, 3.0, 2), (0.18, 3.0, 3), (0.1, 2.0, 0)):
        assert worth(found, [0.12, 0.1, 0.1, gain], attributes=attributes).argmax() == chosen


def test_statistics_that_are_not_known_are_an_error():
    with pytest.raises(ModelError, match="statistic"):
        shipped_scorer(None).gains(("another",), np.zeros((1, 1)), path(NAMES))


def judged(fragments: list[Fragment], *names: str) -> Judgement:
    index = Selective()
    index.fit(fragments)
    fitted = {}
    for name in names or ("attributes", "pairs"):
        likelihood = make_likelihood(name)
        assert isinstance(likelihood, ConjugateLikelihood)
        likelihood.fit(fragments)
        fitted[name] = likelihood
    return judge(fragments, fitted, index, shipped_scorer(None))


class Told:
    """What pairs expect of the groupings along a path: the F1 at each of three log alphas."""

    def __init__(self, f1: dict[float, tuple[float, float, float]]) -> None:
        self.f1 = f1

    def groupings(self, likelihood, sample, log_alphas, exponent):
        del likelihood, sample
        assert log_alphas == sorted(log_alphas)
        return reversed(self.f1.get(exponent, (0.0, 0.0, 0.0)))

    def of(self, labels):
        return {EXPECTED_F1: labels}


@pytest.mark.parametrize(
    ("f1", "expected"),
    [
        ({1.0: (0.8, 0.7, 0.6), 0.75: (0.8, 0.805, 0.7), 0.5: (0.8, 0.7, 0.6)}, (1.0, 0)),
        ({1.0: (0.7, 0.7, 0.8), 0.75: (0.8, 0.805, 0.7), 0.5: (0.8, 0.7, 0.6)}, (1.0, 0)),
        ({1.0: (0.8, 0.7, 0.6), 0.75: (0.8, 0.82, 0.7), 0.5: (0.8, 0.7, 0.6)}, (0.75, 1)),
        ({1.0: (0.8, 0.7, 0.6), 0.75: (0.8, 0.82, 0.7), 0.5: (0.83, 0.7, 0.9)}, (0.5, 2)),
        ({1.0: (0.8, 0.7, 0.6), 0.75: (0.82, 0.82, 0.7), 0.5: (0.8, 0.7, 0.6)}, (0.75, 0)),
    ],
)
def test_another_exponent_of_sizes_must_be_expected_to_gain(people, monkeypatch, f1, expected):
    told = Told(f1)
    monkeypatch.setattr(judge_module, "groupings", told.groupings)
    likelihood = make_likelihood("attributes")
    own = [Hypothesis("attributes", 5.0 - k, value) for k, value in enumerate((*f1[1.0], 0.99))]
    before = replace(
        people,
        found=(people.found[0], *own),
        worth=np.array([0.0, 0.9, 0.5, 0.5, 0.5]),
        open=(False, True, True, True, True),
        expected=told,
    )
    exponent, lower = expected
    found = with_exponent(before, likelihood)
    assert found.exponent == exponent
    assert math.log(found.alpha) == pytest.approx(before.chosen.log_alpha - lower)
    unchanged = (before.chosen.alpha, 1.0)
    asked = with_exponent(before, likelihood, 0.25)
    assert (asked.alpha, asked.exponent) == (before.chosen.alpha, 0.25)
    for other in (
        replace(before, expected=None),
        people.only("pairs"),
    ):
        one = with_exponent(other, likelihood)
        assert (one.alpha, one.exponent) == (other.chosen.alpha, 1.0)
    one = with_exponent(before, likelihood, 1.0)
    assert (one.alpha, one.exponent) == unchanged


@pytest.fixture(scope="module")
def people():
    return judged(made("people"))


def test_hypotheses_are_exact_names_and_groupings_of_each_likelihood(people):
    assert people.found[0].likelihood == NAMES
    assert {h.likelihood for h in people.found} == {NAMES, "attributes", "pairs"}
    n = len(people.sample.fragments)
    assert people.sample.seeds == n
    for hypothesis in people.found:
        assert sorted(i for cluster in hypothesis.clusters for i in cluster) == list(range(n))
    assert np.isfinite(people.gains).all()
    assert people.gains[0] == 0
    assert ((people.levels >= 0) & (people.levels <= 1)).all()


def test_the_runner_up_is_the_best_of_another_likelihood(people):
    second = people.runner_up
    assert second is not None
    others = [k for k, h in enumerate(people.found) if h.likelihood != people.chosen.likelihood]
    place = max(others, key=lambda k: float(people.worth[k]))
    assert second[0] is people.found[place]
    assert second[1] == pytest.approx(people.worth[people.place] - people.worth[place])
    assert second[1] >= 0
    assert people.only("pairs").runner_up is None


def test_a_runner_up_is_close_behind_within_the_error_of_the_judge(people):
    second = people.runner_up
    assert replace(people, spread=second[1]).close_behind == second
    assert replace(people, spread=second[1] - 0.001).close_behind is None
    assert replace(people.only("pairs"), spread=1.0).close_behind is None


def test_the_order_and_the_ids_of_the_fragments_do_not_matter(people):
    fragments = made("people")
    turned = [replace(f, id=f"x{i}", label=None) for i, f in enumerate(reversed(fragments))]
    again = judged(turned)
    one, other = again.chosen, people.chosen
    assert (one.likelihood, one.alpha) == (other.likelihood, other.alpha)
    assert np.allclose(again.gains, people.gains, atol=1e-6)


def test_the_grouping_nearest_the_own_alpha_of_a_likelihood_has_just_that(people):
    for name in ("attributes", "pairs"):
        (own,) = {h.own for h in people.found if h.likelihood == name}
        assert own in {h.log_alpha for h in people.found if h.likelihood == name}
    assert all(math.isnan(h.own) for h in people.found if h.likelihood in (NAMES, "bigram"))


def test_one_likelihood_can_be_judged_alone(people):
    for name in ("attributes", "pairs", NAMES):
        assert people.only(name).chosen.likelihood == name
    assert people.without(NAMES).chosen.likelihood != NAMES
    with pytest.raises(ValueError, match="no hypothesis"):
        people.only("gpt")


def test_answers_pay_where_good_hypotheses_differ():
    fragments = tuple(Fragment(str(k), {"name": (str(k),)}) for k in range(4))
    apart, pairs = np.arange(4), np.array([0, 0, 2, 2])

    def gain(worth: list[float], labels: list[IntArray]) -> float:
        found = tuple(Hypothesis("pairs", float(k), of) for k, of in enumerate(labels))
        none = np.zeros(len(found))
        sample = Sample(fragments, tuple(range(4)), 4)
        all_open = (True,) * len(found)
        return Judgement(sample, found, none, none, np.array(worth), all_open, 0.04).gain_of_answers

    assert gain([0.1, 0.1], [pairs, pairs]) == 0
    assert gain([0.1, 0.1], [apart, pairs]) == pytest.approx(0.65 / 2 / 3)  # their F1 is 2/3
    assert gain([0.1, 0.9], [apart, pairs]) < 1e-6
    assert 0 < gain([0.1, 0.14], [apart, pairs]) < gain([0.1, 0.12], [apart, pairs])


@pytest.mark.parametrize(
    "fragments",
    [
        [Fragment("only", {"name": ("Ann",)})],
        [Fragment(f"f{i}", {"name": ("Ann Lee",)}) for i in range(50)],
        [Fragment(f"f{i}", {"colour": (f"c{i % 3}",)}) for i in range(30)],
        [Fragment(f"f{i}", {"name": ("x" * 60_000 + str(i),)}) for i in range(3)],
        [Fragment(f"f{i}", {"name": (" ",)}) for i in range(4)],
        [Fragment("v", {}, (1.0, 2.0)), Fragment("p", {"name": ("Ann",)})],
    ],
    ids=["one", "equal", "no name", "long", "blank", "vector too"],
)
def test_odd_files_are_judged(fragments):
    found = judged(fragments, "pairs")
    assert np.isfinite(found.gains).all()


def by_hand(odds: PairOdds, labels: IntArray) -> tuple[float, float, float, float]:
    """The same, pair by pair."""
    links = zip(odds.first.tolist(), odds.second.tolist(), odds.nats.tolist(), strict=True)
    probability = {(one, two): float(expit(nats)) for one, two, nats in links}
    n = len(labels)
    row = odds.row.tolist()
    precision, recall, f1, entities = [], [], [], 0.0
    for i in range(n):
        others = [(j, probability.get((row[i], row[j]), 0.0)) for j in range(n) if j != i]
        wanted = 1 + sum(p for _, p in others)
        right = 1 + sum(p for j, p in others if labels[i] == labels[j])
        size = int((labels == labels[i]).sum())
        precision.append(right / size)
        recall.append(right / wanted)
        f1.append(2 * right / (size + wanted))
        entities += 1 / wanted
    found = math.log(entities / len(set(labels.tolist())))
    return (*(float(np.mean(part)) for part in (precision, recall, f1)), found)


@pytest.mark.parametrize("share", [1.0, 0.4], ids=["the file", "a sample"])
def test_expectations_are_those_of_all_pairs(share):
    fragments = made("people")
    model = make_likelihood("pairs")
    assert isinstance(model, Pairs)
    model.fit(fragments)
    rng = np.random.default_rng(3)
    chosen = rng.permutation(len(fragments))[: round(share * len(fragments))]
    sample = [fragments[i] for i in chosen] + [fragments[chosen[0]]]
    odds = model.pair_odds(sample)
    expected = PairExpectations(odds)
    for entities in (1, 5, len(sample)):
        labels = rng.integers(0, entities, len(sample))
        told = expected.of(labels)
        assert tuple(told) == EXPECTED
        assert tuple(told.values()) == pytest.approx(by_hand(odds, labels), abs=1e-12)

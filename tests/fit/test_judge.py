"""The judge compares groupings of a file without labels; what it expects of pairs is by hand."""

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy.special import expit

from kbforge.contracts import ConjugateLikelihood, Fragment, IntArray
from kbforge.fit.description import Lesson, PairOdds
from kbforge.fit.hypotheses import ALIASES, NAMES
from kbforge.fit.judge import Hypothesis, Judgement, expected_f1, judge, with_aliases
from kbforge.fit.prepare import judged_by_pairs
from kbforge.fit.review import RunOptions
from kbforge.indexes.selective import Sample, Selective
from kbforge.models.bundle import make_likelihood
from kbforge_plugins.likelihoods.pairs.likelihood import Pairs
from tests.fit.people import made

APART, PAIRED = np.arange(4), np.array([0, 0, 2, 2])


class Told:
    """A model of pairs that says the same of each two fragments of one pair."""

    def __init__(self, nats: float, lesson: Lesson | None = None) -> None:
        self.nats, self.lesson = nats, lesson

    def pair_odds(self, fragments: list[Fragment]) -> PairOdds:
        first, second = np.array([0, 1, 2, 3]), np.array([1, 0, 3, 2])
        return PairOdds(np.arange(len(fragments)), first, second, np.full(4, self.nats), -5.0)


class Grouped:
    """A likelihood by name that has only a grouping."""

    default_alpha = default_exponent = 1.0

    def __init__(self, name: str) -> None:
        self.name = name


def judged_pairs(
    monkeypatch: pytest.MonkeyPatch, nats: float, stated: int, **labels: IntArray
) -> Judgement:
    """The judgement of four fragments with other names and so many attributes, where each
    likelihood finds its labels."""
    values = {f"a{k}": ("x",) for k in range(stated)}
    fragments = [Fragment(str(k), {"name": (str(k),), **values}) for k in range(4)]
    monkeypatch.setattr(
        "kbforge.fit.judge.groupings",
        lambda one, sample, log_alphas, exponent=1.0: [labels[one.name]] * len(log_alphas),
    )
    index = Selective()
    index.fit(fragments)
    return judge(fragments, {name: Grouped(name) for name in labels}, index, Told(nats))


@pytest.mark.parametrize(("nats", "chosen"), [(3.0, "pairs"), (-1.5, NAMES), (-0.25, NAMES)])
def test_the_grouping_is_taken_of_which_pairs_expect_most(monkeypatch, nats, chosen):
    """Where the two are nearly the same, exact names are safer."""
    found = judged_pairs(monkeypatch, nats, 0, pairs=PAIRED)
    assert found.chosen.likelihood == chosen
    of_pairs = 2 * (1 + expit(nats)) / (3 + expit(nats))
    assert found.expected.tolist() == pytest.approx([2 / (2 + expit(nats)), *[of_pairs] * 5])
    assert found.expected_gain == pytest.approx(found.expected_f1 - found.expected[0])


@pytest.mark.parametrize(("attributes", "chosen"), [(2, "pairs"), (3, "attributes")])
def test_on_records_attributes_are_trusted_a_little_more(monkeypatch, attributes, chosen):
    near, all_apart = np.array([0, 0, 2, 3]), APART
    monkeypatch.setattr("kbforge.fit.judge._LEAST_RECORDS", 4)
    found = judged_pairs(monkeypatch, 0.1, attributes, pairs=PAIRED, attributes=near)
    assert found.expected[1] - 0.05 < found.expected[-1] < found.expected[1]
    assert found.chosen.likelihood == chosen
    found = judged_pairs(monkeypatch, 5.0, attributes, pairs=PAIRED, attributes=all_apart)
    assert found.chosen.likelihood == "pairs"
    monkeypatch.setattr("kbforge.fit.judge._LEAST_RECORDS", 5)
    found = judged_pairs(monkeypatch, 0.1, attributes, pairs=PAIRED, attributes=near)
    assert found.chosen.likelihood == "pairs"


def test_pairs_are_tried_at_several_alphas_and_of_equal_ones_the_largest_is_taken(monkeypatch):
    found = judged_pairs(monkeypatch, 3.0, 0, pairs=PAIRED)
    assert found.chosen.alpha == 1.0
    wanted = {math.exp(-1.5): PAIRED}
    monkeypatch.setattr(
        "kbforge.fit.judge.groupings",
        lambda one, sample, log_alphas: [wanted.get(math.exp(a), APART) for a in log_alphas],
    )
    again = judge(list(found.sample.fragments), {"pairs": Grouped("pairs")}, Selective(), Told(3.0))
    assert again.chosen.alpha == math.exp(-1.5)


@pytest.mark.parametrize(("after", "chosen"), [(0.1, "pairs"), (0.2, NAMES)])
def test_what_answers_have_taught_is_believed(monkeypatch, after, chosen):
    """Unless they taught nothing."""
    before = judged_pairs(monkeypatch, -0.25, 0, pairs=PAIRED)
    told = Told(-0.25, Lesson(12, 0.2, after))
    fragments = list(before.sample.fragments)
    found = judge(fragments, {"pairs": Grouped("pairs")}, Selective(), told)
    assert found.chosen.likelihood == chosen


def judged(fragments: list[Fragment], *names: str) -> Judgement:
    index = Selective()
    index.fit(fragments)
    fitted = {}
    for name in names or ("pairs", "attributes"):
        likelihood = make_likelihood(name)
        assert isinstance(likelihood, ConjugateLikelihood)
        likelihood.fit(fragments)
        fitted[name] = likelihood
    return judge(fragments, fitted, index, fitted.get("pairs"))


@pytest.fixture(scope="module")
def people():
    return judged(made("people"))


def test_hypotheses_are_exact_names_and_a_grouping_of_each_likelihood(people):
    assert [h.likelihood for h in people.found] == [NAMES, *["pairs"] * 5, "attributes"]
    n = len(people.sample.fragments)
    assert people.sample.seeds == n
    for hypothesis in people.found:
        assert sorted(i for cluster in hypothesis.clusters for i in cluster) == list(range(n))
    assert ((people.expected > 0) & (people.expected <= 1)).all()
    assert people.expected_f1 == people.expected[people.found.index(people.chosen)]


def test_the_order_and_the_ids_of_the_fragments_do_not_matter(people):
    turned = [replace(f, id=f"x{i}", label=None) for i, f in enumerate(reversed(made("people")))]
    again = judged(turned)
    assert again.chosen.likelihood == people.chosen.likelihood
    assert again.expected == pytest.approx(people.expected)


def test_one_likelihood_can_be_judged_alone(people):
    for name in ("attributes", "pairs", NAMES):
        assert people.only(name).chosen.likelihood == name
        assert people.without(name).chosen.likelihood != name
    assert people.only("gpt").chosen is people.chosen


def test_a_review_asks_about_the_grouping_of_the_likelihood_that_is_named():
    fragments = made("people")
    plain = judged_by_pairs(fragments, RunOptions())
    named = judged_by_pairs(fragments, RunOptions(likelihood="attributes"))
    assert named.chosen.likelihood == "attributes"
    assert plain.expected == pytest.approx(named.expected)


def test_answers_are_wanted_where_little_is_expected(monkeypatch):
    assert judged_pairs(monkeypatch, 0.3, 0, pairs=PAIRED).wants_answers
    assert not judged_pairs(monkeypatch, 5.0, 0, pairs=PAIRED).wants_answers


def test_without_a_model_of_pairs_the_last_likelihood_is_taken():
    found = judged(made("people"), "attributes")
    assert found.chosen.likelihood == "attributes"
    assert not found.wants_answers


def test_aliases_gain_what_exact_names_lack(monkeypatch):
    fragments = tuple(Fragment(str(k), {"name": (str(k),)}) for k in range(4))
    found = (Hypothesis(NAMES, APART), Hypothesis("pairs", APART))
    before = Judgement(
        Sample(fragments, tuple(range(4)), 4), found, np.full(2, 0.5), np.array([0.53, 0.5]),
        (True, True),
    )  # fmt: skip
    monkeypatch.setattr("kbforge.fit.judge.own_grouping", lambda one, sample: PAIRED)
    after = with_aliases(before, Grouped(ALIASES))
    assert after.chosen.likelihood == ALIASES
    # the F1 of names against it is 2/3 for every fragment
    assert after.expected_f1 == pytest.approx(0.5 + 0.8 / 3)
    assert after.worth[-1] == pytest.approx(0.53 + 0.8 / 3)


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
    assert np.isfinite(found.expected).all()


def by_hand(odds: PairOdds, labels: IntArray) -> float:
    """The expected F1, pair by pair."""
    links = zip(odds.first.tolist(), odds.second.tolist(), odds.nats.tolist(), strict=True)
    probability = {(one, two): float(expit(nats)) for one, two, nats in links}
    n, row, f1 = len(labels), odds.row.tolist(), []
    for i in range(n):
        others = [(j, probability.get((row[i], row[j]), 0.0)) for j in range(n) if j != i]
        wanted = 1 + sum(p for _, p in others)
        right = 1 + sum(p for j, p in others if labels[i] == labels[j])
        f1.append(2 * right / (int((labels == labels[i]).sum()) + wanted))
    return float(np.mean(f1))


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
    for entities in (1, 5, len(sample)):
        labels = rng.integers(0, entities, len(sample))
        assert expected_f1(odds, [labels])[0] == pytest.approx(by_hand(odds, labels), abs=1e-12)

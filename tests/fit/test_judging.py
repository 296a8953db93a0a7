"""What is judged depends on the fragments alone, and answers outweigh what is expected."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from kbforge import registry
from kbforge.contracts import ConjugateLikelihood, Fragment
from kbforge.files.answers import NumberedAnswer
from kbforge.fit.choose import shipped_scorer
from kbforge.fit.judge import NAMES, Judgement, judge
from kbforge.models.resolve import make_likelihood
from tests.fit.people import made


def judged(fragments: list[Fragment], *names: str) -> Judgement:
    index = registry.create("indexes", "selective", {})
    index.fit(fragments)
    fitted = {}
    for name in names or ("bigram", "attributes", "pairs"):
        likelihood = make_likelihood(name)
        assert isinstance(likelihood, ConjugateLikelihood)
        likelihood.fit(fragments)
        fitted[name] = likelihood
    return judge(fragments, fitted, index, shipped_scorer(None), {"trigram": "bigram"})


@pytest.fixture(scope="module")
def people() -> Judgement:
    return judged(made("people"))


def test_hypotheses_are_exact_names_and_groupings_of_each_likelihood(people: Judgement) -> None:
    assert people.found[0].likelihood == NAMES
    assert {h.likelihood for h in people.found} == {NAMES, "bigram", "attributes", "pairs"}
    n = len(people.sample.fragments)
    assert people.sample.seeds == people.of == n
    for hypothesis in people.found:
        assert sorted(i for cluster in hypothesis.clusters for i in cluster) == list(range(n))
    assert np.isfinite(people.gains).all()
    assert people.gains[0] == 0
    assert ((people.levels >= 0) & (people.levels <= 1)).all()


def test_the_order_and_the_ids_of_the_fragments_do_not_matter(people: Judgement) -> None:
    fragments = made("people")
    turned = [replace(f, id=f"x{i}", label=None) for i, f in enumerate(reversed(fragments))]
    again = judged(turned)
    assert (again.chosen.likelihood, again.chosen.alpha) == (
        people.chosen.likelihood,
        people.chosen.alpha,
    )
    assert np.allclose(again.gains, people.gains, atol=1e-6)
    assert asked_first(again) == asked_first(people)


def asked_first(judged: Judgement) -> list[str]:
    """What the fragments of the first question state."""
    drawn = judged.questions(0).next()
    assert drawn is not None
    asked = (judged.sample.fragments[i] for i in (drawn.first, drawn.second))
    return sorted(str(sorted(fragment.properties.items())) for fragment in asked)


def test_the_grouping_nearest_the_own_alpha_of_a_likelihood_has_just_that(
    people: Judgement,
) -> None:
    for name in ("attributes", "pairs"):
        (own,) = {h.own for h in people.found if h.likelihood == name}
        assert own in {h.log_alpha for h in people.found if h.likelihood == name}
    assert all(math.isnan(h.own) for h in people.found if h.likelihood in (NAMES, "bigram"))


def test_one_likelihood_can_be_judged_alone(people: Judgement) -> None:
    for name in ("bigram", "attributes", "pairs", NAMES):
        assert people.only(name).chosen.likelihood == name
    assert people.without(NAMES).chosen.likelihood != NAMES
    with pytest.raises(ValueError, match="no hypothesis"):
        people.only("gpt")
    assert "trigram" in {h.likelihood for h in judged(made("people"), "trigram").found}


def test_answers_move_the_choice_to_what_agrees_with_them(people: Judgement) -> None:
    target = people.only("bigram").chosen
    place = people.sample.places
    rng = np.random.default_rng(0)
    pairs = rng.integers(len(target.labels), size=(150, 2)).tolist()
    same = [bool(target.labels[i] == target.labels[j]) for i, j in pairs]
    asked = zip(pairs, same, strict=True)
    answers = [NumberedAnswer(place[i], place[j], told, False) for (i, j), told in asked if i != j]
    told = people.answered(answers).chosen
    agrees = [
        bool(told.labels[i] == told.labels[j]) == answer
        for (i, j), answer in zip(pairs, same, strict=True)
    ]
    assert np.mean(agrees) > 0.99
    assert people.answered([]).chosen is people.chosen


def test_entities_of_the_file_are_told_from_the_seeds(people: Judgement) -> None:
    assert people.entities == pytest.approx(len(people.chosen.clusters))
    assert replace(people, of=10 * people.of).entities == pytest.approx(10 * people.entities)


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
def test_odd_files_are_judged(fragments: list[Fragment]) -> None:
    found = judged(fragments, "pairs")
    assert np.isfinite(found.gains).all()
    assert math.isfinite(found.entities)

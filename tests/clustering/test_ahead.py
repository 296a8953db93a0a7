"""Looking ahead changes what is scored together, and nothing else."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kbforge import registry
from kbforge.clustering.rules import Rules, greedy
from kbforge.clustering.session import SmcSession
from kbforge.contracts import (
    CandidateIndex,
    ConjugateLikelihood,
    Constraints,
    Decision,
    FloatArray,
    Fragment,
    IntArray,
    Likelihood,
    ModelSpec,
)
from kbforge.errors import LikelihoodError, UsageError
from kbforge.indexes.selective import Selective
from kbforge_plugins.likelihoods.attributes.likelihood import Attributes
from tests.clustering.contents import contents
from tests.clustering.test_exactness import attributes, records
from tests.clustering.test_failures import RULES
from tests.people import people
from tests.profile import examples

STAGES = ("plain", "surrogate", "indexed", "indexed surrogate")
SPLIT = Rules(20, greedy, splits=True)


class Asked(Likelihood):
    """A black box that keeps what it was asked, set by set and call by call."""

    def __init__(self, likelihood: Likelihood) -> None:
        self._likelihood = likelihood
        self.calls: list[list[tuple[str, ...]]] = []

    def log_marginal(self, clusters: Sequence[Sequence[Fragment]]) -> FloatArray:
        self.calls.append([tuple(sorted(x.id for x in cluster)) for cluster in clusters])
        return self._likelihood.log_marginal(clusters)

    @property
    def sets(self) -> list[tuple[str, ...]]:
        return [one for call in self.calls for one in call]


class Failing(Asked):
    """And that fails on sets with a fragment of that id: raises the error, or says NaN for None."""

    def __init__(self, likelihood: Likelihood, id: str, error: Exception | None) -> None:
        super().__init__(likelihood)
        self._id, self._error = id, error

    def log_marginal(self, clusters: Sequence[Sequence[Fragment]]) -> FloatArray:
        scores = super().log_marginal(clusters)
        bad = [any(x.id == self._id for x in cluster) for cluster in clusters]
        if any(bad) and self._error is not None:
            raise self._error
        return np.where(bad, np.nan, scores)


def problem_of(
    stage: str, black: Likelihood, model: ConjugateLikelihood, items: list[Fragment]
) -> ModelSpec:
    index = None
    if stage.startswith("indexed"):
        index = Selective()
        index.fit(items)
    surrogate = model if "surrogate" in stage else None
    return ModelSpec(black, 0.8, surrogate, 5 if surrogate else None, index)


def opened(spec: ModelSpec, rules: Rules, wave: int, seed: int = 0) -> SmcSession:
    """With waves so long, at most; 1: one by one."""
    return SmcSession(spec, replace(rules, wave=wave), np.random.default_rng(seed))


def indexed_people(entities: int, seed: int) -> tuple[list[Fragment], ModelSpec]:
    fragments = people(entities, seed)
    likelihood = Attributes()
    likelihood.fit(fragments)
    return fragments, ModelSpec(likelihood, 50.0, index=likelihood.index)


def of_people(n: int, seed: int) -> tuple[list[Fragment], Callable[[str], tuple[ModelSpec, Asked]]]:
    items = records(np.random.default_rng(seed), n)

    def make(stage: str) -> tuple[ModelSpec, Asked]:
        model = attributes(items)
        asked = Asked(model)
        return problem_of(stage, asked, model, items), asked

    return items, make


@pytest.mark.parametrize("stage", STAGES)
@examples(25)
@given(data=st.data(), rules=st.sampled_from(sorted(RULES)), seed=st.integers(0, 10_000))
def test_the_result_is_that_of_one_by_one(
    stage: str, data: st.DataObject, rules: str, seed: int
) -> None:
    items, make = of_people(24, seed)
    (spec, _), (other, ahead) = make(stage), make(stage)
    wave = data.draw(st.sampled_from([2, 3, 8, 100]), label="wave")
    cuts = sorted(data.draw(st.sets(st.integers(1, 23), max_size=4), label="cuts"))
    alone = opened(spec, RULES[rules], 1, seed)
    session = opened(other, RULES[rules], wave, seed)
    if data.draw(st.booleans(), label="foreseen"):
        session.foresee(items)
    portions = [items[i:j] for i, j in zip([0, *cuts], [*cuts, len(items)], strict=True)]
    steps = [info for portion in portions for info in session.add(portion)]
    assert steps == [info for item in items for info in alone.add([item])]
    assert session.posterior() == alone.posterior()
    assert contents(session.snapshot()) == contents(alone.snapshot())
    # nothing is scored twice, and nothing uncounted
    assert len(ahead.sets) == len(set(ahead.sets))
    known = session.posterior()
    assert len(ahead.sets) == known.model_evaluations + known.evaluations_in_vain
    assert alone.posterior().evaluations_in_vain == 0


def test_batches_are_larger_and_little_is_in_vain() -> None:
    items, whole = indexed_people(100, 3)
    found = {}
    for wave in (1, 32):
        assert isinstance(whole.likelihood, ConjugateLikelihood)
        asked = Asked(whole.likelihood)
        spec = replace(whole, likelihood=asked, surrogate=whole.likelihood, max_evals=20)
        session = opened(spec, SPLIT, wave)
        session.add(items)
        found[wave] = asked, session.posterior()
    assert len(found[32][0].calls) < 0.6 * len(found[1][0].calls)
    assert found[32][1].evaluations_in_vain < 0.05 * found[32][1].model_evaluations
    assert found[32][1] == found[1][1]


@pytest.mark.slow
def test_where_it_is_of_no_use_it_stops() -> None:
    """Every fragment changes what the next one is compared with: one entity after another."""
    people = records(np.random.default_rng(4), 6)
    items = [
        Fragment(f"{k}-{i}", {**x.properties, "n": (str(i),)})
        for k, x in enumerate(people)
        for i in range(40)
    ]
    model = attributes(items)
    asked = Asked(model)
    session = opened(problem_of("surrogate", asked, model, items), SPLIT, 32)
    session.add(items)
    known = session.posterior()
    assert known.evaluations_in_vain < 0.25 * known.model_evaluations


@pytest.mark.parametrize("error", [None, LikelihoodError("out of memory"), ZeroDivisionError("no")])
@pytest.mark.parametrize("stage", STAGES)
@pytest.mark.parametrize("bad", [0, 1, 9, 19])
def test_a_failure_names_the_fragment_and_leaves_what_one_by_one_does(
    stage: str, error: Exception | None, bad: int
) -> None:
    items, _ = of_people(20, 7)
    model = attributes(items)
    said, left = [], []
    for wave in (1, 16):
        failing = Failing(model, items[bad].id, error)
        session = opened(problem_of(stage, failing, model, items), SPLIT, wave)
        with pytest.raises((LikelihoodError, ZeroDivisionError)) as raised:
            session.add(items)
        said.append(str(raised.value))
        assert session.n_fragments == bad
        session.add(items[bad + 1 :])  # the others are welcome
        left.append((contents(session.snapshot()), session.posterior()))
    assert said[0] == said[1]
    assert left[0] == left[1]
    assert error is not None or items[bad].id in said[0]


def test_a_surrogate_that_fails_ahead_fails_in_its_own_step() -> None:
    items, _ = of_people(20, 8)
    odd = replace(items[12], id="odd")

    class Picky(Selective):
        def keys(self, fragment: Fragment) -> Sequence[int]:
            if fragment.id == "odd":
                raise LikelihoodError("no key for that")
            return Selective.keys_of(self, (fragment,))[1].tolist()

        def keys_of(self, fragments: Sequence[Fragment]) -> tuple[IntArray, IntArray]:
            return CandidateIndex.keys_of(self, fragments)

    index = Picky()
    index.fit(items)
    model = attributes(items)
    spec = ModelSpec(Asked(model), 0.8, model, 5, index)
    session = opened(spec, SPLIT, 16)
    with pytest.raises(LikelihoodError, match='fragment "odd": no key for that'):
        session.add([*items[:12], odd, *items[12:]])
    assert session.n_fragments == 12
    session.add(items[12:])
    alone = opened(spec, SPLIT, 1)
    alone.add(items)
    assert session.posterior() == alone.posterior()


@pytest.mark.parametrize("stage", STAGES)
def test_decisions_are_honoured_ahead(stage: str) -> None:
    items, make = of_people(24, 9)
    decisions = [
        Decision(True, items[2].id, items[20].id),
        Decision(False, items[3].id, items[9].id),
    ]
    found = []
    for wave in (1, 16):
        spec, _ = make(stage)
        spec = replace(spec, constraints=Constraints(tuple(decisions)))
        session = opened(spec, SPLIT, wave)
        session.add(items)
        found.append((session.posterior(), contents(session.snapshot())))
    assert found[0] == found[1]


def test_a_hint_that_is_wrong_does_no_harm() -> None:
    items, make = of_people(20, 10)
    spec, _ = make("indexed surrogate")
    session, alone = opened(spec, SPLIT, 8), opened(make("indexed surrogate")[0], SPLIT, 1)
    session.foresee(list(reversed(items)))
    session.add(items[:10])
    session.foresee(items[:3])
    session.add(items[10:])
    alone.add(items)
    assert session.posterior() == alone.posterior()


@pytest.mark.parametrize("name", ["split-smc", "greedy"])
def test_clusterers_have_the_option(name: str) -> None:
    items, whole = indexed_people(20, 11)
    assert isinstance(whole.likelihood, ConjugateLikelihood)
    found, calls, heard = [], [], list[int]()
    for wave in (1, 16):
        asked = Asked(whole.likelihood)
        spec = replace(whole, likelihood=asked, surrogate=whole.likelihood, max_evals=20)
        clusterer = registry.create("clusterers", name, {"wave": wave})
        rng = np.random.default_rng(0)
        found.append(clusterer.cluster(items, spec, rng, lambda step: heard.append(step.fragments)))
        calls.append(len(asked.calls))
    assert found[0] == found[1]
    assert calls[1] < calls[0] == len(items)
    # who wants to hear of every step hears of every step
    assert heard == 2 * list(range(1, len(items) + 1))
    with pytest.raises(UsageError, match="wave: expected at least 1, got 0"):
        registry.create("clusterers", name, {"wave": 0})

"""The kernel takes the oracle's steps, to the last bit: what it says of each, and all particles."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kbforge import registry
from kbforge.clustering.rules import RESAMPLERS, Rules, greedy, multinomial, optimal, stratified
from kbforge.clustering.session import SmcSession
from kbforge.contracts import ConjugateLikelihood, Constraints, Decision, Fate, Fragment, ModelSpec
from kbforge.errors import LikelihoodError
from kbforge_plugins.likelihoods.attributes.likelihood import Attributes
from kbforge_plugins.likelihoods.gaussian import Gaussian
from kbforge_plugins.likelihoods.pairs.likelihood import Pairs
from tests.clustering.toys import (
    ALPHA,
    SEEDS,
    BlackBox,
    Chain,
    Keys,
    Point,
    bridging_stream,
    fragments_of,
    normal,
)
from tests.installed import BIGRAM
from tests.kernel.oracle import Oracle
from tests.people import people
from tests.profile import examples

SPLIT = Rules(10, greedy, splits=True)


def both(spec: ModelSpec, rules: Rules) -> tuple[SmcSession, Oracle]:
    rngs = [np.random.default_rng(3) for _ in range(2)]
    return SmcSession(spec, rules, rngs[0]), Oracle(spec, rules, rngs[1])


def require_equal(session: SmcSession, oracle: Oracle) -> None:
    found = [
        [(particle.log_weight, particle.clusters) for particle in subproblem.particles]
        for subproblem in session.posterior().subproblems
    ]
    assert found == [oracle.subproblems[name] for name in sorted(oracle.subproblems)]


def run(
    spec: ModelSpec, fragments: Sequence[Fragment], rules: Rules = SPLIT, every: int = 7
) -> tuple[SmcSession, Oracle]:
    """Take in fragments, a few at a time, and compare."""
    session, oracle = both(spec, rules)
    for begin in range(0, len(fragments), every):
        part = fragments[begin : begin + every]
        assert session.add(part) == [oracle.add(x) for x in part]
        require_equal(session, oracle)
    return session, oracle


def fitted(model: ConjugateLikelihood, fragments: Sequence[Fragment], alpha: float) -> ModelSpec:
    model.fit(fragments)
    return ModelSpec(model, alpha, index=model.index)


PREDICTIVE = normal(1.0, 6.0)
SPECS: dict[str, Callable[[], ModelSpec]] = {
    "in the kernel": lambda: ModelSpec(Gaussian(lam=0.1), ALPHA),
    "in Python": lambda: ModelSpec(Chain(PREDICTIVE), ALPHA),
    "black box": lambda: ModelSpec(BlackBox(PREDICTIVE), ALPHA),
    "surrogate": lambda: ModelSpec(BlackBox(PREDICTIVE), ALPHA, Chain(normal(1.5, 8.0)), 6),
    "surrogate without a bound": lambda: ModelSpec(
        BlackBox(PREDICTIVE), ALPHA, Chain(normal(1.5, 8.0))
    ),
}
RULES = {
    "greedy": Rules(1, greedy, splits=True),
    "few": Rules(3, greedy, splits=True),
    "split": SPLIT,
    "plain": Rules(10, greedy, splits=False),
    "floor": Rules(10, greedy, splits=True, floor=0.01),
    "marginal": Rules(10, greedy, splits=True, weights="marginal"),
    "sampled merges": Rules(10, greedy, splits=True, weights="marginal", sampled_merges=True),
    "sampled merges, target": Rules(5, greedy, splits=True, sampled_merges=True),
    "multinomial": Rules(6, multinomial, splits=True, weights="marginal"),
    "plain multinomial": Rules(4, multinomial, splits=False),
    "stratified": Rules(6, stratified, splits=True, weights="marginal"),
    "optimal": Rules(6, optimal, splits=True, weights="marginal", floor=1e-4),
}


@pytest.mark.parametrize("spec", SPECS)
@pytest.mark.parametrize("rules", RULES)
def test_streams_that_merge_and_split(rules: str, spec: str) -> None:
    merged: set[int] = set()
    fates: set[Fate] = set()
    split = 0
    for seed in SEEDS:
        session, _ = both(SPECS[spec](), RULES[rules])
        points = fragments_of(bridging_stream(seed))
        told = session.add(points)
        merged.update(len(step.before) for step in told)
        fates.update(step.fate for step in told)
        split += sum(len(step.after) > 1 for step in told)
        run(SPECS[spec](), points, RULES[rules], 1 if seed < 2 else 9)
    assert {Fate.OPENED, Fate.JOINED} <= fates
    if spec == "in Python":  # the streams do what they were built for
        several = RULES[rules].splits and RULES[rules].particles > 1
        assert (Fate.MERGED in fates) == (split > 0) == several
        assert rules != "split" or {3, 4} <= merged


def test_all_resamplers_are_tried() -> None:
    assert {rules.resampler for rules in RULES.values()} == set(RESAMPLERS.values())


@examples(60)
@given(
    points=st.lists(st.tuples(st.integers(-3, 3), st.integers(-2, 2)), min_size=1, max_size=25),
    particles=st.sampled_from([1, 2, 5, 30]),
    alpha=st.sampled_from([0.001, 1.0, 50.0]),
    exponent=st.sampled_from([0.0, 0.5, 1.0, 2.0]),
    floor=st.sampled_from([0.0, 1e-3, 0.2]),
    spec=st.sampled_from(sorted(SPECS)),
)
def test_ties_are_broken_alike(
    points: list[tuple[int, int]],
    particles: int,
    alpha: float,
    exponent: float,
    floor: float,
    spec: str,
) -> None:
    """Few different points: equal weights are the rule."""
    rules = Rules(particles, greedy, splits=True, floor=floor)
    items = fragments_of([(float(a), float(b)) for a, b in points])
    run(replace(SPECS[spec](), alpha=alpha, exponent=exponent), items, rules, 5)


@examples(60)
@given(
    keys=st.lists(st.lists(st.integers(-3, 6), unique=True, max_size=5), min_size=1, max_size=40),
    spread=st.sampled_from([1.0, 9.0]),
    families=st.integers(1, 4),
    shared=st.integers(1, 3),
    compared=st.integers(0, 3),
    spec=st.sampled_from(sorted(SPECS)),
)
def test_keys_lead_alike(
    keys: list[list[int]], spread: float, families: int, shared: int, compared: int, spec: str
) -> None:
    """Keys that are closed, pruned and followed all the same; families left out."""
    fragments = [
        Fragment(
            f"f{i}", {"key": tuple(map(str, held))} if held else {}, (spread * float(len(held)),)
        )
        for i, held in enumerate(keys)
    ]
    index = Keys(families=families, shared=shared)
    index.compared = compared
    made = replace(SPECS[spec](), alpha=0.5, index=index)
    run(made, fragments, Rules(5, greedy, splits=True), 4)


@pytest.mark.parametrize("name", ["attributes", "names", *BIGRAM, "pairs"])
def test_records_of_people(name: str) -> None:
    fragments = people(40, 5, error=0.3)
    model = registry.create("likelihoods", name)
    run(fitted(model, fragments, 20.0), fragments, Rules(20, greedy, splits=True))


@examples(30)
@given(data=st.data())
def test_values_of_all_kinds(data: st.DataObject) -> None:
    """Dates, codes, numbers, long texts, sets, strange letters; values never counted."""
    word = st.text("abcdé 0159-/.\n𝔘", min_size=0, max_size=8)
    kinds = st.one_of(
        word,
        st.dates().map(str),
        st.integers(0, 10**6).map(str),
        st.lists(word, min_size=4, max_size=9).map(" ".join),
    )
    pool = data.draw(st.lists(kinds, min_size=1, max_size=8))
    some = st.lists(st.sampled_from(pool), min_size=1, max_size=3).map(tuple)
    record = st.dictionaries(st.sampled_from(["a", "b", "c"]), some, max_size=3)
    records = data.draw(st.lists(record, min_size=4, max_size=30))
    fragments = [Fragment(f"f{i}", held) for i, held in enumerate(records)]
    known = fragments[: data.draw(st.integers(1, len(fragments)))]
    if not any(value.strip() for f in known for held in f.properties.values() for value in held):
        return
    run(fitted(Attributes(), known, 5.0), fragments, SPLIT, 10)


def test_many_values_of_one_entity() -> None:
    """More different values than the sum over true values considers, and many equal ones."""
    rng = np.random.default_rng(0)
    names = [f"name {i}" for i in range(70)] + ["usual"] * 60
    fragments = [
        Fragment(f"f{i}", {"name": (name,), "code": ("X-9000",)})
        for i, name in enumerate(rng.permutation(names).tolist())
    ]
    spec = fitted(Attributes(), fragments, 0.01)
    session, _ = run(spec, fragments, Rules(3, greedy, splits=True), 10)
    assert max(map(len, session.posterior().clusters())) > 100


def test_rows_that_the_file_did_not_have() -> None:
    """Placed as they come, near to rows of the file and to one another; some state the same."""
    fragments = people(50, 6, error=0.3)
    again = [replace(f, id=f"again {f.id}") for f in fragments[::3]]
    empty = [Fragment(f"empty {i}", {"name": (" ",)}) for i in range(3)]
    spec = fitted(Pairs(), fragments[:60], 1.0)
    run(spec, [*fragments, *again, *empty], SPLIT, 20)


@pytest.mark.skipif(not BIGRAM, reason="the package kbforge_lm is not installed")
@pytest.mark.parametrize("far", [1, 20])
def test_counts_of_rows(far: int) -> None:
    """Factors of counts that the kernel asks for; fragments without a row; many clusters."""
    names = ["anna", "bob bobbins", "", "anna anna anna"] * far + [f"n{i} {i}" for i in range(40)]
    fragments = [
        Fragment(f"f{i}", {"name": (name,) * (1 + i % 3)} if name else {})
        for i, name in enumerate(names)
    ]
    spec = fitted(registry.create("likelihoods", "bigram"), fragments, 0.5)
    session, _ = run(spec, fragments, Rules(5, greedy, splits=True), 50)
    assert max(map(len, session.posterior().clusters())) >= far


def test_a_few_people_for_ever() -> None:
    """What the kernel forgets of clusters that are gone is nothing that the others have."""
    drawn = random.Random(0).choices(people(8, 1), k=900)
    fragments = [replace(each, id=f"r{i}") for i, each in enumerate(drawn)]
    spec = fitted(Attributes(), fragments, 4.0)
    session, _ = run(spec, fragments, Rules(30, greedy, splits=True), 300)
    assert session.snapshot().totals.evaluations > 2**10  # nodes from which on it forgets


@pytest.mark.slow
@pytest.mark.parametrize("ordered", [True, False])
@pytest.mark.parametrize("name", ["attributes", "pairs", *BIGRAM, "gaussian"])
def test_many_fragments_at_once(name: str, ordered: bool) -> None:
    """In random order, and in that of their entities."""
    rng = np.random.default_rng(2)
    fragments = [
        replace(f, vector=tuple(10.0 * int(str(f.label)) + rng.normal(size=2)))
        for f in people(120, 4, error=0.3)
    ]
    if ordered:
        fragments.sort(key=lambda f: str(f.label))
    likelihood = registry.create("likelihoods", name)
    likelihood.fit(fragments)
    index = likelihood.index or likelihood.index_of_many()
    assert index is not None
    index.fit(fragments)
    run(ModelSpec(likelihood, 100.0, index=index), fragments, SPLIT, 400)


@pytest.mark.parametrize("link", [None, "town", "source"])
def test_constraints_bound_what_a_fragment_joins(link: str | None) -> None:
    """Many at once: fragments that must join others wherever keys lead, and that must not."""
    for seed in range(3):
        rng = np.random.default_rng(seed)
        sources = rng.choice(list("abcdefgh"), 999).tolist()
        fragments = [
            replace(x, source=source)
            for x, source in zip(people(40, seed, error=0.3), sources, strict=False)
        ]
        by_label: dict[str, list[str]] = {}
        for x in fragments:
            by_label.setdefault(str(x.label), []).append(x.id)
        pairs = rng.integers(len(fragments), size=(20, 2)).tolist()
        decisions = [
            Decision(False, fragments[a].id, fragments[b].id)
            for a, b in pairs
            if fragments[a].label != fragments[b].label
        ]
        if link is None:  # with a link, these may leave a fragment no place
            decisions += [Decision(True, *ids[:2]) for ids in by_label.values() if len(ids) > 2]
        spec = fitted(Attributes(), fragments, 50.0)
        spec = replace(spec, constraints=Constraints(tuple(decisions), link))
        run(spec, fragments, SPLIT, 50)


def test_without_a_wave_a_black_box_is_asked_for_the_same() -> None:
    """Sets scored ahead for the next fragments change nothing."""
    fragments = people(30, 3, error=0.3)
    inner = fitted(Attributes(), fragments, 20.0)
    assert isinstance(inner.likelihood, ConjugateLikelihood)
    for surrogate in (None, inner.likelihood):
        for wave in (1, 32):
            spec = replace(inner, likelihood=Sets(inner.likelihood), surrogate=surrogate)
            run(spec, fragments, replace(SPLIT, wave=wave), 40)


class Sets(BlackBox):
    """A likelihood with its sufficient statistics hidden."""

    def __init__(self, likelihood: ConjugateLikelihood) -> None:
        self._inner, self.asked = likelihood, []  # type: ignore[assignment]


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("where", ["joining", "alone", "everywhere"])
def test_what_is_refused_is_refused_alike(bad: float, where: str) -> None:
    """And what came before is left as it was."""

    def spoiled(members: Sequence[Point], x: Point) -> float:
        wrong = where == "everywhere" or (where == "joining") == bool(members)
        return bad if x[0] == 5.0 and wrong else PREDICTIVE(members, x)

    items = [*fragments_of([(0.0,), (1.0,), (0.1,)]), Fragment("bad", {}, (5.0,))]
    for rules in (SPLIT, RULES["plain"], RULES["multinomial"]):
        session, oracle = both(ModelSpec(Chain(spoiled), 1.0), rules)
        assert session.add(items[:3]) == [oracle.add(x) for x in items[:3]]
        said: list[str] = []
        for add in (lambda: session.add(items[3:]), lambda: oracle.add(items[3])):  # noqa: B023
            try:
                add()
            except LikelihoodError as error:
                said.append(str(error).removeprefix('fragment "bad": '))
        assert len(set(said)) <= 1
        assert len(said) in (0, 2)
        assert bool(said) == (bad != -math.inf or where == "everywhere")
        require_equal(session, oracle)
        assert session.n_fragments == (3 if said else 4)

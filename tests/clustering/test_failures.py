"""A model that fails leaves everything as it was: to the last bit, whatever it is and whenever.

A fragment comes in the middle of a run, and the model raises or says NaN while it is looked at.
State, table, candidates and random numbers are as before, and the run goes on to the posterior of
one that never saw the fragment. The language and diffusion models are black boxes to the step: two
quick likelihoods without their tables stand for them here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given
from hypothesis import strategies as st

from kbforge import registry
from kbforge.clustering.rules import Rules, greedy, multinomial, optimal, stratified
from kbforge.clustering.session import SmcSession
from kbforge.contracts import (
    CandidateIndex,
    ConjugateLikelihood,
    FloatArray,
    Fragment,
    IntArray,
    Likelihood,
    LiveClusters,
    ModelSpec,
)
from kbforge.errors import LikelihoodError
from kbforge_plugins.likelihoods.gaussian import Gaussian
from tests.clustering.contents import contents
from tests.clustering.test_exactness import Family, attributes, names, records, vectors
from tests.clustering.toys import SetTable
from tests.installed import BIGRAM
from tests.profile import examples


class Broken(Exception):
    """What a model raises that knows nothing of KBForge's errors."""


@dataclass
class Trap:
    """Raises, or says NaN, at a call of one method after `wait` others; None: it is not set."""

    method: str = ""
    wait: int | None = None
    nan: bool = False
    sprung: bool = False

    def meets(self, method: str) -> bool:
        """Whether a call is to answer NaN."""
        if self.wait is None or method != self.method:
            return False
        self.wait -= 1
        if self.wait >= 0:
            return False
        self.sprung, self.wait = True, None
        if self.nan:
            return True
        raise Broken(method)


class Trapped(Likelihood):
    """A likelihood with a trap at its sets."""

    def __init__(self, likelihood: Likelihood, trap: Trap) -> None:
        self.likelihood, self.trap = likelihood, trap

    def log_marginal(self, clusters: Sequence[Sequence[Fragment]]) -> FloatArray:
        nan = self.trap.meets("log_marginal")
        scores = self.likelihood.log_marginal(clusters)
        return scores * np.nan if nan else scores


class TrappedConjugate(Trapped, ConjugateLikelihood):
    """And at its table."""

    likelihood: ConjugateLikelihood

    def live_clusters(self) -> LiveClusters:
        return TrappedTable(SetTable(self.likelihood), self.trap)


class TrappedTable(LiveClusters):
    """A live table with a trap in all that may raise."""

    def __init__(self, table: Any, trap: Trap) -> None:
        self.table, self.trap = table, trap

    def encode(self, fragment: Fragment) -> Any:
        self.trap.meets("encode")
        x = self.table.encode(fragment)
        self.trap.meets("encoded")
        return x

    def log_predictive(self, x: Any, slots: int) -> FloatArray:
        nan = self.trap.meets("log_predictive")
        scores: FloatArray = self.table.log_predictive(x, slots)
        self.trap.meets("predicted")
        return scores * np.nan if nan else scores

    def log_predictive_new(self, x: Any) -> float:
        nan = self.trap.meets("log_predictive_new")
        score: float = self.table.log_predictive_new(x)
        return float("nan") if nan else score

    def extend(self, x: Any, parents: IntArray, children: IntArray) -> None:
        self.table.extend(x, parents, children)

    def release(self, slots: IntArray) -> None:
        self.table.release(slots)

    def log_predictive_of(self, x: Any, slots: IntArray) -> FloatArray:
        nan = self.trap.meets("log_predictive_of")
        scores: FloatArray = self.table.log_predictive_of(x, slots)
        return scores * np.nan if nan else scores


class TrappedIndex(CandidateIndex):
    """An index by the first letters of all values, with a trap at its keys."""

    families, shared = 3, 1

    def __init__(self, trap: Trap) -> None:
        self.trap = trap

    def keys(self, fragment: Fragment) -> Sequence[int]:
        self.trap.meets("keys")
        found = {ord(value[0]) for values in fragment.properties.values() for value in values}
        return sorted(found) or [round(x) % 3 for x in fragment.vector or ()][:1]


def fitted(make: Callable[[], Any]) -> Callable[[list[Fragment]], Likelihood]:
    def likelihood(fragments: list[Fragment]) -> Likelihood:
        model: Likelihood = make()
        model.fit(fragments)
        return model

    return likelihood


# how fragments are drawn, and a likelihood for them; values that only the failing fragment has are
# not among those fitted to
LIKELIHOODS: dict[str, Family] = {
    "attributes": (records, attributes),
    **{name: (names, fitted(partial(registry.create, "likelihoods", name))) for name in BIGRAM},
    "gaussian": (vectors, lambda _: Gaussian()),
}
RULES = {
    "greedy": Rules(1, greedy, splits=True),
    "smc": Rules(6, greedy, splits=False),
    "split-smc": Rules(6, greedy, splits=True),
    "multinomial merges": Rules(6, greedy, splits=True, weights="marginal", sampled_merges=True),
    "multinomial": Rules(6, multinomial, splits=True, weights="marginal"),
    "stratified": Rules(6, stratified, splits=False),
    "optimal": Rules(6, optimal, splits=True, weights="marginal"),
}
TABLE = ("encode", "encoded", "log_predictive", "predicted", "log_predictive_new")
STAGES = {
    "conjugate": TABLE,
    "indexed": (*TABLE, "log_predictive_of", "keys"),
    "black box": ("log_marginal",),
    "surrogate": (*TABLE, "log_marginal"),
}


def problem_of(stage: str, likelihood: Likelihood, trap: Trap) -> ModelSpec:
    """The likelihood as a black box or not, with a surrogate or an index or neither."""
    index: CandidateIndex | None = TrappedIndex(trap) if stage == "indexed" else None
    if stage == "black box":
        return ModelSpec(Trapped(likelihood, trap), 0.8)
    assert isinstance(likelihood, ConjugateLikelihood)
    whole = TrappedConjugate(likelihood, trap)
    if stage == "surrogate":
        return ModelSpec(Trapped(likelihood, trap), 0.8, whole, 5)
    return ModelSpec(whole, 0.8, index=index)


def session_of(
    stage: str, likelihood: Likelihood, trap: Trap, rules: str, seed: int = 0
) -> SmcSession:
    spec = problem_of(stage, likelihood, trap)
    return SmcSession(spec, RULES[rules], np.random.default_rng(seed))


def strange(fragment: Fragment) -> Fragment:
    """With values (or a first vector) that no other fragment has."""
    values = {name: (*values, "ζω strange") for name, values in fragment.properties.items()}
    vector = None if fragment.vector is None else tuple(abs(1.0 - x) for x in fragment.vector)
    return Fragment("strange", values, vector)


@pytest.mark.parametrize("stage", STAGES)
@pytest.mark.parametrize("name", LIKELIHOODS)
@examples(10, suppress_health_check=[HealthCheck.filter_too_much])
@given(
    data=st.data(),
    rules=st.sampled_from(sorted(RULES)),
    seed=st.integers(0, 1000),
    nan=st.booleans(),
)
def test_a_failure_leaves_no_trace(
    name: str, stage: str, data: st.DataObject, rules: str, seed: int, nan: bool
) -> None:
    check_no_trace(LIKELIHOODS[name], stage, data, rules, seed, nan)


def check_no_trace(
    family: Family, stage: str, data: st.DataObject, rules: str, seed: int, nan: bool
) -> None:
    draw, make = family
    items = draw(np.random.default_rng(seed), 10)
    at = data.draw(st.integers(0, len(items)), label="position")
    method = data.draw(st.sampled_from(STAGES[stage]), label="method")
    wait = data.draw(st.integers(0, 1), label="calls before")
    # each run has a model of its own, so that none has met the other's values
    clean = session_of(stage, make(items), Trap(), rules, seed)
    clean.add(items)
    trap = Trap()
    session = session_of(stage, make(items), trap, rules, seed)
    session.add(items[:at])
    before = contents(session)
    trap.method, trap.wait, trap.nan = method, wait, nan
    # NaN from a method that only watches, or for no cluster at all, is no failure
    try:
        session.add([strange(items[min(at, len(items) - 1)])])
    except (Broken, LikelihoodError):
        pass
    else:
        assume(False)
    assert trap.sprung
    assert contents(session) == before
    session.add(items[at:])
    assert session.posterior() == clean.posterior()
    # the tables may number values in another order by now, the snapshot is free of that
    assert contents(session.snapshot()) == contents(clean.snapshot())


@pytest.mark.parametrize("stage", STAGES)
@pytest.mark.parametrize("method", sorted({method for s in STAGES.values() for method in s}))
def test_every_trap_springs(stage: str, method: str) -> None:
    """Those of the stage, on a step of the middle of a run: the property above is not empty."""
    items = records(np.random.default_rng(1), 9)
    trap = Trap()
    session = session_of(stage, attributes(items), trap, "split-smc")
    session.add(items[:-1])
    trap.method, trap.wait = method, 0
    # a surrogate says nothing of x alone, and a selective table is asked for a few clusters only
    never = {("surrogate", "log_predictive_new")}
    never |= {("indexed", "log_predictive"), ("indexed", "predicted")}
    if method in STAGES[stage] and (stage, method) not in never:
        with pytest.raises(Broken):
            session.add(items[-1:])
    else:
        session.add(items[-1:])
    assert trap.sprung == (method in STAGES[stage] and (stage, method) not in never)


@pytest.mark.parametrize("rules", RULES)
def test_a_missing_vector_in_the_middle_of_a_gaussian_run(rules: str) -> None:
    """The story: somebody's table has a hole. The run says where, and goes on without it."""
    points = vectors(np.random.default_rng(6), 20)
    hole = Fragment("the-hole", {"name": ("no vector here",)})
    session = SmcSession(ModelSpec(Gaussian(), 1.0), RULES[rules], np.random.default_rng(0))
    with pytest.raises(LikelihoodError, match=r'fragment "the-hole".*has no vector'):
        session.add([*points[:10], hole, *points[10:]])
    assert session.n_fragments == 10
    blocks = session.posterior().subproblems
    assert sorted(i for block in blocks for i in block.fragments) == list(range(10))
    session.add(points[10:])
    clean = SmcSession(ModelSpec(Gaussian(), 1.0), RULES[rules], np.random.default_rng(0))
    clean.add(points)
    assert session.posterior() == clean.posterior()
    assert contents(session) == contents(clean)

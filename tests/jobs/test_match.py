"""Matching a fragment without adding it, against the step that adds it and against enumeration."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kbforge.contracts import Cluster, Fragment
from kbforge.errors import LikelihoodError, NotFoundError, UsageError
from kbforge.fit.choices import RunOptions
from kbforge.jobs.cluster_cache import ClusterCache
from kbforge.jobs.explain import Explainer, compare, why
from kbforge.jobs.match import Match, match
from kbforge.jobs.models import restore
from kbforge.jobs.update import add_fragments
from kbforge.store.database import Database
from kbforge.store.store import Store
from tests.clustering.exact import partitions
from tests.people import people
from tests.store.dump import dump

PEOPLE = people(8, 5)
EVERYTHING: dict[str, Any] = {"particles": 2000, "options": {"clusterer": {"floor": 0.0}}}
"""Choices by which a step drops little."""


def made(path: Path, fragments: Sequence[Fragment], choices: RunOptions) -> str:
    add_fragments(str(path / "kb.sqlite"), fragments, choices)
    return str(path / "kb.sqlite")


def matched(path: str, x: Fragment, most: int = 1000) -> Match[str]:
    with Database(path) as database:
        store = Store(database)
        return match(store, restore(store, confidence=True)[0], x, most)


def shares(found: Match[str]) -> dict[str | None, float]:
    return {None: found.new, **{one.entity: one.reported for one in found.candidates}}


def by_entity(store: Store, joined: Sequence[tuple[Cluster, float]]) -> dict[str | None, float]:
    """By entity, the probability of the clusters that a fragment joins; None is no cluster.

    A cluster is of the entity that has most of its fragments, or the earliest.
    """
    out: dict[str | None, float] = {None: 0.0}
    for cluster, probability in joined:
        held = [store.entity_of(number) for number in cluster]
        if held:
            entity, _ = min(held, key=lambda one: (-held.count(one), one[1]))
            out[entity] = out.get(entity, 0.0) + probability
        else:
            out[None] += probability
    return out


def stepped(path: str, x: Fragment) -> dict[str | None, float]:
    """What a session believes of the fragment after it has added it; nothing is written."""
    with Database(path) as database:
        store = Store(database)
        prepared, choices = restore(store)
        rng = np.random.default_rng(choices.seed)
        session = prepared.clusterer.open(prepared.spec, rng, pages=store.pages)
        (step,) = session.add([x])
        joined = [
            (tuple(n for n in cluster if n != step.fragment), math.exp(particle.log_weight))
            for name in step.after
            for particle in session.subproblem(name).particles
            for cluster in particle.clusters
            if step.fragment in cluster
        ]
        return by_entity(store, joined)


def queries() -> Iterator[Fragment]:
    for x in PEOPLE[::7]:
        yield replace(x, id="query")
        yield Fragment("query", {"name": x.properties.get("name", ("nobody",))})
    yield Fragment("query", {"name": ("quite unlike",), "town": ("nowhere",)})


LIKELIHOODS = {
    "attributes": RunOptions(likelihood="attributes", alpha=10.0, **EVERYTHING),
    "pairs": RunOptions(likelihood="pairs", **EVERYTHING),
    "compared with all": RunOptions(
        likelihood="attributes", alpha=10.0, index="none", **EVERYTHING
    ),
    "one subproblem": RunOptions(likelihood="pairs", clusterer="smc", particles=2000),
    "a black box": RunOptions(
        likelihood="bigram", surrogate="attributes", alpha=10.0, max_evals=2, **EVERYTHING
    ),
    "the surrogate": RunOptions(
        likelihood="bigram", surrogate="attributes", alpha=10.0, max_evals=0, **EVERYTHING
    ),
    "few are compared": RunOptions(
        likelihood="attributes",
        alpha=10.0,
        index="ngrams",
        particles=2000,
        options={
            "clusterer": {"floor": 0.0},
            "index": {"families": 2, "shared": 2, "compared": 3},
        },
    ),
    "linked": RunOptions(likelihood="attributes", alpha=10.0, link="town", **EVERYTHING),
}


@pytest.mark.slow
@pytest.mark.parametrize("choices", LIKELIHOODS.values(), ids=LIKELIHOODS)
def test_it_is_the_posterior_of_the_step_that_would_add_it(
    choices: RunOptions, tmp_path: Path
) -> None:
    path = made(tmp_path, PEOPLE, choices)
    before = dump(path)
    for x in queries():
        expected, got = stepped(path, x), shares(matched(path, x))
        for entity in expected.keys() | got.keys():
            wanted = pytest.approx(expected.get(entity, 0.0), abs=0.02)
            assert got.get(entity, 0.0) == wanted, (x, entity)
        assert math.fsum(got.values()) == pytest.approx(1)
    assert dump(path) == before


@pytest.mark.parametrize("exponent", [None, 0.5])
def test_it_is_the_posterior_by_enumeration(tmp_path: Path, exponent: float | None) -> None:
    some = [x for x in PEOPLE if "name" in x.properties][:4]
    choices = RunOptions(
        likelihood="attributes", alpha=30.0, size_exponent=exponent, index="none", **EVERYTHING
    )
    path = made(tmp_path, some, choices)
    x = replace(some[1], id="query")
    with Database(path) as database:
        store = Store(database)
        spec = restore(store)[0].spec
        together = [*some, x]
        masses = []
        for grouping in partitions(range(len(together))):
            scores = spec.likelihood.log_marginal([[together[n] for n in c] for c in grouping])
            powers = (exponent or 1.0) * sum(math.lgamma(len(c)) for c in grouping)
            prior = len(grouping) * math.log(spec.alpha) + powers
            cluster = next(c for c in grouping if len(some) in c)
            masses.append((tuple(n for n in cluster if n < len(some)), prior + scores.sum()))
        most = max(mass for _, mass in masses)
        total = sum(math.exp(mass - most) for _, mass in masses)
        joined = [(cluster, math.exp(mass - most) / total) for cluster, mass in masses]
        assert store.pages.totals.n_subproblems == 1, "else no grouping of theirs is left out"
        expected = by_entity(store, joined)
    assert shares(matched(path, x)) == pytest.approx(expected, abs=1e-6)


def test_what_other_matches_have_read_changes_nothing(tmp_path: Path) -> None:
    path = made(tmp_path, PEOPLE, LIKELIHOODS["attributes"])
    with Database(path) as database:
        store = Store(database)
        fit = restore(store, confidence=True)[0]
        clusters = ClusterCache(3)
        for x in [*queries(), *queries()]:
            got, fresh = match(store, fit, x, 5, clusters), match(store, fit, x, 5)
            assert shares(got) == pytest.approx(shares(fresh))
            assert [one.entity for one in got.candidates] == [
                one.entity for one in fresh.candidates
            ]


def test_probabilities_descend_and_add_up_to_one_at_most(tmp_path: Path) -> None:
    path = made(tmp_path, PEOPLE, LIKELIHOODS["pairs"])
    for x in queries():
        told = matched(path, x).candidates
        assert [one.reported for one in told] == sorted((c.reported for c in told), reverse=True)
        said = [one.probability for one in told]
        assert said == sorted(said, reverse=True)
        assert math.fsum(said) <= 1 + 1e-9
        for one in told:
            assert one.explanation is None or one.reported >= 1e-3 or one is told[0]


def test_a_fragment_that_the_likelihood_cannot_read_is_refused(tmp_path: Path) -> None:
    points = [Fragment(str(n), {}, (float(n), 1.0)) for n in range(6)]
    path = made(tmp_path, points, RunOptions(likelihood="gaussian", alpha=1.0))
    with pytest.raises(LikelihoodError, match="expected 2"):
        matched(path, Fragment("query", {}, (1.0, 2.0, 3.0)))
    assert matched(path, Fragment("query", {}, (1.0, 2.0))).compared


def test_why_is_what_an_explainer_says_of_the_whole(tmp_path: Path) -> None:
    path = made(tmp_path, PEOPLE, LIKELIHOODS["attributes"])
    whole = Explainer(path, RunOptions())
    with Database(path) as database:
        store = Store(database)
        fit = restore(store)[0]
        for x in PEOPLE[::5]:
            expected, got = whole.reasons(x.id, 3), why(store, fit, x.id, 3)
            assert [one.entity for one in got] == [one.entity.id for one in expected]
            for place, reason in zip(got, expected, strict=True):
                assert place.others == reason.others
                if reason.explanation is None:
                    assert place.total is None
                    continue
                assert place.total == pytest.approx(reason.explanation.total)
                assert place.explanation is not None
                assert place.explanation.attributes == pytest.approx(reason.explanation.attributes)
        with pytest.raises(NotFoundError, match="no fragment"):
            why(store, fit, "nobody")


@pytest.mark.parametrize("likelihood", ["attributes", "pairs", "gaussian"])
def test_two_entities_are_compared_by_what_merging_them_gains(
    likelihood: str, tmp_path: Path
) -> None:
    fragments = PEOPLE
    if likelihood == "gaussian":
        fragments = [Fragment(str(n), {}, (n % 3 * 9.0, n % 3 * 1.0)) for n in range(9)]
    path = made(tmp_path, fragments, RunOptions(likelihood=likelihood, alpha=2.0))
    with Database(path) as database:
        store = Store(database)
        fit = restore(store)[0]
        held = dict(store.members(sorted({store.entity_of(n)[0] for n in range(9)})))
        one, two = sorted(held, key=lambda id: (-len(held[id]), id))[:2]
        a, b = ([x for x in fragments if x.id in held[id]] for id in (one, two))
        both, first, second = fit.spec.likelihood.log_marginal([[*a, *b], a, b])
        prior = math.lgamma(len(a) + len(b)) - math.lgamma(len(a)) - math.lgamma(len(b))
        got = compare(store, fit, one, two)
        assert got.total == pytest.approx(prior - math.log(fit.alpha) + both - first - second)
        assert (got.explanation is None) == (likelihood == "gaussian")
        assert got.compared == (len(a), len(b))
        assert 0 <= got.together <= got.mixed <= 1
        for attribute, values in got.values.items():
            said = [{v for x in of for v in x.properties.get(attribute, ())} for of in (a, b)]
            assert {*values.both} == said[0] & said[1]
            assert ({*values.first}, {*values.second}) == (said[0] - said[1], said[1] - said[0])
        with pytest.raises(UsageError, match="one entity"):
            compare(store, fit, one, one)
        with pytest.raises(NotFoundError):
            compare(store, fit, one, "e-nothing")

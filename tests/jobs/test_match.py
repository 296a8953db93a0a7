"""Matching a fragment without adding it, against the step that adds it and against enumeration."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from kbforge.contracts import Cluster, Fragment
from kbforge.fit.choices import Choices
from kbforge.jobs.match import Match, match
from kbforge.jobs.models import restore
from kbforge.jobs.update import add_fragments
from kbforge.store.database import Database
from kbforge.store.store import Store
from tests.people import people
from tests.store.dump import dump

PEOPLE = people(12, 5)
EVERYTHING = {"particles": 20_000, "options": {"clusterer": {"floor": 0.0}}}
"""Choices by which a step drops nothing that matters."""


def made(path: Path, fragments: Sequence[Fragment], choices: Choices) -> str:
    add_fragments(str(path / "kb.sqlite"), fragments, choices)
    return str(path / "kb.sqlite")


def matched(path: str, x: Fragment, most: int = 1000) -> Match:
    with Database(path) as database:
        store = Store(database)
        return match(store, restore(store, confidence=True)[0], x, most)


def shares(found: Match) -> dict[str | None, float]:
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
        session = prepared.clusterer.open(prepared.problem, rng, pages=store.pages)
        (info,) = session.add([x])
        joined = [
            (tuple(n for n in cluster if n != info.fragment), math.exp(particle.log_weight))
            for name in info.after
            for particle in session.subproblem(name).particles
            for cluster in particle.clusters
            if info.fragment in cluster
        ]
        return by_entity(store, joined)


def queries() -> Iterator[Fragment]:
    for x in PEOPLE[::7]:
        yield replace(x, id="query")
        yield Fragment("query", {"name": x.properties.get("name", ("nobody",))})
    yield Fragment("query", {"name": ("quite unlike",), "town": ("nowhere",)})


LIKELIHOODS = {
    "attributes": Choices(likelihood="attributes", alpha=10.0, **EVERYTHING),
    "pairs": Choices(likelihood="pairs", **EVERYTHING),
    "compared with all": Choices(likelihood="attributes", alpha=10.0, index="none", **EVERYTHING),
    "one subproblem": Choices(likelihood="pairs", clusterer="smc", particles=2000),
    "a black box": Choices(
        likelihood="bigram", surrogate="attributes", alpha=10.0, max_evals=2, **EVERYTHING
    ),
    "the surrogate": Choices(
        likelihood="bigram", surrogate="attributes", alpha=10.0, max_evals=0, **EVERYTHING
    ),
    "linked": Choices(likelihood="attributes", alpha=10.0, link="town", **EVERYTHING),
}


@pytest.mark.parametrize("choices", LIKELIHOODS.values(), ids=LIKELIHOODS)
def test_it_is_the_posterior_of_the_step_that_would_add_it(
    choices: Choices, tmp_path: Path
) -> None:
    path = made(tmp_path, PEOPLE, choices)
    before = dump(path)
    for x in queries():
        expected, got = stepped(path, x), shares(matched(path, x))
        for entity in expected.keys() | got.keys():
            wanted = pytest.approx(expected.get(entity, 0.0), abs=0.01)
            assert got.get(entity, 0.0) == wanted, (x, entity)
        assert math.fsum(got.values()) == pytest.approx(1)
    assert dump(path) == before

"""Splits and merges as a step of revision."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from kbforge.clustering.revise import split_or_merge
from kbforge.clustering.session import SmcSession
from kbforge.contracts import Cluster, Constraints, Decision, Fragment, Problem, Session
from kbforge_plugins.clusterers.sequential import SplitSmc
from kbforge_plugins.indexes.minhash import MinHash
from kbforge_plugins.likelihoods.gaussian import Gaussian
from kbforge_plugins.likelihoods.ngram import Bigram
from tests.clustering.invariants import core_of
from tests.clustering.test_remove import check_session
from tests.clustering.toys import Rule

NAMES = ["oregon coast", "oregon coasts", "the oregon coast", "lake baikal", "lake baikall"]


def held(problem: Problem, items: list[Fragment], *clusters: Cluster) -> tuple[Session, Any]:
    """A session with one particle that groups like this, whatever the model says."""
    session = SmcSession(problem, SplitSmc(particles=1)._rules, np.random.default_rng(0))
    session.add(items)
    core = core_of(session)
    core.replace(core.plan(core.run.names().tolist(), [[tuple(clusters)]]))
    assert session.posterior().clusters() == list(clusters)
    return session, core


def points(*centres: float) -> list[Fragment]:
    rng = np.random.default_rng(1)
    rows = [(centre + rng.normal(), rng.normal()) for centre in centres for _ in range(10)]
    return [Fragment(f"f{i}", {}, row) for i, row in enumerate(rows)]


def test_two_groups_of_points_are_parted_by_a_direction() -> None:
    session, core = held(Problem(Gaussian(), 1.0), points(-50.0, 50.0), tuple(range(20)))
    before = session.posterior().log_posterior
    gained = [split_or_merge(core, 0) for _ in range(5)]
    assert sum(gained) > 10
    assert session.posterior().log_posterior == pytest.approx(before + sum(gained))
    assert sorted(map(len, session.posterior().clusters())) == [10, 10]
    check_session(session)


@pytest.mark.parametrize("index", [None, MinHash(order=3, unit="character", bands=20)])
def test_two_names_are_parted_by_what_they_share(index: MinHash | None) -> None:
    """By n-grams that the likelihood reads, or by the keys of the index."""
    items = [Fragment(f"f{i}", {"name": (name,)}) for i, name in enumerate(NAMES)]
    likelihood = Bigram()
    likelihood.fit(items)
    if index is not None:
        index.fit(items)
    session, core = held(Problem(likelihood, 20.0, index=index), items, tuple(range(5)))
    for _ in range(6):
        for fragment in range(len(items)):
            split_or_merge(core, fragment)
    clusters = session.posterior().clusters()
    assert all(not {*cluster} & {0, 1, 2} or not {*cluster} & {3, 4} for cluster in clusters)
    check_session(session)


def test_halves_of_an_entity_become_one() -> None:
    """Two pairs are worth more as one, and no fragment gains anything by going over alone."""

    def rule(ids: set[str]) -> float:
        return 8.0 if len(ids) == 4 else 1.0 if ids in ({"f0", "f1"}, {"f2", "f3"}) else 0.0

    items = [Fragment(f"f{i}", {}, (float(i),)) for i in range(4)]
    session, core = held(Problem(Rule(rule), 0.5), items, (0, 1), (2, 3))
    assert split_or_merge(core, 0) > 0
    assert session.posterior().clusters() == [(0, 1, 2, 3)]


def test_what_was_decided_is_not_undone() -> None:
    items = points(-50.0, 50.0)
    together = Constraints((Decision(True, "f0", "f19"),))
    problem = Problem(Gaussian(), 1.0, constraints=together)
    session = SmcSession(problem, SplitSmc(particles=1)._rules, np.random.default_rng(0))
    session.add(items)
    core = core_of(session)
    for fragment in range(20):
        split_or_merge(core, fragment)
    label = session.posterior().labels()
    assert label[0] == label[19]
    check_session(session)

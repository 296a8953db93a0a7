"""Scorers elsewhere say what the likelihood does, whoever of them is lost."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kbforge.contracts import ConjugateLikelihood, FloatArray, Fragment, Likelihood
from kbforge.errors import KBForgeError, LikelihoodError, UsageError
from kbforge.fit.choices import Choices
from kbforge.jobs.cluster import Workers, cluster, make_workers
from kbforge.models.scoring import LEAST, RemoteLikelihood, ScoreWorker, pieces_of, scorers
from kbforge.testing import BlackBox
from kbforge_plugins.clusterers.sequential import SplitSmc
from tests.clustering.crews import Here, HereExecutor
from tests.clustering.test_sharding import of_people
from tests.people import people, write_people
from tests.program import Run


class Sizes(Likelihood):
    """L says how many fragments there are, and what their first id is."""

    def log_marginal(self, clusters: Sequence[Sequence[Fragment]]) -> FloatArray:
        if any(x.id == "odd" for cluster in clusters for x in cluster):
            raise LikelihoodError("this is odd")
        return np.array([-len(cluster) - int(cluster[0].id) / 1000 for cluster in clusters])


def sets_of(n: int) -> list[list[Fragment]]:
    return [[Fragment(str(k), {"name": ("x",)})] * (1 + k % 5) for k in range(n)]


@given(n=st.integers(0, 200), scorers=st.integers(1, 9))
def test_pieces_are_the_sets_in_order(n: int, scorers: int) -> None:
    sets = sets_of(n)
    pieces = pieces_of(sets, scorers)
    assert list(chain.from_iterable(pieces)) == sets
    assert len(pieces) == min(scorers, max(1, n // LEAST)) * (n > 0)
    sizes = [len(piece) for piece in pieces]
    assert max(sizes, default=0) - min(sizes, default=0) <= 1
    assert len(pieces) < 2 or min(sizes) >= LEAST


@given(n=st.integers(0, 100), workers=st.integers(1, 4), seed=st.integers(0, 10**6))
def test_scores_come_back_in_order_whoever_is_lost(n: int, workers: int, seed: int) -> None:
    crew = Here(lambda: ScoreWorker(Sizes()), workers, random.Random(seed), 0.3, 5)
    elsewhere, sets = RemoteLikelihood(crew), sets_of(n)
    for _ in range(3):
        assert elsewhere.log_marginal(sets).tolist() == Sizes().log_marginal(sets).tolist()
    assert elsewhere.losses <= crew.kills


def test_a_run_is_that_without_scorers() -> None:
    fragments, whole = of_people(40, 2)
    surrogate = whole.likelihood
    assert isinstance(surrogate, ConjugateLikelihood)
    problem = replace(whole, likelihood=BlackBox(surrogate), surrogate=surrogate, max_evals=20)
    executor = HereExecutor(seed=1, deadly=0.05, most=6)
    with scorers(problem.likelihood, executor, 3) as elsewhere:
        spread = replace(problem, likelihood=elsewhere)
        found = SplitSmc(6).cluster(fragments, spread, np.random.default_rng(0))
    assert executor.crew is not None
    assert executor.crew.kills > 0
    assert executor.crew.closed
    assert found == SplitSmc(6).cluster(fragments, problem, np.random.default_rng(0))


def test_what_the_likelihood_raises_is_raised() -> None:
    with scorers(Sizes(), HereExecutor(), 2) as elsewhere:
        with pytest.raises(LikelihoodError, match="this is odd"):
            elsewhere.log_marginal([*sets_of(20), [Fragment("odd", {"name": ("x",)})]])
        assert len(elsewhere.log_marginal(sets_of(20))) == 20


def test_scorers_that_are_lost_again_and_again_end_the_run() -> None:
    executor = HereExecutor(deadly=1, most=10**6)
    with scorers(Sizes(), executor, 1) as elsewhere:
        assert executor.crew is not None
        executor.crew.kill(0)

        def replace_in_vain(worker: int) -> None:
            pass

        executor.crew.replace = replace_in_vain  # type: ignore[method-assign]
        with pytest.raises(KBForgeError, match="scorers were lost 10 times"):
            elsewhere.log_marginal(sets_of(3))


NEEDS_NONE = Choices(likelihood="attributes", alpha=30)
REFUSED = {
    "scorers: expected at least 1, got 0": lambda: scorers(Sizes(), HereExecutor(), 0).__enter__(),
    "likelihood attributes needs no scorers": lambda: cluster(
        people(10, 1), NEEDS_NONE, crew=Workers(HereExecutor(), None, 2)
    ),
    "--workers and --scorers exclude each other": lambda: make_workers(
        "ray", Choices(), None, 2, 2
    ),
}


@pytest.mark.parametrize("said", REFUSED)
def test_scorers_that_make_no_sense_are_refused(said: str) -> None:
    with pytest.raises(UsageError, match=said):
        REFUSED[said]()


def test_scorers_need_an_executor(tmp_path: Path, program: Run) -> None:
    records = write_people(tmp_path / "people.jsonl", 10)
    done = program("cluster", str(records), "--scorers", "2", "-o", str(tmp_path / "kb.jsonl"))
    assert done.code == 2
    assert "--scorers: there is no executor; name one with --executor" in done.err

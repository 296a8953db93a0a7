"""Runs of supervised chains: what they visit, and what their posterior is made of."""

import itertools
from collections.abc import Sequence

import numpy as np
import pytest

from kbforge.contracts import Cluster, Ending, FloatArray, Interrupted, Progress
from kbforge.errors import UsageError
from kbforge_lab.batch.run import Watch
from kbforge_lab.clusterers.supervised import ScdpRun, ScdpSampler
from kbforge_lab.scdp.references import References, references
from kbforge_lab.scdp.run import run
from kbforge_lab.scdp.sampler import SCDP1, start


def data() -> References:
    rng = np.random.default_rng(1)
    means = rng.normal(0, 1, (10, 4))
    labels = np.arange(60) % 10
    values = means[labels] + rng.normal(0, 0.2, (60, 4))
    known = labels < 7
    return references(values[known], labels[known], values[~known])


def by_size(clusters: Sequence[Cluster]) -> FloatArray:
    return np.array([float(len(cluster) ** 2) for cluster in clusters])


def made(sweeps: int = 12, chains: int = 2, particles: int = 100) -> ScdpRun:
    given = data()
    first, rng = np.arange(len(given.test)), np.random.default_rng(3)
    return ScdpRun(SCDP1, given, first, sweeps, chains, particles, by_size, rng)


def test_chains_move_as_those_of_run():
    given = data()
    ended = made()
    assert ended.until_done(Watch(None, None)) is Ending.SWEEPS
    for chain, rng in enumerate(np.random.default_rng(3).spawn(2)):
        state = start(given, np.arange(len(given.test)))
        joint = []
        for _ in range(6):
            state, trace = run(SCDP1, given, state, 2, 1, rng)
            joint.append(trace.log_joint[-1])
        assert [v["log_joint"] for v in ended.visits if v["chain"] == chain] == joint


def test_the_posterior_is_of_the_second_half_of_each_chain():
    """And of the densest grouping, which counts as one more visit."""
    ended = made()
    ended.until_done(Watch(None, None))
    found = ended.posterior(Ending.SWEEPS)
    visits = 2 * 3
    for subproblem in found.subproblems:
        shares = np.exp([particle.log_weight for particle in subproblem.particles])
        counts = shares * (visits + 1)
        # visits that cross a border are left out, so some subproblems have fewer
        assert counts.sum() == pytest.approx(visits + 1)
        assert shares[0] == shares.max()
    assert found.log_posterior == pytest.approx(by_size(found.clusters()).sum())
    assert sorted(i for cluster in found.clusters() for i in cluster) == list(range(18))


def test_few_particles_are_kept():
    ended = made(sweeps=20, particles=2)
    ended.until_done(Watch(None, None))
    assert all(len(each.particles) <= 2 for each in ended.posterior(Ending.SWEEPS).subproblems)


@pytest.mark.parametrize(
    ("seconds", "reported"),
    [
        pytest.param(0.0, [2, 4, 6], id="after-each-round"),
        pytest.param(1.0, [2, 2, 2, 4, 4, 4, 6], id="after-each-chain-of-a-slow-machine-too"),
    ],
)
def test_an_interrupted_run_has_what_there_was(seconds, reported):
    """By a clock that moves as far at every look, since the machine's own depends on its load."""
    clock = itertools.count(0.0, seconds)
    seen: list[Progress] = []

    def stop(progress: Progress) -> None:
        seen.append(progress)
        if progress.rounds is not None and progress.rounds.done == 6:
            raise Interrupted

    ended = made()
    with pytest.raises(Interrupted):
        ended.until_done(Watch(None, stop, lambda: next(clock)))
    assert [each.rounds.done for each in seen if each.rounds] == reported
    assert all(each.fragments == each.total == 18 for each in seen)
    assert ended.posterior(Ending.INTERRUPTED).n_fragments == 18


def test_before_the_first_sweep_the_start_is_all_there_is():
    found = made().posterior(Ending.INTERRUPTED)
    assert found.clusters() == [(i,) for i in range(18)]


@pytest.mark.parametrize(
    ("sweeps", "chains", "particles", "says"),
    [(1, 2, 9, "sweeps"), (4, 0, 9, "chains"), (4, 1, 0, "particles")],
)
def test_rules_that_cannot_be_are_refused(sweeps, chains, particles, says):
    with pytest.raises(UsageError, match=f"{says}: expected"):
        ScdpSampler(sweeps=sweeps, chains=chains, particles=particles)

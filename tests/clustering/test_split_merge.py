"""Moves of many fragments: a kernel that splits and merges has the exact posterior.

The kernel is a plain one for this test. Two fragments are drawn: if they share a cluster it is
split, everyone else in it by a coin; otherwise their two clusters merge. A merge could be undone by
one of 2^(|C| - 2) splits, which is what the Metropolis-Hastings ratio corrects for.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from kbforge.clustering.batch import grouping_model
from kbforge.clustering.batch.chain import GibbsKernel, Kernel, MarkovChain
from kbforge.clustering.batch.grouping import NEW, STAY, Grouping, Move, apply, merge, put, split
from kbforge.clustering.batch.grouping_model import GroupingModel, model_of
from kbforge.clustering.prior import DirichletProcess
from kbforge.contracts import Cluster, Fragment, Problem
from kbforge.errors import UsageError
from kbforge.testing import BlackBox
from kbforge_plugins.likelihoods.gaussian import Gaussian
from kbforge_plugins.likelihoods.ngram import Bigram
from tests.clustering.chains import bring, groups, total_variation
from tests.clustering.chains import chain_of as begun
from tests.clustering.oracle import Grouping as Partition
from tests.clustering.oracle import partitions
from tests.clustering.test_chains_are_exact import bisect
from tests.clustering.test_exactness import exact_posterior
from tests.clustering.toys import Chain as ChainLikelihood
from tests.clustering.toys import fragments_of, normal

ALPHA = 0.7
POINTS = [(0.0,), (2.5,), (3.0,), (6.0,)]
# a table that edits and merges, one that only grows, and no table
MODELS = {
    "table": Gaussian(lam=0.1),
    "growing table": ChainLikelihood(normal(1.0, 4.0)),
    "black box": BlackBox(Gaussian(lam=0.1)),
}


class SplitMerge(Kernel):
    """See the module."""

    def __init__(self, model: GroupingModel, prior: DirichletProcess) -> None:
        super().__init__(model)
        self._model, self._prior = model, prior

    def propose(self, grouping: Grouping, rng: np.random.Generator) -> Move:
        i = int(rng.integers(grouping.n_fragments))
        j = (i + 1 + int(rng.integers(grouping.n_fragments - 1))) % grouping.n_fragments
        a, b = grouping.slot_of[i], grouping.slot_of[j]
        if a != b:
            coins = len(grouping.members[a]) + len(grouping.members[b]) - 2
            union, *apart = self._prior_terms([a, b], grouping)
            gain = union - sum(apart) + float(self._model.merges(a)[b])
            move, log_ratio = merge(grouping, a, b, gain), gain - coins * math.log(2)
        else:
            whole = grouping.cluster(a)
            others = [x for x in whole if x not in (i, j)]
            heads = [x for x in others if rng.integers(2)]
            part = tuple(sorted((i, *heads)))
            rest = tuple(x for x in whole if x not in part)
            terms = self._terms([part, rest, whole])
            gain = terms[0] + terms[1] - terms[2]
            move, log_ratio = split(grouping, a, part, gain), gain + len(others) * math.log(2)
        return move if rng.random() < math.exp(min(log_ratio, 0.0)) else STAY

    def _terms(self, clusters: list[Cluster]) -> list[float]:
        marginal = self._model.log_marginal(clusters)
        return [float(term) for term in self._prior.log_terms(clusters, marginal)]

    def _prior_terms(self, slots: list[int], grouping: Grouping) -> list[float]:
        sizes = [len(grouping.members[slot]) for slot in slots]
        return [float(p) for p in self._prior.log_cluster(np.array([sum(sizes), *sizes]))]


class Alternating(Kernel):
    """A sweep of one kernel, then one of the other."""

    def __init__(self, first: Kernel, second: Kernel) -> None:
        super().__init__(*first.models)
        self._kernels = first, second

    def propose(self, grouping: Grouping, rng: np.random.Generator) -> Move:
        return self._kernels[int(rng.integers(2))].propose(grouping, rng)

    def sweep(self, grouping: Grouping, rng: np.random.Generator) -> Iterator[Move]:
        for kernel in self._kernels:
            yield from kernel.sweep(grouping, rng)


class Script:
    """Random numbers that are given: how many draws of which range are wanted shows as it goes."""

    def __init__(self, integers: tuple[int, ...], uniform: float) -> None:
        self._integers, self._uniform = list(integers), uniform
        self.wanted: list[int] = []

    def integers(self, high: int) -> int:
        self.wanted.append(high)
        return self._integers[len(self.wanted) - 1] if self._integers else 0

    def random(self) -> float:
        return self._uniform


def beginning(fragments: list[Fragment], likelihood: Any) -> tuple[Grouping, Any]:
    grouping = Grouping(len(fragments))
    return grouping, model_of(likelihood, fragments, grouping)


def chain_of(fragments: list[Fragment], likelihood: Any) -> tuple[MarkovChain, SplitMerge]:
    return begun(
        lambda items, problem, grouping, _: SplitMerge(
            model_of(problem.likelihood, items, grouping), DirichletProcess(ALPHA)
        ),
        fragments,
        Problem(likelihood, ALPHA),
        5,
    )


def paths(kernel: Kernel, grouping: Grouping) -> Iterator[tuple[Move, float]]:
    """Every proposal that the kernel can make, each with its probability if accepted."""
    n = grouping.n_fragments
    for first, second in itertools.product(range(n), range(n - 1)):
        shared = (first + 1 + second) % n in grouping.members[grouping.slot_of[first]]
        coins = len(grouping.members[grouping.slot_of[first]]) - 2 if shared else 0
        for heads in itertools.product(range(2), repeat=coins):
            draws = first, second, *heads

            def asked(u: float, draws: tuple[int, ...] = draws) -> Move:
                script: Any = Script(draws, u)
                move = kernel.propose(grouping, script)
                assert script.wanted == [n, n - 1, *[2] * (len(draws) - 2)]
                return move

            accepted = bisect(lambda u: asked(u) is not STAY, 0.0)
            yield asked(0.0), accepted / (n * (n - 1) * 2**coins)


def after(grouping: Grouping, move: Move) -> Partition:
    """What a move is to lead to, by sets."""
    moving = set(move.fragments)
    clusters = {slot: grouping.members[slot] - moving for slot in grouping.slots()}
    clusters[move.place] = clusters.get(move.place, set()) | moving
    return frozenset(tuple(sorted(cluster)) for cluster in clusters.values() if cluster)


@pytest.mark.parametrize("name", MODELS)
def test_every_split_and_merge_leaves_the_posterior_as_it_is(name: str) -> None:
    """Detailed balance, all proposals enumerated, for every pair of groupings of four."""
    fragments = fragments_of(POINTS)
    exact = {z: math.exp(w) for z, w in exact_posterior(fragments, MODELS[name], ALPHA).items()}
    chain, kernel = chain_of(fragments, MODELS[name])
    flow: dict[tuple[Partition, Partition], float] = {}
    for before in partitions(range(4)):
        bring(chain, before)
        for move, share in paths(kernel, chain.grouping):
            step = before, after(chain.grouping, move)
            assert step[0] != step[1]
            flow[step] = flow.get(step, 0.0) + exact[before] * share
    assert len(flow) > 40
    for (before, later), rate in flow.items():
        assert rate == pytest.approx(flow[later, before], rel=1e-5, abs=1e-7)


@pytest.mark.parametrize("name", ["growing table", "black box"])
def test_long_runs_have_the_exact_distribution(name: str) -> None:
    """Total variation .02 over the states after every move."""
    fragments = fragments_of(POINTS)
    exact = exact_posterior(fragments, MODELS[name], ALPHA)
    chain, _ = chain_of(fragments, MODELS[name])
    states: Counter[Partition] = Counter()
    for _ in range(6000):
        for _ in chain.sweep():
            states[groups(chain.grouping)] += 1
    assert total_variation(states, exact) < 0.02


@pytest.mark.parametrize("name", [*MODELS, "bigram"])
def test_models_follow_moves_of_any_size(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """After hundreds of splits, merges and single moves a model says what a new one says."""
    rng, n = np.random.default_rng(2), 40
    fragments = fragments_of([(float(x),) for x in rng.normal(scale=4, size=n)])
    if name == "bigram":
        names = ["ann lee", "anne lee", "bo ek", "bob ek", "cy", "ann leigh"]
        fragments = [Fragment(f"f{i}", {"name": (names[i % 6],)}) for i in range(n)]
    likelihood = MODELS.get(name) or Bigram()
    monkeypatch.setattr(grouping_model, "_MOVES", 50)
    grouping, model = beginning(fragments, likelihood)
    prior = DirichletProcess(ALPHA)
    kernel = Alternating(SplitMerge(model, prior), GibbsKernel(model, prior.log_alpha))
    chain = MarkovChain(kernel, grouping, prior, np.random.default_rng(5))
    made: Counter[str] = Counter()
    for _ in chain.start([tuple(range(0, n, 2)), tuple(range(1, n, 2))]):
        pass
    for _ in range(12):
        for move in kernel.sweep(grouping, chain._rng):
            expected = after(grouping, move) if move.fragments else groups(grouping)
            made["proposed"] += len(move.fragments) > 1
            chain.make(move)
            assert groups(grouping) == expected
        for _ in range(30):  # whatever the posterior says of it
            for forced in forced_moves(grouping, rng):
                kind = "split" if forced.place == NEW else "merge"
                made[kind] += apply(forced, grouping, kernel.models)
        assert_as_new(likelihood, fragments, grouping, model)
    assert made["proposed"] > 5
    assert min(made["split"], made["merge"]) > 100


def forced_moves(grouping: Grouping, rng: np.random.Generator) -> Iterator[Move]:
    """A split somewhere, a merge somewhere, and some of one cluster that go to another."""
    large = [slot for slot in grouping.slots() if len(grouping.members[slot]) > 2]
    if large:
        slot = large[int(rng.integers(len(large)))]
        cluster = grouping.cluster(slot)
        yield split(grouping, slot, cluster[: int(rng.integers(1, len(cluster)))], 0.0)
    if grouping.n_clusters > 3:
        a, b = rng.permutation(grouping.slots())[:2].tolist()
        yield merge(grouping, a, b, 0.0)
        a, b = rng.permutation(grouping.slots())[:2].tolist()
        yield Move(grouping.cluster(a)[:2], b, 0.0)


def assert_as_new(
    likelihood: Any, fragments: list[Fragment], grouping: Grouping, model: Any
) -> None:
    new = model_of(likelihood, fragments, grouping)
    new.read(range(len(fragments)))
    new.fill(grouping.slots())
    for fragment in range(len(fragments)):
        own = grouping.slot_of[fragment]
        others = [slot for slot in grouping.slots() if slot != own]
        expected = new.joins(fragment)[others].tolist()
        assert model.joins(fragment)[others].tolist() == pytest.approx(expected, abs=1e-8)
        if len(grouping.members[own]) > 1:
            assert model.held(fragment) == pytest.approx(new.held(fragment), abs=1e-8)
    for slot in grouping.slots():
        others = [other for other in grouping.slots() if other != slot]
        expected = new.merges(slot)[others].tolist()
        assert model.merges(slot)[others].tolist() == pytest.approx(expected, abs=1e-8)


def test_the_smaller_part_moves() -> None:
    grouping = Grouping(6)
    grouping.begin([(0, 1, 2, 3), (4, 5)])
    assert merge(grouping, 1, 0, 0.5) == ((4, 5), 0, 0.5)
    assert split(grouping, 0, (0, 1, 2), 0.5) == ((3,), NEW, 0.5)
    assert split(grouping, 0, (3,), 0.5) == ((3,), NEW, 0.5)


def test_what_stays_changes_nothing() -> None:
    grouping = Grouping(4)
    grouping.begin([(0, 1), (2,), (3,)])
    before = str(vars(grouping))
    for move in (STAY, put(0, 0, 1.0), put(2, NEW, 1.0), Move((0, 1), NEW, 1.0)):
        assert not apply(move, grouping, ())
    assert str(vars(grouping)) == before


@pytest.mark.parametrize(
    "move",
    [
        Move((0, 2), NEW, 0.0),  # of two clusters
        Move((0, 0), 1, 0.0),
        Move((0,), 2, 0.0),  # an empty slot
        Move((4, 5), 0, 0.0),  # in no cluster yet, and two
    ],
)
def test_what_is_no_move_is_refused_before_anything_changes(move: Move) -> None:
    grouping = Grouping(6)
    grouping.begin([(0, 1), (2,), (3,)])
    grouping.move((3,), 1)
    before = str(vars(grouping))
    with pytest.raises(ValueError, match="cluster"):
        apply(move, grouping, ())
    assert str(vars(grouping)) == before


def test_a_kernel_that_only_moves_what_has_a_place_cannot_start_sequentially() -> None:
    grouping, model = beginning(fragments_of(POINTS), Gaussian())
    prior = DirichletProcess(ALPHA)
    chain = MarkovChain(SplitMerge(model, prior), grouping, prior, np.random.default_rng(0))
    with pytest.raises(UsageError, match="cannot start sequentially"):
        list(chain.start(None))

"""What the keys of an index lead to, against the whole history looked through every time."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import pytest
from numpy.typing import NDArray

from kbforge.clustering.candidates import Candidates, InHeaviest
from kbforge.contracts import CandidateIndex, Fragment, IntArray, Posterior, Problem
from kbforge.testing import BlackBox, Categorical, UniformLikelihood
from kbforge.testing.examples import fragments as example_fragments
from kbforge_plugins.clusterers.sequential import GreedyClusterer, Smc, SplitSmc
from kbforge_plugins.likelihoods.attributes.likelihood import Attributes
from tests.people import people


@dataclass
class Keys(CandidateIndex):
    """An index of which the keys are the fragment's `key` values."""

    families: int = 10**9
    shared: int = 1

    def keys(self, fragment: Fragment) -> Sequence[int]:
        return [int(value) for value in fragment.properties.get("key", ())]


def keyed(*keys: int) -> Fragment:
    return Fragment("x", {"key": tuple(map(str, keys))} if keys else {"no": ("key",)})


def slots(values: Sequence[int]) -> IntArray:
    return np.array(values, dtype=np.int64)


@dataclass
class History:
    """All that happened, and the answer worked out from it anew: slow, with nothing kept up."""

    index: Keys
    told: list[tuple[int, int]] = field(default_factory=list)
    """Each (key, family) when a fragment with the key was put into a cluster of the family."""
    closed: dict[int, int] = field(default_factory=dict)
    """Key -> how long the history was when it was seen to lead too far."""
    live: dict[int, int] = field(default_factory=dict)
    """Slot -> family."""
    heaviest: set[int] = field(default_factory=set)
    """Slots of the heaviest particles."""

    def in_heaviest(self, slots: IntArray) -> NDArray[np.bool_]:
        return np.isin(slots, sorted(self.heaviest))

    def families(self, key: int) -> set[int]:
        told = self.told[: self.closed.get(key)]
        return {f for k, f in told if k == key} & set(self.live.values())

    def candidates(self, keys: Sequence[int]) -> list[int]:
        likely = {self.live[slot] for slot in self.heaviest & set(self.live)}
        for key in keys:
            if len(self.families(key) & likely) > self.index.families:
                self.closed.setdefault(key, len(self.told))
        led = [f for key in keys if key not in self.closed for f in self.families(key)]
        several = {family for family in led if led.count(family) >= self.index.shared}
        families = several or set(led) or {f for key in keys for f in self.families(key)}
        return sorted(slot for slot, family in self.live.items() if family in families)

    def extend(self, keys: Sequence[int], families: Sequence[int], children: Sequence[int]) -> None:
        self.live.update(zip(children, families, strict=True))
        self.told += [(key, family) for family in families for key in keys]


def turn(
    candidates: Candidates,
    fragment: Fragment,
    in_heaviest: InHeaviest,
    families: Sequence[int] = (),
    children: Sequence[int] = (),
) -> IntArray:
    """Look a fragment up and take it in; the slots that it was compared with."""
    reached = candidates.look_up(candidates._index.keys(fragment), in_heaviest)
    candidates.extend(reached, slots(families), slots(children))
    return reached.slots


def everywhere(slots: IntArray) -> NDArray[np.bool_]:
    """All clusters are of heaviest particles."""
    return np.ones(len(slots), dtype=np.bool_)


@pytest.mark.parametrize("families", [1, 2, 3, 10**9])
@pytest.mark.parametrize("shared", [1, 2, 3])
def test_random_lives_of_clusters(families: int, shared: int) -> None:
    """Fragments join clusters of several families at once, as competing particles have them."""
    index = Keys(families, shared)
    closed = fell_back = dead = 0
    for seed in range(12):
        rng = random.Random(seed)
        candidates, history = Candidates(index), History(index)
        next_slot = 0
        for family in range(60):
            keys = rng.sample(range(12), rng.randint(0, 4))
            history.heaviest = {slot for slot in history.live if rng.random() < 0.7}
            reached = candidates.look_up(keys, history.in_heaviest)
            found = reached.slots
            assert found.dtype == np.int64
            assert found.tolist() == history.candidates(keys)
            fell_back += bool(len(found)) and all(key in history.closed for key in keys)
            parents = rng.sample(sorted(history.live), min(len(history.live), rng.randint(0, 3)))
            # a new cluster of its own, and others that grow
            of = [family, *(history.live[slot] for slot in parents)]
            children = list(range(next_slot, next_slot + len(of)))
            next_slot += len(of)
            candidates.extend(reached, slots(of), slots(children))
            history.extend(keys, of, children)
            gone = [slot for slot in history.live if rng.random() < 0.15]
            candidates.release(slots(gone))
            before = set(history.live.values())
            for slot in gone:
                del history.live[slot]
            dead += len(before - set(history.live.values()))
        closed += len(history.closed)
    # the lives were such as they were meant to be
    assert dead > 50
    assert (closed > 20) == (families < 10)
    assert (fell_back > 5) == (families < 10)


def test_a_closed_key_is_followed_only_where_no_other_leads() -> None:
    candidates = Candidates(Keys(families=2))
    for family in range(3):
        turn(candidates, keyed(1, 10 + family), everywhere, [family], [family])
    # one too many
    assert turn(candidates, keyed(1), everywhere).tolist() == [0, 1, 2]
    assert turn(candidates, keyed(1, 12), everywhere).tolist() == [2]
    candidates.release(slots([0]))
    # closed it stays, whatever ends
    assert turn(candidates, keyed(1, 12), everywhere).tolist() == [2]
    assert turn(candidates, keyed(1), everywhere).tolist() == [1, 2]


def test_improbable_families_do_not_close_a_key() -> None:
    """Fragments of one entity, which some particles keep apart."""
    candidates = Candidates(Keys(families=2))
    for family in range(9):
        reached = candidates.look_up([1], lambda slots: slots == 0)
        found = reached.slots
        assert found.tolist() == list(range(family))
        candidates.extend(reached, slots([family]), slots([family]))
    assert turn(candidates, keyed(1), lambda slots: slots < 3).tolist() == list(range(9))
    # now three of them are likely, which is one too many
    reached = candidates.look_up([1], lambda slots: slots < 3)
    candidates.extend(reached, slots([9]), slots([9]))
    assert 9 not in turn(candidates, keyed(1), everywhere)


# the whole clusterer


@dataclass
class Everything(CandidateIndex):
    """Every fragment has the same two keys, which are never closed."""

    families: int = 10**9
    shared: int = 2

    def keys(self, fragment: Fragment) -> Sequence[int]:
        return [0, 1]


CLUSTERERS = {
    "split-smc": SplitSmc(particles=20, floor=0.0),
    "smc": Smc(particles=20, floor=0.0),
    "greedy": GreedyClusterer(),
}


def run(clusterer: str, items: list[Fragment], problem: Problem) -> Posterior:
    return CLUSTERERS[clusterer].cluster(items, problem, np.random.default_rng(4))


def with_index(problem: Problem, index: CandidateIndex) -> Problem:
    return Problem(problem.likelihood, problem.alpha, problem.surrogate, problem.max_evals, index)


CASES = ("attributes", "conjugate", "prior only", "black box", "surrogate")


def problems() -> dict[str, tuple[list[Fragment], Problem]]:
    records = people(25, 3)
    model = Attributes()
    model.fit(records)
    examples = example_fragments(30)
    categorical = Categorical(beta=0.5)
    return {
        "attributes": (records, Problem(model, 2.0)),
        "conjugate": (examples, Problem(categorical, 0.5)),
        "prior only": (examples, Problem(UniformLikelihood(), 0.5)),
        "black box": (examples, Problem(BlackBox(categorical), 0.5)),
        "surrogate": (examples, Problem(BlackBox(categorical), 0.5, Categorical(), 5)),
    }


@pytest.mark.parametrize("clusterer", CLUSTERERS)
@pytest.mark.parametrize("case", CASES)
def test_keys_that_cover_everything_are_as_no_index(clusterer: str, case: str) -> None:
    """The same posterior, to the last bit."""
    items, problem = problems()[case]
    found = run(clusterer, items, with_index(problem, Everything()))
    assert found.subproblems == run(clusterer, items, problem).subproblems


@pytest.mark.parametrize("clusterer", CLUSTERERS)
@pytest.mark.parametrize("case", CASES)
def test_fragments_without_a_key_in_common_are_apart(clusterer: str, case: str) -> None:
    """Two halves that no key connects, which without an index some particle would."""
    items, problem = problems()[case]
    items = [Fragment(f.id, {**f.properties, "key": (str(i % 2),)}) for i, f in enumerate(items)]
    found = run(clusterer, items, with_index(problem, Keys()))
    for subproblem in found.subproblems:
        for particle in subproblem.particles:
            for cluster in particle.clusters:
                assert len({i % 2 for i in cluster}) == 1
    clusters = run(clusterer, items, problem).clusters()
    assert any(len({i % 2 for i in cluster}) == 2 for cluster in clusters)


def test_no_keys_at_all_leave_everyone_alone() -> None:
    items, problem = problems()["conjugate"]
    found = run("split-smc", items, with_index(problem, Keys()))
    assert found.clusters() == [(i,) for i in range(len(items))]


def test_the_default_index_loses_little_of_the_attribute_model() -> None:
    """Against comparing with all: nearly the same log posterior, and most pairs the same."""
    records = people(80, 5)
    model = Attributes()
    model.fit(records)
    problem = Problem(model, model.default_alpha)
    whole = run("split-smc", records, problem)
    less = run("split-smc", records, with_index(problem, model.index))

    def pairs(found: Posterior) -> set[tuple[int, int]]:
        return {(i, j) for cluster in found.clusters() for i in cluster for j in cluster if i < j}

    one, other = pairs(whole), pairs(less)
    assert len(one & other) >= 0.9 * len(one | other)
    assert less.log_posterior >= whole.log_posterior - 0.02 * abs(whole.log_posterior)

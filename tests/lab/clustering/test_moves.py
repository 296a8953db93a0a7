"""Moves of many fragments: models follow them, and what is no move is refused."""

from collections import Counter
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from kbforge.contracts import Fragment, ModelSpec
from kbforge.testing import BlackBox
from kbforge_lab.batch.grouping import NEW, STAY, Grouping, Move, apply, merge, put, split
from kbforge_lab.batch.grouping_model import TableModel, model_of
from kbforge_lab.clusterers.offline import Gibbs
from kbforge_lm.likelihoods.ngram import Bigram
from kbforge_plugins.likelihoods.gaussian import Gaussian
from tests.clustering.exact import Grouping as Partition
from tests.clustering.toys import Chain as ChainLikelihood
from tests.clustering.toys import fragments_of, normal
from tests.lab.clustering.chains import chain_of, groups

# a table that edits and merges, one that only grows, and no table
MODELS = {
    "table": Gaussian(lam=0.1),
    "growing table": ChainLikelihood(normal(1.0, 4.0)),
    "black box": BlackBox(Gaussian(lam=0.1)),
}


def after(grouping: Grouping, move: Move) -> Partition:
    """What a move is to lead to, by sets."""
    moving = set(move.fragments)
    clusters = {slot: grouping.members[slot] - moving for slot in grouping.slots()}
    clusters[move.place] = clusters.get(move.place, set()) | moving
    return frozenset(tuple(sorted(cluster)) for cluster in clusters.values() if cluster)


@pytest.mark.parametrize("name", [*MODELS, "bigram"])
def test_models_follow_moves_of_any_size(name):
    """After hundreds of splits, merges and single moves a model says what a new one says."""
    rng, n = np.random.default_rng(2), 40
    fragments = fragments_of([(float(x),) for x in rng.normal(scale=4, size=n)])
    if name == "bigram":
        names = ["ann lee", "anne lee", "bo ek", "bob ek", "cy", "ann leigh"]
        fragments = [Fragment(f"f{i}", {"name": (names[i % 6],)}) for i in range(n)]
    likelihood = MODELS.get(name) or Bigram()
    chain, kernel = chain_of(
        Gibbs.make_kernel,
        fragments,
        ModelSpec(likelihood, 0.7),
        start=[tuple(range(0, n, 2)), tuple(range(1, n, 2))],
    )
    grouping, (model,) = chain.grouping, kernel.models
    if isinstance(model, TableModel):
        model.most_moves = 50
    made: Counter[str] = Counter()
    for _ in range(12):
        list(chain.sweep())
        for _ in range(30):  # whatever the posterior says of it
            for forced in forced_moves(grouping, rng):
                expected = after(grouping, forced)
                kind = "split" if forced.place == NEW else "merge"
                made[kind] += apply(forced, grouping, kernel.models)
                assert groups(grouping) == expected
        assert_as_new(likelihood, fragments, grouping, model)
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


def test_the_smaller_part_moves():
    grouping = Grouping(6)
    grouping.begin([(0, 1, 2, 3), (4, 5)])
    assert merge(grouping, 1, 0, 0.5) == ((4, 5), 0, 0.5)
    assert split(grouping, 0, (0, 1, 2), 0.5) == ((3,), NEW, 0.5)
    assert split(grouping, 0, (3,), 0.5) == ((3,), NEW, 0.5)


def test_what_stays_changes_nothing():
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
def test_what_is_no_move_is_refused_before_anything_changes(move):
    grouping = Grouping(6)
    grouping.begin([(0, 1), (2,), (3,)])
    grouping.move((3,), 1)
    before = str(vars(grouping))
    with pytest.raises(ValueError, match="cluster"):
        apply(move, grouping, ())
    assert str(vars(grouping)) == before

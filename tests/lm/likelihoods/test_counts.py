"""The table of live clusters: exact whatever its history, layout and company."""

from typing import Any

import numpy as np
import pytest

from kbforge.contracts import UNREAD, Fragment
from kbforge_lm.likelihoods.counts import LiveRows
from kbforge_lm.likelihoods.ngram import Bigram

NAMES = [
    "anna",
    "annabel",
    "bob",
    "bobby b",
    "Łódź",
    "東京",
    "",
    "-",
    "anna maria mariana",
    "x" * 40,
]


def pool(seed: int) -> list[Fragment]:
    """Fragments with one or two names, or a town, or nothing that is read."""
    rng = np.random.default_rng(seed)
    out = []
    for i in range(40):
        names = tuple(rng.choice(NAMES, size=rng.integers(1, 3)).tolist())
        attribute = ["name", "name", "name", "town", "colour"][rng.integers(5)]
        out.append(Fragment(str(i), {attribute: tuple(n or "." for n in names)}))
    return out


def small(model: Any) -> LiveRows:
    """A table with thresholds so low that rows turn dense and rebuilds happen all the time."""
    return LiveRows(model.live_clusters().rows, dense_least=3, spare_cells=8)


MODELS = {
    "bigram": lambda: Bigram(attributes=("name", "town")),
}


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("seed", range(4))
def test_a_random_life_equals_recomputation_bit_for_bit(name, seed):
    check_random_life(MODELS[name](), seed)


def check_random_life(model: Any, seed: int) -> None:
    rng = np.random.default_rng(seed)
    items = pool(seed)
    model.fit(items[:20])  # the rest brings unseen characters and values
    table = small(model)
    live: dict[int, list[Fragment]] = {}
    free: list[int] = []
    slots, reused, rebuilds, dense = 0, 0, 0, 0
    for _ in range(250):
        fragment = items[rng.integers(len(items))]
        x = table.encode(fragment)
        cells = table._n_cells
        predictive = table.log_predictive(x, slots)
        order = sorted(live)
        before = model.log_marginal([live[s] for s in order])
        after = model.log_marginal([[*live[s], fragment] for s in order])
        assert np.isfinite(predictive).all()
        assert predictive[order].tolist() == (after - before).tolist()
        assert table.log_predictive_new(x) == model.log_marginal([[fragment]])[0]
        parents = [-1, *rng.permutation(order)[: rng.integers(0, 4)].tolist()]
        children = []
        for parent in parents:
            if free and rng.random() < 0.8:
                child, reused = free.pop(rng.integers(len(free))), reused + 1
            else:
                child, slots = slots, slots + 1
            children.append(child)
            live[child] = [*live.get(parent, []), fragment]
        table.extend(x, np.array(parents), np.array(children))
        rebuilds += table._n_cells < cells + len(children)
        dense = max(dense, len(table._dense._row_of))
        gone = rng.permutation(sorted(live))[8:].tolist()
        table.release(np.array(gone, dtype=np.int64))
        for slot in gone:
            del live[slot]
        free += gone
    assert min(reused, rebuilds, dense) > 3, "the test must reach these paths"


def test_empty_calls_and_growth_in_one_step():
    model = Bigram()
    table = model.live_clusters()
    x = table.encode(Fragment("a", {"name": ("ann",)}))
    none = np.zeros(0, dtype=np.int64)
    table.extend(x, none, none)
    table.release(none)
    assert table.log_predictive(x, 0).shape == (0,)
    many = 5_000  # more cells than a fresh table has room for
    table.extend(x, np.full(many, -1), np.arange(many))
    values = table.log_predictive(x, many)
    expected = np.diff(model.log_marginal([[], [Fragment("a", {"name": ("ann",)})]]))
    twice = model.log_marginal([[Fragment("a", {"name": ("ann",)})] * 2])[0]
    assert set(values.tolist()) == {float(twice - expected[0])}


def test_a_fragment_without_text_stays_alone():
    table = Bigram().live_clusters()
    x, ann = (table.encode(Fragment("a", {k: (k,)})) for k in ("colour", "name"))
    table.extend(x, np.array([-1]), np.array([0]))
    assert table.log_predictive_new(x) == 0.0
    assert table.log_predictive(x, 1).tolist() == [UNREAD]
    assert table.log_predictive(ann, 1).tolist() == [table.log_predictive_new(ann) + UNREAD]


@pytest.mark.parametrize("name", MODELS)
def test_edits_and_merges_equal_recomputation_bit_for_bit(name):
    check_edits_and_merges(MODELS[name]())


def check_edits_and_merges(model: Any) -> None:
    """Fragments leave, come and take others with them; whatever happened, it is L's difference."""
    rng = np.random.default_rng(9)
    items = pool(9)
    model.fit(items[:20])
    table = small(model)
    x = [table.encode(item) for item in items]
    held = {slot: [slot] for slot in range(12)}
    for slot in held:
        table.extend(x[slot], np.array([-1]), np.array([slot]))
    merges = 0
    for _ in range(150):
        slot, other = rng.permutation(sorted(held))[:2].tolist()
        i = int(rng.integers(len(items)))
        chance = rng.random()
        if chance < 0.02 and len(held) > 4:
            table.merge(slot, other)
            held[other] += held.pop(slot)
            merges += 1
        elif chance < 0.5 and len(held[slot]) > 1:
            table.remove(x[held[slot].pop(0)], slot)
        else:
            table.add(x[i], slot)
            held[slot].append(i)
        query = int(rng.integers(len(items)))
        order = sorted(held)
        before = model.log_marginal([[items[k] for k in held[s]] for s in order])
        after = model.log_marginal([[items[k] for k in (*held[s], query)] for s in order])
        assert table.log_predictive(x[query], 12)[order].tolist() == (after - before).tolist()
        last = held[order[0]][-1]
        rest = model.log_marginal([[items[k] for k in held[order[0]][:-1]]])[0]
        assert table.log_predictive_held(x[last], order[0]) == before[0] - rest
        both = model.log_marginal([[items[k] for k in held[order[0]] + held[s]] for s in order[1:]])
        ratio = table.log_merge_ratio(order[0], 12)[order[1:]]
        assert ratio.tolist() == (both - before[0] - before[1:]).tolist()
    assert merges > 2

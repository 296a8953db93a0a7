"""The table of live clusters: exact whatever its history, layout and company."""

import numpy as np
import pytest

from kbforge.contracts import UNREAD, Fragment
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


@pytest.mark.parametrize("seed", range(4))
def test_a_random_life_equals_recomputation_bit_for_bit(seed):
    """Also of many clusters, which the kernel finds by their rows."""
    rng = np.random.default_rng(seed)
    items, model = pool(seed), Bigram(attributes=("name", "town"))
    model.fit(items[:20])  # the rest brings unseen characters and values
    table = model.live_clusters()
    live: dict[int, list[Fragment]] = {}
    free: list[int] = []
    most = 8 if seed % 2 else 150
    for step in range(250):
        fragment = items[rng.integers(len(items))]
        x, order = table.encode(fragment), sorted(live)
        predictive = table.log_predictive(x, len(live) + len(free))
        before = model.log_marginal([live[s] for s in order])
        after = model.log_marginal([[*live[s], fragment] for s in order])
        assert predictive[order].tolist() == (after - before).tolist()
        assert table.log_predictive_new(x) == model.log_marginal([[fragment]])[0]
        parents = [-1, *rng.permutation(order)[: rng.integers(0, 4)].tolist()]
        children = [free.pop() if free else len(live) + k for k, _ in enumerate(parents)]
        live |= {
            child: [*live.get(parent, []), fragment]
            for parent, child in zip(parents, children, strict=True)
        }
        table.extend(x, np.array(parents), np.array(children))
        gone = rng.permutation(sorted(live))[most:].tolist()
        if step % 5 == 4 and len(live) > 4:
            slot, into = rng.permutation(sorted(live.keys() - {*gone}))[:2].tolist()
            ratio = table.log_merge_ratio_of(into, np.array([slot]))[0]
            apart = model.log_marginal([live[slot], live[into], live[slot] + live[into]])
            assert ratio == apart[2] - apart[0] - apart[1]
            table.merge(slot, into)
            live[into] += live.pop(slot)
            free.append(slot)
        table.release(np.array(gone, dtype=np.int64))
        for slot in gone:
            del live[slot]
        free += gone


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

"""Live clusters that fragments can leave: exact whatever their history, layout and company."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from kbforge.contracts import ConjugateLikelihood, Fragment
from kbforge.registry import create
from kbforge.testing import examples
from kbforge_lab.batch.grouping_model import editable_clusters
from kbforge_lab.likelihoods.discrete import DirichletMultinomial
from kbforge_lab.likelihoods.live import LiveGaussian, Mergeable
from kbforge_lab.likelihoods.live_rows import LiveRows
from kbforge_lab.likelihoods.trigram import Trigram
from kbforge_lm.likelihoods.ngram import Bigram
from kbforge_plugins.likelihoods.gaussian import Gaussian
from tests.likelihoods.test_gaussian import independent_dimensions, points
from tests.lm.likelihoods.test_counts import pool

LIKELIHOODS = (
    *("attributes", "beta-bernoulli", "bigram", "dirichlet-multinomial", "gaussian", "names"),
    *("pairs", "trigram"),
)
MERGE_NOTHING = ("attributes", "gaussian", "names", "pairs")
"""Likelihoods of which a table, editable or not, merges no clusters."""
ROWS = {
    "bigram": lambda: Bigram(attributes=("name", "town")),
    "trigram": lambda: Trigram(attributes=("name", "town")),
    "values": lambda: DirichletMultinomial(attributes=("name", "town")),
}


def fitted(name: str) -> tuple[Any, list[Fragment]]:
    """A likelihood, fitted to some fragments."""
    likelihood, items = create("likelihoods", name), examples.fragments()
    likelihood.fit(items)
    return likelihood, list(items)


@pytest.mark.parametrize("name", LIKELIHOODS)
def test_fragments_come_and_go_without_a_trace(name):
    """Thousands of moves between two clusters, then both against tables filled afresh."""
    likelihood, items = fitted(name)
    table = editable_clusters(likelihood)
    rng = np.random.default_rng(5)
    x = [table.encode(item) for item in items]
    held: list[set[int]] = [{0}, {1}]
    for slot in (0, 1):
        table.extend(x[slot], np.array([-1]), np.array([slot]))
    for move in range(1200):
        i = int(rng.integers(len(items)))
        home = next((slot for slot in (0, 1) if i in held[slot]), None)
        if home is not None and len(held[home]) > 1:
            table.remove(x[i], home)
            held[home].remove(i)
        elif home is None:
            slot = int(rng.integers(2))
            table.add(x[i], slot)
            held[slot].add(i)
        if move % 300 == 0:
            _compare_held(likelihood, table, x, items, held)
    fresh = editable_clusters(likelihood)
    for slot, members in enumerate(held):
        parent = -1
        for i in members:
            fresh.extend(fresh.encode(items[i]), np.array([parent]), np.array([slot]))
            parent = slot
    for i, item in enumerate(items):
        again = fresh.log_predictive(fresh.encode(item), 2)
        np.testing.assert_allclose(table.log_predictive(x[i], 2), again, rtol=0, atol=1e-9)


@pytest.mark.parametrize("name", LIKELIHOODS)
def test_clusters_gather(name):
    """At once as one after another, into slots that are new and that others have left."""
    likelihood, items = fitted(name)
    table, grown = editable_clusters(likelihood), editable_clusters(likelihood)
    x = [table.encode(item) for item in items]
    y = [grown.encode(item) for item in items]
    for slot, size in ((0, 1), (1, len(items)), (2, 3), (1, 4)):
        if (slot, size) == (1, 4):
            table.release(np.array([1]))
            grown.release(np.array([1]))
        table.gather(x[:size], slot)
        for place in range(size):
            parent = slot if place else -1
            grown.extend(y[place], np.array([parent]), np.array([slot]))
        live = range(min(slot, 1) + 1) if (slot, size) != (1, 4) else range(3)
        for item, other in zip(x, y, strict=True):
            one = table.log_predictive(item, len(live)).tolist()
            assert one == pytest.approx(grown.log_predictive(other, len(live)).tolist(), 1e-8)


@pytest.mark.parametrize("made", [editable_clusters, lambda one: one.live_clusters()])
@pytest.mark.parametrize("name", LIKELIHOODS)
def test_clusters_merge(name, made):
    """Every pair's ratio against L, then the merged table against L, until one is left."""
    likelihood, items = fitted(name)
    table = made(likelihood)
    if not isinstance(table, Mergeable):
        assert name in MERGE_NOTHING
        return
    x, rng = [table.encode(item) for item in items], np.random.default_rng(6)
    held = {slot: [slot] for slot in range(len(items))}
    for slot in held:
        table.extend(x[slot], np.array([-1]), np.array([slot]))

    def log_marginal(sets):
        return likelihood.log_marginal([[items[i] for i in some] for some in sets])

    while len(held) > 1:
        into, slot, *others = rng.permutation(sorted(held)).tolist()
        others.append(slot)
        ratios = table.log_merge_ratio_of(into, np.array(others))
        both = log_marginal([held[into] + held[other] for other in others])
        apart = log_marginal([held[other] for other in others]) + log_marginal([held[into]])
        assert ratios.tolist() == pytest.approx((both - apart).tolist(), rel=1e-8, abs=1e-8)
        table.merge(slot, into)
        held[into] += held.pop(slot)
        alone, joined = (
            log_marginal([held[into]]),
            log_marginal([[*held[into], i] for i in range(3)]),
        )
        found = [float(table.log_predictive_of(x[i], np.array([into]))[0]) for i in range(3)]
        assert found == pytest.approx((joined - alone).tolist(), rel=1e-8, abs=1e-8)


def _compare_held(
    likelihood: ConjugateLikelihood,
    table: Any,
    x: Sequence[Any],
    items: Sequence[Fragment],
    held: Sequence[set[int]],
) -> None:
    for slot, members in enumerate(held):
        for i in members:
            rest = [items[j] for j in members if j != i]
            without, whole = likelihood.log_marginal([rest, [*rest, items[i]]])
            expected = pytest.approx(whole - without, rel=1e-8, abs=1e-8)
            assert table.log_predictive_held(x[i], slot) == expected


def small(model: Any) -> LiveRows:
    """A table with thresholds so low that rows turn dense and rebuilds happen all the time."""
    return LiveRows(model.rows, dense_least=3, spare_cells=8)


@pytest.mark.parametrize("name", ROWS)
@pytest.mark.parametrize("seed", range(4))
def test_a_random_life_equals_recomputation_bit_for_bit(name, seed):
    model = ROWS[name]()
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


@pytest.mark.parametrize("name", ROWS)
def test_edits_and_merges_equal_recomputation_bit_for_bit(name):
    """Fragments leave, come and take others with them; whatever happened, it is L's difference."""
    model, rng = ROWS[name](), np.random.default_rng(9)
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
        ratio = table.log_merge_ratio_of(order[0], np.array(order[1:]))
        assert ratio.tolist() == (both - before[0] - before[1:]).tolist()
    assert merges > 2


def test_parameters_of_their_own_make_dimensions_independent_models():
    """In every use of a table that fragments can leave."""
    (both, fragments), (parts, alone) = independent_dimensions()
    tables = [LiveGaussian(model) for model in (both, *parts)]
    for table, own in zip(tables, (fragments, *alone), strict=True):
        x = [table.encode(fragment) for fragment in own]
        for slot in (0, 1):
            table.extend(x[slot], np.array([-1]), np.array([slot]))
            for i in range(2 + slot, 12, 2):
                table.add(x[i], slot)
        table.remove(x[4], 0)
    held, *own_held = (
        t.log_predictive_held(t.encode(f[3]), 1)
        for t, f in zip(tables, (fragments, *alone), strict=True)
    )
    assert held == pytest.approx(sum(own_held), rel=1e-12)
    ratio, *own_ratio = (float(t.log_merge_ratio_of(0, np.array([1]))[0]) for t in tables)
    assert ratio == pytest.approx(sum(own_ratio), rel=1e-12)


@pytest.mark.parametrize("scale", [1.0, 1e-4])
def test_ten_thousand_departures_leave_no_trace(scale):
    """Of 10,000 points that come and go, near ones and outliers, nothing can be felt after."""
    rng = np.random.default_rng(3)
    near = points(rng.normal(100.0, scale, size=(30, 2)))
    far = points(rng.normal(100.0, 30 * scale, size=(30, 2)))
    model = Gaussian(b=0.5 * scale**2, mu=100.0)
    table, fresh = LiveGaussian(model), LiveGaussian(model)
    stay = [table.encode(fragment) for fragment in near[:5]]
    guests = [table.encode(fragment) for fragment in near[5:] + far]
    for each in (table, fresh):
        each.encode(near[0])
        each.extend(stay[0], np.array([-1]), np.array([0]))
        for x in stay[1:]:
            each.extend(x, np.array([0]), np.array([0]))
    held: list[int] = []
    for _ in range(10_000):
        guest = int(rng.integers(len(guests)))
        if guest in held:
            table.remove(guests[guest], 0)
            held.remove(guest)
        else:
            table.add(guests[guest], 0)
            held.append(guest)
    for guest in held:
        table.remove(guests[guest], 0)
    for x in (*stay, *guests):
        assert abs(table.log_predictive(x, 1)[0] - fresh.log_predictive(x, 1)[0]) < 1e-9


def test_a_cluster_that_shrinks_to_one_point_has_no_spread():
    table = LiveGaussian(Gaussian())
    x = [table.encode(f) for f in points(np.array([[0.1, 0.2], [1e8, -1e8], [3.0, 0.7]]))]
    table.extend(x[0], np.array([-1]), np.array([0]))
    table.add(x[1], 0)
    table.add(x[2], 0)
    table.remove(x[1], 0)
    table.remove(x[2], 0)
    assert table._statistics[1, 3:].tolist() == [0.0, 0.0]
    assert table.log_predictive_held(x[0], 0) == table.log_predictive_new(x[0])

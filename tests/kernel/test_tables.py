"""The kernel beside Python where both can do the same: tables, keys, and many fragments at once."""

from __future__ import annotations

import itertools
import random
from collections import Counter
from dataclasses import replace
from math import isqrt, prod

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kbforge.clustering.rules import Rules, greedy
from kbforge.clustering.session import SmcSession
from kbforge.clustering.tables import KernelTable
from kbforge.contracts import UNREAD, Constraints, Decision, Fragment, ModelSpec, unread_marginal
from kbforge.errors import LikelihoodError, UsageError
from kbforge.indexes.selective import Selective
from kbforge.kernel.binding import WORKERS, kernel_library, workers
from kbforge.texts.kinds import KINDS, Kind
from kbforge_plugins.likelihoods.attributes.likelihood import AttributeModel, Attributes
from kbforge_plugins.likelihoods.attributes.urn import components
from kbforge_plugins.likelihoods.attributes.vocabulary import Encoder, Vocabulary
from kbforge_plugins.likelihoods.gaussian import Gaussian
from kbforge_plugins.likelihoods.pairs.likelihood import Pairs
from tests.clustering.contents import contents
from tests.clustering.toys import opened
from tests.kernel.test_oracle import fitted
from tests.likelihoods.attributes.components import components as written_out
from tests.likelihoods.attributes.toys import LETTERS, random_rates, random_vocabulary, world
from tests.likelihoods.attributes.urns import Urns
from tests.people import people
from tests.profile import examples

KERNEL = kernel_library()


def test_draws_are_those_of_python() -> None:
    """c G(u | v) of all pairs of values, by features, slips and words in common."""
    fragments = people(40, 2, error=0.5)
    titles = [
        replace(
            f,
            properties={
                **f.properties,
                "title": (f"the {k % 5} book of {k % 3} letters x{k % 7}",),
            },
        )
        for k, f in enumerate(fragments)
    ]
    model = Attributes()
    model.fit(titles)
    table = model.live_clusters()
    table.encode_all(titles)
    compared = 0
    for index, (name, vocabulary) in enumerate(model.vocabularies.items()):
        urns = Urns(vocabulary, model.rates[name])
        met = table._values[index]
        for u, mine in enumerate(met):
            for v, others in enumerate(met[:60]):
                told = KERNEL.kb_attributes_draw(table.handle, index, u, v)
                assert told == urns.draw(mine, others)
                compared += 1
    assert compared > 1000


WORDS = st.sampled_from(
    ["red", "pen", "wrt-54g", "x1", "x2", "5", "\u0661", "of", "böhm", "a_b", "-"]
)
TITLES = st.lists(WORDS, min_size=1, max_size=6).map(" ".join)


@given(
    counts=st.dictionaries(TITLES, st.sampled_from([0.02, 1.0, 2.5, 7.0]), max_size=12),
    later=st.lists(TITLES, max_size=6),
    discount=st.sampled_from([0.3, 1.0]),
    seed=st.integers(0, 1_000),
)
@examples(60)
def test_draws_of_titles_are_those_of_python(
    counts: dict[str, float], later: list[str], discount: float, seed: int
) -> None:
    """Words repeat, have digits or are new; the vocabulary may be kept, and values come late."""
    counted = Vocabulary("title", counts)
    kept = Vocabulary.load("title", counted.dump(), "a test")
    rates = replace(random_rates(random.Random(seed), "title"), discount=discount)
    for vocabulary in (counted, kept):
        table = AttributeModel({"title": vocabulary}, {"title": rates}).live_clusters()
        urns = Urns(vocabulary, rates)
        for titles in (sorted(counts), later):
            met = sorted({vocabulary.number(title) for title in titles})
            table.meet([met])
            all_met = table._values[0].tolist()
            for (u, mine), (v, others) in itertools.product(enumerate(all_met), repeat=2):
                told = KERNEL.kb_attributes_draw(table.handle, 0, u, v)
                assert told == urns.draw(mine, others)


@pytest.mark.parametrize("kind", KINDS)
def test_components_are_those_of_python(kind: Kind) -> None:
    """Each component of G by itself, to the last bit, of values seen and new."""
    rng = random.Random(7)
    strings = world(LETTERS[kind], 4)
    vocabulary = random_vocabulary(rng, kind, strings)
    numbers = [*range(len(vocabulary)), *map(vocabulary.number, rng.sample(strings, 8))]
    observed, true = zip(*itertools.product(numbers, repeat=2), strict=True)
    told = components(vocabulary, observed, true)
    for row, u, v in zip(told.tolist(), observed, true, strict=True):
        assert row == written_out(vocabulary, u, v)


@pytest.mark.slow
@pytest.mark.parametrize("different", [3, 30, 400])
@pytest.mark.parametrize("seed", range(3))
def test_merges_are_those_of_python(different: int, seed: int) -> None:
    """Ratios and clusters, with titles that share words and more values than may be the true one.

    Some fragments lack an attribute, and some state what the model did not read before.
    """
    rng = random.Random(seed)
    fragments = [
        replace(f, properties={**f.properties, "title": (f"book {k % 5} of {k % different}",)})
        for k, f in enumerate(people(40, 4, error=0.4))
    ]
    rng.shuffle(fragments)
    model = Attributes()
    model.fit(fragments[:-9])
    fragments = [
        replace(f, properties={k: v for k, v in f.properties.items() if rng.random() < 0.9})
        for f in fragments
    ]
    urns = [Urns(of, model.rates[name]) for name, of in model.vocabularies.items()]
    encoder = Encoder(model.vocabularies)
    python = [{a: urns[a].single(u) for a, u in x} for x in encoder.encode_all(fragments)]
    members = [[fragment] for fragment in fragments]
    compiled = model.live_clusters()
    for slot, x in enumerate(compiled.encode_all(fragments)):
        compiled.extend(x, np.array([-1]), np.array([slot]))

    def ratio(slot: int, other: int) -> float:
        if not python[slot] or not python[other]:
            return UNREAD
        total = 0.0
        for a in sorted(python[slot].keys() & python[other].keys()):
            total += urns[a].merge_gain(python[slot][a], python[other][a])
        return total

    live = list(range(len(fragments)))
    while len(live) > 2:
        slot, into = rng.sample(live, 2)
        others = sorted({*rng.sample(live, min(len(live), 20))} - {into, slot})
        for a, urn in python[slot].items():
            held = python[into].get(a)
            python[into][a] = urn if held is None else urns[a].merged(urn, held)
        compiled.merge(slot, into)
        members[into] += members[slot]
        live.remove(slot)
        told = compiled.log_merge_ratio_of(into, np.array(others, dtype=np.int64)).tolist()
        assert told == [ratio(into, other) for other in others]
        unread = encoder.encode_all(members[into]).count(())
        whole = unread_marginal(unread, unread < len(members[into]))
        for _, urn in sorted(python[into].items(), key=lambda item: item[0]):
            whole += urn.log_marginal
        assert model.log_marginal([members[into]])[0] == whole


@pytest.mark.parametrize("seed", range(3))
def test_sums_over_pairs_are_those_written_out(seed: int) -> None:
    """L of clusters of rows of the file and later ones, some of them several times, and merges."""
    rng, made = random.Random(seed), people(30, seed, error=0.4)
    model = Pairs()
    model.fit(made[:60])
    clusters = [rng.choices(made, k=rng.randint(1, 12)) for _ in range(20)]
    odds = model.pair_odds(made)
    links = (odds.first.tolist(), odds.second.tolist(), odds.nats.tolist())
    above = {(i, j): nats for i, j, nats in zip(*links, strict=True)}
    rows = dict(zip((x.id for x in made), odds.row.tolist(), strict=True))

    def written_out(cluster: list[Fragment]) -> float:
        counts = Counter(rows[x.id] for x in cluster)
        total = sum((n - 1) * above[row, row] for row, n in counts.items())
        for one, other in itertools.combinations(sorted(counts), 2):
            weights = [isqrt(counts[row] << 16) / 256 for row in (one, other)]
            total += prod(weights) * above.get((one, other), odds.apart)
        return total

    found = model.log_marginal(clusters).tolist()
    assert found == pytest.approx([written_out(cluster) for cluster in clusters], abs=1e-7)
    live = model.live_clusters()
    slots = range(len(clusters))
    for slot, cluster in enumerate(clusters):
        for number, x in enumerate(live.encode_all(cluster)):
            live.extend(x, np.array([slot if number else -1]), np.array([slot]))
    for slot in slots:
        both = model.log_marginal([clusters[slot] + clusters[other] for other in slots])
        expected = both - model.log_marginal(clusters) - found[slot]
        ratios = live.log_merge_ratio_of(slot, np.array(slots))
        assert np.delete(ratios, slot).tolist() == np.delete(expected, slot).tolist()
    live.merge(0, 1)
    x = live.encode(made[0])
    apart, joined = model.log_marginal(
        [clusters[0] + clusters[1], clusters[0] + clusters[1] + made[:1]]
    )
    assert live.log_predictive_of(x, np.array([1])).tolist() == [joined - apart]


def test_a_fragment_that_is_left_no_place_is_taken_in_all_the_same() -> None:
    """It is one with a fragment that is with another of its source: nobody could know before."""
    made = [Fragment("a", {}, (0.0,), source="s"), Fragment("b", {}, (0.1,), source="t")]
    more = [Fragment(f"x{k}", {}, (float(k),), source=f"u{k}") for k in range(9)]
    last = [Fragment("c", {}, (0.0,), source="t"), Fragment("d", {}, (5.0,), source="t")]
    constraints = Constraints((Decision(True, "a", "c"),), "source")
    spec = ModelSpec(Gaussian(), 0.01, constraints=constraints)
    session = SmcSession(spec, Rules(1, greedy, splits=True), np.random.default_rng(0))
    told = session.add([*made, *more, *last])
    assert [step.fragment for step in told] == list(range(len(told)))
    labels = session.posterior().labels()
    assert labels[0] == labels[11] != labels[1]


def test_many_at_once_are_as_one_by_one() -> None:
    """More than are encoded at once: the next ones are, while the kernel takes some in."""
    fragments = people(450, 8, error=0.3)
    assert len(fragments) > 1100
    spec = fitted(Attributes(), fragments[:800], 300.0)
    sessions = [opened(spec, 3) for _ in range(2)]
    at_once = sessions[0].add(fragments)
    assert at_once == [step for x in fragments for step in sessions[1].add([x])]
    assert contents(sessions[0].snapshot()) == contents(sessions[1].snapshot())


def test_the_number_of_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(WORKERS, raising=False)
    assert 1 <= workers() <= 8
    monkeypatch.setenv(WORKERS, "3")
    assert workers() == 3
    for wrong in ("0", "many"):
        monkeypatch.setenv(WORKERS, wrong)
        with pytest.raises(UsageError, match=f"from 1 to 256, got {wrong}"):
            workers()


def test_a_kernel_that_was_not_told_says_so() -> None:
    """As after an interrupt between the encoding of fragments and the telling of their values."""
    fragments = people(20, 3)
    session = opened(fitted(Attributes(), fragments, 5.0), 3)
    clusters = session._state.table
    assert isinstance(clusters, KernelTable)
    table = clusters.compiled
    assert table is not None
    lost = table.read(fragments[:10])
    with pytest.raises(LikelihoodError, match="open a new one"):
        session.add(fragments[10:])
    assert session.n_fragments < 10
    table.tell(lost)


def test_keys_of_many_fragments_at_once() -> None:
    """Composed in the kernel: values, rules and pairs, in order, each once, at most so many."""
    fragments = people(60, 4)
    crowded = Fragment("x", {f"a{i}": (f"v{i} w{i} u{i}",) for i in range(60)})
    for index in (Selective(), Selective(common=1), Selective(rules=("name+born", "town"))):
        index.fit([*fragments, *[replace(crowded, id=f"x{i}") for i in range(3)]])
        starts, keys = index.keys_of([*fragments, crowded])
        told = [keys[a:b].tolist() for a, b in itertools.pairwise(starts)]
        assert told == [list(index.keys(f)) for f in [*fragments, crowded]]

"""The compiled kernel takes the reference's steps, to the last bit: compared state by state."""

from __future__ import annotations

import itertools
import random
from collections.abc import Sequence
from dataclasses import fields, replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kbforge import registry
from kbforge.clustering.compiled import CompiledRun
from kbforge.clustering.constraints import Closure
from kbforge.clustering.propose import Rules
from kbforge.clustering.session import SmcSession
from kbforge.clustering.tables import KernelTable
from kbforge.contracts import ConjugateLikelihood, Constraints, Decision, Fragment, Problem, Session
from kbforge.errors import ContradictionError, LikelihoodError, UsageError
from kbforge.indexes.selective import Selective
from kbforge.kernel.binding import WORKERS, kernel_library, kernel_status, workers
from kbforge_plugins.clusterers.sequential import SplitSmc
from kbforge_plugins.likelihoods.attributes.likelihood import Attributes
from kbforge_plugins.likelihoods.gaussian import Gaussian
from kbforge_plugins.likelihoods.pairs.likelihood import Pairs
from kbforge_plugins.resamplers import Greedy
from tests.clustering.both_engines import ALPHA, bridging_stream
from tests.clustering.contents import contents
from tests.clustering.test_candidates import Keys
from tests.clustering.toys import Chain, fragments_of, normal
from tests.installed import BIGRAM
from tests.people import people
from tests.profile import examples

KERNEL = kernel_library()
pytestmark = pytest.mark.skipif(KERNEL is None, reason=kernel_status())
STEPS = 7


def both(problem: Problem, rules: Rules) -> tuple[SmcSession, SmcSession]:
    assert KERNEL is not None
    rngs = [np.random.default_rng(3) for _ in range(2)]
    reference = SmcSession(problem, rules, rngs[0])
    return reference, SmcSession(problem, rules, rngs[1], kernel=KERNEL)


def require_equal(one: Session, other: Session) -> None:
    a, b = one.snapshot(), other.snapshot()
    assert a.fragments == b.fragments
    assert a.led == b.led
    for mine, theirs in [(a.totals, b.totals), *zip(a.pages, b.pages, strict=True)]:
        for each in fields(mine):
            said = contents(getattr(mine, each.name)), contents(getattr(theirs, each.name))
            assert said[0] == said[1], each.name


def run(
    problem: Problem, fragments: Sequence[Fragment], rules: Rules, every: int = STEPS
) -> tuple[SmcSession, SmcSession]:
    """Take in fragments in both, a few at a time, and compare."""
    reference, compiled = both(problem, rules)
    for begin in range(0, len(fragments), every):
        part = fragments[begin : begin + every]
        assert reference.add(part) == compiled.add(part)
        require_equal(reference, compiled)
    assert reference.posterior() == compiled.posterior()
    assert reference.touched() == compiled.touched()
    return reference, compiled


def fitted(model: ConjugateLikelihood, fragments: Sequence[Fragment], alpha: float) -> Problem:
    model.fit(fragments)
    return Problem(model, alpha, index=model.index)


@pytest.mark.parametrize("particles", [1, 3, 10])
@pytest.mark.parametrize("splits", [True, False])
def test_merging_and_splitting_streams(particles: int, splits: bool) -> None:
    merged = split = 0
    for seed in range(4):
        points = fragments_of(bridging_stream(seed))
        problem = Problem(Chain(normal(1.0, 6.0)), ALPHA)
        reference, _ = run(problem, points, Rules(particles, Greedy(), splits), 1)
        again = SmcSession(problem, Rules(particles, Greedy(), splits), np.random.default_rng(0))
        told = again.add(points)
        merged += sum(len(info.before) > 1 for info in told)
        split += sum(len(info.after) > 1 for info in told)
        assert reference.n_fragments == len(points)
    assert (merged > 0) == (splits and particles > 1)
    assert (split > 0) == (splits and particles > 1)


def test_a_few_people_for_ever() -> None:
    """What the kernel forgets of clusters that are gone is nothing that the others have."""
    drawn = random.Random(0).choices(people(8, 1), k=1_800)
    fragments = [replace(each, id=f"r{i}") for i, each in enumerate(drawn)]
    problem = fitted(Attributes(), fragments, 4.0)
    _, compiled = run(problem, fragments, Rules(100, Greedy(), splits=True), 150)
    made = compiled.snapshot().totals.evaluations
    assert made > 4 * 2**10  # clusters: it forgets from 2^10 nodes on


@examples(60)
@given(
    points=st.lists(st.tuples(st.integers(-3, 3), st.integers(-2, 2)), min_size=1, max_size=25),
    particles=st.sampled_from([1, 2, 5, 30]),
    alpha=st.sampled_from([0.001, 1.0, 50.0]),
    floor=st.sampled_from([0.0, 1e-3, 0.2]),
)
def test_ties_are_broken_alike(
    points: list[tuple[int, int]], particles: int, alpha: float, floor: float
) -> None:
    """Few different points: equal weights are the rule."""
    problem = Problem(Gaussian(lam=1.0), alpha)
    rules = Rules(particles, Greedy(), splits=True, floor=floor)
    run(problem, fragments_of([(float(a), float(b)) for a, b in points]), rules, 5)


@examples(60)
@given(
    keys=st.lists(st.lists(st.integers(-3, 6), unique=True, max_size=5), min_size=1, max_size=40),
    families=st.integers(1, 4),
    shared=st.integers(1, 3),
    compared=st.integers(0, 3),
)
def test_keys_lead_alike(keys: list[list[int]], families: int, shared: int, compared: int) -> None:
    """Keys that are closed, pruned and followed all the same; families left out."""
    fragments = [
        Fragment(f"f{i}", {"key": tuple(map(str, held))} if held else {}, (float(len(held)),))
        for i, held in enumerate(keys)
    ]
    index = Keys(families=families, shared=shared)
    index.compared = compared
    problem = Problem(Chain(normal(2.0, 3.0)), 0.5, index=index)
    run(problem, fragments, Rules(5, Greedy(), splits=True), 4)


@pytest.mark.parametrize(
    "name",
    ["attributes", "names", *BIGRAM, "pairs"],
)
def test_records_of_people(name: str) -> None:
    fragments = people(70, 5, error=0.3)
    run(
        fitted(registry.create("likelihoods", name), fragments, 20.0),
        fragments,
        SplitSmc(particles=20)._rules,
    )


@examples(30)
@given(data=st.data())
def test_values_of_all_kinds(data: st.DataObject) -> None:
    """Dates, codes, numbers, long texts, sets, strange letters; values never counted."""
    word = st.text("abcdé 0159-/.\n𝔘", min_size=0, max_size=8)
    kinds = st.one_of(
        word,
        st.dates().map(str),
        st.integers(0, 10**6).map(str),
        st.lists(word, min_size=4, max_size=9).map(" ".join),
    )
    pool = data.draw(st.lists(kinds, min_size=1, max_size=8))
    some = st.lists(st.sampled_from(pool), min_size=1, max_size=3).map(tuple)
    record = st.dictionaries(st.sampled_from(["a", "b", "c"]), some, max_size=3)
    records = data.draw(st.lists(record, min_size=4, max_size=30))
    fragments = [Fragment(f"f{i}", held) for i, held in enumerate(records)]
    known = fragments[: data.draw(st.integers(1, len(fragments)))]
    if not any(value.strip() for f in known for held in f.properties.values() for value in held):
        return
    problem = fitted(Attributes(), known, 5.0)
    run(problem, fragments, SplitSmc(particles=10)._rules, 10)


def test_many_values_of_one_entity() -> None:
    """More different values than the sum over true values considers, and many equal ones."""
    rng = np.random.default_rng(0)
    names = [f"name {i}" for i in range(70)] + ["usual"] * 60
    fragments = [
        Fragment(f"f{i}", {"name": (name,), "code": ("X-9000",)})
        for i, name in enumerate(rng.permutation(names).tolist())
    ]
    problem = fitted(Attributes(), fragments, 0.01)
    reference, _ = run(problem, fragments, SplitSmc(particles=3)._rules, 10)
    assert max(map(len, reference.posterior().clusters())) > 100


def test_rows_that_the_file_did_not_have() -> None:
    """Placed as they come, near to rows of the file and to one another; some state the same."""
    fragments = people(80, 6, error=0.3)
    again = [replace(f, id=f"again {f.id}") for f in fragments[::3]]
    empty = [Fragment(f"empty {i}", {"name": (" ",)}) for i in range(3)]
    problem = fitted(Pairs(), fragments[:60], 1.0)
    run(problem, [*fragments, *again, *empty], SplitSmc(particles=10)._rules, 20)


@pytest.mark.skipif(not BIGRAM, reason="the package kbforge_lm is not installed")
@pytest.mark.parametrize("far", [1, 40])
def test_counts_of_rows(far: int) -> None:
    """Factors of counts that the kernel asks for; fragments without a row; many clusters."""
    names = ["anna", "bob bobbins", "", "anna anna anna"] * far + [f"n{i} {i}" for i in range(99)]
    fragments = [
        Fragment(f"f{i}", {"name": (name,) * (1 + i % 3)} if name else {})
        for i, name in enumerate(names)
    ]
    problem = fitted(registry.create("likelihoods", "bigram"), fragments, 0.5)
    reference, _ = run(problem, fragments, Rules(5, Greedy(), splits=True), 50)
    assert max(map(len, reference.posterior().clusters())) >= far


def test_draws_are_those_of_the_reference() -> None:
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
    assert KERNEL is not None
    table = model.compiled_clusters(KERNEL)
    assert table is not None
    table.tell(table.encode(titles))
    compared = 0
    for index, urns in enumerate(model._urns):
        met = table._values[index]
        for u, mine in enumerate(met):
            for v, others in enumerate(met[:60]):
                told = KERNEL.kb_attributes_draw(table.handle, index, u, v)
                assert told == urns.draw(mine, others)
                compared += 1
    assert compared > 1000


@pytest.mark.parametrize("different", [3, 30, 400])
@pytest.mark.parametrize("seed", range(3))
def test_merges_are_those_of_the_reference(different: int, seed: int) -> None:
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
    assert KERNEL is not None
    reference, compiled = model.live_clusters(), model.compiled_merges(KERNEL, fragments)
    for slot, fragment in enumerate(fragments):
        reference.extend(reference.encode(fragment), np.array([-1]), np.array([slot]))
    live = list(range(len(fragments)))
    while len(live) > 2:
        slot, into = rng.sample(live, 2)
        others = np.array(sorted({*rng.sample(live, min(len(live), 20))} - {into}))
        reference.merge(slot, into)
        compiled.merge(slot, into)
        live.remove(slot)
        others = others[others != slot]
        mine, theirs = (t.log_merge_ratio_of(into, others) for t in (reference, compiled))
        assert mine.tobytes() == theirs.tobytes()


@pytest.mark.parametrize("n_workers", ["1", "3"])
@pytest.mark.parametrize("link", [None, "town", "source"])
def test_constraints_bound_what_a_fragment_joins(
    link: str | None, n_workers: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Many at once: fragments that are bound, that are free, and that are left no place."""
    monkeypatch.setenv(WORKERS, n_workers)
    rng = np.random.default_rng(4)
    drawn = rng.choice(list("abcdefgh"), 999).tolist()
    fragments = [
        replace(x, source=source)
        for x, source in zip(people(120, 4, error=0.3), drawn, strict=False)
    ]
    by_label: dict[str, list[str]] = {}
    for x in fragments:
        by_label.setdefault(str(x.label), []).append(x.id)
    decisions = [Decision(True, *ids[:2]) for ids in by_label.values() if len(ids) > 2]
    pairs = rng.integers(len(fragments), size=(60, 2)).tolist()
    decisions += [Decision(False, fragments[a].id, fragments[b].id) for a, b in pairs]
    problem = fitted(Attributes(), fragments, 50.0)
    possible = list[Decision]()
    for each in decisions:
        try:
            Closure([*possible, each])
        except ContradictionError:
            continue
        possible.append(each)
    problem = replace(problem, constraints=Constraints(tuple(possible), link))
    reference, compiled = both(problem, SplitSmc(particles=20)._rules)
    said = []
    for session in (reference, compiled):
        left, told = list(fragments), list[str]()
        while left:
            before = session.n_fragments
            try:
                session.add(left)
                left = []
            except ContradictionError as error:
                told.append(str(error))
                left = left[session.n_fragments - before + 1 :]
        said.append(told)
    assert said[0] == said[1]
    assert bool(said[0]) == (link is not None)
    require_equal(reference, compiled)
    assert reference.touched() == compiled.touched()


def test_a_fragment_that_is_left_no_place_is_taken_in_all_the_same() -> None:
    """It is one with a fragment that is with another of its source: nobody could know before."""
    made = [Fragment("a", {}, (0.0,), source="s"), Fragment("b", {}, (0.1,), source="t")]
    more = [Fragment(f"x{k}", {}, (float(k),), source=f"u{k}") for k in range(9)]
    last = [Fragment("c", {}, (0.0,), source="t"), Fragment("d", {}, (5.0,), source="t")]
    constraints = Constraints((Decision(True, "a", "c"),), "source")
    problem = Problem(Gaussian(), 0.01, constraints=constraints)
    reference, compiled = both(problem, Rules(1, Greedy(), splits=True))
    fragments = [*made, *more, *last]
    assert reference.add(fragments) == compiled.add(fragments)
    require_equal(reference, compiled)
    labels = compiled.posterior().labels()
    assert labels[0] == labels[11] != labels[1]


def test_a_fragment_that_fails_leaves_what_came_before() -> None:
    fragments = [*fragments_of([(0.0,), (1.0,), (0.1,)]), Fragment("bad", {}, (5.0,))]
    inner = normal()

    def fails(members: Sequence[tuple[float, ...]], x: tuple[float, ...]) -> float:
        return float("nan") if x[0] == 5.0 else inner(members, x)

    reference, compiled = both(Problem(Chain(fails), 1.0), Rules(5, Greedy(), splits=True))
    said = []
    for session in (reference, compiled):
        with pytest.raises(LikelihoodError, match='fragment "bad"') as caught:
            session.add(fragments)
        said.append(str(caught.value))
        assert session.n_fragments == 3
    assert said[0] == said[1]
    require_equal(reference, compiled)


def test_many_at_once_are_as_one_by_one() -> None:
    """More than are encoded at once: the next ones are, while the kernel takes some in."""
    fragments = people(450, 8, error=0.3)
    assert len(fragments) > 1100
    problem = fitted(Attributes(), fragments[:800], 300.0)
    sessions = [both(problem, SplitSmc(particles=3)._rules)[1] for _ in range(2)]
    at_once = sessions[0].add(fragments)
    assert at_once == [info for x in fragments for info in sessions[1].add([x])]
    require_equal(*sessions)


@pytest.mark.parametrize("workers", [1, 2, 4])
@pytest.mark.parametrize("ordered", [True, False])
def test_any_number_of_workers(
    workers: int, ordered: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Looked at ahead in waves, and one by one where entities come in order."""
    fragments = people(250, 4, error=0.3)
    if ordered:
        fragments = sorted(fragments, key=lambda f: str(f.label))
    problem = fitted(Attributes(), fragments, 100.0)
    monkeypatch.setenv(WORKERS, str(workers))
    run(problem, fragments, SplitSmc(particles=20)._rules, 400)


@pytest.mark.parametrize("workers", [1, 3])
@pytest.mark.parametrize("name", ["pairs", *BIGRAM, "gaussian"])
def test_any_number_of_workers_by_fragment(
    workers: int, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(2)
    fragments = [
        replace(f, vector=tuple(10.0 * int(str(f.label)) + rng.normal(size=2)))
        for f in people(250, 4, error=0.3)
    ]
    likelihood: ConjugateLikelihood = registry.create("likelihoods", name)
    likelihood.fit(fragments)
    index = likelihood.index or likelihood.index_of_many()
    assert index is not None
    index.fit(fragments)
    monkeypatch.setenv(WORKERS, str(workers))
    problem = Problem(likelihood, 100.0, index=index)
    run(problem, fragments, SplitSmc(particles=20)._rules, 400)


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
    _, compiled = both(fitted(Attributes(), fragments, 5.0), SplitSmc(particles=3)._rules)
    clusters = compiled._core.table
    assert isinstance(clusters, KernelTable)
    table = clusters.compiled
    assert table is not None
    lost = table.encode(fragments[:10])
    with pytest.raises(LikelihoodError, match="open another"):
        compiled.add(fragments[10:])
    assert compiled.n_fragments < 10
    table.tell(lost)


def test_the_clusterers_open_it() -> None:
    rng = np.random.default_rng(0)
    session = SplitSmc().open(Problem(Gaussian(), 1.0), rng)
    assert isinstance(session, SmcSession)
    assert isinstance(session._core.run, CompiledRun)


def test_keys_of_many_fragments_at_once() -> None:
    """Composed in the kernel: values, rules and pairs, in order, each once, at most so many."""
    fragments = people(60, 4)
    crowded = Fragment("x", {f"a{i}": (f"v{i} w{i} u{i}",) for i in range(60)})
    for index in (Selective(), Selective(common=1), Selective(rules=("name+born", "town"))):
        index.fit([*fragments, *[replace(crowded, id=f"x{i}") for i in range(3)]])
        starts, keys = index.keys_of([*fragments, crowded])
        told = [keys[a:b].tolist() for a, b in itertools.pairwise(starts)]
        assert told == [list(index.keys(f)) for f in [*fragments, crowded]]

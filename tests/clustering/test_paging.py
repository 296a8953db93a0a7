"""Paged sessions: one that is closed and opened again against one that never was, bit for bit."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kbforge.clustering.rules import Rules
from kbforge.clustering.session import SmcSession
from kbforge.clustering.tables import CompactTable
from kbforge.contracts import (
    CandidateIndex,
    Checkpoint,
    ConjugateLikelihood,
    Constraints,
    Decision,
    Fragment,
    KeyFamilies,
    Likelihood,
    ModelSpec,
    Session,
    Snapshot,
    StepResult,
)
from kbforge.errors import ContradictionError, LikelihoodError, UsageError
from kbforge.indexes.selective import Selective
from kbforge.testing import BlackBox, Categorical
from kbforge_plugins.clusterers.sequential import SplitSmc
from kbforge_plugins.likelihoods.gaussian import Gaussian
from tests.clustering.contents import contents
from tests.clustering.invariants import check_session
from tests.clustering.test_constraints import check_bindings, sided
from tests.clustering.test_failures import LIKELIHOODS, RULES, Broken, Trap, problem_of
from tests.clustering.toys import Chain, Keys, MemoryPages, normal, opened
from tests.installed import BIGRAM
from tests.profile import examples

Open = Callable[[], ModelSpec]
STAGES = ("conjugate", "indexed", "selective", "black box", "black box indexed", "surrogate")
BLACK = ("black box", "black box indexed", "surrogate")


@dataclass
class Twins:
    """A session that is never closed, and one that is, whenever `reopen` says so.

    `spec` makes the problem anew, as another process would; `exact` says that evaluations are
    the same, as they are but for a black box.
    """

    spec: Open
    rules: Rules
    exact: bool
    known: dict[int, Fragment] = field(default_factory=dict)
    pages: MemoryPages | None = None

    def __post_init__(self) -> None:
        self.whole: Session = SmcSession(self.spec(), self.rules, np.random.default_rng(5))
        self.paged: Session = self.opened(self.spec(), np.random.default_rng(5))

    def opened(
        self, spec: ModelSpec, rng: np.random.Generator, pages: MemoryPages | None = None
    ) -> Session:
        """One that is to be closed."""
        return SmcSession(spec, self.rules, rng, pages=pages)

    def same(self, act: Callable[[Any], Any]) -> Any:
        """Do the same to both; they say the same."""
        said = []
        for session in (self.whole, self.paged):
            try:
                said.append(act(session))
            except (LikelihoodError, ContradictionError, UsageError, KeyError) as error:
                said.append((type(error), str(error)))
        assert self.bare(said[0]) == self.bare(said[1])
        return said[0]

    def add(self, items: Sequence[Fragment]) -> None:
        for x in items:
            for step in self.same(lambda session, x=x: session.add([x])):
                if isinstance(step, StepResult):
                    self.known[step.fragment] = x

    def checkpoint(self) -> Checkpoint:
        """Both make one, and they are the same."""
        one, other = self.whole.checkpoint(), self.paged.checkpoint()
        assert contents(self.bare(one)) == contents(self.bare(other))
        if self.pages is None:
            self.pages = MemoryPages(other, self.known)
        else:
            self.pages.write(other, self.known)
        return other

    def reopen(self) -> None:
        """The one is opened on its pages."""
        self.checkpoint()
        rng = np.random.default_rng(99)
        spec = replace(self.spec(), constraints=Constraints())
        self.paged = self.opened(spec, rng, self.pages)
        assert self.whole.n_fragments == self.paged.n_fragments
        assert self.whole.constraints == self.paged.constraints

    def check(self) -> None:
        """All that both hold is the same."""
        self.same(lambda session: session.posterior())
        self.same(lambda session: session.fragments)
        one, other = self.whole.snapshot(), self.paged.snapshot()
        assert contents(self.bare(one)) == contents(self.bare(other))

    def check_held(self) -> None:
        """What the paged one has here is whole."""
        assert isinstance(self.paged, SmcSession)
        check_held(self.paged)

    def bare(self, said: Any) -> Any:
        """Without what may be counted again."""
        if self.exact:
            return said
        if isinstance(said, list):
            return [self.bare(each) for each in said]
        if isinstance(said, Snapshot):
            said = replace(said, scores={})
        if isinstance(said, Checkpoint | Snapshot):
            return replace(said, totals=replace(said.totals, evaluations=0))
        return replace(said, model_evaluations=0) if hasattr(said, "model_evaluations") else said


def opening(name: str, stage: str, items: list[Fragment], link: str | None = None) -> Open:
    """Makes a problem of a likelihood that is fitted to these."""
    _, make = LIKELIHOODS[name]

    def spec() -> ModelSpec:
        likelihood = make(items)
        if stage == "selective":
            index = Selective()
            index.fit(items)
            made = ModelSpec(likelihood, 0.8, index=index)
        elif stage == "black box indexed":
            index = problem_of("indexed", likelihood, Trap()).index  # type: ignore[assignment]
            made = replace(problem_of("black box", likelihood, Trap()), index=index)
        elif stage == "surrogate":
            index = problem_of("indexed", likelihood, Trap()).index  # type: ignore[assignment]
            made = replace(problem_of("surrogate", likelihood, Trap()), index=index)
        else:
            made = problem_of(stage, likelihood, Trap())
        return replace(made, constraints=Constraints((), link))

    return spec


@pytest.mark.parametrize("stage", STAGES)
@pytest.mark.parametrize("name", ["attributes", *BIGRAM, "gaussian"])
@examples(15)
@given(
    rules=st.sampled_from(sorted(RULES)),
    seed=st.integers(0, 1000),
    link=st.sampled_from([None, None, "source"]),
    data=st.data(),
)
def test_who_is_opened_on_its_pages_goes_on_as_if_it_had_not_been_closed(
    name: str, stage: str, rules: str, seed: int, link: str | None, data: st.DataObject
) -> None:
    draw, _ = LIKELIHOODS[name]
    plain = draw(np.random.default_rng(seed), 16)
    sides = np.random.default_rng(seed).choice(list("abcdef"), size=16).tolist()
    items = sided(plain, sides)
    twins = Twins(opening(name, stage, plain, link), RULES[rules], stage not in BLACK)
    play(twins, items, data)


def play(twins: Twins, items: list[Fragment], data: st.DataObject) -> None:
    """Whatever is done to both, they say the same."""
    ids = [item.id for item in items]
    outside = list(items)
    some = st.lists(st.sampled_from(ids), unique=True, max_size=3)
    for _ in range(data.draw(st.integers(3, 12), label="turns")):
        turn = data.draw(
            st.sampled_from(
                [
                    *("add", "add", "remove", "decide", "lift", "revise", "bridge", "look"),
                    *("write", "reopen"),
                ]
            )
        )
        if turn == "add":
            count = data.draw(st.integers(1, 5))
            twins.add(outside[:count])
            outside = outside[count:]
        elif turn == "remove":
            gone = data.draw(some)
            twins.same(lambda session, gone=gone: session.remove(gone))
            outside += [x for x in items if x.id in gone and x not in outside]
            if outside:
                there = twins.whole.fragments
                outside = [x for x in outside if x not in there]
        elif turn == "decide":
            decision = Decision(data.draw(st.booleans()), *data.draw(st.permutations(ids))[:2])
            twins.same(lambda session, one=decision: session.constrain([one]))
        elif turn == "lift" and twins.whole.constraints.decisions:
            decision = data.draw(st.sampled_from(twins.whole.constraints.decisions))
            twins.same(lambda session, one=decision: session.lift([one]))
        elif turn == "bridge":
            id = data.draw(st.sampled_from(ids))
            twins.same(lambda session, id=id: session.bridge(id))
        elif turn == "revise":
            around = data.draw(st.none() | some)
            twins.same(lambda session, around=around: session.revise(1, around))
        elif turn == "look":
            number = data.draw(st.integers(0, 20))
            twins.same(lambda session, name=number: session.subproblem(name))
            id = data.draw(st.sampled_from(ids))
            twins.same(lambda session, id=id: session.number(id))
        elif turn == "write":
            twins.checkpoint()
        elif turn == "reopen":
            twins.reopen()
        twins.check_held()
        assert twins.whole.n_fragments == twins.paged.n_fragments
    twins.check()


def check_held(session: SmcSession) -> None:
    """What is here is whole, and nothing else is at home here."""
    check_session(session)
    state = session._state
    homes = state.run.homes(list(range(len(state.held))))
    assert {n for n, home in enumerate(homes) if home >= 0} == {n for n, _ in state.here()}
    check_bindings(session)


class ByColour(CandidateIndex):
    """One key a colour."""

    def keys(self, fragment: Fragment) -> Sequence[int]:
        return [int(fragment.properties["colour"][0])]


def coloured(colours: Sequence[int], prefix: str = "f") -> list[Fragment]:
    return [Fragment(f"{prefix}{i}", {"colour": (str(c),)}) for i, c in enumerate(colours)]


def many(entities: int, black: bool = False) -> tuple[ModelSpec, MemoryPages, dict[int, Fragment]]:
    """The pages of so many entities with six records each, those of entity e the e-th of six."""
    likelihood: Likelihood = Categorical(values=entities, beta=0.01)
    spec = ModelSpec(BlackBox(likelihood) if black else likelihood, 1.0, index=ByColour())
    session = opened(spec, 10)
    known = dict(enumerate(coloured(list(range(entities)) * 6)))
    session.add(list(known.values()))
    return spec, MemoryPages(session.checkpoint(), known), known


@pytest.mark.parametrize("black", [False, True])
def test_no_page_comes_in_that_no_fragment_leads_to(black: bool) -> None:
    spec, pages, _ = many(40, black)
    assert len(pages.names()) == 40
    session = SplitSmc(particles=10).open(spec, np.random.default_rng(0), pages=pages)
    assert session.n_fragments == 240
    assert pages.fetched == []
    (step,) = session.add(coloured([17], "new"))
    assert (step.fragment, step.subproblems) == (240, 40)
    assert pages.fetched == [17]
    session.add(coloured([17, 3, 17], "more"))
    assert pages.fetched == [17, 3]
    assert session.subproblem(25).fragments == tuple(range(25, 240, 40))
    assert session.number("f26") == 26
    assert pages.fetched == [17, 3, 25, 26]
    session.remove(["f31", "f71"])
    session.revise(1, ["f8"])
    assert pages.fetched == [17, 3, 25, 26, 31, 8]
    session.constrain([Decision(True, "f5", "f6"), Decision(False, "f17", "new0")])
    assert pages.fetched == [17, 3, 25, 26, 31, 8, 5, 6]
    session.lift([Decision(True, "f5", "f6")])
    mark = session.checkpoint()
    assert [page.name for page in mark.pages] == [3, 5, 17, 111]
    assert mark.gone == (6, 31)
    assert len(pages.fetched) == 8
    assert session.n_fragments == 242
    assert session.posterior().n_fragments == 242
    assert sorted(set(pages.fetched)) == list(range(40))


def test_a_checkpoint_has_what_changed_and_nothing_else() -> None:
    spec, pages, known = many(10)
    session = SplitSmc(particles=10).open(spec, np.random.default_rng(0), pages=pages)
    nothing = session.checkpoint()
    assert (nothing.pages, nothing.gone, nothing.postings) == ((), (), {})
    assert contents(nothing.totals) == contents(pages.totals)
    x = Fragment("x", {"colour": ("4",)})
    session.add([x])
    session.remove(["f3"])
    with pytest.raises(KeyError):  # its page is still there
        session.subproblem(3)
    with pytest.raises(UsageError, match='no fragment of the session has the id "f3"'):
        session.number("f3")
    mark = session.checkpoint()
    assert [page.name for page in mark.pages] == [4, 13]
    assert mark.gone == (3,)
    # ten particles: clusters that begin with each of the six, but for what has come last
    assert mark.postings == {
        3: KeyFamilies((13, 23, 33, 43, 53), False),
        4: KeyFamilies((4, 14, 24, 34, 44, 54, 60), False),
    }
    assert (mark.totals.n_fragments, mark.totals.n_numbers) == (60, 61)
    pages.write(mark, {**known, 60: x})
    # one that comes and goes was never there for whoever keeps the pages
    session.add([Fragment("y", {"colour": ("0",)}), Fragment("z", {"colour": ("9",)})])
    session.remove(["y", "z"])
    assert session.checkpoint().gone == ()
    with pytest.raises(KeyError):
        session.subproblem(3)


def test_a_checkpoint_shares_nothing_with_its_session() -> None:
    items = coloured([0, 1, 2, 0, 1, 2, 0, 1])
    spec = ModelSpec(Categorical(values=3), 1.0, index=ByColour())
    session = opened(spec, 10, items[:5])
    mark = session.checkpoint()
    before = contents(mark)
    session.add(items[5:])
    session.remove(["f0", "f1"])
    assert contents(mark) == before


def test_the_first_fragments_may_be_gone() -> None:
    """A Gaussian's table reads all others relative to the first, wherever that lies."""
    rng = np.random.default_rng(8)
    items = [Fragment(f"f{i}", {}, (float(c),)) for i, c in enumerate(rng.normal(size=220) * 9)]
    twins = Twins(opening("gaussian", "indexed", items), RULES["split-smc"], exact=True)
    twins.add(items[:200])
    for gone in (range(1), range(2, 190), range(1, 2)):
        twins.reopen()
        twins.same(lambda session, gone=gone: session.remove([f"f{i}" for i in gone]))
        twins.reopen()
        twins.add([replace(x, id=f"{x.id} again, {len(gone)}") for x in items[200:]])
    twins.check()


def test_everything_may_go_and_come() -> None:
    items = coloured([0, 1, 2, 0, 1, 2])
    spec = ModelSpec(Categorical(values=3), 1.0, index=ByColour())
    twins = Twins(lambda: spec, RULES["split-smc"], exact=True)
    twins.reopen()
    twins.add(items)
    twins.reopen()
    twins.same(lambda session: session.remove([x.id for x in items]))
    twins.reopen()
    assert twins.paged.n_fragments == 0
    twins.add(items)
    twins.check()


def test_pages_of_other_settings_are_refused() -> None:
    spec, pages, _ = many(3)
    rng = np.random.default_rng(0)
    with pytest.raises(UsageError, match="pages are of a session with particles 10, but this one"):
        SplitSmc(particles=20).open(spec, rng, pages=pages)
    with pytest.raises(UsageError, match=r"pages are of a session with alpha 1\.0, .* 2\.0"):
        SplitSmc(particles=10).open(replace(spec, alpha=2.0), rng, pages=pages)
    linked = replace(spec, constraints=Constraints((), "source"))
    with pytest.raises(UsageError, match="the pages are of a session with different constraints"):
        SplitSmc(particles=10).open(linked, rng, pages=pages)
    session = SplitSmc(particles=10).open(spec, rng, pages=pages)
    with pytest.raises(UsageError, match="from a snapshot or from pages, not from both"):
        SplitSmc(particles=10).open(spec, rng, session.snapshot(), pages)


@pytest.mark.parametrize("method", ["encode", "log_predictive_of", "keys"])
def test_a_failure_while_a_page_comes_in_changes_nothing(method: str) -> None:
    items = LIKELIHOODS["attributes"][0](np.random.default_rng(7), 16)
    made = opening("attributes", "indexed", items)
    twins = Twins(made, RULES["split-smc"], exact=True)
    twins.add(items[:14])
    for wait in range(6):
        twins.reopen()
        trap = Trap()
        spec = problem_of("indexed", LIKELIHOODS["attributes"][1](items), trap)
        rng, pages = np.random.default_rng(0), twins.pages
        twins.paged = SmcSession(spec, RULES["split-smc"], rng, pages=pages)
        trap.method, trap.wait = method, wait
        try:
            twins.paged.add(items[14:15])
        except Broken:
            twins.check_held()
        else:
            trap.wait = None
            twins.paged.remove([items[14].id])
            twins.whole.add(items[14:15])
            twins.whole.remove([items[14].id])
        trap.wait = None
        twins.add([replace(items[15], id=f"again {wait}")])
    twins.check()


@pytest.mark.parametrize("name", sorted(LIKELIHOODS))
def test_a_table_that_numbers_its_clusters_itself_says_the_same(name: str) -> None:
    """Slots far apart, of which it holds a few."""
    draw, make = LIKELIHOODS[name]
    items = draw(np.random.default_rng(3), 30)
    likelihood = make(items)
    assert isinstance(likelihood, ConjugateLikelihood)
    plain, inner = likelihood.live_clusters(), likelihood.live_clusters()
    table = CompactTable(inner)
    rng = np.random.default_rng(4)
    far = rng.permutation(1000) * 1000
    live: list[int] = []
    for n, item in enumerate(items):
        x, y = plain.encode(item), table.encode(item)
        here = np.array(live, dtype=np.int64)
        if live:
            expected = plain.log_predictive(x, n)[here]
            assert table.log_predictive_of(y, far[here]).tolist() == expected.tolist()
            assert table.log_predictive(y, 1_000_000)[far[here]].tolist() == expected.tolist()
        assert table.log_predictive_new(y) == plain.log_predictive_new(x)
        parent = int(rng.choice([-1, *live]))
        plain.extend(x, np.array([parent]), np.array([n]))
        table.extend(y, np.array([-1 if parent < 0 else far[parent]]), far[[n]])
        live.append(n)
        if n % 3 == 2:
            out = np.array([live.pop(int(rng.integers(len(live))))])
            plain.release(out)
            table.release(far[out])


def test_one_that_is_another_by_decision_finds_it_without_a_key() -> None:
    """What it is told to join lies elsewhere, and no key of its own leads there."""
    colours = [0, 1, 2, 0, 1, 2]
    spec = ModelSpec(Categorical(values=9), 1.0, index=ByColour())
    twins = Twins(lambda: spec, RULES["split-smc"], exact=True)
    twins.add(coloured(colours))
    late = Fragment("late", {"colour": ("7",)})
    twins.same(lambda session: session.constrain([Decision(True, "f4", "late")]))
    twins.reopen()
    twins.add([late])
    assert twins.pages is not None
    assert twins.pages.fetched == [1]
    (joined,) = [c for c in twins.whole.posterior().clusters() if 6 in c]
    assert 4 in joined
    twins.check()


def test_closed_keys_are_followed_where_no_other_leads_anywhere() -> None:
    """A common value leads to four entities, too many to follow but for who has no other."""

    class ByWords(ByColour):
        families = 3

        def keys(self, fragment: Fragment) -> Sequence[int]:
            words = [*fragment.properties["colour"], *fragment.properties["also"]]
            return [int(word) for word in words]

    def worded(id: str, *words: str) -> Fragment:
        return Fragment(id, {"colour": words[:1], "also": words[1:]})

    spec = ModelSpec(Categorical(values=9, beta=0.01), 1.0, index=ByWords())
    twins = Twins(lambda: spec, RULES["greedy"], exact=True)
    twins.add([worded(f"f{i}", str(i), "8") for i in range(6)])
    assert twins.checkpoint().postings[8] == KeyFamilies((0, 1, 2, 3), True)
    twins.reopen()
    twins.add([worded("open", "5", "8")])
    assert twins.pages is not None
    assert twins.pages.fetched == [5]
    twins.reopen()
    twins.add([worded("common", "7", "8")])
    assert twins.pages.fetched == [5, 0, 1, 2, 3]
    twins.check()


@examples(60)
@given(
    given=st.lists(
        st.tuples(st.lists(st.integers(-2, 3), unique=True, max_size=3), st.integers(0, 5)),
        min_size=12,
        max_size=40,
    ),
    families=st.integers(1, 4),
    shared=st.integers(1, 3),
    compared=st.integers(0, 3),
    every=st.integers(1, 9),
    model=st.sampled_from(["in the kernel", "in Python"]),
)
def test_keys_lead_elsewhere(
    given: list[tuple[list[int], int]],
    families: int,
    shared: int,
    compared: int,
    every: int,
    model: str,
) -> None:
    """Keys that are closed, followed after all, pruned, and new while others lie elsewhere.

    Points far apart make many families of a key.
    """
    fragments = [
        Fragment(f"f{i}", {"key": tuple(map(str, held))} if held else {}, (9.0 * far,))
        for i, (held, far) in enumerate(given)
    ]
    index = Keys(families=families, shared=shared)
    index.compared = compared
    likelihood = Gaussian(lam=1.0) if model == "in the kernel" else Chain(normal(2.0, 3.0))
    spec = ModelSpec(likelihood, 0.5, index=index)
    twins = Twins(lambda: spec, RULES["split-smc"], exact=True)
    for begin in range(0, len(fragments), every):
        twins.add(fragments[begin : begin + every])
        twins.reopen()
        twins.check_held()
    twins.check()


def keyed(id: str, at: float, *keys: int) -> Fragment:
    return Fragment(id, {"key": tuple(map(str, keys))}, (at,))


def test_only_what_may_be_compared_comes_in() -> None:
    """Families that share too few keys are not compared where another shares enough."""
    spec = ModelSpec(Chain(normal(0.1, 30.0)), 0.5, index=Keys(shared=2))
    twins = Twins(lambda: spec, RULES["greedy"], exact=True)
    twins.add([keyed("near", 0.0, 1, 2, 3), keyed("far", 9.0, 3, 4), keyed("off", 18.0, 4, 5)])
    twins.reopen()
    assert twins.pages is not None
    twins.add([keyed("new", 0.1, 1, 2, 3)])
    assert twins.pages.fetched == [0]
    twins.add([keyed("other", 9.1, 4)])
    assert sorted(twins.pages.fetched) == [0, 1, 2]
    twins.check()


def test_a_key_that_leads_where_it_led_has_not_changed() -> None:
    spec = ModelSpec(Chain(normal(0.1, 30.0)), 0.5, index=Keys())
    twins = Twins(lambda: spec, RULES["greedy"], exact=True)
    twins.add([keyed("first", 0.0, 1, 2)])
    twins.reopen()
    twins.add([keyed("again", 0.0, 1, 2, 3)])
    assert [*twins.checkpoint().postings] == [3]
    twins.check()

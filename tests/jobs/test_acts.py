"""Acts: what each makes of the entities, and that one undo brings back what was."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kbforge.contracts.clusterer import RuleSet
from kbforge.errors import ContradictionError, KBForgeError, NotFoundError, UsageError
from kbforge.fit.choices import RunOptions
from kbforge.jobs import acts
from kbforge.jobs.decide import UNDOES, answers_in, decide, decisions_of, take_back
from kbforge.jobs.decide import undo as withdraw
from kbforge.jobs.models import rules_of
from kbforge.jobs.opening import EventResult, locked, opened, resume
from kbforge.jobs.refit import refit
from kbforge.jobs.rules import set_rules
from kbforge.jobs.update import add_fragments
from kbforge.store.database import Database
from kbforge.store.store import Store
from tests.people import people
from tests.store.dump import dump

PEOPLE = people(60, 8, error=0.3)


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("store") / "kb.sqlite"
    add_fragments(str(path), PEOPLE, RunOptions(likelihood="attributes", alpha=30.0))
    return path


@pytest.fixture
def store(base: Path, tmp_path: Path) -> str:
    return str(shutil.copy(base, tmp_path / "kb.sqlite"))


def take(path: str, propose: Callable[..., acts.Proposal], *given: Any) -> EventResult:
    with locked(path) as store:
        proposal = propose(store, *given)
        held = resume(store, proposal.verb, proposal.about, time.perf_counter())
        return acts.take(held, proposal)


def undo(path: str, run: int) -> EventResult:
    began = time.perf_counter()
    with locked(path) as store:
        return take_back(
            store, run, began, lambda about: resume(store, UNDOES, about, began), of_run=True
        )


def entities(path: str) -> dict[str, frozenset[str]]:
    """The fragments of each entity."""
    with Database(path) as database:
        store = Store(database)
        rows = database.connection.execute("SELECT id FROM entity")
        return {id: frozenset(ids) for id, ids in store.members([id for (id,) in rows])}


def content(path: str) -> list[str]:
    """All rows but those of runs, of what they undid, and of where ids lead."""
    left = ("run ", "decision ", "redirect ", "image ", "erased ", "audit ")
    return [line for line in dump(path) if not line.startswith(left)]


def in_doubt(path: str) -> list[tuple[int, list[tuple[tuple[str, ...], ...]], list[str]]]:
    """The subproblems with several groupings: these, and their keys."""
    found = []
    with Database(path) as database:
        pages = Store(database).pages
        for name in pages.names():
            block = pages.page(name).subproblem()
            if len(block.particles) > 1:
                ids = {n: x.id for n, x in pages.fragments(block.fragments).items()}
                every = [p.clusters for p in block.particles]
                said = [tuple(tuple(ids[n] for n in c) for c in clusters) for clusters in every]
                found.append((name, said, [acts.key_of(clusters) for clusters in every]))
    return found


def test_join_and_its_undo(store: str) -> None:
    before, was = entities(store), content(store)
    first, second = sorted(before, key=lambda id: -len(before[id]))[:2]
    run = take(store, acts.join, first, second).run
    after = entities(store)
    assert before[first] | before[second] in after.values()
    assert len(after) == len(before) - 1
    with pytest.raises(UsageError, match="both are the entity"):
        take(store, acts.join, first, second)  # the other id leads to it
    assert undo(store, run).told == {"undone": 1, "exact": True, "already": False}
    assert (entities(store), content(store)) == (before, was)
    assert undo(store, run).told["already"]
    with pytest.raises(NotFoundError, match="made no decision"):
        undo(store, 1)


def test_part_and_move(store: str) -> None:
    before = entities(store)
    first, second = sorted(before, key=lambda id: -len(before[id]))[:2]
    some = sorted(before[first])[:2]
    run = take(store, acts.part, some).run
    parted = entities(store)
    assert {frozenset(some), before[first] - {*some}} <= {*parted.values()}
    moved = take(store, acts.move, some, second).run
    after = entities(store)
    assert {before[second] | {*some}, before[first] - {*some}} <= {*after.values()}
    undo(store, moved)
    assert entities(store) == parted
    undo(store, run)
    assert entities(store) == before


def test_what_is_confirmed_is_certain_and_stays(store: str) -> None:
    before = entities(store)
    name, said, _ = in_doubt(store)[0]
    ids = {id for id, held in before.items() if not held.isdisjoint(sum(said[0], ()))}
    for id in sorted(ids):
        take(store, acts.confirm, id)
    assert entities(store) == before
    assert name not in {block for block, *_ in in_doubt(store)}


def test_a_single_fragment_that_is_confirmed_is_no_answer_about_a_pair(store: str) -> None:
    unsure = {id for _, said, _ in in_doubt(store) for id in sum(said[0], ())}
    before = entities(store)
    single = next(id for id, held in before.items() if len(held) == 1 and held.isdisjoint(unsure))
    run = take(store, acts.confirm, single).run
    with Database(store) as database:
        (made,) = Store(database).decisions()
        assert made.first == made.second
        assert answers_in(Store(database)) == []
    refit(store)
    assert undo(store, run).told == {"undone": 1, "exact": False, "already": False}
    assert entities(store) == before


def test_any_grouping_can_be_chosen(store: str) -> None:
    was = content(store)
    for name, said, keys in in_doubt(store)[:5]:
        run = take(store, acts.choose, name, keys[-1]).run
        groups = {frozenset(group) for group in said[-1]}
        assert groups <= {*entities(store).values()}
        undo(store, run)
        assert content(store) == was
    with pytest.raises(NotFoundError, match="no such grouping now"):
        take(store, acts.choose, name, "0")
    with pytest.raises(NotFoundError, match="no subproblem"):
        take(store, acts.choose, 10**6, keys[0])


def test_accepting_takes_all_probable_pairs_and_one_undo_parts_them(store: str) -> None:
    was, doubtful = content(store), in_doubt(store)
    done = take(store, acts.accept, 0.6)
    numbers = done.told["decisions"]
    assert len(numbers) > 3
    assert done.told["refused"] == 0
    with Database(store) as database:
        made = Store(database).decisions()
        view = {id: entity for entity, held in entities(store).items() for id in held}
    assert [one.number for one in made] == numbers
    assert all(one.run == done.run and view[one.first] == view[one.second] for one in made)
    with locked(store) as opened_store:
        assert acts.accept(opened_store, 0.6).said == []
    assert len(in_doubt(store)) < len(doubtful)
    assert undo(store, done.run).told == {
        "undone": len(numbers),
        "exact": True,
        "already": False,
    }
    assert content(store) == was


def test_what_is_accepted_together_is_as_one_after_another(base: Path, tmp_path: Path) -> None:
    states = []
    for name in ("together", "apart"):
        path = str(shutil.copy(base, tmp_path / name))
        with locked(path) as store:
            every = acts.accept(store, 0.6).said
        for said in [every] if name == "together" else [[one] for one in every]:
            take(path, lambda _, said=said: acts.Proposal("accept", "", said, lenient=True))
        states.append((entities(path), [(name, said) for name, said, _ in in_doubt(path)]))
        with Database(path) as database:
            noted = database.connection.execute("SELECT DISTINCT decision FROM erased").fetchall()
        assert len(noted) == (1 if name == "together" else len(every)), "transactions"
    assert states[0] == states[1]


@pytest.mark.parametrize("which", [0, -1])
def test_one_of_those_accepted_together_is_undone_alone(store: str, which: int) -> None:
    numbers = take(store, acts.accept, 0.6).told["decisions"]
    assert not withdraw(store, numbers[which]).told["exact"]
    with Database(store) as database:
        made = Store(database).decisions()
        view = {id: entity for entity, held in entities(store).items() for id in held}
    left = [one for one in made if one.undone is None]
    assert [one.number for one in left] == [n for n in numbers if n != numbers[which]]
    assert all(view[one.first] == view[one.second] for one in left)
    assert not undo(store, left[0].run).told["exact"]


def test_what_came_later_stays_when_a_run_is_undone(store: str) -> None:
    run = take(store, acts.accept, 0.6).run
    take(store, acts.join, *sorted(entities(store))[:2])
    done = undo(store, run)
    assert not done.told["exact"]
    with Database(store) as database:
        made = Store(database).decisions()
        left = {one.name for one in Store(database).pages.totals.constraints.decisions}
        lines = database.connection.execute(
            "SELECT decision FROM audit WHERE verb = 'undo' ORDER BY decision"
        )
        undone = [number for (number,) in lines]
    assert undone == [one.number for one in made if one.undone == done.run]
    assert [one.number for one in made if one.undone is None] == [made[-1].number]
    assert left == {f"decision {made[-1].number}"}


def test_rules_that_came_later_stay_when_a_run_is_undone(store: str) -> None:
    run = take(store, acts.accept, 0.6).run
    set_rules(store, RuleSet((sorted(PEOPLE[0].properties)[0],), ()))
    done = undo(store, run)
    assert not done.told["exact"]
    with Database(store) as database:
        assert rules_of(Store(database)).never
        assert all(one.undone == done.run for one in Store(database).decisions())


def test_a_pair_that_contradicts_decisions_is_left_out(store: str) -> None:
    with locked(store) as held:
        (pair, *_), *others = acts.accept(held, 0.6).said
    decide(store, decisions_of([("different", pair.first, pair.second)]))
    with opened(store, "accept", "") as session:
        one = acts.Proposal("accept", "", [[pair], *others], lenient=True)
        done = acts.take(session, one)
    assert done.told["refused"] == 1
    assert len(done.told["decisions"]) == len(others)
    assert others


@pytest.mark.parametrize(
    ("propose", "expected"),
    [
        (lambda store, ids: acts.part(store, ids["whole"]), "nothing is left to part"),
        (lambda store, ids: acts.part(store, ids["two"]), "of one entity, got 2"),
        (lambda store, ids: acts.part(store, ["nobody"]), 'no fragment "nobody"'),
        (lambda store, ids: acts.part(store, []), "of one entity, got 0"),
        (lambda store, ids: acts.move(store, ids["two"][:1], ids["first"]), "already"),
        (lambda store, ids: acts.join(store, ids["first"], "nobody"), 'had an entity "nobody"'),
        (lambda store, ids: acts.accept(store, 0.5), "a probability over .5"),
    ],
)
def test_what_cannot_be_done_is_refused(
    store: str, propose: Callable[[Store, Any], acts.Proposal], expected: str
) -> None:
    held = entities(store)
    first, second = sorted(held, key=lambda id: -len(held[id]))[:2]
    whole = sorted(held[first])
    ids = {"first": first, "whole": whole, "two": [whole[0], min(held[second])]}
    with locked(store) as opened_store, pytest.raises(KBForgeError, match=expected):
        propose(opened_store, ids)


def test_an_act_that_contradicts_a_decision_changes_nothing(store: str) -> None:
    held = entities(store)
    first, second = sorted(held, key=lambda id: -len(held[id]))[:2]
    decide(store, decisions_of([("different", max(held[first]), max(held[second]))]))
    was, before = content(store), entities(store)
    with pytest.raises(ContradictionError, match="decision 1"):
        take(store, acts.join, first, second)
    assert (content(store), entities(store)) == (was, before)


@given(data=st.data())
def test_random_acts_do_what_they_say_and_are_undone_in_turn(
    data: st.DataObject, base: Path
) -> None:
    path = str(shutil.copy(base, base.with_name("random.sqlite")))
    states = [(entities(path), content(path))]
    runs = []
    for _ in range(data.draw(st.integers(1, 4))):
        held = states[-1][0]
        one, other = (data.draw(st.sampled_from(sorted(held))) for _ in range(2))
        act = data.draw(st.sampled_from(["join", "part", "move", "confirm"]))
        some = data.draw(st.sets(st.sampled_from(sorted(held[one])), min_size=1))
        given: tuple[Any, ...] = {
            "join": (acts.join, one, other),
            "part": (acts.part, sorted(some)),
            "move": (acts.move, sorted(some), other),
            "confirm": (acts.confirm, one),
        }[act]
        expected: Any = {
            "join": [held[one] | held[other]],
            "part": [some, held[one] - some],
            "move": [some | held[other], held[one] - some],
            "confirm": [held[one]],
        }[act]
        try:
            done = take(path, *given)
        except UsageError:  # it cannot be done, or contradicts what was done
            assert content(path) == states[-1][1]
            continue
        states.append((entities(path), content(path)))
        # what is free again may join a group, but only what is confirmed must stay as it is
        now = states[-1][0].values()
        homes = [next(own for own in now if group <= own) for group in expected if group]
        assert len({*homes}) == len(homes)
        assert act != "confirm" or homes == expected
        if done.told["decisions"]:
            runs.append(done.run)
        else:
            assert states.pop() == states[-1]
    for run in reversed(runs):
        states.pop()
        assert undo(path, run).told["exact"]
        assert (entities(path), content(path)) == states[-1]

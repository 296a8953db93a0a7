"""What events leave: removals, decisions, undo, revision, refits, erasures and new records."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from kbforge.contracts import Entity, Fragment, Kind
from kbforge.errors import ContradictionError, KBForgeError, OutputError, UsageError
from kbforge.evaluation.scores import score_entities
from kbforge.fit.choices import RunOptions
from kbforge.jobs import decide as events
from kbforge.jobs.decide import decide, decisions_of, reviewed, undo, whole_entities
from kbforge.jobs.refit import refit, revisit
from kbforge.jobs.remove import erase, remove
from kbforge.jobs.report import status_of
from kbforge.jobs.update import add_fragments
from kbforge.jobs.views import entities_of
from kbforge.store.changes import changes
from kbforge.store.database import Database
from kbforge.store.store import Store
from tests.people import people
from tests.store.dump import dump

STATE = ("page", "led", "entity", "fragment", "redirect", "kept")
PEOPLE = people(50, 8)
EXACT = tuple(table for table in STATE if table != "redirect")
"""What an exact undo leaves as it was; ids of entities that it took away lead on."""


@pytest.fixture
def store(tmp_path: Path) -> str:
    path = str(tmp_path / "kb.sqlite")
    add_fragments(path, PEOPLE, RunOptions(likelihood="attributes", alpha=30.0))
    return path


def content(store: str) -> dict[str, tuple[str, ...]]:
    return {entity.id: entity.fragments for entity in entities_of(store)}


def f1(store: str, others: Sequence[Fragment]) -> float:
    found = score_entities(entities_of(store), [*PEOPLE, *others])
    return found.scores.bcubed_f1_harmonic


def unknown(fragments: list[Fragment]) -> list[Fragment]:
    known = {fragment.id for fragment in PEOPLE}
    return [fragment for fragment in fragments if fragment.id not in known]


def decide_one(store: str, said: str, a: str, b: str) -> None:
    decide(store, decisions_of([(said, a, b)]))


def state(store: str, tables: tuple[str, ...] = STATE) -> list[str]:
    return [line for line in dump(store) if line.startswith(tables)]


def several(store: str) -> tuple[str, str]:
    """Two fragments of one entity."""
    first, second, *_ = next(ids for ids in content(store).values() if len(ids) > 2)
    return first, second


def elsewhere(store: str, *others: str) -> str:
    """The first fragment of an entity without the others."""
    return next(ids[0] for ids in content(store).values() if not {*others} & {*ids})


def together(store: str, a: str, b: str) -> bool:
    return any({a, b} <= set(ids) for ids in content(store).values())


def test_removed_fragments_are_nowhere(store: str) -> None:
    before = content(store)
    gone = [ids[0] for ids in before.values()][:12]
    done = remove(store, gone)
    now = content(store)
    assert done.told["removed"] == 12
    assert done.fragments == sum(map(len, now.values()))
    assert {id for ids in now.values() for id in ids} == {
        id for ids in before.values() for id in ids if id not in gone
    }
    assert status_of(store).runs[-1].removed == 12


def test_all_are_removed_or_none(store: str) -> None:
    before = dump(store)
    with pytest.raises(UsageError, match="no fragment"):
        remove(store, ["0-0", "nobody"])
    assert state(store) == [line for line in before if line.startswith(STATE)]


def test_everything_can_be_removed_and_come_again(store: str) -> None:
    everything = [fragment.id for fragment in PEOPLE]
    remove(store, everything)
    assert content(store) == {}
    add_fragments(store, PEOPLE, RunOptions())
    assert sorted(id for ids in content(store).values() for id in ids) == sorted(everything)


def test_a_source_is_withdrawn(tmp_path: Path) -> None:
    path = str(tmp_path / "kb.sqlite")
    found = [replace(x, source="ab"[k % 2]) for k, x in enumerate(people(30, 2))]
    add_fragments(path, found, RunOptions(likelihood="attributes", alpha=20.0))
    done = remove(path, [], source="a")
    assert done.fragments == sum(x.source == "b" for x in found)
    assert remove(path, [], source="a").told == {"removed": 0, "already": True}
    with pytest.raises(UsageError, match="no fragment from the source"):
        remove(path, [], source="c")


def test_decisions_hold_whatever_comes(store: str) -> None:
    a, b = several(store)
    decide_one(store, "different", a, b)
    assert not together(store, a, b)
    c = elsewhere(store, a, b)
    decide_one(store, "same", a, c)
    assert together(store, a, c)
    add_fragments(store, unknown(people(80, 9)), RunOptions())
    revisit(store, ids=[a, b, c])
    assert together(store, a, c)
    assert not together(store, a, b)


def test_a_contradiction_names_the_decisions_and_changes_nothing(store: str) -> None:
    a, b = several(store)
    c = elsewhere(store, a)
    decide(store, decisions_of([("same", a, b), ("same", b, c)]))
    before = state(store)
    with pytest.raises(ContradictionError, match=r"decision 1.*decision 2"):
        decide_one(store, "different", a, c)
    assert state(store) == before


def pair_of_entities(store: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Two entities with other members than their first."""
    first, second, *_ = (ids for ids in content(store).values() if len(ids) > 2)
    return first, second


def test_a_person_who_says_same_speaks_of_whole_entities(store: str) -> None:
    first, second = pair_of_entities(store)
    before = content(store)
    decide(store, decisions_of([("same", first[0], second[0])]), ties=whole_entities)
    others = [ids for ids in before.values() if ids not in (first, second)]
    assert sorted(map(sorted, content(store).values())) == sorted(
        map(sorted, [*others, first + second])
    )
    assert status_of(store).decisions == 1
    with pytest.raises(ContradictionError, match=r"contradicts decision 1 \(same .*--undo NUMBER"):
        decide_one(store, "different", first[1], second[1])
    add_fragments(store, [], RunOptions())
    refit(store)
    assert together(store, first[1], second[1])
    undo(store, 1)
    assert not together(store, first[1], second[1])
    decide_one(store, "different", first[1], second[1])


def test_undoing_what_joined_two_entities_restores_them(store: str) -> None:
    first, second = pair_of_entities(store)
    before = state(store, EXACT)
    decide(store, decisions_of([("same", first[0], second[0])]), ties=whole_entities)
    undo(store, 1)
    assert state(store, EXACT) == before


def test_entities_that_a_decision_keeps_apart_are_not_joined_whole(store: str) -> None:
    first, second = pair_of_entities(store)
    decide_one(store, "different", first[1], second[1])
    decide(store, decisions_of([("same", first[0], second[0])]), ties=whole_entities)
    assert together(store, first[0], second[0])
    assert not together(store, first[1], second[1])


@pytest.mark.parametrize("at", [0, 1])
def test_ties_go_with_their_fragments(store: str, at: int) -> None:
    """Without a fragment that was decided about, the decision and all its ties are gone."""
    first, second = pair_of_entities(store)
    decide(store, decisions_of([("same", first[0], second[0])]), ties=whole_entities)
    erase(store, [first[at]])
    assert together(store, first[2], second[1]) == (at == 1)
    with Database(store) as database:
        left = Store(database).pages.totals.constraints.decisions
    assert bool(left) == (at == 1)
    assert first[at] not in {id for one in left for id in (one.first, one.second)}


def test_undoing_the_last_decisions_restores_the_exact_state(store: str) -> None:
    first = state(store, EXACT)
    a, b = several(store)
    decide_one(store, "different", a, b)
    second = state(store, EXACT)
    c = elsewhere(store, a, b)
    decide_one(store, "same", a, c)
    assert state(store, EXACT) != second
    assert undo(store, 2).told["exact"]
    assert state(store, EXACT) == second
    assert undo(store, 1).told["exact"]
    assert state(store, EXACT) == first
    after = dump(store)
    assert undo(store, 1).told == {"undone": 1, "exact": None, "already": True}
    assert dump(store) == after
    with pytest.raises(UsageError, match="no decision 3"):
        undo(store, 3)


def test_undoing_an_earlier_decision_clusters_again_without_it(store: str) -> None:
    a, b = several(store)
    decide_one(store, "different", a, b)
    add_fragments(store, [x for x in people(60, 8) if x.id.startswith("5")], RunOptions())
    assert not undo(store, 1).told["exact"]
    assert together(store, a, b)
    with Database(store) as database:
        assert not Store(database).pages.totals.constraints.decisions


def decisions_hold(store: str) -> None:
    with Database(store) as database:
        opened = Store(database)
        in_force = [one.decision for one in opened.decisions() if one.undone is None]
        assert list(opened.pages.totals.constraints.decisions) == in_force


@pytest.mark.slow
def test_nobody_writes_between_what_undo_reads_and_what_it_writes(
    store: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another decision in between made `exact` a lie, and went from the constraints."""
    a, b, c, d = (ids[0] for ids in list(content(store).values())[:4])
    decide_one(store, "same", a, b)
    refused = []

    def bring_back_after_another(*given: object) -> object:
        with pytest.raises(OutputError, match="another kbforge command is writing"):
            decide_one(store, "same", c, d)
        refused.append(True)
        return undo_exactly(*given)  # type: ignore[arg-type]

    undo_exactly = events.undo_exactly
    monkeypatch.setattr(events, "undo_exactly", bring_back_after_another)
    assert undo(store, 1).told["exact"]
    assert refused == [True]
    decide_one(store, "same", c, d)
    decisions_hold(store)
    assert any({c, d} <= set(ids) for ids in content(store).values())


def test_another_writer_without_the_lock_is_noticed(
    store: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a file system without locks each transaction makes sure of it."""
    a, b = (ids[0] for ids in list(content(store).values())[:2])
    decide_one(store, "same", a, b)
    read = Store.decisions

    def decisions_and_a_write(self: Store) -> object:
        found = read(self)
        with sqlite3.connect(store) as rows:
            rows.execute("DELETE FROM erased")
        return found

    monkeypatch.setattr(Store, "decisions", decisions_and_a_write)
    before = dump(store)
    with pytest.raises(OutputError, match="another program has written to it"):
        undo(store, 1)
    monkeypatch.undo()
    assert [x for x in dump(store) if not x.startswith("erased")] == [
        x for x in before if not x.startswith("erased")
    ]


def test_ids_that_an_exact_undo_takes_away_lead_on(store: str) -> None:
    before = content(store)
    a, b = several(store)
    decide_one(store, "different", a, b)
    new = {id: ids for id, ids in content(store).items() if id not in before}
    assert new
    assert undo(store, 1).told["exact"]
    with Database(store) as database:
        opened = Store(database)
        for id, ids in new.items():
            assert set(ids) <= {one for e in opened.now(id) for one in before[e]}
        told = {change.entity: change for change in changes(opened, 2)}
        for id in new:
            assert told[id].others == opened.now(id)


@pytest.mark.slow
def test_ids_lead_on_that_one_run_gave_and_took(store: str) -> None:
    """Each answer of a review is written, so its ids were there to be seen."""
    shown: dict[str, tuple[str, ...]] = {}
    with reviewed(store) as review:
        for _ in range(12):
            shown |= content(store)
            evidence = review.question()
            if evidence is None:
                break
            review.answer(evidence, True)
            shown |= content(store)
            review.undo()
            review.answer(evidence, False)
        shown |= content(store)
        while review.undo():
            shown |= content(store)
    now = content(store)
    assert set(shown) - set(now)
    with Database(store) as database:
        opened = Store(database)
        for id in shown:
            assert set(opened.now(id)) <= set(now)


def test_a_revision_never_makes_it_less_probable(store: str) -> None:
    some = [ids[0] for ids in content(store).values()][:15]
    done = revisit(store, passes=2, ids=some)
    assert done.told["gain"] >= 0
    assert done.told["complete"]


@pytest.mark.slow
def test_learning_again_makes_it_no_worse_and_clears_the_drift(store: str) -> None:
    others = [replace(x, id=f"n{x.id}", label=f"n{x.label}") for x in people(200, 77)]
    add_fragments(store, others, RunOptions())
    assert status_of(store).refit_is_worth_it
    before = f1(store, others)
    done = refit(store)
    after = status_of(store)
    assert done.fragments == after.fragments == after.learned_from
    assert (after.came_since, after.drift, after.refit_is_worth_it) == (0, 0.0, False)
    assert f1(store, others) >= before
    add_fragments(store, [replace(x, id=f"m{x.id}") for x in people(5, 78)], RunOptions())


def test_new_fragments_find_their_entities_after_learning_again(store: str) -> None:
    before = content(store)
    entity = max(before, key=lambda id: len(before[id]))
    known = next(x for x in PEOPLE if x.id == before[entity][0])
    remove(store, [x.id for x in PEOPLE[:5] if x.id not in before[entity]])
    refit(store)
    with Database(store) as database:
        pages = Store(database).pages
        postings = pages.postings(pages.keys())
        assert postings
        families = [family for one in postings.values() for family in one.families]
        assert set(families) == set(pages.homes(families))
    add_fragments(store, [replace(known, id="new")], RunOptions())
    assert any({known.id, "new"} <= set(ids) for ids in content(store).values())


def test_erased_bytes_are_in_no_file(tmp_path: Path) -> None:
    path = str(tmp_path / "kb.sqlite")
    secret = Fragment("id-verysecret", {"name": ("zyxwv verysecret",), "born": ("1955-05-05",)})
    twin = Fragment("twin", {"name": ("zyxwv verysecre",), "born": ("1955-05-05",)})
    add_fragments(path, [*people(40, 2), secret, twin], RunOptions(likelihood="attributes"))
    decide(path, decisions_of([("same", secret.id, twin.id)]))
    add_fragments(path, [x for x in people(45, 2) if x.id.startswith("44")], RunOptions())
    done = erase(path, [secret.id])
    assert done.told["removed"] == 1
    for file in tmp_path.iterdir():
        assert b"verysecret" not in file.read_bytes(), file.name
    assert not any(secret.id in ids for ids in content(path).values())
    add_fragments(path, [x for x in people(50, 2) if x.id.startswith("49")], RunOptions())


def test_changes_lead_from_one_state_to_the_other(store: str) -> None:
    states = [content(store)]
    add_fragments(store, unknown(people(90, 8)), RunOptions())
    states.append(content(store))
    a, b = several(store)
    decide_one(store, "different", a, b)
    states.append(content(store))
    remove(store, [ids[0] for ids in states[-1].values()][:9])
    states.append(content(store))
    undo(store, 1)
    states.append(content(store))
    with Database(store) as database:
        opened = Store(database)
        for since, before in enumerate(states, 1):
            now = {id: set(ids) for id, ids in before.items()}
            for change in changes(opened, since):
                assert now.get(change.entity, set()) == set(change.before)
                if change.after:
                    now[change.entity] = set(change.after)
                    wanted = Kind.CHANGED if change.before else Kind.CREATED
                    assert change.kind == wanted
                else:
                    del now[change.entity]
                    assert change.kind in (Kind.MERGED, Kind.SPLIT, Kind.REMOVED)
            assert now == {id: set(ids) for id, ids in states[-1].items()}
        assert {c.entity for c in changes(opened, 0)} == set(states[-1])
        with pytest.raises(UsageError, match="--since"):
            list(changes(opened, 99))


def test_old_ids_lead_to_who_has_the_fragments(store: str) -> None:
    before = content(store)
    one, other = [id for id, ids in before.items() if len(ids) > 1][:2]
    decide_one(store, "same", before[one][0], before[other][0])
    now = content(store)
    with Database(store) as database:
        opened = Store(database)
        for entity, ids in before.items():
            held = {id for id, members in now.items() if set(members) & set(ids)}
            assert set(opened.now(entity)) <= held
            assert opened.now(entity)
        with pytest.raises(UsageError, match="never had an entity"):
            opened.now("e-nothing")


def test_a_command_that_changed_nothing_is_no_run(store: str) -> None:
    a, b = several(store)
    with pytest.raises(UsageError, match="no fragment"):
        decide_one(store, "same", a, "nobody")
    decide_one(store, "same", a, b)
    told = [(run.verb, run.about) for run in status_of(store).runs]
    assert [verb for verb, _ in told] == ["cluster", "decide"]
    assert "nobody" not in told[1][1]


def test_what_cannot_be_begun_leaves_no_file(tmp_path: Path) -> None:
    with pytest.raises(KBForgeError, match="no fragments"):
        add_fragments(str(tmp_path / "kb.sqlite"), [], RunOptions())
    assert list(tmp_path.iterdir()) == []


def test_erased_ids_are_not_told_by_runs(tmp_path: Path) -> None:
    path = str(tmp_path / "kb.sqlite")
    odd = [Fragment(f"id\n{k} " + "long" * 40, {"name": (f"zyx {k}",)}) for k in range(2)]
    add_fragments(path, [*people(20, 2), *odd], RunOptions(likelihood="attributes"))
    decide(path, decisions_of([("same", odd[0].id, odd[1].id)]))
    erase(path, [odd[0].id])
    assert not any("long" in run.about for run in status_of(path).runs)


def person(id: str, **said: str) -> Fragment:
    return Fragment(id, {attribute: (value,) for attribute, value in said.items()})


ANNA = {"name": "anna karenina", "born": "1928-03-14", "town": "tverskaja"}
BORIS = {"name": "boris godunov", "born": "1911-11-02", "town": "novgorod"}


@pytest.fixture
def living(tmp_path: Path) -> str:
    """A store with Anna twice, Boris once, and others."""
    path = str(tmp_path / "kb.sqlite")
    held = [person("anna-1", **ANNA), person("anna-2", **ANNA), person("boris-1", **BORIS)]
    add_fragments(path, [*people(60, 3), *held], RunOptions(likelihood="attributes", alpha=50.0))
    return path


def holding(store: str, fragment: str) -> Entity:
    return next(entity for entity in entities_of(store) if fragment in entity.fragments)


def test_a_new_record_joins_an_entity(living: str) -> None:
    before = content(living)
    entity = holding(living, "anna-1").id
    add_fragments(living, [person("anna-3", **ANNA)], RunOptions())
    assert content(living) == {**before, entity: ("anna-1", "anna-2", "anna-3")}


def test_a_new_record_opens_an_entity(living: str) -> None:
    before = content(living)
    vera = person("vera-1", name="vera pavlovna", born="1877-11-30", town="kasan")
    add_fragments(living, [vera], RunOptions())
    opened = holding(living, "vera-1")
    assert opened.id not in before
    assert content(living) == {**before, opened.id: ("vera-1",)}


def test_a_bridge_makes_two_entities_one(tmp_path: Path) -> None:
    path = str(tmp_path / "kb.sqlite")
    by_name = person("name-1", name="stepan oblonsky")
    by_birth = person("born-1", born="1901-05-06", town="moskau arbat")
    others = people(60, 3)
    add_fragments(
        path, [*others, by_name, by_birth], RunOptions(likelihood="attributes", alpha=50.0)
    )
    one, other = holding(path, "name-1").id, holding(path, "born-1").id
    assert one != other
    bridges = [
        person(f"bridge-{k}", name="stepan oblonsky", born="1901-05-06", town="moskau arbat")
        for k in range(2)
    ]
    add_fragments(path, bridges, RunOptions())
    merged = holding(path, "name-1")
    assert set(merged.fragments) == {"name-1", "born-1", "bridge-0", "bridge-1"}
    assert merged.id in (one, other)


def test_a_corrected_record_no_longer_belongs_and_its_entity_splits(living: str) -> None:
    before = content(living)
    entity = holding(living, "anna-1").id
    add_fragments(living, [person("anna-2", **BORIS)], RunOptions(), on_duplicate="replace")
    boris = holding(living, "boris-1").id
    now = {**before, entity: ("anna-1",), boris: ("anna-2", "boris-1")}
    assert content(living) == now


def test_a_reverted_correction_leaves_all_as_before(living: str) -> None:
    before = [entity.to_json() for entity in entities_of(living)]
    other = person("anna-1", **BORIS)
    add_fragments(living, [other], RunOptions(), on_duplicate="replace")
    assert content(living) != {one["id"]: tuple(one["fragments"]) for one in before}
    add_fragments(living, [person("anna-1", **ANNA)], RunOptions(), on_duplicate="replace")
    after = [entity.to_json() for entity in entities_of(living)]
    for one, other in zip(before, after, strict=True):
        # a subproblem that was one with another and is by itself again is weighed anew
        for figure in ("confidence", "reported"):
            assert one.pop(figure, None) == pytest.approx(other.pop(figure, None))
        for here, there in zip(
            one.pop("alternatives", ()), other.pop("alternatives", ()), strict=True
        ):
            assert here.pop("probability") == pytest.approx(there.pop("probability"))
            assert here == there
        assert one == other

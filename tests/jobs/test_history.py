"""What changed between two runs, against groupings compared by the definition."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kbforge.contracts import Change, Kind
from kbforge.errors import UsageError
from kbforge.fit.choices import RunOptions
from kbforge.jobs.decide import decide, decisions_of, undo
from kbforge.jobs.history import Regrouping, RegroupingKind, StoreHistory, _regroupings, between
from kbforge.jobs.remove import erase, remove
from kbforge.jobs.update import add_fragments
from kbforge.jobs.views import entities_of
from kbforge.store.changes import changes
from kbforge.store.database import Database
from kbforge.store.store import Store
from tests.people import people
from tests.program import Run
from tests.regroupings import States, compared, told

PEOPLE = people(40, 5, error=0.5)


def state(path: str) -> dict[str, set[str]]:
    """The entities of a store."""
    return {entity.id: {*entity.fragments} for entity in entities_of(path)}


@pytest.fixture
def history(tmp_path: Path) -> tuple[str, list[States]]:
    """A store, and its entities before its first run and after each."""
    path, states = str(tmp_path / "kb.sqlite"), list[States]([{}])
    add_fragments(path, PEOPLE[:60], RunOptions(likelihood="attributes"))
    states.append(state(path))
    add_fragments(path, PEOPLE, RunOptions())
    states.append(state(path))
    a, b = next(sorted(ids)[:2] for ids in states[-1].values() if len(ids) > 1)
    decide(path, decisions_of([("different", a, b)]))
    states.append(state(path))
    first, second = (min(ids) for ids in list(states[-1].values())[:2])
    decide(path, decisions_of([("same", first, second)]))
    states.append(state(path))
    remove(path, [min(ids) for ids in list(states[-1].values())[3:9]])
    states.append(state(path))
    undo(path, 1)
    states.append(state(path))
    return path, states


def of(path: str, first: int, second: int, most: int | None = None) -> StoreHistory:
    """What changed in the store at a path."""
    with Database(path) as database:
        return between(Store(database), first, second, most)


def test_any_two_runs_are_compared_as_their_groupings_are(
    history: tuple[str, list[States]],
) -> None:
    path, states = history
    kinds = set[str]()
    for second, after in enumerate(states):
        for first, before in enumerate(states[: second + 1]):
            found = of(path, first, second)
            assert told(found) == compared(before, after), (first, second)
            assert found.entities == (len(before), len(after))
            assert found.to_json()["unchanged"] == found.unchanged
            kinds.update(found.to_json()["kinds"])
    assert {"created", "merged", "parted", "changed"} <= kinds


def test_the_past_of_erased_fragments_is_gone(history: tuple[str, list[States]]) -> None:
    path, states = history
    gone = {max(ids) for ids in list(states[-1].values())[:5]}
    erase(path, sorted(gone))
    kept = [{e: ids - gone for e, ids in one.items() if ids - gone} for one in states]
    for second, after in enumerate(kept):
        for first, before in enumerate(kept[: second + 1]):
            assert told(of(path, first, second)) == compared(before, after), (first, second)


def test_only_the_largest_of_a_kind_are_kept(history: tuple[str, list[States]]) -> None:
    path, states = history
    found = of(path, 0, 1, most=3)
    assert found.kinds == {RegroupingKind.CREATED: len(states[1])}
    assert found.fragments == {RegroupingKind.CREATED: 60}
    sizes = [one.size for one in found.regroupings]
    assert sizes == sorted(map(len, states[1].values()), reverse=True)[:3]


def test_what_is_no_run_is_refused(history: tuple[str, list[States]]) -> None:
    path, states = history
    for first, second in ((-1, 2), (0, len(states)), (3, 2)):
        with pytest.raises(UsageError, match="expected the number of a run from"):
            of(path, first, second)


def test_the_command_line_lists_changes_up_to_a_run(
    history: tuple[str, list[States]], program: Run
) -> None:
    path, states = history
    for since, to in ((0, 2), (1, 2), (2, 4)):
        lines = program("changes", path, "--since", since, "--to", to).lines
        before, after = states[since], states[to]
        changed = {e for e in {*before, *after} if before.get(e) != after.get(e)}
        assert {line["entity"] for line in lines} == changed
        for line in lines:
            assert set(line["after"]) == after.get(line["entity"], set())
            assert set(line["before"]) == before.get(line["entity"], set())
            assert set(line["others"]) <= {*before, *after}
    refused = program("changes", path, "--since", 3, "--to", 2)
    refused.require_refusal(
        f"--to: expected the number of a run from 3 to {len(states) - 1}, got 2"
    )


@pytest.mark.slow
def test_a_store_that_is_read_while_it_is_written_has_one_history(
    history: tuple[str, list[States]],
) -> None:
    """The last run is part of `changes` without an end, and equals that with it."""
    path, states = history
    last = len(states) - 1
    with Database(path) as database:
        opened = Store(database)
        assert list(changes(opened, 1)) == list(changes(opened, 1, last))


GROUPS = st.lists(st.integers(0, 5), min_size=9, max_size=9)


@given(GROUPS, GROUPS)
def test_changes_are_connected_as_the_definition_says(first: list[int], second: list[int]) -> None:
    """Fragments in group 0 are in no entity; ids are shared, whoever has the fragments."""
    before, after = dict[str, set[str]](), dict[str, set[str]]()
    for groups, side in ((first, before), (second, after)):
        for fragment, group in enumerate(groups):
            if group:
                side.setdefault(f"e{group}", set()).add(f"f{fragment}")
    held = {id: entity for entity, ids in before.items() for id in ids}
    changed = [
        Change(
            entity,
            Kind.CHANGED,
            tuple(sorted(before.get(entity, ()))),
            tuple(sorted(now := after.get(entity, set()))),
            tuple({held[id] for id in now if id in held}),
        )
        for entity in sorted({*before, *after})
        if before.get(entity) != after.get(entity)
    ]
    found = [one for one in _regroupings(changed) if not is_same(one)]
    history = StoreHistory(0, 0, (0, 0), 0, {}, {}, tuple(found))
    assert told(history)[1] == compared(before, after)[1]


def is_same(one: Regrouping) -> bool:
    """Whether the fragments are grouped as before, under other ids."""
    return sorted(map(sorted, one.before.values())) == sorted(map(sorted, one.after.values()))

"""Whatever happens to a store in whatever order, what it says fits together."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TypeAlias

import numpy as np
import pytest
from hypothesis import HealthCheck
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from kbforge.contracts import Change
from kbforge.errors import ContradictionError, NotFoundError
from kbforge.fit.choices import RunOptions
from kbforge.jobs.decide import decide, decisions_of, undo
from kbforge.jobs.history import between
from kbforge.jobs.refit import revisit
from kbforge.jobs.remove import erase, remove
from kbforge.jobs.update import add_fragments
from kbforge.jobs.views import store_view
from kbforge.kb.relations import Relations, trusted
from kbforge.store.changes import changes
from kbforge.store.database import Database
from kbforge.store.store import Store
from kbforge.texts import normalised
from tests.people import people
from tests.profile import examples
from tests.regroupings import compared, told
from tests.soak.events import require_consistent

NAMES = [fragment.properties.get("name", ("Nobody",)) for fragment in people(12, 8)]
PEOPLE = [
    replace(x, properties={**x.properties, "knows": NAMES[-1 - at]}, source=f"s{at % 5}")
    for at, x in enumerate(people(12, 8))
]
IDS = [fragment.id for fragment in PEOPLE]
PLACES = st.integers(0, 1000)
OPTIONS = RunOptions(likelihood="attributes", alpha=10.0, refers="knows")


Links: TypeAlias = dict[tuple[str, str], str | None]
"""The entity that a value of an entity means."""


def links_of(store: Store) -> Links:
    """Those that the formula gives to all fragments, computed afresh, which the store has, too."""
    numbers = store.pages.numbers([fragment.id for fragment in store.fragments()])
    holders = {number: store.entity_of(number) for number in sorted(numbers.values())}
    held = store.pages.fragments(list(holders))
    firsts = np.array([min(members) for _, members in holders.values()])
    found = Relations.of([held[number] for number in holders], firsts, "knows")
    expected: dict[tuple[str, str], list[tuple[str, float]]] = {}
    if found is not None:
        ids = {min(members): id for id, members in holders.values()}
        keys = dict(zip(found.keys.values(), found.keys, strict=True))
        for code, *ranked in zip(*(column.tolist() for column in found.meanings), strict=True):
            own, key = divmod(code, len(keys))
            expected[ids[own], keys[key]] = [
                (ids[meant], probability)
                for meant, probability in (ranked[:2], ranked[2:])
                if meant >= 0
            ]
    links: Links = {}
    entities = list(store_view(store).entities())
    assert all(entity.reported is not None for entity in entities)  # calibrated
    trust = {entity.id: float(trusted(np.array(entity.confidence))) for entity in entities}
    for entity in entities:
        for value in entity.properties["knows"]:
            meant = expected.get((entity.id, normalised(value.value)), [])
            assert [one.entity for one in value.meanings] == [id for id, _ in meant]
            for one, (id, probability) in zip(value.meanings, meant, strict=True):
                assert one.probability == pytest.approx(probability * trust[id], abs=1e-4)
            links[entity.id, normalised(value.value)] = value.entity
    return links


def require_told(before: Links, now: Links, changed: Mapping[str, Change]) -> None:
    """Who asks again for what the feed tells, and for what links to entities that lost fragments,
    has the links of now."""
    again = {*changed}.union(*(change.relinked for change in changed.values()))
    lost = {id for id, change in changed.items() if not {*change.before} <= {*change.after}}
    again |= {entity for (entity, _), meant in before.items() if meant in lost}
    for place in before.keys() | now.keys():
        assert before.get(place) == now.get(place) or place[0] in again, place


class Events(RuleBasedStateMachine):
    """A store, and the entities that were seen after each run."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.path = str(Path(self.folder.name, "kb.sqlite"))
        self.seen: dict[int, dict[str, set[str]]] = {}
        self.links: dict[int, Links] = {}
        self.came: dict[str, int] = {}  # by fragment, the run that added it last
        self.removed = self.erased = False

    def teardown(self) -> None:
        self.folder.cleanup()

    @initialize()
    def begin(self) -> None:
        add_fragments(self.path, PEOPLE[:12], OPTIONS)

    @property
    def here(self) -> list[str]:
        with Database(self.path) as database:
            return [fragment.id for fragment in Store(database).fragments()]

    @rule(at=PLACES, count=st.integers(1, 6))
    def add(self, at: int, count: int) -> None:
        start = at % len(PEOPLE)
        before = {*self.here}
        add_fragments(self.path, PEOPLE[start : start + count], RunOptions())
        with Database(self.path) as database:
            run = Store(database).position
        self.came |= dict.fromkeys({*self.here} - before, run)

    @precondition(lambda self: len(self.here) > 4)
    @rule(same=st.booleans(), a=PLACES, b=PLACES)
    def say(self, same: bool, a: int, b: int) -> None:
        ids = self.here
        first, second = ids[a % len(ids)], ids[b % len(ids)]
        if first != second:
            with contextlib.suppress(ContradictionError):
                decide(self.path, decisions_of([("same" if same else "different", first, second)]))

    @rule(at=PLACES)
    def take_back(self, at: int) -> None:
        with Database(self.path) as database:
            numbers = [one.number for one in Store(database).decisions()]
        if numbers:
            undo(self.path, numbers[-1 - at % len(numbers)])

    @precondition(lambda self: len(self.here) > 6)
    @rule(at=PLACES, secure=st.booleans())
    def take_out(self, at: int, secure: bool) -> None:
        id = self.here[at % len(self.here)]
        (erase if secure else remove)(self.path, [id])
        self.removed, self.erased = True, self.erased or secure

    @rule()
    def search(self) -> None:
        revisit(self.path)

    @invariant()
    def it_fits_together(self) -> None:
        if not Path(self.path).exists():
            return
        with Database(self.path) as database:
            store = Store(database)
            require_consistent(store)
            last = store.last_run
            assert last is not None
            assert last.finished
            here = {fragment.id for fragment in store.fragments()}
            now: dict[str, set[str]] = {}
            for number in store.pages.numbers(sorted(here)).values():
                entity, held = store.entity_of(number)
                now[entity] = {x.id for x in store.pages.fragments(list(held)).values()}
            self.seen[last.number] = now
            self.links[last.number] = links = links_of(store)
            if not self.erased:
                for run, before in self.seen.items():
                    assert told(between(store, run, last.number)) == compared(before, now), run
            for run, before in self.seen.items():
                for entity in before:
                    # an id leads nowhere when the last fragments that it had were removed
                    with contextlib.suppress(*([NotFoundError] if self.removed else [])):
                        assert set(store.now(entity)) <= set(now), (run, entity)
                if not self.erased:
                    changed = {change.entity: change for change in changes(store, run)}
                    require_told(self.links[run], links, changed)
                    for entity in {*before, *now}:
                        was, held_now = before.get(entity, set()), now.get(entity, set())
                        # a fragment that was taken out and came back may say something else
                        back = any(self.came.get(id, 0) > run for id in was & held_now)
                        assert (entity in changed) == (was != held_now or back), (run, entity)
                        if entity in changed:
                            assert set(changed[entity].before) == was


TestEvents = Events.TestCase
TestEvents.settings = examples(
    12,
    stateful_step_count=10,
    suppress_health_check=list(HealthCheck),
)

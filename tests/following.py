"""A program that follows a knowledge base by its change feed, and events for it to hear of."""

from __future__ import annotations

import contextlib
import hashlib
import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

from kbforge.contracts import Fragment
from kbforge.errors import ContradictionError
from kbforge.fit.choices import RunOptions
from kbforge.jobs.decide import decide, decisions_of, undo
from kbforge.jobs.refit import refit, revisit
from kbforge.jobs.remove import erase, remove
from kbforge.jobs.update import add_fragments
from kbforge.store.database import Database
from kbforge.store.store import Store

Content: TypeAlias = dict[str, dict[str, bytes]]
"""By entity and fragment what a fragment says, as a line of JSON."""
Read: TypeAlias = Callable[[Sequence[str]], Mapping[str, bytes]]
"""The lines of fragments by id."""


class Follower:
    """A copy of a knowledge base that knows nothing but what the feed says.

    Attributes:
        at: the run that it has heard of.
        entities: its copy.

    """

    def __init__(self) -> None:
        self.at = 0
        self.entities: Content = {}

    def hear(self, answer: Mapping[str, Any], read: Read) -> None:
        """Apply an answer of `kbforge changes --json` or `GET /api/changes`."""
        assert answer["from"] == self.at
        for change in answer["changes"]:
            if change["after"]:
                lines = read(change["after"])
                held = {id: lines[id] for id in change["after"] if id in lines}
                self.entities[change["entity"]] = held
                continue
            gone = change["entity"]
            # a known entity that was erased is told by a digest of its id
            digests = (id for id in self.entities if digest(id) == gone)
            self.entities.pop(gone if gone in self.entities else next(digests, gone), None)
        if answer.get("after") is None:
            self.at = answer["to"]


def digest(id: str) -> str:
    """What the feed calls an entity of an authority that was erased."""
    return f"e-{hashlib.blake2b(id.encode(), digest_size=32).hexdigest()[:12]}"


def lines_of(path: str) -> Read:
    """What fragments of a store say now."""

    def read(ids: Sequence[str]) -> Mapping[str, bytes]:
        with Database(path) as database:
            return dict(Store(database).lines(ids))

    return read


def content(path: str) -> tuple[int, Content]:
    """The last run of a store that has ended, and its entities."""
    with Database(path) as database, database.snapshot():
        store = Store(database)
        lines = {x.id: line for x in store.fragments() for _, line in store.lines([x.id])}
        rows = database.connection.execute("SELECT id FROM entity")
        ids = [id for (id,) in rows.fetchall()]
        return store.position, {e: {id: lines[id] for id in held} for e, held in store.members(ids)}


class Happenings:
    """Random events of a store, by the functions of the verbs."""

    def __init__(self, path: str, coming: Sequence[Fragment], seed: int) -> None:
        self.path, self.coming, self.rng = path, list(coming), random.Random(seed)
        self.counts: dict[str, int] = {}

    def happen(self) -> str:
        """Have one event happen that can; returns which."""
        verbs = {
            self.add: 6,
            self.replace_some: 3,
            self.remove_some: 3,
            self.erase_some: 4,
            self.erase_entity: 3,
            self.decide: 6,
            self.undo: 4,
            self.refit: 1,
            self.revisit: 1,
        }
        (verb,) = self.rng.choices(list(verbs), list(verbs.values()))
        verb()
        self.counts[verb.__name__] = self.counts.get(verb.__name__, 0) + 1
        return verb.__name__

    @property
    def here(self) -> Content:
        return content(self.path)[1]

    def some(self, most: int) -> list[str]:
        """The ids of some fragments."""
        ids = sorted(id for held in self.here.values() for id in held)
        return self.rng.sample(ids, min(max(len(ids) - 8, 0), self.rng.randint(1, most)))

    def add(self) -> None:
        self.rng.shuffle(self.coming)
        add_fragments(self.path, self.coming[: self.rng.randint(1, 6)], RunOptions(), "replace")

    def replace_some(self) -> None:
        with Database(self.path) as database:
            pages = Store(database).pages
            numbers = pages.numbers(self.some(2))
            held = list(pages.fragments(list(numbers.values())).values())
        town = f"town {self.rng.random()}"
        new = [replace(x, properties={**x.properties, "town": (town,)}) for x in held]
        add_fragments(self.path, [x for x in new if x.known is None], RunOptions(), "replace")

    def remove_some(self) -> None:
        remove(self.path, self.some(2))

    def erase_some(self) -> None:
        erase(self.path, self.some(2))

    def erase_entity(self) -> None:
        """All fragments of an entity, some of which may have been removed before."""
        held = sorted(self.here.items())
        ids = sorted(self.rng.choice(held)[1])
        if len(ids) + 8 < sum(len(own) for _, own in held):
            if self.rng.random() < 0.5:
                remove(self.path, ids[:1])
            erase(self.path, ids)

    def decide(self) -> None:
        first, second = self.rng.sample(sorted(id for x in self.here.values() for id in x), 2)
        said = self.rng.choice(["same", "different"])
        with contextlib.suppress(ContradictionError):
            decide(self.path, decisions_of([(said, first, second)]))

    def undo(self) -> None:
        with Database(self.path) as database:
            numbers = [x.number for x in Store(database).decisions() if x.undone is None]
        if numbers:
            undo(self.path, self.rng.choice([numbers[-1], self.rng.choice(numbers)]))

    def refit(self) -> None:
        refit(self.path)

    def revisit(self) -> None:
        revisit(self.path)


def differences(one: Content, other: Content) -> Iterable[str]:
    """Entities that are not the same in both."""
    return sorted(id for id in {*one, *other} if one.get(id) != other.get(id))

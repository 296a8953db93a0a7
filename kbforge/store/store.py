"""A store to read: facts, runs, decisions, fitted models, fragments, and the changes of runs."""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Collection, Iterator, Sequence
from typing import Any

import orjson

from kbforge.contracts import (
    Change,
    Cluster,
    Decision,
    DecisionRecord,
    Fragment,
    Kind,
    LearnedState,
    Provenance,
    Run,
)
from kbforge.contracts.fragment import is_of_source
from kbforge.errors import KBForgeError, UsageError, quoted
from kbforge.kb.read import made_from_json
from kbforge.store.database import Database
from kbforge.store.pages import (
    StoredPages,
    fragment_from_bytes,
    kept_from_bytes,
    kept_to_bytes,
    numbers_from_bytes,
)
from kbforge.store.rows import ask, damaged, read_rows, row_of, rows_of


class Store:
    """What a store says.

    Args:
        database: opened to read or to write.

    """

    def __init__(self, database: Database) -> None:
        self.database = database
        self.pages = StoredPages(database.connection)

    @property
    def _rows(self) -> sqlite3.Connection:
        return self.database.connection

    def fact(self, name: str, default: Any = None) -> Any:
        """A fact of the whole, as JSON has it."""
        row = row_of(self._rows, "meta", name)
        if row is None:
            return default
        try:
            return orjson.loads(row[1])
        except orjson.JSONDecodeError:
            damaged(self._rows, f"the fact {name}")

    @property
    def made(self) -> Provenance | None:
        """How the entities are made since the models learned; None if that version did not say."""
        told = self.fact("frozen", {}).get("made")
        return None if told is None else made_from_json(told, quoted(self.database.path, 400))

    @property
    def has_session(self) -> bool:
        """Whether anything was taken in."""
        return row_of(self._rows, "meta", "totals") is not None

    @property
    def has_stale(self) -> bool:
        """Whether entities changed since their confidence was told."""
        return bool(ask(self._rows, "SELECT 1 FROM stale LIMIT 1"))

    def require_made(self) -> None:
        """Refuse a store that has nothing, not even what was chosen for it.

        Raises:
            UsageError: nothing was put into it, or all was erased.

        """
        if self.database.version is None or self.fact("choices") is None:
            raise UsageError(
                f"{quoted(self.database.path, 400)} is empty: kbforge cluster --into fills a store"
            )

    def kept(self, digest: str) -> LearnedState:
        """What a model kept.

        Raises:
            KBForgeError: it is not there, or damaged.

        """
        row = row_of(self._rows, "kept", digest)
        if row is None or hashlib.sha256(row[1]).hexdigest() != digest:
            raise KBForgeError("the store is damaged: what a model kept is not as it was written")
        return kept_from_bytes(row[1])

    @property
    def n_fragments(self) -> int:
        """How many fragments there are."""
        return self._count("fragment")

    @property
    def n_entities(self) -> int:
        """How many entities there are."""
        return self._count("entity")

    def _count(self, table: str) -> int:
        found: int = ask(self._rows, f"SELECT count(*) FROM {table}")[0][0]
        return found

    def runs(self) -> list[Run]:
        """All runs, the first one first."""
        return [
            Run(number, verb, about, bool(finished), *others)
            for number, verb, about, finished, *others in read_rows(
                self._rows, "run", "ORDER BY number"
            )
        ]

    @property
    def last_run(self) -> Run | None:
        """The last run, if there was any."""
        runs = self.runs()
        return runs[-1] if runs else None

    def decisions(self) -> list[DecisionRecord]:
        """All decisions, the first one first."""
        return [
            DecisionRecord(
                number, Decision(bool(same), first, second, f"decision {number}"), run, undone
            )
            for number, same, first, second, run, undone in read_rows(
                self._rows, "decision", "ORDER BY number"
            )
        ]

    @property
    def next_decision(self) -> int:
        """The number of the next decision."""
        found = ask(self._rows, "SELECT max(number) FROM decision")[0][0]
        return 1 + (found or 0)

    def fragment(self, id: str) -> tuple[int, Fragment] | None:
        """The number and the content of the fragment with this id."""
        row = next(rows_of(self._rows, "fragment", "id", [id]), None)
        return None if row is None else (row[0], fragment_from_bytes(row[-1]))

    def fragments(self) -> Iterator[Fragment]:
        """All fragments, by place."""
        for *_, line in read_rows(self._rows, "fragment", "ORDER BY place"):
            yield fragment_from_bytes(line)

    def lines(self, ids: Sequence[str]) -> Iterator[tuple[str, bytes]]:
        """The lines of fragments by id; ids that none has are left out."""
        for _, id, *_, line in rows_of(self._rows, "fragment", "id", ids):
            yield id, line

    def of_source(self, source: str) -> list[str]:
        """The ids of all fragments from there, by number."""
        rows = read_rows(
            self._rows,
            "fragment",
            "WHERE source = ?1 OR (source > ?2 AND source < ?3) ORDER BY number",
            (source, f"{source}:", f"{source};"),
        )
        return [id for _, id, _, _, held, _ in rows if is_of_source(held, source)]

    def entity_of(self, number: int) -> tuple[str, Cluster]:
        """The entity that holds a fragment: its id and its fragments' numbers."""
        home = self.pages.homes([number]).get(number)
        for id, _, members in read_rows(self._rows, "entity", "WHERE subproblem = ?", (home,)):
            held = tuple(numbers_from_bytes(members).tolist())
            if number in held:
                return id, held
        raise KBForgeError(f"the store is damaged: no entity holds fragment number {number}")

    def holders(self, numbers: Sequence[int]) -> list[str]:
        """The entities that hold some fragments, the one with the most first."""
        counts: dict[str, int] = {}
        left = set(numbers)
        while left:
            entity, held = self.entity_of(min(left))
            counts[entity] = len(left & set(held))
            left -= set(held)
        return sorted(counts, key=lambda entity: (-counts[entity], entity))

    def had(self, ids: Collection[str], verb: str | None = None) -> set[str]:
        """Those of some ids that fragments had before runs; it reads all images.

        Args:
            ids: of fragments, which may be no more.
            verb: of the runs; None is of all.

        """
        wanted, found = set(ids), set[str]()
        if not wanted:
            return found
        verbs = {run.number: run.verb for run in self.runs()}
        for run, _, fragments in read_rows(self._rows, "image"):
            if verb is None or verbs.get(run) == verb:
                found |= wanted.intersection(orjson.loads(fragments))
        return found

    def now(self, entity: str) -> tuple[str, ...]:
        """The ids of the entities that have the fragments of one that was, through all redirects.

        Raises:
            UsageError: no entity has, or had, this id.

        """
        found: dict[str, None] = {}
        seen: set[str] = set()
        ahead = [entity]
        while ahead:
            id = ahead.pop(0)
            if id in seen:
                continue
            seen.add(id)
            if row_of(self._rows, "entity", id) is not None:
                found[id] = None
                continue
            row = row_of(self._rows, "redirect", id)
            ahead += [] if row is None else orjson.loads(row[1])
        if not found:
            raise UsageError(f'the knowledge base never had an entity "{quoted(entity)}"')
        return tuple(found)


def kept_row(kept: LearnedState) -> tuple[str, bytes]:
    """The digest and the content of what a model keeps."""
    content = kept_to_bytes(kept)
    return hashlib.sha256(content).hexdigest(), content


def changes(store: Store, since: int) -> Iterator[Change]:
    """How entities are other than they were when a run had ended, by id.

    Args:
        store: as it is now.
        since: the number of the run; 0 is the time before the first.

    Raises:
        UsageError: there is no such run.

    """
    runs = store.runs()
    if not 0 <= since <= len(runs):
        raise UsageError(
            f"--since: expected the number of a run from 0 to {len(runs)}, got {since}"
        )
    rows = store.database.connection
    with store.database.snapshot():
        if since == 0:
            for entity, *_ in list(read_rows(rows, "entity", "ORDER BY id")):
                yield Change(entity, Kind.CREATED, (), _members(store, entity), ())
            return
        found: dict[str, bytes] = {}
        for _, entity, fragments in read_rows(
            rows, "image", "WHERE run > ? ORDER BY run", (since,)
        ):
            found.setdefault(entity, fragments)
        before = {entity: tuple(orjson.loads(found[entity])) for entity in sorted(found)}
        held = {id: entity for entity, ids in before.items() for id in ids}
        for entity, ids in before.items():
            change = _change(store, entity, ids, held)
            if change is not None:
                yield change


def _change(
    store: Store, entity: str, before: Sequence[str], held: dict[str, str]
) -> Change | None:
    """What became of an entity that a run touched; None if it is as it was, or never was."""
    after = _members(store, entity)
    if set(after) == set(before):
        return None
    if after:
        others = dict.fromkeys(held[id] for id in after if held.get(id, entity) != entity)
        kind = Kind.CHANGED if before else Kind.CREATED
        return Change(entity, kind, tuple(before), after, tuple(others))
    now: dict[str, int] = {}
    for id, number in store.pages.numbers(before).items():
        assert id in before
        holder = store.entity_of(number)[0]
        now[holder] = now.get(holder, 0) + 1
    if not now:
        return Change(entity, Kind.REMOVED, tuple(before), (), ())
    parts = sorted(now, key=lambda other: (-now[other], other))
    kind = Kind.MERGED if 2 * now[parts[0]] > sum(now.values()) else Kind.SPLIT
    return Change(entity, kind, tuple(before), (), tuple(parts))


def _members(store: Store, entity: str) -> tuple[str, ...]:
    """The ids of an entity's fragments, by place; none if it is no more."""
    rows = store.database.connection
    row = row_of(rows, "entity", entity)
    if row is None:
        return ()
    numbers = numbers_from_bytes(row[-1]).tolist()
    held = rows_of(rows, "fragment", "number", numbers)
    return tuple(id for _, id in sorted((place, id) for _, id, place, *_ in held))

"""The pages of a session, as a store has them: read when they are asked for."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence
from typing import Any

import orjson

from kbforge.contracts import Constraints, Decision, Fragment, Led, Page, Pages, Totals
from kbforge.contracts.fragment import Shared
from kbforge.errors import KBForgeError, quoted
from kbforge.store.codec import numbers_from_bytes, numbers_to_bytes, page_from_bytes
from kbforge.store.rows import ask, row_of, rows_of


class StoredPages(Pages):
    """See `kbforge.contracts.Pages`; it reads what the last transaction wrote.

    Args:
        database: a store with a session in it.

    """

    def __init__(self, database: sqlite3.Connection) -> None:
        self._database = database

    @property
    def totals(self) -> Totals:
        row = row_of(self._database, "meta", "totals")
        if row is None:
            raise KBForgeError("the store is damaged: it lacks the totals of its session")
        return totals_from_bytes(row[1])

    def page(self, name: int) -> Page:
        row = row_of(self._database, "page", name)
        if row is None:
            raise KeyError(name)
        return page_from_bytes(name, row[-1])

    def names(self) -> Sequence[int]:
        return [name for (name,) in ask(self._database, "SELECT name FROM page ORDER BY name")]

    def fragments(self, numbers: Sequence[int]) -> Mapping[int, Fragment]:
        rows = rows_of(self._database, "fragment", "number", numbers)
        return {number: fragment_from_bytes(line) for number, *_, line in rows}

    def numbers(self, ids: Sequence[str]) -> Mapping[str, int]:
        return {id: n for n, id, *_ in rows_of(self._database, "fragment", "id", ids)}

    def homes(self, numbers: Sequence[int]) -> Mapping[int, int]:
        rows = rows_of(self._database, "fragment", "number", numbers)
        return {number: subproblem for number, _, _, subproblem, *_ in rows}

    def led(self, keys: Sequence[int]) -> Mapping[int, Led]:
        return {
            key: Led(tuple(numbers_from_bytes(families).tolist()), bool(closed))
            for key, closed, families in rows_of(self._database, "led", "key", keys)
        }

    def keys(self) -> Sequence[int]:
        return [key for (key,) in ask(self._database, "SELECT key FROM led ORDER BY key")]


def fragment_from_bytes(line: bytes, shared: Shared | None = None) -> Fragment:
    """A fragment as the store has it.

    Args:
        line: of the store.
        shared: of the fragments before this one; None shares nothing.

    Raises:
        KBForgeError: it is damaged.

    """
    return Fragment.from_json(orjson.loads(line), "the store", shared)


def totals_to_bytes(totals: Totals) -> bytes:
    """Totals as a line of JSON with the free slots behind it."""
    head = orjson.dumps(
        {
            "settings": dict(totals.settings),
            "link": totals.constraints.link,
            "decisions": [
                [each.same, each.first, each.second, each.name]
                for each in totals.constraints.decisions
            ],
            "n_fragments": totals.n_fragments,
            "n_numbers": totals.n_numbers,
            "n_slots": totals.n_slots,
            "n_subproblems": totals.n_subproblems,
            "log10_effective_particles": totals.log10_effective_particles,
            "evaluations": totals.evaluations,
            "rng": _plain(totals.rng),
        }
    )
    return head + b"\n" + numbers_to_bytes(totals.free)


def totals_from_bytes(content: bytes) -> Totals:
    """As `totals_to_bytes` made them.

    Raises:
        KBForgeError: they are damaged.

    """
    head, _, free = content.partition(b"\n")
    try:
        told = orjson.loads(head)
        link, decisions = told.pop("link"), told.pop("decisions")
        constraints = Constraints(tuple(Decision(*each) for each in decisions), link)
        rng = _unplain(told.pop("rng"))
        return Totals(constraints=constraints, rng=rng, free=numbers_from_bytes(free), **told)
    except (ValueError, KeyError, TypeError) as error:
        raise KBForgeError(
            f"the store is damaged: the totals of its session are not as they were written "
            f"({quoted(error)})"
        ) from None


def _plain(value: Any) -> Any:
    """Numbers of any size as text: those of a bit generator are larger than JSON's."""
    if isinstance(value, Mapping):
        return {key: _plain(one) for key, one in value.items()}
    return str(value) if isinstance(value, int) else [value]


def _unplain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _unplain(one) for key, one in value.items()}
    return int(value) if isinstance(value, str) else value[0]

"""What a store's values mean: links are a function of its mentions and entities, never stored.

A *mention* is a name of a fragment, or a value of an attribute that refers
(`kbforge.kb.relations`). The table `mention` has, under the digest of an attribute ("" for names)
and a folded text, the numbers of the fragments that state it, each with the digest of its text unit
(-1 without one). It changes in the transaction in which fragments come and go. A merge or a parting
changes no mention.

So a link cannot lead to an entity that does not exist: to read the links of some entities, the
names that they state are looked up, and the entities that hold the fragments of these names vote.
An entity's number is that of its first fragment.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from kbforge.contracts import Fragment, IntArray
from kbforge.files.columns import sources_of, statements_of
from kbforge.kb.relations import (
    DIGITS,
    LARGEST_UNIT,
    Meanings,
    Mentions,
    Relations,
    folded_in,
    meanings_of,
    names_in,
    stated_in,
)
from kbforge.numerics import at_numbers
from kbforge.store.pages import StoredPages, numbers_from_bytes, numbers_to_bytes
from kbforge.store.tables import ask, damaged, rows_of, write_rows
from kbforge.texts import LARGEST, digests_of

REFERS = "refers"
"""The fact which attributes refer; stores of a version before 3 lack it until they learn again."""
_FIRST_AT_ONCE, _AT_ONCE = 16, 400  # fragments whose entities are looked up together
_MOST_KEPT = 1 << 20  # mentions that a reader keeps in memory


def add_mentions(
    rows: sqlite3.Connection,
    attributes: Sequence[str],
    fragments: Sequence[Fragment],
    numbers: IntArray,
) -> None:
    """Write what fragments with these numbers mention, within the current transaction."""
    found = _mentioned(attributes, fragments, numbers)
    old: dict[int, bytes] = dict(rows_of(rows, "mention", "key", list(found)))
    write_rows(rows, "mention", {key: (old.get(key, b"") + new,) for key, new in found.items()})


def forget_mentions(
    rows: sqlite3.Connection, attributes: Sequence[str], fragments: Mapping[int, Fragment]
) -> None:
    """Delete what fragments mention, given by number, within the current transaction."""
    numbers = np.array(list(fragments), np.int64)
    found = _mentioned(attributes, list(fragments.values()), numbers)
    left: dict[int, tuple[bytes] | None] = {}
    for key, content in rows_of(rows, "mention", "key", list(found), all_there=True):
        held = numbers_from_bytes(content).reshape(-1, 2)
        others = held[~np.isin(held[:, 0], numbers)]
        left[key] = (numbers_to_bytes(others.ravel()),) if len(others) else None
    write_rows(rows, "mention", left)


def _mentioned(
    attributes: Sequence[str], fragments: Sequence[Fragment], numbers: IntArray
) -> dict[int, bytes]:
    """What fragments mention, as rows of the table, by ascending key."""
    if not attributes or not fragments:
        return {}
    stated = statements_of(fragments)
    names, at, key = names_in(stated)
    parts = [(digests_of(_keyed("", names))[key], at)]
    for attribute in attributes:
        texts = folded_in(stated, (attribute,))
        at, key = stated_in(stated, (attribute,), texts)
        parts.append((digests_of(_keyed(attribute, texts))[key], at))
    keys, at = (np.concatenate(columns) for columns in zip(*parts, strict=True))
    units, _ = _units(fragments)
    order = np.lexsort((numbers[at], keys))
    keys, at = keys[order], at[order]
    content = np.column_stack((numbers[at], units[at])).astype("<i8").tobytes()
    starts = np.flatnonzero(np.diff(keys, prepend=-1))
    bounds = pairwise([*(16 * starts).tolist(), len(content)])
    return {k: content[a:b] for k, (a, b) in zip(keys[starts].tolist(), bounds, strict=True)}


def _keyed(attribute: str, names: Iterable[str]) -> list[str]:
    return [f"{attribute}\0{name}" for name in names]


def _units(fragments: Sequence[Fragment]) -> tuple[IntArray, dict[int, str]]:
    """The digest of each fragment's text unit, -1 without one, and the units by digest."""
    numbers, sources = sources_of(fragments)
    units = digests_of(sources)
    return np.append(units, -1)[numbers], dict(zip(units.tolist(), sources, strict=True))


class Referrer(NamedTuple):
    """An entity that names another one, and the probability that it means it."""

    entity: str
    attribute: str
    probability: float


class StoredLinks:
    """The links of a store's entities, in one state of it; `attributes` are those that refer."""

    def __init__(self, database: sqlite3.Connection, attributes: Sequence[str]) -> None:
        self.attributes = tuple(attributes)
        self.ids: dict[int, str] = {}  # of the entities met so far, by number
        self._rows, self._pages = database, StoredPages(database)
        self._names: dict[str, IntArray] = {}  # entities and units, shape [2, fragments], by name
        self._large: dict[int, bool] = {}  # units that are files rather than texts
        self._kept = 0

    def relations(self, fragments: Sequence[Fragment], entities: IntArray) -> Relations | None:
        """The relations of whole entities; None if they state no names of others.

        Args:
            fragments: all those of the entities.
            entities: the number of the entity of each, shape [fragments].

        """
        stated = statements_of(fragments)
        keys = folded_in(stated, self.attributes)
        names = self._named(list(keys))
        if not len(names.key):
            return None
        at, key = stated_in(stated, self.attributes, keys)
        units, sources = _units(fragments)
        asked = Mentions(key, entities[at], units[at])
        found = self._meant(names, asked, len(keys), sources.__getitem__)
        return Relations(self.attributes, found, keys)

    def _named(self, names: Sequence[str]) -> Mentions:
        """The fragments with some names, which are numbered in this order; units are digests."""
        if self._kept > _MOST_KEPT:
            self._names.clear()
            self._kept = 0
        new = [name for name in names if name not in self._names]
        _, key, number, unit = self._columns(("",), new)
        numbers, at = np.unique(number, return_inverse=True)
        held = np.stack((self._owners(numbers)[at], unit))
        ends = np.searchsorted(key, np.arange(1, len(new)))
        self._names |= zip(new, np.split(held, ends, axis=1), strict=False)
        self._kept += len(new) + len(key)
        parts = [self._names[name] for name in names]
        entity, unit = np.concatenate([np.zeros((2, 0), np.int64), *parts], axis=1)
        key = np.arange(len(names)).repeat([part.shape[1] for part in parts])
        return Mentions(key, entity, unit)

    def _columns(self, attributes: Sequence[str], names: Sequence[str]) -> IntArray:
        """What mentions some names: the number of the attribute, that of the name, the fragment and
        its unit, shape [4, mentions]."""
        parts = [np.zeros((0, 4), np.int64)]
        for attribute, of in enumerate(attributes):
            digests = digests_of(_keyed(of, names)).tolist()
            found: dict[int, bytes] = dict(rows_of(self._rows, "mention", "key", digests))
            for key, digest in enumerate(digests):
                held = numbers_from_bytes(found.get(digest, b"")).reshape(-1, 2)
                parts.append(np.column_stack((np.full(held.shape, (attribute, key)), held)))
        return np.concatenate(parts).T

    def _sources(self, numbers: IntArray, units: IntArray) -> Callable[[int], str]:
        """The text of a unit by its digest; `numbers` are fragments in `units`."""

        def source_of(unit: int) -> str:
            (place, *_) = np.flatnonzero(units == unit).tolist()
            of = [int(numbers[place])]
            (row,) = rows_of(self._rows, "fragment", "number", of, all_there=True)
            return str(row[4])

        return source_of

    def stating(
        self,
        fragments: Sequence[Fragment],
        entity: int,
        trust: float,
        begin: int = 0,
        most: int | None = None,
    ) -> tuple[list[Referrer], int | None]:
        """The other way: the entities with values that mean an entity, in the order of their first
        fragments that state one of its names.

        Args:
            fragments: all those of the entity.
            entity: its number.
            trust: in links to it.
            begin: the number of the fragment to begin with.
            most: the number of entities that state its names to look at; None is all.

        Returns them, and the fragment to continue with, None at the end.

        """
        keys = list(names_in(statements_of(fragments))[0])
        attribute, key, number, unit = self._columns(self.attributes, keys)
        numbers, at = np.unique(number, return_inverse=True)
        owners = self._owners(numbers, numbers >= begin, most)
        chosen, following = _next_owners(numbers, owners, begin, most)
        rows = np.flatnonzero(np.isin(owners[at], chosen))
        attribute, key, unit, owner = attribute[rows], key[rows], unit[rows], owners[at[rows]]

        sources = self._sources(number[rows], unit)
        meant = self._meant(self._named(keys), Mentions(key, owner, unit), len(keys), sources)
        code = owner * len(keys) + key
        mine = at_numbers(meant.code, meant.best, code, -1) == entity
        probability = at_numbers(meant.code, meant.probability, code, 0.0)
        found: dict[tuple[int, int], float] = {}
        place = np.argsort(chosen)[np.searchsorted(np.sort(chosen), owner)]
        order = np.lexsort((-probability, attribute, place))
        for row in order[mine[order]].tolist():
            found.setdefault((int(owner[row]), int(attribute[row])), float(probability[row]))
        return [
            Referrer(self.ids[owner], self.attributes[attribute], round(sure * trust, DIGITS))
            for (owner, attribute), sure in found.items()
        ], following

    def rewired(
        self,
        fragments: Sequence[Fragment],
        changed: Collection[str],
        before: Callable[[Mapping[int, str]], Mapping[int, tuple[int, str]]],
    ) -> list[set[str]]:
        """For each fragment the unchanged entities with values of its names that mean another
        entity than before.

        Args:
            fragments: of changed entities.
            changed: the ids of all changed entities.
            before: returns the number and the id of the entity that held each of these fragments,
                which changed entities hold now, given by number with their ids; new ones had none.

        """
        names, place, name = names_in(statements_of(fragments))
        keys = list(names)
        _, key, number, unit = self._columns(("",), keys)
        numbers, at = np.unique(number, return_inverse=True)
        now = self._owners(numbers)
        moved = numbers[[self.ids[owner] in changed for owner in now.tolist()]]
        rows = rows_of(self._rows, "fragment", "number", moved.tolist(), all_there=True)
        had = before({number: id for number, id, *_ in rows})
        then = np.where(np.isin(numbers, moved), -1, now)
        then[np.searchsorted(numbers, list(had))] = [first for first, _ in had.values()]
        was, held = (Mentions(key, entity[at], unit) for entity in (then, now))
        ids = self.ids | dict(had.values())
        others: dict[int, set[str]] = {}
        for code, one, other in self._differing(keys, was, held):
            own, k = divmod(code, len(keys))
            if ids.get(one) != self.ids.get(other) and self.ids[own] not in changed:
                others.setdefault(k, set()).add(self.ids[own])
        out = [set[str]() for _ in fragments]
        for p, k in zip(place.tolist(), name.tolist(), strict=True):
            out[p] |= others.get(k, set())
        return out

    def _differing(
        self, keys: Sequence[str], was: Mentions, held: Mentions
    ) -> Iterator[tuple[int, int, int]]:
        """What entities state, as a code of the entity and the name, and what it meant and means,
        -1 for nothing; of statements that cannot mean another entity now, few are there.

        Args:
            keys: the names.
            was: their fragments with the entities of before, -1 for none.
            held: the same fragments with the entities of now.

        """
        known = was.entity >= 0
        apart = {
            k
            for k in range(len(keys))
            if _in_other_order(was.entity[known & (was.key == k)], held.entity[held.key == k])
        }
        other = (was.entity != held.entity) & (was.unit >= 0)
        touched = {*zip(was.key[other].tolist(), was.unit[other].tolist(), strict=True)}
        _, key, number, unit = self._columns(self.attributes, keys)
        numbers, at = np.unique(number, return_inverse=True)
        places = zip(key.tolist(), unit.tolist(), strict=True)
        wanted = [place[0] in apart or place in touched for place in places]
        owner = self._owners(numbers, np.bincount(at, wanted, len(numbers)) > 0)[at]
        asked = np.flatnonzero(owner >= 0)
        stated = Mentions(key[asked], owner[asked], unit[asked])
        found: list[dict[int, int]] = []
        for names in (was, held):
            there = np.flatnonzero(names.entity >= 0)
            candidates = Mentions(*(column[there] for column in names))
            meant = self._meant(candidates, stated, len(keys), self._sources(number, unit))
            found.append(dict(zip(meant.code.tolist(), meant.best.tolist(), strict=True)))
        for code in found[0].keys() | found[1].keys():
            yield code, found[0].get(code, -1), found[1].get(code, -1)

    def _owners(
        self, numbers: IntArray, wanted: NDArray[np.bool_] | None = None, most: int | None = None
    ) -> IntArray:
        """The entity of each of these ascending fragments, shape [fragments].

        The entities of `wanted` fragments are looked up, until there are `most`; fragments of
        others are -1.
        """
        wanted = np.ones(len(numbers), np.bool_) if wanted is None else wanted
        owners, count, step = np.full(len(numbers), -1), 0, _FIRST_AT_ONCE
        while most is None or count < most:
            # an entity with many of them is read once
            left = np.flatnonzero((owners < 0) & wanted)[:step]
            if not len(left):
                break
            homes = self._pages.homes(numbers[left].tolist())
            for id, _, members in rows_of(
                self._rows, "entity", "subproblem", sorted({*homes.values()})
            ):
                held = numbers_from_bytes(members)
                at = np.searchsorted(numbers, held).clip(max=len(numbers) - 1)
                at = at[numbers[at] == held]
                if len(at):
                    owners[at] = first = int(held.min())
                    self.ids[first] = id
                    count += 1
            if (owners[left] < 0).any():
                damaged(self._rows, "the table of mentions")
            step = min(2 * step, _AT_ONCE)
        return owners

    def _meant(
        self, names: Mentions, stated: Mentions, n_keys: int, source_of: Callable[[int], str]
    ) -> Meanings:
        """What stated names mean; units are digests, of which `source_of` has the text."""
        units, at = np.unique(np.concatenate((names.unit, stated.unit)), return_inverse=True)
        shared = np.intersect1d(names.unit, stated.unit).tolist()
        large = [unit for unit in shared if unit >= 0 and self._is_large(unit, source_of)]
        number = np.where((units < 0) | np.isin(units, large), -1, np.arange(len(units)))[at]
        n = len(names.unit)
        return meanings_of(
            names._replace(unit=number[:n]), stated._replace(unit=number[n:]), n_keys
        )

    def _is_large(self, unit: int, source_of: Callable[[int], str]) -> bool:
        if unit not in self._large:
            of = "SELECT 1 FROM fragment WHERE source = ? LIMIT ?"
            limit = source_of(unit), LARGEST_UNIT + 1
            (count,) = ask(self._rows, f"SELECT count(*) FROM ({of})", limit)[0]
            if not count:
                damaged(self._rows, "the index of fragment")
            every = "SELECT count(*) FROM (SELECT 1 FROM fragment LIMIT ?)"
            (of_all,) = ask(self._rows, every, limit[1:])[0]
            self._large[unit] = count > LARGEST_UNIT or count == of_all  # the file itself
        return self._large[unit]


def _in_other_order(then: IntArray, now: IntArray) -> bool:
    """Whether entities with more fragments of a name than others are other ones now."""

    def ranked(entities: IntArray) -> list[int]:
        found, count = np.unique(entities, return_counts=True)
        order: list[int] = found[np.lexsort((found, -count))].tolist()
        return order

    one, other = ranked(then), ranked(now)
    both = {*one} & {*other}
    stays = [x for x in one if x in both] == [x for x in other if x in both]
    return one[:1] != other[:1] or not stays


def _next_owners(
    numbers: IntArray, owners: IntArray, begin: int, most: int | None
) -> tuple[IntArray, int | None]:
    """At most so many owners of fragments, by their first one, which is not before `begin`; and the
    first of another owner's fragments, None if there is none."""
    unread = numbers[(owners < 0) & (numbers >= begin)]
    end = int(unread[0]) if len(unread) else None
    found, at = np.unique(owners, return_index=True)
    first = numbers[at]
    fits = (found >= 0) & (first >= begin) & (first < (LARGEST if end is None else end))
    order = np.flatnonzero(fits)[np.argsort(first[fits])]
    if most is not None and len(order) > most:
        end = int(first[order[most]])
    return found[order[:most]], end

"""Values that are entities: which entity of the knowledge base a value names.

A fragment's *names* are the values of its naming attribute (`kbforge.kb.entities.naming`). An
attribute *refers* if many of its values are names of other fragments. A value of such an attribute
that an entity states may mean any other entity of that name; votes decide:

| symbol | meaning |
|---|---|
| n(c) | the fragments of candidate c with the name |
| s(c) | the share of c in the file, n(c) / (K + the sum of n over all candidates) |
| m(c) | the fragments of c with the name in the text units in which the entity states the value |
| p(c) | the probability that c is meant, (m(c) + T s(c)) / (T + the sum of m) |

So p is the mean of a Dirichlet distribution whose base is the file: a text means what it names
itself, and otherwise what the file names most often. K is how often a name means no entity of the
file; T is how little a text says. An entity does not name itself. A value means the candidate with
the largest p, if that is more than the probability of none.

An entity that is not exactly right may be mixed, mostly of fragments of another one than the text
means. So the probability that is stated is p(c) (1 - b (1 - q)), where q is the confidence of c,
and b how often an entity that is not right is the wrong one (`trusted`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple, TypeAlias

import numpy as np
import orjson
from numpy.typing import NDArray

from kbforge.contracts import FloatArray, Fragment, IntArray
from kbforge.errors import UsageError, did_you_mean, option, quoted
from kbforge.files.columns import Statements, sources_of, statements_of
from kbforge.kb.entities import UNNAMING, Annotator, EntityColumns, naming_ranks
from kbforge.numerics import at_numbers, spread, starts_of
from kbforge.texts import normalised

_UNKNOWN = 0.2  # K, in fragments
_PRIOR = 0.05  # T, in fragments
LARGEST_UNIT = 1_000  # fragments; a larger source is a file, not a text
_MOST_CANDIDATES = 32  # elsewhere in the file, those with most fragments of the name
_SAMPLE = 2_000  # statements of an attribute that decide whether it refers
# of the different values of an attribute that refers, so many and such a share are names
_LEAST_NAMES, _LEAST_SHARE = 3, 0.25
# or n are names in the same text unit, and the share of names is this, with some more divided by n
_LEAST_NEAR, _FEWER_NEAR = 0.1, 0.3
# b, fitted to eight sets: .057 to .076 without one of their four families, the evaluated one
_WRONG = 0.065
_LIKELY = 0.5  # values with links to one entity that are more probable than this say the same
DIGITS = 4


Trust: TypeAlias = Callable[[IntArray], FloatArray]
"""Returns the factors of links to entities with these numbers; -1 is no entity."""
AUTO = "auto"
_NONE = "none"


def declared_in(refers: str | Sequence[str]) -> tuple[str, ...]:
    """The attributes that a user says refer; none if they are to be found."""
    if not isinstance(refers, str):
        return tuple(refers)
    names = () if refers in (AUTO, _NONE) else map(str.strip, refers.split(","))
    return tuple(filter(None, names))


def require_attributes(fragments: Sequence[Fragment], refers: str) -> None:
    """Raise a UsageError if no fragment has one of the attributes that are said to refer."""
    declared = declared_in(refers)
    if not declared or not fragments:
        return
    known = statements_of(fragments).attributes
    for name in declared:
        if name not in known:
            raise UsageError(
                f'{option("refers")}: no fragment has "{quoted(name)}"{did_you_mean(name, known)}; '
                f"expected attributes separated by commas, {AUTO} or {_NONE}"
            )


class Mentions(NamedTuple):
    """What fragments name, or state of others: arrays of one shape [n].

    `unit` is -1 for a fragment without one.
    """

    key: IntArray  # number of the folded name
    entity: IntArray  # number of the entity that the fragment belongs to
    unit: IntArray  # number of its text unit


class Meanings(NamedTuple):
    """What the values of entities mean; one row for each entity and name that it states and that
    has a meaning, ascending by `code`."""

    code: IntArray  # of the entity and the key
    best: IntArray  # number of the entity that is meant
    probability: FloatArray
    second: IntArray  # of the runner-up, -1 if there is none
    second_probability: FloatArray


def meanings_of(
    names: Mentions, stated: Mentions, n_keys: int, owners: IntArray | None = None
) -> Meanings:
    """What is meant by the names that entities state, by votes.

    Args:
        names: the names of fragments.
        stated: names that fragments state of other entities.
        n_keys: keys are below this number.
        owners: the entity of each fragment, if fragments ask, each by its own text: then `stated`
            has the number of the fragment for that of the entity. Shape [fragments].

    """
    code, query = np.unique(stated.entity * n_keys + stated.key, return_inverse=True)
    own, key = np.divmod(code, max(n_keys, 1))
    own = own if owners is None else owners[own]
    n_units = 1 + int(max(names.unit.max(initial=0), stated.unit.max(initial=0)))
    of_unit, in_unit = np.flatnonzero(names.unit >= 0), np.flatnonzero(stated.unit >= 0)
    asked = np.unique(query[in_unit] * n_units + stated.unit[in_unit])
    asking, unit = np.divmod(asked, n_units)
    everywhere = _Candidates(names.key, names.entity, _MOST_CANDIDATES)
    together = _Candidates(
        names.key[of_unit] * n_units + names.unit[of_unit], names.entity[of_unit]
    )
    shares = everywhere.counts(np.arange(len(code)), key).without(own)
    none = _UNKNOWN + everywhere.left_out(key)
    total = none + np.bincount(shares.asked, shares.votes, len(code))
    shares = shares._replace(votes=_PRIOR * shares.votes / total[shares.asked])
    own_texts = together.counts(asking, key[asking] * n_units + unit).without(own)
    asked, entity = map(np.concatenate, zip(shares[:2], own_texts[:2], strict=True))
    both = Counts(asked, entity, np.concatenate((shares.votes, own_texts.votes)))
    return _decided(code, _PRIOR * none / total, both)


class Counts(NamedTuple):
    """Counts of entities that are asked for; arrays of one shape."""

    asked: IntArray  # the number of the question
    entity: IntArray
    votes: FloatArray

    def without(self, entities: IntArray) -> Counts:
        """Those of other entities than the one that asks."""
        others = np.flatnonzero(self.entity != entities[self.asked])
        return Counts(self.asked[others], self.entity[others], self.votes[others])


class _Candidates:
    """How many fragments each entity has in each group; of a group only the `most` entities with
    most fragments."""

    def __init__(self, group: IntArray, entity: IntArray, most: int | None = None) -> None:
        self._groups, number = np.unique(group, return_inverse=True)
        n = 1 + int(entity.max(initial=0))
        pair, count = np.unique(number * n + entity, return_counts=True)
        number, entity = np.divmod(pair, n)
        order = np.lexsort((entity, -count, number))
        number, entity, count = number[order], entity[order], count[order]
        sizes = np.bincount(number, minlength=len(self._groups))
        self._left_out = np.zeros(len(self._groups))
        if most is not None and sizes.max(initial=0) > most:
            rank = np.arange(len(number)) - starts_of(sizes)[number]
            dropped = rank >= most
            self._left_out += np.bincount(number[dropped], count[dropped], len(sizes))
            entity, count, sizes = entity[~dropped], count[~dropped], sizes.clip(max=most)
        self._starts, self._entity, self._count = starts_of(sizes), entity, count

    def counts(self, asking: IntArray, groups: IntArray) -> Counts:
        """The counts of the entities of groups, each asked for by somebody."""
        at = self._places(groups)
        known = np.flatnonzero(at >= 0)
        entries, run = spread(self._starts, at[known])
        return Counts(asking[known][run], self._entity[entries], self._count[entries])

    def left_out(self, groups: IntArray) -> FloatArray:
        """The fragments of entities beyond the `most`, by group."""
        at = self._places(groups)
        return np.where(at >= 0, np.append(self._left_out, 0.0)[at], 0.0)

    def _places(self, groups: IntArray) -> IntArray:
        return at_numbers(self._groups, np.arange(len(self._groups)), groups, -1)


def _decided(code: IntArray, none: FloatArray, found: Counts) -> Meanings:
    """The candidates with most and with second most votes, of which `none` are for no entity."""
    n = 1 + int(found.entity.max(initial=0))
    pair, at = np.unique(found.asked * n + found.entity, return_inverse=True)
    count = np.bincount(at, found.votes, len(pair))
    voter, candidate = np.divmod(pair, n)
    share = count / (none + np.bincount(voter, count, len(code)))[voter]
    order = np.lexsort((candidate, -share, voter))
    voter, candidate, share = voter[order], candidate[order], share[order]
    first = np.flatnonzero(np.diff(voter, prepend=-1))
    first = first[count[order][first] > none[voter[first]]]
    has_second = np.append(voter, -1)[first + 1] == voter[first]
    second = first + has_second
    return Meanings(
        code[voter[first]],
        candidate[first],
        share[first],
        np.where(has_second, candidate[second], -1),
        np.where(has_second, share[second], 0.0),
    )


@dataclass(frozen=True, eq=False)
class Relations:
    """The values of a file's entities that name other entities.

    `attributes` are those that refer; `linked` says how many different values of them, each of an
    entity, name another one.
    """

    attributes: tuple[str, ...]
    meanings: Meanings
    keys: Mapping[str, int]  # number of a folded name
    linked: Mapping[str, int] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        fragments: Sequence[Fragment],
        entities: IntArray,
        refers: str | Sequence[str] = AUTO,
        stated: Statements | None = None,
    ) -> Relations | None:
        """The relations of a grouping; None if no attribute refers.

        Args:
            fragments: of a file.
            entities: a number of the entity of each, shape [fragments].
            refers: the attributes that refer, as names or separated by commas; "auto" finds them,
                "none" is none.
            stated: what the fragments state.

        """
        stated = statements_of(fragments) if stated is None else stated
        names = Names(stated, units_of(fragments))
        attributes = names.referring(refers)
        if not attributes or not names.keys:
            return None
        found, linked = names.meanings(attributes, entities), dict[str, int]()
        for name in attributes:
            asking, asked = stated_in(stated, (name,), names.keys)
            code = np.unique(entities[asking] * len(names.keys) + asked)
            linked[name] = int(np.isin(code, found.code).sum())
        return cls(attributes, found, names.keys, linked)

    def annotator(
        self, ids: Mapping[int, str], trust: Trust, numbers: IntArray | None = None
    ) -> Annotator:
        """Says what values mean.

        Args:
            ids: of entities by number.
            trust: for their numbers, the factors (1 - b (1 - q)).
            numbers: the number of the entity of each fragment, shape [fragments]; None if it is
                the entity's first fragment.

        """

        def meant(entities: EntityColumns) -> dict[int, str]:
            stated = entities.stated
            refer = [a for a, name in enumerate(stated.attributes) if name in self.attributes]
            cells = np.flatnonzero(np.isin(entities.attribute, refer))
            values, owner, attribute = entities.values_of(cells)
            owner = owner if numbers is None else numbers[owner]
            told = self.meanings
            sure = told.probability * trust(told.best)
            second_sure = told.second_probability * trust(told.second)
            row = self._rows(stated, owner, attribute, entities.value[values])
            out: dict[int, str] = {}
            for value, at in zip(values[row >= 0].tolist(), row[row >= 0].tolist(), strict=True):
                first = _json(ids[int(told.best[at])], sure[at])
                out[value] = f",{first}"
                if told.second[at] >= 0:
                    second = _json(ids[int(told.second[at])], second_sure[at])
                    out[value] += f',"runner_up":{{{second}}}'
            return out

        return meant

    def probably(
        self, stated: Statements, entity: IntArray, attribute: IntArray, value: IntArray
    ) -> IntArray:
        """The entity that each value means with p above one half, -1 without one; these and the
        entities that state them are given by number."""
        refer = np.array([name in self.attributes for name in stated.attributes], np.bool_)
        asked, told = np.flatnonzero(refer[attribute]), self.meanings
        row = self._rows(stated, entity[asked], attribute[asked], value[asked])
        out = np.full(len(entity), -1)
        likely = (row >= 0) & (np.append(told.probability, 0.0)[row] > _LIKELY)
        out[asked[likely]] = told.best[row[likely]]
        return out

    def _rows(
        self,
        stated: Statements,
        entity: IntArray,
        attribute: NDArray[np.integer],
        value: NDArray[np.integer],
    ) -> IntArray:
        """The row of what each value means, stated by an entity with this number; -1 without."""
        places = zip(attribute.tolist(), value.tolist(), strict=True)
        keys = [self.keys.get(normalised(stated.texts[a][v]), -1) for a, v in places]
        key, told = np.array(keys, np.int64), self.meanings
        code = np.where(key < 0, -1, entity * len(self.keys) + key)
        return at_numbers(told.code, np.arange(len(told.code)), code, -1)


def trusted(confidence: FloatArray) -> FloatArray:
    """The factors of links to entities of this confidence."""
    return 1 - _WRONG * (1 - confidence)


def _json(id: str, probability: float) -> str:
    return f'"entity":{orjson.dumps(id).decode()},"probability":{round(probability, DIGITS)}'


class Names:
    """The names of a file's fragments: the `fragment` and the `key` of each."""

    def __init__(self, stated: Statements, units: IntArray) -> None:
        self.keys: dict[str, int] = {}
        self.units, self._stated = units, stated
        ranks = np.array(naming_ranks(stated.attributes), np.int64)
        owner = np.arange(len(units)).repeat(np.diff(stated.starts))
        rank, best = ranks[stated.attribute], np.full(len(units), UNNAMING)
        np.minimum.at(best, owner, rank)
        naming = np.flatnonzero((rank == best[owner]) & (rank < UNNAMING))
        # the attributes that mostly name
        stating = np.bincount(stated.attribute, minlength=len(ranks))
        self._naming = 2 * np.bincount(stated.attribute[naming], minlength=len(ranks)) > stating
        named = [self._named(owner, naming[rank[naming] < UNNAMING - 1])]
        named.append(self._joined(owner, naming[rank[naming] == UNNAMING - 1]))
        fragment, key = (np.concatenate(parts) for parts in zip(*named, strict=True))
        self.fragment, self.key = fragment[key >= 0], key[key >= 0]

    def _named(self, owner: IntArray, places: IntArray) -> tuple[IntArray, IntArray]:
        """Fragments with each of these statements as a name, and its key."""
        stated = self._stated
        values = stated.attribute[places].astype(np.int64) << 32 | stated.value[places]
        different, at = np.unique(values, return_inverse=True)
        keys = [self._key(stated.texts[v >> 32][v & 0xFFFFFFFF]) for v in different.tolist()]
        return owner[places], np.array(keys, np.int64)[at]

    def _joined(self, owner: IntArray, places: IntArray) -> tuple[IntArray, IntArray]:
        """Fragments with all of these statements as parts of a name, and its key."""
        stated = self._stated
        parts: dict[int, list[str]] = {}
        columns = (owner[places], stated.attribute[places], stated.value[places])
        for fragment, a, v in zip(*(column.tolist() for column in columns), strict=True):
            parts.setdefault(fragment, []).append(stated.texts[a][v])
        keys = [self._key(" ".join(texts)) for texts in parts.values()]
        return np.array([*parts], np.int64), np.array(keys, np.int64)

    def _key(self, name: str) -> int:
        """The number of a name; -1 for one without letters, which is a number or a date."""
        key = normalised(name)
        return self.keys.setdefault(key, len(self.keys)) if _has_letter(key) else -1

    def referring(self, refers: str | Sequence[str]) -> tuple[str, ...]:
        """The attributes that refer, as `Relations.of` is told."""
        if refers == _NONE:
            return ()
        attributes, declared = self._stated.attributes, declared_in(refers)
        return tuple(
            name
            for a, name in enumerate(attributes)
            if (name in declared if declared else self.are_values_of(a))
        )

    def meanings(
        self, attributes: Sequence[str], entities: IntArray, of_fragments: bool = False
    ) -> Meanings:
        """What the values of attributes mean, for entities or each fragment by its own text.

        `entities` has a number of the entity of each fragment, shape [fragments].
        """
        asking, asked = stated_in(self._stated, attributes, self.keys)
        texts = texts_of(self.units)
        return meanings_of(
            Mentions(self.key, entities[self.fragment], texts[self.fragment]),
            Mentions(asked, asking if of_fragments else entities[asking], texts[asking]),
            len(self.keys),
            entities if of_fragments else None,
        )

    def are_values_of(self, attribute: int) -> bool:
        """Whether an attribute refers: many of its values are names of other fragments, or some
        are names of others in the same text unit, which does not happen by chance."""
        if self._naming[attribute]:
            return False
        places = np.flatnonzero(self._stated.attribute == attribute)
        places = places[:: 1 + len(places) // _SAMPLE]
        fragments = _stating(self._stated, places)
        unit = self.units[fragments]
        value = self._stated.value[places]
        different, at = np.unique(value, return_inverse=True)
        texts = [normalised(self._stated.texts[attribute][v]) for v in different.tolist()]
        key = np.array([self.keys.get(text, -1) for text in texts], np.int64)[at]
        missed = {text for text in texts if text not in self.keys}
        other = (key >= 0) & ~_among(self._by_fragment, fragments * len(self.keys) + key)
        near = other & (unit >= 0) & _among(self._by_unit, unit * len(self.keys) + key)
        found, n_near = len(np.unique(key[other])), len(np.unique(key[near]))
        share = found / max(found + len(missed), 1)
        by_name = found >= _LEAST_NAMES and share >= _LEAST_SHARE
        return by_name or (n_near > 0 and share >= _LEAST_NEAR + _FEWER_NEAR / n_near)

    @cached_property
    def _by_fragment(self) -> IntArray:
        """The names of fragments, ascending."""
        return np.sort(self.fragment * len(self.keys) + self.key)

    @cached_property
    def _by_unit(self) -> IntArray:
        """The names in text units, ascending."""
        return np.sort(self.units[self.fragment] * len(self.keys) + self.key)


def referring(fragments: Sequence[Fragment], refers: str) -> tuple[str, ...]:
    """The attributes whose values name other entities, of these fragments and of what follows them;
    `refers` as in `Relations.of`."""
    if refers == _NONE or not fragments:
        return ()
    if declared := declared_in(refers):
        return declared
    return Names(statements_of(fragments), units_of(fragments)).referring(refers)


def stated_in(
    stated: Statements, attributes: Sequence[str], keys: Mapping[str, int]
) -> tuple[IntArray, IntArray]:
    """The fragments that state a name as a value of some attributes, and its key in `keys`."""
    fragments, found = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
    for attribute, name in enumerate(stated.attributes):
        if name in attributes:
            places = np.flatnonzero(stated.attribute == attribute)
            known = [keys.get(normalised(text), -1) for text in stated.texts[attribute]]
            key = np.array(known, np.int64)[stated.value[places]]
            fragments.append(_stating(stated, places[key >= 0]))
            found.append(key[key >= 0])
    return np.concatenate(fragments), np.concatenate(found)


def folded_in(stated: Statements, attributes: Sequence[str]) -> dict[str, int]:
    """The folded names that some attributes may state, numbered."""
    texts = (
        normalised(text)
        for name, values in zip(stated.attributes, stated.texts, strict=True)
        if name in attributes
        for text in values
    )
    return {text: number for number, text in enumerate(dict.fromkeys(filter(_has_letter, texts)))}


def names_in(stated: Statements) -> tuple[dict[str, int], IntArray, IntArray]:
    """The numbers of the folded names of fragments; the fragment and the number of each name."""
    names = Names(stated, np.full(len(stated.starts) - 1, -1))
    return names.keys, names.fragment, names.key


def _stating(stated: Statements, places: IntArray) -> IntArray:
    """The fragments of statements."""
    return np.searchsorted(stated.starts, places, side="right") - 1


def _among(ascending: IntArray, wanted: IntArray) -> NDArray[np.bool_]:
    """Which of the wanted numbers are there."""
    return at_numbers(ascending, np.ones(len(ascending)), wanted, 0.0) > 0


def _has_letter(key: str) -> bool:
    return any(map(str.isalpha, key))


def units_of(fragments: Sequence[Fragment]) -> IntArray:
    """The number of each fragment's text unit, -1 without one, shape [fragments]."""
    units, _ = sources_of(fragments)
    sizes = np.append(np.bincount(units[units >= 0]), 0)
    return np.where(sizes[units] > LARGEST_UNIT, -1, units)


def texts_of(units: IntArray) -> IntArray:
    """The units that vote as texts, -1 for the others: one with all fragments is the file itself,
    and names no less than the file does."""
    return units if (units != units[:1]).any() else np.full(len(units), -1)

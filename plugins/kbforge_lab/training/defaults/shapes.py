"""Rewrites a labelled file in other shapes, such as namesakes or one long text.

    namesakes   two to four entities bear the names of one, so that equal names say little
    flattened   name and attributes are one text, and nearly all texts differ
    described   a long text stands beside a short name
    tabulated   a table: names in two columns, serial numbers, times of entry, placeholders
    offers      dozens of records an entity, under long titles
    linked      two tables without duplicates

A model that is trained on the labelled files alone takes it that equal names mean one entity, since
that holds in most of them. A shape belongs to the family of its file, so a model that has not seen
a family has not seen its shapes either. Each depends on the file's name alone. A shape that a
file cannot have, such as namesakes where nothing but the name tells entities apart, is None.
"""

from __future__ import annotations

import math
import random
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path

from kbforge.contracts import Fragment
from kbforge_lab.training.defaults.families import Family, LabelledFile, resampled, slip

NAME = "name"
Properties = Mapping[str, tuple[str, ...]]
_LEAST_ATTRIBUTES = 0.8  # of a fragment on average, the name apart; below them names are all
_LONGEST_TEXT, _LONGEST_DESCRIPTION = 300, 600  # characters


def shaped(root: Path, family: Family, count: int, seed: int) -> Iterator[LabelledFile]:
    """The first third of the resampled files, in every other shape."""
    for file in resampled(root, family, math.ceil(count / 3), seed):
        yield from augmented(file)


def augmented(file: LabelledFile) -> Iterator[LabelledFile]:
    """The file in every other shape that it can have; ids and labels are the file's own."""
    for name in SHAPES:
        if (found := in_shape(name, file)) is not None:
            yield found


def in_shape(name: str, file: LabelledFile) -> LabelledFile | None:
    """The file in one other shape, if it can have it."""
    rng = random.Random(f"{name}/{file.family}/{file.name}")
    fragments = SHAPES[name](file.fragments, rng)
    if fragments is None:
        return None
    return LabelledFile(file.family, f"{name}-{file.name}", fragments)


def _namesakes(fragments: Sequence[Fragment], rng: random.Random) -> tuple[Fragment, ...] | None:
    """Groups of two to four entities share the names of one; .3 to all of the entities."""
    if _attributes(fragments) < _LEAST_ATTRIBUTES:
        return None
    names: defaultdict[str | None, list[tuple[str, ...]]] = defaultdict(list)
    for fragment in fragments:
        if fragment.names:
            names[fragment.label].append(fragment.names)
    labels = list(names)
    if len(labels) < 2:
        return None
    rng.shuffle(labels)
    left = labels[: max(2, round(len(labels) * rng.uniform(0.3, 1.0)))]
    bears: dict[str | None, str | None] = {}  # entity -> the entity whose names it takes
    while left:
        size = rng.choice((2, 2, 2, 3, 4))
        (first, *others), left = left[:size], left[size:]
        bears.update(dict.fromkeys(others, first))
    return tuple(
        _with(f, {**f.properties, NAME: rng.choice(names[bears[f.label]])})
        if f.label in bears
        else f
        for f in fragments
    )


def _flattened(fragments: Sequence[Fragment], rng: random.Random) -> tuple[Fragment, ...] | None:
    """The name is one text of name and attributes; at times one or two attributes stay."""
    if _attributes(fragments) < _LEAST_ATTRIBUTES:
        return None
    keys = _keys(fragments, rng)
    stay = keys[: rng.choice((0, 0, 0, 1, 2))] if len(keys) > 2 else []
    told = keys[len(stay) :]
    seen, between = rng.choice((1.0, 0.9, 0.7)), rng.choice((" ", " ", ", "))

    def flat(fragment: Fragment) -> Fragment:
        order = rng.sample(told, len(told)) if rng.random() < 0.15 else told
        parts = [*fragment.names[:1], *_values(fragment, order, rng, seen)]
        text = between.join(parts or _first(fragment))[:_LONGEST_TEXT]
        kept = {key: fragment.properties[key] for key in stay if key in fragment.properties}
        return _with(fragment, {NAME: (text,), **kept})

    return tuple(map(flat, fragments))


_PHRASES = (
    "see also the notes below",
    "for further information please contact us",
    "all details without guarantee",
    "this entry was last checked by the editors",
    "easy to use and of high quality",
    "known for many years in the region",
    "one of the most popular of its kind",
    "no further particulars are available",
)


def _described(fragments: Sequence[Fragment], rng: random.Random) -> tuple[Fragment, ...] | None:
    """Attributes become a text beside the name, with phrases that are uninformative."""
    if _attributes(fragments) < _LEAST_ATTRIBUTES:
        return None
    keys = _keys(fragments, rng)
    stay = keys[: rng.choice((0, 1, 2))] if len(keys) > 2 else []
    told = keys[len(stay) :]
    seen, there, named = rng.choice((1.0, 0.8)), rng.choice((1.0, 0.7, 0.5)), rng.random() < 0.5
    phrases = rng.sample(_PHRASES, rng.choice((0, 2, 4)))

    def described(fragment: Fragment) -> Fragment:
        kept = {
            key: fragment.properties[key] for key in (NAME, *stay) if key in fragment.properties
        }
        if not fragment.names or rng.random() < there:
            values = _values(fragment, rng.sample(told, len(told)), rng, seen)
            values += rng.sample(phrases, min(len(phrases), 2))
            text = ". ".join([*(fragment.names[:1] if named else ()), *values])
            if text:
                kept["description"] = (text[:_LONGEST_DESCRIPTION],)
        return _with(fragment, kept or fragment.properties)

    return tuple(map(described, fragments))


_PLACEHOLDERS = ("n/a", "unknown", "-", "none", "not given", "?")
_REMARKS = ("imported", "checked", "to be checked", "old system")


def _tabulated(fragments: Sequence[Fragment], rng: random.Random) -> tuple[Fragment, ...] | None:
    """Uninformative columns are added, and names of persons are in two columns."""
    persons = [f for f in fragments if f.names and _in_two(f.names[0])]
    split = len(persons) > 0.8 * len(fragments) and rng.random() < 0.7
    numbered, dated = rng.random() < 0.6, rng.random() < 0.6
    origins = rng.sample(
        ("web", "shop", "fair", "phone", "import", "partner"), rng.choice((0, 2, 4))
    )
    remarked = rng.choice((0.0, 0.3, 0.9))
    gaps = rng.choice((0.0, 0.5, 1.0))  # share of missing values that a placeholder fills
    placeholders = rng.sample(_PLACEHOLDERS, 2)
    common = [key for key, n in _counts(fragments).items() if n > 0.3 * len(fragments)]
    start = datetime(2019, 1, 1) + timedelta(minutes=rng.randrange(2_000_000))
    step, first = rng.choice((1, 30, 600)), rng.randrange(100_000)

    def tabulated(number: int, fragment: Fragment) -> Fragment:
        row = dict(fragment.properties)
        if split and fragment.names and (parts := _in_two(fragment.names[0])):
            del row[NAME]
            row = {"first_name": (parts[0],), "surname": (parts[1],), **row}
        for key in common:
            if key not in row and rng.random() < gaps:
                row[key] = (rng.choice(placeholders),)
        if numbered:
            row["no"] = (str(first + number),)
        if dated:
            row["entered"] = (f"{start + number * timedelta(minutes=step):%Y-%m-%d %H:%M}",)
        if origins:
            row["origin"] = (rng.choice(origins),)
        if rng.random() < remarked:
            row["remarks"] = (rng.choice(_REMARKS),)
        return _with(fragment, row)

    return tuple(tabulated(number, fragment) for number, fragment in enumerate(fragments))


_PITCHES = (
    *("new", "sale", "original", "free shipping", "best price", "top deal", "genuine", "official"),
    *("2-pack", "offer", "in stock", "import", "edition", "bundle", "fast delivery", "warranty"),
)
_MOST_OFFERS = 500


def _offers(fragments: Sequence[Fragment], rng: random.Random) -> tuple[Fragment, ...] | None:
    """A few entities with some five to forty records each: a title with words lost and added.

    Entities have siblings, whose titles differ in one word. Without these, similar titles would
    always be of one entity, and a model for products would learn just what is wrong there.
    """
    if _attributes(fragments) < _LEAST_ATTRIBUTES:
        return None
    members: defaultdict[str | None, list[Fragment]] = defaultdict(list)
    for fragment in fragments:
        members[fragment.label].append(fragment)
    keys = _keys(fragments, rng)
    stay = keys[: rng.choice((0, 0, 1, 2))]
    told = keys[len(stay) :]
    mean, lost, pitched = rng.choice((5, 12, 40)), rng.uniform(0.02, 0.3), rng.uniform(0.0, 0.6)
    most_siblings = rng.choice((1, 2, 5))

    def offer(fragment: Fragment, changed: Mapping[str, str], label: str, number: int) -> Fragment:
        said = " ".join([*fragment.names[:1], *_values(fragment, told, rng, 0.8)])
        words = [changed.get(word, word) for word in said.split() if rng.random() >= lost]
        words = words or _first(fragment)
        if rng.random() < pitched:
            words += rng.sample(_PITCHES, rng.randint(1, 5))
        if rng.random() < 0.3:
            rng.shuffle(words)
        title = " ".join(words)[:_LONGEST_TEXT]
        kept = {key: fragment.properties[key] for key in stay if key in fragment.properties}
        title = slip(title, rng) if rng.random() < 0.1 else title
        properties = {NAME: (title,), **kept}
        return replace(fragment, id=f"o{number}", label=label, properties=properties)

    drawn: list[Fragment] = []
    for label, of_entity in members.items():
        texts = (text for f in of_entity for text in _values(f, [NAME, *told], rng, 1.0))
        words = sorted({word for text in texts for word in text.split()})
        for sibling in range(rng.randint(1, most_siblings) if words else 1):
            changed = {word: _changed(word, rng) for word in rng.sample(words, min(sibling, 1))}
            for _ in range(1 + round(rng.expovariate(1 / mean))):
                offered = offer(rng.choice(of_entity), changed, f"{label}/{sibling}", len(drawn))
                drawn.append(offered)
        if len(drawn) >= _MOST_OFFERS:
            break
    rng.shuffle(drawn)
    return tuple(drawn)


def _changed(word: str, rng: random.Random) -> str:
    """Another number if there is one, otherwise another word."""
    if any(map(str.isdigit, word)):
        return "".join(rng.choice("0123456789") if c.isdigit() else c for c in word)
    return "".join(rng.sample(word, len(word)))


def linked(file: LabelledFile) -> LabelledFile | None:
    """Two tables without duplicates, told apart by `source`; None if one would be empty.

    Of an entity's fragments one goes into each table, or one into either. A table lacks some of
    the attributes.
    """
    rng = random.Random(f"linked/{file.family}/{file.name}")
    members: defaultdict[str | None, list[Fragment]] = defaultdict(list)
    for fragment in file.fragments:
        members[fragment.label].append(fragment)
    shared, first = rng.choice((0.3, 0.6, 0.9, 1.0)), rng.choice((0.2, 0.5, 0.5, 0.8))
    keys = _keys(file.fragments, rng)
    lacking = {
        table: {key for key in keys if rng.random() >= seen}
        for table in "ab"
        for seen in (rng.choice((1.0, 1.0, 0.7, 0.3)),)
    }
    drawn: list[Fragment] = []
    for of_entity in members.values():
        rng.shuffle(of_entity)
        alone = len(of_entity) == 1 or rng.random() >= shared
        tables = ("a" if rng.random() < first else "b") if alone else "ab"
        for fragment, table in zip(of_entity, tables, strict=False):
            kept = {k: v for k, v in fragment.properties.items() if k not in lacking[table]}
            drawn.append(replace(fragment, properties=kept or fragment.properties, source=table))
    if len({fragment.source for fragment in drawn}) < 2:
        return None
    rng.shuffle(drawn)
    return LabelledFile(file.family, f"linked-{file.name}", tuple(drawn))


SHAPES: Mapping[str, Callable[[Sequence[Fragment], random.Random], tuple[Fragment, ...] | None]] = {
    "namesakes": _namesakes,
    "flattened": _flattened,
    "described": _described,
    "tabulated": _tabulated,
    "offers": _offers,
}


def _with(fragment: Fragment, properties: Properties) -> Fragment:
    return replace(fragment, properties=properties)


def _counts(fragments: Sequence[Fragment]) -> Counter[str]:
    return Counter(key for f in fragments for key in f.properties if key != NAME)


def _attributes(fragments: Sequence[Fragment]) -> float:
    """How many a fragment has on average, the name apart."""
    return _counts(fragments).total() / max(len(fragments), 1)


def _keys(fragments: Sequence[Fragment], rng: random.Random) -> list[str]:
    """Attributes other than the name, shuffled."""
    keys = sorted(_counts(fragments))
    rng.shuffle(keys)
    return keys


def _values(fragment: Fragment, keys: Sequence[str], rng: random.Random, seen: float) -> list[str]:
    """The first two values of each of these attributes; an attribute is there so often."""
    return [
        value
        for key in keys
        if key in fragment.properties and rng.random() < seen
        for value in fragment.properties[key][:2]
    ]


def _first(fragment: Fragment) -> list[str]:
    return [values[0] for values in fragment.properties.values()][:1]


def _in_two(name: str) -> tuple[str, str] | None:
    """First names and surname of what looks like the name of a person."""
    if any(map(str.isdigit, name)):
        return None
    last, comma, first = name.partition(",")
    if not comma:
        first, _, last = name.rpartition(" ")
    first, last = first.strip(), last.strip()
    return (first, last) if first and last and len(name.split()) <= 4 else None

"""Fragments and entities of our own making, on which the contracts are tested."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace

from kbforge.contracts import Alternative, Entity, Fragment, Value

_PEOPLE = (
    ("Ada Lovelace", "mathematician", "1815", "red"),
    ("Alan Turing", "logician", "1912", "green"),
    ("Grace Hopper", "officer", "1906", "blue"),
)

HOSTILE_VALUES = (
    "say \"hello\", twice; and 'again'",
    "back\\slash and a trailing one\\",
    "line\nbreak\r\nand\ttab",
    "<b>&amp;</b> ]]> --> {{x}} [link](http://a)",
    "=1+1",
    "\u200eright\u2028separator\u0085next\x0b\x0c",
    "Zoë \U0001f9ed 北京 e\u0301",
    "  spaces around  ",
    "| a | table |",
    "#",
    "\u202egnp.exe\u202c \u0634\u0639\u0631",
)


def fragments(n: int = 12) -> list[Fragment]:
    """`n` labelled fragments of three people with names, properties, colours and 2-d vectors."""
    rng = random.Random(20)
    return [_fragment(i, rng) for i in range(n)]


def _fragment(i: int, rng: random.Random) -> Fragment:
    number = rng.randrange(len(_PEOPLE))
    name, occupation, born, colour = _PEOPLE[number]
    first, last = name.split()
    surface = rng.choice([name, f"{first[0]}. {last}", last, name.upper()])
    properties: dict[str, tuple[str, ...]] = {
        "name": (surface,),
        "colour": (colour if rng.random() < 0.9 else "black",),
    }
    if rng.random() < 0.7:
        properties["occupation"] = (occupation, "pioneer")
    if rng.random() < 0.5:
        properties["born"] = (born,)
    vector = (10.0 * number + rng.gauss(0, 1), -5.0 * number + rng.gauss(0, 2))
    return Fragment(
        id=f"f{i}",
        properties=properties,
        vector=vector,
        label=f"person-{number}",
        source=f"book-{i % 3}",
        metadata={"page": i},
    )


def without_gold(items: Sequence[Fragment]) -> list[Fragment]:
    """The same observations, with all that a model may not read cleared."""
    return [replace(item, label=None, source=None, metadata=None) for item in items]


def entities() -> list[Entity]:
    """Entities whose values try to break out of any file format."""
    hostile = [_entity(f"E{i}", f"Name {i}", value) for i, value in enumerate(HOSTILE_VALUES)]
    plain = Entity(
        id="E-plain",
        name="Ada Lovelace",
        properties={
            "name": (Value("Ada Lovelace", ("f1", "f2")), Value("A. Lovelace", ("f3",))),
            "occupation": (Value("mathematician", ("f1",)),),
        },
        fragments=("f1", "f2", "f3"),
        confidence=0.75,
        subproblem=3,
        alternatives=(Alternative(0.25, (("f1",), ("f2", "f3"))),),
    )
    vector = Entity("E-vector", "p1", {}, ("p1",), 0.875, 4, vector=(0.5, -2.0), reported=1.0)
    return [plain, *hostile, vector]


def _entity(entity_id: str, name: str, value: str) -> Entity:
    fragment = f"from {value}"
    values = (Value(value, (fragment,)),)
    return Entity(entity_id, name, {"note": values, value: values}, (fragment,), 1.0, 0)

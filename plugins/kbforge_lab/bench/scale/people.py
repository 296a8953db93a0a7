"""An endless stream of noisy records of made-up people, for files of any size.

Nobody's data are needed to see how costs grow. A person is drawn from the numbers of the seed and
of the person alone, so that a population of any size takes no memory.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from itertools import count

from kbforge.contracts import Fragment
from kbforge.errors import UsageError

RECORDS_A_PERSON = 3
"""Of a population that grows with the file."""

_LETTERS = "abcdefghijklmnoprstuvwz"
_DIGITS = "0123456789"
_VOWELS = "aeiou"
_SLIP, _GAP = 0.08, 0.1
_FIRST_NAMES, _SURNAMES, _TOWNS = 400, 20_000, 500


def records(population: int, seed: int = 0, spellings: int | None = None) -> Iterator[Fragment]:
    """Records without end, each of a person drawn at random, with typos and gaps."""
    if population < 1:
        raise UsageError(f"people: expected 1 or more, got {population}")
    for number in count():
        rng = random.Random(f"record {seed} {number}")
        person = rng.randrange(population)
        properties = {
            name: (_slipped(value, rng, spellings),)
            for name, value in _person(person, seed).items()
            if rng.random() >= _GAP
        }
        if not properties:
            properties = {"name": (_person(person, seed)["name"],)}
        yield Fragment(f"r{number}", properties, label=f"p{person}")


def _person(number: int, seed: int) -> dict[str, str]:
    """What is true of a person."""
    rng = random.Random(f"person {seed} {number}")
    names = (_word(rng, "first", _FIRST_NAMES), _word(rng, "last", _SURNAMES))
    return {
        "name": " ".join(names),
        "born": f"{rng.randint(1900, 1999)}-{rng.randint(1, 12):02}-{rng.randint(1, 28):02}",
        "town": _word(rng, "town", _TOWNS),
    }


def _word(rng: random.Random, kind: str, kinds: int) -> str:
    """One of so many words; few of them are frequent, as among names."""
    number = int(kinds * rng.random() ** 2)
    made = random.Random(f"{kind} {number}")
    syllables = made.randint(2, 4)
    return "".join(made.choice(_LETTERS) + made.choice(_VOWELS) for _ in range(syllables))


def _slipped(value: str, rng: random.Random, spellings: int | None) -> str:
    """The value, now and then with one character in place of another."""
    if rng.random() >= _SLIP:
        return value
    if spellings is not None:
        rng = random.Random(f"slip {rng.randrange(spellings)} {value}")
    at = rng.randrange(len(value))
    return value[:at] + rng.choice(_DIGITS if value[at].isdigit() else _LETTERS) + value[at + 1 :]

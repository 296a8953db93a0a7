"""Small invented sets, for a comparison in seconds that needs no data: records, and bare names.

The records are of people who may share a name, with a date and a place of birth that may be left
out, and with slips in what is there. The bare names are full, or with an initial in place of the
first name.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from kbforge.contracts.fragment import Fragment

_FIRST = (
    *("Maren", "Tobias", "Ines", "Callum", "Priya", "Anselm"),
    *("Odette", "Ruben", "Zofia", "Hamish", "Yasmin", "Lucian"),
)
_LAST = (
    *("Okafor", "Lindqvist", "Marsh", "Petrov", "Delacroix"),
    *("Nakamura", "Byrne", "Solano", "Weiss", "Aldana"),
)
_PLACES = ("Bergen", "Tucson", "Porto", "Nakuru", "Gdynia", "Dundee", "Valdivia", "Halifax")
_ENTITIES = 30
_SIGHTINGS = (1, 4)  # of an entity, both included
_SLIP, _MISSING, _INITIAL = 0.15, 0.2, 0.3


def invented(seed: int = 0) -> dict[str, tuple[Fragment, ...]]:
    """Name of a set -> its fragments, the same ones every time."""
    return {
        "invented-records": _shuffled(_records(np.random.default_rng([seed, 0])), seed),
        "invented-names": _shuffled(_names(np.random.default_rng([seed, 1])), seed),
    }


def _shuffled(made: Iterator[tuple[str, dict[str, str]]], seed: int) -> tuple[Fragment, ...]:
    """(label, properties) as fragments in random order."""
    held = list(made)
    return tuple(
        Fragment(f"f{i}", {k: (v,) for k, v in held[j][1].items()}, label=held[j][0])
        for i, j in enumerate(np.random.default_rng([seed, 2]).permutation(len(held)).tolist())
    )


def _records(rng: np.random.Generator) -> Iterator[tuple[str, dict[str, str]]]:
    for entity in range(_ENTITIES):
        year, month, day = rng.integers([1900, 1, 1], [1990, 13, 29]).tolist()
        whole = {
            "name": f"{rng.choice(_FIRST)} {rng.choice(_LAST)}",
            "born": f"{year}-{month:02}-{day:02}",
            "birthplace": str(rng.choice(_PLACES)),
        }
        for _ in range(_sightings(rng)):
            kept = {k: v for k, v in whole.items() if k == "name" or rng.random() >= _MISSING}
            yield f"person-{entity}", {k: _slipped(v, rng) for k, v in kept.items()}


def _names(rng: np.random.Generator) -> Iterator[tuple[str, dict[str, str]]]:
    pairs = rng.choice(len(_FIRST) * len(_LAST), _ENTITIES, replace=False)
    for entity, pair in enumerate(pairs.tolist()):
        first, last = _FIRST[pair % len(_FIRST)], _LAST[pair // len(_FIRST)]
        for _ in range(_sightings(rng)):
            shown = f"{first[0]}." if rng.random() < _INITIAL else first
            yield f"name-{entity}", {"name": f"{shown} {last}"}


def _sightings(rng: np.random.Generator) -> int:
    return int(rng.integers(_SIGHTINGS[0], _SIGHTINGS[1] + 1))


def _slipped(value: str, rng: np.random.Generator) -> str:
    """The value, or with two neighbouring characters swapped."""
    if rng.random() >= _SLIP:
        return value
    k = int(rng.integers(1, len(value) - 1))
    return value[: k - 1] + value[k] + value[k - 1] + value[k + 1 :]

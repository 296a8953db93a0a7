"""How a knowledge base was made: a record in its first line, or in a store."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from kbforge.contracts import Entity, Made
from kbforge.errors import BadRecord, quoted

_KEYS = {"kbforge", "likelihood", "alpha", "seed"}
_OPTIONAL = {"model", "choices", "options"}
_FIELD = "made"


def with_made(entities: Iterable[Entity], made: Made | None) -> Iterator[Entity]:
    """The entities, the first of which says how all of them were made."""
    for number, entity in enumerate(entities):
        yield entity if number or made is None else replace(entity, made=made)


def made_by(entities: Iterable[Entity]) -> list[Made]:
    """How entities were made: each way once; several if files were joined, none if nothing says."""
    found: list[Made] = []
    for entity in entities:
        if entity.made is not None and entity.made not in found:
            found.append(entity.made)
    return found


def made_from_json(record: object, where: str) -> Made:
    """Check one parsed JSON value; the inverse of `Made.to_json`.

    Args:
        record: what the JSON parser returned.
        where: `file:line`, for the error.

    Raises:
        BadRecord: at the first law that the record breaks.

    """
    if not isinstance(record, dict):
        raise BadRecord(where, "an object", quoted(record, 40), _FIELD)
    if not set(record) >= _KEYS or not set(record) <= _KEYS | _OPTIONAL:
        expected = f"the keys {', '.join(sorted(_KEYS))}; perhaps {', '.join(sorted(_OPTIONAL))}"
        raise BadRecord(where, expected, quoted(", ".join(map(str, record)), 60), _FIELD)
    for key in ("kbforge", "likelihood", "model"):
        if key in record and not isinstance(record[key], str):
            raise BadRecord(where, "a string", quoted(record[key], 40), f"{_FIELD}.{key}")
    alpha, seed = record["alpha"], record["seed"]
    if isinstance(alpha, bool) or not isinstance(alpha, int | float) or not 0 < alpha < math.inf:
        raise BadRecord(where, "a number above 0", quoted(alpha, 40), f"{_FIELD}.alpha")
    if type(seed) is not int or seed < 0:
        raise BadRecord(where, "a whole number from 0", quoted(seed, 40), f"{_FIELD}.seed")
    choices = _scalars(record.get("choices", {}), where, f"{_FIELD}.choices")
    warmth = choices.get("temperature", 1.0)
    if not isinstance(warmth, int | float):
        raise BadRecord(where, "a number", quoted(warmth, 40), f"{_FIELD}.choices.temperature")
    options = record.get("options", {})
    if not isinstance(options, dict):
        raise BadRecord(where, "an object", quoted(options, 40), f"{_FIELD}.options")
    return Made(
        kbforge=record["kbforge"],
        likelihood=record["likelihood"],
        alpha=float(alpha),
        seed=seed,
        model=record.get("model"),
        choices=choices,
        options={
            kind: _scalars(given, where, f"{_FIELD}.options.{quoted(kind, 40)}")
            for kind, given in options.items()
        },
    )


def _scalars(value: object, where: str, field: str) -> Mapping[str, str | float]:
    if not isinstance(value, dict):
        raise BadRecord(where, "an object", quoted(value, 40), field)
    for name, one in value.items():
        if not isinstance(one, str | int | float):
            raise BadRecord(
                where, "a string or a number", quoted(one, 40), f"{field}.{quoted(name, 40)}"
            )
    return value

"""How often a value is a copy, a slip, a variant or unrelated: the readable part of a model.

    format = 1

    [attributes."birth place"]
    kind = "text"
    concentration = 3.2          # small: records repeat each other's variants
    [attributes."birth place".weights]
    copy = 0.81                  # and so on, one number a component; they sum to 1

Reading is strict: a field that is missing, unknown or out of range is an error that names it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from kbforge.errors import ModelError, quoted
from kbforge.files.toml import parse_toml, toml_value
from kbforge_plugins.models.attributes.distortion import NOISE, component_names
from kbforge_plugins.models.attributes.kinds import KINDS, Kind

FORMAT = 1
_TOLERANCE = 1e-3
_LEAST, _LARGEST = 1e-3, 1e6
_COPY, _NOISE = 0.75, 0.1
_CONCENTRATION = 10.0
_LEAST_WEIGHT = 1e-7
_ROUNDING = 1e-12


@dataclass(frozen=True, slots=True)
class AttributeRates:
    """The rates of one attribute.

    Attributes:
        kind: which features its values have.
        mixture: component -> weight, all of the kind's, positive, summing to 1.
        concentration: c of the urn.

    """

    kind: Kind
    mixture: Mapping[str, float]
    concentration: float

    @classmethod
    def prior(cls, kind: Kind) -> AttributeRates:
        """What is assumed before any data are seen."""
        names = component_names(kind)
        rest = (1 - _COPY - _NOISE) / (len(names) - 2)
        mixture = dict.fromkeys(names, rest) | {"copy": _COPY, NOISE: _NOISE}
        return cls(kind, mixture, _CONCENTRATION)

    @classmethod
    def of(cls, kind: Kind, weights: list[float], concentration: float) -> AttributeRates:
        """From weights in the order of `component_names`; they are normalised.

        What is normalised already stays as it is, to the last bit.
        """
        if abs(sum(weights) - 1) > _ROUNDING:
            weights = _normalised(weights)
        if min(weights) < _LEAST_WEIGHT / 2:
            weights = _normalised([max(weight, _LEAST_WEIGHT) for weight in weights])
        mixture = dict(zip(component_names(kind), weights, strict=True))
        return cls(kind, mixture, min(max(concentration, _LEAST), _LARGEST))

    def weights(self) -> tuple[float, ...]:
        """The mixture in the order of `component_names`."""
        return tuple(self.mixture[name] for name in component_names(self.kind))


Rates: TypeAlias = Mapping[str, AttributeRates]
"""The rates of all attributes."""


def to_toml(rates: Rates) -> bytes:
    """The content of a rates file."""
    lines = [
        "# How records of one entity differ, an attribute a table. A copy of this file can be",
        "# edited and used with --set likelihood.rates=FILE; weights sum to 1.",
        f"format = {FORMAT}",
    ]
    for name, attribute in sorted(rates.items()):
        table = f"attributes.{toml_value(name)}"
        lines += ["", f"[{table}]", f'kind = "{attribute.kind}"']
        lines += [f"concentration = {attribute.concentration!r}", f"[{table}.weights]"]
        lines += [f"{toml_value(part)} = {weight!r}" for part, weight in attribute.mixture.items()]
    return "\n".join(lines).encode() + b"\n"


def from_toml(content: bytes, where: str) -> Rates:
    """Read strictly.

    Raises:
        ModelError: not TOML, or not rates; says where and what.

    """
    table = parse_toml(content, where, ModelError)
    _only(table, ("format", "attributes"), where, "")
    if type(table.get("format")) is not int or table["format"] != FORMAT:
        raise _wrong(where, "format", str(FORMAT), table.get("format"))
    attributes = table.get("attributes")
    if not isinstance(attributes, dict):
        raise _wrong(where, "attributes", "a table an attribute", attributes)
    if not attributes:
        raise _wrong(where, "attributes", "at least one table", "none")
    return {name: _attribute(name, entry, where) for name, entry in attributes.items()}


def _attribute(name: str, entry: Any, where: str) -> AttributeRates:
    path = f"attributes.{name}"
    if not isinstance(entry, dict):
        raise _wrong(where, path, "a table", entry)
    _only(entry, ("kind", "concentration", "weights"), where, path)
    kind = entry.get("kind")
    if kind not in KINDS:
        raise _wrong(where, f"{path}.kind", f"one of {', '.join(KINDS)}", kind)
    weights = entry.get("weights")
    if not isinstance(weights, dict):
        raise _wrong(where, f"{path}.weights", "a table", weights)
    names = component_names(kind)
    _only(weights, names, where, f"{path}.weights")
    mixture = {part: _number(weights, part, where, f"{path}.weights", 0.0, 1.0) for part in names}
    total = sum(mixture.values())
    if abs(total - 1) > _TOLERANCE:
        raise _wrong(where, f"{path}.weights", "weights that sum to 1", f"a sum of {total:.6g}")
    concentration = _number(entry, "concentration", where, path, _LEAST, _LARGEST)
    return AttributeRates.of(kind, list(mixture.values()), concentration)


def _normalised(weights: list[float]) -> list[float]:
    total = sum(weights)
    return [weight / total for weight in weights]


def _number(
    table: Mapping[str, Any], key: str, where: str, path: str, low: float, high: float
) -> float:
    value = table.get(key)
    place = f"{path}.{key}" if path else key
    if isinstance(value, bool) or not isinstance(value, int | float) or not low <= value <= high:
        raise _wrong(where, place, f"a number from {low:g} to {high:g}", value)
    return float(value)


def _only(table: Mapping[str, Any], names: tuple[str, ...], where: str, path: str) -> None:
    for key in table:
        if key not in names:
            place = f"{path}.{key}" if path else key
            raise _wrong(where, place, f"one of {', '.join(names)}", "an unknown field")


def _wrong(where: str, place: str, expected: str, got: object) -> ModelError:
    return ModelError(f"{where}: {quoted(place)}: expected {expected}, got {_shown(got)}")


def _shown(got: object) -> str:
    return "nothing" if got is None else quoted(str(got))

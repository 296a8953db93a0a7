"""How often a value is a copy, a slip, a variant or unrelated: the readable part of a model.

    format = 2

    [attributes."birth place"]
    kind = "text"
    concentration = 3.2          # small: records repeat each other's variants
    discount = 0.8               # 1: nothing else tells this attribute's values
    [attributes."birth place".weights]
    copy = 0.81                  # and so on, one number a component; they sum to 1

Reading is strict: a field that is missing, unknown or out of range is an error that names it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias, cast

from kbforge.errors import ModelError, quoted
from kbforge.files.records import Record
from kbforge.files.toml import parse_toml, toml_value
from kbforge_plugins.models.attributes.distortion import NOISE, SLIPS, component_names
from kbforge_plugins.models.attributes.kinds import KINDS, Kind

FORMAT = 2
_TOLERANCE = 1e-3
_LEAST, _LARGEST = 1e-3, 1e6
_COPY, _NOISE = 0.75, 0.1
_COPY_OF_TITLE, _NOISE_OF_TITLE, _SLIPS_OF_TITLE = 0.42, 0.02, 0.04
_CONCENTRATION = 10.0
_LEAST_DISCOUNT = 0.01
_LEAST_WEIGHT = 1e-7
_ROUNDING = 1e-12


@dataclass(frozen=True, slots=True)
class AttributeRates:
    """The rates of one attribute.

    Attributes:
        kind: which features its values have.
        mixture: component -> weight, all of the kind's, positive, summing to 1.
        concentration: c of the urn.
        discount: power of the base probabilities, above 0 and at most 1 (`dependence`).

    """

    kind: Kind
    mixture: Mapping[str, float]
    concentration: float
    discount: float = 1.0

    @classmethod
    def prior(cls, kind: Kind) -> AttributeRates:
        """What is assumed before any data are seen."""
        names = component_names(kind)
        if kind == "title":
            return cls(kind, _prior_of_titles(names), _CONCENTRATION)
        rest = (1 - _COPY - _NOISE) / (len(names) - 2)
        mixture = dict.fromkeys(names, rest) | {"copy": _COPY, NOISE: _NOISE}
        return cls(kind, mixture, _CONCENTRATION)

    @classmethod
    def of(
        cls, kind: Kind, weights: list[float], concentration: float, discount: float = 1.0
    ) -> AttributeRates:
        """From weights in the order of `component_names`; they are normalised.

        What is normalised already stays as it is, to the last bit.
        """
        if abs(sum(weights) - 1) > _ROUNDING:
            weights = _normalised(weights)
        if min(weights) < _LEAST_WEIGHT / 2:
            weights = _normalised([max(weight, _LEAST_WEIGHT) for weight in weights])
        mixture = dict(zip(component_names(kind), weights, strict=True))
        return cls(kind, mixture, min(max(concentration, _LEAST), _LARGEST), discount)

    def weights(self) -> tuple[float, ...]:
        """The mixture in the order of `component_names`."""
        return tuple(self.mixture[name] for name in component_names(self.kind))


def _prior_of_titles(names: tuple[str, ...]) -> dict[str, float]:
    """A title is copied half as often as a name; who writes it anew keeps some of its words."""
    slips, kept = SLIPS[1:], names[len(SLIPS) : -1]
    rest = (1 - _COPY_OF_TITLE - _NOISE_OF_TITLE - _SLIPS_OF_TITLE) / len(kept)
    mixture = dict.fromkeys(slips, _SLIPS_OF_TITLE / len(slips)) | dict.fromkeys(kept, rest)
    return {"copy": _COPY_OF_TITLE} | mixture | {NOISE: _NOISE_OF_TITLE}


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
        lines += [f"concentration = {attribute.concentration!r}"]
        lines += [f"discount = {attribute.discount!r}", f"[{table}.weights]"]
        lines += [f"{toml_value(part)} = {weight!r}" for part, weight in attribute.mixture.items()]
    return "\n".join(lines).encode() + b"\n"


def from_toml(content: bytes, where: str) -> Rates:
    """Read strictly.

    Raises:
        ModelError: not TOML, or not rates; says where and what.

    """

    def wrong(field: str, expected: str, got: str) -> ModelError:
        return ModelError(f"{where}: {quoted(field)}: expected {expected}, got {got}")

    top = Record(parse_toml(content, where, ModelError), wrong).only("format", "attributes")
    top.version(FORMAT)
    attributes = top.table("attributes", "a table an attribute")
    if not list(attributes):
        raise top.wrong("attributes", "at least one table", "none")
    return {name: _attribute(attributes.table(name)) for name in attributes}


def _attribute(entry: Record) -> AttributeRates:
    entry.only("kind", "concentration", "discount", "weights")
    kind = cast(Kind, entry.choice("kind", KINDS))
    names = component_names(kind)
    weights = entry.table("weights").only(*names)
    mixture = [weights.within(part, 0.0, 1.0) for part in names]
    if abs(sum(mixture) - 1) > _TOLERANCE:
        raise entry.wrong("weights", "weights that sum to 1", f"a sum of {sum(mixture):.6g}")
    return AttributeRates.of(
        kind,
        mixture,
        entry.within("concentration", _LEAST, _LARGEST),
        entry.within("discount", _LEAST_DISCOUNT, 1.0),
    )


def _normalised(weights: list[float]) -> list[float]:
    total = sum(weights)
    return [weight / total for weight in weights]

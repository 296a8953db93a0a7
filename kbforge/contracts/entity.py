"""Entity: one record of the knowledge base, every value traced to its fragments.

One JSON object a line:

    {"id": str, "name": str, "properties": {attribute: [{"value", "fragments", "count"}]},
     "fragments": [str, ...], "confidence": float, "reported": float?,
     "subproblem": int, "alternatives": [...]?,
     "explanations": {fragment: {"prior" or attribute: nats}}?,
     "made": {"kbforge", "likelihood", "alpha", "seed", "model"?, "choices"?, "options"?}?}

Only the first line has `made`: how all of the entities were made.

Law of a knowledge base: every fragment that went in is in exactly one entity.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, TypeAlias

from msgspec import Meta, Struct, to_builtins

Text: TypeAlias = Annotated[str, Meta(min_length=1, description="a non-empty string")]
Ids: TypeAlias = Annotated[tuple[Text, ...], Meta(min_length=1, description="a non-empty list")]
Natural: TypeAlias = Annotated[int, Meta(ge=0, description="a whole number from 0")]
Probability: TypeAlias = Annotated[float, Meta(ge=0, le=1, description="a probability from 0 to 1")]
Scalar: TypeAlias = Annotated[str | int | float | bool, Meta(description="a string or a number")]


@dataclass(frozen=True, slots=True)
class Value:
    """One distinct value of an attribute and the fragments that state it.

    `count` is the number of statements; a fragment that repeats a value states it once.
    """

    value: str
    fragments: tuple[str, ...]

    @property
    def count(self) -> int:
        """The number of fragments that state the value."""
        return len(self.fragments)

    def to_json(self) -> dict[str, Any]:
        """The JSON object of this value."""
        return {"value": self.value, "fragments": list(self.fragments), "count": self.count}


class Alternative(Struct, frozen=True, forbid_unknown_fields=True):
    """A competing grouping of an entity's fragments; its JSON object has the same fields.

    `probability` is the posterior probability that these are the groups; `groups` are fragment ids
    and may reach beyond the entity.
    """

    probability: Probability
    groups: Annotated[tuple[Ids, ...], Meta(min_length=1, description="a non-empty list")]

    def to_json(self) -> dict[str, Any]:
        """The JSON object of this alternative."""
        return {"probability": self.probability, "groups": [list(group) for group in self.groups]}


@dataclass(frozen=True, slots=True)
class Explanation:
    """What speaks for a fragment's being in a cluster and not alone, in nats.

    `prior` is log |C| - log alpha of the cluster C without the fragment; `attributes` what each
    attribute says. They add up to the log odds of joining against staying alone.
    """

    prior: float
    attributes: Mapping[str, float]

    @property
    def total(self) -> float:
        """The log odds, in nats."""
        return self.prior + sum(self.attributes.values())

    def to_json(self) -> dict[str, Any]:
        """The JSON object of this explanation."""
        return {"prior": self.prior, "attributes": dict(self.attributes), "total": self.total}


class Provenance(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """How a knowledge base was made; its JSON object has the same fields, without empty ones.

    `kbforge` is the version, `alpha` the concentration before tempering, `likelihood` a name or the
    path of a bundle. `model` is the SHA-256 of the bundle's manifest or of the default model, None
    if the likelihood read none. `choices` are the other choices that were not the default, and
    `options` those of plugins, by kind, as texts.
    """

    kbforge: Annotated[str, Meta(description="a string")]
    likelihood: Annotated[str, Meta(description="a string")]
    alpha: Annotated[float, Meta(gt=0, description="a number above 0")]
    seed: Natural
    model: Annotated[str | None, Meta(description="a string")] = None
    choices: Mapping[str, Scalar] = {}
    options: Mapping[str, Mapping[str, Scalar]] = {}

    def to_json(self) -> dict[str, Any]:
        """The JSON object."""
        out: dict[str, Any] = to_builtins(self)
        return out


@dataclass(frozen=True, slots=True)
class Entity:
    """One entity.

    `name` is for people to read (`kbforge.kb.entities.name_of`), `id` for what refers to it.
    `confidence` is how often entities like this one are exactly right, by a confidence map.
    `reported` is what the map read: the posterior probability of exactly this cluster among its
    subproblem's particles. Where there is no map, `reported` is None and `confidence` is that
    probability. Particles are truncated, so 1.0 means "no kept particle disagrees". The
    probabilities of alternatives are as reported.
    `explanations` say of fragments why they are here, where that was asked for.
    `made` says how the knowledge base was made, in its first entity; two entities are equal
    however they were made.
    """

    id: str
    name: str
    properties: Mapping[str, tuple[Value, ...]]
    fragments: tuple[str, ...]
    confidence: float
    subproblem: int
    alternatives: tuple[Alternative, ...] = ()
    vector: tuple[float, ...] | None = None
    reported: float | None = None
    explanations: Mapping[str, Explanation] | None = None
    made: Provenance | None = field(default=None, compare=False)

    @property
    def probability(self) -> float:
        """The posterior probability as reported, whether or not `confidence` is calibrated."""
        return self.confidence if self.reported is None else self.reported

    def to_json(self) -> dict[str, Any]:
        """The JSON object of this entity."""
        out: dict[str, Any] = {
            "id": self.id,
            "name": self.name,
            "properties": {
                k: [
                    {"value": v.value, "fragments": list(v.fragments), "count": len(v.fragments)}
                    for v in vs
                ]
                for k, vs in self.properties.items()
            },
            "fragments": list(self.fragments),
            "confidence": self.confidence,
        }
        if self.reported is not None:
            out["reported"] = self.reported
        out["subproblem"] = self.subproblem
        if self.vector is not None:
            out["vector"] = list(self.vector)
        if self.alternatives:
            out["alternatives"] = [alternative.to_json() for alternative in self.alternatives]
        if self.explanations is not None:
            out["explanations"] = {
                fragment: explanation.to_json()
                for fragment, explanation in self.explanations.items()
            }
        if self.made is not None:
            out["made"] = self.made.to_json()
        return out

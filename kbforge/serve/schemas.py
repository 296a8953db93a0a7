"""The objects of the API, as its OpenAPI document describes them.

Answers are made by `facts` and its neighbours, and are not checked when they are sent; tests
compare them with these models. Requests with unknown keys are refused.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, StrictBool

from kbforge.contracts.fragment import MAX_ID_CHARACTERS

Probability: TypeAlias = Annotated[float, Field(ge=0, le=1)]
Natural: TypeAlias = Annotated[int, Field(ge=0)]
FragmentId: TypeAlias = Annotated[
    str, Field(min_length=1, max_length=MAX_ID_CHARACTERS, description="Id of a fragment.")
]


class _Said(BaseModel):
    """An object of an answer or of a request."""

    model_config = ConfigDict(extra="forbid")


class Failure(_Said):
    """An error: one sentence that says what, where, and what was expected."""

    ok: Literal[False]
    error: str
    status: int

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={
            "examples": [
                {"ok": False, "error": 'the knowledge base has no fragment "x"', "status": 404}
            ]
        },
    )


# --- fragments and entities -----------------------------------------------------------------------


class Fragment(_Said):
    """One observation of an entity: values by attribute, or a vector, or both."""

    id: FragmentId
    properties: dict[str, list[str]]
    vector: list[float] | None = None
    source: str | None = None
    metadata: dict[str, Any] | None = None

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={
            "examples": [
                {
                    "id": "row-17",
                    "properties": {"name": ["Maria Kowalska"], "town": ["Lublin"]},
                    "source": "people.csv",
                }
            ]
        },
    )


class GivenFragment(Fragment):
    """A fragment to add; its label is its true entity, which only evaluation reads."""

    label: str | None = None


class GivenQuery(_Said):
    """A fragment to match; it needs no id."""

    id: FragmentId | None = None
    properties: dict[str, list[str]] = {}
    vector: list[float] | None = None
    source: str | None = None
    label: str | None = None
    metadata: dict[str, Any] | None = None

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={"examples": [{"properties": {"name": ["Maria Kowalska"]}}]},
    )


class EntityReference(_Said):
    """An entity at a glance."""

    id: str
    name: str
    size: Natural
    confidence: Probability | None


class Value(_Said):
    """A value, how many fragments state it, and the first of them."""

    value: str
    count: Natural
    fragments: list[str]


class Agreement(_Said):
    """Where a fragment agrees with its entity, and what other fragments state where it differs."""

    agrees: list[str]
    differs: dict[str, list[str]]


class Member(Agreement):
    """A fragment of an entity."""

    fragment: Fragment


class Alternative(_Said):
    """A grouping that competes with an entity, in words and as the fragments of each group."""

    probability: Probability
    said: str
    groups: list[list[str]]
    sizes: list[Natural]
    others: list[EntityReference]


class Event(_Said):
    """What a run did to an entity, and the entities that it exchanged fragments with."""

    run: Natural
    began: float
    verb: str
    kind: str
    gained: Natural
    lost: Natural
    others: list[str]


class Entity(EntityReference):
    """An entity; `next` is the place of the first fragment that found no room."""

    reported: Probability
    said: str
    subproblem: Natural
    properties: dict[str, list[Value]]
    distinct: dict[str, Natural]
    fragments: list[Member]
    next: Natural | None
    alternatives: list[Alternative]
    history: list[Event]


class FormerEntity(_Said):
    """An entity that is no more, and those that have its fragments now."""

    id: str
    now: list[EntityReference]


class FoundFragment(Agreement):
    """A fragment, where a person finds it, and its entity."""

    fragment: Fragment
    place: str | None
    entity: EntityReference
    subproblem: Natural


class Similar(_Said):
    """A fragment that may be one entity with another.

    `rest` is the probability of groupings that the store does not have in detail.
    """

    fragment: str
    entity: EntityReference
    probability: Probability
    rest: Probability


class SimilarFragments(_Said):
    """The fragments that may be one entity with a fragment, the most probable first."""

    fragment: str
    entity: EntityReference
    similar: list[Similar]


class Grouping(_Said):
    """A grouping of a subproblem; groups are places among its fragments."""

    probability: Probability
    groups: list[list[Natural]]


class Subproblem(_Said):
    """Fragments that are clustered together, and their competing groupings."""

    name: Natural
    size: Natural
    fragments: list[str]
    labels: list[str]
    entities: list[EntityReference]
    particles: Natural
    groupings: list[Grouping]
    similarity: list[list[Probability]]


class Listing(_Said):
    """Entities in an order."""

    order: Literal["largest", "least_sure"]
    entities: list[EntityReference]


class Matched(_Said):
    """The value of a fragment by which a search found its entity."""

    attribute: str
    value: str


class SearchResult(EntityReference):
    """An entity that a search found, with some values of the fragment that was found."""

    values: dict[str, str]
    matched: Matched | None


class SearchResults(_Said):
    """The entities that a search found; `next` is the cursor of the next ones."""

    results: list[SearchResult]
    next: str | None


# --- reasons --------------------------------------------------------------------------------------


class Explanation(_Said):
    """What the prior and each attribute contribute to a total."""

    prior: float
    attributes: dict[str, float]
    total: float


class Candidate(_Said):
    """An entity that a fragment may belong to."""

    entity: EntityReference
    probability: Probability
    reported: Probability
    total: float | None
    explanation: Explanation | None


class _Reasons(_Said):
    likelihood: str
    unit: Literal["nats", "points"]


class MatchResult(_Reasons):
    """What a fragment would join; `new` is the probability that it is none of the entities."""

    candidates: list[Candidate]
    new: Probability
    compared: Natural


class Reason(_Said):
    """What speaks for a fragment in an entity with so many others."""

    entity: EntityReference
    others: Natural
    total: float | None
    explanation: Explanation | None


class Why(_Reasons):
    """Why a fragment is in its entity and not in others."""

    fragment: Fragment
    own: Reason
    rivals: list[Reason]


class SharedValues(_Said):
    """Values of an attribute that two entities share, and that one has alone."""

    both: list[str]
    first: list[str]
    second: list[str]


class Comparison(_Reasons):
    """Why two entities are not one: `total` is the log odds of one entity against two.

    `together` is the probability that all of their fragments are one entity, `mixed` that some are.
    """

    first: EntityReference
    second: EntityReference
    compared: list[Natural]
    total: float | None
    explanation: Explanation | None
    together: Probability
    mixed: Probability
    values: dict[str, SharedValues]


# --- the store ------------------------------------------------------------------------------------


class Run(_Said):
    """One command that wrote, or one stretch of a server's additions."""

    number: Natural
    verb: str
    about: str
    finished: bool
    added: Natural
    removed: Natural
    entities: Natural
    seconds: float
    began: Annotated[float, Field(description="Seconds since 1970, UTC.")]


class Status(_Said):
    """The store at a glance, with its last runs."""

    path: str
    megabytes: float
    fragments: Natural
    entities: Natural
    subproblems: Natural
    log10_effective_particles: float
    decisions: Natural
    link: str | None
    likelihood: str
    alpha: float
    kbforge: str | None
    learned_from: Natural
    came_since: Natural
    drift: float
    drift_by_attribute: dict[str, float]
    refit_is_worth_it: bool
    erasing: Natural
    chosen: list[str]
    runs: list[Run]
    n_runs: Natural


class Runs(_Said):
    """Some runs, the latest first; `next` asks for those before."""

    runs: list[Run]
    next: Natural | None


class Change(_Said):
    """How an entity changed: its fragments before and after, and the entities concerned.

    Nothing is told of erased fragments: an entity that is gone may have none before and after, and
    one that changed may have the same ones. It has also changed if a fragment has new content.
    """

    entity: str
    kind: Literal["created", "changed", "merged", "split", "removed"]
    before: list[str]
    after: list[str]
    others: list[str]


class Changes(_Said):
    """The entities that changed between the ends of two runs; `last` is the last run that ended.

    If `after` is there, ask again with the same `since`, with `to` and with `after`. Otherwise go
    on with `to` as the next `since`.
    """

    since: Annotated[Natural, Field(alias="from")]
    to: Natural
    last: Natural
    changes: list[Change]
    after: str | None


# --- what writes ----------------------------------------------------------------------------------


class _Written(_Said):
    run: Natural
    fragments: Annotated[Natural, Field(description="That the store has now.")]
    entities: Annotated[Natural, Field(description="Likewise.")]


class Added(_Written):
    """Fragments that are on disk."""

    added: Natural
    replaced: Natural
    skipped: Annotated[Natural, Field(description="That were there already.")]


class GivenDecision(_Said):
    """Whether two fragments are the same entity."""

    same: StrictBool
    first: FragmentId
    second: FragmentId

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={"examples": [{"same": True, "first": "row-17", "second": "row-20"}]},
    )


class Decided(_Written):
    """A decision that is in force."""

    decision: Natural
    already: Annotated[bool, Field(description="Whether it was in force before.")]


class Undone(_Written):
    """A decision that is not in force."""

    undone: Natural
    exact: Annotated[bool | None, Field(description="Whether all is as it was before it.")]
    already: bool


class Decision(GivenDecision):
    """A decision, and the runs that made it and undid it."""

    number: Natural
    run: Natural
    undone: Natural | None

    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": []})


class Decisions(_Said):
    """Some decisions, the latest first; `next` asks for those before."""

    decisions: list[Decision]
    next: Natural | None


class Side(_Said):
    """A fragment that is asked about, with some others of its cluster."""

    fragment: Fragment
    others: list[Fragment]
    size: Natural
    entity: EntityReference


class Question(_Said):
    """Whether two fragments are one entity, and what speaks for it."""

    first: str
    second: str
    a: Side
    b: Side
    asked: dict[str, Any]
    explanation: Explanation | None
    compared: Natural
    probability: bool


class Review(_Said):
    """The next question; None if nothing is in doubt."""

    question: Question | None
    left: Natural
    answered: Natural


class GivenAnswer(_Said):
    """The answer to a question; `same` is null to skip it."""

    same: StrictBool | None
    first: FragmentId
    second: FragmentId

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={"examples": [{"same": False, "first": "row-17", "second": "row-21"}]},
    )


class Effect(_Said):
    """What an answer changed."""

    run: Natural | None
    already: bool
    before: list[EntityReference]
    after: list[EntityReference]
    moved: list[str]
    n_moved: Natural


class Answered(Effect):
    """An answer, and what it changed."""

    decision: Natural | None


class TakenBack(_Said):
    """An answer that was taken back, and what that changed; only null if there was none."""

    undone: dict[str, Any] | None
    run: Natural | None = None
    already: bool = False
    before: list[EntityReference] = []
    after: list[EntityReference] = []
    moved: list[str] = []
    n_moved: Natural = 0

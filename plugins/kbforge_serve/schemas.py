"""The objects that interfaces receive, and their errors; requests with unknown keys are refused."""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, StrictBool

from kbforge.contracts.fragment import MAX_ID_CHARACTERS
from kbforge.store.audit import MOST_NOTE

FragmentId: TypeAlias = Annotated[
    str, Field(min_length=1, max_length=MAX_ID_CHARACTERS, description="Id of a fragment.")
]


def config(example: dict[str, Any]) -> ConfigDict:
    """The configuration of an object, with an example for the document."""
    return ConfigDict(extra="forbid", json_schema_extra={"examples": [example]})


class Failure(BaseModel):
    """An error: one sentence that says what failed, where, and what was expected."""

    ok: Literal[False]
    error: str
    status: int

    model_config = config(
        {"ok": False, "error": 'the knowledge base has no fragment "x"', "status": 404}
    )


class GivenRecord(BaseModel):
    """One observation of an entity: values by attribute, or a vector, or both."""

    id: FragmentId
    properties: dict[str, list[str]]
    vector: list[float] | None = None
    source: str | None = None
    metadata: dict[str, Any] | None = None

    model_config = config(
        {
            "id": "row-17",
            "properties": {"name": ["Maria Kowalska"], "town": ["Lublin"]},
            "source": "people.csv",
        }
    )


class GivenFragment(GivenRecord):
    """A fragment to add; its label is its true entity, which only evaluation reads."""

    label: str | None = None


class GivenQuery(BaseModel):
    """A fragment to match; it needs no id."""

    id: FragmentId | None = None
    properties: dict[str, list[str]] = {}
    vector: list[float] | None = None
    source: str | None = None
    label: str | None = None
    metadata: dict[str, Any] | None = None

    model_config = config({"properties": {"name": ["Maria Kowalska"]}})


class GivenAnswer(BaseModel):
    """The answer to a question, and why, for the audit; if `same` is null, it is skipped, or
    nobody is asked again if you `cannot_tell`."""

    same: StrictBool | None
    first: FragmentId
    second: FragmentId
    cannot_tell: StrictBool = False
    note: Annotated[str, Field(max_length=MOST_NOTE)] = ""

    model_config = config({"same": False, "first": "row-17", "second": "row-21"})


class GivenDecision(BaseModel):
    """Whether two fragments are the same entity, and why, for the audit."""

    same: StrictBool
    first: FragmentId
    second: FragmentId
    note: Annotated[str, Field(max_length=MOST_NOTE)] = ""

    model_config = config(
        {"same": True, "first": "row-17", "second": "row-20", "note": "same phone"}
    )

"""Acts on entities for the API and the pages: rehearsed, taken and undone, each with its effect."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence, Set
from functools import partial
from itertools import chain, islice
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Path
from fastapi.responses import Response
from pydantic import BaseModel, Field

from kbforge.contracts.entity import Natural, Probability
from kbforge.contracts.fragment import MAX_ID_CHARACTERS, MAX_VALUE_CHARACTERS
from kbforge.errors import UsageError
from kbforge.jobs import acts
from kbforge.jobs.decide import UNDOES, asserted, asserting, take_back
from kbforge.jobs.opening import EventResult
from kbforge.kb.entities import name_of
from kbforge.store.audit import MOST_NOTE, signed
from kbforge.store.store import Store
from kbforge.texts import LARGEST
from kbforge_serve.answers import Answer
from kbforge_serve.effects import MOST_SHOWN, Effect, observed
from kbforge_serve.frame import json_of
from kbforge_serve.listing import Filter, Wanted, selected_firsts
from kbforge_serve.schemas import FragmentId, config
from kbforge_serve.service import Service
from kbforge_serve.writer import Act, T, Turn

_MOST_FILTERED = 10_000
"""Maximum number of listed entities whose pairs one act accepts."""
_MOST_CHOSEN = 1_000
"""Maximum number of fragments that an act parts or moves."""


class GivenAct(BaseModel):
    """An act, and what it is about.

    `join`: entity, other; `part`: fragments of one entity; `move`: fragments, and the entity that
    they join; `confirm`: entity; `choose`: subproblem, and the `key` of one of its groupings;
    `accept`: at_least; `value`: attribute, the value that you know, and a fragment of the entity or
    the entity. The note is for the audit.
    """

    act: Literal["join", "part", "move", "confirm", "choose", "accept", "value"]
    entity: Annotated[str, Field(max_length=MAX_ID_CHARACTERS)] = ""
    other: Annotated[str, Field(max_length=MAX_ID_CHARACTERS)] = ""
    fragments: Annotated[list[FragmentId], Field(max_length=_MOST_CHOSEN)] = []
    subproblem: Annotated[int, Field(ge=0, le=LARGEST)] = 0
    grouping: Annotated[str, Field(max_length=40)] = ""
    at_least: float = 1.0
    attribute: Annotated[str, Field(max_length=MAX_ID_CHARACTERS)] = ""
    value: Annotated[str, Field(max_length=MAX_VALUE_CHARACTERS)] = ""
    note: Annotated[str, Field(max_length=MOST_NOTE)] = ""

    model_config = config({"act": "part", "fragments": ["row-17", "row-20"], "note": "two phones"})


class ActForm(GivenAct):
    """An act on a page: names may stand for ids, and it is rehearsed until it is confirmed."""

    take: bool = False


class AcceptedPair(Answer, frozen=True):
    """Two fragments that are accepted as one entity; `joins`: they are in two entities before."""

    first: str
    second: str
    names: tuple[str, str]
    probability: Probability
    joins: bool


class Acted(Answer, frozen=True):
    """An act, taken or only rehearsed, and its effect.

    `decisions` are the numbers of those that it made, none if all were in force; its undo withdraws
    its `run`. `refused` counts pairs whose decision contradicts others; `pairs` has up to 100
    of those that are accepted, the least probable first, since they are the ones to look at.
    """

    act: str
    about: str
    rehearsed: bool
    run: Natural | None
    decisions: list[Natural]
    refused: Natural
    pairs: list[AcceptedPair]
    effect: Effect


class TakenBackRun(Answer, frozen=True):
    """The decisions of a run, withdrawn or only in a rehearsal, and the effect.

    `undone` counts them; `exact` says whether the store is as before, None if they were withdrawn
    before.
    """

    rehearsed: bool
    undone: Natural
    exact: bool | None
    effect: Effect


def acted(
    service: Service, given: GivenAct, rehearse: bool = False, wanted: Filter = Filter()
) -> Acted:
    """Take an act, or show what it would do.

    `wanted` selects the entities whose pairs are accepted.

    Raises:
        NotFoundError: it names what the store does not have.
        UsageError: it cannot be done, or was.
        ContradictionError, LikelihoodError, BusyError, OutputError: as `honouring`.

    """
    if given.act == "value":
        return _settled(service, given, rehearse)
    propose, about = _proposed(service, given, wanted), list[str]()

    def act(turn: Turn) -> tuple[acts.Proposal, list[AcceptedPair], EventResult]:
        proposal = propose(turn.store)
        pairs = _pairs(turn.store, proposal)
        about.extend(id for (pair, *_) in proposal.said for id in (pair.first, pair.second))
        held = turn.opened(proposal.verb, proposal.about)
        return proposal, pairs, acts.take(held, proposal, turn.told)

    (proposal, pairs, done), effect = performed(service, act, rehearse, given.note, about)
    made, refused = done.told["decisions"], done.told["refused"]
    run = done.run if made else None
    return Acted(proposal.verb, proposal.about, rehearse, run, made, refused, pairs, effect)


def _pairs(store: Store, proposal: acts.Proposal) -> list[AcceptedPair]:
    """The least probable pairs that a proposal accepts; it has the most probable first."""
    some = list(zip(proposal.said, proposal.probable, strict=False))[: -MOST_SHOWN - 1 : -1]
    said = [(one.first, one.second, min(sure, 1.0)) for (one, *_), sure in some]
    numbers = store.pages.numbers([id for *pair, _ in said for id in pair])
    found = store.pages.fragments(list(numbers.values()))
    names = {x.id: name_of(x) or x.id for x in found.values()}
    homes = {id: store.entity_of(number)[0] for id, number in numbers.items()}
    return [
        AcceptedPair(a, b, (names[a], names[b]), sure, homes[a] != homes[b]) for a, b, sure in said
    ]


def _settled(service: Service, given: GivenAct, rehearse: bool) -> Acted:
    """Settle an attribute on a value, as `acted`: beside a fragment, or the entity's first one."""
    with service.readers.store() as store:
        if given.fragments:
            stated = store.fragment(given.fragments[0])[1]
            about = stated.asserted_of or stated.id
        else:
            _, (first, *_) = store.entity(given.entity)
            about = store.pages.fragments([first])[first].id
    words = asserting(about, given.attribute, given.value)

    def act(turn: Turn) -> EventResult:
        held = turn.opened("decide", words)
        return asserted(held, about, given.attribute, given.value, turn.told)

    done, effect = performed(service, act, rehearse, given.note, [about])
    numbers = [] if done.told["already"] else done.told["decisions"]
    return Acted("value", words, rehearse, done.run if numbers else None, numbers, 0, [], effect)


def undone(service: Service, run: int, rehearse: bool = False, note: str = "") -> TakenBackRun:
    """Withdraw the decisions of a run, or show what that would do.

    Raises a NotFoundError if it made none, and errors as `acted`.
    """

    def act(turn: Turn) -> EventResult:
        began, resumed = time.perf_counter(), partial(turn.opened, UNDOES)
        done = take_back(turn.store, run, began, resumed, turn.told, of_run=True)
        if done.told["exact"]:
            turn.forget()
        return done

    done, effect = performed(service, act, rehearse, note)
    return TakenBackRun(rehearse, done.told["undone"], done.told["exact"], effect)


def performed(
    service: Service, act: Act[T], rehearse: bool, note: str, about: Sequence[str] = ()
) -> tuple[T, Effect]:
    """What an act returns, and its effect."""
    with signed(None, note):
        return service.writer.perform(observed(service.readers, act, about), rehearse).result()


def _proposed(
    service: Service, given: GivenAct, wanted: Filter
) -> Callable[[Store], acts.Proposal]:
    """What makes the act's proposal from the store."""
    match given.act:
        case "join":
            return partial(acts.join, entity=given.entity, other=given.other)
        case "part":
            return partial(acts.part, fragments=given.fragments)
        case "move":
            return partial(acts.move, fragments=given.fragments, entity=given.entity)
        case "confirm":
            return partial(acts.confirm, entity=given.entity)
        case "choose":
            return partial(acts.choose, subproblem=given.subproblem, grouping=given.grouping)
    within, believed = _subproblems(service, wanted), service.questions.believed
    return partial(acts.accept, at_least=given.at_least, believed=believed, within=within)


def _subproblems(service: Service, wanted: Filter) -> Set[int] | None:
    """The subproblems of the entities that a filter selects; None if it selects all."""
    if wanted == Filter():
        return None
    with service.readers.store() as store:
        found = selected_firsts(store, wanted, "least_sure", service.search.words)
        firsts = list(islice(chain.from_iterable(found), _MOST_FILTERED + 1))
        if len(firsts) > _MOST_FILTERED:
            raise UsageError(f"more than {_MOST_FILTERED:,} entities are selected: add a condition")
        return set(store.pages.homes(firsts).values())


def add(routes: APIRouter, service: Service, says: Callable[[Any], dict[str, Any]]) -> None:
    """Add the routes of the API; `says` describes an answer for the document."""

    @routes.post("/acts", summary="Act on entities", **says(Acted))
    def act(given: GivenAct, wanted: Wanted, rehearse: bool = False) -> Response:
        """Join, part, move, confirm, choose, accept many pairs or settle a value; with one undo.

        With `rehearse`, answer what it would do, and change nothing. The other parameters select
        entities as in `GET /api/entities`; `accept` then accepts pairs of their subproblems only.
        """
        return json_of(acted(service, given, rehearse, wanted))

    @routes.post("/acts/{run}/undo", summary="Undo an act", **says(TakenBackRun))
    def undo(run: Annotated[int, Path(ge=0, le=LARGEST)], rehearse: bool = False) -> Response:
        """Withdraw all decisions of a run that are in force."""
        return json_of(undone(service, run, rehearse))

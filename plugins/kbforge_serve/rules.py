"""Rules beside the posterior, for the API and the page: listed, rehearsed, taken and withdrawn."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

from fastapi import APIRouter, Form, Request
from fastapi.responses import Response
from pydantic import BaseModel, Field

from kbforge.contracts.clusterer import RuleSet
from kbforge.contracts.entity import Natural
from kbforge.contracts.fragment import MAX_ID_CHARACTERS
from kbforge.errors import LikelihoodError, UsageError
from kbforge.jobs.models import rules_of
from kbforge.jobs.opening import EventResult
from kbforge.jobs.rules import GOVERNS, RuleCount, counts, former_rules, govern, in_words
from kbforge.store.audit import MOST_NOTE, audit_of
from kbforge_serve import frame
from kbforge_serve.acts import performed
from kbforge_serve.answers import Answer, Facts, plain
from kbforge_serve.background import state_of
from kbforge_serve.effects import Effect
from kbforge_serve.failures import sentence_of, status_of
from kbforge_serve.schemas import config
from kbforge_serve.service import Service
from kbforge_serve.writer import Turn

if TYPE_CHECKING:
    from kbforge_serve.pages import Pages

_MOST = 50  # attributes with a rule of one kind
_Attribute = Annotated[str, Field(min_length=1, max_length=MAX_ID_CHARACTERS)]
_Attributes = Annotated[list[_Attribute], Field(max_length=_MOST)]


class GivenRules(BaseModel):
    """All rules from now on: attributes that must not differ, and those that merge fragments."""

    never: _Attributes = []
    always: _Attributes = []
    note: Annotated[str, Field(max_length=MOST_NOTE)] = ""

    model_config = config({"never": ["vat id"], "always": ["passport"], "note": "by law"})


class RuleForm(GivenRules):
    """Rules on a page, which are rehearsed until they are confirmed."""

    take: bool = False


class RulesChange(Answer, frozen=True):
    """A change of the rules: who made it in which run, when and why, and the rules in words."""

    run: Natural
    by: str
    at: float  # seconds since 1970, UTC
    about: str
    note: str


class RulesBefore(Answer, frozen=True):
    """The rules before the change that the last run made; to take them undoes it exactly."""

    never: list[str]
    always: list[str]
    run: Natural


class RulesInForce(Answer, frozen=True):
    """The rules in force, those to which an undo returns, and all changes, the latest first.

    `counts` says how many fragments and values each rule concerns; None while they are counted.
    """

    never: list[str]
    always: list[str]
    counts: list[RuleCount] | None
    former: RulesBefore | None
    changes: list[RulesChange]


class Governed(Answer, frozen=True):
    """Rules, taken or only rehearsed, and their effect.

    If `exact`, the store is as before the last change of rules. `notes` has sentences about where
    the rules do not hold, and what withdrawn ones leave.
    """

    about: str
    rehearsed: bool
    exact: bool
    notes: list[str]
    effect: Effect


def rules(service: Service) -> RulesInForce:
    """The rules in force, and who changed them."""
    with service.readers.store() as store:
        never, always = rules_of(store)
        lines = [line for line in audit_of(store.database.connection) if line.verb == GOVERNS]
        changes = [
            RulesChange(one.run, one.by, one.at, str((one.said or {}).get("about", "")), one.note)
            for one in reversed(lines)
        ]
        last = former_rules(store)
        before = last and RulesBefore([*last[0].never], [*last[0].always], last[1])
        found, current = service.computations.get("rules", state_of(store), counts)
        found = found if current else None
        return RulesInForce(list(never), list(always), found, before, changes)


def governed(service: Service, given: GivenRules, rehearse: bool = False) -> Governed:
    """Replace the rules, or show what that would do. Errors as `kbforge.jobs.rules.govern`."""
    wanted = RuleSet(*(tuple(dict.fromkeys(some)) for some in (given.never, given.always)))

    def act(turn: Turn) -> EventResult:
        done = govern(turn.store, wanted, time.perf_counter(), partial(turn.opened, GOVERNS))
        if done.told["exact"]:
            turn.forget()
        return done

    done, effect = performed(service, act, rehearse, given.note)
    return Governed(in_words(wanted), rehearse, done.told["exact"], done.told["notes"], effect)


def add(routes: APIRouter, service: Service, says: Callable[[Any], dict[str, Any]]) -> None:
    """Add the routes of the API."""

    @routes.get("/rules", summary="List the rules", **says(RulesInForce))
    def in_force() -> Response:
        """List the rules in force, and who changed them, the latest change first."""
        return frame.json_of(rules(service))

    @routes.post("/rules", summary="Replace the rules", **says(Governed))
    def replace(given: GivenRules, rehearse: bool = False) -> Response:
        """Replace all rules of the store, and answer what that did to its entities.

        With `rehearse`, answer what it would do, and change nothing. To take the former ones undoes
        the last change.
        """
        return frame.json_of(governed(service, given, rehearse))


def add_pages(pages: Pages, service: Service, store: str) -> None:
    """Add the page of the rules."""
    nothing: Facts = {"done": None, "error": ""}
    pages.add("/rules", "rules.html", lambda: rules(service), lambda _: nothing)

    def act(request: Request, given: Annotated[RuleForm, Form()]) -> Response:
        """Show what rules would do or, if they are confirmed, what they did."""
        sent = given.model_dump(exclude={"take", "note"})
        shown: Facts = {**nothing, "sent": sent, "note": given.note}
        try:
            shown["done"], status = plain(governed(service, given, not given.take)), 200
        except (UsageError, LikelihoodError) as error:
            shown["error"], status = sentence_of(error, service.readers.path), status_of(error)
        return frame.page(
            request, "rules.html", store, status, facts=plain(rules(service)), **shown
        )

    pages.router.add_api_route("/rules", act, methods=["POST"])

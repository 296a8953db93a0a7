"""Rules in a store: `kbforge decide --rules`, and the rules of a server.

A store's rules hold for all that it has and for all that comes. Whether they are taken or only
tried, the same code regroups the fragments; what was tried is rolled back (`Database.rehearsal`).
If nothing was written since the last change of rules, returning to those before it restores the
store exactly, as undoing a decision does.
"""

from __future__ import annotations

import contextlib
import time
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import chain

import orjson
from msgspec import Struct
from msgspec.structs import asdict

from kbforge.clustering.constraints import disjoint
from kbforge.contracts import Constraints, Fragment
from kbforge.contracts.clusterer import RuleSet
from kbforge.contracts.fragment import comparable
from kbforge.errors import quoted
from kbforge.fit.choices import require_rules
from kbforge.jobs.decide import undo_exactly
from kbforge.jobs.models import RULES, rules_of, with_rules
from kbforge.jobs.opening import EventResult, OpenStore, locked, resume, unchanged
from kbforge.store.changes import changes
from kbforge.store.database import Database
from kbforge.store.store import Store
from kbforge.store.tables import read_rows
from kbforge.store.writing import begin

GOVERNS = "rules"
"""The verb of runs that change the rules."""
_FORMER = "former rules"
"""The fact with the rules before the last change, and the number of its run."""
_MOST_NAMED = 20


def set_rules(path: str, rules: RuleSet, rehearse: bool = False) -> EventResult:
    """Replace the rules of a store, and regroup what they concern; or only try it.

    The result tells how many entities change, the ids of some, and the `counts`; what is tried
    changes nothing.

    Raises:
        UsageError: no fragment has one of the attributes, or one identifies nothing.
        LikelihoodError: no grouping satisfies the rules; nothing has changed.

    """
    began = time.perf_counter()
    tried = Database.rehearsal if rehearse else contextlib.nullcontext
    with locked(path) as store, tried(store.database):
        store.require_made()
        before = store.position
        done = govern(store, rules, began, lambda about: resume(store, GOVERNS, about, began))
        found = [change.entity for change in changes(store, before)]
        told = {**done.told, "changed": len(found), "examples": found[:_MOST_NAMED]}
        told["counts"] = [asdict(one) for one in counts(store)]
        return EventResult(done.run, done.fragments, done.entities, told)


def former_rules(store: Store) -> tuple[RuleSet, int] | None:
    """The rules before the last change, and its run; None if something was written since."""
    never, always, run = store.fact(_FORMER, ((), (), 0))
    return (RuleSet((*never,), (*always,)), run) if store.fact("last") == -run else None


def govern(
    store: Store, rules: RuleSet, began: float, resumed: Callable[[str], OpenStore]
) -> EventResult:
    """Replace the rules of an open store, and end the run. Errors as `set_rules`.

    `resumed` opens the store for the run, if models are needed. If the result is `exact`, sessions
    opened before are outdated. Its `notes` say where the rules do not hold.
    """
    now, about = rules_of(store), in_words(rules)
    told = {"rules": rules._asdict(), "exact": False, "notes": [], "already": rules == now}
    if rules == now:
        return unchanged(store, **told)
    if (former := former_rules(store)) is not None and rules == former[0]:
        run = begin(store, GOVERNS, about, began)
        undo_exactly(store, run, former[1])
        told["exact"] = True
        return EventResult(run.number, store.n_fragments, store.n_entities, told)
    held = resumed(about)
    require_rules(held.session.fragments, rules)
    held.session.govern(*rules)
    held.prepared = with_rules(held.prepared, rules)
    held.writing.followed()
    held.facts |= {RULES: list(rules), _FORMER: [*now, held.run.number]}
    held.commit(finished=True, undoable=True)
    notes = list(held.session.contradictions)
    if not ({*now.never} <= {*rules.never} and {*now.always} <= {*rules.always}):
        notes.append("what withdrawn rules concerned need not be grouped as it was before them")
    return held.result(**{**told, "notes": notes})


class RuleCount(Struct, frozen=True):
    """How many fragments of a store a rule concerns: for `never` those that state a value of the
    attribute, for `always` those that share one; and how many such values there are."""

    rule: str
    attribute: str
    fragments: int
    values: int


def counts(store: Store) -> list[RuleCount]:
    """What the rules in force concern; each reads all fragments that state its attribute."""
    found, rows = list[RuleCount](), store.database.connection
    for rule, names in rules_of(store)._asdict().items():
        for name in names:
            there = read_rows(rows, "fragment", "WHERE instr(line, ?)", [orjson.dumps(name)])
            said = (orjson.loads(line).get("properties", {}) for *_, line in there)
            stated = [comparable(one.get(name, ())) for one in said]
            number = Counter(chain.from_iterable(stated))
            values = {value for value, n in number.items() if n > 1 or rule == "never"}
            concerned = sum(not values.isdisjoint(one) for one in stated)
            found.append(RuleCount(rule, name, concerned, len(values)))
    return found


def in_words(rules: RuleSet) -> str:
    """Rules in words."""
    said = [f"never if {quoted(name)} differs" for name in rules.never]
    said += [f"always if {quoted(name)} is equal" for name in rules.always]
    return ", ".join(said) or "no rules"


def fired(rules: RuleSet, first: Sequence[Fragment], second: Sequence[Fragment]) -> list[str]:
    """The rules that keep some of these fragments apart from some of those, or merge them, with
    the values."""
    own = Constraints(never=rules.never, always=rules.always)
    out = dict[str, None]()
    stated = [value for x in second for value in own.differing(x)]
    for x in first:
        for name, values in own.differing(x):
            for _, other in disjoint((name, values), stated):
                pair = f'"{quoted(min(values))}" and "{quoted(min(other))}"'
                out.setdefault(f"never if {quoted(name)} differs: {pair}")
    shared = {pair for x in second for pair in own.shared(x)}
    for name, value in (pair for x in first for pair in own.shared(x) if pair in shared):
        out.setdefault(f'always if {quoted(name)} is equal: "{quoted(value)}"')
    return list(out)[:_MOST_NAMED]

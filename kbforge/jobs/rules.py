"""Rules in a store: `kbforge decide --rules`, and the rules of a server.

A store's rules hold for all that it has and for all that comes. Whether they are taken or only
tried, the same code regroups the fragments; what was tried is rolled back (`Database.rehearsal`).
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Sequence

from kbforge.contracts import Constraints, Fragment
from kbforge.contracts.clusterer import RuleSet
from kbforge.errors import quoted
from kbforge.fit.choices import require_rules
from kbforge.jobs.models import RULES, rules_of, with_rules
from kbforge.jobs.opening import EventResult, OpenStore, locked, resume, unchanged
from kbforge.store.changes import changes

GOVERNS = "rules"
"""The verb of runs that change the rules."""
_MOST_NAMED = 20


def set_rules(path: str, rules: RuleSet, rehearse: bool = False) -> EventResult:
    """Replace the rules of a store, and regroup what they concern; or only try it.

    The result tells how many entities change, and the ids of some; what is tried changes nothing.

    Raises:
        UsageError: no fragment has one of the attributes, or one identifies nothing.
        LikelihoodError: no grouping satisfies the rules; nothing has changed.

    """
    began = time.perf_counter()
    with locked(path) as store, contextlib.ExitStack() as stack:
        store.require_made()
        if rehearse:
            stack.enter_context(store.database.rehearsal())
        if rules == rules_of(store):
            return unchanged(store, rules=rules._asdict(), changed=0, examples=[], already=True)
        before = store.position
        done = govern(resume(store, GOVERNS, in_words(rules), began), rules)
        found = [change.entity for change in changes(store, before)]
        some = found[:_MOST_NAMED]
        told = {**done.told, "changed": len(found), "examples": some, "already": False}
        return EventResult(done.run, done.fragments, done.entities, told)


def govern(held: OpenStore, rules: RuleSet) -> EventResult:
    """Replace the rules of an open store, and end the run. Errors as `set_rules`."""
    require_rules(held.session.fragments, rules)
    held.session.govern(*rules)
    held.prepared = with_rules(held.prepared, rules)
    held.writing.followed()
    held.facts[RULES] = list(rules)
    held.commit(finished=True)
    return held.result(rules=rules._asdict(), unheld=list(held.session.contradictions))


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
            for other in (of for attribute, of in stated if attribute == name):
                if values.isdisjoint(other):
                    pair = f'"{quoted(min(values))}" and "{quoted(min(other))}"'
                    out.setdefault(f"never if {quoted(name)} differs: {pair}")
    shared = {pair for x in second for pair in own.shared(x)}
    for name, value in (pair for x in first for pair in own.shared(x) if pair in shared):
        out.setdefault(f'always if {quoted(name)} is equal: "{quoted(value)}"')
    return list(out)[:_MOST_NAMED]

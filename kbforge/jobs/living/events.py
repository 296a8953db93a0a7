"""Changes of a stored knowledge base other than new fragments: removal, decisions, revision."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from kbforge.contracts import Decision, DecisionRecord, Interrupted, Revision, SubproblemChanges
from kbforge.errors import BadRecord, UsageError, quoted
from kbforge.files.answers import record_of, same_of
from kbforge.files.fragments import read_json_lines, stop
from kbforge.jobs.living.living import OpenStore, living, opened, writable
from kbforge.store.pages import numbers_from_bytes
from kbforge.store.store import Store
from kbforge.store.tables import (
    bring_back,
    change_rows,
    insert_rows,
    read_rows,
    row_of,
    write_rows,
)
from kbforge.store.writing import begin, write_run

REMOVES = "remove"


@dataclass(frozen=True, slots=True)
class EventResult:
    """What a command did to a store.

    Attributes:
        run: its number; of a command that changed nothing, that of the last run.
        fragments: how many there are now.
        entities: likewise.
        told: figures of its own, by name.

    """

    run: int
    fragments: int
    entities: int
    told: Mapping[str, Any]

    def summary(self) -> dict[str, Any]:
        """The figures that the verb's `--json` prints."""
        return {
            "run": self.run,
            "fragments": self.fragments,
            "entities": self.entities,
            **self.told,
        }


def _done(held: OpenStore, **told: Any) -> EventResult:
    return EventResult(held.run_number, held.session.n_fragments, held.writing.n_entities, told)


def unchanged(store: Store, **told: Any) -> EventResult:
    """What a command did that had been done before: nothing."""
    last = store.last_run
    return EventResult(
        0 if last is None else last.number, store.n_fragments, store.n_entities, told
    )


def remove(path: str, ids: Sequence[str], source: str | None = None) -> EventResult:
    """Take fragments out of a store, as if they had not come: all of them, or none.

    Fragments that were removed before are passed over, so that the command can be given again.

    Args:
        path: of the store.
        ids: of fragments.
        source: all fragments from there, too.

    Raises:
        UsageError: the store never had one of them, or has none from that source.
        LikelihoodError: the likelihood fails on what is left.

    """
    began = time.perf_counter()
    with writable(path) as store:
        store.require_made()
        about = ", ".join([*ids[:10], *([] if source is None else [f"source {source}"])])
        known = store.pages.numbers(ids)
        missing = [id for id in ids if id not in known]
        require_all(store, missing, store.had(missing, REMOVES))
        of_source = [] if source is None else store.of_source(source)
        if source is not None and not of_source:
            before = [run for run in store.runs() if (run.verb, run.about) == (REMOVES, about)]
            if not before:
                raise no_source(store, source)
        wanted = list(dict.fromkeys([*(id for id in ids if id in known), *of_source]))
        if not wanted:
            return unchanged(store, removed=0, already=True)
        held = living(store, REMOVES, about, began)
        numbers = held.require(wanted)
        held.session.remove(wanted)
        held.writing.removed({number: id for id, number in numbers.items()})
        held.run.removed += len(wanted)
        held.commit(finished=True)
        return _done(held, removed=len(wanted), already=False)


def decide(path: str, decisions: Sequence[Decision], unknown: bool = False) -> EventResult:
    """Have a store honour decisions from now on, one after another.

    A decision that is in force is not made again, so that the command can be given again.

    Args:
        path: of the store.
        decisions: what is decided; their names are given anew.
        unknown: whether they may name fragments that have not come.

    Raises:
        UsageError: the store lacks a fragment.
        ContradictionError: a decision cannot hold beside the others, which the message names; those
            before it hold.

    """
    about = "; ".join(called(decision) for decision in decisions[:10])
    with opened(path, "decide", about) as held:
        if not unknown:
            held.require([id for one in decisions for id in (one.first, one.second)])
        in_force = {
            _said(one.decision): one.number for one in held.store.decisions() if one.undone is None
        }
        already = True
        try:
            for decision in decisions:
                if _said(decision) not in in_force:
                    in_force[_said(decision)] = decide_one(held, decision)[0].number
                    already = False
        finally:
            held.finish()
        numbers = [in_force[_said(decision)] for decision in decisions]
        return _done(held, decisions=numbers, already=already and bool(decisions))


def _said(decision: Decision) -> tuple[bool, frozenset[str]]:
    """What a decision says, whichever fragment it names first."""
    return decision.same, frozenset((decision.first, decision.second))


def decide_one(held: OpenStore, decision: Decision) -> tuple[DecisionRecord, SubproblemChanges]:
    """Have a store that is open honour one decision, which it says, and what changed.

    Raises:
        ContradictionError: it cannot hold beside the others; nothing has changed then.
        LikelihoodError: no grouping that satisfies it is possible; likewise.

    """
    number = held.store.next_decision
    named = Decision(decision.same, decision.first, decision.second, f"decision {number}")
    held.session.constrain([named])
    touched = held.writing.followed()
    decided = DecisionRecord(number, named, held.run.number, None)
    held.commit(decided=decided)
    return decided, touched


def undo(path: str, number: int) -> EventResult:
    """Honour a decision no longer.

    If nothing was written since it was made, all is exactly as it was before. Otherwise what it had
    decided is clustered again without it. A decision that was undone stays so.

    Raises:
        UsageError: there is no such decision.

    """
    began = time.perf_counter()
    with writable(path) as store:
        store.require_made()
        decided = next((one for one in store.decisions() if one.number == number), None)
        if decided is None:
            raise UsageError(
                f"there is no decision {number}; kbforge decide --list shows all decisions"
            )
        if decided.undone is not None:
            return unchanged(store, undone=number, exact=None, already=True)
        if store.fact("last") == number:
            return _undo_exactly(store, decided, began)
        held = living(store, "undo", called(decided.decision), began)
        held.session.lift([decided.decision])
        held.writing.followed()
        held.writing.also(
            lambda rows: change_rows(rows, "decision", {number: {"undone": held.run.number}})
        )
        held.commit(finished=True)
        return _done(held, undone=number, exact=False, already=False)


def _undo_exactly(store: Store, decided: DecisionRecord, began: float) -> EventResult:
    """Undo the last decision: every row is what it was before."""
    run = begin(store, "undo", called(decided.decision), began)

    def all_of_it(rows: sqlite3.Connection) -> None:
        bring_back_all(store, rows, run.number, decided.number)
        write_run(rows, run.row(store.n_entities, True))

    store.database.transaction(all_of_it)
    told = {"undone": decided.number, "exact": True, "already": False}
    return EventResult(run.number, store.n_fragments, store.n_entities, told)


def bring_back_all(store: Store, rows: sqlite3.Connection, run: int, decision: int) -> None:
    """Make every row what it was before the last decision, within the transaction at hand.

    Entities that the decision made are no more; their ids lead to those that have their fragments.

    Args:
        store: that was last written by the decision.
        rows: to write to.
        run: the number of the run that undoes it.
        decision: its number.

    """
    vanishing = _images(store, rows, run, decision)
    bring_back(rows, decision)
    rows.execute("DELETE FROM erased WHERE decision = ?", (decision,))
    change_rows(rows, "decision", {decision: {"undone": run}})
    leads = {entity: (orjson.dumps(store.holders(held)),) for entity, held in vanishing.items()}
    write_rows(rows, "redirect", leads)


def _images(
    store: Store, rows: sqlite3.Connection, run: int, decision: int
) -> Mapping[str, Sequence[int]]:
    """Note what the entities are that will be what they were, if the run has not noted it.

    Returns:
        The entities that will be no more, with their fragments' numbers.

    """
    images, vanishing = [], dict[str, Sequence[int]]()
    where = "WHERE decision = ? AND name = 'entity'"
    for _, _, key, before in read_rows(rows, "erased", where, (decision,)):
        (entity,) = orjson.loads(key)
        row = row_of(rows, "entity", entity)
        numbers = [] if row is None else numbers_from_bytes(row[-1]).tolist()
        ids = [fragment.id for fragment in store.pages.fragments(numbers).values()]
        images.append((run, entity, orjson.dumps(ids)))
        if before is None and numbers:
            vanishing[entity] = numbers
    insert_rows(rows, "image", images, "OR IGNORE")
    return vanishing


def revisit(
    path: str,
    passes: int = 1,
    ids: Sequence[str] | None = None,
    on_step: Callable[[int], None] | None = None,
) -> EventResult:
    """Spend time on old mistakes: neighbouring clusters are clustered again.

    What was found is written when it ends, in one transaction; a revisit that is killed leaves the
    store as it was.

    Args:
        path: of the store.
        passes: how often to go over all clusters.
        ids: go over these fragments instead.
        on_step: is told how many steps are done; it may raise `Interrupted` to end there.

    Raises:
        UsageError: the store lacks a fragment.

    """
    with opened(path, "revisit", f"{passes} passes" if ids is None else ", ".join(ids)) as held:
        if ids is not None:
            held.require(ids)
        steps = 0

        def after_step() -> None:
            nonlocal steps
            steps += 1
            held.writing.followed()
            if on_step is not None:
                on_step(steps)

        try:
            found: Revision | None = held.session.revise(passes, ids, after_step)
        except Interrupted:
            found = None
        held.commit(finished=True)
        if found is None:
            return _done(held, steps=steps, complete=False)
        return _done(held, steps=steps, changed=found.changed, gain=found.gain, complete=True)


def require_all(store: Store, ids: Iterable[str], known: Collection[str]) -> None:
    """Refuse ids that are not among those known.

    Raises:
        UsageError: names the first.

    """
    where = quoted(store.database.path, 400)
    for id in ids:
        if id not in known:
            raise UsageError(f'{where} has no fragment "{quoted(id)}"')


def no_source(store: Store, source: str) -> UsageError:
    """The store has no fragment from a source."""
    where = quoted(store.database.path, 400)
    return UsageError(f'{where} has no fragment from the source "{quoted(source)}"')


def called(decision: Decision) -> str:
    """A decision in words."""
    said = "same" if decision.same else "different"
    return f"{said} {quoted(decision.first)} {quoted(decision.second)}"


def read_decisions(path: str) -> list[Decision]:
    """Decisions of a file of JSON lines, which `kbforge review` may have written; "-" is stdin.

    Raises:
        KBForgeError: it cannot be read.
        BadRecord: a line is none; with file and line.

    """
    found = []
    for where, _, value in read_json_lines(path, stop):
        if not isinstance(value, dict):
            raise BadRecord(where, "an object with same, a and b", quoted(value, 40))
        record = record_of(value, where)
        same = same_of(record)
        a, b = (str(record.get(key, str, "the id of a fragment")) for key in ("a", "b"))
        if a == b:
            raise record.wrong("b", "another id than a", f'"{quoted(b)}" again')
        if same is not None:
            found.append(Decision(same, a, b))
    return found


def decisions_of(pairs: Iterable[tuple[str, str, str]]) -> list[Decision]:
    """Decisions of (same or different, id, id).

    Raises:
        UsageError: it says neither, or twice the same id.

    """
    out = []
    for said, first, second in pairs:
        if said not in ("same", "different"):
            raise UsageError(f'expected "same" or "different", got "{quoted(said)}"')
        if first == second:
            raise UsageError(f'expected two fragments, got "{quoted(first)}" twice')
        out.append(Decision(said == "same", first, second))
    return out

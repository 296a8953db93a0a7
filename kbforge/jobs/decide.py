"""Decisions in a store: `kbforge decide`, and `kbforge review` of a store.

    with reviewed("kb.sqlite") as review:
        while evidence := review.question():
            review.answer(evidence, same=ask_somebody(evidence))
        print(review.done().told["decisions"])

Each answer of a person is a decision, which is written before the next question is asked. Those of
programs are kept with their names, and become decisions if the program is as reliable as
`kbforge.files.answers` asks.
Subproblems with a single kept grouping have no questions, and their fragments are not read.

The reported probability of a pair is stored with its decision, and the report compares it with the
answers. The confidence map does not use them: the pairs are selected because much depends on them,
so they do not represent the others, and decided pairs are certain. `kbforge.jobs.refit` uses them
like all decisions when it learns alpha.
"""

from __future__ import annotations

import contextlib
import sqlite3
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import replace
from itertools import count
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import orjson

from kbforge.clustering.constraints import reconciled
from kbforge.contracts import (
    Constraints,
    Decision,
    DecisionRecord,
    Fragment,
    Subproblem,
    SubproblemChanges,
)
from kbforge.contracts.fragment import ASSERTED_OF
from kbforge.errors import (
    ContradictionError,
    LikelihoodError,
    NotFoundError,
    OutputError,
    UsageError,
    did_you_mean,
    listed,
    quoted,
)
from kbforge.evaluation.reliability import Claims, Reliability, reliability
from kbforge.files.answers import (
    MOST_WRONG,
    Said,
    checks_for,
    error_rates,
)
from kbforge.fit.questions import REVIEW_ERROR, PairQuestion, PosteriorQueue
from kbforge.fit.review import MOST_LOOKS, Evidence, Review, Side, evidence_on
from kbforge.jobs.models import attributes_of
from kbforge.jobs.opening import (
    EventResult,
    OpenStore,
    locked,
    opened,
    require_all,
    resume,
    unchanged,
)
from kbforge.store.assertions import assertions_of, note_changes, write_assertion
from kbforge.store.audit import made_by, record, signature, signed
from kbforge.store.pages import numbers_from_bytes
from kbforge.store.store import Store
from kbforge.store.tables import (
    ask,
    bring_back,
    change_rows,
    insert_rows,
    read_rows,
    row_of,
    rows_of,
    write_rows,
)
from kbforge.store.writing import ActiveRun, begin, write_run

UNDOES = "undo"
"""The verb of runs that withdraw a decision."""
_REPORTED = "reported"
"""The fact with the reported probability of each decided pair."""
_PROGRAMS = "programs"
"""The fact with the answers of programs: by, a, b, same, and the number of the decision, if any."""


Ties: TypeAlias = Callable[[Store, Decision], Sequence[Decision]]
"""The fragments that a decision also says are one entity, as decisions."""


def decide(
    path: str, decisions: Sequence[Decision], unknown: bool = False, ties: Ties | None = None
) -> EventResult:
    """Add decisions to a store, which it honours from now on, one after another.

    A decision in force is not made again, so the command can be repeated. With `unknown`, decisions
    may name fragments that do not exist yet. The `ties` of a decision hold as long as it does.

    Raises:
        UsageError: the store lacks a fragment.
        ContradictionError: a decision contradicts others, which the message names; those before it
            are in force.
        LikelihoodError: no grouping satisfies a decision; those before it are in force.

    """
    about = ", ".join(in_words(decision) for decision in decisions[:10])
    with opened(path, "decide", about) as held:
        return honour(held, decisions, unknown, ties=ties)


def honour(
    held: OpenStore,
    decisions: Sequence[Decision],
    unknown: bool = False,
    reported: float | None = None,
    told: bool = True,
    ties: Ties | None = None,
) -> EventResult:
    """Add decisions to an open store and end the run. Ties and errors as `decide`.

    `reported` has the pairs' reported probabilities when they were asked about; `told` is as in
    `OpenStore.commit`.
    """
    if not unknown:
        ids = [id for one in decisions for id in (one.first, one.second)]
        require_all(held.store, ids, held.store.pages.numbers(ids))
    in_force = {
        content_of(one.decision): one.number for one in held.store.decisions() if one.undone is None
    }
    already = True
    try:
        for decision in decisions:
            if content_of(decision) not in in_force:
                tied = [] if ties is None else ties(held.store, decision)
                try:
                    made, _ = honour_one(held, decision, reported, tied)
                except ContradictionError:
                    if ties is not whole_entities:
                        raise
                    made, _ = honour_one(held, decision, reported)
                in_force[content_of(decision)] = made.number
                already = False
    finally:
        held.finish(told)
    numbers = [in_force[content_of(decision)] for decision in decisions]
    return held.result(decisions=numbers, already=already and bool(decisions))


def whole_entities(store: Store, decision: Decision) -> list[Decision]:
    """The ties of a person who says that two fragments are the same: of their whole entities.

    If other decisions forbid that, the two alone are the same.
    """
    numbers = store.pages.numbers([decision.first, decision.second] if decision.same else [])
    return [
        Decision(True, id, other.id)
        for id, number in numbers.items()
        for other in store.pages.fragments(store.entity_of(number)[1]).values()
        if other.id != id
    ]


def content_of(decision: Decision) -> tuple[bool | None, frozenset[str]]:
    """A decision's content, regardless of the order of its fragments."""
    return decision.same, frozenset((decision.first, decision.second))


def honour_one(
    held: OpenStore,
    decision: Decision,
    reported: float | None = None,
    tied: Sequence[Decision] = (),
) -> tuple[DecisionRecord, SubproblemChanges]:
    """Add one decision and its ties to a store, or change nothing and raise as `decide`.

    The pair's `reported` probability is stored with it. Returns the decision with its number, and
    what changed.
    """
    before, number = dict(held.facts), held.store.next_decision
    if reported is not None:
        held.facts[_REPORTED] = {**held.store.fact(_REPORTED, {}), str(number): reported}
    try:
        (decided,), touched = honour_together(held, [[decision, *tied]])
    finally:
        held.facts = before
    return decided, touched


def honour_together(
    held: OpenStore, said: Sequence[Sequence[Decision]]
) -> tuple[list[DecisionRecord], SubproblemChanges]:
    """Add decisions, each before its ties, to a store in one step; otherwise as `honour_one`.

    They are undone exactly together: one of several is undone by clustering again.
    """
    made, binding = list[DecisionRecord](), list[Decision]()
    for number, (one, *tied) in enumerate(said, held.store.next_decision):
        pair = one.first, one.second
        made.append(DecisionRecord(number, one.same, *pair, held.run.number, None))
        bound = tied if one.same is None else [one, *tied]
        binding += [replace(each, name=f"decision {number}") for each in bound]
    try:
        held.session.constrain(binding)
    except ContradictionError as error:
        if not {"", *(one.name for one in binding)}.issuperset(error.decisions):
            error.args = (f"{error}; kbforge decide STORE --undo NUMBER withdraws a decision",)
        raise
    touched = held.writing.followed()
    held.commit(decided=made)
    return made, touched


def assert_value(path: str, about: str, attribute: str, value: str) -> EventResult:
    """Settle an attribute of a fragment's entity on a value, as `asserted`."""
    with opened(path, "decide", asserting(about, attribute, value)) as held:
        return asserted(held, about, attribute, value)


def asserting(about: str, attribute: str, value: str) -> str:
    """What is asserted, in words."""
    return f'value of {quoted(about)}: {quoted(attribute)} is "{quoted(value)}"'


def asserted(
    held: OpenStore, about: str, attribute: str, value: str, told: bool = True
) -> EventResult:
    """Settle an attribute of a fragment's entity on a value that a person asserts, and end the run.

    It is a decision, which can be undone. The person is who signs (`kbforge.store.audit`); the
    latest assertion holds, and is not repeated.

    Raises:
        NotFoundError: the store has no such fragment.
        UsageError: no fragment of the store has the attribute.
        BadRecord: the value is none.

    """
    store, (by, note) = held.store, signature()
    require_all(store, [about], store.pages.numbers([about]))
    known = attributes_of(store)
    if known and attribute not in known:
        has = f"it has {listed(sorted(known), 8)}{did_you_mean(attribute, known)}"
        raise UsageError(f'the store has no attribute "{quoted(attribute)}"; {has}')
    number = store.next_decision
    ids = (f"{by}, decision {number}{'.' * more}" for more in count())
    id = next(id for id in ids if not store.pages.numbers([id]))
    metadata = {ASSERTED_OF: about, **({"note": note} if note else {})}
    said = {"id": id, "properties": {attribute: [value]}, "source": by, "metadata": metadata}
    assertion = Fragment.from_json(said, "what is asserted")
    decided = DecisionRecord(number, True, about, id, held.run.number, None, True)
    ((entity, own),) = _told_of(store, decided)
    there = [x for x in assertions_of(store.database.connection, own) if attribute in x.properties]
    already = bool(there) and (there[-1].source, there[-1].properties) == (by, assertion.properties)
    if already:
        number = next(one.number for one in store.decisions() if one.second == there[-1].id)
    else:
        held.writing.also(lambda rows: write_assertion(rows, decided, assertion))
        held.writing.also(lambda rows: note_changes(rows, held.run.number, [(entity, own)]))
        held.commit(decided=[decided])
    held.finish(told)
    return held.result(decisions=[number], already=already)


def _told_of(store: Store, decided: DecisionRecord) -> list[tuple[str, list[str]]]:
    """The entity about which a decision asserts a value, if any, and the ids of its fragments."""
    numbers = store.pages.numbers([decided.first]) if decided.asserts else {}
    return [
        (entity, [x.id for x in store.pages.fragments(members).values()])
        for entity, members in map(store.entity_of, numbers.values())
    ]


def answers_decided(held: OpenStore, answers: Sequence[Decision]) -> list[str]:
    """Add answers to an open store; returns sentences about those that contradict others.

    If answers contradict each other, the later one holds. Decisions in force hold.
    """
    answers, reasons = reconciled(answers, Constraints(), ())
    in_force = {content_of(one.decision) for one in held.store.decisions() if one.undone is None}
    for answer in answers:
        if content_of(answer) not in in_force:
            try:
                honour_one(held, answer)
            except (ContradictionError, LikelihoodError) as error:
                reasons.append(f"{quoted(answer.name)} does not hold: {error}")
    return reasons


def undo(path: str, number: int) -> EventResult:
    """Withdraw a decision.

    If nothing was written since, the store is exactly as before. Otherwise the fragments that it
    affected are clustered again without it. An undone decision stays undone.

    Raises:
        UsageError: there is no such decision.

    """
    began = time.perf_counter()
    with locked(path) as store:
        store.require_made()
        return take_back(store, number, began, lambda about: resume(store, UNDOES, about, began))


def take_back(
    store: Store,
    number: int,
    began: float,
    resumed: Callable[[str], OpenStore],
    told: bool = True,
    of_run: bool = False,
) -> EventResult:
    """Withdraw a decision of an open store; as `undo`.

    With `of_run`, the number is that of a run: all its decisions that are in force are withdrawn as
    one act, the latest first, and `told["undone"]` counts them. `resumed` opens the store for the
    run that undoes, if models are needed. If the result is `exact`, sessions opened before are
    outdated. `told` is as in `OpenStore.commit`.
    """
    decisions = store.decisions()
    made = [one for one in decisions if (one.run if of_run else one.number) == number]
    if not made:
        none = f"there is no decision {number}; kbforge decide --list shows all decisions"
        raise NotFoundError(f"run {number} made no decision" if of_run else none)
    left = [one for one in made if one.undone is None]
    undone = len(left) if of_run else number
    if not left:
        return unchanged(store, undone=undone, exact=None, already=True)
    about = made[0].second if made[0].asserts else in_words(made[0].decision)
    about = f"run {number}" if of_run else about
    run = begin(store, UNDOES, about, began)
    in_force = [one for one in decisions if one.undone is None]
    while left and (last := store.fact("last") or 0) > 0:
        together = [one for one in in_force if one.number >= last]
        if left[-len(together) :] != together:
            break
        del left[-len(together) :], in_force[-len(together) :]
        undo_exactly(store, run, together, not left)
    if not left:
        done = {"undone": undone, "exact": True, "already": False}
        return EventResult(run.number, store.n_fragments, store.n_entities, done)
    held = resumed(about)
    held.run.undoes = left.pop()
    all_of_them = [*left, held.run.undoes]
    names = {one.decision.name for one in all_of_them}
    held.session.lift([one for one in held.session.constraints.decisions if one.name in names])
    held.writing.followed()

    def note(rows: sqlite3.Connection) -> None:
        for one in left:
            record(rows, held.run.number, UNDOES, "", one)
        change_rows(
            rows, "decision", {one.number: {"undone": held.run.number} for one in all_of_them}
        )
        for one in all_of_them:
            if one.asserts:
                write_assertion(rows, one, None)
                note_changes(rows, held.run.number, _told_of(store, one))

    held.writing.also(note)
    held.commit(finished=True, told=told)
    return held.result(undone=undone, exact=False, already=False)


def undo_exactly(
    store: Store, run: ActiveRun, undone: Sequence[DecisionRecord] | int, finished: bool = True
) -> None:
    """Undo the last decisions, made together, or the change of rules in the last run.

    Every row is restored. Entities that were made no longer exist; their ids redirect to those with
    their fragments.
    """
    decided, undoable = ((), -undone) if isinstance(undone, int) else (undone, undone[0].number)

    def all_of_it(rows: sqlite3.Connection) -> None:
        vanishing = _images(store, rows, run.number, undoable)
        bring_back(rows, undoable)
        rows.execute("DELETE FROM erased WHERE decision = ?", (undoable,))
        if not decided:
            record(rows, run.number, run.verb, run.about)
        for one in decided:
            record(rows, run.number, UNDOES, run.about, one)
            note_changes(rows, run.number, _told_of(store, one))
        change_rows(rows, "decision", {one.number: {"undone": run.number} for one in decided})
        leads = {entity: (orjson.dumps(store.holders(held)),) for entity, held in vanishing.items()}
        write_rows(rows, "redirect", leads)
        write_run(rows, run.row(ask(rows, "SELECT count(*) FROM entity")[0][0], finished))

    store.database.transaction(all_of_it)


def _images(
    store: Store, rows: sqlite3.Connection, run: int, undoable: int
) -> Mapping[str, Sequence[int]]:
    """Record the current form of the entities to be restored, unless the run has done so.

    Returns the entities that will no longer exist, with their fragments' numbers.
    """
    images, vanishing = [], dict[str, Sequence[int]]()
    where = "WHERE decision = ? AND name = 'entity'"
    for _, _, key, before in read_rows(rows, "erased", where, (undoable,)):
        (entity,) = orjson.loads(key)
        row = row_of(rows, "entity", entity)
        numbers = [] if row is None else numbers_from_bytes(row[-1]).tolist()
        ids = [fragment.id for fragment in store.pages.fragments(numbers).values()]
        images.append((run, entity, orjson.dumps(ids)))
        if before is None and numbers:
            vanishing[entity] = numbers
    insert_rows(rows, "image", images, "OR IGNORE")
    return vanishing


def in_words(decision: Decision) -> str:
    """A decision in words."""
    return f"{decision.word} {quoted(decision.first)} {quoted(decision.second)}"


def decisions_of(pairs: Iterable[tuple[str, str, str]]) -> list[Decision]:
    """Decisions from ("same" or "different", id, other id); a `UsageError` for anything else."""
    out = []
    for said, first, second in pairs:
        if said not in ("same", "different"):
            raise UsageError(f'expected "same" or "different", got "{quoted(said)}"')
        if first == second:
            raise UsageError(f'expected two fragments, got "{quoted(first)}" twice')
        out.append(Decision(said == "same", first, second))
    return out


# --- review ---------------------------------------------------------------------------------------


class StoreReview(Review[PairQuestion]):
    """The review of an open store: answers take effect at once.

    After an `OutputError` it ends.
    """

    def __init__(self, held: OpenStore) -> None:
        super().__init__()
        self._held, self._queue = held, PosteriorQueue()
        self._made: list[DecisionRecord | None] = []  # None: it was skipped
        pages = map(held.store.pages.page, held.store.pages.names())
        self._queue.update(page.subproblem() for page in pages if len(page.rows) > 1)
        self._queue.leave(held.store.unsettled())

    def question(self) -> Evidence[PairQuestion] | None:
        """As `Review`; its value stands after a look at the evidence."""
        evidence = None
        for _ in range(MOST_LOOKS):
            if (question := self._queue.next()) is None:
                return None
            subproblem = self._subproblem(question.subproblem)
            evidence = evidence_on(question, subproblem, self._fragment, self._held.prepared.spec)
            if not self._queue.bound(question, evidence.doubt):
                break
        return evidence

    @property
    def n_useful(self) -> int:
        """As `Review`."""
        return self._queue.left

    def cannot_tell(self, evidence: Evidence[PairQuestion]) -> None:
        """As `Review`: a decision that binds nothing, and nobody is asked again."""
        pair = evidence.first.fragment.id, evidence.second.fragment.id
        decided, _ = honour_one(self._held, Decision(None, *pair))
        self._made.append(decided)
        self._queue.add(evidence.question, None)
        self._said.append((evidence.question, None))

    def _subproblem(self, name: int) -> Subproblem:
        return self._held.store.pages.page(name).subproblem()

    def _fragment(self, number: int) -> Fragment:
        return self._held.store.pages.fragments([number])[number]

    @property
    def answers(self) -> list[Said]:
        """As `Review`."""
        return answers_in(self._held.store)

    def checks(self, program: str) -> Iterator[Evidence[PairQuestion]]:
        """As `Review`; without their entities, which would tell what the person said."""
        pages, answers = self._held.store.pages, self.answers
        number = pages.numbers([id for one in answers for id in (one.a, one.b)])
        answers = [one for one in answers if one.a in number and one.b in number]  # others may come
        self._queue.skip((number[one.a], number[one.b]) for one in answers if one.is_of(program))
        for check in checks_for(program, answers):
            fragments = pages.fragments([number[check.a], number[check.b]])
            first, second = (Side(fragments[number[id]]) for id in (check.a, check.b))
            yield Evidence(_CHECK, first, second)

    def _keep(self, evidence: Evidence[PairQuestion], same: bool | None, by: str | None) -> None:
        """The answers of programs that contradict decisions, or are too often wrong, decide
        nothing."""
        if by is None:
            self._decide(evidence.question, same, REVIEW_ERROR)
            return
        held, question = self._held, evidence.question
        said = Said(by, evidence.first.fragment.id, evidence.second.fragment.id, same)
        before, wrong = held.store.fact(_PROGRAMS, []), error_rates([*self.answers, said])[by]
        if same is not None and wrong <= MOST_WRONG and question is not _CHECK:
            held.facts[_PROGRAMS] = [*before, [*said, held.store.next_decision]]
            with contextlib.suppress(ContradictionError, LikelihoodError), signed(by):
                self._decide(question, same, wrong)
                return
        held.facts[_PROGRAMS] = [*before, [*said, None]]
        held.commit()
        self._made.append(None)
        if question is not _CHECK:
            self._queue.add(question, same, wrong)
            self._queue.pass_over(question)

    def _decide(self, question: PairQuestion, same: bool | None, wrong: float) -> None:
        """Apply an answer as a decision, unless it is unknown; skip a question whose answer cannot
        hold."""
        if same is None:
            self._made.append(None)
            self._queue.add(question, None)
            return
        first, second = (self._fragment(n).id for n in (question.first, question.second))
        try:
            decided, touched = honour_one(
                self._held, Decision(same, first, second), question.reported
            )
        except (ContradictionError, LikelihoodError):
            self._queue.pass_over(question)
            raise
        self._made.append(decided)
        self._queue.add(question, same, wrong)
        self._follow(touched)

    def _take_back(self, same: bool | None) -> None:
        decided = self._made[-1]
        touched = SubproblemChanges((), ()) if decided is None else self._withdraw(decided)
        self._made.pop()
        self._queue.undo()
        self._follow(touched)

    def _follow(self, touched: SubproblemChanges) -> None:
        self._queue.gone(touched.gone)
        self._queue.update(map(self._subproblem, touched.changed))

    def _withdraw(self, decided: DecisionRecord) -> SubproblemChanges:
        """Undo the last decision, which restores the store exactly; returns what changed."""
        held = self._held
        rows = held.store.database.connection
        where = "WHERE decision = ? AND name = 'page'"
        names = {
            orjson.loads(key)[0]
            for _, _, key, _ in read_rows(rows, "erased", where, (decided.number,))
        }
        undo_exactly(held.store, held.run, [decided], False)
        held.reopen()
        there = names & set(held.store.pages.names())
        return SubproblemChanges(tuple(sorted(there)), tuple(sorted(names - there)))

    def done(self) -> EventResult:
        """The result so far."""
        return self._held.result(decisions=[one.number for one in self._made if one is not None])


_CHECK = PairQuestion(-1, -1, -1, 0.5, 0.5, False, 0.0, 0.0)
"""Stands for the question that a person has answered."""


def answers_in(store: Store) -> list[Said]:
    """The decisions in force about two fragments and the other answers of programs, and who gave
    them."""
    programs, by = store.fact(_PROGRAMS, []), deciders(store)
    decided = [
        Said(by.get(one.number), one.first, one.second, one.same)
        for one in store.decisions()
        if one.undone is None and not one.asserts and one.first != one.second
    ]
    return decided + [Said(*said) for *said, decision in programs if decision is None]


def deciders(store: Store) -> dict[int, str]:
    """The programs that made decisions, by the numbers of these."""
    return {number: by for by, *_, number in store.fact(_PROGRAMS, []) if number is not None}


class SignedDecision(NamedTuple):
    """A decision (`DecisionRecord`), who made it, when and why, as far as the store knows."""

    number: int
    same: bool | None
    a: str
    b: str
    run: int
    undone: int | None
    by: str | None
    program: bool  # whether that is one
    at: float | None  # seconds since 1970, UTC
    note: str
    asserts: str | None  # in words, if it asserts a value that was not erased
    verb: str  # of the run that made it


def signed_decisions(
    store: Store, made: Sequence[DecisionRecord] | None = None
) -> list[SignedDecision]:
    """All decisions, or some, in order. Those older than the audit have no time."""
    numbers = None if made is None else [one.number for one in made]
    made = store.decisions() if made is None else made
    lines, programs, found = made_by(store.database.connection, numbers), deciders(store), []
    for one in made:
        line, program = lines.get(one.number), programs.get(one.number)
        told = (program, None, "", "") if line is None else (line.by, line.at, line.note, line.verb)
        who, when, why, verb = told
        says = (line.said or {}).get("about") if line is not None and one.asserts else None
        made_so = one.number, one.same, one.first, one.second, one.run, one.undone
        found.append(SignedDecision(*made_so, who, program is not None, when, why, says, verb))
    return found


@contextlib.contextmanager
def reviewed(path: str) -> Iterator[StoreReview]:
    """A store that is open for a review, one run from start to end."""
    with opened(path, "review", "") as held:
        try:
            yield StoreReview(held)
        except OutputError:  # the session is ahead of what could be written
            raise
        except BaseException:
            held.finish()
            raise
        held.finish()


def answered(store: Store) -> Reliability:
    """How often reviewed pairs are one entity, by their reported probability.

    Decisions in force are the answers.
    """
    known = store.fact(_REPORTED, {})
    said = [
        (known[str(one.number)], one.decision.same)
        for one in store.decisions()
        if one.undone is None and str(one.number) in known
    ]
    reported = np.array([probability for probability, _ in said], np.float64)
    true = np.array([same for _, same in said], np.bool_)
    # the table does not look at subproblems
    none = np.zeros(len(said), np.int64)
    return reliability(Claims(reported, none.astype(np.float64), none, true))


def forget(rows: sqlite3.Connection, gone: Set[str]) -> None:
    """Delete the reported probabilities of pairs whose decisions no longer exist, and the answers
    of programs about fragments that are gone, within a transaction."""
    there = {str(number) for number, *_ in read_rows(rows, "decision")}
    for name, content in list(rows_of(rows, "meta", "name", [_REPORTED, _PROGRAMS])):
        told: Any = orjson.loads(content)
        if name == _REPORTED:
            told = {number: p for number, p in told.items() if number in there}
        else:
            told = [said for said in told if gone.isdisjoint(said[1:3])]
        write_rows(rows, "meta", {name: (orjson.dumps(told),)})

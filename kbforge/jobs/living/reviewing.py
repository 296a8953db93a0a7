"""Review of a store: questions about uncertain pairs, each answer a decision.

    with reviewed("kb.sqlite") as review:
        while evidence := review.asks.question():
            review.asks.answer(evidence, same=ask_somebody(evidence))
        print(review.done().told["decisions"])

An answer is written before the next question is asked. Subproblems of which one grouping was kept
have no question, and their fragments are not read.

What was reported of a pair when it was asked about is kept beside its decision, and the report
compares it with the answers. The confidence map does not hear them: pairs are asked about because
much depends on them, so they do not stand for the others, and once decided they hold.
`kbforge.jobs.living.refit` hears them as all decisions, where it learns alpha.
"""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterator

import numpy as np
import orjson

from kbforge.clustering.pages import subproblem_of
from kbforge.contracts import (
    Decision,
    DecisionRecord,
    Fragment,
    Pages,
    Subproblem,
    SubproblemChanges,
)
from kbforge.errors import OutputError
from kbforge.evaluation.reliability import Claims, Reliability, reliability
from kbforge.fit.questions import PairQuestion, PosteriorQueue
from kbforge.fit.review import PosteriorReview
from kbforge.jobs.living.events import EventResult, bring_back_all, decide_one
from kbforge.jobs.living.living import OpenStore, opened
from kbforge.store.store import Store
from kbforge.store.tables import read_rows, row_of, write_rows
from kbforge.store.writing import write_run

_REPORTED = "reported"
"""The fact that has, by decision, the probability that its pair is one entity."""


class Review:
    """A store that is open to be reviewed.

    Args:
        held: the store.

    Attributes:
        asks: what asks and hears.

    """

    def __init__(self, held: OpenStore) -> None:
        self._held = held
        self._made: list[DecisionRecord] = []
        self.asks = PosteriorReview(
            self, held.prepared.problem, PosteriorQueue(), _in_doubt(held.store.pages)
        )

    def subproblem(self, name: int) -> Subproblem:
        """As `kbforge.fit.review.ReviewState`."""
        return subproblem_of(self._held.store.pages.page(name))

    def fragment(self, number: int) -> Fragment:
        """As `kbforge.fit.review.ReviewState`."""
        return self._held.store.pages.fragments([number])[number]

    def decide(self, question: PairQuestion, same: bool) -> SubproblemChanges:
        """As `kbforge.fit.review.ReviewState`; it is committed.

        Raises:
            OutputError: it cannot be written; the store is as it was, and the review at its end.

        """
        held = self._held
        first, second = (self.fragment(n).id for n in (question.first, question.second))
        number = str(held.store.next_decision)
        before = dict(held.facts)
        known = held.store.fact(_REPORTED, {})
        held.facts[_REPORTED] = {**known, number: question.reported}
        try:
            decided, touched = decide_one(held, Decision(same, first, second))
        finally:
            held.facts = before
        self._made.append(decided)
        return touched

    def undo(self) -> SubproblemChanges:
        """As `kbforge.fit.review.ReviewState`; all is exactly as it was."""
        held, number = self._held, self._made[-1].number
        rows = held.store.database.connection
        where = "WHERE decision = ? AND name = 'page'"
        names = {
            orjson.loads(key)[0] for _, _, key, _ in read_rows(rows, "erased", where, (number,))
        }

        def all_of_it(rows: sqlite3.Connection) -> None:
            bring_back_all(held.store, rows, held.run.number, number)
            write_run(rows, held.run.row(held.store.n_entities, False))

        held.store.database.transaction(all_of_it)
        held.reopen()
        self._made.pop()
        there = names & set(held.store.pages.names())
        return SubproblemChanges(tuple(sorted(there)), tuple(sorted(names - there)))

    def done(self) -> EventResult:
        """What came of it by now."""
        held = self._held
        numbers = [decided.number for decided in self._made]
        return EventResult(
            held.run_number,
            held.session.n_fragments,
            held.writing.n_entities,
            {"decisions": numbers},
        )


@contextlib.contextmanager
def reviewed(path: str) -> Iterator[Review]:
    """A store that is open to be reviewed, one run from begin to end.

    Args:
        path: of the store.

    Raises:
        KBForgeError: it cannot be opened, is written by another program, or is no store.

    """
    with opened(path, "review", "") as held:
        try:
            yield Review(held)
        except OutputError:  # the session is ahead of what could be written
            raise
        except BaseException:
            held.finish()
            raise
        held.finish()


def answered(store: Store) -> Reliability:
    """How often pairs that a review asked about are one entity, by what was reported of them.

    Args:
        store: its decisions in force are the answers.

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


def forget(rows: sqlite3.Connection) -> None:
    """Forget what was reported of pairs whose decisions are no more, within a transaction."""
    there = {str(number) for number, *_ in read_rows(rows, "decision")}
    found = row_of(rows, "meta", _REPORTED)
    if found is not None:
        left = {number: p for number, p in orjson.loads(found[1]).items() if number in there}
        write_rows(rows, "meta", {_REPORTED: (orjson.dumps(left),)})


def _in_doubt(pages: Pages) -> Iterator[Subproblem]:
    for name in pages.names():
        page = pages.page(name)
        if len(page.rows) > 1:
            yield subproblem_of(page)

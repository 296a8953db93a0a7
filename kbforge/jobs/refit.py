"""Refit: learn the models from all fragments of a store, and reweigh its particles.

Nothing is clustered again and no source is read: the groupings stay those that the particles hold,
each with the target density under the models of today. The index leads where its new keys lead.
Decisions are heard as answers where likelihood or alpha follow from the file.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.special import logsumexp

from kbforge.clustering.prior import DirichletProcess
from kbforge.clustering.scoring import without_model
from kbforge.contracts import (
    CandidateIndex,
    Checkpoint,
    Cluster,
    FloatArray,
    Fragment,
    Interrupted,
    KeyFamilies,
    Likelihood,
    Page,
    Revision,
    Session,
    SubproblemChanges,
)
from kbforge.errors import LikelihoodError, quoted
from kbforge.files.answers import NumberedAnswer
from kbforge.fit.choices import Choices, Fit, default_options
from kbforge.fit.prepare import prepare
from kbforge.jobs.confidence import WHOLE, tell
from kbforge.jobs.models import FittedModels, chosen, drift_of, freeze
from kbforge.jobs.update import EventResult, opened, writable
from kbforge.store.store import Store
from kbforge.store.tables import insert_rows
from kbforge.store.writing import ActiveRun, StoreWriter, begin

REFITS = "refit"
_AT_ONCE = 2000  # clusters scored in one question


def refit(path: str, on_step: Callable[[int, int], None] | None = None) -> EventResult:
    """Learn again from all fragments of a store, and weigh its particles by what was learned.

    If nothing was written since the last time, nothing changes.

    Args:
        path: of the store.
        on_step: is told how many subproblems are weighed, of how many.

    Raises:
        KBForgeError: as `prepare`.
        LikelihoodError: no particle of a subproblem is possible any more; nothing has changed then.

    """
    began = time.perf_counter()
    with writable(path) as store:
        store.require_made()
        learned, last = learn(store), store.last_run
        already = last is not None and last.verb == REFITS and last.finished
        already = already and learned.frozen.facts["frozen"] == store.fact("frozen")
        before = chosen(store)[2]
        if not already:
            run = begin(store, REFITS, "", began)
            weighed = weigh(store, learned, run, on_step)
            row = run.row(weighed.n_entities, finished=True)
            weighed.write(row, learned.facts, then=learned.tells(store))
            last = store.last_run
        assert last is not None
        return EventResult(
            last.number,
            store.n_fragments,
            store.n_entities,
            {
                "likelihood": learned.prepared.likelihood,
                "alpha_before": before,
                "alpha": learned.prepared.alpha,
                "subproblems": len(store.pages.names()),
                "notes": list(learned.prepared.notes),
                "already": already,
            },
        )


@dataclass(frozen=True, slots=True)
class RefittedModels:
    """What was learned again.

    Attributes:
        prepared: the models.
        seed: of the store.
        frozen: what to keep of them.
        facts: of the whole, that are to be written.

    """

    prepared: Fit
    seed: int
    frozen: FittedModels
    facts: Mapping[str, object]

    def tells(self, store: Store) -> Callable[[sqlite3.Connection], None]:
        """What tells the confidence of all entities by these models, in the same transaction."""
        made = self.prepared
        return lambda rows: tell(store, rows, made.confidence, made.models.index)


def learn(store: Store) -> RefittedModels:
    """Fit the models to all that a store holds; nothing is written.

    The models of before are not read, so that damaged ones can be replaced.

    Raises:
        KBForgeError: as `prepare`.

    """
    choices, likelihood, _ = chosen(store)
    fragments = list(store.fragments())
    prepared = _learned(store, choices, likelihood, fragments)
    drift = drift_of(fragments, due=False)
    frozen = freeze(prepared, choices, fragments, drift)
    facts = {"frozen": frozen.facts["frozen"], "drift": drift.to_json(), "last": None, WHOLE: None}
    return RefittedModels(prepared, choices.seed, frozen, facts)


def weigh(
    store: Store,
    learned: RefittedModels,
    run: ActiveRun,
    on_step: Callable[[int, int], None] | None = None,
) -> StoreWriter:
    """Weigh all particles by what was learned; models and particles are yet to be written.

    Raises:
        LikelihoodError: no particle of a subproblem is possible any more.

    """
    prepared, kept = learned.prepared, learned.frozen.kept
    fresh = prepared.clusterer.open(prepared.problem, np.random.default_rng(learned.seed))
    writing = StoreWriter(store.database, _weighed(store, prepared, fresh, on_step), run)
    writing.followed()
    writing.also(lambda rows: _replace_learned(rows, kept))
    return writing


def _learned(store: Store, choices: Choices, likelihood: str, fragments: Sequence[Fragment]) -> Fit:
    """The store's choices, prepared on all that it holds; the likelihood stays."""
    options = dict(choices.options)
    if choices.likelihood is None and not choices.of("likelihood"):
        options["likelihood"] = default_options(likelihood, choices.defaults)
    choices = replace(choices, likelihood=likelihood, options=options)
    place = {fragment.id: at for at, fragment in enumerate(fragments)}
    decisions = store.pages.totals.constraints.decisions if store.has_session else ()
    answers = [
        NumberedAnswer(place[one.first], place[one.second], one.same, False)
        for one in decisions
        if one.first in place and one.second in place
    ]
    return prepare(fragments, choices, answers)


def _replace_learned(rows: sqlite3.Connection, kept: Mapping[str, bytes]) -> None:
    rows.execute("DELETE FROM kept")
    insert_rows(rows, "kept", kept.items())
    rows.execute("DELETE FROM led")


@dataclass(frozen=True, slots=True)
class ReweighedSession:
    """All pages of a session under other models, to be written as a session is.

    Attributes:
        pages: by name.
        of_all: with all that is to be written.

    """

    pages: Mapping[int, Page]
    of_all: Checkpoint

    def touched(self) -> SubproblemChanges:
        """All subproblems."""
        return SubproblemChanges(tuple(self.pages), ())

    def clusters(self, name: int) -> Sequence[Cluster]:
        """The heaviest particle of a subproblem."""
        page = self.pages[name]
        clusters = clusters_of(page)
        return [clusters[cell] for cell in page.cells[: page.rows[0]].tolist()]

    def checkpoint(self) -> Checkpoint:
        """All of it."""
        return self.of_all


def _weighed(
    store: Store,
    prepared: Fit,
    fresh: Session,
    on_step: Callable[[int, int], None] | None,
) -> ReweighedSession:
    """The pages of a store under other models.

    Args:
        store: has the pages.
        prepared: the models.
        fresh: a session by them that has taken in nothing; it knows their settings.
        on_step: is told how many subproblems are weighed, of how many.

    """
    totals = store.pages.totals
    problem = without_model(prepared.problem)
    prior = DirichletProcess(problem.alpha)
    names = store.pages.names()
    pages: dict[int, Page] = {}
    free = totals.free.tolist()
    leads = _KeyFamilies(problem.index)
    for done, name in enumerate(names, 1):
        old = store.pages.page(name)
        fragments = store.pages.fragments(np.unique(old.members).tolist())
        pages[name] = reweighed(old, fragments, problem.likelihood, prior)
        free += sorted({*old.slots.tolist()} - {*pages[name].slots.tolist()})
        leads.add(pages[name], fragments)
        if on_step is not None:
            on_step(done, len(names))
    settings = fresh.checkpoint().totals.settings
    now = replace(totals, settings=settings, free=np.array(free, dtype=np.int64))
    of_all = Checkpoint(now, tuple(pages.values()), (), leads.found())
    return ReweighedSession(pages, of_all)


def reweighed(
    page: Page, fragments: Mapping[int, Fragment], likelihood: Likelihood, prior: DirichletProcess
) -> Page:
    """A page with the scores of another likelihood, its particles by their target density.

    Raises:
        LikelihoodError: none of its particles is possible.

    """
    clusters = clusters_of(page)
    sets = [[fragments[number] for number in cluster] for cluster in clusters]
    parts = [
        likelihood.log_marginal(sets[start : start + _AT_ONCE])
        for start in range(0, len(sets), _AT_ONCE)
    ]
    scores: FloatArray = np.concatenate(parts)
    terms = prior.log_terms(clusters, scores)
    starts = np.concatenate([[0], np.cumsum(page.rows)])
    weights = np.add.reduceat(terms[page.cells], starts[:-1])
    total = logsumexp(weights)
    if not np.isfinite(total):
        some = quoted(fragments[int(page.members[0])].id)
        raise LikelihoodError(f'no grouping of "{some}" and its neighbours is possible any more')
    order = np.argsort(-weights, kind="stable")
    order = order[weights[order] > -np.inf]
    cells = np.concatenate([page.cells[starts[k] : starts[k + 1]] for k in order.tolist()])
    used, cells = np.unique(cells, return_inverse=True)
    members = [number for cell in used.tolist() for number in clusters[cell]]
    return Page(
        page.name,
        page.slots[used],
        page.lengths[used],
        np.array(members, dtype=np.int64),
        scores[used],
        page.rows[order],
        cells.ravel(),
        weights[order] - total,
    )


def clusters_of(page: Page) -> list[Cluster]:
    """The clusters of a page, by their places."""
    ends = np.cumsum(page.lengths)
    return [tuple(held.tolist()) for held in np.split(page.members, ends[:-1])]


class _KeyFamilies:
    """Where the keys of an index lead, told from pages.

    A key leads to the families of all clusters with a fragment that has it. One that leads to more
    families of heaviest particles than the index allows is closed.
    """

    def __init__(self, index: CandidateIndex | None) -> None:
        self._index = index
        self._families: dict[int, dict[int, bool]] = {}

    def add(self, page: Page, fragments: Mapping[int, Fragment]) -> None:
        """Take in a page."""
        if self._index is None:
            return
        clusters = clusters_of(page)
        heaviest = set(page.cells[: page.rows[0]].tolist())
        keys = {number: self._index.keys(fragment) for number, fragment in fragments.items()}
        for cell, cluster in enumerate(clusters):
            for key in {key for number in cluster for key in keys[number]}:
                led = self._families.setdefault(key, {})
                led[cluster[0]] = led.get(cluster[0], False) or cell in heaviest

    def found(self) -> dict[int, KeyFamilies]:
        """All keys."""
        if self._index is None:
            return {}
        most = self._index.families
        return {
            key: KeyFamilies(tuple(sorted(led)), sum(led.values()) > most)
            for key, led in self._families.items()
        }


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
            return held.result(steps=steps, complete=False)
        return held.result(steps=steps, changed=found.changed, gain=found.gain, complete=True)

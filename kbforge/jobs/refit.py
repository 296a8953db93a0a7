"""`kbforge refit`: learns a store's models again, or searches for better groupings.

No source is read. When models learn again, the particles keep their groupings, and each gets its
target density under the new models; the index uses its new keys. Decisions count as answers when
likelihood or alpha are chosen from the file.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
from scipy.special import logsumexp

from kbforge.clustering.rules import DirichletProcess
from kbforge.clustering.scoring import without_model
from kbforge.clustering.tables import RuledIndex
from kbforge.contracts import (
    CandidateIndex,
    Checkpoint,
    FloatArray,
    Fragment,
    IntArray,
    Interrupted,
    KeyFamilies,
    Likelihood,
    Revision,
    Session,
    SubproblemData,
)
from kbforge.errors import LikelihoodError, counted, quoted
from kbforge.files.answers import NumberedAnswer, error_rates
from kbforge.fit.choices import PreparedRun
from kbforge.fit.identity import second_pass
from kbforge.fit.prepare import prepare
from kbforge.jobs.confidence import WHOLE, write_confidence
from kbforge.jobs.decide import answers_in
from kbforge.jobs.models import chosen, drift_of, freeze, with_likelihood
from kbforge.jobs.opening import EventResult, locked, opened, require_all
from kbforge.numerics import starts_of
from kbforge.store.mentions import REFERS, add_mentions
from kbforge.store.store import FACTS, Store
from kbforge.store.tables import ask, insert_rows
from kbforge.store.writing import KNOWN, ActiveRun, StoreWriter, begin

OnWeighed: TypeAlias = Callable[[int, int], None]

REFITS = "refit"
_AT_ONCE = 2000  # clusters scored in one question


def refit(path: str, on_step: OnWeighed | None = None) -> EventResult:
    """Learn again from all fragments of a store, and reweight its particles.

    Nothing changes if nothing was written since the last time. `on_step` is called with the number
    of reweighted subproblems and their total.

    Raises:
        KBForgeError: as `prepare`.
        LikelihoodError: no particle of a subproblem is possible any more; nothing has changed.

    """
    began = time.perf_counter()
    with locked(path) as store:
        store.require_made()
        learned, last = learn(store), store.last_run
        already = bool(last and last.verb == REFITS and last.finished and store.fact(FACTS))
        already = already and learned.facts["frozen"] == store.fact("frozen")
        before = chosen(store)[2]
        if not already:
            learned.write(store, begin(store, REFITS, "", began), True, on_step)
            last = store.last_run
        assert last is not None
        told = {
            "likelihood": learned.prepared.likelihood,
            "alpha_before": before.alpha,
            "alpha": learned.prepared.alpha,
            "size_exponent": learned.prepared.spec.exponent,
            "subproblems": len(store.pages.names()),
            "notes": list(learned.prepared.notes),
            "already": already,
        }
        return EventResult(last.number, store.n_fragments, store.n_entities, told)


def revisit(
    path: str,
    passes: int = 1,
    ids: Sequence[str] | None = None,
    on_step: Callable[[int], None] | None = None,
) -> EventResult:
    """Search for better groupings: cluster neighbouring clusters again.

    Each pass covers all clusters, or these fragments. The result is written at the end, in one
    transaction; if the process is killed, the store is unchanged. `on_step` is called with the
    number of completed steps, and may raise `Interrupted` to end the search.
    """
    about = counted(passes, "pass", "passes") if ids is None else ", ".join(ids)
    with opened(path, "revisit", about) as held:
        if ids is not None:
            require_all(held.store, ids, held.store.pages.numbers(ids))
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


@dataclass(frozen=True, slots=True)
class RefittedModels:
    """Models that have learned again, and the changes to write."""

    prepared: PreparedRun
    seed: int
    fragments: Sequence[Fragment]  # what they learned from, by place
    facts: dict[str, Any]
    kept: Mapping[str, bytes]  # by digest

    def write(
        self,
        store: Store,
        run: ActiveRun,
        finished: bool,
        on_step: OnWeighed | None = None,
        also: Callable[[sqlite3.Connection], None] | None = None,
    ) -> None:
        """Reweight all particles under the new models; write this, and what `also` writes, in one
        transaction.

        Raises:
            LikelihoodError: no particle of a subproblem is possible any more.

        """
        made = self.prepared
        fresh = made.clusterer.open(made.spec, np.random.default_rng(self.seed))
        writing = StoreWriter(store.database, None, run, store.fact(KNOWN))
        writing.replaced(_weighed(store, made, fresh, on_step))

        def replace_learned(rows: sqlite3.Connection) -> None:
            rows.execute("DELETE FROM kept")
            insert_rows(rows, "kept", self.kept.items())
            rows.execute("DELETE FROM mention")
            known = store.pages.numbers([fragment.id for fragment in self.fragments])
            numbers = np.array([known[fragment.id] for fragment in self.fragments], np.int64)
            add_mentions(rows, self.facts[REFERS], self.fragments, numbers)

        writing.also(replace_learned)
        if also is not None:
            writing.also(also)
        writing.write(
            self.facts,
            finished,
            then=lambda rows: write_confidence(store, rows, made.confidence, made.models.index),
        )


def learn(store: Store) -> RefittedModels:
    """Fit the models to all fragments of a store; nothing is written.

    The likelihood stays. The old models are not read, so damaged ones can be replaced.
    """
    choices, likelihood, _ = chosen(store)
    fragments = list(store.fragments())
    place = {fragment.id: at for at, fragment in enumerate(fragments)}
    said = answers_in(store)
    wrong = error_rates(said)
    answers = [
        NumberedAnswer(place[one.a], place[one.b], one.same, False, 1 - wrong[one.by])
        for one in said
        if one.a in place and one.b in place
    ]
    made = {} if store.made is None else store.made.options.get("likelihood", {})
    found = {name: value for name, value in made.items() if name != "layer"}  # it is learned anew
    prepared = prepare(fragments, with_likelihood(choices, likelihood, found), answers)
    if not answers:  # what they teach is worth more
        again = second_pass(fragments, lambda: _firsts(store, fragments), prepared, choices)
        prepared = prepared if again is None else again.learned(choices.defaults)
    drift = drift_of(fragments, due=False)
    frozen, kept = freeze(prepared, choices, fragments, drift)
    same = {name: frozen[name] for name in ("frozen", REFERS, FACTS)}
    facts = {**same, "drift": drift.to_json(), "last": None, WHOLE: None}
    return RefittedModels(prepared, choices.seed, fragments, facts, kept)


def _firsts(store: Store, fragments: Sequence[Fragment]) -> IntArray:
    """The place of the first fragment of each one's entity, shape [fragments]."""
    place = {fragment.id: at for at, fragment in enumerate(fragments)}
    firsts = np.arange(len(fragments))
    ids = [id for (id,) in ask(store.database.connection, "SELECT id FROM entity")]
    for _, members in store.members(ids):
        firsts[[place[id] for id in members]] = place[members[0]]
    return firsts


def _weighed(
    store: Store, prepared: PreparedRun, fresh: Session, on_step: OnWeighed | None
) -> Checkpoint:
    """All pages of a store under new models; a fresh session with them has their settings."""
    totals = store.pages.totals
    spec = without_model(prepared.spec)
    if spec.index is not None:
        spec = replace(spec, index=RuledIndex(spec.index, totals.constraints))
    prior = DirichletProcess.of(spec)
    names = store.pages.names()
    pages: dict[int, SubproblemData] = {}
    free = totals.free.tolist()
    families: dict[int, dict[int, bool]] = {}
    for done, name in enumerate(names, 1):
        old = store.pages.page(name)
        fragments = store.pages.fragments(np.unique(old.members).tolist())
        pages[name] = reweighed(old, fragments, spec.likelihood, prior)
        free += sorted({*old.slots.tolist()} - {*pages[name].slots.tolist()})
        if spec.index is not None:
            _lead(families, spec.index, pages[name], fragments)
        if on_step is not None:
            on_step(done, len(names))
    settings = fresh.checkpoint().totals.settings
    now = replace(totals, settings=settings, free=np.array(free, dtype=np.int64))
    # keys of before that no fragment has any more lead nowhere
    postings = dict.fromkeys(set(store.pages.keys()) - families.keys(), KeyFamilies((), False))
    # a key of more families of heaviest particles than the index allows is closed
    postings |= {
        key: KeyFamilies(tuple(sorted(found)), sum(found.values()) > spec.index.families)
        for key, found in families.items()
        if spec.index is not None
    }
    return Checkpoint(now, tuple(pages.values()), (), postings)


def reweighed(
    page: SubproblemData,
    fragments: Mapping[int, Fragment],
    likelihood: Likelihood,
    prior: DirichletProcess,
) -> SubproblemData:
    """A page with the scores of another likelihood, its particles weighted by their target
    density."""
    clusters = list(page.clusters().values())
    sets = [[fragments[number] for number in cluster] for cluster in clusters]
    parts = [
        likelihood.log_marginal(sets[start : start + _AT_ONCE])
        for start in range(0, len(sets), _AT_ONCE)
    ]
    scores: FloatArray = np.concatenate(parts)
    terms = prior.log_terms(clusters, scores)
    starts = starts_of(page.rows)
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
    return SubproblemData(
        page.name,
        page.slots[used],
        page.lengths[used],
        np.array(members, dtype=np.int64),
        scores[used],
        page.rows[order],
        cells.ravel(),
        weights[order] - total,
    )


def _lead(
    families: dict[int, dict[int, bool]],
    index: CandidateIndex,
    page: SubproblemData,
    fragments: Mapping[int, Fragment],
) -> None:
    """Connect each key of a page to the families of all clusters with a fragment that has it.

    `families` maps key and family to whether the family is in a heaviest particle.
    """
    heaviest = set(page.cells[: page.rows[0]].tolist())
    keys = {number: index.keys(fragment) for number, fragment in fragments.items()}
    for cell, cluster in enumerate(page.clusters().values()):
        for key in {key for number in cluster for key in keys[number]}:
            postings = families.setdefault(key, {})
            postings[cluster[0]] = postings.get(cluster[0], False) or cell in heaviest

"""`kbforge cluster --into`: adds fragments to a store."""

from __future__ import annotations

import sqlite3
import time
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import orjson

from kbforge.clustering.constraints import components_of
from kbforge.contracts import (
    Decision,
    Fate,
    Fragment,
    Interrupted,
    OnStage,
    OnStep,
    Progress,
    StepResult,
)
from kbforge.contracts.fragment import AUTHORITY, ROW, is_of_source
from kbforge.errors import (
    DuplicateError,
    LikelihoodError,
    StrangeAttributesError,
    UsageError,
    columns_differ,
    option,
    quoted,
)
from kbforge.files.answers import decided as decisions_of
from kbforge.files.answers import read_answers
from kbforge.files.columns import FragmentColumns, in_metadata
from kbforge.files.fragments import to_line
from kbforge.files.rules import read_rules
from kbforge.fit.authority import Authority, KnownEntities, mentions_of, unmarked
from kbforge.fit.choices import (
    PreparedRun,
    RunOptions,
    note_of_cut,
    require_link,
    require_rules,
)
from kbforge.jobs.models import attributes_of, drift_of, freeze, require_same, rules_of
from kbforge.jobs.opening import OpenStore, locked, require_all, resume
from kbforge.kb.relations import require_attributes
from kbforge.kb.times import StatedTimes
from kbforge.store.assertions import ASSERTED
from kbforge.store.database import Database
from kbforge.store.pages import fragment_from_bytes
from kbforge.store.store import Store
from kbforge.store.tables import create_tables, insert_rows, write_rows
from kbforge.store.writing import FILLS, KNOWN

OnDuplicate = Literal["error", "replace"]


@dataclass(frozen=True, slots=True)
class UpdateResult:
    """The result of an update."""

    run: int  # its number or, if nothing was added, that of the last run
    added: int  # fragments, including those that replaced others
    replaced: int  # stored fragments that had different content
    skipped: int  # fragments that the store had already
    fragments: int  # in the store now
    entities: int  # in the store now
    subproblems: int  # in the store now
    log10_effective_particles: float  # of the store now
    merges_cut: float  # of a new store's first file, see `Posterior`
    seconds: float  # of the run: reading, opening, choosing, learning, clustering and writing
    likelihood: str  # of the store
    alpha: float  # of the store
    size_exponent: float  # of the store's prior
    drift: float  # of the fragments added since the models learned
    worth_it: bool  # whether `kbforge refit` is worth it
    notes: tuple[str, ...]  # sentences for the user
    complete: bool  # whether all given fragments were added

    def summary(self) -> dict[str, Any]:
        """The summary of `kbforge cluster --into --json`."""
        names = [name for name in self.__slots__ if name != "notes"]
        return {name: getattr(self, name) for name in names}


def _of_store(choices: RunOptions) -> RunOptions:
    """The choices that a store keeps: it has answers as decisions."""
    if choices.labels_from is not None:
        raise UsageError(
            f"{option('labels-from')}: a store needs the model that kbforge train-pairs writes; "
            f"name it with {option('likelihood')}"
        )
    return replace(choices, answers=None, rules=None)


# --- adding fragments -----------------------------------------------------------------------------


def add_fragments(
    path: str,
    fragments: Sequence[Fragment],
    choices: RunOptions,
    on_duplicate: OnDuplicate = "error",
    about: str = "",
    on_step: OnStep | None = None,
    on_stage: OnStage | None = None,
    began: float | None = None,
    against: Authority | None = None,
    accepted: Collection[str] = (),
) -> UpdateResult:
    """Add fragments to a store; create it if it does not exist.

    After a kill, the same call continues, to the same bytes. Errors as in `kbforge.update`.

    Args:
        path: of the store.
        fragments: distinct ids.
        choices: for a new store; for an existing one, the same or none.
        on_duplicate: what to do with a stored id and different content.
        about: a description of the input for readers.
        on_step: called after every step; it may raise `Interrupted` to end the run.
        on_stage: called at each stage before the first step of a new store.
        began: when the command began, by `time.perf_counter`; None is now.
        against: known entities, which come first and are never merged.
        accepted: attributes to accept although the store does not have them.

    """
    began = time.perf_counter() if began is None else began
    with locked(path, make=True) as store:
        known, plain = dict[str, bool](), _of_store(choices)
        fresh = store.database.version is None or store.fact("choices") is None
        time_name = choices.time if fresh else store.time
        fragments = _given(in_metadata(fragments, time_name), against)
        told = StatedTimes(fragments, time_name).note(strict=fresh)
        if fresh:
            prepared = _create(store.database, fragments, choices, on_stage, against)
            held = OpenStore(Store(store.database), prepared, plain, FILLS, about, began)
            decided: Sequence[Decision] = prepared.answers
            new = fragments
        else:
            _require_made_so(store, choices, against)
            decided = _answered(store, choices.answers, fragments)
            known = known_in(store, fragments, on_duplicate)
            new = [fragment for fragment in fragments if not known.get(fragment.id, False)]
            require_comparable(store, new, accepted)
            held = resume(store, FILLS, about, began)
        notes = [told]
        if decided:
            from kbforge.jobs.decide import answers_decided  # .4 s to import

            notes += answers_decided(held, decided)
        added = _run(held, new, known, against is None and not held.session.n_fragments, on_step)
        notes = [*(held.prepared.notes if fresh else ()), *notes]
        replaced = sum(fragment.id in known for fragment in new[:added])
        skipped, complete = len(fragments) - len(new), added == len(new)
        counts = {"added": added, "replaced": replaced, "skipped": skipped, "complete": complete}
        return _result_of(held, began, notes, **counts)


def _result_of(held: OpenStore, began: float, notes: Sequence[str], **counts: Any) -> UpdateResult:
    """The state of a store after fragments were added to it, and `counts` of these."""
    notes = [*notes, note_of_cut(held.merges_cut), *held.session.contradictions]
    totals = held.store.pages.totals if held.store.has_session else None  # none was added
    return UpdateResult(
        run=held.run_number,
        fragments=held.session.n_fragments,
        entities=held.writing.n_entities,
        subproblems=totals.n_subproblems if totals else 0,
        log10_effective_particles=totals.log10_effective_particles if totals else 0.0,
        merges_cut=held.merges_cut,
        seconds=time.perf_counter() - began,
        likelihood=held.prepared.likelihood,
        alpha=held.prepared.alpha,
        size_exponent=held.prepared.spec.exponent,
        drift=held.drift.figure,
        worth_it=held.drift.worth_it,
        notes=tuple(filter(None, notes)),
        **counts,
    )


def _create(
    database: Database,
    fragments: Sequence[Fragment],
    choices: RunOptions,
    on_stage: OnStage | None,
    against: Authority | None,
) -> PreparedRun:
    """Fit the models of a new store to the fragments, and save them; no fragment is added yet.

    With an authority, its entities are among the fragments.
    """
    from kbforge.fit.prepare import prepare

    require_link(fragments, choices.link)
    require_rules(fragments, read_rules(choices.rules))
    require_attributes(fragments, choices.refers)
    prepared = prepare(fragments, choices, on_stage=on_stage)
    if against is not None:
        prepared = KnownEntities(against, len(against)).honoured(prepared)
    if any((constraints := prepared.spec.constraints).rules):
        told = components_of(constraints, fragments).told()
        prepared = replace(prepared, notes=(*prepared.notes, *told))
    plain = _of_store(choices)
    facts, kept = freeze(prepared, plain, fragments, drift_of(fragments, due=True))
    if against is not None:
        facts[KNOWN] = []

    def all_of_it(rows: sqlite3.Connection) -> None:
        if database.version is None:
            create_tables(rows)
        insert_rows(rows, "kept", kept.items(), "OR REPLACE")
        write_rows(rows, "meta", {name: (orjson.dumps(fact),) for name, fact in facts.items()})

    database.transaction(all_of_it)
    return prepared


def _given(fragments: Sequence[Fragment], against: Authority | None) -> Sequence[Fragment]:
    """The entities of an authority, if there is one, and then the fragments, without marks."""
    if against is not None:
        return [*against.entities, *mentions_of(fragments, against)]
    if isinstance(fragments, FragmentColumns) and not fragments.may_have(AUTHORITY):
        return fragments
    return [unmarked(x) if x.known is not None else x for x in fragments]


def _require_made_so(store: Store, choices: RunOptions, against: Authority | None) -> None:
    """Refuse choices that differ from a store's, and an authority if it was made without one."""
    require_same(store, _of_store(choices))
    if choices.rules is not None and read_rules(choices.rules) != rules_of(store):
        where = quoted(store.database.path, 400)
        raise UsageError(
            f"{option('rules')}: {where} has other rules; kbforge decide {where} "
            f"--rules {quoted(choices.rules, 400)} changes them"
        )
    if against is not None and store.fact(KNOWN) is None:
        raise UsageError(
            f"{option('against')}: {quoted(store.database.path, 400)} was made without it; leave "
            "the option out, or make another store"
        )


def _answered(store: Store, path: str | None, fragments: Sequence[Fragment]) -> list[Decision]:
    """The answers in a file about present and future fragments of a store."""
    if path is None:
        return []
    decisions = decisions_of(read_answers(path))
    ids = list(dict.fromkeys(id for one in decisions for id in (one.first, one.second)))
    there = {*store.pages.numbers(ids), *(fragment.id for fragment in fragments)}
    require_all(store, ids, there)
    return decisions


def require_comparable(
    store: Store, new: Sequence[Fragment], accepted: Collection[str] = ()
) -> None:
    """Refuse fragments most of whose values are in attributes that a store does not have.

    Its models read none of these. `accepted` are attributes to accept anyway.

    Raises:
        StrangeAttributesError: its sentence lists them.

    """
    has = attributes_of(store)
    values = Counter[str]()
    for fragment in new:
        for attribute, of in fragment.properties.items():
            values[attribute] += len(of)
    strange = [name for name in values if has and name not in has and name not in accepted]
    n = sum(values[name] for name in strange)
    if 2 * n > values.total():
        differ = columns_differ("they have", strange, "it has", sorted(has))
        raise StrangeAttributesError(
            f"most values of the new records, {n:,} of {values.total():,}, are of attributes "
            f"that the store does not have: {differ}; {option('map', 'COLUMN=COLUMN')} adds a "
            "new one"
        )


def known_in(
    store: Store, fragments: Sequence[Fragment], on_duplicate: OnDuplicate
) -> dict[str, bool]:
    """For each id already stored, whether the fragment is the same.

    Raises a DuplicateError if one differs, and duplicates are an error, and a UsageError if one has
    the id of what a person asserts.
    """
    given = {fragment.id: fragment for fragment in fragments}
    known: dict[str, bool] = {}
    if store.fact(ASSERTED) is not None:
        for one in store.decisions():
            if one.asserts and one.undone is None and one.second in given:
                raise UsageError(f'"{quoted(one.second)}" is the id of what a person asserts')
    for id, line in store.lines(list(given)):
        known[id] = to_line(given[id]) == line or _says_the_same(given[id], line)
        if not known[id] and on_duplicate == "error":
            raise DuplicateError(
                f'fragment "{quoted(id)}" is in {quoted(store.database.path, 400)} with other '
                f"content; {option('on-duplicate', 'replace')} replaces it by the new one"
            )
    return known


def _says_the_same(given: Fragment, line: bytes) -> bool:
    """Whether a stored fragment differs at most in its row, which changes when a table changes."""

    def without_row(fragment: Fragment) -> Fragment:
        metadata = {key: value for key, value in (fragment.metadata or {}).items() if key != ROW}
        return replace(fragment, source=None, metadata=metadata)

    held = fragment_from_bytes(line)
    return is_of_source(held.source, given.source) and without_row(held) == without_row(given)


def _run(
    held: OpenStore,
    new: Sequence[Fragment],
    known: Mapping[str, bool],
    whole: bool,
    on_step: OnStep | None,
) -> int:
    """Add the new fragments until something ends it; returns the number added.

    `whole`: they are the first, and may be clustered as a whole.
    """
    added = 0
    try:
        if whole and held.fill(new, on_step):
            return len(new)
        for step in take_in(held, new, known):
            added += 1
            held.stepped()
            if on_step is not None:
                progress = Progress(
                    added,
                    len(new),
                    step.subproblems,
                    step.log10_effective_particles,
                    step.model_evaluations,
                    held.session.posterior,
                )
                on_step(progress)
    except Interrupted:
        pass
    except LikelihoodError:
        # the fragment was not added, but the one that it replaces has gone
        if new[added].id not in known:
            held.commit()
        raise
    if added:
        held.commit(finished=added == len(new))
    else:
        held.finish()
    return added


def take_in(
    held: OpenStore, new: Sequence[Fragment], known: Collection[str]
) -> Iterator[StepResult]:
    """Add fragments, each when its result is requested, replacing known ones; commits nothing.

    Raises a LikelihoodError for one that cannot be added; the fragment that it replaces is removed
    then.
    """
    held.session.foresee(new)
    steps = held.session.adding(new)
    for fragment in new:
        yield _add(held, fragment, fragment.id in known, steps)


def _add(
    held: OpenStore, fragment: Fragment, replaces: bool, steps: Iterator[StepResult]
) -> StepResult:
    """Add the next fragment, replacing the one with its id if there is one."""
    place = None
    if replaces:
        place = held.writing.place_of(held.session.number(fragment.id))
        held.remove([fragment.id])
    step = next(steps)
    if fragment.known is not None:
        held.writing.know(step.fragment)
    held.writing.added(fragment, step.fragment, place)
    if step.fate is not Fate.OPENED and held.session.bridge(fragment.id) > 0:
        held.writing.followed()
    held.run.added += 1
    held.drift.add(fragment, step.fragment)
    return step

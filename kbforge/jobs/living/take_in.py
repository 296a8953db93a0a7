"""`kbforge cluster --into`: adds fragments to a stored knowledge base."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from kbforge.contracts import Fate, Fragment, Info, Interrupted, OnStage, OnStep, Progress
from kbforge.contracts.fragment import ROW, is_of_source
from kbforge.errors import LikelihoodError, UsageError, quoted
from kbforge.files.fragments import to_line
from kbforge.fit.choices import Choices
from kbforge.jobs.living.frozen import require_same
from kbforge.jobs.living.living import OpenStore, created, finish_erasing, living
from kbforge.store.database import Database
from kbforge.store.pages import fragment_from_bytes
from kbforge.store.store import Store
from kbforge.store.writing import FILLS

OnDuplicate = Literal["error", "replace"]


@dataclass(frozen=True, slots=True)
class UpdateResult:
    """What a run has taken in.

    Attributes:
        run: its number; if it took in nothing, that of the last run.
        added: fragments, those that replace others among them.
        replaced: fragments that were there with other content.
        skipped: fragments that were there already.
        fragments: that the store has now.
        entities: likewise.
        subproblems: likewise.
        log10_effective_particles: likewise.
        seconds: of the run: reading, opening, choosing, learning, clustering and writing.
        likelihood: that the store clusters by.
        alpha: likewise.
        drift: of what came since the models learned.
        worth_it: whether `kbforge refit` is worth it.
        notes: sentences for the user.
        complete: whether all that was given is taken in.

    """

    run: int
    added: int
    replaced: int
    skipped: int
    fragments: int
    entities: int
    subproblems: int
    log10_effective_particles: float
    seconds: float
    likelihood: str
    alpha: float
    drift: float
    worth_it: bool
    notes: tuple[str, ...]
    complete: bool

    def summary(self) -> dict[str, Any]:
        """The figures that `kbforge cluster --into --json` prints."""
        names = [name for name in self.__slots__ if name != "notes"]
        return {name: getattr(self, name) for name in names}


def take_in(
    path: str,
    fragments: Sequence[Fragment],
    choices: Choices,
    on_duplicate: OnDuplicate = "error",
    about: str = "",
    on_step: OnStep | None = None,
    on_stage: OnStage | None = None,
    began: float | None = None,
) -> UpdateResult:
    """Take fragments into a store, one after another; it is made if it is not there.

    What was taken in before a kill is there afterwards; the same call goes on, and ends with what
    a call that was not killed ends with, byte for byte.

    Args:
        path: of the store.
        fragments: distinct ids.
        choices: of a new store; of one that is there, the same or none.
        on_duplicate: what to do with a fragment that is there with other content.
        about: what was given, for people.
        on_step: is told of every step; it may raise `Interrupted` to end the run there.
        on_stage: is told what a new store learns and tries before that.
        began: when the command began, by `time.perf_counter`; None is now.

    Raises:
        UsageError: other choices than the store's, or a fragment that is there with other content;
            nothing was taken in then.
        KBForgeError: as `prepare`, or the store cannot be written.
        LikelihoodError: the likelihood failed on a fragment; those before it were taken in.

    """
    began = time.perf_counter() if began is None else began
    with Database(path, write=True) as database:
        store = Store(database)
        finish_erasing(store)
        if database.version is None or store.fact("choices") is None:
            known: Mapping[str, bool] = {}
            held = created(database, fragments, choices, FILLS, about, began, on_stage)
            notes = held.prepared.notes
        else:
            require_same(store, choices)
            known = _known(store, fragments, on_duplicate)
            held, notes = living(store, FILLS, about, began), ()
        new = [fragment for fragment in fragments if not known.get(fragment.id, False)]
        added = _run(held, new, known, on_step)
        replaced = sum(fragment.id in known for fragment in new[:added])
        skipped = len(fragments) - len(new)
        return _taken(held, added, replaced, skipped, began, notes, added == len(new))


def _taken(
    held: OpenStore,
    added: int,
    replaced: int,
    skipped: int,
    began: float,
    notes: Sequence[str],
    complete: bool,
) -> UpdateResult:
    totals = held.store.pages.totals
    return UpdateResult(
        run=held.run_number,
        added=added,
        replaced=replaced,
        skipped=skipped,
        fragments=held.session.n_fragments,
        entities=held.writing.n_entities,
        subproblems=totals.n_subproblems,
        log10_effective_particles=totals.log10_effective_particles,
        seconds=time.perf_counter() - began,
        likelihood=held.prepared.likelihood,
        alpha=held.prepared.alpha,
        drift=held.drift.figure,
        worth_it=held.drift.worth_it,
        notes=tuple(notes),
        complete=complete,
    )


def _known(
    store: Store, fragments: Sequence[Fragment], on_duplicate: OnDuplicate
) -> Mapping[str, bool]:
    """By id of the fragments that are there already, whether they are the same.

    Raises:
        UsageError: one is another, and is not to be replaced.

    """
    given = {fragment.id: fragment for fragment in fragments}
    known = {}
    for id, line in store.lines(list(given)):
        known[id] = to_line(given[id]) == line or _says_the_same(given[id], line)
        if not known[id] and on_duplicate == "error":
            raise UsageError(
                f'fragment "{quoted(id)}" is in {quoted(store.database.path, 400)} with other '
                "content; --on-duplicate replace replaces it by the new one"
            )
    return known


def _says_the_same(given: Fragment, line: bytes) -> bool:
    """Whether a stored fragment differs at most in its row, which moves when a table changes."""
    held = fragment_from_bytes(line)
    if not is_of_source(held.source, given.source):
        return False
    return replace(held, source=None, metadata=_without_row(held)) == replace(
        given, source=None, metadata=_without_row(given)
    )


def _without_row(fragment: Fragment) -> dict[str, Any]:
    return {key: value for key, value in (fragment.metadata or {}).items() if key != ROW}


def _run(
    held: OpenStore, new: Sequence[Fragment], known: Mapping[str, bool], on_step: OnStep | None
) -> int:
    """Take in what is not there yet, until something stops it; how many came in."""
    added = 0
    held.session.foresee(new)
    infos = held.session.adding(new)
    try:
        for fragment in new:
            info = _take(held, fragment, fragment.id in known, infos)
            added += 1
            held.stepped()
            if on_step is not None:
                on_step(
                    Progress(
                        added,
                        len(new),
                        info.subproblems,
                        info.log10_effective_particles,
                        info.model_evaluations,
                        held.session.posterior,
                    )
                )
    except Interrupted:
        pass
    except LikelihoodError:
        # the fragment was not taken in, but the one that it replaces has gone
        if new[added].id not in known:
            held.commit()
        raise
    if added:
        held.commit(finished=added == len(new))
    else:
        held.finish()
    return added


def _take(held: OpenStore, fragment: Fragment, replaces: bool, infos: Iterator[Info]) -> Info:
    """Take in the next fragment, in the place of the one with its id if there is one."""
    place = None
    if replaces:
        number = held.session.number(fragment.id)
        place = held.writing.place_of(number)
        held.session.remove([fragment.id])
        held.writing.removed({number: fragment.id})
        held.run.removed += 1
    info = next(infos)
    held.writing.added(fragment, info.fragment, place)
    if info.fate is not Fate.OPENED and held.session.bridge(fragment.id) > 0:
        held.writing.followed()
    held.run.added += 1
    held.drift.add(fragment)
    return info

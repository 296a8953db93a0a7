"""Gathers the report of a knowledge base and the status of a store."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from msgspec import Struct

from kbforge.contracts import Entity, Explanation, ModelSpec, Run
from kbforge.contracts.entity import Natural
from kbforge.errors import KBForgeError, StoreError, UsageError, counted, option, quoted
from kbforge.files.io import called
from kbforge.fit.review import explained
from kbforge.jobs.decide import answered
from kbforge.jobs.erasure import ERASING
from kbforge.jobs.models import LEAST, Drift, restore
from kbforge.jobs.views import store_view
from kbforge.kb.entities import fragments_of
from kbforge.kb.report import Explain, Facts, History, gather, report_html
from kbforge.kb.view import file_view
from kbforge.store.changes import changes
from kbforge.store.database import Database, is_store
from kbforge.store.store import Store

_MOST_EXPLAINED = 30  # fragments of an entity
_MOST_DRIFTING = 5  # attributes whose drift is named
_LEAST_DRIFT = 0.005  # less reads as none


@dataclass(frozen=True, slots=True, repr=False)
class Report:
    """A page of HTML, and the facts on it."""

    facts: Facts
    html: str

    def __repr__(self) -> str:
        entities = counted(self.facts.entities, "entity", "entities")
        return f"Report({counted(self.facts.fragments, 'fragment')}, {entities})"

    def summary(self) -> dict[str, Any]:
        """The summary of `kbforge report --json`."""
        facts = self.facts
        known = sum(share.known for share in facts.confidences)
        return {
            "entities": facts.entities,
            "fragments": facts.fragments,
            "expected_right": facts.stated,
            "calibrated": facts.calibrated,
            "with_labels": known,
            "right": sum(share.right for share in facts.confidences) if known else None,
            "drift": None if facts.drift is None else facts.drift[0],
            "runs": facts.n_runs,
        }


def report(
    kb: str, fragments: str | None = None, labels: bool = False, title: str | None = None
) -> Report:
    """The report of a file of entities ("-" is standard input), or of a store.

    Args:
        kb: the file or the store.
        fragments: the clustered file, whose labels are read; a store has its own fragments.
        labels: whether to read the labels of a store's fragments.
        title: of the page; None is the name of the file.

    Raises:
        KBForgeError: it cannot be read.
        UsageError: an empty store, fragments given with a store, or labels of a file without
            fragments.

    """
    named = title or ("standard input" if kb == "-" else Path(kb).name)
    if not is_store(kb):
        if labels and fragments is None:
            raise UsageError(
                f"{option('labels')}: {quoted(called(kb), 400)} has no labels; "
                f"{option('fragments')} names the file that was clustered, which may have some"
            )
        facts = gather(
            file_view(kb, fragments), named, labels=fragments is not None, again=kb != "-"
        )
        return Report(facts, report_html(facts))
    if fragments is not None:
        raise UsageError(
            f"{option('fragments')}: {quoted(kb, 400)} is a store, which has its own fragments; "
            f"{option('labels')} uses their labels"
        )
    with Database(kb) as database:
        store = Store(database)
        with database.snapshot():
            store.require_made()
            drift = Drift.of(store)
            chosen = _chosen(store, drift)
            runs, pairs = store.runs(), answered(store)
            past = History(
                runs=runs,
                changes=changes(store, len(runs) - 1),
                decisions=store.decisions(),
                drift=(drift.figure, _in_words(drift)),
                pairs=pairs if pairs.count else None,
            )
            facts = gather(
                store_view(store), named, chosen, past, labels, explain=_explaining(store)
            )
    return Report(facts, report_html(facts))


def _explaining(store: Store) -> Explain:
    """Explanations of fragments in an entity, from a store's models; of a large entity only the
    first ones."""

    @functools.cache
    def spec() -> ModelSpec | None:
        try:
            found = restore(store)[0].spec
        except StoreError:
            raise
        except KBForgeError:
            return None  # such as a plugin that is not installed here: the page says the rest
        return found if found.likelihood.explains else None

    def explain(entity: Entity) -> dict[str, Explanation]:
        fragments = fragments_of(entity)[:_MOST_EXPLAINED]
        if len(fragments) < 2 or (made := spec()) is None:
            return {}
        return {
            x.id: explained(made, x, [other for other in fragments if other is not x])
            for x in fragments
        }

    return explain


def _in_words(drift: Drift) -> str:
    """A drift, in words."""
    if not drift.came:
        return "no fragment has come since the models learned"
    if drift.came < LEAST:
        return (
            f"{counted(drift.came, 'fragment')} came since the models learned: too few to compare"
        )
    most = [
        f"{quoted(name)} {figure:.2f}" for name, figure in drift.largest if figure >= _LEAST_DRIFT
    ]
    by = f"; most in {', '.join(most[:_MOST_DRIFTING])}" if most else ""
    if drift.worth_it:
        return (
            "the new fragments differ from those that the models learned from, or outnumber them: "
            f"kbforge refit is worth it{by}"
        )
    return f"the new fragments resemble those that the models learned from{by}"


def _chosen(store: Store, drift: Drift) -> list[tuple[str, str]]:
    """What was chosen, by whom, and why."""
    asked, frozen = store.fact("choices"), store.fact("frozen")
    by = {
        name: "as suits the data" if asked[name] is None else "as asked for"
        for name in ("likelihood", "alpha")
    }
    rows = [
        ("likelihood", f"{frozen['likelihood']}, {by['likelihood']}"),
        ("alpha", f"{frozen['alpha']:,.6g}, {by['alpha']}"),
        ("clusterer", asked["clusterer"]),
    ]
    if (exponent := frozen.get("size_exponent", 1.0)) != 1:
        rows.insert(2, ("size exponent", f"{exponent:g}"))
    plain = ("particles", "link", "estimate", "seed")
    defaults = {"estimate": "map", "seed": 0}
    rows += [
        (name, str(asked[name]))
        for name in plain
        if asked.get(name) not in (None, defaults.get(name))
    ]
    rows += [
        (f"{kind}.{name}", str(value))
        for kind, options in sorted(asked["options"].items())
        for name, value in sorted(options.items())
    ]
    mapped = frozen["kept"]["confidence"] is not None
    confidence = (
        "calibrated by a map" if mapped else "as reported: there is no map for these models"
    )
    learned = counted(drift.fragments, "fragment")
    rows += [
        ("confidence", confidence),
        ("learned from", f"{learned}; {counted(drift.came, 'fragment')} came since"),
    ]
    return rows + [("why" if k == 0 else "", note) for k, note in enumerate(frozen["notes"])]


class Status(Struct, frozen=True):
    """A summary of a store."""

    path: str  # of its file
    megabytes: float  # of the file
    fragments: Natural  # their number
    entities: Natural  # their number
    subproblems: Natural  # their number
    log10_effective_particles: float  # of all subproblems
    decisions: Natural  # in force
    link: str | None  # the attribute whose values are unique within an entity, if any
    likelihood: str  # name, or path of its bundle
    alpha: float  # concentration
    size_exponent: float  # of the prior's factor (|C| - 1)!; 1 is the Dirichlet process
    kbforge: str | None  # the version that learned the models, None if unknown
    learned_from: Natural  # the number of fragments that the models learned from
    came_since: Natural  # the number of fragments added since
    drift: float  # from 0 to 1, see `kbforge.jobs.models.Drift`
    drift_by_attribute: dict[str, float]  # the attributes that differ most, by name
    refit_is_worth_it: bool  # whether `kbforge refit` is
    # fragments removed but not yet erased, because `kbforge remove --secure` was interrupted; the
    # next command that writes finishes it
    erasing: Natural
    chosen: tuple[str, ...]  # the notes from when the models learned
    runs: tuple[Run, ...]  # all of them


def status_of(path: str) -> Status:
    """A summary of a store; a `UsageError` if the store is empty."""
    with Database(path) as database, database.snapshot():
        return status_in(Store(database))


def status_in(store: Store) -> Status:
    """A summary of an open store, within one snapshot; a `UsageError` if the store is empty."""
    path = store.database.path
    erasing = store.fact(ERASING, {"fragments": 0})["fragments"]
    if erasing and store.fact("choices") is None:
        raise UsageError(
            f"{quoted(path, 400)} is empty, but not erased yet; run kbforge remove --secure again"
        )
    store.require_made()
    frozen = store.fact("frozen")
    drift = Drift.of(store)
    totals = store.pages.totals if store.has_session else None
    return Status(
        path=path,
        megabytes=store.database.size / 1e6,
        fragments=store.n_fragments,
        entities=store.n_entities,
        subproblems=totals.n_subproblems if totals else 0,
        log10_effective_particles=totals.log10_effective_particles if totals else 0.0,
        decisions=sum(one.undone is None for one in store.decisions()),
        link=store.fact("choices")["link"],
        likelihood=frozen["likelihood"],
        alpha=frozen["alpha"],
        size_exponent=frozen.get("size_exponent", 1.0),
        kbforge=None if (made := store.made) is None else made.kbforge,
        learned_from=drift.fragments,
        came_since=drift.came,
        drift=drift.figure,
        drift_by_attribute={
            name: figure for name, figure in drift.largest[:_MOST_DRIFTING] if figure > 0
        },
        refit_is_worth_it=drift.worth_it,
        erasing=erasing,
        chosen=tuple(frozen["notes"]),
        runs=tuple(store.runs()),
    )

"""What a store is like after it has lived: updates, decisions, removal, revision, on labelled sets.

    KBFORGE_DATA=... python examples/reproductions/living.py removal revision reliability decisions
    KBFORGE_DATA=... python examples/reproductions/living.py speed --fragments 100k.jsonl

| measurement | what it does |
|---|---|
| removal | fills a store, removes a tenth at random; compares it with a run that never saw them |
| revision | revisits a store of each set: log posterior and F1 before and after |
| reliability | how far the stored confidence of entities is off after updates, decisions, removal |
| decisions | how far it is off after decisions by gold, as the map says and as is told |
| speed | seconds of `kbforge cluster --into` for the last 100 fragments of a file, start and all |

All with the plain default, or with the likelihood that is named. Prints Markdown.
"""

from __future__ import annotations

import argparse
import math
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
from shell import data_folder, table

from kbforge.contracts import Decision, Fragment, Posterior
from kbforge.errors import KBForgeError
from kbforge.evaluation.reliability import (
    Reliability,
    entity_claims,
    entity_probabilities,
    reliability,
)
from kbforge.evaluation.scores import score_entities
from kbforge.files.fragments import read_fragments, write_fragments
from kbforge.fit.choices import PreparedRun, RunOptions
from kbforge.fit.confidence import tied_by, told_of_entities
from kbforge.fit.features import ClusteringReport
from kbforge.jobs import acts
from kbforge.jobs.decide import decide, honour_one, reviewed
from kbforge.jobs.models import restore
from kbforge.jobs.opening import opened
from kbforge.jobs.refit import revisit
from kbforge.jobs.remove import remove
from kbforge.jobs.update import add_fragments
from kbforge.jobs.views import entities_of
from kbforge.store.database import Database
from kbforge.store.store import Store
from kbforge.store.tables import ask
from kbforge_lab.suites.accuracy import SETS

ADDED = 100
"""Fragments whose addition is timed."""


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    known = {"removal": removal, "revision": revision, "reliability": doubts}
    known |= {"decisions": decided, "speed": speed}
    parser.add_argument("what", nargs="+", choices=known)
    parser.add_argument("--sets", nargs="*", help="default: those of each measurement")
    parser.add_argument("--likelihood", help="default: what suits the file")
    parser.add_argument("--without", help="FOLDER/FAMILY has models that have not seen the family")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--fragments", help="a file of fragments, for speed")
    parser.add_argument("--store", help="a store that has all of these but the last, for speed")
    options = parser.parse_args()
    for name in options.what:
        with tempfile.TemporaryDirectory() as folder:
            print(f"\n{name}\n\n{known[name](options, Path(folder))}", flush=True)


def removal(options: argparse.Namespace, folder: Path) -> str:
    """F1 of what is left after removal, and of a run that never saw what was removed."""
    rows = []
    for name in options.sets or ["historical_5k"]:
        fragments, choices = of_set(name, options)
        for seed in range(options.seeds):
            gone = set(random.Random(seed).sample(range(len(fragments)), len(fragments) // 10))
            left = [x for place, x in enumerate(fragments) if place not in gone]
            lived, never = str(folder / f"{name}-{seed}"), str(folder / f"{name}-{seed}-never")
            taken = add_fragments(lived, fragments, choices)
            remove(lived, [fragments[place].id for place in sorted(gone)])
            same = RunOptions(likelihood=taken.likelihood, alpha=taken.alpha)
            add_fragments(never, left, same)
            rows.append(
                [name, str(len(gone)), *(f"{f1(each, left):.4f}" for each in (lived, never))]
            )
    return table(["set", "removed", "F1 after removal", "F1 of a run without them"], rows)


def revision(options: argparse.Namespace, folder: Path) -> str:
    """Log posterior and F1 before and after `kbforge refit --search`."""
    rows = []
    for name in options.sets or ["wd200_dev", "dwie50_dev", "historical_5k"]:
        fragments, choices = of_set(name, options)
        store = str(folder / name)
        taken = add_fragments(store, fragments, choices)
        before = known_of(store)[1].log_posterior, f1(store, fragments)
        begin = time.perf_counter()
        revisit(store)
        seconds = time.perf_counter() - begin
        after = known_of(store)[1].log_posterior, f1(store, fragments)
        dense = [f"{density:,.1f}" for density, _ in (before, after)]
        right = [f"{score:.4f}" for _, score in (before, after)]
        rows.append([name, taken.likelihood, *dense, *right, f"{seconds:.0f}"])
    head = ["set", "likelihood", "log posterior", "revisited", "F1", "revisited", "s"]
    return table(head, rows)


def doubts(options: argparse.Namespace, folder: Path) -> str:
    """The reliability of entities, reported and calibrated, after each event."""
    rows, bins = [], []
    for name in options.sets or ["historical_5k", "rldata10000", "dwie50_dev"]:
        fragments, choices = of_set(name, options)
        store, half = str(folder / name), len(fragments) // 2
        rng = random.Random(0)

        gone = [x.id for x in rng.sample(fragments, len(fragments) // 10)]
        events: dict[str, Callable[[], object]] = {
            "half": partial(add_fragments, store, fragments[:half], choices),
            "update": partial(add_fragments, store, fragments[half:], RunOptions()),
            "50 decisions": partial(decide, store, by_gold(fragments, rng, 50)),
            "removal": partial(remove, store, gone),
        }
        for event, happen in events.items():
            happen()
            measured = reliabilities(store)
            rows.append([name, event, str(measured[0].count), *(f"{m.ece:.3f}" for m in measured)])
        bins.append((name, measured))
    out = table(["set", "after", "entities", "ECE, reported", "ECE, calibrated"], rows)
    head = ["set", "confidence", "entities", "reported", "right", "entities", "calibrated", "right"]
    told = []
    for name, (raw, mapped) in bins:
        found = [{b.low: b for b in each.table} for each in (raw, mapped)]
        for low in sorted({*found[0], *found[1]}):
            cells = [name, f"{low:.1f} to {low + 1 / raw.bins:.1f}"]
            for each in found:
                b = each.get(low)
                cells += (
                    ["", "", ""]
                    if b is None
                    else [str(b.count), f"{b.reported:.2f}", f"{b.share:.2f}"]
                )
            told.append(cells)
    return f"{out}\n\n{table(head, told)}"


def decided(options: argparse.Namespace, folder: Path) -> str:
    """The calibration error of entities after acts by gold, as the map says and as is told."""
    rows = []
    for name in options.sets or ["historical_5k", "rldata10000", "restaurant", "fake_1000"]:
        fragments, choices = of_set(name, options)
        add_fragments(str(folder / name), fragments, choices)
        for event, happen in {"150 visits": tend, "150 answers": answer}.items():
            store = str(shutil.copy(folder / name, folder / f"{name}-{event}"))
            happen(store, fragments, 150)
            rows.append([name, event, *errors(store)])
    ways = ("of all, map", "told", "of the tied, map", "told")
    return table(
        ["set", "after", "entities", "tied", "right", *(f"ECE {way}" for way in ways)], rows
    )


def tend(path: str, fragments: Sequence[Fragment], visits: int) -> None:
    """Part, join or confirm the least sure entities, as gold says."""
    label, wholes = {x.id: x.label for x in fragments}, dict[str | None, set[str]]()
    for x in fragments:
        wholes.setdefault(x.label, set()).add(x.id)
    with opened(path, "decide", "visits") as held:
        order = "SELECT first FROM confidence ORDER BY confidence, first LIMIT ?"
        for (first,) in ask(held.store.database.connection, order, (visits,)):
            entity, numbers = held.store.entity_of(first)
            ids = [x.id for x in held.store.pages.fragments(numbers).values()]
            own = wholes[label[ids[0]]]
            if others := [id for id in ids if id not in own]:
                said = acts.part(held.store, others).said
            elif rest := sorted(own.difference(ids)):
                said = [[Decision(True, ids[0], id) for id in rest]]
            else:
                said = acts.confirm(held.store, entity).said
            for decision, *ties in said:
                with suppress(KBForgeError):  # it contradicts others
                    honour_one(held, decision, tied=ties)
        held.finish()


def answer(path: str, fragments: Sequence[Fragment], count: int) -> None:
    """Answer the questions of a review by gold."""
    label = {x.id: x.label for x in fragments}
    with reviewed(path) as review:
        for _ in range(count):
            if (asked := review.question()) is None:
                return
            first, second = asked.first.fragment.id, asked.second.fragment.id
            with suppress(KBForgeError):
                review.answer(asked, label[first] == label[second])


def errors(store: str) -> list[str]:
    """The entities of a store, those that decisions tie, their share of right ones, and the
    calibration errors of all and of these, by the map alone and as told."""
    fragments, posterior, prepared = known_of(store)
    entities, labels = entity_probabilities([posterior]), [x.label for x in fragments]
    report = ClusteringReport(fragments, entities)
    with Database(store) as database:
        decisions = Store(database).pages.totals.constraints.decisions
    sure = [told_of_entities(prepared.confidence, report, made) for made in ((), decisions)]
    tied = tied_by(decisions, report)
    claims = [entity_claims(replace(entities, probability=each), labels) for each in sure]
    of_them = [each.where(tied) for each in claims]
    right = of_them[0].true.mean() if tied.any() else math.nan
    told = [f"{reliability(each).ece:.3f}" for each in (*claims, *of_them)]
    return [str(len(tied)), str(tied.sum()), f"{right:.2f}", *told]


def speed(options: argparse.Namespace, folder: Path) -> str:
    """Seconds to add the last fragments of a file to a store of the others."""
    fragments = list(read_fragments(options.fragments))
    made, new = folder / "made.sqlite", folder / "new.jsonl"
    write_fragments(fragments[-ADDED:], str(new))
    if options.store is None:
        add_fragments(str(made), fragments[:-ADDED], RunOptions(likelihood=options.likelihood))
    else:
        shutil.copy(options.store, made)
    seconds = []
    for repeat in range(5):
        copy = folder / f"{repeat}.sqlite"
        shutil.copy(made, copy)
        command = [
            sys.executable,
            "-m",
            "kbforge.cli.main",
            "cluster",
            str(new),
            "--into",
            str(copy),
        ]
        begin = time.perf_counter()
        subprocess.run(command, check=True, capture_output=True)
        seconds.append(time.perf_counter() - begin)
        copy.unlink()
    megabytes = made.stat().st_size / 1e6
    cells = [f"{len(fragments):,}", f"{megabytes:,.0f}", f"{statistics.median(seconds):.2f}"]
    head = ["fragments", "MB", f"seconds to add {ADDED}, median of 5", "least", "most"]
    return table(head, [[*cells, f"{min(seconds):.2f}", f"{max(seconds):.2f}"]])


def of_set(name: str, options: argparse.Namespace) -> tuple[list[Fragment], RunOptions]:
    """A labelled set, and how to cluster it."""
    data = next(one for one in SETS if one.name == name)
    defaults = None if options.without is None else str(Path(options.without) / data.family)
    fragments = list(data.read(data_folder()))
    return fragments, RunOptions(likelihood=options.likelihood, defaults=defaults)


def by_gold(fragments: Sequence[Fragment], rng: random.Random, count: int) -> list[Decision]:
    """Decisions by the labels: half of them same, half different."""
    by_label: dict[str | None, list[str]] = {}
    for fragment in fragments:
        by_label.setdefault(fragment.label, []).append(fragment.id)
    several = [ids for ids in by_label.values() if len(ids) > 1]
    out = []
    for k in range(count):
        if k % 2:
            first, second = rng.sample(rng.choice(several), 2)
            out.append(Decision(True, first, second))
        else:
            one, other = rng.sample(list(by_label.values()), 2)
            out.append(Decision(False, rng.choice(one), rng.choice(other)))
    return out


def known_of(store: str) -> tuple[tuple[Fragment, ...], Posterior, PreparedRun]:
    """The fragments of a store, what is known of them, and by what."""
    with Database(store) as database:
        held = Store(database)
        prepared, _ = restore(held, confidence=True)
        rng = np.random.default_rng(0)
        session = prepared.clusterer.open(prepared.spec, rng, pages=held.pages)
        return session.fragments, session.posterior(), prepared


def reliabilities(store: str) -> list[Reliability]:
    """Of the entities of a store, as reported and calibrated."""
    fragments, posterior, prepared = known_of(store)
    entities = entity_probabilities([posterior])
    claims = entity_claims(entities, [fragment.label for fragment in fragments])
    assert prepared.confidence is not None
    sure = prepared.confidence.of_entities(ClusteringReport(fragments, entities))
    mapped = entity_claims(replace(entities, probability=sure), [x.label for x in fragments])
    return [reliability(claims, 5), reliability(mapped, 5)]


def f1(store: str, gold: Sequence[Fragment]) -> float:
    """Mean F1 of the fragments."""
    return score_entities(entities_of(store), gold).scores.bcubed_f1_item_mean


if __name__ == "__main__":
    main()

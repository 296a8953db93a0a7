"""What an index leaves out: split SMC with each, beside exact scoring of all clusters.

    KBFORGE_DATA=... python examples/reproductions/index_recall.py results.jsonl
    python examples/reproductions/index_recall.py results.jsonl --jobs "attributes minhash"
    python examples/reproductions/index_recall.py results.jsonl --table
    python examples/reproductions/index_recall.py - --gold minhash FILE... --set single=0

Each job, a likelihood and an index, is a process with one thread for libraries, and runs twice over
the first records of a file: as `kbforge cluster` does (processor time, peak of memory, scores), and
stopped at evenly spaced places, where a session that compares with *all* clusters takes a few
steps. What each of its particles does with the new record is compared with what the index leads to:

- *mass*: of the probability that the records join a cluster, by the particles that exact scoring
  keeps, the share on clusters that the index leads to.
- *kept*: of the clusters that a kept particle joins, however improbable, the share it leads to.
- *best*: of the records whose heaviest kept particle joins a cluster, the share for which the index
  leads to it.

Scoring all clusters is quadratic, so these are of a sample. Particles below a thousandth of the
heaviest are dropped, as in any run with an index. Alpha is what a likelihood's first job finds.
Labels are read to score, never to cluster. Finished jobs in the results file are not repeated.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from shell import data_folder, table

from kbforge.clustering.rules import Rules
from kbforge.clustering.session import SmcSession
from kbforge.contracts import Fragment, ModelSpec, Snapshot, StepResult
from kbforge.errors import KBForgeError
from kbforge.evaluation.scores import compare
from kbforge.files.fragments import read_fragments
from kbforge.fit.choices import RunOptions
from kbforge.fit.prepare import prepare
from kbforge.indexes import INDEXES, make_index
from kbforge.indexes.recall import recall_of
from kbforge_lab.minhash import INDEXES as OF_THE_LABORATORY
from kbforge_plugins.clusterers.sequential import SplitSmc

FILE = "chadwick/chadwick_100k.jsonl.gz"
JOBS = (
    *("attributes selective", "attributes minhash", "attributes binary-hash"),
    *("bigram ngrams", "bigram minhash", "bigram binary-hash"),
)
HASHES = ("minhash", "binary-hash")
OF_NAMES = {"attributes": "name", "unit": "character", "order": "3"}
"""Options of hashes with a likelihood that reads names: what it compares."""
_AT_ONCE = 512  # records of which keys are made, as in a run


@dataclass(frozen=True)
class Recall:
    """What an index found of what exact scoring keeps."""

    steps: int
    mass: float
    kept: float
    best: float
    compared: float  # clusters that the index led to, on average
    clusters: float  # on average
    exact_seconds: float  # of the processor, a step that compares with all


def main() -> None:
    """Run what is missing, or print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("results", type=Path)
    parser.add_argument("--file", default=FILE, help="in KBFORGE_DATA, or a path")
    parser.add_argument("--first", type=int, default=100_000, help="records of it")
    parser.add_argument("--jobs", nargs="+", default=JOBS, metavar="'LIKELIHOOD INDEX'")
    parser.add_argument("--set", nargs="+", default=[], metavar="OPTION=VALUE", help="of the index")
    parser.add_argument("--places", type=int, default=10, help="where the run is stopped")
    parser.add_argument("--steps", type=int, default=50, help="that follow each of them")
    parser.add_argument("--table", action="store_true", help="print it as Markdown")
    parser.add_argument("--gold", nargs="+", metavar=("INDEX", "FILE"), help="no jobs")
    parser.add_argument("--measure", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.measure:
        print(json.dumps(measure(**json.loads(given.measure))))
        return
    options = dict(one.split("=", 1) for one in given.set)
    if given.gold:
        for file in given.gold[1:]:
            print(by_gold(given.gold[0], options, file, given.first), flush=True)
        return
    if given.table:
        print(shown(finished(given.results)))
        return
    for pair in given.jobs:
        likelihood, index = pair.split()
        job = {"file": given.file, "first": given.first, "likelihood": likelihood, "index": index}
        job |= {"options": options}
        known = finished(given.results)
        if any(job.items() <= row.items() for row in known):
            continue
        same = (row for row in known if all(row[k] == job[k] for k in ("file", "likelihood")))
        alpha = next((row["alpha"] for row in same if row["first"] == given.first), None)
        sample = {"alpha": alpha, "places": given.places, "steps": given.steps}
        command = [sys.executable, __file__, str(given.results)]
        done = subprocess.run(
            [*command, "--measure", json.dumps(job | sample)],
            stdout=subprocess.PIPE,
            text=True,
            check=True,
            env=os.environ | {"OMP_NUM_THREADS": "1"},
        )
        row = job | json.loads(done.stdout)
        with open(given.results, "a") as file:
            file.write(json.dumps(row) + "\n")
        print(json.dumps(row), flush=True)


def first_of(file: str, n: int) -> list[Fragment]:
    """The first records of a file."""
    path = Path(file) if Path(file).exists() else data_folder() / file
    return list(islice(read_fragments(str(path)), n))


def by_gold(index: str, options: dict[str, str], file: str, first: int) -> str:
    """A line: how many of the entities that are there are found, and how many are compared."""
    fragments = first_of(file, first)
    made = make_index(index, options, {**INDEXES, **OF_THE_LABORATORY})
    made.fit(fragments)
    found = recall_of(made, fragments)
    return f"{file}, {len(fragments):,}: {100 * found.recall:.1f} % ({found.candidates:.0f})"


def measure(
    file: str,
    first: int,
    likelihood: str,
    index: str,
    options: dict[str, str],
    alpha: float | None,
    places: int,
    steps: int,
) -> dict[str, Any]:
    """One job: costs and scores of a whole run, then the recall in a sample of its steps."""
    fragments = first_of(file, first)
    of_names = OF_NAMES if likelihood == "bigram" and index in HASHES else {}
    chosen = {"index": {**of_names, **options}}
    choices = RunOptions(likelihood=likelihood, index=index, alpha=alpha, options=chosen)
    prepared = prepare(fragments, choices)
    spec = prepared.spec
    assert spec.index is not None
    begin = time.process_time()
    for at in range(0, len(fragments), _AT_ONCE):
        spec.index.keys_of(fragments[at : at + _AT_ONCE])
    keys = time.process_time() - begin
    begin = time.process_time()
    posterior = prepared.clusterer.cluster(fragments, spec, np.random.default_rng(0))
    seconds = time.process_time() - begin
    found = compare(posterior.labels(), [fragment.label for fragment in fragments])
    row = {
        "fragments": len(fragments),
        "alpha": prepared.alpha,
        "keys_us": 1e6 * keys / len(fragments),
        "cpu_seconds": seconds,
        "peak_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        "bcubed_f1": found.bcubed_f1_harmonic,
        "pairwise_f1": found.pairwise_f1,
        "clusters": found.clusters,
        "gold_clusters": found.gold_clusters,
    }
    del posterior
    return row | asdict(recall_of_steps(fragments, spec, places, steps))


def recall_of_steps(
    fragments: Sequence[Fragment], spec: ModelSpec, places: int, steps: int
) -> Recall:
    """What the index leads to of what exact scoring keeps, in the steps before some places."""
    if spec.index is None:
        raise KBForgeError("expected an index, got none")
    rules = SplitSmc().rules.settled(indexed=True)
    session = SmcSession(spec, rules, np.random.default_rng(0))
    found, seconds = [], 0.0
    for end in np.linspace(0, len(fragments), places + 1)[1:].astype(int).tolist():
        start = max(end - steps, session.n_fragments)
        session.add(fragments[session.n_fragments : start])
        beside, n_clusters = unindexed(session, spec, rules)
        for x in fragments[start:end]:
            slots = session._state.run.look_up(session.n_fragments, spec.index.keys_of([x])[1])
            assert slots is not None, "all is here"
            begin = time.process_time()
            (step,) = beside.add([x])
            seconds += time.process_time() - begin
            led = {cluster[0] for cluster in session._state.run.clusters(slots)[0]}
            joins = [one for one in joins_of(beside, step) if one.family < start]
            found.append(
                (
                    sum(one.probability for one in joins if one.family in led),
                    sum(one.probability for one in joins),
                    sum(one.family in led for one in joins),
                    len(joins),
                    sum(one.heaviest and one.family in led for one in joins),
                    sum(one.heaviest for one in joins),
                    len(slots),
                    n_clusters,
                )
            )
    total = np.sum(found, axis=0)
    return Recall(
        steps=len(found),
        mass=share(total[0], total[1]),
        kept=share(total[2], total[3]),
        best=share(total[4], total[5]),
        compared=total[6] / len(found),
        clusters=total[7] / len(found),
        exact_seconds=seconds / len(found),
    )


def share(found: float, there: float) -> float:
    """Of what there was, how much was found; 1 of nothing."""
    return float(found / there) if there else 1.0


def unindexed(session: SmcSession, spec: ModelSpec, rules: Rules) -> tuple[SmcSession, int]:
    """A session that goes on from there and compares with all clusters, and how many those are."""
    pages = tuple(session.snapshot().pages)
    totals = session._state.totals()
    totals = replace(totals, settings={**totals.settings, "index": False})
    snapshot = Snapshot(session.fragments, totals, pages, {}, {})
    rng = np.random.default_rng(0)
    beside = SmcSession(replace(spec, index=None), rules, rng, snapshot)
    return beside, sum(len(page.slots) for page in pages)


class Join(NamedTuple):
    """A cluster that a record joins on some particles."""

    family: int  # its first fragment
    probability: float  # of these particles
    heaviest: bool  # whether the heaviest particle is one


def joins_of(session: SmcSession, step: StepResult) -> list[Join]:
    """The clusters that a record joined when it was taken in."""
    x = step.fragment
    for name in step.after:
        page = session._state.run.page(name)
        if x not in page.members:
            continue
        held = np.split(page.members, np.cumsum(page.lengths)[:-1])
        rows = np.split(page.cells, np.cumsum(page.rows)[:-1])
        of_row = [next(int(c) for c in row if held[c][-1] == x) for row in rows]  # x is the newest
        weights = np.exp(page.weights)
        return [
            Join(int(held[c][0]), sum(weights[np.equal(of_row, c)]), c == of_row[0])
            for c in dict.fromkeys(of_row)
            if len(held[c]) > 1
        ]
    raise AssertionError("it is in one of them")


def finished(results: Path) -> list[dict[str, Any]]:
    """The rows that are there."""
    if not results.exists():
        return []
    return [json.loads(line) for line in results.read_text().splitlines()]


def shown(rows: list[dict[str, Any]]) -> str:
    """A line a job."""
    head = ["likelihood, index", "records", "mass", "kept", "best", "clusters compared", "of"]
    head += ["B-cubed F1", "pairwise F1", "keys, us", "records/s", "peak MiB", "exact step, ms"]
    lines = []
    for row in rows:
        options = "".join(f", {name}={value}" for name, value in row["options"].items())
        lines.append(
            [
                f"{row['likelihood']}, {row['index']}{options}",
                f"{row['fragments']:,}",
                *(f"{100 * row[name]:.1f} %" for name in ("mass", "kept", "best")),
                f"{row['compared']:.0f}",
                f"{row['clusters']:,.0f}",
                f"{row['bcubed_f1']:.4f}",
                f"{row['pairwise_f1']:.4f}",
                f"{row['keys_us']:.0f}",
                f"{row['fragments'] / row['cpu_seconds']:,.0f}",
                f"{row['peak_mib']:,.0f}",
                f"{1e3 * row['exact_seconds']:.1f}",
            ]
        )
    return table(head, lines)


if __name__ == "__main__":
    main()

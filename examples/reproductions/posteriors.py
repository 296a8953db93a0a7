"""Probabilities of pairs: best merges in rounds beside one fragment after another, by one model.

    KBFORGE_DATA=... python examples/reproductions/posteriors.py results.jsonl

Every plain labelled set of up to 10,000 fragments gets the likelihood, alpha and exponent of the
plain `kbforge cluster`, and both clusterers use them. A pair counts if either gives it more than
.01; it is in doubt unless both give it .99. The Brier score is against the labels. Finished sets in
the file are not repeated.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np
from shell import data_folder, table

from kbforge.evaluation.reliability import pair_probabilities
from kbforge.fit.choices import RunOptions
from kbforge.fit.prepare import prepare
from kbforge_lab.suites.accuracy import SETS, LabelledSet

MOST = 10_000
LEAST = 0.01


def main() -> None:
    """Compare on the sets that the file lacks; print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("results", type=Path, metavar="RESULTS.jsonl", help="one set a line")
    path = parser.parse_args().results
    rows = [json.loads(line) for line in path.open()] if path.exists() else []
    done = {row["set"] for row in rows}
    with path.open("a") as out:
        for one in SETS:
            if one.kind == "plain" and one.fragments <= MOST and one.name not in done:
                rows.append(compared(one))
                print(json.dumps(rows[-1]), file=out, flush=True)
    measures = ("mean", "in doubt", "Brier, rounds", "Brier, sequential", "merges cut")
    cells = [[row["set"], *(f"{row[name]:.3f}" for name in measures)] for row in rows]
    for name, some in (("all", rows), ("nothing cut", [r for r in rows if not r["merges cut"]])):
        means = [sum(row[measure] for row in some) / len(some) for measure in measures]
        cells.append([f"mean of {len(some)}, {name}", *(f"{mean:.3f}" for mean in means)])
    print(table(["set", *measures], cells))


def compared(one: LabelledSet) -> dict[str, Any]:
    """The differences on a set."""
    fragments = one.read(data_folder())
    made = prepare(fragments, RunOptions())
    likelihood = made.spec.likelihood
    one_by_one = RunOptions(clusterer="split-smc", likelihood=likelihood, alpha=1.0)
    clusterers = made.clusterer, prepare(fragments, one_by_one).clusterer
    posteriors = [c.cluster(fragments, made.spec, np.random.default_rng(0)) for c in clusterers]
    reported = [pair_probabilities([posterior]) for posterior in posteriors]
    found = [
        dict(zip(zip(some.first, some.second, strict=True), some.probability, strict=True))
        for some in reported
    ]
    pairs = sorted({pair for some in found for pair, p in some.items() if p > LEAST})
    rounds, sequential = (np.array([some.get(pair, 0.0) for pair in pairs]) for some in found)
    truth = np.array([fragments[i].label == fragments[j].label for i, j in pairs], np.float64)
    off = np.abs(rounds - sequential)
    doubt = (np.maximum(rounds, sequential) > LEAST) & (np.minimum(rounds, sequential) < 1 - LEAST)
    return {
        "set": one.name,
        "pairs": len(pairs),
        "mean": float(off.mean()),
        "in doubt": float(off[doubt].mean()) if doubt.any() else 0.0,
        "Brier, rounds": float(np.square(rounds - truth).mean()),
        "Brier, sequential": float(np.square(sequential - truth).mean()),
        "merges cut": posteriors[0].merges_cut,
        "log posteriors": [posterior.log_posterior for posterior in posteriors],
    }


if __name__ == "__main__":
    main()

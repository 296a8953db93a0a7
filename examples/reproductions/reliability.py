"""How sure is the grouping of real records? Reliability before and after a confidence map.

    KBFORGE_DATA=... python examples/reproductions/reliability.py out/ --likelihood attributes
    python examples/reproductions/reliability.py out/ --likelihood bigram --alpha 1e9
    python examples/reproductions/reliability.py out/ --likelihood attributes --unlabelled

The test is the 5k subset of the historical people: whole gold clusters in order of first appearance
until there are 5,000 records. The map is fitted on the next 5,000, clustered by themselves; no
entity is in both. Labels are read to fit the map and to judge, never to cluster. Other options go
to `kbforge calibrate` as they are.

Writes test.jsonl, train.jsonl, confidence.toml (the map) and reliability.json to the folder, and
prints both tables as Markdown. --unlabelled also measures the raw errors over several orders
of the data, which need no labels and have no target.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from real_sets import RECORD
from shell import data_folder, kbforge_json, table

from kbforge.contracts import Fragment
from kbforge.files.fragments import read_fragments, write_fragments
from kbforge_lab.suites.accuracy import first_entities

SIZE = 5_000
SET = "splink_hist50k/historical_50k.jsonl.gz"
# name -> options; what is not named is as by default
UNLABELLED = {
    "raw": [],
    "5 orders": ["--shuffles", 5],
}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--likelihood", default="attributes")
    parser.add_argument("--unlabelled", action="store_true")
    options, more = parser.parse_known_args()
    folder: Path = options.folder
    folder.mkdir(parents=True, exist_ok=True)
    test, train = folder / "test.jsonl", folder / "train.jsonl"
    tested, fitted = parts(list(read_fragments(str(data_folder() / SET))), SIZE)
    write_fragments(tested, test)
    write_fragments(fitted, train)
    job = ["--likelihood", options.likelihood, *more]
    if options.likelihood == "bigram":
        job += ["--set", f"likelihood.attributes={RECORD}"]
    fit = ["--confidence", "-o", folder / "confidence.toml", "--test-on", test]
    results = {"mapped": kbforge_json("calibrate", train, *job, *fit)}
    if options.unlabelled:
        for name, way in UNLABELLED.items():
            results[name] = kbforge_json("evaluate", test, "--reliability", *job, *way)
    (folder / "reliability.json").write_text(json.dumps(results, indent=1) + "\n")
    print(report(results["mapped"], len(fitted)))
    if options.unlabelled:
        print("\n" + without_labels({name: results[name] for name in UNLABELLED}))


def parts(fragments: Sequence[Fragment], size: int) -> tuple[list[Fragment], list[Fragment]]:
    """The first entities with at least `size` fragments, and the next ones with as many."""
    first = first_entities(fragments, size)
    labels = {fragment.label for fragment in first}
    return first, first_entities([f for f in fragments if f.label not in labels], size)


def report(found: dict[str, Any], fitted: int) -> str:
    """Errors, then the tables of both kinds of claims, raw and by the map."""
    scores = found["scores"]
    head = ["claims", "", "count", f"ECE, {found['bins']} bins", "Brier"]
    rows, tables = [], []
    for kind in ("pairs", "entities"):
        for name in ("raw", "mapped"):
            measured = found[kind][name]
            errors = [f"{measured[key]:.4f}" for key in ("ece", "brier")]
            rows.append([kind, name, f"{measured['count']:,}", *errors])
            tables.append(f"{kind}, {name}:\n\n{bins(measured)}")
    said = (
        f"{found['fragments']:,} fragments in {scores['clusters']:,} entities, gold has "
        f"{scores['gold_clusters']:,}; B-cubed F1 {scores['bcubed_f1_harmonic']:.4f} (harmonic); "
        f"map fitted on {fitted:,} other fragments"
    )
    return "\n\n".join([said, table(head, rows), *tables])


def bins(measured: dict[str, Any]) -> str:
    """One line a bin."""
    rows = [
        [
            f"{row['low']:.3f} to {row['high']:.3f}",
            f"{row['count']:,}",
            f"{row['reported']:.4f}",
            f"{row['share']:.4f}",
        ]
        for row in measured["table"]
    ]
    return table(["probability", "claims", "mean", "share true"], rows)


def without_labels(results: dict[str, dict[str, Any]]) -> str:
    """One line a way to be less sure."""
    head = ["", "pairs", "pair ECE", "pair Brier", "entity ECE", "entity Brier"]
    head += ["entities", "F1"]
    rows = []
    for name, found in results.items():
        pairs, entities, scores = (found[key] for key in ("pairs", "entities", "scores"))
        errors = [part["raw"][key] for part in (pairs, entities) for key in ("ece", "brier")]
        cells = [name, f"{pairs['raw']['count']:,}", *(f"{error:.4f}" for error in errors)]
        rows.append([*cells, f"{scores['clusters']:,}", f"{scores['bcubed_f1_harmonic']:.4f}"])
    return table(head, rows)


if __name__ == "__main__":
    main()

"""Clustering with the language model: against its surrogate, plain SMC, greedy and exact names.

    KBFORGE_DATA=... python examples/reproductions/lm_clustering.py [--model gpt] [--json OUT]

Alpha is chosen on each family's train set, on a grid of log alpha, for B-cubed F1 of the greedy
clusterer: one for the model, one with the surrogate's vote, one for the surrogate alone. Results
are of the dev set, in several orders. Runs of a family share a model and its memory of scores, so
seconds depend on the order of the table.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from shell import data_folder, table

from kbforge import registry
from kbforge.contracts import Fragment, ModelSpec
from kbforge.evaluation.scores import compare
from kbforge.files.fragments import read_fragments
from kbforge.models.bundle import make_likelihood

ALGORITHMS = ("greedy", "smc", "split-smc")
HEAD = ["set", "model", "algorithm", "log alpha", "P", "R", "F1", "log posterior", "s"]


@dataclass(frozen=True)
class Row:
    """Mean and standard deviation over the orders."""

    family: str
    model: str
    algorithm: str
    log_alpha: float
    precision: tuple[float, float]
    recall: tuple[float, float]
    f1: tuple[float, float]
    log_posterior: tuple[float, float]
    seconds: tuple[float, float]

    def cells(self) -> list[str]:
        shown = [f"{m:.3f} ({s:.3f})" for m, s in (self.precision, self.recall, self.f1)]
        log_posterior = f"{self.log_posterior[0]:,.0f} ({self.log_posterior[1]:.0f})"
        seconds = f"{self.seconds[0]:.1f} ({self.seconds[1]:.1f})"
        alpha = "" if math.isnan(self.log_alpha) else f"{self.log_alpha:.1f}"
        if self.algorithm == "exact name":
            log_posterior = seconds = ""
        head = [self.family, self.model, self.algorithm, alpha]
        return [*head, *shown, log_posterior, seconds]


def main() -> None:
    """Print the table as it grows."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", default="gpt", help="likelihood plugin or bundle")
    parser.add_argument("--families", default="wd50,wd200,dwie50,dwie100")
    parser.add_argument("--shuffles", type=int, default=3)
    parser.add_argument("--particles", type=int, default=100)
    parser.add_argument("--max-evals", type=int, default=100)
    parser.add_argument("--search-evals", type=int, default=10, help="M while alpha is searched")
    parser.add_argument("--grid", default="7,10,13,17,21,25", help="log alphas of the model")
    parser.add_argument(
        "--pooled-grid", default="16,19,22,26,30,35,40", help="log alphas of model and bigram"
    )
    parser.add_argument("--surrogate-grid", default="5,6,7,8,9,10,11,12,14,16")
    parser.add_argument("--json", type=Path, help="also write the rows here")
    options = parser.parse_args()
    rows: list[Row] = []
    for family in options.families.split(","):
        for row in family_rows(family, options):
            rows.append(row)
            print(f"| {' | '.join(row.cells())} |", file=sys.stderr, flush=True)
    print(table(HEAD, [row.cells() for row in rows]))
    if options.json:
        options.json.write_text(json.dumps([vars(row) for row in rows], indent=1))


def family_rows(family: str, options: argparse.Namespace) -> Iterator[Row]:
    folder = data_folder() / "confusable"
    train = list(read_fragments(str(folder / f"{family}_train.jsonl")))
    dev = list(read_fragments(str(folder / f"{family}_dev.jsonl")))
    rng = np.random.default_rng(0)
    orders = [list(range(len(dev))), *(list(rng.permutation(len(dev))) for _ in range(99))]
    orders = orders[: options.shuffles]
    model: Any = make_likelihood(options.model, {"surrogate_weight": 0.0})
    bigram = model.surrogate
    yield exact_name(family, dev)
    pooled = make_likelihood(options.model)
    few = options.search_evals
    for name, spec, grid in (
        ("bigram alone", ModelSpec(bigram, 1.0), options.surrogate_grid),
        ("model + bigram", ModelSpec(pooled, 1.0, bigram, few), options.pooled_grid),
        ("model", ModelSpec(model, 1.0, bigram, few), options.grid),
    ):
        log_alpha = best_log_alpha(train, spec, [float(a) for a in grid.split(",")])
        max_evals = options.max_evals if spec.surrogate else None
        spec = ModelSpec(spec.likelihood, math.exp(log_alpha), spec.surrogate, max_evals)
        for algorithm in ALGORITHMS:
            setting = {} if algorithm == "greedy" else {"particles": options.particles}
            runs = [run([dev[i] for i in order], spec, algorithm, setting) for order in orders]
            yield Row(family, name, algorithm, log_alpha, *map(mean_sd, zip(*runs, strict=True)))


def best_log_alpha(train: Sequence[Fragment], spec: ModelSpec, grid: Sequence[float]) -> float:
    """The log alpha of the greatest F1; of equals, the middle one. Large ones are quicker."""
    f1 = {}
    for log_alpha in sorted(grid, reverse=True):
        at = ModelSpec(spec.likelihood, math.exp(log_alpha), spec.surrogate, spec.max_evals)
        f1[log_alpha] = run(train, at, "greedy", {})[2]
        print(f"log alpha {log_alpha:g}: train F1 {f1[log_alpha]:.3f}", file=sys.stderr, flush=True)
    best = [log_alpha for log_alpha in sorted(f1) if f1[log_alpha] == max(f1.values())]
    return best[len(best) // 2]


def run(
    fragments: Sequence[Fragment], spec: ModelSpec, algorithm: str, setting: dict[str, object]
) -> tuple[float, float, float, float, float]:
    """Precision, recall, F1, log posterior, seconds."""
    clusterer = registry.create("clusterers", algorithm, setting)
    begin = time.perf_counter()
    posterior = clusterer.cluster(fragments, spec, np.random.default_rng(0))
    seconds = time.perf_counter() - begin
    scores = compare(posterior.labels(), [fragment.label for fragment in fragments])
    return (
        scores.bcubed_precision,
        scores.bcubed_recall,
        scores.bcubed_f1_item_mean,
        posterior.log_posterior,
        seconds,
    )


def exact_name(family: str, fragments: Sequence[Fragment]) -> Row:
    """Group by the first name, case-folded."""
    names = [fragment.names[0].casefold() for fragment in fragments]
    numbers = {name: number for number, name in enumerate(dict.fromkeys(names))}
    scores = compare([numbers[name] for name in names], [f.label for f in fragments])
    nothing = (math.nan, math.nan)
    values = (scores.bcubed_precision, scores.bcubed_recall, scores.bcubed_f1_item_mean)
    shown = [(value, 0.0) for value in values]
    return Row(family, "", "exact name", math.nan, *shown, nothing, nothing)


def mean_sd(values: Sequence[float]) -> tuple[float, float]:
    return statistics.fmean(values), statistics.stdev(values) if len(values) > 1 else 0.0


if __name__ == "__main__":
    main()

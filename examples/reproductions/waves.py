"""What looking ahead does for a black box: batches, sets in vain and time, for several waves.

    KBFORGE_DATA=... python examples/reproductions/waves.py [FILE] [--fragments N] [--waves 1,8,32]

clusters the first fragments of a file (wd200_dev) with a language model, a network or any other
black box, once for every wave, each with models of its own, in one process. A call is one question
to the likelihood, of so many sets; in vain are sets that no step came to ask for.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from shell import data_folder, table

from kbforge.contracts import FloatArray, Fragment, Likelihood, Posterior
from kbforge.files.fragments import read_fragments
from kbforge.fit.choices import RunOptions
from kbforge.fit.prepare import prepare


class Counted(Likelihood):
    """A likelihood whose calls are counted and timed."""

    def __init__(self, likelihood: Likelihood) -> None:
        self._likelihood = likelihood
        self.calls: list[int] = []
        self.seconds = 0.0

    def log_marginal(self, clusters: Sequence[Sequence[Fragment]]) -> FloatArray:
        begin = time.process_time()
        scores = self._likelihood.log_marginal(clusters)
        self.seconds += time.process_time() - begin
        self.calls.append(len(clusters))
        return scores


def main() -> None:
    """Cluster once for every wave."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("file", nargs="?")
    parser.add_argument("--fragments", type=int, default=1000)
    parser.add_argument("--waves", default="1,8,32,128")
    parser.add_argument("--likelihood", default="gpt")
    parser.add_argument("--clusterer", default="split-smc")
    given = parser.parse_args()
    path = given.file or os.fspath(data_folder() / "confusable" / "wd200_dev.jsonl")
    fragments = list(read_fragments(path, limit=given.fragments))
    rows: list[list[str]] = []
    first: Posterior | None = None
    for wave in map(int, given.waves.split(",")):
        options = {"clusterer": {"wave": wave}}
        choices = RunOptions(
            likelihood=given.likelihood, clusterer=given.clusterer, options=options
        )
        posterior, row = run(choices, fragments)
        first = first or posterior
        same = sorted(posterior.clusters()) == sorted(first.clusters())
        apart = abs(posterior.log_posterior - first.log_posterior)
        rows.append([str(wave), *row, "yes" if same else "NO", f"{apart:.4f}"])
    head = ["wave", "calls", "sets a call", "sets asked for", "in vain"]
    head += ["model, processor s", "all, processor s", "s", "same grouping", "nats apart"]
    print(table(head, rows))


def run(choices: RunOptions, fragments: Sequence[Fragment]) -> tuple[Posterior, list[str]]:
    """Cluster, and say what it took."""
    made = prepare(fragments, choices)
    counted = Counted(made.spec.likelihood)
    spec = replace(made.spec, likelihood=counted)
    wall, spent = time.perf_counter(), time.process_time()
    posterior = made.clusterer.cluster(fragments, spec, np.random.default_rng(0))
    wall, spent = time.perf_counter() - wall, time.process_time() - spent
    scored = sum(counted.calls)
    return posterior, [
        f"{len(counted.calls):,}",
        f"{scored / len(counted.calls):.1f}",
        f"{posterior.model_evaluations:,}",
        f"{posterior.evaluations_in_vain / scored:.1%}",
        f"{counted.seconds:.1f}",
        f"{spent:.1f}",
        f"{wall:.1f}",
    ]


if __name__ == "__main__":
    main()

"""The consensus of replicas beside SMC and split SMC in equal time, on the Gaussian benchmark.

    KBFORGE_DATA=... python examples/reproductions/replicas.py [--orders 6]

`sir` with R replicas, `smc` and `split-smc` with P particles take about as long as each other. Of
each posterior: the most probable grouping that was found (map), and the consensus, the tree of the
posterior similarity by average linkage, cut where it loses least. Seconds are of the processor, for
the posterior, and for the consensus after that. Means over orders of the 700 points, the three
published ones first, with standard deviations. `smc` and `split-smc` take their steps in the
compiled kernel, `sir` in NumPy.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from scipy.cluster.hierarchy import cut_tree, linkage
from scipy.spatial.distance import squareform
from shell import table

from kbforge import registry
from kbforge.clustering.rules import DirichletProcess
from kbforge.contracts import Cluster, Fragment, ModelSpec, Posterior, Subproblem
from kbforge.evaluation.scores import compare
from kbforge.kb.consensus import similarity, variation
from kbforge_lab.bench.runs import order
from kbforge_lab.suites.gauss import Gauss
from kbforge_lab.suites.plan import Task

METHODS = (
    *(("sir", "replicas", n) for n in (60, 250, 1000, 5000)),
    *(("smc", "particles", n) for n in (100, 1000, 5000)),
    *(("split-smc", "particles", n) for n in (100, 1000, 5000)),
)


def log_posterior(spec: ModelSpec, fragments: list[Fragment], found: Sequence[Cluster]) -> float:
    """Of a grouping, unnormalised, nats."""
    model = spec.likelihood.log_marginal([[fragments[i] for i in c] for c in found])
    return float(DirichletProcess(spec.alpha).log_terms(found, model).sum())


def scored(spec: ModelSpec, fragments: list[Fragment], posterior: Posterior) -> list[float]:
    """Log posterior, F1 (mean of the items' B-cubed F1) and clusters of the point estimate."""
    gold = [fragment.label for fragment in fragments]
    scores = compare(posterior.labels(), gold)
    log_p = log_posterior(spec, fragments, posterior.clusters())
    return [log_p, scores.bcubed_f1_item_mean, scores.clusters]


def averaged(subproblem: Subproblem) -> Subproblem:
    """With the cut that loses least of the tree by average linkage for its point estimate."""
    if len(subproblem.particles) == 1:
        return subproblem
    together = similarity(subproblem)
    tree = linkage(squareform(1 - together, checks=False), "average")
    best = min(cut_tree(tree).T, key=lambda labels: variation(together, labels))
    members = np.array(subproblem.fragments)
    clusters = tuple(tuple(members[best == k].tolist()) for k in range(best.max() + 1))
    return replace(subproblem, estimate=clusters)


def figures(task: Task, shuffle: int, name: str, options: dict[str, int]) -> list[float]:
    """Seconds, then those of the map, then seconds of the consensus, then those of it."""
    assert task.likelihood is not None
    assert task.alpha is not None
    model = registry.create("likelihoods", task.likelihood.name, dict(task.likelihood.options))
    spec = ModelSpec(model, alpha=task.alpha)
    fragments = [task.fragments[i] for i in order(task, shuffle)]
    clusterer = registry.create("clusterers", name, options)
    begun = time.process_time()
    posterior = clusterer.cluster(fragments, spec, np.random.default_rng(shuffle))
    drawn = time.process_time()
    average = replace(posterior, subproblems=tuple(map(averaged, posterior.subproblems)))
    agreed = time.process_time()
    return [
        drawn - begun,
        *scored(spec, fragments, posterior),
        agreed - drawn,
        *scored(spec, fragments, average),
    ]


def row(name: str, option: str, number: int, runs: list[list[float]]) -> list[str]:
    """A line of the table."""
    mean, sd = np.mean(runs, axis=0), np.std(runs, axis=0)
    cells = [f"{name}, {'R' if option == 'replicas' else 'P'} = {number:,}"]
    for at in (0, 4):
        cells += [
            f"{mean[at]:.2f}",
            f"{mean[at + 1]:,.1f} ({sd[at + 1]:.1f})",
            f"{mean[at + 2]:.3f} ({sd[at + 2]:.3f})",
            f"{mean[at + 3]:.1f}",
        ]
    return cells


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--orders", type=int, default=6)
    options = parser.parse_args()
    (task,) = Gauss(data="published").plan().tasks
    figures(task, 0, "split-smc", {})  # what is loaded once is no part of the first row
    rows = []
    for name, option, number in METHODS:
        runs = [figures(task, i, name, {option: number}) for i in range(options.orders)]
        rows.append(row(name, option, number, runs))
        print(" ".join(rows[-1]), flush=True)
    head = ["method", "seconds", "log posterior", "F1", "entities"]
    head += ["seconds more", "log posterior, consensus", "F1, consensus", "entities, consensus"]
    print(f"\n{table(head, rows)}")


if __name__ == "__main__":
    main()

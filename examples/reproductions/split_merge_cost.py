"""What a proposal of each sampler costs as data grow: processor time, and its slope.

The grouping is that of the labels, the clusters being as many as there are points for 50 in each,
so that clusters do not grow with the points. Every sampler then makes some proposals; processor
time is that of the proposals alone. The slope is that of log time over log points by least squares:
0 is a cost that does not depend on how many points there are, 1 one in proportion.

    python examples/reproductions/split_merge_cost.py --points 1000,3000,10000,30000
"""

from __future__ import annotations

import argparse
import time

import numpy as np

from kbforge import registry
from kbforge.clustering.rules import DirichletProcess
from kbforge.contracts import Fragment, ModelSpec
from kbforge_lab.batch.chain import MarkovChain
from kbforge_lab.batch.grouping import Grouping
from kbforge_lab.suites.gauss import separate_gaussians
from kbforge_plugins.likelihoods.gaussian import Gaussian

SAMPLERS = ("minsm", "lshsm", "rgsm", "sdds", "gibbs")
POINTS_A_CLUSTER = 50
DIMENSIONS = 25
SPREAD = 3.0


def main() -> None:
    """Print a line a sampler: microseconds of a proposal by number of points, and the slope."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--points", default="1000,3000,10000,30000", help="numbers, with commas")
    parser.add_argument("--samplers", default=",".join(SAMPLERS), help="names, with commas")
    parser.add_argument("--seconds", type=float, default=3.0, help="a measurement takes")
    given = parser.parse_args()
    sizes = [int(size) for size in given.points.split(",")]
    print("sampler", *(f"{size:,} points" for size in sizes), "slope", sep="\t")
    for name in given.samplers.split(","):
        costs = [cost(name, size, given.seconds) for size in sizes]
        slope = np.polyfit(np.log(sizes), np.log(costs), 1)[0]
        print(name, *(f"{1e6 * each:,.0f} us" for each in costs), f"{slope:+.2f}", sep="\t")


def cost(name: str, points: int, seconds: float) -> float:
    """Seconds of processor time that a proposal takes."""
    clusters = points // POINTS_A_CLUSTER
    rng = np.random.default_rng(points)
    x, labels = separate_gaussians(points, clusters, DIMENSIONS, SPREAD, rng)
    fragments = [Fragment(f"p{i}", {}, tuple(row)) for i, row in enumerate(x.tolist())]
    spec = ModelSpec(Gaussian(b=2.0, lam=1 / SPREAD**2), alpha=1.0)
    prior, grouping = DirichletProcess(spec.alpha), Grouping(points)
    clusterer = registry.create("clusterers", name, {})
    kernel = clusterer.make_kernel(fragments, spec, grouping, prior.log_alpha)
    chain = MarkovChain(kernel, grouping, prior, np.random.default_rng(1))
    order = np.argsort(labels, kind="stable")
    groups = np.split(order, np.flatnonzero(np.diff(labels[order])) + 1)
    for _ in chain.start([tuple(group.tolist()) for group in groups]):
        pass
    return timed(chain, seconds)


def timed(chain: MarkovChain, seconds: float) -> float:
    """The mean over as many proposals as there is time for; a sweep at most is left unfinished."""
    moves, begin = 0, time.process_time()
    while True:
        for _ in chain.sweep():
            moves += 1
            spent = time.process_time() - begin
            if spent > seconds:
                return spent / moves


if __name__ == "__main__":
    main()

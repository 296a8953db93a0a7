"""A small suite, its runs, and rows made by hand."""

import os
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np

from kbforge.contracts.fragment import Fragment
from kbforge_lab.bench.results import Row, TraceRow
from kbforge_lab.bench.runs import BenchRun
from kbforge_lab.suites.plan import Method, Model, SuitePlan, Task
from tests.registry.distributions import Distribution

GREEDY = Method("Greedy", "greedy")
SPLIT = Method("Split SMC", "split-smc", particles=10)
FAILING = Method("Failing", "failing")

_STRANGER = """
import os
from kbforge_plugins.clusterers.sequential import GreedyClusterer
from kbforge_lab.suites.plan import Suite
from tests.lab.bench.toys import FAILING, GREEDY, plan

class Failing(GreedyClusterer):
    def cluster(self, *given):
        {body}
        return super().cluster(*given)

class Toys(Suite):
    def plan(self, quick=False):
        return plan(methods=(GREEDY, FAILING), reference="Greedy")
"""

PROGRAM = "program_of_toys"
"""The module of the program that has the suite `toys`, too."""

_PROGRAM = """
import sys
import stranger
from kbforge.cli.main import main
from kbforge_lab import suites

suites.SUITES["toys"] = "Toys"
sys.modules["kbforge_lab.suites.toys"] = stranger
if __name__ == "__main__":
    main()
"""


def task(n: int = 40, clusters: int = 5) -> Task:
    rng = np.random.default_rng(1)
    points = [(3.0 * (i % clusters) + rng.normal(size=2)).tolist() for i in range(n)]
    fragments = tuple(
        Fragment(f"p{i}", {}, tuple(point), str(i % clusters)) for i, point in enumerate(points)
    )
    return Task("toy", fragments, Model("gaussian", {"b": 1.0}), 2.0, Model("gaussian"))


def run(
    method: Method = SPLIT, shuffle: int = 0, seconds: float = 60.0, **changes: Any
) -> BenchRun:
    return BenchRun("toys", replace(task(), **changes), method, shuffle, seconds)


def plan(**changes: Any) -> SuitePlan:
    return replace(SuitePlan(tasks=(task(),), methods=(GREEDY, SPLIT), shuffles=2), **changes)


def row(method: Method = SPLIT, shuffle: int = 0, **changes: Any) -> Row:
    made = Row(
        key=f"{method.name}-{method.particles}-{method.max_evals}-{shuffle}",
        suite="toys",
        task="toy",
        method=method.name,
        particles=method.particles,
        surrogate=method.surrogate,
        max_evals=method.max_evals,
        shuffle=shuffle,
        clusterer=method.clusterer,
        options="{}",
        budget=60.0,
        fragments=40,
        of=40,
        cut=False,
        log_posterior=-100.0,
        f1=0.8,
        precision=0.9,
        recall=0.7,
        entities=5,
        gold_entities=5,
        exact_entities=4,
        subproblems=3,
        log10_effective_particles=2.5,
        model_evaluations=100,
        seconds=1.0,
        cpu_seconds=0.5,
        version="0",
    )
    return replace(made, **changes)


def trace_row(
    method: Method = SPLIT, shuffle: int = 0, fragments: int = 40, **changes: Any
) -> TraceRow:
    so_far = {"seconds": fragments / 40, "log10_effective_particles": fragments / 20}
    full = row(method, shuffle, fragments=fragments, **so_far)
    made = TraceRow(**{field.name: getattr(full, field.name) for field in fields(TraceRow)})
    return replace(made, **changes)


def install_failing(folder: Path, body: str) -> None:
    """A stranger's clusterer `failing`, which does as told, and a suite `toys` that has it run."""
    entries = {"kbforge.clusterers": {"failing": "stranger:Failing"}}
    modules = {"stranger": _STRANGER.format(body=body), PROGRAM: _PROGRAM}
    Distribution("stranger", entry_points=entries, modules=modules).write(folder)


def die(pipe: object) -> None:
    """What a worker is that does not live to take its run."""
    os._exit(3)

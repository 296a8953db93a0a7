"""A run of a grouper is scored by its sample's means, and chains say whether they have met."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest

from kbforge.contracts import Fragment
from kbforge.evaluation.scores import compare
from kbforge_lab.bench.pairs_table import pairs_table
from kbforge_lab.bench.perform import perform
from kbforge_lab.bench.results import Results, Row
from kbforge_lab.bench.runs import Run, Selection, runs_of, select
from kbforge_lab.bench.summary import lines
from kbforge_lab.contracts.suite import Grouped, Method, Plan, Published, Task
from kbforge_lab.convergence import bulk_effective_size, scale_reduction


@dataclass(frozen=True)
class Toy:
    """Groups by parity and by thirds; with examples, those that are labelled so are counted."""

    level: float = 0.0

    def group(
        self, examples: Sequence[Fragment], fragments: Sequence[Fragment], seed: int
    ) -> Grouped:
        numbers = [int(f.id) for f in fragments]
        trace = (
            np.random.default_rng(seed).normal(self.level, size=8).tolist() if self.level else ()
        )
        return Grouped([[n % 2 for n in numbers], [n % 3 for n in numbers]], trace)


def fragments(begin: int, end: int) -> tuple[Fragment, ...]:
    return tuple(Fragment(f"{i}", {}, (float(i),), f"{i % 4}") for i in range(begin, end))


TASK = Task("numbers", fragments(0, 20), examples=fragments(20, 30))
STILL, CHAIN = Method("Still", grouper=Toy()), Method("Chain", grouper=Toy(5.0))
PLAN = Plan((TASK,), (STILL, CHAIN), shuffles=3, reference="Still")


def done(method: Method, shuffle: int = 0, task: Task = TASK) -> Row:
    outcome = perform(Run("toys", task, method, shuffle, 60.0))
    assert outcome.trace == ()
    return outcome.row


def test_the_row_has_the_means_over_the_sample() -> None:
    row = done(STILL)
    gold = [f.label for f in TASK.fragments]
    both = [compare([int(f.id) % k for f in TASK.fragments], gold) for k in (2, 3)]
    assert row.pairwise_f1 == pytest.approx(np.mean([s.pairwise_f1 for s in both]))
    assert row.rand == pytest.approx(np.mean([s.rand for s in both]))
    assert row.edit_score == pytest.approx(np.mean([s.normalised_edit_score for s in both]))
    assert row.f1 == pytest.approx(np.mean([s.bcubed_f1_item_mean for s in both]))
    assert (row.log_posterior, row.trace) == (-math.inf, "[]")
    assert (row.fragments, row.of, row.gold_entities, row.cut) == (20, 20, 4, False)


def test_a_chain_leaves_its_trace_and_draws_anew_in_every_run() -> None:
    one, again, other = done(CHAIN), done(CHAIN), done(CHAIN, 1)
    assert one.trace == again.trace != other.trace
    assert one.log_posterior == pytest.approx(np.mean(json.loads(one.trace)))


def test_runs_are_told_apart_by_grouper_and_examples() -> None:
    key = Run("toys", TASK, CHAIN, 0, 60.0).key
    assert Run("toys", TASK, replace(CHAIN, grouper=Toy(6.0)), 0, 60.0).key != key
    fewer = replace(TASK, examples=TASK.examples[1:])
    moved = replace(TASK, fragments=TASK.fragments + TASK.examples[:1], examples=fewer.examples)
    assert len({Run("toys", task, CHAIN, 0, 60.0).key for task in (TASK, fewer, moved)}) == 3


def test_the_table_says_whether_chains_have_met(tmp_path: Path) -> None:
    methods, notes = select(PLAN, Selection())
    assert not notes
    rows = [perform(run).row for run in runs_of("toys", PLAN, methods, Selection())]
    for row in rows:
        Results(tmp_path).add(row, ())
    held = Results(tmp_path).rows.values()  # what is written is read again as it is
    still, chain = lines(held, PLAN)
    traces = [np.array(json.loads(row.trace)) for row in rows if row.method == "Chain"]
    assert len(traces) == 3
    assert chain.r_hat == scale_reduction(traces)
    assert chain.effective_size == bulk_effective_size(traces)
    assert (still.r_hat, still.effective_size) == (None, None)
    assert still.pairwise_f1 is not None
    published = {("numbers", "Chain"): Published(None, (0.5, None))}
    for plan, paper in ((replace(PLAN, published=published), ["", "0.500"]), (PLAN, [])):
        grid = pairs_table(TASK, plan, [still, chain])
        assert ("paper's F" in grid.head) is bool(paper)
        assert [len(row) for row in grid.rows] == [len(grid.head)] * 2
        cells = [dict(zip(grid.head, row, strict=True)) for row in grid.rows]
        assert [cell["R-hat"] for cell in cells] == ["", f"{chain.r_hat:.2f}"]
        assert [cell["paper's F"] for cell in cells if paper] == paper
        assert cells[0]["F"].startswith(f"{still.pairwise_f1.mean:.3f}")

"""Which runs a plan comes to, and when two of them are the same."""

from __future__ import annotations

import hashlib
import json
import math
import multiprocessing
import os
import re
import signal
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import orjson
import pytest

from kbforge import __version__
from kbforge.contracts import Fragment
from kbforge.errors import UsageError
from kbforge.evaluation.scores import compare
from kbforge_lab.bench.perform import Outcome, perform
from kbforge_lab.bench.report import pairs_table
from kbforge_lab.bench.results import Results, Row
from kbforge_lab.bench.runs import (
    BenchRun,
    Selection,
    _task_digest,
    narrowed,
    order,
    runs_of,
    select,
    setting,
)
from kbforge_lab.bench.summary import lines
from kbforge_lab.bench.workers import Failure, perform_all
from kbforge_lab.convergence import bulk_effective_size, scale_reduction
from kbforge_lab.suites.plan import (
    Expectation,
    GroupingSample,
    Method,
    Model,
    PaperFigures,
    SuitePlan,
    Task,
)
from tests.lab.bench.toys import FAILING, GREEDY, SPLIT, die, install_failing, plan, run, task


def test_equal_runs_have_one_key_and_whatever_decides_the_result_changes_it():
    assert run().key == run().key
    toy = task()
    others = [
        run(GREEDY),
        run(replace(SPLIT, particles=11)),
        run(replace(SPLIT, options={"floor": 1e-4})),
        run(replace(SPLIT, surrogate=True)),
        run(shuffle=1),
        run(seconds=61.0),
        run(alpha=2.5),
        run(name="other"),
        run(likelihood=Model("gaussian", {"b": 1.5})),
        run(surrogate=None),
        run(fragments=toy.fragments[:-1]),
        run(fragments=toy.fragments[::-1]),
        run(fragments=(replace(toy.fragments[0], label="9"), *toy.fragments[1:])),
        run(replace(GREEDY, likelihood=Model("bigram"))),
        run(replace(GREEDY, likelihood=Model("bigram", {"floor": 1}))),
        run(replace(GREEDY, likelihood=Model("bigram"), alphas=(1.0,))),
        run(replace(GREEDY, baseline="ceiling")),
    ]
    assert len({run().key, *(other.key for other in others)}) == 1 + len(others)
    # how many other shuffles there are does not matter to one of them
    assert run(replace(SPLIT, shuffles=7)).key == run().key


def test_a_model_folder_counts_with_its_manifest(tmp_path):
    (tmp_path / "manifest.json").write_text("{}")
    before = run(likelihood=Model(str(tmp_path))).key
    (tmp_path / "manifest.json").write_text('{"changed": 1}')
    assert run(likelihood=Model(str(tmp_path))).key != before


def test_shuffles_are_permutations_the_given_ones_first():
    plain = task()
    given = replace(plain, orders=(tuple(reversed(range(40))),))
    assert list(order(plain, 0)) == list(range(40))
    assert list(order(given, 0)) == list(reversed(range(40)))
    for shuffle in (1, 2):
        drawn = list(order(plain, shuffle))
        assert sorted(drawn) == list(range(40))
        assert drawn == list(order(given, shuffle)) != list(range(40))
    assert list(order(plain, 1)) != list(order(plain, 2))


def test_a_seed_moves_the_orders_and_what_methods_draw():
    given = replace(task(), orders=(tuple(reversed(range(40))),))
    orders = [tuple(order(given, shuffle, seed)) for seed in (0, 1, 2) for shuffle in (0, 1, 2)]
    assert len(set(orders)) == 9
    assert all(sorted(drawn) == list(range(40)) for drawn in orders)
    (first, *_) = runs_of("toys", plan(), [SPLIT], Selection(seed=3))
    assert first.seed == 3
    assert [f.id for f in first.fragments()] == [f"p{i}" for i in order(task(), 0, 3)]
    assert first.called == "Split SMC (P=10) on toy, order 0 of seed 3"
    moved = [replace(run(shuffle=s), seed=seed) for seed in (0, 1, 2) for s in (0, 1, 2)]
    assert len({job.method_seed for job in moved}) == len({job.key for job in moved}) == 9


def test_without_a_seed_keys_and_draws_are_what_they_were_before_there_was_one():
    content = {
        "program": __version__,
        "suite": "toys",
        "task": _task_digest(task()),
        "method": {
            "name": "Split SMC",
            "clusterer": "split-smc",
            "options": {},
            "particles": 10,
            "surrogate": False,
            "max_evals": None,
            "shuffles": None,
            "seconds": None,
        },
        "shuffle": 4,
        "seconds": 60.0,
    }
    data = orjson.dumps(content, option=orjson.OPT_SORT_KEYS)
    assert run(shuffle=4).key == hashlib.blake2b(data, digest_size=16).hexdigest()
    assert run(shuffle=4).method_seed == 4
    drawn = np.random.default_rng([40, 4]).permutation(40)
    assert list(order(task(), 4)) == drawn.tolist()


def test_runs_come_shuffle_by_shuffle_and_each_once():
    once = replace(GREEDY, name="Once", shuffles=1)
    made = plan(methods=(GREEDY, SPLIT, once), sweeps=(replace(SPLIT, shuffles=1),))
    methods, notes = select(made, Selection())
    assert notes == []
    runs = list(runs_of("toys", made, methods, Selection()))
    assert [[r.method.name for r in runs if r.shuffle == s] for s in (0, 1)] == [
        ["Greedy", "Split SMC", "Once"],
        ["Greedy", "Split SMC"],
    ]
    assert [r.shuffle for r in runs] == [0, 0, 0, 1, 1]


def test_a_selection_narrows():
    made = plan(sweeps=(replace(SPLIT, particles=3),))
    selection = Selection(methods=("split smc",), sweeps=False, shuffles=1, seconds=3.0)
    methods, _ = select(made, selection)
    (only,) = runs_of("toys", made, methods, selection)
    assert (only.method.name, only.method.particles, only.seconds) == ("Split SMC", 10, 3.0)


@pytest.mark.parametrize(
    "wanted", ["Split SMC", "split smc", "split-smc", "SPLIT-SMC", "split  smc"]
)
def test_methods_are_known_by_either_spelling(wanted):
    methods, _ = select(plan(), Selection(methods=(wanted, "GREEDY")))
    assert methods == [GREEDY, SPLIT]
    with pytest.raises(UsageError, match='no method "splitsmc" in this suite; methods: Greedy, Sp'):
        select(plan(), Selection(methods=("splitsmc",)))


def test_a_selection_of_tasks_leaves_out_what_is_about_others():
    other = replace(task(), name="Other")
    wanted = [Expectation(name, "Greedy", "f1", 0.5) for name in ("toy", "Other")]
    figures = PaperFigures((-1.0, 0.1), (0.5, 0.1), 1.0)
    made = plan(
        tasks=(task(), other),
        expectations=tuple(wanted),
        published={(name, "Greedy"): figures for name in ("toy", "Other")},
    )
    assert narrowed(made, Selection()) is made
    only = narrowed(made, Selection(tasks=("other",)))
    assert only.tasks == (other,)
    assert only.expectations == (wanted[1],)
    assert list(only.published) == [("Other", "Greedy")]
    assert narrowed(made, Selection(tasks=("OTHER", "toy"))) == made
    with pytest.raises(UsageError, match='no task "tyo" in this suite; tasks: toy, Other'):
        narrowed(made, Selection(tasks=("tyo",)))


@pytest.mark.parametrize(
    ("method", "said"),
    [
        (GREEDY, ""),
        (SPLIT, "(P=10) "),
        (replace(SPLIT, surrogate=True), "(P=10, M=P) "),
        (replace(GREEDY, surrogate=True, max_evals=0), "(M=0) "),
    ],
)
def test_settings_in_words(method, said):
    assert setting(method) == said


def test_other_models_of_the_default_are_other_runs(tmp_path):
    def key() -> str:
        return run(likelihood=None, alpha=None, defaults=str(tmp_path)).key

    keys = [run(likelihood=None, alpha=None).key, key()]
    (tmp_path / "part").mkdir()
    for name, text in (("a", "1"), ("a", "2"), ("part/a", "2")):
        (tmp_path / name).write_text(text)
        keys.append(key())
    assert len(set(keys)) == len(keys)
    assert key() == keys[-1]


def test_a_digest_of_the_task_spares_time_and_changes_no_key():
    (first, *_) = runs_of("toys", plan(), [SPLIT], Selection())
    assert first.task_digest
    assert first.key == replace(first, task_digest="").key


def test_what_is_not_installed_is_left_out_with_a_note(tmp_path):
    ways = (
        Method("exact name", baseline="exact name"),
        Method("default", "greedy"),
        Method("bigram", "greedy", likelihood=Model("bigram")),
        Method("none", "greedy", likelihood=Model("none")),
        Method("again", "smc", likelihood=Model("none")),
        Method("folder", "greedy", likelihood=Model(str(tmp_path))),
        Method("Absent", "no-such-clusterer"),
    )
    kept, notes = select(plan(methods=ways), Selection())
    assert [method.name for method in kept] == ["exact name", "default", "bigram", "folder"]
    missing = ('the likelihood "none"', 'the clusterer "no-such-clusterer"')
    assert notes == [f"{what} is not installed; its runs are left out" for what in missing]


# A run of a grouper is scored by its sample's means, and chains say whether they have met.


@dataclass(frozen=True)
class Toy:
    """Groups by parity and by thirds; with examples, those that are labelled so are counted."""

    level: float = 0.0

    def group(
        self, examples: Sequence[Fragment], fragments: Sequence[Fragment], seed: int
    ) -> GroupingSample:
        numbers = [int(f.id) for f in fragments]
        drawn = np.random.default_rng(seed).normal(self.level, size=8).tolist()
        trace = drawn if self.level else ()
        return GroupingSample([[n % 2 for n in numbers], [n % 3 for n in numbers]], trace)


def fragments(begin: int, end: int) -> tuple[Fragment, ...]:
    return tuple(Fragment(f"{i}", {}, (float(i),), f"{i % 4}") for i in range(begin, end))


TASK = Task("numbers", fragments(0, 20), examples=fragments(20, 30))
STILL, CHAIN = Method("Still", grouper=Toy()), Method("Chain", grouper=Toy(5.0))
PLAN = SuitePlan((TASK,), (STILL, CHAIN), shuffles=3, reference="Still")


def done(method: Method, shuffle: int = 0, task: Task = TASK) -> Row:
    outcome = perform(BenchRun("toys", task, method, shuffle, 60.0))
    assert outcome.trace == ()
    return outcome.row


def test_the_row_has_the_means_over_the_sample():
    row = done(STILL)
    gold = [f.label for f in TASK.fragments]
    both = [compare([int(f.id) % k for f in TASK.fragments], gold) for k in (2, 3)]
    assert row.pairwise_f1 == pytest.approx(np.mean([s.pairwise_f1 for s in both]))
    assert row.rand == pytest.approx(np.mean([s.rand for s in both]))
    assert row.edit_score == pytest.approx(np.mean([s.normalised_edit_score for s in both]))
    assert row.f1 == pytest.approx(np.mean([s.bcubed_f1_item_mean for s in both]))
    assert (row.log_posterior, row.trace) == (-math.inf, "[]")
    assert (row.fragments, row.of, row.gold_entities, row.cut) == (20, 20, 4, False)


def test_a_chain_leaves_its_trace_and_draws_anew_in_every_run():
    one, again, other = done(CHAIN), done(CHAIN), done(CHAIN, 1)
    assert one.trace == again.trace != other.trace
    assert one.log_posterior == pytest.approx(np.mean(json.loads(one.trace)))


def test_runs_are_told_apart_by_grouper_and_examples():
    key = BenchRun("toys", TASK, CHAIN, 0, 60.0).key
    assert BenchRun("toys", TASK, replace(CHAIN, grouper=Toy(6.0)), 0, 60.0).key != key
    fewer = replace(TASK, examples=TASK.examples[1:])
    moved = replace(TASK, fragments=TASK.fragments + TASK.examples[:1], examples=fewer.examples)
    assert len({BenchRun("toys", task, CHAIN, 0, 60.0).key for task in (TASK, fewer, moved)}) == 3


def test_the_table_says_whether_chains_have_met(tmp_path):
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
    published = {("numbers", "Chain"): PaperFigures(None, (0.5, None))}
    for table, paper in ((replace(PLAN, published=published), ["", "0.500"]), (PLAN, [])):
        grid = pairs_table(TASK, table, [still, chain])
        assert ("paper's F" in grid.head) is bool(paper)
        assert [len(row) for row in grid.rows] == [len(grid.head)] * 2
        cells = [dict(zip(grid.head, row, strict=True)) for row in grid.rows]
        assert [cell["R-hat"] for cell in cells] == ["", f"{chain.r_hat:.2f}"]
        assert [cell["paper's F"] for cell in cells if paper] == paper
        assert cells[0]["F"].startswith(f"{still.pairwise_f1.mean:.3f}")


# Runs in processes: the same outcomes, and failures that say which run.


RUNS = [run(method, shuffle) for shuffle in range(3) for method in (GREEDY, SPLIT)]


def finished(runs: list[BenchRun], workers: int) -> list[Outcome]:
    outcomes = list(perform_all(runs, workers))
    assert not [outcome for outcome in outcomes if isinstance(outcome, Failure)]
    return outcomes  # type: ignore[return-value]


def timeless(outcome):  # type: ignore[no-untyped-def]
    trace = [replace(row, seconds=0.0) for row in outcome.trace]
    return replace(outcome.row, seconds=0.0, cpu_seconds=0.0), trace


@pytest.mark.parametrize("workers", [1, 2])
def test_processes_find_what_this_one_finds(workers):
    found = {outcome.row.key: timeless(outcome) for outcome in finished(RUNS, workers)}
    assert found == {job.key: timeless(perform(job)) for job in RUNS}
    assert workers > 1 or list(found) == [job.key for job in RUNS]


@pytest.mark.parametrize(("whole_ways", "processes"), [(True, 3), (False, 1)])
def test_a_whole_way_to_a_grouping_has_a_process_of_its_own(whole_ways, processes):
    method = Method("exact name", baseline="exact name") if whole_ways else GREEDY
    changes = {"likelihood": None, "alpha": None} if whole_ways else {}
    seen: set[int | None] = set()
    for outcome in perform_all([run(method, shuffle, **changes) for shuffle in range(4)], 1):
        assert isinstance(outcome, Outcome)
        seen |= {child.pid for child in multiprocessing.active_children()}
    assert len(seen) == processes


def test_nothing_to_do_starts_no_process():
    assert list(perform_all([], 4)) == []


def test_a_run_that_fails_is_named_and_hurts_no_other():
    bare = replace(run().task.fragments[0], vector=None, properties={"name": ("x",)})
    bad = run(fragments=(bare, *run().task.fragments[1:]), shuffle=2)
    first, failure, last = perform_all([run(), bad, run(shuffle=1)], 1)
    assert isinstance(failure, Failure)
    assert failure.run.called == "Split SMC (P=10) on toy, order 2"
    assert "p0" in failure.why
    assert isinstance(first, Outcome)
    assert isinstance(last, Outcome)
    assert (first.row.key, last.row.key) == (run().key, run(shuffle=1).key)


@pytest.mark.parametrize(
    ("how", "said"),
    [
        ("raise ValueError('wrong\\nshape')", r"ValueError: wrong\\nshape$"),
        ("raise KeyError", "KeyError$"),
        ("raise MemoryError", "out of memory$"),
        ("raise SystemExit(3)", "SystemExit: 3$"),
        ("os._exit(3)", "its process ended with exit code 3$"),
        ("os.kill(os.getpid(), 9)", r"its process ended with exit code -9 \(out of memory\?\)$"),
    ],
)
def test_whatever_a_plugin_does_is_one_sentence(tmp_path, monkeypatch, how, said):
    install_failing(tmp_path, how)
    monkeypatch.syspath_prepend(str(tmp_path))
    failure, other = perform_all([run(FAILING), run()], 1)
    assert isinstance(failure, Failure)
    assert re.match(said, failure.why)
    assert isinstance(other, Outcome)


def test_a_process_that_dies_before_it_takes_its_run_is_a_failure(monkeypatch):
    monkeypatch.setattr("kbforge_lab.bench.workers._serve", die)
    # more than a pipe takes in without a reader
    large = run(GREEDY, fragments=task(10_000).fragments)
    failures = [o for o in perform_all([large, large], 1) if isinstance(o, Failure)]
    assert [f.why for f in failures] == ["its process ended with exit code 3"] * 2


def test_a_process_that_dies_is_a_failure_and_another_takes_its_place():
    runs = [run(SPLIT, shuffle) for shuffle in range(12)]
    outcomes = perform_all(runs, 2)
    found = [next(outcomes)]
    children = multiprocessing.active_children()
    assert len(children) == 2
    for child in children:
        os.kill(child.pid, signal.SIGKILL)
    found += outcomes
    failures = [outcome for outcome in found if isinstance(outcome, Failure)]
    assert [f.why for f in failures] == ["its process ended with exit code -9 (out of memory?)"] * 2
    keys = [(o.run if isinstance(o, Failure) else o.row).key for o in found]
    assert sorted(keys) == sorted(job.key for job in runs)
    assert multiprocessing.active_children() == []


def test_an_end_before_the_end_stops_the_processes():
    outcomes = perform_all(RUNS, 2)
    next(outcomes)
    outcomes.close()
    assert multiprocessing.active_children() == []

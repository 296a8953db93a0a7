"""Which runs a plan comes to, and when two of them are the same."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from pathlib import Path

import numpy as np
import orjson
import pytest

from kbforge import __version__
from kbforge.errors import UsageError
from kbforge_lab.bench.runs import (
    Selection,
    _task_digest,
    narrowed,
    order,
    runs_of,
    select,
    setting,
)
from kbforge_lab.contracts.suite import Expectation, Method, Model, Published
from tests.lab.bench.toys import GREEDY, SPLIT, plan, run, task


def test_equal_runs_have_one_key_and_whatever_decides_the_result_changes_it() -> None:
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
    ]
    assert len({run().key, *(other.key for other in others)}) == 1 + len(others)


def test_how_many_shuffles_there_are_does_not_matter_to_one_of_them() -> None:
    assert run(replace(SPLIT, shuffles=7)).key == run().key


def test_a_model_folder_counts_with_its_manifest(tmp_path: Path) -> None:
    (tmp_path / "manifest.json").write_text("{}")
    before = run(likelihood=Model(str(tmp_path))).key
    (tmp_path / "manifest.json").write_text('{"changed": 1}')
    assert run(likelihood=Model(str(tmp_path))).key != before


def test_shuffles_are_permutations_the_given_ones_first() -> None:
    plain = task()
    given = replace(plain, orders=(tuple(reversed(range(40))),))
    assert list(order(plain, 0)) == list(range(40))
    assert list(order(given, 0)) == list(reversed(range(40)))
    for shuffle in (1, 2):
        drawn = list(order(plain, shuffle))
        assert sorted(drawn) == list(range(40))
        assert drawn == list(order(given, shuffle)) != list(range(40))
    assert list(order(plain, 1)) != list(order(plain, 2))


def test_a_seed_moves_the_orders_and_what_methods_draw() -> None:
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


def test_without_a_seed_keys_and_draws_are_what_they_were_before_there_was_one() -> None:
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


def test_runs_come_shuffle_by_shuffle_and_each_once() -> None:
    once = replace(GREEDY, name="Once", shuffles=1)
    made = plan(methods=(GREEDY, SPLIT, once), sweeps=(replace(SPLIT, shuffles=1),))
    methods, notes = select(made, Selection())
    assert notes == []
    runs = list(runs_of("toys", made, methods, Selection()))
    assert [(r.shuffle, r.method.name) for r in runs] == [
        (0, "Greedy"),
        (0, "Split SMC"),
        (0, "Once"),
        (1, "Greedy"),
        (1, "Split SMC"),
    ]


def test_a_selection_narrows() -> None:
    made = plan(sweeps=(replace(SPLIT, particles=3),))
    selection = Selection(methods=("split smc",), sweeps=False, shuffles=1, seconds=3.0)
    methods, _ = select(made, selection)
    (only,) = runs_of("toys", made, methods, selection)
    assert (only.method.name, only.method.particles, only.seconds) == ("Split SMC", 10, 3.0)


@pytest.mark.parametrize(
    "wanted", ["Split SMC", "split smc", "split-smc", "SPLIT-SMC", "split  smc"]
)
def test_methods_are_known_by_either_spelling(wanted: str) -> None:
    methods, _ = select(plan(), Selection(methods=(wanted, "GREEDY")))
    assert methods == [GREEDY, SPLIT]
    with pytest.raises(UsageError, match='no method "splitsmc" in this suite; methods: Greedy, Sp'):
        select(plan(), Selection(methods=("splitsmc",)))


def test_a_selection_of_tasks_leaves_out_what_is_about_others() -> None:
    other = replace(task(), name="Other")
    wanted = [Expectation(name, "Greedy", "f1", 0.5) for name in ("toy", "Other")]
    figures = Published((-1.0, 0.1), (0.5, 0.1), 1.0)
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


def test_an_unknown_method_is_refused_and_the_known_ones_named() -> None:
    with pytest.raises(UsageError, match=r'"gredy".*Greedy, Split SMC'):
        select(plan(), Selection(methods=("gredy",)))


def test_a_clusterer_that_is_not_installed_is_left_out_with_a_note() -> None:
    absent = Method("Absent", "no-such-clusterer")
    methods, notes = select(plan(methods=(GREEDY, absent)), Selection())
    assert methods == [GREEDY]
    assert notes == ['the clusterer "no-such-clusterer" is not installed; its runs are left out']


@pytest.mark.parametrize(
    ("method", "said"),
    [
        (GREEDY, ""),
        (SPLIT, "(P=10) "),
        (replace(SPLIT, surrogate=True), "(P=10, M=P) "),
        (replace(GREEDY, surrogate=True, max_evals=0), "(M=0) "),
    ],
)
def test_settings_in_words(method: Method, said: str) -> None:
    assert setting(method) == said


def test_other_models_of_the_default_are_other_runs(tmp_path: Path) -> None:
    def key() -> str:
        return run(likelihood=None, alpha=None, defaults=str(tmp_path)).key

    keys = [run(likelihood=None, alpha=None).key, key()]
    (tmp_path / "part").mkdir()
    for name, text in (("a", "1"), ("a", "2"), ("part/a", "2")):
        (tmp_path / name).write_text(text)
        keys.append(key())
    assert len(set(keys)) == len(keys)
    assert key() == keys[-1]


def test_how_a_method_groups_changes_its_key() -> None:
    default = Method("default", "greedy")
    others = [
        default,
        replace(default, likelihood=Model("bigram")),
        replace(default, likelihood=Model("bigram", {"floor": 1})),
        replace(default, likelihood=Model("bigram"), alphas=(1.0,)),
        replace(default, baseline="ceiling"),
    ]
    assert len({run(method).key for method in others}) == len(others)


def test_a_digest_of_the_task_spares_time_and_changes_no_key() -> None:
    (first, *_) = runs_of("toys", plan(), [SPLIT], Selection())
    assert first.task_digest
    assert first.key == replace(first, task_digest="").key


def test_likelihoods_that_are_not_installed_are_left_out_with_a_note(tmp_path: Path) -> None:
    ways = (
        Method("exact name", baseline="exact name"),
        Method("default", "greedy"),
        Method("bigram", "greedy", likelihood=Model("bigram")),
        Method("none", "greedy", likelihood=Model("none")),
        Method("again", "smc", likelihood=Model("none")),
        Method("folder", "greedy", likelihood=Model(str(tmp_path))),
    )
    kept, notes = select(plan(methods=ways), Selection())
    assert [method.name for method in kept] == ["exact name", "default", "bigram", "folder"]
    assert notes == ['the likelihood "none" is not installed; its runs are left out']

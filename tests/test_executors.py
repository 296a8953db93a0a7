"""`kbforge cluster --executor ray` against the same without, on a real Ray of this machine."""

from __future__ import annotations

import builtins
import json
import os
import random
import re
import signal
import socket
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kbforge.clustering.sharding.conductor import Pace, cluster_on_workers
from kbforge.contracts import ConjugateLikelihood, Progress
from kbforge.errors import KBForgeError, UsageError
from kbforge.models.scoring import scorers
from kbforge.testing import BlackBox
from kbforge_plugins.clusterers.sequential import SplitSmc
from kbforge_plugins.executors import Ray, require_answer
from tests.clustering.test_sharding import RULES, local, of_people
from tests.people import write_people
from tests.program import Run

ATTRIBUTES = ("--likelihood", "attributes", "--alpha", "30")
needs_ray = pytest.mark.skipif(find_spec("ray") is None, reason="ray is not installed, an extra")


@needs_ray
def test_two_workers_write_the_same_bytes(tmp_path: Path, program: Run) -> None:
    plain = ["cluster", write_people(tmp_path / "people.jsonl", 60), *ATTRIBUTES]
    one, other = tmp_path / "one.jsonl", tmp_path / "other.jsonl"
    program(*plain, "-o", one)
    program(*plain, "-o", other, "--executor", "ray", "--workers", "2")
    assert one.read_bytes() == other.read_bytes()


@pytest.fixture
def crews(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The crews that Ray starts."""
    found: list[Any] = []
    start = Ray.start

    def started(self: Ray, *given: Any) -> Any:
        found.append(start(self, *given))
        return found[-1]

    monkeypatch.setattr(Ray, "start", started)
    return found


def kill(crew: Any, worker: int) -> int:
    """Kill the process of a worker; returns its number."""
    victim: int = crew._ray.get(crew._actors[worker].process_id.remote())
    os.kill(victim, signal.SIGKILL)
    return victim


@pytest.mark.slow
@needs_ray
def test_killed_actors_change_nothing(crews: list[Any], capsys: pytest.CaptureFixture[str]) -> None:
    fragments, problem = of_people(150, 1)
    rng = random.Random(1)
    killed = []

    def on_step(progress: Progress) -> None:
        if progress.fragments % 128 == 0 and len(killed) < 3:
            killed.append(kill(crews[0], rng.randrange(2)))

    found = cluster_on_workers(Ray(), 2, RULES, fragments, problem, on_step, Pace(20, 8, 60))
    assert len(set(killed)) == 3
    assert found == local(problem, fragments)
    # standard output is where a knowledge base may go
    assert capsys.readouterr().out == ""


@pytest.mark.slow
@needs_ray
def test_two_scorers_of_a_network_find_the_same(tmp_path: Path, program: Run) -> None:
    """The last bits of its scores depend on what else is in a batch."""
    records = write_people(tmp_path / "people.jsonl", 12)
    one, other = tmp_path / "one.jsonl", tmp_path / "other.jsonl"
    plain = ["cluster", records, "--likelihood", "gpt", "--alpha", "1000", "-P", "5", "--json"]
    here = program(*plain, "-o", one).json
    there = program(*plain, "-o", other, "--executor", "ray", "--scorers", "2").json
    assert grouped(one) == grouped(other)
    assert there["model_evaluations"] == here["model_evaluations"]
    assert there["log_posterior"] == pytest.approx(here["log_posterior"], abs=0.1)


@pytest.mark.slow
@needs_ray
def test_a_killed_scorer_changes_nothing(crews: list[Any]) -> None:
    fragments, whole = of_people(60, 2)
    surrogate = whole.likelihood
    assert isinstance(surrogate, ConjugateLikelihood)
    problem = replace(whole, likelihood=BlackBox(surrogate), surrogate=surrogate, max_evals=20)
    killed = []

    def on_step(progress: Progress) -> None:
        if progress.fragments in (40, 80):
            killed.append(kill(crews[0], len(killed)))

    clusterer = SplitSmc(particles=6)
    with scorers(problem.likelihood, Ray(), 2) as elsewhere:
        spread = replace(problem, likelihood=elsewhere)
        found = clusterer.cluster(fragments, spread, np.random.default_rng(0), on_step)
        assert elsewhere.losses == len(set(killed)) == 2
    assert found == clusterer.cluster(fragments, problem, np.random.default_rng(0))


def grouped(path: Path) -> set[frozenset[str]]:
    """Which fragments are one entity."""
    lines = path.read_text(encoding="utf-8").splitlines()
    return {frozenset(json.loads(line)["fragments"]) for line in lines}


def test_without_the_library(monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def lacking(name: str, *given: Any, **named: Any) -> Any:
        if name == "ray":
            raise ImportError(name)
        return real(name, *given, **named)

    monkeypatch.setattr(builtins, "__import__", lacking)
    with pytest.raises(UsageError, match=r": pip install .*\[ray\]'$"):
        Ray().start(object, 1)  # type: ignore[arg-type]


@pytest.mark.parametrize("options", [{"cpus": -1.0}, {"gpus": float("nan")}])
def test_numbers_that_are_none(options: dict[str, float]) -> None:
    with pytest.raises(UsageError, match="expected a number from 0"):
        Ray(**options)  # type: ignore[arg-type]


class Dying:
    """A worker that ends its process as it is made, as often as there are lives in a file."""

    def __init__(self, lives: Path) -> None:
        left = int(lives.read_text(encoding="utf-8"))
        lives.write_text(str(left - 1), encoding="utf-8")
        if left > 0:
            os.kill(os.getpid(), signal.SIGKILL)

    def do(self, order: Any, parcels: Any) -> tuple[Any, None]:
        return order, None


@pytest.mark.slow
@needs_ray
def test_a_worker_that_is_lost_as_it_starts_is_started_again(tmp_path: Path) -> None:
    lives = tmp_path / "lives"
    lives.write_text("2", encoding="utf-8")
    crew = Ray().start(partial(Dying, lives), 1)
    try:
        assert crew.wait(crew.send(0, "here")) == ("here", None)
    finally:
        crew.close()
    lives.write_text("1000", encoding="utf-8")
    with pytest.raises(KBForgeError, match="a worker was lost 5 times while it started"):
        Ray().start(partial(Dying, lives), 1)


# An address at which no Ray answers is one sentence, soon, and not a wait.


@pytest.fixture
def silent() -> Iterator[str]:
    """An address where somebody accepts and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"127.0.0.1:{server.getsockname()[1]}"


@pytest.mark.parametrize("scheme", ["", "ray://"])
def test_a_closed_port_is_refused_at_once(scheme: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    with pytest.raises(KBForgeError, match=r"no Ray cluster answers at .*refused"):
        require_answer(f"{scheme}127.0.0.1:{port}", 1e6)


@needs_ray
@pytest.mark.parametrize("address", ["nowhere:port", "ray://", "no-such-scheme://a:1"])
def test_what_is_no_address_is_refused(address: str) -> None:
    with pytest.raises(KBForgeError, match="no Ray cluster answers at "):
        Ray(address=address, patience=20).start(object, 1)  # type: ignore[arg-type]


@needs_ray
def test_the_program_says_it_in_one_sentence(tmp_path: Path, program: Run, silent: str) -> None:
    records, kb = write_people(tmp_path / "people.jsonl", 10), tmp_path / "kb.jsonl"
    ray = ["--executor", "ray", "--address", silent, "--set", "executor.patience=2"]
    done = program("cluster", records, *ATTRIBUTES, *ray, "-o", kb)
    assert done.code != 0
    assert len(re.findall("no Ray cluster answers at .*within 2 s", done.err)) == 1
    assert "Traceback" not in done.err
    assert not kb.exists()

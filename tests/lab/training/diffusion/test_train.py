"""`kbforge lab train-diffusion` as users run it, from a recipe to clusters."""

from __future__ import annotations

import json
import os
import signal
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kbforge.contracts import Fragment
from kbforge.errors import KBForgeError, UsageError
from kbforge.files.fragments import write_fragments
from kbforge.models.bundle import read_bundle
from kbforge_lab.circles import Circles
from kbforge_lab.likelihoods.diffusion import from_bundle
from kbforge_lab.training.diffusion import read_diffusion_recipe, train_diffusion
from kbforge_lm.likelihoods.gpt.model import WEIGHTS
from kbforge_training.fitting.loop import METRICS, Step
from tests.lab.training.circles_models import read, write_recipe

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture
def here(tmp_path, monkeypatch):
    """A folder with a tiny recipe."""
    monkeypatch.chdir(tmp_path)
    write_recipe(tmp_path)
    return tmp_path


COMMAND = ["lab", "train-diffusion", "--recipe", "tiny.toml", "-o", "model"]


def curve(folder: str | Path) -> list[dict[str, Any]]:
    lines = (Path(folder) / METRICS).read_bytes().splitlines()
    return [{k: v for k, v in json.loads(line).items() if k != "seconds"} for line in lines]


def test_from_a_recipe_to_clusters(program, here):
    trained = program(*COMMAND)
    assert trained.code == 0, trained.err
    assert trained.out == b""
    assert "model: diffusion model of " in trained.err
    assert "held-out bound " in trained.err
    assert sorted(path.name for path in here.iterdir()) == ["model", "tiny.toml"]
    bundle = read_bundle(Path("model"))
    assert {METRICS, WEIGHTS} <= set(bundle.files)
    assert bundle.recipe["training"]["recipe"]["circles"]["noise"] == 0.1
    rims = Circles(reach=2.0)
    centres = np.array([[-1.5, -1.5], [1.5, 1.5]])
    points = rims.points(centres, 6, np.random.default_rng(0)).reshape(-1, 2).tolist()
    write_fragments([Fragment(f"p{i}", {}, tuple(x)) for i, x in enumerate(points)], "points.jsonl")
    arguments = ["points.jsonl", "--likelihood", "model/", "--alpha", 1, "--json", "-o", "kb.jsonl"]
    clustered = program("cluster", *arguments)
    assert clustered.code == 0, clustered.err
    assert clustered.json["fragments"] == 12
    assert clustered.json["model_evaluations"] > 12


def test_json(program, here):
    ran = program(*COMMAND, "--json", "--points", 500, "--seed", 3)
    assert ran.code == 0, ran.err
    last = curve("model")[-1]
    model = from_bundle(read_bundle(Path("model")), "model")
    assert ran.json == {
        "model": "model",
        "parameters": sum(p.numel() for p in model.denoiser.parameters()),
        "steps": last["step"],
        "points": last["tokens"],
        "nats_per_point": last["dev_nats_per_fragment"],
        "entropy": model.training["entropy_per_point"],
    }
    assert 500 <= ran.json["points"] < 500 + 128
    assert model.training["recipe"]["schedule"]["seed"] == 3


def test_it_learns_what_a_gaussian_does_not_know(here):
    """The first held-out bound is a Gaussian's; the truth is below what training comes to."""
    trained = train_diffusion(Path("model"), read(here, tokens=12_000))
    bounds = [s["dev_nats_per_fragment"] for s in curve("model") if s["dev_nats_per_fragment"]]
    assert trained.nats_per_point == bounds[-1]
    assert trained.entropy < bounds[-1] < bounds[0]


class Killed(BaseException):
    """Stands for a kill: no code of ours runs after it."""


def test_killed_runs_have_the_weights_of_undisturbed_ones(here):
    recipe = read(here)
    train_diffusion(Path("whole"), recipe)

    def killed_at(number: int) -> None:
        def die(step: Step) -> None:
            if step.step == number:
                raise Killed

        with pytest.raises(Killed):
            train_diffusion(Path("killed"), recipe, checkpoint_seconds=0.0, on_step=die)

    for number in (3, 9, 10):
        killed_at(number)
    said: list[str] = []
    train_diffusion(Path("killed"), recipe, say=said.append)
    # a checkpoint is written after the step was shown
    assert said[0].startswith("continuing after step 9 ")
    assert curve("killed") == curve("whole")
    assert Path("killed", WEIGHTS).read_bytes() == Path("whole", WEIGHTS).read_bytes()
    assert not Path("killed.training").exists()


def test_ctrl_c_leaves_a_checkpoint(program, here, monkeypatch):
    def pressed(_: object) -> Any:
        def show(step: Step) -> None:
            if step.step == 4:
                os.kill(os.getpid(), signal.SIGINT)

        return show

    with monkeypatch.context() as patched:
        patched.setattr("kbforge_lab.cli.train._shown", pressed)
        stopped = program(*COMMAND)
    assert stopped.code == 130
    assert "interrupted: the same command continues after step 4 (" in stopped.err
    assert not Path("model").exists()
    finished = program(*COMMAND)
    assert finished.code == 0
    assert "continuing after step 4 " in finished.err
    train_diffusion(Path("whole"), read(here))
    assert Path("model", WEIGHTS).read_bytes() == Path("whole", WEIGHTS).read_bytes()


def test_another_recipe_does_not_go_on_with_a_run(here):
    def die(_: Step) -> None:
        raise Killed

    with pytest.raises(Killed):
        train_diffusion(Path("model"), read(here), on_step=die)
    with pytest.raises(UsageError, match=r"differs in recipe circles noise: 0\.1 there, 0\.2 "):
        train_diffusion(Path("model"), read(here, noise=0.2))


def test_without_matplotlib_there_is_no_picture(here, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    said: list[str] = []
    train_diffusion(Path("model"), read(here, tokens=1), say=said.append)
    assert said[-1].startswith("note: the model has no loss.png: ")
    assert sorted(read_bundle(Path("model")).files) == [METRICS, WEIGHTS]


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (["--recipe", "large"], 2, 'no recipe "large": expected one of circles, small, or a TOML'),
        (["-o", "no/model"], 1, "cannot write no/model"),
        (["-o", "."], 1, "is not a model bundle"),
        (["--points", "0"], 2, "--points"),
        (["--seed", "-1"], 2, "--seed"),
    ],
)
@pytest.mark.usefixtures("here")
def test_errors_are_sentences(program, arguments, code, says):
    refused = program(*COMMAND, *arguments)
    assert refused.code == code
    assert says in refused.err


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"noise": 0.0}, "noise: points that are not blurred have no density"),
        ({"noise": -1.0}, "circles: noise must be at least 0"),
        ({"small": 1.5}, "small: expected 0 to 1, got 1.5"),
        ({"width": 0}, "width: expected at least 1, got 0"),
        ({"width": 2.5}, "width: expected int, got 2.5"),
        ({"most_noise": 0.01}, "most_noise: expected much more than noise"),
        ({"tokens": 0}, "tokens: expected at least 1, got 0"),
        ({"accumulate": 2}, "accumulate 1 and dropout 0"),
        ({"optimizer": "muon"}, "the optimizer adamw"),
    ],
)
def test_recipes_out_of_range_are_refused(tmp_path, changes, says):
    with pytest.raises(UsageError, match=says):
        read(tmp_path, **changes)


def test_an_unknown_key_is_refused(tmp_path):
    path = Path(write_recipe(tmp_path))
    path.write_text(path.read_text().replace("[shape]", "[shape]\ndepth = 2"))
    with pytest.raises(UsageError, match=r'\[shape\]: unknown key "depth"'):
        read_diffusion_recipe(str(path))


def test_the_recipes_that_ship_are_read():
    small, circles = map(read_diffusion_recipe, ("small", "circles"))
    assert circles.circles == Circles(0.6, 5.0, 0.05)
    assert small.schedule.tokens < circles.schedule.tokens


def test_a_loss_that_diverges_is_an_error(here):
    recipe = read(here)
    wild = replace(recipe.schedule, learning_rate=1e30, clip=1e30)
    with pytest.raises(KBForgeError, match="the training has diverged"):
        train_diffusion(Path("model"), replace(recipe, schedule=wild))

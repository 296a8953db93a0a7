"""Killing training and going on gives the weights of a run that nothing disturbed.

    python examples/reproductions/killed_training.py [KILLS [SEED]]

`kbforge train-lm` on the quickstart's data with a tiny recipe and a checkpoint after every step is
killed with SIGKILL at KILLS (10) random moments, and each time the same command is given again. In
the end the weights must have the same bytes, and the metrics the same lines apart from the seconds,
as those of an uninterrupted run. One thread, because the order of sums depends on the threads.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

METRICS = "metrics.jsonl"
TRAIN = Path(__file__).parents[1] / "quickstart" / "train.jsonl"
RECIPE = """
description = "for killing"
grammar = "canonical-json"
pieces = 300
[shape]
d_model = 32
n_layers = 2
n_heads = 2
d_ff = 64
context = 128
[sets]
draws = 3
largest = 4
views = 0.3
[schedule]
tokens = 40_000
batch_tokens = 256
accumulate = 1
learning_rate = 0.004
warmup = 0.05
floor = 0.1
weight_decay = 0.01
clip = 1.0
dropout = 0.1
seed = 523
"""


def write_recipe(folder: Path, tokens: int = 40_000) -> None:
    """FOLDER/recipe.toml."""
    text = RECIPE.replace("tokens = 40_000", f"tokens = {tokens}")
    (folder / "recipe.toml").write_text(text, encoding="utf-8")


def arguments(folder: Path, name: str) -> list[str]:
    """Of `kbforge`, to train FOLDER/NAME."""
    options = ["--recipe", folder / "recipe.toml", "--checkpoint-minutes", 0, "-o", folder / name]
    return ["train-lm", str(TRAIN), *map(str, options)]


def start(folder: Path, name: str) -> subprocess.Popen[bytes]:
    """A process of one thread that trains and says nothing."""
    words = [sys.executable, "-m", "kbforge.cli.main", *arguments(folder, name)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    return subprocess.Popen(words, env=environment, stderr=subprocess.DEVNULL)


def kill(folder: Path, name: str, rng: random.Random, steps: int) -> bool:
    """Kill a run within its next `steps` steps, or right after; False if it ended before."""
    metrics = folder / f"{name}.training" / METRICS
    after, wait = _lines(metrics) + rng.randint(1, steps), rng.uniform(0.0, 0.02)
    with start(folder, name) as process:
        while _lines(metrics) < after:
            if process.poll() is not None:
                return False
            time.sleep(0.001)
        time.sleep(wait)
        process.kill()
    print(f"killed after {_lines(metrics)} lines of metrics")
    return True


def _lines(path: Path) -> int:
    try:
        return path.read_bytes().count(b"\n")
    except FileNotFoundError:
        return 0


def outcome(model: Path) -> tuple[bytes, list[dict[str, object]]]:
    """Weights and loss curve."""
    lines = [json.loads(line) for line in (model / METRICS).read_bytes().splitlines()]
    curve = [{key: value for key, value in line.items() if key != "seconds"} for line in lines]
    return (model / "weights.safetensors").read_bytes(), curve


def main(kills: int = 10, seed: int = 0) -> None:
    """Kill, go on, compare."""
    rng = random.Random(seed)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_recipe(folder)
        end(folder, "whole")
        weights, curve = outcome(folder / "whole")
        print(f"uninterrupted: {len(curve)} steps")
        for _ in range(kills):
            if not kill(folder, "killed", rng, len(curve) // (kills + 2)):
                sys.exit("the run ended before it was killed; is the machine very busy?")
        end(folder, "killed")
        again, killed_curve = outcome(folder / "killed")
    print(f"same weights: {again == weights}; same loss curve: {killed_curve == curve}")
    if again != weights or killed_curve != curve:
        sys.exit(1)


def end(folder: Path, name: str) -> None:
    """Let a run come to its end."""
    with start(folder, name) as process:
        if process.wait():
            sys.exit(f"train-lm ended with {process.returncode}")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))

"""Things to train on that take no time."""

from __future__ import annotations

import math
import random
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from kbforge.contracts import Fragment
from kbforge_grammars import grammar as grammar_called
from kbforge_lm.likelihoods.gpt.model import GPT, GptShape, SetTokenizer
from kbforge_training.fitting.loop import Loop, LoopSettings, Step
from kbforge_training.lm.batches import Batches, GrammarLoss, dev_batches
from kbforge_training.lm.data import by_entity
from kbforge_training.lm.train import Recipe, read_recipe, train_bpe

_RECIPE = {
    "description": '"for tests"',
    "grammar": '"canonical-json"',
    "pieces": 270,
    "shape": {"d_model": 32, "n_layers": 2, "n_heads": 2, "d_ff": 48, "context": 96},
    "sets": {"draws": 3, "largest": 4, "views": 0.3},
    "schedule": {
        "tokens": 12_000,
        "batch_tokens": 512,
        "accumulate": 1,
        "learning_rate": 0.01,
        "warmup": 0.1,
        "floor": 0.1,
        "weight_decay": 0.01,
        "clip": 1.0,
        "dropout": 0.0,
        "seed": 7,
        "optimizer": '"adamw"',
    },
}


def recipe_text(**changes: Any) -> str:
    """The TOML of a tiny recipe; `None` leaves a key out, an unknown one goes to the top."""
    left = dict(changes)

    def value(name: str, default: Any) -> Any:
        return left.pop(name, default)

    lines, tables = [], []
    for name, default in _RECIPE.items():
        if isinstance(default, dict):
            tables.append(f"[{name}]")
            tables += [
                f"{key} = {shown}"
                for key, d in default.items()
                if (shown := value(key, d)) is not None
            ]
        elif (shown := value(name, default)) is not None:
            lines.append(f"{name} = {shown}")
    lines += [f"{name} = {shown}" for name, shown in left.items()]
    return "\n".join([*lines, *tables]) + "\n"


def write_recipe(folder: Path, **changes: Any) -> str:
    """A recipe file's path."""
    path = folder / "tiny.toml"
    path.write_text(recipe_text(**changes), encoding="utf-8")
    return str(path)


def read(folder: Path, **changes: Any) -> Recipe:
    """A tiny recipe."""
    return read_recipe(write_recipe(folder, **changes))


def people(n: int = 60, seed: int = 0) -> list[Fragment]:
    """Fragments of n entities, one to four each."""
    rng = random.Random(seed)
    first = ["Ada", "Alan", "Grace", "Zoë", "Émile", "Kurt", "東"]
    last = ["Byron", "Turing", "Hopper", "Noether", "Gödel", "京"]
    town = ["London", "Wien", "Erlangen", "New York"]
    out = []
    for label in range(n):
        name, other, place = rng.choice(first), rng.choice(last), rng.choice(town)
        for number in range(rng.choice([1, 1, 2, 3, 4])):
            properties = {"name": (rng.choice([f"{name} {other}", f"{name[0]}. {other}", other]),)}
            if rng.random() < 0.6:
                properties["place"] = (place,)
            out.append(Fragment(f"{label}/{number}", properties, label=f"Q{label}"))
    return out


def tokenizer(name: str = "canonical-json", pieces: int = 270) -> SetTokenizer:
    """Of the names of `people`."""
    values = [value for f in people() for a, vs in f.properties.items() for value in (a, *vs)]
    return SetTokenizer(grammar_called(name), train_bpe(values, pieces))


def model(n_tokens: int, seed: int = 0, **sizes: int) -> GPT:
    """A model with weights that are large enough to make a difference."""
    torch.manual_seed(seed)
    shape = GptShape(n_tokens, **{"d_model": 32, "n_layers": 2, "n_heads": 2, "d_ff": 48, **sizes})
    gpt = GPT(shape).eval()
    with torch.no_grad():
        for parameter in gpt.parameters():
            parameter.add_(0.3 * torch.randn(parameter.shape) / parameter.shape[-1] ** 0.5)
    return gpt


def loop(
    folder: Path,
    recipe: Recipe,
    seconds: float = 0.0,
    most_seconds: float = math.inf,
    clock: Callable[[], float] = time.monotonic,
) -> tuple[GPT, Loop]:
    """A run of `people`, on the CPU."""
    own = tokenizer()
    entities, _ = by_entity(people())
    s, schedule = recipe.shape, recipe.schedule
    torch.manual_seed(schedule.seed)
    shape = GptShape(own.table.n_tokens, s.d_model, s.n_layers, s.n_heads, s.d_ff, s.context)
    gpt, device = GPT(shape, schedule.dropout), torch.device("cpu")
    budget = schedule.batch_tokens
    return gpt, Loop(
        gpt,
        Batches(entities[5:], own, recipe.sets, budget, s.context, schedule.seed).stream,
        dev_batches(entities[:5], own, budget, s.context),
        GrammarLoss(own.table, device),
        schedule,
        LoopSettings(folder, device, seconds, validate_every=5, most_seconds=most_seconds),
        clock=clock,
    )


class Killed(BaseException):
    """Stands for SIGKILL: no code of ours runs after it."""


def die(*_: Any, **__: Any) -> Any:
    """In place of a function: the process is killed there."""
    raise Killed


def ctrl_c_after(step: int) -> Callable[[Any, Any], Step]:
    """In place of `Loop.run`: Ctrl-C is pressed after so many steps."""
    really = Loop.run

    def run(self: Any, on_step: Any) -> Step:
        def press(done: Step) -> None:
            on_step(done)
            if done.step == step:
                signal.raise_signal(signal.SIGINT)

        return really(self, press)

    return run

"""`kbforge train-lm`: trains a language model on fragments."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kbforge import interrupts
from kbforge.cli import console, options
from kbforge.cli.options import option
from kbforge.errors import UsageError, quoted
from kbforge_training.cli import Inputs, LimitPerFile, Output, read_all

if TYPE_CHECKING:
    from kbforge.contracts import Fragment
    from kbforge_lm.likelihoods.gpt.model import LanguageModel
    from kbforge_training.fitting.loop import Step

app = typer.Typer(add_completion=False)

_COLUMNS = (
    "step {task.fields[step]}",
    "{task.fields[nats_per_fragment]} nats/fragment",
    "held out {task.fields[held_out]}",
    "{task.fields[tokens_per_second]} tokens/s",
)
_SPEED_OVER = 10.0  # seconds
_SHOWN_EVERY = 256  # fragments read
_MOST_WORKERS = 14  # more than feed the fastest GPU


@app.command()
def train_lm(
    fragments: Inputs,
    output: Output,
    recipe: Annotated[
        str, option("--recipe", "Recipe: tiny, small, tune, rebel-8m, h100 or a TOML file.")
    ] = "small",
    start: Annotated[
        str | None,
        option("--from", "Continue from this model (gpt: the one that ships); see --recipe tune."),
    ] = None,
    tokens: Annotated[
        int | None,
        option("--tokens", "Number of tokens to read.", min=1, show_default="the recipe's"),
    ] = None,
    dev: Annotated[
        str | None,
        option("--dev", "Fragments to validate on.", show_default="some held-out entities"),
    ] = None,
    calibrate_on: Annotated[
        str | None,
        option(
            "--calibrate-on",
            "Labelled fragments to choose alpha on.",
            show_default="the held-out ones",
        ),
    ] = None,
    minutes: Annotated[
        float | None,
        option(
            "--minutes",
            "Train at most this long; the learning rate falls in time.",
            min=0,
            show_default="until all tokens are read",
        ),
    ] = None,
    workers: Annotated[
        int | None,
        option(
            "--workers",
            "Processes that draw the training sets; the model is the same.",
            min=0,
            show_default="0; with --gpu the cores but two",
        ),
    ] = None,
    checkpoint_minutes: Annotated[
        float, option("--checkpoint-minutes", "Minutes between checkpoints.", min=0)
    ] = 5.0,
    limit: LimitPerFile = None,
    gpu: options.Gpu = False,
    json: options.Json = False,
) -> None:
    """Train a language model of sets of fragments.

    The labels say which fragments are the same entity; from them the model learns how fragments of
    one entity differ. While it trains, a checkpoint is kept in a folder beside the model: if the
    run is interrupted or killed, the same command continues from the last checkpoint.

    The model folder has all that kbforge cluster needs: the model, its surrogate and, if held-out
    labels show it, its alpha.

    Examples:

        kbforge train-lm labelled.jsonl --recipe small -o model/

        kbforge train-lm labelled.jsonl --recipe rebel-8m --gpu -o model/

        kbforge train-lm labelled.jsonl --from gpt --recipe tune -o model/

        kbforge cluster fragments.jsonl --likelihood model/ -o kb.jsonl
    """
    import math
    import os
    from dataclasses import replace

    from kbforge.files.io import require_apart
    from kbforge_training.fitting.run_folder import interrupted
    from kbforge_training.lm.data import Data
    from kbforge_training.lm.train import read_recipe, require_output
    from kbforge_training.lm.train import train_lm as run

    if [*fragments, dev, calibrate_on].count("-") > 1:
        raise UsageError("standard input (-) can be read once; name a file for the others")
    require_apart(output, [*fragments, dev, calibrate_on, None if start == "gpt" else start], True)
    chosen = read_recipe(recipe)
    if tokens is not None:
        chosen = replace(chosen, schedule=replace(chosen.schedule, tokens=tokens))
    where = options.device_of(gpu)
    if workers is None:
        beside = gpu and hasattr(os, "fork")
        workers = max(0, min((os.cpu_count() or 1) - 2, _MOST_WORKERS)) if beside else 0
    most_seconds = math.inf if minutes is None else 60.0 * minutes
    require_output(output)
    data = Data(
        train=_read(fragments, limit),
        dev=None if dev is None else _read([dev], limit),
        calibration=None if calibrate_on is None else _read([calibrate_on], limit),
        start=None if start is None else _model(start),
    )
    total = chosen.schedule.tokens
    try:
        with console.progress(*_COLUMNS, total=total, description="training") as bar:
            show, seconds = _shown(bar), 60.0 * checkpoint_minutes
            how = (where, seconds, show, console.note, most_seconds, workers)
            trained = run(data, output, chosen, *how)
    except KeyboardInterrupt:
        console.note(interrupted(output, total, "tokens"))
        raise typer.Exit(interrupts.exit_code()) from None
    if json:
        console.print_json({"model": str(output), **trained})
    else:
        _print_summary(trained, output)


def _read(paths: list[str], limit: int | None) -> list[Fragment]:
    from kbforge.files.fragments import held

    def shown() -> Iterator[Fragment]:
        for done, fragment in enumerate(read_all(paths, limit), start=1):
            if done % _SHOWN_EVERY == 0:
                bar.update(done)
            yield fragment

    with console.progress(total=None, description="reading") as bar:
        return held(shown())


def _model(name_or_path: str) -> LanguageModel:
    from kbforge.models.bundle import read_bundle
    from kbforge_lm.likelihoods.gpt.likelihood import shipped_model
    from kbforge_lm.likelihoods.gpt.model import from_bundle

    folder = shipped_model() if name_or_path == "gpt" else Path(name_or_path)
    return from_bundle(read_bundle(folder), quoted(str(folder), 400))


def _shown(bar: Any, clock: Callable[[], float] = time.monotonic) -> Callable[[Step], None]:
    """Show each step on a progress bar, with the speed of the last seconds."""
    from collections import deque

    marks: deque[tuple[float, int]] = deque()
    held_out = "…"

    def show(step: Step) -> None:
        nonlocal held_out
        if step.dev_nats_per_fragment is not None:
            held_out = f"{step.dev_nats_per_fragment:.2f}"
        now = clock()
        marks.append((now, step.tokens))
        while len(marks) > 2 and marks[1][0] < now - _SPEED_OVER:
            marks.popleft()
        begin, before = marks[0]
        bar.update(
            step.tokens,
            step=f"{step.step:,}",
            nats_per_fragment=f"{step.nats_per_fragment:.2f}",
            held_out=held_out,
            tokens_per_second=f"{(step.tokens - before) / (now - begin):,.0f}"
            if now > begin
            else "…",
        )

    return show


def _print_summary(trained: Mapping[str, Any], output: Path) -> None:
    console.note(
        f"{output}: language model of {trained['parameters']:,} parameters, {trained['steps']:,} "
        f"steps over {trained['tokens']:,} tokens of {trained['entities']:,} entities"
    )
    if trained["nats_per_fragment"] is None:
        console.note("held-out loss unknown: no entity was held out")
    else:
        console.note(
            f"held-out loss {trained['nats_per_fragment']:,.2f} nats a fragment, on "
            f"{trained['held_out']:,} entities"
        )
    alpha = "not calibrated" if trained["alpha"] is None else f"{trained['alpha']:.6g}"
    console.note(f"alpha {alpha}")

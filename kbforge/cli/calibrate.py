"""`kbforge calibrate`: choose the concentration alpha."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Annotated

import typer

from kbforge.cli import console, options
from kbforge.cli.choices import choices_of
from kbforge.errors import UsageError

if TYPE_CHECKING:
    from kbforge.fit.calibrate import Calibrated

app = typer.Typer(add_completion=False)


@app.command()
def calibrate(
    context: typer.Context,
    fragments: Annotated[
        str, typer.Argument(help="JSON lines file of labelled fragments; - for stdin.")
    ],
    output: Annotated[
        str, typer.Option("--output", "-o", help="Calibration file (TOML); - for stdout.")
    ],
    calibrator: Annotated[
        str,
        typer.Option(help="pseudo-likelihood, bcubed, empirical-bayes (no labels) or a plugin's."),
    ] = "pseudo-likelihood",
    likelihood: options.Likelihood = None,
    surrogate: options.Surrogate = None,
    index: options.Index = None,
    exact: options.Exact = False,
    clusterer: options.Clusterer = "split-smc",
    particles: options.Particles = None,
    max_evals: options.MaxEvals = None,
    low: Annotated[
        float | None, typer.Option(help="Smallest alpha to try.", show_default="4.5e-05")
    ] = None,
    high: Annotated[
        float | None, typer.Option(help="Largest alpha to try.", show_default="5.2e+21")
    ] = None,
    seed: options.Seed = 0,
    limit: options.Limit = None,
    gpu: options.Gpu = False,
    device: options.Device = None,
    settings: options.Settings = None,
    json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
) -> None:
    """Choose the concentration alpha for a likelihood: larger makes more entities.

    Calibrate on labelled fragments that are like the data to come, and never on the data that the
    result is evaluated on.

    - pseudo-likelihood: how well alpha predicts each label from all others. Fast and smooth.

    - bcubed: the B-cubed F1 of clustering with it. One clustering an evaluation.

    - empirical-bayes: how probable alpha makes the fragments; needs no labels but a likelihood
      that is a good probability.

    Examples:

        kbforge calibrate labelled.jsonl -o calibration.toml

        kbforge cluster fragments.jsonl --calibration calibration.toml -o kb.jsonl

        kbforge calibrate fragments.jsonl --calibrator empirical-bayes --low 1 --high 1e6 -o c.toml
    """
    from kbforge.files.apart import require_apart
    from kbforge.files.fragments import read_fragments
    from kbforge.fit.calibrate import CalibrationSettings, search_between
    from kbforge.fit.calibrate import calibrate as run
    from kbforge.fit.calibration import write_calibration

    if json and output == "-":
        raise UsageError("--json and -o - both write to standard output; choose one")
    choices = choices_of(context)
    require_apart(output, [fragments, *options.files_of(settings, likelihood, surrogate)])
    search = search_between(low, high)
    chosen = CalibrationSettings(calibrator, search, choices.of("calibrator"))
    held = list(read_fragments(fragments, limit=limit))
    with _progress(len(held)) as on_evaluation:
        done = run(held, choices, chosen, on_evaluation)
    write_calibration(done.calibration, output)
    for sentence in done.notes:
        console.note(f"note: {sentence}")
    if json:
        console.print_json(done.summary())
    else:
        _print_summary(done, output)


@contextlib.contextmanager
def _progress(fragments: int) -> Iterator[Callable[[float, float], None]]:
    """A count of evaluations, with the last alpha and what it was worth."""
    columns = ("alpha {task.fields[alpha]}", "objective {task.fields[objective]}")
    with console.progress(*columns, total=None, description=f"calibrating on {fragments:,}") as bar:
        bar.update(0, alpha="…", objective="…")
        evaluations = 0

        def on_evaluation(alpha: float, objective: float) -> None:
            nonlocal evaluations
            evaluations += 1
            bar.update(evaluations, alpha=f"{alpha:.4g}", objective=f"{objective:,.4f}")

        yield on_evaluation


def _print_summary(done: Calibrated, output: str) -> None:
    from kbforge.fit.calibrate import sparkline

    c = done.calibration
    lowest, highest = done.curve[0][0], done.curve[-1][0]
    console.note(f"alpha      {c.alpha:.6g} (log alpha {c.log_alpha:.4f})")
    console.note(f"objective  {c.value:,.4f} ({c.objective}, {len(done.curve)} evaluations)")
    console.note(f"curve      {lowest:.1e} {sparkline(done.curve)} {highest:.1e}")
    if output != "-":
        console.note(f"wrote {output}")

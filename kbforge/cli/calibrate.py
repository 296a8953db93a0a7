"""`kbforge calibrate`: choose the concentration alpha."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

import typer

from kbforge.cli import console
from kbforge.errors import UsageError

if TYPE_CHECKING:
    from kbforge.calibrating import Calibrated

app = typer.Typer(add_completion=False)


@app.command()
def calibrate(
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
    likelihood: Annotated[
        str | None,
        typer.Option(help="Likelihood by name, or a model folder.", show_default="bigram"),
    ] = None,
    surrogate: Annotated[
        str | None, typer.Option(help="Model that proposes for an expensive likelihood.")
    ] = None,
    clusterer: Annotated[
        str, typer.Option(help="For the calibrators that cluster: split-smc, smc, greedy.")
    ] = "split-smc",
    particles: Annotated[
        int | None,
        typer.Option("--particles", "-P", min=1, help="Most particles kept a subproblem."),
    ] = None,
    max_evals: Annotated[
        int | None,
        typer.Option("--max-evals", "-M", min=0, help="Most joins that the surrogate proposes."),
    ] = None,
    low: Annotated[
        float | None, typer.Option(help="Smallest alpha to try.", show_default="4.5e-05")
    ] = None,
    high: Annotated[
        float | None, typer.Option(help="Largest alpha to try.", show_default="7.2e+10")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Of the random numbers, where any are used.")] = (
        0
    ),
    limit: Annotated[
        int | None, typer.Option(min=1, help="Read no further than this many fragments.")
    ] = None,
    gpu: Annotated[bool, typer.Option("--gpu", help="Same as --device cuda.")] = False,
    device: Annotated[
        Literal["cpu", "cuda"] | None,
        typer.Option(help="Where a neural likelihood runs.", show_default="cpu"),
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="KIND.OPTION=VALUE",
            help="Any option of the likelihood, surrogate, clusterer or calibrator.",
        ),
    ] = None,
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
    from kbforge.calibrating import How, search_between
    from kbforge.calibrating import calibrate as run
    from kbforge.calibration import write_calibration
    from kbforge.cli.options import device_of
    from kbforge.clustering import Choices
    from kbforge.config import parse_settings
    from kbforge.load import read_fragments

    if json and output == "-":
        raise UsageError("--json and -o - both write to standard output; choose one")
    options = parse_settings(settings or [], ("likelihood", "surrogate", "clusterer", "calibrator"))
    how = How(calibrator, search_between(low, high), options.pop("calibrator"))
    choices = Choices(
        clusterer=clusterer,
        likelihood=likelihood,
        surrogate=surrogate,
        particles=particles,
        max_evals=max_evals,
        seed=seed,
        device=device_of(gpu, device),
        options=options,
    )
    held = list(read_fragments(fragments, limit=limit))
    columns = ("alpha {task.fields[alpha]}", "objective {task.fields[objective]}")
    with console.progress(*columns, total=None, description=f"calibrating on {len(held):,}") as bar:
        bar.update(0, alpha="", objective="")
        evaluations = 0

        def show(alpha: float, objective: float) -> None:
            nonlocal evaluations
            evaluations += 1
            bar.update(evaluations, alpha=f"{alpha:.4g}", objective=f"{objective:,.4f}")

        done = run(held, choices, how, show)
    write_calibration(done.calibration, output)
    for sentence in done.notes:
        console.note(f"note: {sentence}")
    if json:
        console.print_json(done.summary())
    else:
        _print_summary(done, output)


def _print_summary(done: Calibrated, output: str) -> None:
    from kbforge.calibrating import sparkline

    c = done.calibration
    lowest, highest = done.curve[0][0], done.curve[-1][0]
    console.note(f"alpha      {c.alpha:.6g} (log alpha {c.log_alpha:.4f})")
    console.note(f"objective  {c.value:,.4f} ({c.objective}, {len(done.curve)} evaluations)")
    console.note(f"curve      {lowest:.1e} {sparkline(done.curve)} {highest:.1e}")
    if output != "-":
        console.note(f"wrote {output}")

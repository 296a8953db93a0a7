"""`kbforge calibrate`: chooses the concentration alpha, or fits a confidence map, on labels."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Annotated

import typer

from kbforge.cli import console, options
from kbforge.cli.evaluate import bar_of_orders, print_reliability
from kbforge.errors import UsageError

if TYPE_CHECKING:
    from kbforge.contracts import Fragment
    from kbforge.fit.calibrate import CalibrationRun

app = typer.Typer(add_completion=False)

_OF_ALPHA = ("calibrator", "low", "high")
_OF_CONFIDENCE = ("test_on", "alpha", "calibration", "temperature", "shuffles", "bins")


@app.command()
def calibrate(
    context: typer.Context,
    fragments: Annotated[
        str, typer.Argument(help="Labelled fragments, JSON lines; - for standard input.")
    ],
    output: Annotated[
        str,
        typer.Option(
            "--output",
            "-o",
            help="Calibration file (TOML); - for standard output. With --confidence: a TOML file, "
            "a model folder, or the file that --calibration names.",
        ),
    ],
    calibrator: Annotated[
        str,
        typer.Option(
            "--calibrator",
            help="pseudo-likelihood, bcubed, empirical-bayes (no labels) or a plugin's.",
        ),
    ] = "pseudo-likelihood",
    confidence: Annotated[
        bool, typer.Option("--confidence", help="Fit a confidence map instead of choosing alpha.")
    ] = False,
    test_on: Annotated[
        str | None,
        typer.Option(
            "--test-on",
            help="With --confidence: labelled fragments of other entities, to test the map on.",
            show_default="half of the entities of FRAGMENTS",
        ),
    ] = None,
    likelihood: options.Likelihood = None,
    alpha: Annotated[
        float | None,
        options.further(
            "--alpha",
            help="With --confidence: concentration to cluster with.",
            show_default="chosen to suit the file",
        ),
    ] = None,
    calibration: Annotated[
        str | None,
        options.further(
            "--calibration",
            help="With --confidence: take alpha from this file, which kbforge calibrate wrote.",
        ),
    ] = None,
    shuffles: Annotated[
        int,
        options.further(
            "--shuffles",
            min=1,
            max=1000,
            help="With --confidence: average over this many orders of the fragments.",
        ),
    ] = 1,
    bins: Annotated[
        int,
        options.further(
            "--bins", min=1, max=1000, help="With --confidence: bins of equal width, for tables."
        ),
    ] = 15,
    temperature: Annotated[
        float,
        options.further(
            "--temperature",
            help="With --confidence: divide log likelihoods and log alpha by this.",
        ),
    ] = 1.0,
    low: Annotated[
        float | None,
        options.further("--low", help="Smallest alpha to try.", show_default="4.5e-05"),
    ] = None,
    high: Annotated[
        float | None,
        options.further("--high", help="Largest alpha to try.", show_default="5.2e+21"),
    ] = None,
    clusterer: options.Clusterer = "split-smc",
    particles: options.Particles = None,
    surrogate: options.Surrogate = None,
    max_evals: options.MaxEvals = None,
    index: options.Index = None,
    exact: options.Exact = False,
    seed: options.Seed = 0,
    limit: options.Limit = None,
    gpu: options.Gpu = False,
    settings: options.Settings = None,
    as_json: options.Json = False,
) -> None:
    """Choose alpha, or fit a confidence map.

    Calibrate on labelled fragments that are like the data to come, and never on the data that the
    result is evaluated on.

    The concentration alpha decides how readily a new entity is opened. Calibrators of alpha:

    - pseudo-likelihood: how well alpha predicts each label from all others. Fast and smooth.

    - bcubed: the B-cubed F1 of clustering with it. Clusters once per evaluation.

    - empirical-bayes: how probable alpha makes the fragments. Needs no labels, but a likelihood
      that is a good probability.

    --confidence fits a map from the reported probabilities to how often they are right, by size of
    subproblem, and tests it on entities that it was not fitted on. kbforge cluster reads it and
    gives every entity its calibrated confidence.

    Examples:

        kbforge calibrate labelled.jsonl -o calibration.toml

        kbforge cluster fragments.jsonl --calibration calibration.toml

        kbforge calibrate f.jsonl --calibrator empirical-bayes -o c.toml

        kbforge calibrate train.jsonl --confidence -o map.toml

        kbforge cluster fragments.jsonl --confidence-map map.toml
    """
    named = options.first_given(context, _OF_ALPHA if confidence else _OF_CONFIDENCE)
    if named is not None:
        raise UsageError(
            f"{named} is for choosing alpha, and --confidence fits a map; choose one"
            if confidence
            else f"{named} goes with --confidence"
        )
    if confidence:
        _fit(context, fragments, output, as_json)
    else:
        _choose(context, fragments, output, as_json)


# --- alpha ----------------------------------------------------------------------------------------


def _choose(context: typer.Context, fragments: str, output: str, as_json: bool) -> None:
    from kbforge.files.fragments import read_fragments
    from kbforge.files.io import require_apart
    from kbforge.fit.alpha import write_calibration
    from kbforge.fit.calibrate import CalibrationSettings, calibrate, search_between

    if as_json and output == "-":
        raise UsageError("--json and -o - both write to standard output; choose one")
    given = context.params
    choices = options.choices_of(context)
    models = (given["likelihood"], given["surrogate"])
    require_apart(output, [fragments, *options.files_of(given["settings"], *models)])
    search = search_between(given["low"], given["high"])
    chosen = CalibrationSettings(given["calibrator"], search, choices.of("calibrator"))
    read = list(read_fragments(fragments, limit=given["limit"]))
    with _bar_of_evaluations(len(read)) as on_evaluation:
        done = calibrate(read, choices, chosen, on_evaluation)
    write_calibration(done.calibration, output)
    for sentence in done.notes:
        console.note(f"note: {sentence}")
    if as_json:
        console.print_json(done.summary())
    else:
        _print_summary(done, output)


@contextlib.contextmanager
def _bar_of_evaluations(fragments: int) -> Iterator[Callable[[float, float], None]]:
    """The number of evaluations, with the last alpha and its objective."""
    columns = ("alpha {task.fields[alpha]}", "objective {task.fields[objective]}")
    with console.progress(*columns, total=None, description=f"calibrating on {fragments:,}") as bar:
        bar.update(0, alpha="…", objective="…")
        evaluations = 0

        def on_evaluation(alpha: float, objective: float) -> None:
            nonlocal evaluations
            evaluations += 1
            bar.update(evaluations, alpha=f"{alpha:.4g}", objective=f"{objective:,.4f}")

        yield on_evaluation


def _print_summary(done: CalibrationRun, output: str) -> None:
    from kbforge.fit.calibrate import sparkline

    c = done.calibration
    lowest, highest = done.curve[0][0], done.curve[-1][0]
    console.note(f"alpha      {c.alpha:.6g} (log alpha {c.log_alpha:.4f})")
    console.note(f"objective  {c.value:,.4f} ({c.objective}, {len(done.curve)} evaluations)")
    console.note(f"curve      {lowest:.1e} {sparkline(done.curve)} {highest:.1e}")
    if output != "-":
        console.note(f"wrote {output}")


# --- confidence -----------------------------------------------------------------------------------


def _fit(context: typer.Context, fragments: str, output: str, as_json: bool) -> None:
    from kbforge.fit.calibrate import (
        ReliabilitySettings,
        fit_confidence,
        measure_reliability,
        save_confidence,
    )

    given = context.params
    _require_place(output, fragments, given["test_on"], given["settings"])
    settings = ReliabilitySettings(given["bins"], given["shuffles"])
    choices = options.choices_of(context)
    fitted, tested = _parts(fragments, given["test_on"], given["limit"])
    with bar_of_orders("clustering to fit", settings.shuffles) as on_order:
        found = fit_confidence(fitted, choices, settings, on_order)
    with bar_of_orders("clustering to test", settings.shuffles) as on_order:
        done = measure_reliability(tested, choices, settings, found, on_order)
    place = save_confidence(found, output, given["calibration"])
    console.note(f"wrote {place}, fitted on {found.fragments:,} fragments")
    print_reliability(done, as_json)


def _require_place(
    output: str, fragments: str, test_on: str | None, settings: list[str] | None
) -> None:
    """Refuse inputs that cannot be read both, and an output that cannot hold a map."""
    from kbforge.files.io import require_apart
    from kbforge.fit.calibrate import require_place

    if output == "-":
        raise UsageError("--output: expected a file or a model folder, got standard output")
    if test_on == fragments == "-":
        raise UsageError("only one of FRAGMENTS and --test-on can be standard input")
    require_apart(output, [fragments, test_on, *options.files_of(settings)])
    require_place(output)


def _parts(
    fragments: str, test_on: str | None, limit: int | None
) -> tuple[list[Fragment], list[Fragment]]:
    """Fragments to fit on, and others to test on."""
    from kbforge.files.fragments import read_fragments
    from kbforge.fit.calibrate import halves, require_disjoint

    read = list(read_fragments(fragments, limit=limit))
    if test_on is None:
        return halves(read)
    tested = list(read_fragments(test_on, limit=limit))
    require_disjoint(read, tested)
    return read, tested

"""`kbforge reliability`: is what a clustering reports true as often as it says?"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

import typer

from kbforge.cli import console, options
from kbforge.cli.choices import choices_of
from kbforge.errors import UsageError

if TYPE_CHECKING:
    from kbforge.contracts import Fragment, Progress
    from kbforge.fit.orders import OnOrder
    from kbforge.fit.reliability import ReliabilityReport

app = typer.Typer(add_completion=False)


@app.command()
def reliability(
    context: typer.Context,
    fragments: Annotated[
        str, typer.Argument(help="JSON lines file of labelled fragments; - for stdin.")
    ],
    fit: Annotated[
        str | None,
        typer.Option(
            help="Fit a confidence map and put it here: a TOML file, a model folder, or the file "
            "that --calibration names."
        ),
    ] = None,
    fit_on: Annotated[
        str | None,
        typer.Option(
            help="Labelled fragments of other entities to fit on.",
            show_default="one entity in two of FRAGMENTS",
        ),
    ] = None,
    confidence_map: options.ConfidenceMap = None,
    answers: options.Answers = None,
    shuffles: Annotated[
        int, typer.Option(min=1, max=1000, help="Average over so many orders of the fragments.")
    ] = 1,
    temperature: options.Temperature = 1.0,
    bins: Annotated[
        int, typer.Option(min=1, max=1000, help="Bins of equal width, for tables and error.")
    ] = 15,
    clusterer: options.Clusterer = "split-smc",
    likelihood: options.Likelihood = None,
    surrogate: options.Surrogate = None,
    index: options.Index = None,
    exact: options.Exact = False,
    particles: options.Particles = None,
    max_evals: options.MaxEvals = None,
    alpha: Annotated[
        float | None, typer.Option(help="Concentration: larger makes more entities.")
    ] = None,
    calibration: Annotated[
        str | None, typer.Option(help="File written by kbforge calibrate; gives alpha.")
    ] = None,
    seed: options.Seed = 0,
    limit: options.Limit = None,
    gpu: options.Gpu = False,
    device: options.Device = None,
    settings: options.Settings = None,
    json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
) -> None:
    """Compare the probabilities that a clustering reports with how often they are right.

    Clusters labelled fragments, without reading the labels, and puts what it reports into bins:
    of pairs of fragments that they share an entity (pairs above 1 %), and of entities that they are
    exactly right.

    With --fit, a monotone map from reported to calibrated probability, by size of subproblem, is
    fitted on entities that are not in the test. kbforge cluster reads it and gives every entity its
    calibrated confidence.

    Two remedies for a posterior that is too sure need no labels, and come without a promise: a
    --temperature above 1, and the mean over --shuffles of the data.

    Examples:

        kbforge reliability labelled.jsonl

        kbforge reliability test.jsonl --fit confidence.toml --fit-on train.jsonl

        kbforge cluster fragments.jsonl --confidence-map confidence.toml -o kb.jsonl

        kbforge reliability labelled.jsonl --likelihood model/ --fit model/ --json
    """
    from kbforge.files.fragments import read_fragments
    from kbforge.fit import fit_confidence as confidence
    from kbforge.fit.reliability import ReliabilitySettings, measure_reliability

    if fit is not None and answers is not None:
        raise UsageError(
            "--fit clusters a part of the fragments and --answers is about all of them"
        )
    _require_sense(fragments, fit, fit_on, confidence_map, settings)
    settled = ReliabilitySettings(bins=bins, shuffles=shuffles)
    choices = choices_of(context)
    tested = list(read_fragments(fragments, limit=limit))
    found = None
    if fit is not None:
        fitted, tested = _parts(tested, fit_on)
        with _progress("clustering to fit", shuffles) as on_order:
            found = confidence.fit_confidence(fitted, choices, settled, on_order)
    with _progress("clustering to test", shuffles) as on_order:
        done = measure_reliability(tested, choices, settled, found, on_order)
    for sentence in done.notes:
        console.note(f"note: {sentence}")
    if fit is not None and found is not None:
        place = confidence.save_confidence(found, fit, calibration)
        console.note(f"wrote {place}, fitted on {found.fragments:,} fragments")
    if json:
        console.print_json(done.summary())
    else:
        _print(done)


def _require_sense(
    fragments: str,
    fit: str | None,
    fit_on: str | None,
    confidence_map: str | None,
    settings: list[str] | None,
) -> None:
    """Refuse options that contradict each other, and a map that has no place to go."""
    from kbforge.files.apart import require_apart
    from kbforge.fit.fit_confidence import require_place

    if fit is not None and confidence_map is not None:
        raise UsageError("--fit makes a confidence map and --confidence-map names one; choose one")
    if fit_on is not None and fit is None:
        raise UsageError("--fit-on needs --fit, which says where the map goes")
    if fit == "-":
        raise UsageError("--fit: expected a file or a model folder, got standard output")
    if fit_on == fragments == "-":
        raise UsageError("only one of FRAGMENTS and --fit-on can be standard input")
    if fit is not None:
        require_apart(fit, [fragments, fit_on, *options.files_of(settings)])
        require_place(fit)


def _parts(fragments: list[Fragment], fit_on: str | None) -> tuple[list[Fragment], list[Fragment]]:
    """Fragments to fit on, and others to test on."""
    from kbforge.files.fragments import read_fragments
    from kbforge.fit.fit_confidence import halves, require_disjoint

    if fit_on is None:
        return halves(fragments)
    known = list(read_fragments(fit_on))
    require_disjoint(known, fragments)
    return known, fragments


@contextlib.contextmanager
def _progress(description: str, shuffles: int) -> Iterator[OnOrder]:
    """A bar of all orders' fragments; of a method without an end to count to, of orders."""
    import time

    with console.progress(total=shuffles, description=description) as bar:
        shown = 0.0

        def on_order(number: int, progress: Progress) -> None:
            nonlocal shown
            if time.monotonic() - shown < 0.1:
                return
            shown = time.monotonic()
            part = 0.0 if progress.rounds else progress.fragments / progress.total
            bar.update(number + part)

        yield on_order


def _print(done: ReliabilityReport) -> None:
    from kbforge.evaluation.render_reliability import render

    screen, scores = console.stdout(), done.scores
    screen.print(
        f"{done.fragments:,} fragments in {scores.clusters:,} entities, gold has "
        f"{scores.gold_clusters:,}; B-cubed F1 {scores.bcubed_f1_harmonic:.4f} (harmonic)"
    )
    if done.unlabelled:
        screen.print(f"without a label, and not judged: {done.unlabelled:,}")
    screen.print()
    title = f"pairs reported above {done.settings.least:.0%}"
    screen.print(render(title, "truly together", done.pairs.raw, done.pairs.mapped))
    screen.print()
    screen.print(render("entities", "exactly right", done.entities.raw, done.entities.mapped))

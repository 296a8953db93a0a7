"""`kbforge evaluate`: a knowledge base, or its probabilities, against gold labels."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

import typer

from kbforge.cli import console, options
from kbforge.errors import UsageError

if TYPE_CHECKING:
    from kbforge.contracts import Progress
    from kbforge.fit.calibrate import OnOrder, ReliabilityReport

app = typer.Typer(add_completion=False)

_ALWAYS = ("kb", "as_json")
_OF_A_KB = ("gold", "partial")


@app.command()
def evaluate(
    context: typer.Context,
    kb: Annotated[
        str,
        typer.Argument(
            help="Knowledge base: JSON lines or a store. With --reliability: labelled fragments. "
            "- for standard input."
        ),
    ],
    gold: Annotated[
        str | None, typer.Argument(help="Labelled fragments, JSON lines; - for standard input.")
    ] = None,
    partial: Annotated[
        bool, typer.Option("--partial", help="Evaluate only the fragments that both files have.")
    ] = False,
    reliability: Annotated[
        bool,
        typer.Option(
            "--reliability",
            help="Cluster labelled fragments, and compare the reported probabilities with how "
            "often they are right.",
        ),
    ] = False,
    likelihood: options.Likelihood = None,
    alpha: options.Alpha = None,
    answers: options.Answers = None,
    confidence_map: options.ConfidenceMap = None,
    calibration: options.Calibration = None,
    shuffles: Annotated[
        int,
        options.further(
            "--shuffles",
            min=1,
            max=1000,
            help="Average over this many orders of the fragments.",
        ),
    ] = 1,
    bins: Annotated[
        int,
        options.further(
            "--bins", min=1, max=1000, help="Bins of equal width, for tables and errors."
        ),
    ] = 15,
    temperature: options.Temperature = 1.0,
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
    """Score a knowledge base against gold labels.

    Fragments are matched by id. Fragments without a label are left out and counted.

    --reliability clusters labelled fragments, without reading their labels, and puts the reported
    probabilities into bins: for pairs above 1 %, that they share an entity; for entities, that they
    are exactly right. The other options go with it. kbforge calibrate --confidence fits a map that
    corrects the probabilities. Two remedies need no labels, but may not help: a --temperature above
    1, and the mean over --shuffles of the data.

    Examples:

        kbforge evaluate kb.jsonl gold.jsonl

        kbforge cluster f.jsonl -o - | kbforge evaluate - f.jsonl --json

        kbforge evaluate labelled.jsonl --reliability

        kbforge evaluate test.jsonl --reliability --confidence-map map.toml
    """
    if reliability:
        if (named := options.first_given(context, _OF_A_KB)) is not None:
            raise UsageError(f"--reliability clusters labelled fragments; leave out {named}")
        _measure(context, kb, limit, shuffles, bins, as_json)
        return
    others = [name for name in context.params if name not in (*_ALWAYS, *_OF_A_KB)]
    if (named := options.first_given(context, others)) is not None:
        raise UsageError(f"{named} goes with --reliability")
    if gold is None:
        raise UsageError("expected a knowledge base and its labelled fragments, or --reliability")
    _score(kb, gold, partial, as_json)


def _score(kb: str, gold: str, partial: bool, as_json: bool) -> None:
    from kbforge.evaluation.render import render_scores
    from kbforge.evaluation.scores import score_entities
    from kbforge.files.fragments import read_fragments
    from kbforge.jobs.views import entities_of

    if kb == gold == "-":
        raise UsageError("only one of KB and GOLD can be standard input")
    judgement = score_entities(entities_of(kb), read_fragments(gold), partial=partial)
    if as_json:
        console.print_json(judgement.to_json())
    else:
        console.stdout().print(render_scores(judgement))


def _measure(
    context: typer.Context,
    fragments: str,
    limit: int | None,
    shuffles: int,
    bins: int,
    as_json: bool,
) -> None:
    from kbforge.files.fragments import read_fragments
    from kbforge.fit.calibrate import ReliabilitySettings, measure_reliability

    choices = options.choices_of(context)
    read = list(read_fragments(fragments, limit=limit))
    with bar_of_orders("clustering to test", shuffles) as on_order:
        done = measure_reliability(
            read, choices, ReliabilitySettings(bins, shuffles), on_order=on_order
        )
    print_reliability(done, as_json)


@contextlib.contextmanager
def bar_of_orders(description: str, shuffles: int) -> Iterator[OnOrder]:
    """A bar of the fragments of all orders; of the orders, for a method that counts none."""
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


def print_reliability(done: ReliabilityReport, as_json: bool) -> None:
    """Print how often the reported probabilities are right."""
    from kbforge.evaluation.render import render_reliability

    for sentence in done.notes:
        console.note(f"note: {sentence}")
    if as_json:
        console.print_json(done.summary())
        return
    screen, scores = console.stdout(), done.scores
    screen.print(
        f"{done.fragments:,} fragments in {scores.clusters:,} entities, gold has "
        f"{scores.gold_clusters:,}; B-cubed F1 {scores.bcubed_f1_harmonic:.4f} (harmonic)"
    )
    if done.unlabelled:
        screen.print(f"without a label, so not evaluated: {done.unlabelled:,}")
    screen.print()
    title = f"pairs reported above {done.settings.least:.0%}"
    screen.print(render_reliability(title, "truly together", done.pairs.raw, done.pairs.mapped))
    screen.print()
    screen.print(
        render_reliability("entities", "exactly right", done.entities.raw, done.entities.mapped)
    )

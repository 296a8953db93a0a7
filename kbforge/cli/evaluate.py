"""The verbs that read labels: evaluate and calibrate."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Annotated

import typer

from kbforge.cli import console, options
from kbforge.cli.options import option
from kbforge.errors import UsageError, counted
from kbforge.registry.options import parse_settings

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table
    from rich.text import Text

    from kbforge.contracts import Progress
    from kbforge.evaluation.reliability import Reliability
    from kbforge.evaluation.scores import Evaluation
    from kbforge.fit.audit import AuditReport
    from kbforge.fit.calibrate import OnOrder, ReliabilityReport


evaluate_app = typer.Typer(add_completion=False)

_ALWAYS = ("kb", "as_json", "id_column", "settings")
_OF_A_KB = ("gold", "partial")
_OF_AN_AUDIT = (*_ALWAYS, *_OF_A_KB, "audit", "answers", "seed", "limit")
_ANSWERS = "audit.jsonl"


_OF_RELIABILITY = (*options.OF_CLUSTERING, "size-exponent", "calibration", "confidence-map")


@evaluate_app.command(epilog=options.names_listed(_OF_RELIABILITY, " with --reliability"))
def evaluate(
    context: typer.Context,
    kb: Annotated[
        str,
        typer.Argument(
            help="Knowledge base: JSON lines or a store. With --reliability: labelled fragments, "
            "or a table. - for standard input."
        ),
    ],
    gold: Annotated[
        str | None,
        typer.Argument(
            help="Labelled fragments, JSON lines, or a table; - for standard input. With --audit: "
            "the clustered fragments, if the knowledge base is a table.",
        ),
    ] = None,
    audit: Annotated[
        int | None,
        option(
            "--audit",
            "Ask about sampled pairs and entities instead of reading labels; end with this many "
            "answers.",
            min=1,
        ),
    ] = None,
    partial: Annotated[
        bool, option("--partial", "Evaluate only the fragments that both files have.")
    ] = False,
    reliability: Annotated[
        bool,
        option(
            "--reliability",
            "Cluster labelled fragments, and compare the reported probabilities with how "
            "often they are right.",
        ),
    ] = False,
    id_column: options.IdColumn = None,
    likelihood: options.Likelihood = None,
    alpha: options.Alpha = None,
    answers: Annotated[
        str | None,
        option(
            "--answers",
            "With --audit: file of answers; those that it already has count. With --reliability: "
            "as for kbforge cluster.",
            show_default=f"{_ANSWERS} with --audit",
        ),
    ] = None,
    shuffles: options.Shuffles = 1,
    limit: options.Limit = None,
    seed: options.Seed = 0,
    gpu: options.Gpu = False,
    settings: options.RunSettings = None,
    as_json: options.Json = False,
) -> None:
    """Score a knowledge base by gold labels or by asking you.

    Fragments are matched by id. Fragments without a label are left out and counted.

    --audit asks you: it estimates precision, recall and F1 of pairs and of entities with
    95 % intervals, from answers about a sample, for the output of any program: KB may be a table
    of two columns (fragment, entity). Questions and answers are those of kbforge review.

    --reliability clusters labelled fragments, without reading their labels, and bins the reported
    probabilities: for pairs above 1 %, of sharing an entity; for entities, of being exactly right.
    Options for clustering need --reliability. kbforge calibrate --confidence fits a map that
    corrects the probabilities. Averaging over --shuffles of the data needs no labels, but may not
    help.

    Examples:

        kbforge evaluate kb.jsonl gold.jsonl

        kbforge cluster f.jsonl -o - | kbforge evaluate - f.jsonl --json

        kbforge evaluate people.kb.jsonl people.csv --set source.label=person

        kbforge evaluate kb.jsonl --audit 60

        kbforge evaluate clusters.csv people.csv --audit 60

        kbforge evaluate labelled.jsonl --reliability

        kbforge evaluate test.jsonl --reliability --set confidence-map=map.toml
    """
    if reliability:
        if (named := options.first_given(context, (*_OF_A_KB, "audit"))) is not None:
            raise UsageError(f"--reliability clusters labelled fragments; leave out {named}")
        _measure(context, kb)
        return
    if audit is not None:
        others = [name for name in context.params if name not in _OF_AN_AUDIT]
        if (named := options.first_given(context, others)) is not None:
            raise UsageError(f"{named} does not go with --audit")
        _audit(context, kb, gold, audit)
        return
    others = [name for name in context.params if name not in (*_ALWAYS, *_OF_A_KB)]
    if (named := options.first_given(context, others)) is not None:
        raise UsageError(f"{named} requires --audit or --reliability")
    if gold is None:
        raise UsageError(
            "expected a knowledge base and its labelled fragments, --audit or --reliability"
        )
    _score(context, kb, gold)


def _score(context: typer.Context, kb: str, gold: str) -> None:
    from kbforge.evaluation.scores import score_entities
    from kbforge.jobs.views import entities_of

    parse_settings(context.params["settings"] or (), ["source"])  # others go with --reliability
    if kb == gold == "-":
        raise UsageError("only one of KB and GOLD can be standard input")
    labelled = options.read(context, gold)
    judgement = score_entities(entities_of(kb), labelled, partial=context.params["partial"])
    if context.params["as_json"]:
        console.print_json(judgement.to_json())
    else:
        console.stdout().print(_render_scores(judgement))


def _measure(context: typer.Context, fragments: str) -> None:
    from kbforge.fit.calibrate import measure_reliability

    given = context.params
    choices = options.choices_of(context, _OF_RELIABILITY)
    read = options.read_all(context, fragments)
    with _bar_of_orders("clustering to test", given["shuffles"]) as on_order:
        done = measure_reliability(read, choices, None, given["shuffles"], on_order)
    _print_reliability(done, given["as_json"])


@contextlib.contextmanager
def _bar_of_orders(description: str, shuffles: int) -> Iterator[OnOrder]:
    """A bar of the fragments of all orders, or of the orders if the method does not count
    fragments."""
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


def _print_reliability(done: ReliabilityReport, as_json: bool) -> None:
    """Print how often the reported probabilities are right."""
    from kbforge.evaluation.reliability import LEAST

    console.notes(done.notes)
    if as_json:
        console.print_json(done.summary())
        return
    screen, scores = console.stdout(), done.scores
    screen.print(
        f"{done.fragments:,} fragments in {scores.clusters:,} entities, gold has "
        f"{scores.gold_clusters:,}; mean F1 of the items {scores.bcubed_f1_item_mean:.4f}, "
        f"pairwise F1 {scores.pairwise_f1:.4f}"
    )
    if done.unlabelled:
        screen.print(f"without a label, so not evaluated: {done.unlabelled:,}")
    screen.print()
    title = f"pairs reported above {LEAST:.0%}"
    screen.print(_render_reliability(title, "truly together", *done.pairs))
    screen.print()
    screen.print(_render_reliability("entities", "exactly right", *done.entities))


def _render_scores(evaluation: Evaluation) -> RenderableType:
    """The scores by family, and then what was left out."""
    from rich.console import Group
    from rich.text import Text

    scores = evaluation.scores
    ratios = _table("", 32)
    for heading in ("precision", "recall", "F1"):
        ratios.add_column(heading, justify="right", min_width=9)
    ratios.add_row(
        "B-cubed, mean F1 of the items",
        *_digits(scores.bcubed_precision, scores.bcubed_recall, scores.bcubed_f1_item_mean),
    )
    ratios.add_row("B-cubed, harmonic F1", "", "", *_digits(scores.bcubed_f1_harmonic))
    ratios.add_row(
        "pairwise",
        *_digits(scores.pairwise_precision, scores.pairwise_recall, scores.pairwise_f1),
    )
    others = _table("", 32, show_header=False)
    others.add_row("Rand index", *_digits(scores.rand))
    others.add_row("Rand index, adjusted for chance", *_digits(scores.adjusted_rand))
    others.add_row("variation of information, nats", *_digits(scores.vi))
    others.add_row("variation of information / log n", *_digits(scores.normalised_vi))
    others.add_row("edit distance, operations", f"{scores.edit_distance:,}")
    others.add_row("edit score, 1 is perfect", *_digits(scores.normalised_edit_score))
    left_out = [Text(line) for line in _left_out(evaluation)]
    return Group(_headline(evaluation), Text(), ratios, Text(), others, *left_out)


def _table(heading: str, width: int, show_header: bool = True) -> Table:
    """An empty table with a first column of at least this width."""
    from rich.table import Table

    table = Table(
        box=None, pad_edge=False, padding=(0, 3, 0, 0), header_style="bold", show_header=show_header
    )
    table.add_column(heading, min_width=width)
    return table


def _headline(evaluation: Evaluation) -> Text:
    from rich.text import Text

    scores = evaluation.scores
    return Text.assemble(
        (f"{scores.items:,}", "bold"),
        f" fragment{'s' * (scores.items != 1)} in ",
        (f"{scores.clusters:,}", "bold"),
        f" cluster{'s' * (scores.clusters != 1)}, gold has ",
        (f"{scores.gold_clusters:,}", "bold"),
        "; exactly right: ",
        (f"{scores.exact_clusters:,}", "bold"),
    )


def _left_out(evaluation: Evaluation) -> Iterator[str]:
    for count, why in (
        (evaluation.unlabelled, "without a gold label"),
        (evaluation.only_in_kb, "only in the knowledge base"),
        (evaluation.only_in_gold, "only in the gold file"),
    ):
        if count:
            yield f"left out: {counted(count, 'fragment')} {why}"


def _digits(*values: float) -> Iterator[str]:
    return (f"{value:.4f}" for value in values)


def _audit(context: typer.Context, kb: str, gold: str | None, count: int) -> None:
    from kbforge.cli import review as asking
    from kbforge.files.answers import AnswerFile
    from kbforge.jobs.audit import open_audit

    given = context.params
    parse_settings(given["settings"] or (), ["source"])
    path = given["answers"] or _ANSWERS
    if "-" in (kb, gold):
        raise UsageError("standard input has the answers, so an audit needs files")
    asking.require_answer_file("--answers", path, [kb, gold or kb])
    fragments = None if gold is None else options.read_all(context, gold)
    with AnswerFile(path) as file:
        with console.working("looking for pairs"):
            review = open_audit(kb, fragments, file, count, given["seed"], given["partial"])
        by_line = given["as_json"] or asking.talks_to_program()
        with asking.kept_if_ended(file):
            ask = asking.by_lines if by_line else asking.at_terminal
            ask(review, asking.show_sampled, review.left)
        report = review.report()
    if by_line:
        console.print_json({"summary": report.to_json()})
    else:
        console.stdout().print(_render_audit(report))


def _render_audit(report: AuditReport) -> RenderableType:
    """The estimates with their intervals, and what they rest on."""
    from rich.console import Group
    from rich.text import Text

    table = _table("", 32)
    for heading in ("precision", "recall", "F1"):
        table.add_column(heading, justify="right")
    for name, scores in (("pairs", report.pairs), ("entities, exactly right", report.entities)):
        table.add_row(name, *(f"{s.value:.3f} ({s.low:.3f} to {s.high:.3f})" for s in scores))
    of_pairs, of_entities = report.about_pairs, counted(report.examined, "entity", "entities")
    rest = (
        f"95 % intervals, from {counted(of_pairs, 'answer')} about pairs and "
        f"{report.about_entities:,} about {of_entities}; unknown: {report.unknown:,}"
    )
    return Group(table, Text(), Text(rest))


def _render_reliability(
    title: str, truth: str, raw: Reliability, mapped: Reliability | None
) -> RenderableType:
    """One kind of claims: reported and true frequencies, and then the errors."""
    from rich.console import Group
    from rich.text import Text

    parts: list[RenderableType] = [Text(f"{title}: {raw.count:,}", style="bold")]
    if raw.count:
        parts.append(_reliability_table("reported", truth, raw))
        if mapped is not None:
            parts += [Text(), _reliability_table("calibrated", truth, mapped)]
    parts += [Text(), _errors(raw, mapped)]
    return Group(*parts)


def _reliability_table(report: str, truth: str, measured: Reliability) -> Table:
    table = _table(report, 16)
    for heading in ("claims", f"mean {report}", truth):
        table.add_column(heading, justify="right")
    for found in measured.table:
        table.add_row(
            f"{found.low:.3f} to {found.high:.3f}",
            f"{found.count:,}",
            f"{found.reported:.4f}",
            f"{found.share:.4f}",
        )
    return table


def _errors(raw: Reliability, mapped: Reliability | None) -> Table:
    table = _table("", 40)
    table.add_column("raw", justify="right")
    if mapped is not None:
        table.add_column("calibrated", justify="right")
    for name, key in ((f"expected calibration error, {raw.bins} bins", "ece"), ("Brier", "brier")):
        both = (raw,) if mapped is None else (raw, mapped)
        table.add_row(name, *(f"{getattr(measured, key):.4f}" for measured in both))
    return table


calibrate_app = typer.Typer(add_completion=False)

_KINDS = (*options.KINDS, "calibrator")
_OF_ALPHA = ("calibrator", "between")
_OF_CONFIDENCE = ("test_on", "alpha", "shuffles")
_OF_A_MAP = (*options.OF_CLUSTERING, "size-exponent", "calibration")


@calibrate_app.command(
    epilog=options.names_listed(_OF_A_MAP) + " calibration requires --confidence."
)
def calibrate(
    context: typer.Context,
    fragments: Annotated[
        str,
        typer.Argument(help="Labelled fragments, JSON lines, or a table; - for standard input."),
    ],
    output: Annotated[
        str,
        option(
            "--output",
            "-o",
            "Calibration file (TOML); - for standard output. With --confidence: a TOML file, "
            "a model folder, or the file that --set calibration names.",
        ),
    ],
    calibrator: Annotated[
        str,
        option("--calibrator", "pseudo-likelihood, bcubed or a plugin's."),
    ] = "pseudo-likelihood",
    confidence: Annotated[
        bool, option("--confidence", "Fit a confidence map instead of choosing alpha.")
    ] = False,
    test_on: Annotated[
        str | None,
        option(
            "--test-on",
            "With --confidence: labelled fragments of other entities, to test the map on.",
            show_default="half of the entities of FRAGMENTS",
        ),
    ] = None,
    id_column: options.IdColumn = None,
    likelihood: options.Likelihood = None,
    alpha: Annotated[
        float | None,
        option(
            "--alpha",
            "With --confidence: concentration to cluster with.",
            show_default="chosen to suit the file",
        ),
    ] = None,
    shuffles: options.Shuffles = 1,
    between: Annotated[
        str | None,
        option(
            "--between",
            "Smallest and largest alpha to try.",
            metavar="LOW,HIGH",
            show_default="4.5e-05,5.2e+21",
        ),
    ] = None,
    limit: options.Limit = None,
    seed: options.Seed = 0,
    gpu: options.Gpu = False,
    settings: options.RunSettings = None,
    as_json: options.Json = False,
) -> None:
    """Choose alpha, or fit a confidence map.

    Calibrate on labelled fragments that resemble future data, and never on the data used for
    evaluation.

    The concentration alpha controls how readily clustering opens a new entity. Calibrators of
    alpha:

    - pseudo-likelihood: how well alpha predicts each label from all others. It is fast and smooth.

    - bcubed: the B-cubed F1 of clustering with alpha. It clusters once per alpha that it tries.

    --confidence fits a map from the reported probabilities to how often they are right, by size of
    subproblem, and tests it on other entities. With this map, kbforge cluster gives every entity
    its calibrated confidence.

    Examples:

        kbforge calibrate labelled.jsonl -o calibration.toml

        kbforge cluster fragments.jsonl --set calibration=calibration.toml

        kbforge calibrate train.jsonl --confidence -o map.toml

        kbforge cluster fragments.jsonl --set confidence-map=map.toml
    """
    named = options.first_given(context, _OF_ALPHA if confidence else _OF_CONFIDENCE)
    if named is not None:
        raise UsageError(
            f"{named} is for choosing alpha, and --confidence fits a map; choose one"
            if confidence
            else f"{named} requires --confidence"
        )
    if confidence:
        _fit(context, fragments, output, as_json)
    else:
        _choose(context, fragments, output, as_json)


# --- alpha ----------------------------------------------------------------------------------------


def _choose(context: typer.Context, fragments: str, output: str, as_json: bool) -> None:
    from kbforge.files.io import require_apart
    from kbforge.fit.alpha import write_calibration
    from kbforge.fit.calibrate import calibrate, search_between, sparkline

    if as_json and output == "-":
        raise UsageError("--json and -o - both write to standard output; choose one")
    given = context.params
    choices = options.choices_of(context, options.OF_CLUSTERING, _KINDS)
    files = options.files_of(given["settings"], given["likelihood"])
    require_apart(output, [fragments, *files])
    search = search_between(given["between"])
    read = options.read_all(context, fragments)
    with _bar_of_evaluations(len(read)) as on_evaluation:
        c, curve, notes = calibrate(read, choices, given["calibrator"], search, on_evaluation)
    write_calibration(c, output)
    console.notes(notes)
    if as_json:
        told = ("alpha", "log_alpha", "objective", "value", "at_edge", "likelihood", "fragments")
        figures = {name: getattr(c, name) for name in told}
        console.print_json({**figures, "evaluations": len(curve), "curve": curve})
        return
    lowest, highest = curve[0][0], curve[-1][0]
    console.note(f"alpha      {c.alpha:.6g} (log alpha {c.log_alpha:.4f})")
    console.note(f"objective  {c.value:,.4f} ({c.objective}, {len(curve)} evaluations)")
    console.note(f"curve      {lowest:.1e} {sparkline(curve)} {highest:.1e}")
    if output != "-":
        console.note(f"wrote {output}")


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


# --- confidence -----------------------------------------------------------------------------------


def _fit(context: typer.Context, fragments: str, output: str, as_json: bool) -> None:
    from kbforge.files.io import require_apart
    from kbforge.fit.calibrate import (
        fit_confidence,
        halves,
        measure_reliability,
        require_disjoint,
        require_place,
        save_confidence,
    )

    given = context.params
    test_on = given["test_on"]
    if output == "-":
        raise UsageError("--output: expected a file or a model folder, got standard output")
    if test_on == fragments == "-":
        raise UsageError("only one of FRAGMENTS and --test-on can be standard input")
    # the file of --set calibration takes the map
    others = [one for one in given["settings"] or () if not one.startswith("calibration=")]
    require_apart(output, [fragments, test_on, *options.files_of(others)])
    require_place(output)
    shuffles = given["shuffles"]
    choices = options.choices_of(context, _OF_A_MAP, _KINDS)
    read = options.read_all(context, fragments)
    if test_on is not None:
        fitted, tested = read, options.read_all(context, test_on)
        require_disjoint(fitted, tested)
    else:
        fitted, tested = halves(read)
    with _bar_of_orders("clustering to fit", shuffles) as on_order:
        found = fit_confidence(fitted, choices, shuffles, on_order)
    with _bar_of_orders("clustering to test", shuffles) as on_order:
        done = measure_reliability(tested, choices, found, shuffles, on_order)
    place = save_confidence(found, output, choices.calibration)
    console.note(f"wrote {place}, fitted on {found.fragments:,} fragments")
    _print_reliability(done, as_json)

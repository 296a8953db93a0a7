"""Scores and reliability as tables for the terminal."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from kbforge.evaluation.reliability import Reliability
from kbforge.evaluation.scores import Evaluation


def render_scores(evaluation: Evaluation) -> RenderableType:
    """The scores by family, and below them what was left out."""
    scores = evaluation.scores
    ratios = _scores_table()
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
    others = _scores_table(show_header=False)
    others.add_row("Rand index", *_digits(scores.rand))
    others.add_row("Rand index, adjusted for chance", *_digits(scores.adjusted_rand))
    others.add_row("variation of information, nats", *_digits(scores.vi))
    others.add_row("variation of information / log n", *_digits(scores.normalised_vi))
    others.add_row("edit distance, operations", f"{scores.edit_distance:,}")
    others.add_row("edit score, 1 is perfect", *_digits(scores.normalised_edit_score))
    left_out = [Text(line) for line in _left_out(evaluation)]
    return Group(_headline(evaluation), Text(), ratios, Text(), others, *left_out)


def _scores_table(show_header: bool = True) -> Table:
    table = Table(
        box=None, pad_edge=False, padding=(0, 3, 0, 0), header_style="bold", show_header=show_header
    )
    table.add_column(min_width=32)
    return table


def _headline(evaluation: Evaluation) -> Text:
    scores = evaluation.scores
    return Text.assemble(
        (f"{scores.items:,}", "bold"),
        f" {_fragments(scores.items)} in ",
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
            yield f"left out: {count:,} {_fragments(count)} {why}"


def _fragments(count: int) -> str:
    return "fragment" if count == 1 else "fragments"


def _digits(*values: float) -> Iterator[str]:
    return (f"{value:.4f}" for value in values)


def render_reliability(
    title: str, truth: str, raw: Reliability, mapped: Reliability | None
) -> RenderableType:
    """One kind of claims: what was reported beside what was true, and the errors below."""
    parts: list[RenderableType] = [Text(f"{title}: {raw.count:,}", style="bold")]
    if raw.count:
        parts.append(_table("reported", truth, raw))
        if mapped is not None:
            parts += [Text(), _table("calibrated", truth, mapped)]
    parts += [Text(), _errors(raw, mapped)]
    return Group(*parts)


def _table(report: str, truth: str, measured: Reliability) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 3, 0, 0), header_style="bold")
    table.add_column(report, min_width=16)
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
    table = Table(box=None, pad_edge=False, padding=(0, 3, 0, 0), header_style="bold")
    table.add_column(min_width=40)
    table.add_column("raw", justify="right")
    if mapped is not None:
        table.add_column("calibrated", justify="right")
    for name, key in ((f"expected calibration error, {raw.bins} bins", "ece"), ("Brier", "brier")):
        both = (raw,) if mapped is None else (raw, mapped)
        table.add_row(name, *(f"{getattr(measured, key):.4f}" for measured in both))
    return table

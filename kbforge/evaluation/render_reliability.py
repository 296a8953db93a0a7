"""Reliability as tables for the terminal."""

from __future__ import annotations

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from kbforge.evaluation.reliability import Reliability


def render(title: str, truth: str, raw: Reliability, mapped: Reliability | None) -> RenderableType:
    """One kind of claims: what was reported beside what was true, and the errors below.

    Args:
        title: what the claims are.
        truth: heading of the share of true ones.
        raw: as reported.
        mapped: by the confidence map, None without one.

    """
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

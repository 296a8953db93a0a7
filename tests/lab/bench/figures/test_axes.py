"""What all figures share: where axes end, ties, gaps, empty figures, and the same bytes."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

from kbforge.pictures.canvas import save
from kbforge_lab.bench import figures
from kbforge_lab.bench.report import draw
from tests.lab.bench.figures.drawn import (
    PS,
    ROWS,
    TABLE,
    TRACE,
    axes_of,
    curves,
    laid_out_axes_of,
)
from tests.lab.bench.toys import GREEDY, SPLIT, plan, row, trace_row

if TYPE_CHECKING:
    pass


def test_bands_and_bars_end_where_nothing_can_be() -> None:
    way = [trace_row(SPLIT, s, n, subproblems=1 + 9 * s) for n in (10, 40) for s in range(2)]
    way = [replace(t, log10_effective_particles=t.shuffle / 9) for t in way]
    rows = [
        row(
            replace(SPLIT, particles=p),
            s,
            subproblems=1 + 9 * s,
            f1=s + 1e-9,
            log10_effective_particles=float(s),
        )
        for p in PS
        for s in range(2)
    ]
    figure = figures.subproblems_and_particles(rows, way, SPLIT, TABLE)
    axes_of(figure)
    assert figure is not None
    for axes, least in zip(figure.axes, (1, 0, 1, 0), strict=True):
        (shown, *_) = axes.collections
        assert min(path.vertices[:, 1].min() for path in shown.get_paths()) == least
    f1 = axes_of(figures.metric_by_particles(rows, TABLE))["B-cubed F1"]
    (bars,) = f1.containers[0].lines[2]
    assert [bar[:, 1].tolist() for bar in bars.get_segments()] == [[0, 1]] * len(PS)


@pytest.mark.parametrize("bit", [0.0, 1e-13])
def test_ties_are_one_height_with_whole_numbers_beside_it(bit: float) -> None:
    rows = [
        row(m, f1=0.22 + bit * k, log_posterior=-123456.5 - k / 10, precision=1.0, seconds=1.0 + k)
        for k, m in enumerate((*(replace(SPLIT, particles=p) for p in PS), GREEDY))
    ]
    rows += [replace(r, surrogate=True, max_evals=m) for m in (1, 10) for r in rows[:3]]
    trace = [trace_row(m, 0, n, f1=0.22 + bit * n) for m in (GREEDY, SPLIT) for n in (10, 40)]
    drawn = [
        figures.metric_by_runtime(rows, [], TABLE),
        figures.metric_by_particles(rows, TABLE),
        figures.surrogate_ablation(rows, TABLE),
        figures.metric_by_observations(trace, TABLE, "Split SMC"),
        figures.subproblems_and_particles(rows, trace, SPLIT, TABLE),
    ]
    for figure in drawn:
        for label, axes in laid_out_axes_of(figure).items():
            assert axes.yaxis.get_offset_text().get_text() == ""
            low, high = axes.get_ylim()
            assert high - low >= (0.01 if "B-cubed" in label else 1.0) - 1e-9


@pytest.mark.filterwarnings("error")
def test_groupings_that_are_impossible_leave_gaps() -> None:
    rows = [replace(r, log_posterior=-math.inf) if r.particles == 3 else r for r in ROWS]
    trace = [replace(t, log_posterior=-math.inf) if t.fragments == 10 else t for t in TRACE]
    trace += [
        replace(t, key="other", log_posterior=-math.inf) for t in TRACE if t.method == "Gibbs"
    ]
    by_p = laid_out_axes_of(figures.metric_by_particles(rows, TABLE))["log posterior (nats)"]
    assert curves(by_p)["SMC"][1] == [-math.inf, -100, -100]
    _, ahead = laid_out_axes_of(figures.metric_by_observations(trace, TABLE, "Split SMC")).values()
    assert np.isnan(curves(ahead)["SMC"][1]).tolist() == [True, False, False, False]
    for axes in (
        by_p,
        ahead,
        *laid_out_axes_of(figures.metric_by_runtime(rows, trace, TABLE)).values(),
    ):
        assert np.isfinite(axes.get_ylim()).all()


def test_without_rows_there_is_no_figure() -> None:
    assert figures.metric_by_runtime([], [], TABLE) is None
    assert figures.metric_by_particles([r for r in ROWS if r.particles == 10], TABLE) is None
    assert figures.metric_by_observations([], TABLE, "Split SMC") is None
    assert figures.subproblems_and_particles(ROWS, [], SPLIT, TABLE) is None
    assert figures.surrogate_ablation([r for r in ROWS if not r.surrogate], TABLE) is None


def test_runs_that_saw_a_part_are_drawn_only_as_far_as_they_got(tmp_path: Path) -> None:
    rows = [replace(r, fragments=30, cut=True) for r in ROWS]
    draw(plan(methods=TABLE), rows, TRACE, tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["toy-observations.png"]


def test_the_settings_of_the_program_stay_as_they_are() -> None:
    import matplotlib as mpl

    before = dict(mpl.rcParams)
    drawn = [
        figures.metric_by_runtime(ROWS, TRACE, TABLE),
        figures.metric_by_particles(ROWS, TABLE),
        figures.metric_by_observations(TRACE, TABLE, "Split SMC"),
        figures.subproblems_and_particles(ROWS, TRACE, SPLIT, TABLE),
        figures.surrogate_ablation(ROWS, TABLE),
    ]
    assert dict(mpl.rcParams) == before
    for figure in drawn:
        assert figure is not None
        assert not figure.axes[0].spines["top"].get_visible()


@pytest.mark.parametrize("kind", ["png", "svg"])
def test_same_rows_same_bytes(tmp_path: Path, kind: str) -> None:
    written = []
    for name in ("one", "two"):
        figure = figures.metric_by_particles(ROWS, TABLE)
        assert figure is not None
        save(figure, str(tmp_path / f"{name}.{kind}"))
        written.append((tmp_path / f"{name}.{kind}").read_bytes())
    assert written[0] == written[1]

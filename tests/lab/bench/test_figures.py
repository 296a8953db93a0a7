"""The figures of a bench: what all share, then each of them."""

import math
from dataclasses import replace

import numpy as np
import pytest

from kbforge_lab.bench import figures
from kbforge_lab.bench.figures import costs_by_size, log_posterior_by_seconds
from kbforge_lab.bench.report import draw
from kbforge_lab.bench.results import Row
from kbforge_lab.suites import data
from kbforge_lab.suites.circles import CirclesSuite
from kbforge_lab.suites.gauss import Gauss
from kbforge_lab.suites.plan import Method
from tests.lab.bench.drawn import (
    GIBBS,
    LABELS,
    MS,
    PS,
    ROWS,
    SMC,
    TABLE,
    TRACE,
    UNEVEN,
    axes_of,
    colours_of,
    curves,
    laid_out_axes_of,
    note,
)
from tests.lab.bench.toys import GREEDY, SPLIT, plan, row, trace_row


def test_bars_end_where_nothing_can_be():
    rows = [row(replace(SPLIT, particles=p), s, f1=s + 1e-9) for p in PS for s in range(2)]
    f1 = axes_of(figures.metric_by_particles(rows, TABLE))["B-cubed F1"]
    (bars,) = f1.containers[0].lines[2]
    assert [bar[:, 1].tolist() for bar in bars.get_segments()] == [[0, 1]] * len(PS)


@pytest.mark.parametrize("bit", [0.0, 1e-13])
def test_ties_are_one_height_with_whole_numbers_beside_it(bit):
    rows = [
        row(m, f1=0.22 + bit * k, log_posterior=-123456.5 - k / 10, precision=1.0, seconds=1.0 + k)
        for k, m in enumerate((*(replace(SPLIT, particles=p) for p in PS), GREEDY))
    ]
    rows += [replace(r, surrogate=True, max_evals=m) for m in (1, 10) for r in rows[:3]]
    trace = [trace_row(m, 0, n, f1=0.22 + bit * n) for m in (GREEDY, SPLIT) for n in (10, 40)]
    drawn = [
        figures.metric_by_particles(rows, TABLE),
        figures.surrogate_ablation(rows, TABLE),
        figures.metric_by_observations(trace, TABLE, "Split SMC"),
    ]
    for figure in drawn:
        for label, axes in laid_out_axes_of(figure).items():
            assert axes.yaxis.get_offset_text().get_text() == ""
            low, high = axes.get_ylim()
            assert high - low >= (0.01 if "B-cubed" in label else 1.0) - 1e-9


@pytest.mark.filterwarnings("error")
def test_groupings_that_are_impossible_leave_gaps():
    rows = [replace(r, log_posterior=-math.inf) if r.particles == 3 else r for r in ROWS]
    trace = [replace(t, log_posterior=-math.inf) if t.fragments == 10 else t for t in TRACE]
    by_p = laid_out_axes_of(figures.metric_by_particles(rows, TABLE))["log posterior (nats)"]
    assert curves(by_p)["SMC"][1] == [-math.inf, -100, -100]
    _, ahead = laid_out_axes_of(figures.metric_by_observations(trace, TABLE, "Split SMC")).values()
    assert np.isnan(curves(ahead)["SMC"][1]).tolist() == [True, False, False, False]
    for axes in (by_p, ahead):
        assert np.isfinite(axes.get_ylim()).all()


def test_without_rows_there_is_no_figure():
    assert figures.metric_by_particles([r for r in ROWS if r.particles == 10], TABLE) is None
    assert figures.metric_by_observations([], TABLE, "Split SMC") is None
    assert figures.surrogate_ablation([r for r in ROWS if not r.surrogate], TABLE) is None
    assert costs_by_size({"none": []}) is None
    assert log_posterior_by_seconds([row(GREEDY)], TABLE) is None


def test_runs_that_saw_a_part_are_drawn_only_as_far_as_they_got(tmp_path):
    rows = [replace(r, fragments=30, cut=True) for r in ROWS]
    draw(plan(methods=TABLE), rows, TRACE, tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["toy-observations.png"]


def test_the_settings_of_the_program_stay_as_they_are():
    import matplotlib as mpl

    before = dict(mpl.rcParams)
    drawn = [
        figures.metric_by_particles(ROWS, TABLE),
        figures.metric_by_observations(TRACE, TABLE, "Split SMC"),
        figures.surrogate_ablation(ROWS, TABLE),
    ]
    assert dict(mpl.rcParams) == before
    for figure in drawn:
        assert not figure.axes[0].spines["top"].get_visible()


# A method has one colour, whatever else is drawn.


def test_a_method_has_its_colour_whoever_else_has_run():
    rows, trace = ([r for r in held if r.method == "Split SMC"] for held in (ROWS, TRACE))
    drawn = [
        figures.metric_by_particles(rows, TABLE),
        figures.metric_by_observations(trace, TABLE, "Split SMC"),
        figures.surrogate_ablation([r for r in rows if r.shuffle < 2], TABLE),
        figures.metric_by_particles(ROWS, TABLE),
    ]
    shown = [next(iter(axes_of(figure).values())) for figure in drawn]
    assert len({colours_of(axes)["Split SMC"] for axes in shown}) == 1


def test_a_method_has_its_colour_in_every_suite():
    online = (data.GREEDY, data.smc(100), data.split_smc(100))
    tables = [
        Gauss().plan().methods,
        CirclesSuite().plan().methods,
        CirclesSuite().plan(quick=True).methods,
        (*online, *data.offline()),
        *([method] for method in data.offline()),
    ]
    seen: dict[str, set[str]] = {}
    for table in tables:
        colours = figures.colours_of(table)
        assert len(set(colours.values())) == len(colours) == len(table)
        for name, colour in colours.items():
            seen.setdefault(name, set()).add(colour)
    assert {len(colours) for colours in seen.values()} == {1}
    assert len({colour for colours in seen.values() for colour in colours}) == len(seen) == 7


def test_a_method_of_a_stranger_takes_no_colour_of_the_table():
    strangers = [Method(name, "greedy") for name in ("A", "B", "Z")]
    table = (GREEDY, *strangers, SPLIT, *data.offline())
    shown = figures.colours_of(table)
    known = {shown[m.name] for m in table if m not in strangers}
    assert len(known) == 6
    assert len({shown[m.name] for m in strangers} - known) == 3
    assert figures.colours_of((SPLIT,))["Split SMC"] == shown["Split SMC"]


# Metrics by fragments seen: online methods alone, against the reference.


def test_metric_by_observations_leaves_out_who_sees_all_at_once():
    found = axes_of(figures.metric_by_observations(TRACE, TABLE, "Split SMC"))
    f1, ahead = found.values()
    assert set(curves(f1)) == {"Greedy", "SMC", "Split SMC"}
    assert curves(f1)["SMC"] == ([10, 20, 30, 40], pytest.approx([0.9, 0.8, 0.7, 0.6]))
    assert curves(ahead)["Greedy"][1] == pytest.approx([20, 40, 60, 80])
    assert curves(ahead)["Split SMC"][1] == pytest.approx([0, 0, 0, 0])
    assert f1.get_xlabel() == "fragments seen"


def test_how_far_a_method_is_ahead_is_told_order_by_order():
    """However far the orders are from each other, the difference may be sure."""
    trace = [
        trace_row(m, s, n, log_posterior=-100.0 * s - lag, f1=1.0 - s / 10)
        for m, lag in ((GREEDY, 3.0), (SPLIT, 0.0))
        for s in (range(3) if m is SPLIT else (0, 2))
        for n in (10, 40)
    ]
    found = axes_of(figures.metric_by_observations(trace, TABLE, "Split SMC"))
    f1, ahead = found.values()
    assert curves(ahead) == {"Greedy": ([10, 40], [-3, -3]), "Split SMC": ([10, 40], [0, 0])}
    for band, at in zip(ahead.collections, (-3, 0), strict=True):
        assert band.get_paths()[0].vertices[:, 1].tolist() == pytest.approx([at] * 7)
    # one standard deviation above is more than 1
    assert max(band.get_paths()[0].vertices[:, 1].max() for band in f1.collections) == 1


def test_metric_by_observations_ends_where_the_first_run_ends():
    """Further on the mean would be of other orders."""
    trace = [trace_row(SPLIT, 0, n, f1=0.9) for n in (10, 20, 30, 40)]
    trace += [trace_row(SPLIT, 1, n, f1=0.3) for n in (10, 20)]
    found = axes_of(figures.metric_by_observations(trace, TABLE, "Split SMC"))
    (line,) = next(iter(found.values())).lines
    assert [*np.asarray(line.get_xdata())] == [10, 20]
    assert [*np.asarray(line.get_ydata())] == pytest.approx([0.6, 0.6])


def test_metric_by_observations_without_the_reference_takes_another():
    own = [t for t in TRACE if t.method != "Split SMC"]
    _, ahead = axes_of(figures.metric_by_observations(own, TABLE, "Split SMC")).values()
    assert "less that of Greedy" in ahead.get_ylabel()
    assert curves(ahead)["SMC"][1] == pytest.approx([-10, -20, -30, -40])


# Metrics by particles: a curve a method, on the orders that all its points have.


def test_metric_by_particles():
    found = axes_of(figures.metric_by_particles(ROWS, TABLE))
    assert list(found) == LABELS
    shown = curves(found["B-cubed F1"])
    assert set(shown) == {"SMC", "Split SMC"}
    xs, ys = shown["Split SMC"]
    assert xs == pytest.approx(PS, rel=0.03)
    # the other method's bars stand beside these
    assert all(x < other for x, other in zip(shown["SMC"][0], xs, strict=True))
    assert ys == pytest.approx([0.61 + p / 100 for p in PS])
    assert found["B-cubed recall"].get_xlabel() == "particles P"
    assert found["B-cubed F1"].get_xscale() == "log"


def test_a_curve_is_of_the_orders_that_all_its_points_have():
    on_one = ([3, 10, 30], pytest.approx([0.13, 0.2, 0.4]))
    found = axes_of(figures.metric_by_particles(UNEVEN, TABLE))["B-cubed F1"]
    assert curves(found) == {"Split SMC (1 of 3 orders)": on_one}


def test_points_that_share_no_order_are_drawn_and_said_to_differ():
    rows = [row(replace(SPLIT, particles=p), s, f1=0.5 + s / 10) for s, p in enumerate(PS)]
    found = axes_of(figures.metric_by_particles(rows, TABLE))["B-cubed F1"]
    assert curves(found) == {
        "Split SMC (different orders)": (list(PS), pytest.approx([0.5, 0.6, 0.7]))
    }


# Costs by size: every curve, in order, on logarithmic axes.


def test_every_program_has_its_curves_in_order_of_size():
    points = {"one": [(100, 2.0, 80.0), (10, 1.0, 60.0)], "none": [], "other": [(10, 5.0, 7.0)]}
    figure = costs_by_size(points)
    for axes, ys in zip(figure.axes, ([1.0, 2.0], [60.0, 80.0]), strict=True):
        assert [line.get_label() for line in axes.lines] == ["one", "other"]
        assert np.asarray(axes.lines[0].get_xdata()).tolist() == [10, 100]
        assert np.asarray(axes.lines[0].get_ydata()).tolist() == ys
        assert (axes.get_xscale(), axes.get_yscale()) == ("log", "log")


# Metrics by M, from the surrogate alone to no surrogate at all.


def test_surrogate_ablation_ends_with_no_surrogate_at_all():
    found = axes_of(figures.surrogate_ablation(ROWS, TABLE))
    axes = found["B-cubed F1"]
    xs, ys = curves(axes)["Split SMC (2 of 3 orders)"]
    assert xs[:2] == [1, 10]
    # without a surrogate there is a third order, which the others lack
    assert ys == pytest.approx([0.41, 0.5, 0.705])
    ticks = found["B-cubed recall"].get_xticklabels()
    assert [text.get_text() for text in ticks] == ["1", "10", "all"]
    (alone,) = [line for line in axes.lines if line.get_linestyle() == "--"]
    assert np.asarray(alone.get_ydata())[0] == pytest.approx(0.4)
    assert note(axes) == "dashed: clustered by the surrogate alone; all: without a surrogate"
    without = figures.surrogate_ablation([r for r in ROWS if r.max_evals != 0], TABLE)
    assert note(axes_of(without)["B-cubed F1"]) == "all: without a surrogate"
    bare = figures.surrogate_ablation([r for r in ROWS if r.max_evals], TABLE)
    assert note(axes_of(bare)["B-cubed F1"]) == ""


def test_the_ablation_says_at_which_p_it_is(tmp_path):
    def label(rows: list[Row]) -> str:
        return axes_of(figures.surrogate_ablation(rows, TABLE))["B-cubed recall"].get_xlabel()

    greedy = [row(replace(GREEDY, surrogate=True, max_evals=m)) for m in MS]
    other = [row(replace(SMC, particles=30, surrogate=True, max_evals=m)) for m in MS]
    assert label(ROWS + greedy) == "joins that the surrogate proposes a step, M (P = 10)"
    assert label(ROWS + other).endswith("M (P = 10, 30)")
    assert label(greedy).endswith("a step, M")
    captions = {p.figure: p.caption for p in draw(plan(methods=TABLE), ROWS, [], tmp_path)}
    assert captions["surrogate"].endswith(
        "the joins that the surrogate proposes a step, at P = 10."
    )
    assert captions["particles"] == "Metrics against the number of particles P."
    (picture,) = (
        p for p in draw(plan(methods=TABLE), greedy, [], tmp_path) if p.figure == "surrogate"
    )
    assert picture.caption.endswith("the joins that the surrogate proposes a step.")


def test_the_surrogate_alone_is_of_the_same_orders():
    settings = [(True, 0, range(1, 3)), (True, 1, range(3)), (False, None, range(2))]
    rows = [
        row(replace(SPLIT, surrogate=surrogate, max_evals=m), s, f1=0.3 + s / 10)
        for surrogate, m, orders in settings
        for s in orders
    ]
    axes = axes_of(figures.surrogate_ablation(rows, TABLE))["B-cubed F1"]
    assert curves(axes)["Split SMC (1 of 3 orders)"][1] == pytest.approx([0.4, 0.4])
    (alone,) = [line for line in axes.lines if line.get_linestyle() == "--"]
    assert np.asarray(alone.get_ydata())[0] == pytest.approx(0.4)


def test_where_a_surrogate_always_proposes_its_rows_are_the_curves():
    """The table asks for a surrogate, M = P; the ablation has another P."""
    table = tuple(replace(m, surrogate=True) for m in (SMC, SPLIT))
    rows = [
        *(row(replace(m, particles=p), f1=p / 100) for m in table for p in PS),
        *(row(replace(table[1], max_evals=m), f1=0.4 + m / 100) for m in (0, 1)),
        *(row(replace(SPLIT, particles=p), f1=0.9) for p in PS),
    ]
    assert curves(axes_of(figures.metric_by_particles(rows, table))["B-cubed F1"]) == {
        name: (pytest.approx(PS, rel=0.03), [p / 100 for p in PS]) for name in ("SMC", "Split SMC")
    }
    ablation = axes_of(figures.surrogate_ablation(rows, TABLE))["B-cubed F1"]
    # M = 1, M = P = 10, and without a surrogate
    assert curves(ablation)["Split SMC"] == ([1, 10, 40], pytest.approx([0.41, 0.1, 0.9]))
    drawn = axes_of(figures.surrogate_ablation([r for r in rows if r.surrogate], TABLE))
    assert curves(drawn["B-cubed F1"])["Split SMC"] == ([1, 10], pytest.approx([0.41, 0.1]))


# The figure of a race.


def test_a_line_goes_along_the_marks_to_where_the_run_ended():
    runs = [
        replace(row(GIBBS, s, log_posterior=-5.0, cpu_seconds=8.0), way="[[0.0,-20.0],[2.0,-9.0]]")
        for s in range(2)
    ]
    figure = log_posterior_by_seconds([row(GREEDY), *runs], TABLE)
    (axes,) = figure.axes
    assert len(axes.lines) == 2
    for line in axes.lines:
        assert line.get_xdata().tolist() == [0.01, 2.0, 8.0]
        assert line.get_ydata().tolist() == [-20.0, -9.0, -5.0]
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["Gibbs"]

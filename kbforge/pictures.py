"""Pictures with matplotlib (an extra): one style, and trees of merges.

Figures are made without pyplot, so no window system is needed, and without dates: same data, same
bytes. Make and write them within `look`, which restores the program's settings.
"""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from kbforge.contracts import FloatArray
from kbforge.errors import UsageError, quoted
from kbforge.files.io import open_output
from kbforge.registry import install_command

if TYPE_CHECKING:
    from matplotlib.figure import Figure


INK = "#333333"
FAINT = "#bbbbbb"
FORMATS = ("png", "svg")
DOTS_PER_INCH = 130

# Paul Tol's "bright" scheme and three more: told apart by most eyes, also in print
PALETTE = (
    *("#4477aa", "#ee6677", "#228833", "#ccbb44", "#66ccee", "#aa3377"),
    *("#dd8833", "#332288", "#7a5230"),
)

_STYLE = {
    "axes.edgecolor": FAINT,
    "axes.labelcolor": INK,
    "axes.titlecolor": INK,
    "axes.titlesize": 10,
    "axes.labelsize": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "#eeeeee",
    "axes.axisbelow": True,
    "text.color": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "xtick.labelsize": 8,
    "ytick.labelsize": 8,
    "legend.fontsize": 8,
    "legend.frameon": False,
    "font.size": 9,
    "figure.facecolor": "white",
    # element ids of an SVG depend on this and not on the time
    "svg.hashsalt": "kbforge",
}


def require_matplotlib(instead: str = "") -> None:
    """Check early that pictures can be drawn; the UsageError names the extra, and `instead`."""
    try:
        import matplotlib  # noqa: F401
    except ImportError as error:
        raise UsageError(
            f"pictures need matplotlib, which is not installed: {install_command('bench')}{instead}"
        ) from error


@contextlib.contextmanager
def look() -> Iterator[None]:
    """Apply the common style within the block; also a decorator."""
    require_matplotlib()
    import matplotlib as mpl

    parameters: Any = _STYLE
    with mpl.rc_context(parameters):
        yield


def new_figure(
    width: float, height: float, layout: Literal["constrained"] | None = "constrained"
) -> Figure:
    """An empty figure of this size in inches, to be drawn within `look`."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), dpi=DOTS_PER_INCH, layout=layout)
    FigureCanvasAgg(figure)
    return figure


def require_format(path: str) -> None:
    """Refuse a name whose suffix is neither .png nor .svg."""
    if Path(path).suffix.lower().removeprefix(".") not in FORMATS:
        raise UsageError(f'"{quoted(path, 400)}": expected a name that ends in .png or .svg')


@look()
def save(figure: Figure, path: str) -> None:
    """Write a figure as PNG or SVG, depending on its name."""
    require_format(path)
    kind = Path(path).suffix.lower().removeprefix(".")
    # no date, so that the same data give the same bytes
    metadata: dict[str, Any] = {"Date": None} if kind == "svg" else {"Software": None}
    with open_output(path) as out:
        figure.savefig(out, format=kind, metadata=metadata)


MOST_LEAVES = 200
"""The maximum number of fragments that a tree can label."""

_LINE, _WIDTH = 0.19, 7.0  # inches
_LONGEST = 72  # characters of a name


@look()
def draw_tree(
    names: Sequence[str], entities: Sequence[str], together: FloatArray, kind: str
) -> Figure:
    """A dendrogram; branches meet at the probability that they are one entity.

    Names and entities (a colour each) are of n fragments; `together` is the posterior similarity,
    [n, n]; `kind` the linkage: the distance of two clusters is the smallest,
    the largest or the mean of their fragments' 1 - p ("single", "complete", "average").
    """
    import numpy as np
    from scipy.cluster.hierarchy import dendrogram, linkage
    from scipy.spatial.distance import squareform

    from kbforge.kb.similarity import DIGITS

    n = len(names)
    if not 2 <= n <= MOST_LEAVES:
        raise UsageError(
            f"a tree shows the fragments of a subproblem: expected 2 to {MOST_LEAVES} of them, "
            f"got {n}"
        )
    colour = {e: PALETTE[k % len(PALETTE)] for k, e in enumerate(dict.fromkeys(entities))}
    apart = np.round(1 - np.minimum(together, together.T), DIGITS)
    np.fill_diagonal(apart, 0.0)
    figure = new_figure(_WIDTH, 0.9 + _LINE * n)
    axes = figure.add_subplot()
    with warnings.catch_warnings(action="ignore"):  # of limits, which are set below
        drawn = dendrogram(
            linkage(squareform(apart, checks=False), kind),
            orientation="left",
            labels=[quoted(name, _LONGEST) for name in names],
            color_threshold=0.0,
            above_threshold_color=INK,
            leaf_font_size=8,
            ax=axes,
        )
    for label, leaf in zip(axes.get_yticklabels(), drawn["leaves"], strict=True):
        label.set_color(colour[entities[leaf]])
    ticks = np.linspace(0, 1, 6)
    axes.set_xticks(ticks, [f"{100 * (1 - tick):.0f} %" for tick in ticks])
    axes.set_xlim(1.02, -0.02)
    axes.set_xlabel(f"probability of being one entity ({kind} of pairs); one colour per entity")
    axes.grid(axis="y", visible=False)
    axes.spines["left"].set_color(FAINT)
    return figure

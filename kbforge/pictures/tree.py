"""The tree of a subproblem: which fragments are likeliest one entity, and how likely."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from scipy.cluster.hierarchy import dendrogram

from kbforge.contracts import FloatArray
from kbforge.errors import UsageError, quoted
from kbforge.kb.consensus import tree_of
from kbforge.pictures.canvas import FAINT, INK, PALETTE, look, new_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MOST = 200
"""Fragments that a picture can name."""

_LINE, _WIDTH = 0.19, 7.0  # inches
_LONGEST = 72  # characters of a name


@look()
def draw_tree(
    names: Sequence[str], entities: Sequence[str], together: FloatArray, kind: str
) -> Figure:
    """A dendrogram; where two branches meet, so probable is it that they are one entity.

    Args:
        names: what to call the fragments, n of them.
        entities: that each is in; a colour for each.
        together: the posterior similarity, shape [n, n].
        kind: the linkage, as `kbforge.kb.consensus.tree_of` has it.

    Raises:
        UsageError: fewer than two fragments, or more than a picture can name.

    """
    n = len(names)
    if not 2 <= n <= MOST:
        raise UsageError(
            f"a tree shows the fragments of a subproblem: expected 2 to {MOST} of them, got {n}"
        )
    colour = {e: PALETTE[k % len(PALETTE)] for k, e in enumerate(dict.fromkeys(entities))}
    figure = new_figure(_WIDTH, 0.9 + _LINE * n)
    axes = figure.add_subplot()
    with warnings.catch_warnings(action="ignore"):  # of limits, which are set below
        drawn = dendrogram(
            tree_of(together, kind),
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
    axes.set_xlabel(f"probability of being one entity ({kind} of pairs); a colour an entity")
    axes.grid(axis="y", visible=False)
    axes.spines["left"].set_color(FAINT)
    return figure

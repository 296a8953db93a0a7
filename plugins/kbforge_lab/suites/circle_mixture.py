"""The circles of the split-SMC paper (section 4.1, appendix D.2): some of them overlap.

15 centres are uniform in [-5, 5]^2. Each circle has a radius of .6 and from 10 to 29 points on its
rim, every number as likely. That is 292 points on average, and 306 in the paper's draw. The ranges
are those of the published code.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from kbforge.contracts.fragment import Fragment
from kbforge.contracts.likelihood import FloatArray
from kbforge.errors import UsageError
from kbforge_lab.suites.circle import Circles

CIRCLES = 15
SIZES = (10, 29)  # both included
SHAPE = Circles(radius=0.6, reach=5.0)


def draw_clusters(circles: int, rng: np.random.Generator) -> list[FloatArray]:
    """The points of each circle, shape [n, 2] each.

    Raises:
        UsageError: no circle at all.

    """
    if circles < 1:
        raise UsageError(f"circles: expected at least 1 circle, got {circles}")
    sizes = rng.integers(SIZES[0], SIZES[1] + 1, size=circles)
    centres = SHAPE.centres(circles, rng)
    return [SHAPE.points(centres[k : k + 1], int(n), rng)[0] for k, n in enumerate(sizes)]


def fragments_of(clusters: Sequence[FloatArray], rng: np.random.Generator) -> list[Fragment]:
    """The points as labelled fragments in random order, `point-0` first."""
    labelled = [(tuple(x), k) for k, points in enumerate(clusters) for x in points.tolist()]
    return [
        Fragment(f"point-{i}", {}, vector=labelled[j][0], label=f"circle-{labelled[j][1]}")
        for i, j in enumerate(rng.permutation(len(labelled)).tolist())
    ]

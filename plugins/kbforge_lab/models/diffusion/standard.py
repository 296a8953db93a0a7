"""Points in the coordinates that a diffusion model was trained in."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kbforge.contracts import FloatArray


@dataclass(frozen=True, slots=True)
class Standard:
    """Data coordinates to those of the model and back: x = centre + scale * standardised."""

    centre: tuple[float, float]
    scale: float

    def __call__(self, points: FloatArray) -> FloatArray:
        """Standardised points, [..., 2] -> [..., 2]."""
        return np.asarray((points - np.array(self.centre)) / self.scale)

"""Writes docs/online-clustering.gif, the animation in the README: 300 points, one after another.

python docs/generate_animation.py
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

from kbforge.files.fragments import write_fragments
from kbforge_lab.suites.gauss import GaussianMixture

TARGET = Path(__file__).parent / "online-clustering.gif"
# some of its clusters touch, so that blocks merge and split as points arrive
MIXTURE = GaussianMixture(
    points=300, atoms=30, alpha=14.0, groups=8, a=6.0, b=6.0, lam=0.006, spread=3.2
)
SEED = 11
MODEL = ("--alpha", "5", *(f"--set=likelihood.{o}" for o in ("a=6", "b=6", "lam=0.008")))


def main() -> None:
    """Draw the points, cluster them, keep the film."""
    with tempfile.TemporaryDirectory() as folder:
        points = Path(folder) / "points.jsonl"
        write_fragments(MIXTURE.draw(np.random.default_rng(SEED)).fragments(), points)
        command = [sys.executable, "-m", "kbforge.cli.main", "lab", "plot", str(points), *MODEL]
        subprocess.run([*command, "--animate", str(TARGET)], check=True)


if __name__ == "__main__":
    main()

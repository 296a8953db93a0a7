"""Decision trees by the compiled kernel and by NumPy: the same sums, to the last bit."""

from __future__ import annotations

from importlib.resources import files

import numpy as np
import pytest

from kbforge.kernel.build import SWITCH
from kbforge.kernel.library import kernel_library, kernel_status
from kbforge.models.trees import Trees, read_trees


def shipped() -> Trees:
    path = files("kbforge_plugins").joinpath("bundles", "default", "pairs.safetensors")
    return read_trees(path.read_bytes(), "the shipped trees")


@pytest.mark.skipif(kernel_library() is None, reason=kernel_status())
@pytest.mark.parametrize("rows", [0, 1, 255, 600])
def test_the_kernel_adds_up_as_numpy_does(rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    trees = shipped()
    rng = np.random.default_rng(rows)
    values = rng.normal(size=(rows, len(trees.features))) * 2
    values[rng.random(values.shape) < 0.1] = np.nan
    values[rng.random(values.shape) < 0.2] = rng.choice(trees.threshold)  # as large as a threshold
    compiled = trees.predict(values)
    monkeypatch.setenv(SWITCH, "0")
    assert compiled.tolist() == trees.predict(values).tolist()

"""A GPU that is asked for and not there."""

from __future__ import annotations

import pytest
import torch

from kbforge.errors import UsageError
from kbforge.models.devices import require_device


def test_a_cpu_is_always_there() -> None:
    require_device("cpu")


@pytest.mark.parametrize("there", [True, False])
def test_a_gpu_is_looked_for(monkeypatch: pytest.MonkeyPatch, there: bool) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: there)
    if there:
        require_device("cuda")
        return
    with pytest.raises(UsageError, match=r"no usable GPU: PyTorch .* --gpu"):
        require_device("cuda")

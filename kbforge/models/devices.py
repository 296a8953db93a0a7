"""Devices for neural networks, by name; a missing device is an error."""

from __future__ import annotations

from kbforge.errors import UsageError


def require_device(device: str) -> None:
    """Find out before long work that a device is not there.

    Args:
        device: "cpu" or "cuda".

    Raises:
        UsageError: no usable GPU; never a silent run on the CPU.

    """
    if device == "cpu":
        return
    import torch  # heavy; only a run that asks for a GPU pays for it

    if not torch.cuda.is_available():
        raise UsageError(
            f"no usable GPU: PyTorch {torch.__version__} finds no CUDA "
            "device (leave out --gpu to run on the CPU)"
        )

"""What options mean where several verbs have them."""

from __future__ import annotations

from kbforge.errors import UsageError


def device_of(gpu: bool, device: str | None) -> str:
    """The device that `--gpu` and `--device` name together.

    Raises:
        UsageError: they contradict each other.

    """
    if gpu and device == "cpu":
        raise UsageError("--gpu and --device cpu contradict each other")
    return "cuda" if gpu else device or "cpu"

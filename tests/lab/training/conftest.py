"""Fixtures of the laboratory's training."""

from __future__ import annotations

from tests.lm.training.conftest import one_thread

__all__ = ["one_thread"]

"""Fixtures of the laboratory's training."""

from tests.lm.training.conftest import one_thread

__all__ = ["one_thread"]

"""Contracts get their plugins as those of the core do."""

from tests.contracts.conftest import plugin, pytest_generate_tests

__all__ = ["plugin", "pytest_generate_tests"]

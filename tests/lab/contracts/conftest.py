"""A contract's tests run for each of its class's `plugins`, as the product's do."""

from tests.contracts.conftest import plugin, pytest_generate_tests

__all__ = ["plugin", "pytest_generate_tests"]

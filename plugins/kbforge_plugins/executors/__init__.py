"""Executors: where workers live."""

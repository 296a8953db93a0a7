"""Suites: what `kbforge lab bench` compares."""

"""Suites: what `kbforge bench` compares."""

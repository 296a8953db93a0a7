"""Plugins of packages beside the core, as far as these are installed."""

from kbforge import registry

BIGRAM = ["bigram"] if "bigram" in registry.names("likelihoods") else []
"""The name of the n-gram likelihood, or nothing."""

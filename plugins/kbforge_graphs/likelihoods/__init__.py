"""Likelihoods of graphs of mentions."""

"""Trains language models of sets of fragments."""

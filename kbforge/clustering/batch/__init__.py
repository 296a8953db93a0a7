"""Clusterers that go over all fragments again and again: Markov chains and merges."""

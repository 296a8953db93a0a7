"""Sharding: one clustering on several workers, each of which owns some of the subproblems."""

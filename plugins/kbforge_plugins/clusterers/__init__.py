"""Clusterers: compute a posterior over groupings of fragments."""

"""Clusterers: fragments in, a posterior over groupings out."""

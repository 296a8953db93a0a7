"""Gaussian clusters: their prior, and the live clusters of a run."""

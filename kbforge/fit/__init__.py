"""Chooses likelihood, alpha and confidence map for a file, and says why."""

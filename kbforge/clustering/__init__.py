"""Clustering: fragments one after another (`run`, `step`), or all at once (`offline`)."""

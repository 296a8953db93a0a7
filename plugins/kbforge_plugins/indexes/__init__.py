"""Candidate indexes: which clusters are worth comparing a fragment with."""

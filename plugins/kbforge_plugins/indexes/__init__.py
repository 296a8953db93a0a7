"""Candidate indexes: choose the clusters that a fragment is compared with."""

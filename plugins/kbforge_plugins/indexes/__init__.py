"""Candidate indexes: the clusters that a fragment is compared with."""

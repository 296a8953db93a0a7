"""Clustering: fragments one after another, by sessions that revise what they found."""

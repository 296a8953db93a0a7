"""Supervised clustering of fragments: vectors from features, and what a model of them keeps.

`comparing` says which features compare which attributes; `columns` makes vectors of their
distances; `scaling` learns from labelled vectors how much an entity scatters; `linking` gives
chains a place to start; `scatter` is the likelihood of one scatter for all; `trained` is a model
and its files.
"""

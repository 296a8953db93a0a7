"""Likelihoods of the texts of names and of whole fragments."""

"""Likelihoods: the probability that fragments describe one entity."""

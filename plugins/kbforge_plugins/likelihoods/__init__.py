"""Likelihoods: how probable it is that fragments describe one entity."""

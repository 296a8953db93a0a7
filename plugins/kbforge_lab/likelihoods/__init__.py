"""Likelihoods of other papers."""

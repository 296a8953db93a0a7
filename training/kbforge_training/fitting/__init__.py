"""Fitting a network: the loop, its schedule and optimizers, and resumption."""

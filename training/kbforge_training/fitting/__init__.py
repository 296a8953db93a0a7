"""Fitting a network: the loop, its schedule and optimizers, and all that lets a run go on."""

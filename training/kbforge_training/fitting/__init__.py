"""Fitting a network: the loop, its schedule and optimisers, and all that lets a run go on."""

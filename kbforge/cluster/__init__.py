"""Clustering: Monte Carlo (`run`, `step`), Markov chains (`mcmc`), merges (`agglomerate`)."""

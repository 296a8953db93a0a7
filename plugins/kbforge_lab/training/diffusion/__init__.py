"""Training diffusion models of clusters of points."""

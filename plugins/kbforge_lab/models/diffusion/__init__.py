"""The diffusion model of sets of points: its network, bundle and density."""

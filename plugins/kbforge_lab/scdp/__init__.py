"""Supervised clustering with two Dirichlet processes: publications, and types of reference."""

"""Dirichlet-multinomial counts: rows of features, and the live clusters made of them."""

"""Arithmetic that several rooms share: log sums and growing arrays."""

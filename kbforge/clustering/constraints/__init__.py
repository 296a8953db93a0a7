"""Decisions and linking rules, as sequential Monte Carlo reads them."""

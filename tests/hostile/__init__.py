"""Hostile and mistaken inputs: no traceback, no hang, nothing that a terminal obeys."""

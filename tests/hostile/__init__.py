"""Inputs that mean harm, or that come out wrong: no traceback, no hang, nothing that a terminal obeys."""

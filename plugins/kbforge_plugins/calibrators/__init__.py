"""Calibrators: fragments in, the concentration alpha out."""

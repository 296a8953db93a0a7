"""Trains the models of the laboratory, and the default models that ship."""

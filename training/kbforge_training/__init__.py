"""Trains the models that the library loads."""

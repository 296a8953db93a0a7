"""Trains the default models: families of labelled data, trees, judge and maps."""

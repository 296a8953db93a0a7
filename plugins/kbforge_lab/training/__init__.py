"""Trains the models of the laboratory, and the shipped default models."""

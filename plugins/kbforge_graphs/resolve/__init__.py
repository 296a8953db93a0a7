"""Resolves the entities of a graph, and writes the graph back in the shape that it had."""

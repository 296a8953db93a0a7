"""Graphs: what reads other programs' graphs and spans, and what writes a knowledge base as a graph.

It is plugged in through entry points, as a stranger's package is. It imports the library and
KBForge's own plugins; neither imports it.
"""

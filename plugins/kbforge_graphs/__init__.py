"""Graphs: reads graphs and annotated texts, and writes a knowledge base as a graph.

It is plugged in through entry points, as a stranger's package is. It imports the library and
KBForge's own plugins; neither imports it.
"""

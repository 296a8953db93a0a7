"""Graphs: reads graphs and annotated texts, and writes a knowledge base as a graph.

Entry points announce its plugins, as for a third-party package. It imports the library and
KBForge's own plugins; neither imports it.
"""

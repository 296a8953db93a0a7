"""Exporters: knowledge bases as graphs, and graphs with their entities merged."""

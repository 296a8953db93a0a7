"""Exporters: write knowledge bases as files of other programs."""

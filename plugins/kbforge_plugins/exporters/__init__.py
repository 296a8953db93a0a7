"""Exporters: knowledge bases as files of other programs."""

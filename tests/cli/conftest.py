"""Fixtures of the verbs that read a knowledge base."""

from tests.cli.kb_files import files

__all__ = ["files"]

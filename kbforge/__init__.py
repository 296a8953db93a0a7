"""KBForge: entity fragments in, a knowledge base out."""

__version__ = "0.1.0"

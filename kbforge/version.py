"""The version of KBForge, which the program, its files and its plugins are checked against."""

from __future__ import annotations

__version__ = "0.2.0"

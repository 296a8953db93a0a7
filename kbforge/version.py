"""The name of the distribution, and the version that program, files and plugins are checked by."""

from __future__ import annotations

DISTRIBUTION = "entity-fragments"
"""What pip installs; packages and the program are called kbforge."""

__version__ = "0.2.0"

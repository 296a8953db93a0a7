"""The name and the version of the distribution."""

from __future__ import annotations

DISTRIBUTION = "entity-fragments"
"""What pip installs; packages and the program are called kbforge."""

__version__ = "0.2.0"

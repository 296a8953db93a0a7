"""Sets that cannot be: L = -inf.

An impossible set is no place to go to, but a run may start in one, and leaving it must be worth
more than any other move: there it counts as -1e12 nats.
"""

from __future__ import annotations

IMPOSSIBLE = -1e12

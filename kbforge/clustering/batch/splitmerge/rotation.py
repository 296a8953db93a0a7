"""Hash tables that a kernel takes in turn: several at a time, now and then a new one.

A table of all fragments takes as long to make as there are fragments. So it serves as many moves as
there are fragments (and some, if they are few), and a move's share of it is the same however many
there are. A few tables are
kept, and every move takes one of them at random. Which tables there are and which one is taken
depends on how many moves there were and on random numbers that nothing else reads, never on the
grouping; so a move may take its table for given.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Generic, TypeVar

from kbforge.clustering.batch.splitmerge.draws import Draws

Table = TypeVar("Table")

_SEEDS = 1 << 62
_FEWEST_MOVES = 1000


class Rotation(Generic[Table]):
    """The tables at hand.

    Args:
        make: a table from a seed.
        n_fragments: moves after which a new one is made, if they are more than a few.
        kept: how many are kept; the oldest goes when a new one comes.

    """

    def __init__(self, make: Callable[[int], Table], n_fragments: int, kept: int) -> None:
        self._make, self._every = make, max(n_fragments, _FEWEST_MOVES)
        self._tables: deque[Table] = deque(maxlen=kept)
        self._moves = 0

    def next(self, draws: Draws) -> Table:
        """The table of the next move."""
        if self._moves % self._every == 0:
            self._tables.append(self._make(draws.below(_SEEDS)))
        self._moves += 1
        return self._tables[draws.below(len(self._tables))]

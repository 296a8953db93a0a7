"""The subproblem of each fragment, by its number.

A step needs no such map. So it is made when it is first asked for, and kept up from then on.
"""

from __future__ import annotations

from collections.abc import Iterable

from kbforge.clustering.state import State


class FragmentHomes:
    """The subproblem of every fragment.

    Args:
        state: is read whenever something is asked.

    """

    def __init__(self, state: State) -> None:
        self._state = state
        self._home: dict[int, int] | None = None

    def of(self, fragment: int) -> int:
        """The name of the subproblem that holds a fragment."""
        if self._home is None:
            self._home = {}
            self.follow(self._state.blocks)
        return self._home[fragment]

    def put(self, fragment: int, name: int) -> None:
        """A fragment has come to a subproblem that holds the others as before."""
        if self._home is not None:
            self._home[fragment] = name

    def follow(self, names: Iterable[int]) -> None:
        """These subproblems are new."""
        if self._home is None:
            return
        for name in names:
            block = self._state.blocks[name]
            for slot in block.cells[: block.row_start[1]].tolist():
                self._home.update(dict.fromkeys(self._state.members(slot), name))

    def forget(self, fragments: Iterable[int]) -> None:
        """These fragments are no more."""
        if self._home is not None:
            for fragment in fragments:
                del self._home[fragment]

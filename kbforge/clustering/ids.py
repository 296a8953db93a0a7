"""The numbers of a session's fragments, by id: built on first use, then updated."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from kbforge.contracts import Fragment
from kbforge.errors import UsageError, quoted

_SEVERAL = -1


class Ids:
    """Which fragment has an id.

    Args:
        fragments: gives those that there are, by number.

    """

    def __init__(self, fragments: Callable[[], Mapping[int, Fragment]]) -> None:
        self._fragments = fragments
        self._number: dict[str, int] | None = None

    def of(self, id: str) -> int:
        """The number of a fragment.

        Raises:
            UsageError: there is none of that id, or there are several.

        """
        if self._number is None:
            self._number = {}
            self.put(self._fragments())
        found = self._number.get(id)
        if found is None:
            raise UsageError(f'no fragment of the session has the id "{quoted(id)}"')
        if found == _SEVERAL:
            raise UsageError(f'several fragments of the session have the id "{quoted(id)}"')
        return found

    def put(self, fragments: Mapping[int, Fragment]) -> None:
        """These are there, too, by number."""
        if self._number is not None:
            for number, x in fragments.items():
                self._number[x.id] = _SEVERAL if x.id in self._number else number

    def forget(self, ids: Iterable[str]) -> None:
        """The fragments with these ids, each of which is one's, are no more."""
        if self._number is not None:
            for id in ids:
                del self._number[id]

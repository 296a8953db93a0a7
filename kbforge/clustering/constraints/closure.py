"""The closure of decisions: which fragments are the same entity, and which are different ones.

Must-links close transitively into *components*; a cannot-link of two fragments holds of their
components. A component is named by its smallest id.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence

from kbforge.contracts import Decision
from kbforge.errors import ContradictionError, quoted


class Closure:
    """The components of some decisions.

    Args:
        decisions: any.

    Raises:
        ContradictionError: they cannot all hold; the message names those that cause it.

    Attributes:
        component: by id, its component, of all that the decisions name.
        members: by component, its ids, ascending.
        apart: by component, those that it is not one with; none where there are none.

    """

    def __init__(self, decisions: Sequence[Decision]) -> None:
        self._ties: dict[str, list[tuple[str, Decision]]] = {}
        for decision in decisions:
            for id in (decision.first, decision.second):
                self._ties.setdefault(id, [])
            if decision.same:
                self._ties[decision.first].append((decision.second, decision))
                self._ties[decision.second].append((decision.first, decision))
        self.component: dict[str, str] = {}
        self.members: dict[str, tuple[str, ...]] = {}
        for id in sorted(self._ties):
            if id not in self.component:
                reached = self._reached(id)
                self.members[id] = tuple(sorted(reached))
                self.component.update(dict.fromkeys(reached, id))
        self.apart: dict[str, set[str]] = {}
        for decision in decisions:
            if not decision.same:
                self._separate(decision)

    def ties(self, first: str, second: str) -> list[Decision]:
        """The fewest must-links by which two fragments of a component are one."""
        reached = self._reached(first)
        out = []
        while second != first:
            second, decision = reached[second]
            out.append(decision)
        return out[::-1]

    def _separate(self, decision: Decision) -> None:
        one, other = self.component[decision.first], self.component[decision.second]
        if one == other:
            ties = self.ties(decision.first, decision.second)
            because = listed(ties) if ties else "a fragment is the same as itself"
            raise ContradictionError(
                f"{called(decision)} cannot hold: {because}",
                tuple(each.name for each in (decision, *ties)),
            )
        self.apart.setdefault(one, set()).add(other)
        self.apart.setdefault(other, set()).add(one)

    def _reached(self, start: str) -> dict[str, tuple[str, Decision]]:
        """All that must-links lead to; by id, where from and by which, `start` by itself."""
        reached: dict[str, tuple[str, Decision]] = {start: (start, Decision(True, start, start))}
        queue = deque([start])
        while queue:
            here = queue.popleft()
            for there, decision in self._ties[here]:
                if there not in reached:
                    reached[there] = here, decision
                    queue.append(there)
        return reached


def called(decision: Decision) -> str:
    """A decision as messages call it."""
    word = "same" if decision.same else "different"
    said = f'{word} "{quoted(decision.first)}" "{quoted(decision.second)}"'
    return f"{quoted(decision.name)} ({said})" if decision.name else said


def listed(decisions: Sequence[Decision]) -> str:
    """Decisions that hold, as messages say it."""
    said = list(_shortened(decisions))
    holds = "holds" if len(decisions) == 1 else "hold"
    return f"{', '.join(said)} {holds}"


_MOST_NAMED = 6


def _shortened(decisions: Sequence[Decision]) -> Iterator[str]:
    """A long chain of decisions by its beginning and end."""
    if len(decisions) <= _MOST_NAMED:
        yield from map(called, decisions)
        return
    yield from map(called, decisions[: _MOST_NAMED // 2])
    yield f"{len(decisions) - _MOST_NAMED} more"
    yield from map(called, decisions[-_MOST_NAMED // 2 :])

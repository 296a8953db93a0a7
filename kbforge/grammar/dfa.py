"""From a grammar's tree to the smallest deterministic automaton that accepts the same texts.

The alphabet is the characters of the literals and one symbol for a whole quoted string. Thompson's
construction, the subset construction and Moore's minimisation, in that order (Hopcroft, Motwani
and Ullman, "Introduction to Automata Theory", chapters 2 to 4).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from kbforge.errors import GrammarError
from kbforge.grammar.rules import (
    STRING,
    Choice,
    Expression,
    Literal,
    QuotedString,
    Repeat,
    Sequence,
)

_MOST_STATES = 1_024  # of the automaton; the table has ten for each that is inside a string


@dataclass(frozen=True, slots=True)
class Dfa:
    """A deterministic automaton; state 0 is where a text begins.

    Attributes:
        edges: for each state, symbol -> next state, by symbol; a symbol is a character or STRING.
        accepting: the states in which a text may end; one can be reached from every state.

    """

    edges: tuple[Mapping[str, int], ...]
    accepting: frozenset[int]


def compile_dfa(tree: Expression, where: str) -> Dfa:
    """The minimal automaton of a grammar.

    Raises:
        GrammarError: it would need too many states.

    """
    nfa = _Nfa()
    start, end = nfa.add(tree)
    return _minimised(_determinised(nfa, start, end, where))


class _Nfa:
    """States with labelled edges and free ones."""

    def __init__(self) -> None:
        self.free: list[list[int]] = []
        self.edges: list[list[tuple[str, int]]] = []

    def add(self, tree: Expression) -> tuple[int, int]:
        """Build the part of a tree; returns where it begins and ends."""
        match tree:
            case Literal(text):
                return self._chain(text)
            case QuotedString():
                return self._chain([STRING])
            case Sequence(parts):
                return self._in_turn(parts)
            case Choice(options):
                return self._side_by_side(options)
            case Repeat(part, optional):
                begin, end = self._side_by_side([part])
                self.free[end].append(begin)
                if optional:
                    self.free[begin].append(end)
                return begin, end

    def closure(self, states: Iterable[int]) -> frozenset[int]:
        """The states reached without reading anything."""
        found = set(states)
        todo = list(found)
        while todo:
            for other in self.free[todo.pop()]:
                if other not in found:
                    found.add(other)
                    todo.append(other)
        return frozenset(found)

    def _state(self) -> int:
        self.free.append([])
        self.edges.append([])
        return len(self.free) - 1

    def _chain(self, symbols: Iterable[str]) -> tuple[int, int]:
        begin = end = self._state()
        for symbol in symbols:
            after = self._state()
            self.edges[end].append((symbol, after))
            end = after
        return begin, end

    def _in_turn(self, parts: Iterable[Expression]) -> tuple[int, int]:
        begin = end = self._state()
        for part in parts:
            first, last = self.add(part)
            self.free[end].append(first)
            end = last
        return begin, end

    def _side_by_side(self, options: Iterable[Expression]) -> tuple[int, int]:
        begin, end = self._state(), self._state()
        for option in options:
            first, last = self.add(option)
            self.free[begin].append(first)
            self.free[last].append(end)
        return begin, end


def _determinised(nfa: _Nfa, start: int, end: int, where: str) -> Dfa:
    first = nfa.closure([start])
    numbers = {first: 0}
    todo, edges = [first], [dict[str, int]()]
    while todo:
        subset = todo.pop()
        targets: dict[str, set[int]] = {}
        for state in subset:
            for symbol, target in nfa.edges[state]:
                targets.setdefault(symbol, set()).add(target)
        for symbol in sorted(targets):
            reached = nfa.closure(targets[symbol])
            if reached not in numbers:
                if len(numbers) == _MOST_STATES:
                    raise GrammarError(
                        f"{where}: the grammar needs more than {_MOST_STATES:,} states"
                    )
                numbers[reached] = len(edges)
                edges.append({})
                todo.append(reached)
            edges[numbers[subset]][symbol] = numbers[reached]
    accepting = frozenset(number for subset, number in numbers.items() if end in subset)
    return Dfa(tuple(edges), accepting)


def _minimised(dfa: Dfa) -> Dfa:
    block = [int(state in dfa.accepting) for state in range(len(dfa.edges))]
    n_blocks = 0
    while n_blocks != len(set(block)):
        n_blocks = len(set(block))
        # states stay together while their edges, which are sorted, lead to the same blocks
        kinds: dict[object, int] = {}
        block = [
            kinds.setdefault((own, *((c, block[t]) for c, t in edges.items())), len(kinds))
            for own, edges in zip(block, dfa.edges, strict=True)
        ]
    # state 0 is seen first, so its block has number 0
    merged: list[dict[str, int]] = [{}] * n_blocks
    for own, edges in zip(block, dfa.edges, strict=True):
        merged[own] = {symbol: block[target] for symbol, target in edges.items()}
    return Dfa(tuple(merged), frozenset(block[state] for state in dfa.accepting))

"""The skeleton of a text: strings, and the symbols between them.

The characters between two strings are one symbol, whatever their number: the text

    {"name":["Ada L.","Ada Lovelace"]}{"name":["A. Lovelace"]}

is read as  name · ":[" · Ada L. · "," · Ada Lovelace · "]} · name · ":[" · A. Lovelace · "]}

so every symbol is a decision. Characters without alternatives are not symbols: `{"` at the
beginning, and again after each object, is implied. A symbol ends where a text may end, and *the end
is not a symbol*: a text is scored as a prefix of longer ones. The Dirichlet process models the
number of fragments in a cluster; a likelihood that scored the end would count it twice.

There must be finitely many symbols, which is why literals cannot repeat without a string or a
possible end between them. Literals hold no quotation marks (the notation has no way to write one),
so no symbol that can be read at some place begins with another, and a text has one reading.

Strings are written like those of the serializers: a quotation mark, a backslash and characters
below U+0020 are escaped, in JSON's shortest form, and nothing else is. Any other spelling is
refused, so a text and its reading determine each other.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

import orjson

from kbforge.errors import GrammarError, quoted
from kbforge_lm.grammar.rules import STRING, Dfa, compile_rules

_MOST_WAYS = 4_096
_STRING_CONTENT = re.compile(r'(?:[^"\\\x00-\x1f\ud800-\udfff]+|\\.)*')


@dataclass(frozen=True, slots=True)
class Edge:
    """A symbol that can be read at a node."""

    symbol: str  # with the quotation marks that close and open strings
    target: int  # the number of a node
    implied: str = ""  # what must follow if anything does; it is not a symbol
    may_end: bool = False  # whether the text may end after the symbol


@dataclass(frozen=True, slots=True)
class Node:
    """A place between symbols: inside a string, or (`in_string` false) where symbols meet."""

    in_string: bool
    edges: tuple[Edge, ...]


@dataclass(frozen=True, slots=True)
class Skeleton:
    """The strings and symbols of a grammar's texts; a text begins at node 0, after `implied`."""

    nodes: tuple[Node, ...]
    implied: str
    may_be_empty: bool

    @property
    def symbols(self) -> list[str]:
        """All different symbols, in order of first appearance."""
        return list(dict.fromkeys(edge.symbol for node in self.nodes for edge in node.edges))

    def read(self, text: str) -> Iterator[str | Edge]:
        """The string values (unescaped) and symbols of a text; an error names where it departs."""
        at, node, implied, may_end = 0, self.nodes[0], self.implied, self.may_be_empty
        while at < len(text) or not may_end:
            if not text.startswith(implied, at):
                raise _departs(text, at, implied)
            at += len(implied)
            if node.in_string:
                value, at = _value_at(text, at)
                yield value
            edge = next((e for e in node.edges if text.startswith(e.symbol, at)), None)
            if edge is None:
                raise _departs(text, at, " or ".join(e.symbol for e in node.edges) or "the end")
            yield edge
            at += len(edge.symbol)
            node, implied, may_end = self.nodes[edge.target], edge.implied, edge.may_end


def compile_skeleton(rules: str, where: str) -> Skeleton:
    """The skeleton of a grammar file, which errors name `where`."""
    return _Builder(compile_rules(rules, where), where).skeleton()


def _value_at(text: str, at: int) -> tuple[str, int]:
    """The value of the string whose content begins at a character, and where it closes."""
    found = _STRING_CONTENT.match(text, at)
    end = found.end() if found else at
    content = text[at:end]
    if not content or not text.startswith('"', end):
        raise _departs(
            text, end, "the rest of a string" if content else "a string's first character"
        )
    if "\\" not in content:
        return content, end
    try:
        value = orjson.loads(f'"{content}"')
    except orjson.JSONDecodeError:
        value = ""
    if _escaped(value) != content:
        raise _departs(text, at, "a string with JSON's shortest escapes and no others")
    return value, end


def _escaped(value: str) -> str:
    return orjson.dumps(value)[1:-1].decode()


def _departs(text: str, at: int, expected: str) -> GrammarError:
    got = quoted(text[at : at + 40]) or "the end"
    return GrammarError(f"character {at}: expected {expected}, got {got}")


class _Builder:
    """Numbers the reachable nodes: a state of the automaton, and whether a string leads to it."""

    def __init__(self, dfa: Dfa, where: str) -> None:
        self._dfa = dfa
        self._where = where
        self._numbers: dict[tuple[int, bool], int] = {}
        self._order: list[tuple[int, bool]] = []
        self._found = 0

    def skeleton(self) -> Skeleton:
        _, implied = self._meeting(0)
        nodes = []
        for state, in_string in self._order:  # it grows: building a node numbers its neighbours
            nodes.append(Node(in_string, self._edges(state, '"' if in_string else "")))
        return Skeleton(tuple(nodes), implied, 0 in self._dfa.accepting)

    def _number(self, state: int, in_string: bool) -> int:
        key = (state, in_string)
        if key not in self._numbers:
            self._numbers[key] = len(self._order)
            self._order.append(key)
        return self._numbers[key]

    def _meeting(self, state: int) -> tuple[int, str]:
        """The node of a beginning or possible end, and what is implied on the way there."""
        ways = list(self._ways(state, may_end=False))
        if len(ways) == 1 and ways[0][2]:
            text, target, _ = ways[0]
            return self._number(target, True), text + '"'
        return self._number(state, False), ""

    def _edges(self, state: int, before: str) -> tuple[Edge, ...]:
        """The symbols from a state on; `before` is the quotation mark of the string that closes."""
        edges = []
        for text, target, in_string in self._ways(state, may_end=bool(before)):
            if in_string:
                edges.append(Edge(f'{before}{text}"', self._number(target, True)))
            else:
                node, implied = self._meeting(target)
                edges.append(Edge(before + text, node, implied, may_end=True))
        return tuple(edges)

    def _ways(self, state: int, may_end: bool) -> Iterator[tuple[str, int, bool]]:
        """The runs of literals, empty if `may_end`, to a string (True) or an end (False)."""
        todo = [("", state, frozenset[int]())]
        while todo:
            text, at, seen = todo.pop()
            if at in self._dfa.accepting and (text or may_end):
                yield self._counted(text, at, False)
                continue
            if at in seen:
                raise GrammarError(
                    f"{self._where}: literals can repeat for ever without a string or an end "
                    f"(after {quoted(text)})"
                )
            for symbol, target in sorted(self._dfa.edges[at].items(), reverse=True):
                if symbol == STRING:
                    yield self._counted(text, target, True)
                else:
                    todo.append((text + symbol, target, seen | {at}))

    def _counted(self, text: str, state: int, in_string: bool) -> tuple[str, int, bool]:
        self._found += 1
        if self._found > _MOST_WAYS:
            raise GrammarError(
                f"{self._where}: there are more than {_MOST_WAYS:,} ways from string to string"
            )
        return text, state, in_string

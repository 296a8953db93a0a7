"""Grammar files: a small notation for regular languages of literals and quoted strings.

    # one or more objects, each from attributes to lists of strings
    set    = object+
    object = "{" pair ("," pair)* "}"
    pair   = STRING ":" "[" STRING ("," STRING)* "]"

There is one rule per line; the first one is the text, and every other one must be used. An
expression consists of literals in double quotes, STRING (a quoted string, including quotation
marks), names of rules, sequences, alternatives `|` and parentheses. At most one of the repetitions
`*`, `+` and `?` follows a part. `#` begins a comment. Rules may not refer to themselves: the
language must be regular, so that a table can hold it. Literals cannot repeat for ever without a
STRING or a possible end of the text (`kbforge_lm.grammar.skeleton` explains why).

A grammar becomes the smallest deterministic automaton that accepts its texts. The alphabet is the
characters of the literals and one symbol for a whole quoted string. Thompson's construction, the
subset construction and Moore's minimisation, in that order (Hopcroft, Motwani and Ullman,
"Introduction to Automata Theory", chapters 2 to 4).
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NoReturn, TypeAlias

from kbforge.errors import GrammarError, quoted

STRING = "STRING"

_NAME = r"[A-Za-z_][A-Za-z0-9_-]*"
_TOKEN = re.compile(rf'\s*("[^"]*"|{_NAME}|[()|*+?])')
_RULE = re.compile(rf"\s*(?P<name>{_NAME})\s*=(?P<body>.*)\Z")
_REPETITIONS = ("*", "+", "?")
# with every name replaced by its rule: a file of 40 lines can double 2^40 times
_LARGEST = 10_000
_DEEPEST = 50
_MOST_STATES = 1_024  # of the automaton; the table has ten for each that is inside a string


@dataclass(frozen=True, slots=True)
class Dfa:
    """A deterministic automaton; state 0 is where a text begins."""

    edges: tuple[Mapping[str, int], ...]  # of each state, by symbol: a character or STRING
    accepting: frozenset[int]  # one can be reached from every state


def compile_rules(text: str, where: str) -> Dfa:
    """The automaton of the text of a grammar file; errors name the file `where`.

    GrammarError: with the line, what was expected and what was found; or too many states.
    """
    rules: dict[str, tuple[str, int]] = {}
    for number, line in enumerate(text.splitlines(), start=1):
        body = _without_comment(line)
        if not body.strip():
            continue
        found = _RULE.match(body)
        if found is None:
            raise GrammarError(
                f"{where}:{number}: expected a rule (name = ...), got {quoted(line.strip())}"
            )
        name = found["name"]
        if name in rules or name == STRING:
            raise GrammarError(f'{where}:{number}: the rule "{name}" is already defined')
        rules[name] = (found["body"], number)
    if not rules:
        raise GrammarError(f"{where}: expected a rule (name = ...), got none")
    nfa = _Nfa()
    start, end = _Reader(rules, where, nfa).read()
    return _minimised(_determinised(nfa, start, end, where))


class _Reader:
    """A recursive-descent parser that builds the automaton; a rule is read wherever it is named."""

    def __init__(self, rules: Mapping[str, tuple[str, int]], where: str, nfa: _Nfa) -> None:
        self._rules, self._where, self._nfa = rules, where, nfa
        self._open: list[str] = []  # the names of rules that are being read
        self._used: set[str] = set()
        self._size = 0
        self._depth = 0

    def read(self) -> Span:
        """The part of the first rule, which must use all others."""
        part = self._rule(next(iter(self._rules)))
        for name, (_, line) in self._rules.items():
            if name not in self._used:
                self._fail(f'the rule "{name}" is not used', line)
        return part

    def _rule(self, name: str) -> Span:
        body, line = self._rules[name]
        if name in self._open:
            self._fail(f'the rule "{name}" refers to itself; a grammar must be regular', line)
        self._open.append(name)
        self._used.add(name)
        tokens = self._tokens(body.rstrip())
        part = self._choice(tokens)
        if tokens:
            self._fail(f"expected the end of the rule, got {tokens[0]}")
        self._open.pop()
        return part

    def _tokens(self, body: str) -> deque[str]:
        tokens, at = deque[str](), 0
        while at < len(body):
            found = _TOKEN.match(body, at)
            if found is None:
                got = quoted(body[at:].strip())
                self._fail(f"expected a literal, a name or an operator, got {got}")
            tokens.append(found[1])
            at = found.end()
        return tokens

    def _choice(self, tokens: deque[str]) -> Span:
        options = [self._sequence(tokens)]
        while tokens and tokens[0] == "|":
            tokens.popleft()
            options.append(self._sequence(tokens))
        return self._nfa.one_of(options)

    def _sequence(self, tokens: deque[str]) -> Span:
        parts = [self._repeated(tokens)]
        while tokens and tokens[0] not in ("|", ")"):
            parts.append(self._repeated(tokens))
        return self._nfa.in_turn(parts)

    def _repeated(self, tokens: deque[str]) -> Span:
        part = self._part(tokens)
        if tokens and tokens[0] in _REPETITIONS:
            return self._nfa.repeat(part, tokens.popleft())
        return part

    def _part(self, tokens: deque[str]) -> Span:
        token = tokens.popleft() if tokens else ""
        self._size += max(len(token), 1)
        if self._size > _LARGEST:
            raise GrammarError(
                f"{self._where}: the grammar is longer than {_LARGEST:,} characters "
                f"with every name replaced by its rule"
            )
        if token == '""' or token in ("", "|", ")", *_REPETITIONS):
            got = quoted(token) or "the end of the rule"
            self._fail(f"expected a literal, a name or a parenthesis, got {got}")
        if token.startswith('"'):
            return self._nfa.chain(token[1:-1])
        if token == STRING:
            return self._nfa.chain([STRING])
        self._depth += 1
        if self._depth > _DEEPEST:
            self._fail(f"rules and parentheses are nested over {_DEEPEST} deep")
        if token == "(":
            part = self._choice(tokens)
            if not tokens or tokens[0] != ")":
                got = tokens[0] if tokens else "the end of the rule"
                self._fail(f"expected a closing parenthesis, got {got}")
            tokens.popleft()
        elif token in self._rules:
            part = self._rule(token)
        else:
            self._fail(f'expected {STRING} or the name of a rule, got "{quoted(token)}"')
        self._depth -= 1
        return part

    def _fail(self, what: str, line: int | None = None) -> NoReturn:
        line = self._rules[self._open[-1]][1] if line is None else line
        raise GrammarError(f"{self._where}:{line}: {what}")


def _without_comment(line: str) -> str:
    in_literal = False
    for at, character in enumerate(line):
        if character == '"':
            in_literal = not in_literal
        elif character == "#" and not in_literal:
            return line[:at]
    return line


Span: TypeAlias = tuple[int, int]
"""The states in which a part of the automaton begins and ends."""


class _Nfa:
    """States with labelled edges and free ones (Thompson's construction)."""

    def __init__(self) -> None:
        self.free: list[list[int]] = []
        self.edges: list[list[tuple[str, int]]] = []

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

    def chain(self, symbols: Iterable[str]) -> Span:
        """The symbols one after another."""
        begin = end = self._state()
        for symbol in symbols:
            after = self._state()
            self.edges[end].append((symbol, after))
            end = after
        return begin, end

    def in_turn(self, parts: Iterable[Span]) -> Span:
        """One part after another; no parts is the empty text."""
        begin = end = self._state()
        for first, last in parts:
            self.free[end].append(first)
            end = last
        return begin, end

    def one_of(self, options: Iterable[Span]) -> Span:
        """One of several parts."""
        begin, end = self._state(), self._state()
        for first, last in options:
            self.free[begin].append(first)
            self.free[last].append(end)
        return begin, end

    def repeat(self, part: Span, operator: str) -> Span:
        """A part any number of times (`*`), at least once (`+`) or at most once (`?`)."""
        begin, end = self.one_of([part])
        if operator != "?":
            self.free[end].append(begin)
        if operator != "+":
            self.free[begin].append(end)
        return begin, end

    def _state(self) -> int:
        self.free.append([])
        self.edges.append([])
        return len(self.free) - 1


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

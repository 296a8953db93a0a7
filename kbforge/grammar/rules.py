"""Grammar files: a small notation for regular languages of literals and quoted strings.

    # one or more objects, each from attributes to lists of strings
    set    = object+
    object = "{" pair ("," pair)* "}"
    pair   = STRING ":" "[" STRING ("," STRING)* "]"

One rule a line; the first one is the text, and every other one is used. An expression is made of
literals in double quotes, STRING (a quoted string, quotation marks included), names of rules,
sequences, alternatives `|` and parentheses. Behind a part stands at most one of the repetitions
`*`, `+` and `?`. `#` begins a comment. Rules may not refer to themselves: the language must be
regular, so that a table can hold it. Literals cannot go on for ever without a STRING or a place
where the text may end (`kbforge.grammar.skeleton` says why).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
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


@dataclass(frozen=True, slots=True)
class Literal:
    """Characters as they stand."""

    text: str


@dataclass(frozen=True, slots=True)
class QuotedString:
    """A string with its quotation marks."""


@dataclass(frozen=True, slots=True)
class Sequence:
    """One after another; no parts is the empty text."""

    parts: tuple[Expression, ...]


@dataclass(frozen=True, slots=True)
class Choice:
    """One of several."""

    options: tuple[Expression, ...]


@dataclass(frozen=True, slots=True)
class Repeat:
    """Any number of times; not none, unless it is optional."""

    part: Expression
    optional: bool


Expression: TypeAlias = Literal | QuotedString | Sequence | Choice | Repeat


def parse_rules(text: str, where: str) -> Expression:
    """The tree of a grammar file, names replaced by what they stand for; `where` is for errors."""
    rules: dict[str, _Rule] = {}
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
        rules[name] = _Rule(name, found["body"], number)
    if not rules:
        raise GrammarError(f"{where}: expected a rule (name = ...), got none")
    return _Reader(rules, where).read()


@dataclass(frozen=True, slots=True)
class _Rule:
    name: str
    body: str
    line: int


class _Tokens:
    """What is left to read of one rule."""

    def __init__(self, tokens: list[str], line: int) -> None:
        self._tokens = tokens
        self._at = 0
        self.line = line

    @property
    def next(self) -> str:
        """The next token, "" at the end of the rule."""
        return self._tokens[self._at] if self._at < len(self._tokens) else ""

    def take(self) -> str:
        """Move past the next token."""
        token = self.next
        self._at += 1
        return token


class _Reader:
    """Recursive descent; a rule is read wherever it is named."""

    def __init__(self, rules: Mapping[str, _Rule], where: str) -> None:
        self._rules = rules
        self._where = where
        self._open: list[str] = []
        self._used: set[str] = set()
        self._size = 0
        self._depth = 0

    def read(self) -> Expression:
        """The tree of the first rule, which has to use all others."""
        expression = self._rule(next(iter(self._rules.values())))
        for rule in self._rules.values():
            if rule.name not in self._used:
                self._fail(rule.line, f'the rule "{rule.name}" is not used')
        return expression

    def _rule(self, rule: _Rule) -> Expression:
        if rule.name in self._open:
            self._fail(
                rule.line, f'the rule "{rule.name}" refers to itself; a grammar must be regular'
            )
        self._open.append(rule.name)
        self._used.add(rule.name)
        tokens = self._tokens_of(rule)
        expression = self._choice(tokens)
        if tokens.next:
            self._fail(rule.line, f"expected the end of the rule, got {tokens.next}")
        self._open.pop()
        return expression

    def _tokens_of(self, rule: _Rule) -> _Tokens:
        body, tokens, at = rule.body.rstrip(), [], 0
        while at < len(body):
            found = _TOKEN.match(body, at)
            if found is None:
                got = quoted(body[at:].strip())
                self._fail(rule.line, f"expected a literal, a name or an operator, got {got}")
            tokens.append(found[1])
            at = found.end()
        return _Tokens(tokens, rule.line)

    def _choice(self, tokens: _Tokens) -> Expression:
        options = [self._sequence(tokens)]
        while tokens.next == "|":
            tokens.take()
            options.append(self._sequence(tokens))
        return options[0] if len(options) == 1 else Choice(tuple(options))

    def _sequence(self, tokens: _Tokens) -> Expression:
        parts = [self._repeated(tokens)]
        while tokens.next not in ("", "|", ")"):
            parts.append(self._repeated(tokens))
        return parts[0] if len(parts) == 1 else Sequence(tuple(parts))

    def _repeated(self, tokens: _Tokens) -> Expression:
        part = self._part(tokens)
        if tokens.next not in _REPETITIONS:
            return part
        operator = tokens.take()
        if operator == "?":
            return Choice((part, Sequence(())))
        return Repeat(part, optional=operator == "*")

    def _part(self, tokens: _Tokens) -> Expression:
        token = tokens.take()
        self._measure(token)
        if token == '""' or token in ("", "|", ")", *_REPETITIONS):
            got = quoted(token) or "the end of the rule"
            self._fail(tokens.line, f"expected a literal, a name or a parenthesis, got {got}")
        if token.startswith('"'):
            return Literal(token[1:-1])
        if token == STRING:
            return QuotedString()
        self._depth += 1
        if self._depth > _DEEPEST:
            self._fail(tokens.line, f"rules and parentheses are nested over {_DEEPEST} deep")
        part = self._group(tokens) if token == "(" else self._named(token, tokens.line)
        self._depth -= 1
        return part

    def _group(self, tokens: _Tokens) -> Expression:
        inner = self._choice(tokens)
        if tokens.next != ")":
            got = tokens.next or "the end of the rule"
            self._fail(tokens.line, f"expected a closing parenthesis, got {got}")
        tokens.take()
        return inner

    def _named(self, name: str, line: int) -> Expression:
        if name not in self._rules:
            self._fail(line, f'expected {STRING} or the name of a rule, got "{quoted(name)}"')
        return self._rule(self._rules[name])

    def _measure(self, token: str) -> None:
        self._size += max(len(token), 1)
        if self._size > _LARGEST:
            raise GrammarError(
                f"{self._where}: the grammar is longer than {_LARGEST:,} characters "
                f"with every name replaced by its rule"
            )

    def _fail(self, line: int, what: str) -> NoReturn:
        raise GrammarError(f"{self._where}:{line}: {what}")


def _without_comment(line: str) -> str:
    in_literal = False
    for at, character in enumerate(line):
        if character == '"':
            in_literal = not in_literal
        elif character == "#" and not in_literal:
            return line[:at]
    return line

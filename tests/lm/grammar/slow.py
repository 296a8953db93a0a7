"""Grammars read slowly: by backtracking over texts, and by derivatives over tokens.

Both work on trees of their own (nested tuples), from which `rules_of` writes the grammar file that
the library reads. Nothing here knows automata. The first is the meaning of the notation, the second
the meaning of symbols and pieces (Brzozowski, 1964: what a language leaves after a letter).
"""

from __future__ import annotations

import functools
import itertools
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias

Tree: TypeAlias = tuple[Any, ...]
"""("text", "ab"), ("string",), ("in turn", [trees]), ("one of", [trees]) or ("*+?", tree)."""

# what JSON must escape, each in its shortest way
CANONICAL_STRING = r'"(?:[^"\\\x00-\x1f\ud800-\udfff]|\\["\\bfnrt]|\\u00(?:0[0-7bef]|1[0-9a-f]))+"'


def rules_of(tree: Tree) -> str:
    """A grammar file with a rule for every second part, and parentheses around the others."""
    rules: list[str] = []
    numbers = itertools.count()

    def write(part: Tree) -> str:
        kind, *rest = part
        if kind == "text":
            return f'"{rest[0]}"'
        if kind == "string":
            return "STRING"
        if kind in ("in turn", "one of"):
            joined = (" | " if kind == "one of" else " ").join(map(write, rest[0]))
        else:
            joined = write(rest[0]) + kind
        number = next(numbers)
        if number % 2:
            return f"({joined})"
        rules.append(f"part{number} = {joined}")
        return f"part{number}"

    return "\n".join([f"all = {write(tree)}", *rules])


def accepts(tree: Tree, text: str) -> bool:
    """Whether a text is one of a tree's, by trying everything."""
    return len(text) in _ends(tree, text, 0)


def _ends(tree: Tree, text: str, at: int) -> set[int]:
    """Where the texts of a tree that begin at a character can end."""
    kind, *rest = tree
    if kind == "text":
        return {at + len(rest[0])} if text.startswith(rest[0], at) else set()
    if kind == "string":
        found = re.compile(CANONICAL_STRING).match(text, at)
        return {found.end()} if found else set()
    if kind == "in turn":
        ends = {at}
        for part in rest[0]:
            ends = {end for begin in ends for end in _ends(part, text, begin)}
        return ends
    if kind == "one of":
        return {end for part in rest[0] for end in _ends(part, text, at)}
    once = _ends(rest[0], text, at)
    if kind == "?":
        return once | {at}
    ends, new = set(once), once
    while new := {end for begin in new for end in _ends(rest[0], text, begin)} - ends:
        ends |= new
    return ends | {at} if kind == "*" else ends


# Derivatives. A language is ("nothing",), ("empty",), ("letter", x), ("content", bytes),
# ("cat", a, b), ("or", languages) or ("star", a); letters are characters, and numbers inside
# strings. None but the first is without texts, so a language is dead only if it is that one.

Language: TypeAlias = tuple[Any, ...]
Letter: TypeAlias = str | int
NOTHING: Language = ("nothing",)
EMPTY: Language = ("empty",)


def language_of(tree: Tree) -> Language:
    """What a tree stands for; a string's content is its bytes with a space before them."""
    kind, *rest = tree
    if kind == "text":
        return _cat_all([("letter", letter) for letter in rest[0]])
    if kind == "string":
        return _cat(("letter", '"'), ("content", b""))
    if kind == "in turn":
        return _cat_all(map(language_of, rest[0]))
    if kind == "one of":
        return _or(map(language_of, rest[0]))
    part = language_of(rest[0])
    if kind == "?":
        return _or([part, EMPTY])
    return ("star", part) if kind == "*" else _cat(part, ("star", part))


def may_end(language: Language) -> bool:
    """Whether the empty text belongs to a language."""
    kind, *rest = language
    if kind == "cat":
        return may_end(rest[0]) and may_end(rest[1])
    return any(map(may_end, rest[0])) if kind == "or" else kind in ("empty", "star")


def after(language: Language, letter: Letter) -> Language:
    """What may follow a letter; NOTHING if the letter may not come."""
    kind, *rest = language
    if kind == "letter":
        return EMPTY if rest[0] == letter else NOTHING
    if kind == "content":
        return _after_content(rest[0], letter)
    if kind == "cat":
        first = _cat(after(rest[0], letter), rest[1])
        return _or([first, after(rest[1], letter)]) if may_end(rest[0]) else first
    if kind == "or":
        return _or(after(part, letter) for part in rest[0])
    if kind == "star":
        return _cat(after(rest[0], letter), language)
    return NOTHING


def _after_content(content: bytes, letter: Letter) -> Language:
    if isinstance(letter, int):
        longer = content + bytes([letter])
        return ("content", longer) if is_beginning(longer) else NOTHING
    return EMPTY if letter == '"' and is_whole(content) else NOTHING


@functools.cache
def is_beginning(content: bytes) -> bool:
    """Whether bytes can begin a space and UTF-8, by Python's decoder: some ending fits."""
    endings = (bytes(e) for n in range(4) for e in itertools.product((0x80, 0xBF), repeat=n))
    return content[:1] in (b"", b" ") and any(map(is_utf8, (content + e for e in endings)))


def is_whole(content: bytes) -> bool:
    """Whether bytes are a space and UTF-8 that is not empty, by Python's decoder."""
    return content[:1] == b" " and len(content) > 1 and is_utf8(content)


def is_utf8(content: bytes) -> bool:
    """Whether Python decodes bytes."""
    try:
        content.decode("utf-8", "strict")
    except UnicodeDecodeError:
        return False
    return True


def _cat(a: Language, b: Language) -> Language:
    if NOTHING in (a, b):
        return NOTHING
    if a == EMPTY or b == EMPTY:
        return b if a == EMPTY else a
    return ("cat", a[1], _cat(a[2], b)) if a[0] == "cat" else ("cat", a, b)


def _cat_all(parts: Any) -> Language:
    whole = EMPTY
    for part in reversed(list(parts)):
        whole = _cat(part, whole)
    return whole


def _or(parts: Any) -> Language:
    flat: set[Language] = set()
    for part in parts:
        flat |= part[1] if part[0] == "or" else {part}
    flat -= {NOTHING}
    if not flat:
        return NOTHING
    return flat.pop() if len(flat) == 1 else ("or", frozenset(flat))


class EndlessError(Exception):
    """Letters can follow each other for ever between two strings."""


@dataclass(frozen=True)
class Place:
    """Between two tokens: what may follow, and whether that is inside a string."""

    rest: Language
    in_string: bool


class SlowTable:
    """Legal tokens by derivatives: symbols are strings, pieces are bytes."""

    def __init__(self, tree: Tree, letters: str) -> None:
        self._letters = sorted({*letters, '"'})
        self.first = self._past_forced(language_of(tree))

    def symbols(self, place: Place) -> dict[str, tuple[Place, bool]]:
        """The legal symbols, each with the place after it and whether the text may end there."""
        rest, before = place.rest, ""
        if place.in_string:
            rest, before = after(rest, '"'), '"'
        if rest == NOTHING:
            return {}
        found = {}
        for text, left in self._runs(rest, place.in_string, frozenset()):
            if text.endswith('"'):
                found[before + text] = (Place(left, True), False)
            else:
                found[before + text] = (self._past_forced(left), True)
        return found

    def after_piece(self, place: Place, piece: bytes) -> Place | None:
        """The place after a piece, None where it is illegal."""
        rest = place.rest
        for byte in piece:
            rest = after(rest, byte)
        return Place(rest, True) if place.in_string and rest != NOTHING else None

    def places(self) -> list[Place]:
        """All places between symbols, strings taken to hold one and the same value."""
        found, todo = {self.first}, [self.first]
        while todo:
            place = todo.pop()
            if place.in_string:
                place = self.after_piece(place, b" x") or place
            for target, _ in self.symbols(place).values():
                if target not in found:
                    found.add(target)
                    todo.append(target)
        return list(found)

    def _runs(
        self, rest: Language, ends_here: bool, path: frozenset[Language]
    ) -> Iterator[tuple[str, Language]]:
        """Letters up to the beginning of a string or to a possible end, whichever is first."""
        if may_end(rest) and (path or ends_here):
            yield "", rest
            return
        if rest in path:
            raise EndlessError
        for letter in self._letters:
            left = after(rest, letter)
            if left == NOTHING:
                continue
            if letter == '"':
                yield letter, left
                continue
            for text, end in self._runs(left, ends_here, path | {rest}):
                yield letter + text, end

    def _past_forced(self, rest: Language) -> Place:
        """The place after the letters that leave no choice, if they lead to a string."""
        at, first = rest, True
        seen = {rest}
        while True:
            options = [letter for letter in self._letters if after(at, letter) != NOTHING]
            if len(options) != 1 or (may_end(at) and not first):
                return Place(rest, False)
            at, first = after(at, options[0]), False
            if options[0] == '"':
                return Place(at, True)
            if at in seen:
                return Place(rest, False)
            seen.add(at)

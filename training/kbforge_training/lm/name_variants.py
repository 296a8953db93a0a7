"""Variants of a name, as documents write it.

Surname or first word alone, initials, acronym, a word left out, what stands in parentheses or after
a comma left out, another case. Rules of thumb for names in scripts with capitals; a name that none
fits is returned as it is.
"""

from __future__ import annotations

import re
from collections.abc import Callable

import numpy as np

_APPENDIX = re.compile(r"\s*(?:\([^)]*\)|,.*)\s*\Z")


def variant(name: str, rng: np.random.Generator) -> str:
    """One of the other ways to write a name, at random."""
    options = [text for rule in _RULES if (text := rule(name, rng)) and text != name]
    return options[int(rng.integers(len(options)))] if options else name


def _without_appendix(name: str, rng: np.random.Generator) -> str:
    return _APPENDIX.sub("", name)


def _last_word(name: str, rng: np.random.Generator) -> str:
    return name.split()[-1] if _is_proper(name) else ""


def _first_word(name: str, rng: np.random.Generator) -> str:
    return name.split()[0] if _is_proper(name) else ""


def _initials_and_last(name: str, rng: np.random.Generator) -> str:
    words = name.split()
    return " ".join([*(f"{w[0]}." for w in words[:-1]), words[-1]]) if _is_proper(name) else ""


def _acronym(name: str, rng: np.random.Generator) -> str:
    capitals = "".join(word[0] for word in name.split() if word[0].isupper())
    return capitals if 2 <= len(capitals) <= 5 else ""


def _word_left_out(name: str, rng: np.random.Generator) -> str:
    words = name.split()
    if len(words) < 3:
        return ""
    del words[int(rng.integers(len(words)))]
    return " ".join(words)


def _other_case(name: str, rng: np.random.Generator) -> str:
    return name.lower() if rng.random() < 0.5 else name.upper()


def _is_proper(name: str) -> bool:
    words = name.split()
    return 2 <= len(words) <= 4 and all(word[0].isupper() for word in words)


_RULES: tuple[Callable[[str, np.random.Generator], str], ...] = (
    _without_appendix,
    _last_word,
    _first_word,
    _initials_and_last,
    _acronym,
    _word_left_out,
    _other_case,
)

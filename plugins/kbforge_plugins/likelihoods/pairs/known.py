"""Lexical knowledge about names: nicknames, legal forms, abbreviations, acronyms, numbers.

The kernel reads a folded name once into sets of its words and parts, and compares words of pairs of
names; parts, legal forms and numbers are compared only if both names have them (`known.cpp`).
Nicknames and legal forms come from `known.json`, which names its sources.

The *parts* of "institute of physics, university of oslo" are its heads, before a separator, and its
tails, after one. Separators are a comma, a bracket, a colon, a dash between spaces, and small words
such as "of". A part is compared by its *core*: its letters, without small words and without legal
forms at either end.

A word that only one of two names has is *unexplained*, unless a word of the other is similar,
abbreviates it or is abbreviated by it, or is its nickname, or the other's words make it up as an
acronym.
"""

from __future__ import annotations

import json
from functools import lru_cache
from importlib.resources import files
from itertools import chain

import numpy as np

from kbforge.kernel.binding import address, kernel_library
from kbforge.numerics import starts_of
from kbforge_plugins.likelihoods.pairs.bags import Strings
from kbforge_plugins.likelihoods.pairs.table import SMALL

KNOWN_FEATURES = (
    *("name nicknames agree", "name short forms"),
    *("name words unexplained least", "name words unexplained most"),
    *("name core equal", "name legal forms agree", "name acronym of part"),
    *("name is head", "name is tail", "name part shared", "name numbers agree"),
)
_SILENT = sorted({word for word in SMALL if len(word) > 1} | {"das", "die", "il", "las", "los"})
"""Words that are no part of a core."""


@lru_cache(maxsize=1)
def known_tables() -> int:
    """Address of the kernel's tables, which live as long as the process."""
    text = files("kbforge_plugins.likelihoods.pairs").joinpath("known.json").read_text("utf-8")
    told = json.loads(text)
    long: dict[str, set[str]] = {}
    for name, nicknames in told["nicknames"].items():
        for one in (name, *nicknames):
            long.setdefault(one, {one}).add(name)
    place = {name: at for at, name in enumerate(long)}
    starts = starts_of(list(map(len, long.values())))
    numbers = np.array([place[name] for name in chain.from_iterable(long.values())], np.int32)
    texts = [Strings.of(some) for some in (told["legal forms"], _SILENT, list(long))]
    handle: int = kernel_library().kb_known_new(
        *chain.from_iterable((len(some), *some.addresses) for some in texts),
        *(address(starts), address(numbers)),
    )
    return handle

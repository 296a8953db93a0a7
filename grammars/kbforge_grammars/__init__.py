"""Grammar files of language models, shipped as package data.

A grammar says which texts a language model may assign probability to: rules over literals and
quoted strings (`kbforge_lm.grammar.rules` gives the notation). It is regular, as what is compiled
from it is a finite table. It has the name of the serializer whose texts it describes. Laws:

1. The text of every set of fragments that have properties is accepted, and its tokens give the
   text back.
2. Wherever a text can go on, at least two tokens are legal.
3. Whatever is sampled from legal tokens, until a text may end, is accepted and is well-formed
   UTF-8.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files

from kbforge.errors import GrammarError, quoted

VERSIONS: Mapping[str, int] = {"canonical-json": 1, "flat-json": 1}
"""By name: raised whenever the rules change meaning; a model's bundle names it."""


@dataclass(frozen=True, slots=True)
class Grammar:
    """The content of a grammar file, and its name and version."""

    name: str  # also of the serializer
    version: int
    rules: str


def grammar(name: str) -> Grammar:
    """The grammar of that name; a GrammarError if there is none."""
    if name not in VERSIONS:
        known = ", ".join(VERSIONS)
        raise GrammarError(f'there is no grammar "{quoted(name)}", expected one of {known}')
    rules = files(__name__).joinpath(f"{name}.grammar").read_text(encoding="utf-8")
    return Grammar(name, VERSIONS[name], rules)

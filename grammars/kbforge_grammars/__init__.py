"""Grammar files of language models, shipped as package data."""

from __future__ import annotations

from importlib.resources import files

from kbforge.contracts import Grammar


def canonical_json() -> Grammar:
    """Sets of fragments as canonical JSON: attribute -> list of strings."""
    return _grammar("canonical-json", version=1, serializer="canonical-json")


def flat_json() -> Grammar:
    """Sets of flat records: attribute -> string, an attribute of several values repeated."""
    return _grammar("flat-json", version=1, serializer="flat-json")


def _grammar(name: str, version: int, serializer: str) -> Grammar:
    rules = files(__name__).joinpath(f"{name}.grammar").read_text(encoding="utf-8")
    return Grammar(name, version, serializer, rules)

"""The data of a language model: training and validation entities, and training sets.

Per entity min(5, n) sets are drawn, each of a size uniform in 1..min(100, n), without replacement
(the published rule). Two options of recipes, off by default, make up for entities that were seen
once, under one name:

- *views*: a fragment is replaced by a few partial views of it, each with the name and some of the
  other attributes: the same entity, as different documents would have shown it.
- *variants*: a view's name is replaced by another way to write it: surname or first word alone,
  initials, acronym, without a word, without the part in parentheses or after a comma, in another
  case. These are rules of thumb for names in scripts with capitals; other names stay as they are.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from kbforge.contracts import Fragment
from kbforge.errors import KBForgeError
from kbforge_lm.likelihoods.gpt.model import LanguageModel

_APPENDIX = re.compile(r"\s*(?:\([^)]*\)|,.*)\s*\Z")


def variant(name: str, rng: np.random.Generator) -> str:
    """Another way to write a name, at random."""
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


_MOST_VIEWS = 4
_KEEP_ATTRIBUTE = 0.5

Entity = Sequence[Fragment]


@dataclass(frozen=True, slots=True)
class SetRule:
    """How sets are drawn."""

    draws: int = 5  # maximum sets of an entity
    largest: int = 100  # maximum fragments of a set
    views: float = 0.0  # probability that a fragment of a set is replaced by partial views
    variants: float = 0.0  # probability that a view's name is written another way


def by_entity(fragments: Iterable[Fragment]) -> tuple[list[Entity], int]:
    """Fragments by label, in order of first appearance, or alone; and how many had no label."""
    entities: dict[object, list[Fragment]] = {}
    unlabelled = 0
    for fragment in fragments:
        if fragment.label is None:
            unlabelled += 1
        key = (unlabelled,) if fragment.label is None else fragment.label
        entities.setdefault(key, []).append(fragment)
    return list(entities.values()), unlabelled


def draw(entity: Entity, rule: SetRule, rng: np.random.Generator) -> list[list[Fragment]]:
    """The training sets of one entity."""
    n = len(entity)
    sets = []
    for _ in range(min(rule.draws, n)):
        size = int(rng.integers(1, min(rule.largest, n) + 1))
        chosen = [entity[i] for i in rng.choice(n, size, replace=False)]
        sets.append([view for f in chosen for view in viewed(f, rule, rng)])
    return sets


def viewed(fragment: Fragment, rule: SetRule, rng: np.random.Generator) -> list[Fragment]:
    """The fragment, or partial views that replace it."""
    if rng.random() >= rule.views:
        return [fragment]
    return [_view(fragment, rule, rng) for _ in range(int(rng.integers(1, _MOST_VIEWS + 1)))]


def _view(fragment: Fragment, rule: SetRule, rng: np.random.Generator) -> Fragment:
    names = fragment.properties.get("name", ())
    kept = {
        attribute: values
        for attribute, values in fragment.properties.items()
        if attribute != "name" and rng.random() < _KEEP_ATTRIBUTE
    }
    if names:
        kept["name"] = tuple(
            variant(name, rng) if rng.random() < rule.variants else name for name in names
        )
    return replace(fragment, properties=kept or fragment.properties)


# share and number of entities without a validation file: 2 %, more of few, but never too many
_HELD_OUT, _MOST_PART_HELD_OUT = 0.02, 0.1
_ENOUGH_HELD_OUT, _MOST_HELD_OUT = 100, 1_000


@dataclass(frozen=True, slots=True)
class Data:
    """What a run learns from, validates on and is calibrated on, and the first model."""

    train: Sequence[Fragment]
    dev: Sequence[Fragment] | None = None
    calibration: Sequence[Fragment] | None = None
    start: LanguageModel | None = None


@dataclass(frozen=True, slots=True)
class Examples:
    """The data of a run."""

    fragments: list[Fragment]  # with properties
    unlabelled: int  # how many of them
    entities: list[Entity]  # to learn from
    held_out: list[Entity]  # to validate on


def examples_of(data: Data, seed: int, say: Callable[[str], None]) -> Examples:
    """Group the fragments by entity and hold some out, which the seed chooses.

    `say` is told if the labels teach nothing about co-reference.

    Raises:
        KBForgeError: there is nothing to learn from, to validate on or to calibrate on.
    """
    fragments = _readable(data)
    everyone, unlabelled = by_entity(fragments)
    entities, held_out = hold_out(everyone, data.dev, seed)
    if warning := _warning(everyone, len(fragments), unlabelled):
        say(warning)
    return Examples(fragments, unlabelled, entities, held_out)


def _readable(data: Data) -> list[Fragment]:
    """The fragments to learn from; all data are checked before the work."""
    readable = [fragment for fragment in data.train if fragment.properties]
    if not readable:
        raise KBForgeError("no fragment has properties: there is nothing to learn from")
    if data.dev is not None and not any(f.properties for f in data.dev):
        raise KBForgeError("no fragment to validate on has properties")
    if data.calibration is not None:
        if all(f.label is None for f in data.calibration):
            raise KBForgeError("no fragment to calibrate on has a label")
        if not any(f.properties for f in data.calibration if f.label is not None):
            raise KBForgeError("no labelled fragment to calibrate on has properties")
    return readable


def _warning(entities: Sequence[Entity], n_fragments: int, unlabelled: int) -> str:
    """A warning of what the labels cannot teach."""
    unknown = (
        "the model does not learn which observations belong to one entity (co-reference), "
        "only what entities look like"
    )
    if unlabelled == n_fragments:
        return f"warning: no fragment has a label: {unknown}"
    if all(len(entity) == 1 for entity in entities):
        return f"warning: no entity has two fragments: {unknown}"
    if unlabelled:
        return (
            f"warning: {unlabelled:,} of {n_fragments:,} fragments have no label: each is read as "
            f"an entity of its own, which teaches nothing about co-reference"
        )
    return ""


def hold_out(
    entities: list[Entity], dev: Sequence[Fragment] | None, seed: int
) -> tuple[list[Entity], list[Entity]]:
    """(to learn from, to validate on)."""
    if dev is not None:
        return entities, by_entity(f for f in dev if f.properties)[0]
    of_few = min(int(len(entities) * _MOST_PART_HELD_OUT), _ENOUGH_HELD_OUT)
    n = min(max(int(len(entities) * _HELD_OUT), of_few), _MOST_HELD_OUT)
    chosen = set(np.random.default_rng(seed).permutation(len(entities))[:n].tolist())
    kept = [entity for number, entity in enumerate(entities) if number not in chosen]
    return kept, [entities[number] for number in sorted(chosen)]

"""Training sets: which fragments of an entity a language model reads together.

Per entity min(5, n) sets are drawn, each of a size uniform in 1..min(100, n), without replacement
(the published rule). Two variants, off unless a recipe turns them on, stand for what the rule
cannot draw where an entity was seen once, under one name:

- *views*: a fragment is replaced by a few partial views of it, each with the name and some of the
  other attributes: the same entity, as different documents would have shown it.
- *variants*: a view's name is replaced by another way to write it (`name_variants`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from kbforge.contracts import Fragment
from kbforge_training.lm.name_variants import variant

_MOST_VIEWS = 4
_KEEP_ATTRIBUTE = 0.5

Entity = Sequence[Fragment]


@dataclass(frozen=True, slots=True)
class SetRule:
    """How sets are drawn.

    Attributes:
        draws: most sets an entity gives.
        largest: most fragments of a set.
        views: probability that a fragment of a set is replaced by partial views.
        variants: probability that a view's name is written another way.

    """

    draws: int = 5
    largest: int = 100
    views: float = 0.0
    variants: float = 0.0


def by_entity(fragments: Iterable[Fragment]) -> tuple[list[Entity], int]:
    """Fragments grouped by label, in order of first appearance; and how many had no label.

    A fragment without a label is an entity of its own.
    """
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

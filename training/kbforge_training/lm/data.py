"""What a language model learns from, and the entities that are held out to validate on."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from kbforge.contracts import Fragment
from kbforge.errors import KBForgeError
from kbforge_plugins.likelihoods.gpt.model import LanguageModel
from kbforge_training.lm.sets import Entity, by_entity

# of the entities, when no validation file is given: 2 %, more of few, but never too many
_HELD_OUT, _MOST_PART_HELD_OUT = 0.02, 0.1
_ENOUGH_HELD_OUT, _MOST_HELD_OUT = 100, 1_000


@dataclass(frozen=True, slots=True)
class Data:
    """What a run learns from, validates on and is calibrated on, and a model to begin with."""

    train: Sequence[Fragment]
    dev: Sequence[Fragment] | None = None
    calibration: Sequence[Fragment] | None = None
    start: LanguageModel | None = None


@dataclass(frozen=True, slots=True)
class Examples:
    """The data as a run takes it.

    Attributes:
        fragments: those that have properties.
        unlabelled: how many of them have no label.
        entities: to learn from.
        held_out: to validate on.

    """

    fragments: list[Fragment]
    unlabelled: int
    entities: list[Entity]
    held_out: list[Entity]


def examples_of(data: Data, seed: int, say: Callable[[str], None]) -> Examples:
    """Group the fragments by entity and hold some entities out.

    Args:
        data: as the user gave it.
        seed: of what is held out.
        say: called with a sentence if the labels teach nothing about co-reference.

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
    """The fragments to learn from; every complaint about data comes before the work."""
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
    """What the model will not have learned, if the labels cannot teach it."""
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

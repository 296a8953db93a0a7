"""Samples hard test sets: entities that share a name, like REBEL-50 and REBEL-200.

A uniform sample of entities is easy to cluster, because few of them are alike. The recipe (paper,
appendix D.2.1): two entities are *confusing* if some fragment of each has the same name (exact,
case-sensitive). Groups of 2 to 5 entities are drawn, a seed and entities confusing with it, each
entity with at most 50 of its fragments, until a split has the wanted number of entities. A group
goes into one split as a whole, and no entity is in two groups.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import orjson

from kbforge.contracts.fragment import Fragment
from kbforge.errors import KBForgeError, UsageError, quoted
from kbforge.files.fragments import write_fragments
from kbforge.files.io import open_output

_SMALLEST_GROUP, _LARGEST_GROUP = 2, 5


@dataclass(frozen=True, slots=True)
class Split:
    """One test set: `groups` of entities (the seed first) and their fragments, shuffled."""

    name: str
    groups: tuple[tuple[str, ...], ...]
    fragments: tuple[Fragment, ...]

    @property
    def entities(self) -> int:
        return sum(len(group) for group in self.groups)


def sample_confusable(
    fragments: Iterable[Fragment],
    entities: int,
    splits: Sequence[str] = ("train", "dev", "test"),
    max_fragments: int = 50,
    seed: int = 0,
) -> list[Split]:
    """Draw splits of confusable entities from labelled fragments, which are held in memory."""
    _check(entities, splits, max_fragments)
    rng = random.Random(seed)
    by_entity: dict[str, list[Fragment]] = {}
    for fragment in fragments:
        if fragment.label is not None:
            by_entity.setdefault(fragment.label, []).append(fragment)
    if not by_entity:
        raise KBForgeError("expected fragments with a label, got none that has one")
    pool = _Pool(_confusing(by_entity), rng)
    return [
        _split(name, pool.groups(entities, name), by_entity, max_fragments, rng) for name in splits
    ]


def write_splits(splits: Sequence[Split], folder: Path) -> None:
    """Write `<split>.jsonl` for each split and `groups.json` ({split: [[entity, ...], ...]})."""
    try:
        folder.mkdir(exist_ok=True)
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise KBForgeError(f"cannot write {quoted(str(folder), 400)}: {reason}") from error
    for split in splits:
        write_fragments(split.fragments, folder / f"{split.name}.jsonl")
    with open_output(str(folder / "groups.json")) as out:
        groups = {split.name: split.groups for split in splits}
        out.write(orjson.dumps(groups, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE))


def _check(entities: int, splits: Sequence[str], max_fragments: int) -> None:
    if entities < _SMALLEST_GROUP:
        raise UsageError(f"entities: expected at least {_SMALLEST_GROUP}, got {entities}")
    if max_fragments < 1:
        raise UsageError(f"max-fragments: expected at least 1, got {max_fragments}")
    plain = all(name and all(c.isalnum() or c in "-_" for c in name) for name in splits)
    if not plain or not splits or len(set(splits)) < len(splits):
        listed = quoted(",".join(splits))
        raise UsageError(f'splits: expected distinct names of letters and digits, got "{listed}"')
    if "groups" in splits:
        raise UsageError('splits: "groups" is the name of the file of groups')


def _confusing(by_entity: Mapping[str, Sequence[Fragment]]) -> dict[str, list[str]]:
    """The entities that share a name with each entity; those without any are left out."""
    bearers: dict[str, dict[str, None]] = {}
    for entity, fragments in by_entity.items():
        for fragment in fragments:
            for name in fragment.names:
                bearers.setdefault(name, {})[entity] = None
    confusing: dict[str, set[str]] = {}
    for shared in bearers.values():
        if len(shared) > 1:
            for entity in shared:
                confusing.setdefault(entity, set()).update(shared)
    # sorted, because the order of a set of strings differs from run to run
    return {entity: sorted(confusing[entity] - {entity}) for entity in sorted(confusing)}


class _Pool:
    """The confusable entities that no group has taken yet."""

    def __init__(self, confusing: Mapping[str, Sequence[str]], rng: random.Random) -> None:
        self._confusing, self._rng = confusing, rng
        self._taken: set[str] = set()
        self._seeds = list(confusing)
        rng.shuffle(self._seeds)

    def groups(self, entities: int, split: str) -> list[tuple[str, ...]]:
        """Disjoint groups of `entities` entities in all."""
        groups: list[tuple[str, ...]] = []
        missing = entities
        for seed in self._seeds:
            if not missing:
                break
            free = [other for other in self._confusing[seed] if other not in self._taken]
            size = 0 if seed in self._taken else self._size(len(free) + 1, missing)
            if size:
                group = (seed, *self._rng.sample(free, size - 1))
                self._taken.update(group)
                groups.append(group)
                missing -= size
        if missing:
            raise KBForgeError(
                f"split {split}: expected {entities} entities in groups that share a name, got "
                f"{entities - missing} before the {len(self._confusing)} confusable entities "
                f"ran out; ask for fewer entities or splits"
            )
        return groups

    def _size(self, available: int, missing: int) -> int:
        """A group's size that leaves no single entity over, or 0 if there is none."""
        largest = min(_LARGEST_GROUP, available, missing)
        sizes = [n for n in range(_SMALLEST_GROUP, largest + 1) if missing - n != 1]
        return self._rng.choice(sizes) if sizes else 0


def _split(
    name: str,
    groups: Sequence[tuple[str, ...]],
    by_entity: Mapping[str, Sequence[Fragment]],
    max_fragments: int,
    rng: random.Random,
) -> Split:
    chosen: list[Fragment] = []
    for entity in (entity for group in groups for entity in group):
        fragments = by_entity[entity]
        chosen += rng.sample(list(fragments), min(max_fragments, len(fragments)))
    rng.shuffle(chosen)
    return Split(name, tuple(groups), tuple(chosen))

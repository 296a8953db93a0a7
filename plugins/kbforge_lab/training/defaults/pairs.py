"""Trains the pair model that ships, and models without some families for evaluation.

    python -m kbforge_lab.training.defaults.pairs DATA OUT

writes `pairs.safetensors`, and the same below `without/FAMILY`: a model for the fragments of a
file, and one for those of tables that are linked. It prints the area under the curve and the log
loss (nats a pair) of the models that have not seen a family; families that never train are judged
by the shipped models.

Families weigh the same, and so do the files of a family. A model learns from the pairs of rows that
it will be asked about: the candidates of the file, and each row with itself where several fragments
state the same. The target of two rows is the share of their fragments' pairs that are of one
entity.

The log odds of a file are the mean of four views: two learn from files of 150 to 600 fragments, two
also from larger ones, up to the family's own files; one of each two reads neither a pair's standing
among others nor what the file is like. All learn from a third of the small files in other shapes,
too, which count for at most a third of their family (`kbforge_lab.training.defaults.shapes`). The
model of linked tables learns from tables without duplicates that are drawn from resampled and large
files.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import partial
from itertools import chain
from math import ceil
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from kbforge.contracts import FloatArray, Fragment, IntArray
from kbforge.models.boosting import averaged, fit_trees
from kbforge.models.bundle import list_defaults
from kbforge.models.trees import Trees
from kbforge_lab.pool import in_processes
from kbforge_lab.training.defaults.families import (
    FAMILIES,
    Family,
    family_named,
    fold_of,
    large,
    resampled,
    vast,
    whole,
)
from kbforge_lab.training.defaults.shapes import linked, shaped
from kbforge_plugins.likelihoods.pairs.file import (
    FEATURES,
    FILE_FEATURES,
    ODDS_STANDING_FEATURES,
    STANDING_FEATURES,
    File,
)
from kbforge_plugins.likelihoods.pairs.likelihood import model_bytes
from kbforge_plugins.likelihoods.pairs.odds import MODEL
from kbforge_plugins.likelihoods.pairs.table import statement_of

FILES, SEED = 12, 1
ROUNDS = 120
PARAMETERS: Mapping[str, Any] = {
    "objective": "cross_entropy",
    "learning_rate": 0.12,
    "num_leaves": 31,
    "min_data_in_leaf": 100,
    "lambda_l2": 5.0,
    "feature_fraction": 0.4,
    "bagging_fraction": 0.5,
    "bagging_freq": 1,
    "max_bin": 63,
}
SEEDS = (1, 2)
"""Of the ensembles of a view, which are averaged."""
_MOST_PAIRS = 1500
_MOST_PAIRS_OF_MANY = 4000  # of a file of more fragments
MOST_WHOLE = 60_000  # fragments of a file that is taken as it is
_MOST_PAIRS_OF_SHAPE = 500
_MOST_OF_SHAPES = 1 / 3
"""Of a family's weight."""
TABLES = 4
"""For so many resampled files there is a resampled and a large one as linked tables."""


@dataclass(frozen=True, slots=True)
class TrainingPairs:
    """Pairs of one file: features [pairs, features] and targets [pairs]."""

    rows: NDArray[np.float32]
    targets: FloatArray


@dataclass(frozen=True, slots=True)
class FamilyPairs:
    """The files of a family: as they were drawn, of many fragments, in other shapes, and as linked
    tables."""

    plain: list[TrainingPairs]
    many: list[TrainingPairs]
    shaped: list[TrainingPairs]
    linked: list[TrainingPairs]


def pairs_of(
    fragments: Sequence[Fragment], seed: int, most: int = _MOST_PAIRS, link: str | None = None
) -> TrainingPairs:
    """The pairs of a labelled file that a model is asked about, at most so many of them."""
    file, candidates = File.fitted(fragments, link)
    pairs = candidates
    if link is None:
        # rows that several fragments state are scored with themselves, too
        own = np.flatnonzero(file.counts > 1)
        pairs = np.concatenate([pairs, np.stack([own, own], axis=1)])
    if len(pairs) > most:
        chosen = np.random.default_rng(seed).choice(len(pairs), most, replace=False)
        pairs = pairs[np.sort(chosen)]
    i, j = pairs.T
    rows = file.describe(file.rows, i, file.rows, j).astype(np.float32)
    return TrainingPairs(rows, _targets(fragments, file, i, j, link))


def _targets(
    fragments: Sequence[Fragment], file: File, i: IntArray, j: IntArray, link: str | None
) -> FloatArray:
    labels: list[Counter[str | None]] = [Counter() for _ in file.counts]
    for fragment in fragments:
        row = file.row(statement_of(fragment, link))
        assert row is not None, "a statement of the file has a row"
        labels[row][fragment.label] += 1
    out = []
    for x, y in zip(i.tolist(), j.tolist(), strict=True):
        one, other, same = labels[x], labels[y], x == y
        together = sum(n * (other[label] - same) for label, n in one.items())
        out.append(together / (one.total() * (other.total() - same)))
    return np.array(out, dtype=np.float64)


Weighted: TypeAlias = Iterator[tuple[TrainingPairs, float]]


def in_all_shapes(family: FamilyPairs) -> Weighted:
    """Plain files and shapes, together 1."""
    yield from _weighted(family.plain, family.shaped)


def of_any_size(family: FamilyPairs) -> Weighted:
    """The same with files of many fragments."""
    yield from _weighted([*family.plain, *family.many], family.shaped)


def _weighted(plain: Sequence[TrainingPairs], shaped: Sequence[TrainingPairs]) -> Weighted:
    """A shape weighs no more than a plain file, and all of them no more than their share."""
    of_shapes = _MOST_OF_SHAPES / (1 - _MOST_OF_SHAPES) * len(plain)
    each = min(1.0, of_shapes / max(len(shaped), 1))
    total = len(plain) + each * len(shaped)
    yield from ((pairs, 1.0 / total) for pairs in plain)
    yield from ((pairs, each / total) for pairs in shaped)


def as_tables(family: FamilyPairs) -> Weighted:
    """The linked tables, all of one weight, together 1."""
    yield from ((pairs, 1.0 / len(family.linked)) for pairs in family.linked)


View: TypeAlias = tuple[Callable[[FamilyPairs], Weighted], Collection[str]]
"""The files that a view learns from, and the features that it does not read."""
_OF_THE_FILE = (*STANDING_FEATURES, *ODDS_STANDING_FEATURES, *FILE_FEATURES)
VIEWS: tuple[View, ...] = (
    *((in_all_shapes, unread) for unread in ((), _OF_THE_FILE)),
    *((of_any_size, unread) for unread in ((), _OF_THE_FILE)),
)
TABLE_VIEWS: tuple[View, ...] = ((as_tables, ()),)


def fitted(families: Sequence[FamilyPairs], views: Sequence[View] = VIEWS) -> Trees:
    """The trees of some families, each of the same weight: the mean of the views' log odds."""
    return averaged([_fitted(families, *view, seed) for view in views for seed in SEEDS])


def _fitted(
    families: Sequence[FamilyPairs],
    files_of: Callable[[FamilyPairs], Weighted],
    unread: Collection[str],
    seed: int,
) -> Trees:
    files = [file for family in families for file in files_of(family)]
    weights = np.concatenate(
        [np.full(len(pairs.targets), w / max(len(pairs.targets), 1)) for pairs, w in files]
    )
    rows = np.concatenate([pairs.rows for pairs, _ in files])
    # a tree does not ask for what is never there
    rows[:, [FEATURES.index(name) for name in unread]] = np.nan
    targets = np.concatenate([pairs.targets for pairs, _ in files])
    scaled = weights * (len(weights) / weights.sum())
    return fit_trees(FEATURES, rows, targets, {**PARAMETERS, "seed": seed}, ROUNDS, scaled)


def figures(trees: Trees, files: Sequence[TrainingPairs]) -> dict[str, float]:
    """Means over files: area under the curve, log loss in nats, share of pairs that are one."""
    found = []
    for pairs in files:
        log_odds = trees.predict(pairs.rows)
        loss = np.logaddexp(0.0, log_odds) - pairs.targets * log_odds
        found.append((_area(log_odds, pairs.targets), float(loss.mean()), pairs.targets.mean()))
    area, loss, rate = np.nanmean(np.array(found, dtype=np.float64), axis=0)
    return {
        "area": round(float(area), 4),
        "log_loss": round(float(loss), 4),
        "rate": round(float(rate), 4),
        "pairs": sum(len(pairs.targets) for pairs in files),
    }


def _area(log_odds: FloatArray, targets: FloatArray) -> float:
    """The probability that a pair of one entity ranks above one of two; NaN without both."""
    one = targets > 0.5
    n, m = int(one.sum()), int((~one).sum())
    if not n or not m:
        return float("nan")
    _, place, count = np.unique(log_odds, return_inverse=True, return_counts=True)
    ranks = np.cumsum(count) - (count - 1) / 2
    return float((ranks[place][one].sum() - n * (n + 1) / 2) / (n * m))


def train(root: Path, out: Path, count: int, only: Sequence[str] = ()) -> Iterator[dict[str, Any]]:
    """Write the models, and give the figures of each family as they are known.

    Files in other shapes and linked tables have figures of their own.
    """
    kept = all_examples(root, out / "pairs", count)
    left = {fold_of(family.name) for family in FAMILIES if not only or family.name in only}
    folds = [(), *sorted(left - {()})]
    models = dict(zip(folds, in_processes(partial(_fitted_without, kept), folds), strict=True))
    write(out / MODEL, models[()])
    for family in FAMILIES:
        if only and family.name not in only:
            continue
        fold, of_family = fold_of(family.name), _read_examples(kept[family.name])
        if fold:
            write(out / "without" / family.name / MODEL, models[fold])
        line = {"family": family.name, "ships": family.ships}
        line |= figures(models[fold][0], of_family.plain)
        line["many"] = figures(models[fold][0], of_family.many) if of_family.many else None
        line["shapes"] = figures(models[fold][0], of_family.shaped) if of_family.shaped else None
        line["tables"] = figures(models[fold][1], of_family.linked)
        yield line


def _fitted_without(kept: Mapping[str, Path], fold: Collection[str]) -> tuple[Trees, Trees]:
    """A model of fragments and one of tables, of all families that ship but these."""
    ships = [family.name for family in FAMILIES if family.ships and family.name not in fold]
    some = [_read_examples(kept[name]) for name in ships]
    return fitted(some), fitted(some, TABLE_VIEWS)


def write(place: Path, models: tuple[Trees, Trees]) -> None:
    """Write a model of fragments and tables, and list it in its folder."""
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_bytes(model_bytes(*models))
    list_defaults(place.parent)


def all_examples(root: Path, kept: Path, count: int) -> dict[str, Path]:
    """Where the pairs of every family are: in the folder `kept`, where a run may have left them."""
    kept.mkdir(parents=True, exist_ok=True)
    keep = partial(_kept_examples, root, kept, count)
    names = [family.name for family in FAMILIES]
    return dict(zip(names, in_processes(keep, names), strict=True))


def _kept_examples(root: Path, kept: Path, count: int, name: str) -> Path:
    """Where the pairs of a family are, which are drawn unless they are there."""
    path = kept / f"{name}-{count}.npz"
    if path.is_file():
        return path
    found = examples(root, family_named(name), count)
    arrays = {
        f"{kind.name} {number} {part.name}": getattr(pairs, part.name)
        for kind in fields(FamilyPairs)
        for number, pairs in enumerate(getattr(found, kind.name))
        for part in fields(TrainingPairs)
    }
    part = path.with_suffix(".part")
    with part.open("wb") as file:
        np.savez_compressed(file, allow_pickle=False, **arrays)
    part.rename(path)
    return path


def _read_examples(path: Path) -> FamilyPairs:
    found = FamilyPairs([], [], [], [])
    with np.load(path, allow_pickle=False) as held:
        for key in held.files:
            kind, number, part = key.rsplit(" ", 2)
            if part == "rows":
                pairs = TrainingPairs(held[key], held[f"{kind} {number} targets"])
                getattr(found, kind).append(pairs)
    return found


def examples(root: Path, family: Family, count: int) -> FamilyPairs:
    """The pairs of a family's files, of so many resampled ones."""
    found = FamilyPairs([], [], [], [])
    for number, file in enumerate(resampled(root, family, count, SEED)):
        found.plain.append(pairs_of(file.fragments, number))
    several = ceil(count / TABLES)
    many = chain(
        large(root, family, several, SEED),
        vast(root, family, several, SEED),
        whole(root, family, MOST_WHOLE),
    )
    for number, file in enumerate(many):
        labelled = [fragment for fragment in file.fragments if fragment.label is not None]
        found.many.append(pairs_of(labelled, number, _MOST_PAIRS_OF_MANY))
    for number, shape in enumerate(shaped(root, family, count, SEED)):
        found.shaped.append(pairs_of(shape.fragments, number, _MOST_PAIRS_OF_SHAPE))
    drawn = chain(resampled(root, family, several, SEED), large(root, family, several, SEED + 200))
    for number, file in enumerate(drawn):
        tables = linked(file)
        if tables is not None:
            pairs = pairs_of(tables.fragments, number, link="source")
            if len(pairs.targets):
                found.linked.append(pairs)
    return found


if __name__ == "__main__":
    for figures_of_family in train(Path(sys.argv[1]), Path(sys.argv[2]), FILES):
        print(json.dumps(figures_of_family), flush=True)

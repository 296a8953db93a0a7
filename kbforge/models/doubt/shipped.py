"""The confidence maps that ship: trees that read a report beside what needs no label.

A map of the reported probability alone is good for the data that it was fitted on. On other data
the same report is true far more or far less often. So these maps read the covariates of
`kbforge.models.doubt.covariates`, too. They were fitted on many families of data, each of which
counts as much as the others. A folder holds them:

    doubt.toml                    what they were fitted on
    doubt.pairs.safetensors       log odds that two fragments are one entity
    doubt.entities.safetensors    log odds that a cluster is exactly an entity

The trees never descend in the reported log odds, all else equal. Within a subproblem claims keep
the order of their reports: where the trees would turn it round, both get their mean.

The maps know some likelihoods. Of another one the lower of report and map is told. Fragments that
have no properties are not covered at all.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files
from pathlib import Path

import numpy as np

from kbforge.contracts import FloatArray, IntArray
from kbforge.errors import ModelError, quoted
from kbforge.evaluation.monotone import isotonic
from kbforge.evaluation.reliability import Pairs
from kbforge.files.io import read_small
from kbforge.files.toml import read_table, toml_value
from kbforge.models.confidence import Reported
from kbforge.models.doubt.covariates import (
    OF_ENTITIES,
    OF_FILES,
    OF_PAIRS,
    Columns,
    entity_columns,
    file_columns,
    log_odds,
    pair_columns,
)
from kbforge.models.doubt.told import Told, told
from kbforge.models.trees import Trees, read_trees

FORMAT = 1
FACTS = "doubt.toml"
PAIRS = "doubt.pairs.safetensors"
ENTITIES = "doubt.entities.safetensors"
REPORTED = "reported"

_WRITER = "python -m kbforge_training.defaults.doubt"
_MOST_BYTES = 16 << 20
_AT_ONCE = 200_000  # pairs, whose covariates are held at one time


@dataclass(frozen=True, eq=False)
class Doubt:
    """The maps of a folder, for one likelihood.

    Attributes:
        pairs: log odds of pairs.
        entities: log odds of entities.
        likelihoods: names of those that they were fitted on.
        likelihood: the one in use.

    """

    pairs: Trees
    entities: Trees
    likelihoods: tuple[str, ...]
    likelihood: str

    def of_entities(self, reported: Reported) -> FloatArray:
        """As `kbforge.models.confidence.Reading`."""
        entities = reported.entities
        said = told(reported.fragments)
        rows = rows_of(
            self.entities.features,
            entities.probability,
            entity_columns(said, entities),
            file_columns(said, entities, reported.predicted),
        )
        return self._ordered(entities.probability, self.entities.predict(rows), entities.subproblem)

    def of_pairs(self, reported: Reported, pairs: Pairs) -> FloatArray:
        """As `kbforge.models.confidence.Reading`."""
        said = told(reported.fragments)
        whole = file_columns(said, reported.entities, reported.predicted)
        sums = np.empty(len(pairs))
        for start in range(0, len(pairs), _AT_ONCE):
            part = slice(start, start + _AT_ONCE)
            sums[part] = self._sums_of_pairs(said, pairs.part(part), whole)
        return self._ordered(pairs.probability, sums, pairs.subproblem)

    def _sums_of_pairs(self, said: Told, pairs: Pairs, whole: dict[str, float]) -> FloatArray:
        columns = pair_columns(said, pairs)
        return self.pairs.predict(rows_of(self.pairs.features, pairs.probability, columns, whole))

    def _ordered(
        self, probability: FloatArray, sums: FloatArray, subproblem: IntArray
    ) -> FloatArray:
        calibrated = 1 / (1 + np.exp(-sums))
        if self.likelihood not in self.likelihoods:
            calibrated = np.minimum(calibrated, probability)
        return in_order(probability, calibrated, subproblem)


def rows_of(
    features: tuple[str, ...], probability: FloatArray, columns: Columns, whole: dict[str, float]
) -> FloatArray:
    """Covariates as rows, shape [claims, features].

    Args:
        features: names of the columns wanted.
        probability: reported, of each claim.
        columns: covariates of each claim.
        whole: covariates of the file.

    """
    rows = np.empty((len(probability), len(features)))
    for number, name in enumerate(features):
        if name == REPORTED:
            rows[:, number] = log_odds(probability)
        else:
            rows[:, number] = columns[name] if name in columns else whole[name]
    return rows


def in_order(probability: FloatArray, calibrated: FloatArray, subproblem: IntArray) -> FloatArray:
    """Calibrated probabilities that never descend in the reported ones within a subproblem.

    Args:
        probability: reported, shape [claims].
        calibrated: of each of them.
        subproblem: number of each one's.

    """
    order = np.lexsort((calibrated, probability, subproblem))
    sorted_ones, number = calibrated[order], subproblem[order]
    begins = np.flatnonzero(np.diff(number, prepend=-1))
    ends = np.append(begins[1:], len(order))
    turned = (np.diff(sorted_ones, append=np.inf) < 0) & (np.diff(number, append=-1) == 0)
    for place in np.unique(np.searchsorted(begins, np.flatnonzero(turned), side="right") - 1):
        part = slice(begins[place], ends[place])
        sorted_ones[part] = isotonic(sorted_ones[part], np.ones(ends[place] - begins[place]))
    out = np.empty_like(calibrated)
    out[order] = np.clip(sorted_ones, 0.0, 1.0)
    return out


def facts_toml(likelihoods: tuple[str, ...], families: tuple[str, ...], fitted_on: int) -> bytes:
    """The content of `doubt.toml`.

    Args:
        likelihoods: whose reports the maps were fitted on.
        families: of data.
        fitted_on: how many files.

    """
    listed = [", ".join(map(toml_value, names)) for names in (likelihoods, families)]
    return (
        f"# Written by {_WRITER}.\n"
        f"format = {FORMAT}\nlikelihoods = [{listed[0]}]\nfamilies = [{listed[1]}]\n"
        f"files = {fitted_on}\n"
    ).encode()


def read_doubt(folder: Path, likelihood: str) -> Doubt:
    """The maps of a folder, for a likelihood.

    Raises:
        KBForgeError: a file is missing, damaged or names covariates that there are not.

    """
    top = read_table(str(folder / FACTS), "what confidence maps were fitted on", _WRITER)
    top.only("format", "likelihoods", "families", "files")
    top.version(FORMAT)
    return Doubt(
        _trees(folder / PAIRS, {REPORTED, *OF_PAIRS, *OF_FILES}),
        _trees(folder / ENTITIES, {REPORTED, *OF_ENTITIES, *OF_FILES}),
        top.texts("likelihoods"),
        likelihood,
    )


@lru_cache(maxsize=8)
def shipped_doubt(likelihood: str) -> Doubt | None:
    """The maps that ship, for a likelihood; None where none do, as before they are first trained.

    Raises:
        KBForgeError: they are damaged.

    """
    folder = Path(str(files("kbforge_plugins").joinpath("bundles/default")))
    return read_doubt(folder, likelihood) if (folder / FACTS).is_file() else None


def _trees(path: Path, known: set[str]) -> Trees:
    where = quoted(str(path), 400)
    found = read_trees(read_small(str(path), "a confidence map", _MOST_BYTES), where)
    for name in found.features:
        if name not in known:
            raise ModelError(
                f'{where}: expected covariates that this version has, got "{quoted(name)}" '
                f"({_WRITER} writes this file)"
            )
    return found

"""The confidence maps that ship: trees that read a report beside what needs no label.

A map of the reported probability alone is good for the data that it was fitted on. On other data
the same report is true far more or far less often. So these maps read the covariates of
`kbforge.fit.columns`, too. They were fitted on many families of data, each of which
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
from pathlib import Path

import numpy as np
from scipy.special import expit

from kbforge.contracts import FloatArray, IntArray
from kbforge.errors import ModelError, quoted
from kbforge.evaluation.monotone import isotonic
from kbforge.evaluation.reliability import Pairs
from kbforge.files.toml import table_of, toml_value
from kbforge.fit.columns import ENTITY_FEATURES, PAIR_FEATURES, Described
from kbforge.fit.confidence import Reported
from kbforge.fit.heard import Heard
from kbforge.models.defaults import default_folder, read_default
from kbforge.models.trees import Trees, read_trees

FORMAT = 1
FACTS = "doubt.toml"
PAIRS = "doubt.pairs.safetensors"
ENTITIES = "doubt.entities.safetensors"

_WRITER = "python -m kbforge_training.defaults.doubt"
_AT_ONCE = 200_000  # pairs, whose covariates are held at one time


@dataclass(frozen=True, eq=False)
class Doubt:
    """The maps of a folder, for one file.

    Attributes:
        pairs: log odds of pairs.
        entities: log odds of entities.
        likelihoods: names of those that they were fitted on.
        heard: the likelihood in use, and what else is known of the file.

    """

    pairs: Trees
    entities: Trees
    likelihoods: tuple[str, ...]
    heard: Heard

    def of_entities(self, reported: Reported) -> FloatArray:
        """As `kbforge.fit.confidence.Reading`."""
        entities = reported.entities
        rows = Described(reported, self.heard).entities(self.entities.features)
        return self._ordered(entities.probability, self.entities.predict(rows), entities.subproblem)

    def of_pairs(self, reported: Reported, pairs: Pairs) -> FloatArray:
        """As `kbforge.fit.confidence.Reading`."""
        described = Described(reported, self.heard)
        sums = np.empty(len(pairs))
        for start in range(0, len(pairs), _AT_ONCE):
            part = slice(start, start + _AT_ONCE)
            rows = described.pairs(self.pairs.features, pairs.part(part))
            sums[part] = self.pairs.predict(rows)
        return self._ordered(pairs.probability, sums, pairs.subproblem)

    def _ordered(
        self, probability: FloatArray, sums: FloatArray, subproblem: IntArray
    ) -> FloatArray:
        calibrated = expit(sums)  # NumPy's exp has other last bits on other processors
        if self.heard.likelihood not in self.likelihoods:
            calibrated = np.minimum(calibrated, probability)
        return in_order(probability, calibrated, subproblem)


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


def read_doubt(folder: Path, heard: Heard) -> Doubt:
    """The maps of a folder, for a file.

    Raises:
        KBForgeError: a file is missing, damaged or names covariates that there are not.

    """
    top = table_of(read_default(folder, FACTS), quoted(str(folder / FACTS), 400), _WRITER)
    top.only("format", "likelihoods", "families", "files")
    top.version(FORMAT)
    return Doubt(
        _trees(folder / PAIRS, {*PAIR_FEATURES}),
        _trees(folder / ENTITIES, {*ENTITY_FEATURES}),
        top.texts("likelihoods"),
        heard,
    )


def shipped_doubt(heard: Heard, defaults: str | None = None) -> Doubt:
    """The maps that ship, for a file.

    Args:
        heard: the likelihood in use, and what else is known of the file.
        defaults: a folder with other maps; those that ship are used if it has none.

    Raises:
        KBForgeError: they are damaged.

    """
    return read_doubt(default_folder(defaults, FACTS), heard)


def _trees(path: Path, known: set[str]) -> Trees:
    where = quoted(str(path), 400)
    found = read_trees(read_default(path.parent, path.name), where)
    for name in found.features:
        if name not in known:
            raise ModelError(
                f'{where}: expected covariates that this version has, got "{quoted(name)}" '
                f"({_WRITER} writes this file)"
            )
    return found

"""Models that `kbforge lab train-supervised` makes: what labelled fragments teach of new ones.

`scdp` samples by all of it (`kbforge_lab.scdp`). Any other clusterer is given L(C)
with one scatter for all entities (`models.supervised.scatter`), so that it takes such a model, too.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Self

import numpy as np

from kbforge.contracts import AdditiveLikelihood, FloatArray, Fragment
from kbforge.errors import LikelihoodError, UsageError, quoted
from kbforge.models.bundle import read_bundle
from kbforge.words import counted
from kbforge_lab.models.supervised import (
    Columns,
    Readings,
    Scaled,
    Scatter,
    Settings,
    Trained,
    from_bundle,
    scaled,
)

MOST_FRAGMENTS = 5000
"""That can be clustered at once: all pairs of them are looked at."""


class Supervised(AdditiveLikelihood):
    """What labelled fragments teach: which differences matter within an entity.

    A model is named by its folder, --likelihood MODEL, which kbforge lab train-supervised makes.
    """

    loads_bundles = True

    def __init__(self, model: str | None = None) -> None:
        """Take the options.

        Args:
            model: the folder; --likelihood FOLDER says the same.

        """
        if model is None:
            raise UsageError(
                "likelihood supervised needs a trained model: kbforge lab train-supervised makes "
                "one, and --likelihood FOLDER names it"
            )
        self._take(from_bundle(read_bundle(Path(model)), quoted(model, 400)))

    @classmethod
    def from_bundle(cls, path: Path, model: str | None = None) -> Self:
        """Load what `kbforge lab train-supervised` wrote."""
        if model is not None:
            raise UsageError("--likelihood FOLDER and --set likelihood.model name two models")
        return cls(str(path))

    @classmethod
    def of(cls, trained: Trained) -> Self:
        """A model that was just trained."""
        made = cls.__new__(cls)
        made._take(trained)
        return made

    def _take(self, trained: Trained) -> None:
        self._trained = trained
        self.default_alpha = 1.0
        self._row: dict[Readings, int] = {}
        self._columns: Columns | None = None
        self._data: Scaled | None = None
        self._scatter = Scatter(np.ones(1))

    @property
    def settings(self) -> Settings:
        """What training chose."""
        return self._trained.settings

    def fit(self, fragments: Sequence[Fragment]) -> str | None:
        """Embed the fragments, together with the labelled ones."""
        trained = self._trained
        if len(fragments) > MOST_FRAGMENTS:
            raise UsageError(
                f"a model of supervised clustering compares all pairs: expected at most "
                f"{MOST_FRAGMENTS:,} fragments, got {len(fragments):,}; kbforge train-attributes "
                "--labels makes a model for more"
            )
        n = len(trained.references)
        dimensions = trained.settings.dimensions
        everything = (*trained.references, *fragments)
        columns = Columns(everything, trained.compared, dimensions, trained.vectors)
        readings = [columns.readings(fragment) for fragment in fragments]
        if not any(vector or any(read) for read, vector in readings):
            listed = ", ".join(sorted({quoted(c.attribute) for c in trained.compared}))
            raise UsageError(f"no fragment has an attribute that the model compares ({listed})")
        values = columns.first(dimensions)
        self._columns = columns
        self._data = scaled(values[:n], np.array(trained.labels), values[n:])
        self._row = {reading: row for row, reading in enumerate(readings)}
        self._scatter = Scatter(self._data.within * trained.settings.factor)
        entities, new = len({*trained.labels}), counted(len(fragments), "fragment")
        return (
            f"supervised: {new} embedded beside {n:,} labelled ones of {entities:,} entities, "
            f"{values.shape[1]} columns of {counted(len(trained.compared), 'feature')}"
        )

    def vectors(self, fragments: Sequence[Fragment]) -> Scaled:
        """Labelled vectors and those of the fragments, on one scale."""
        rows = [self._row_of(fragment) for fragment in fragments]
        data = self._fitted(fragments[0])
        return Scaled(data.train, data.labels, data.test[rows], data.within)

    def statistics(self, fragment: Fragment) -> FloatArray:
        row = self._row_of(fragment)
        return self._scatter.statistics_of(self._fitted(fragment).test[row])

    def log_marginal_of(self, sums: FloatArray) -> FloatArray:
        return self._scatter.log_marginal_of(sums)

    def _row_of(self, fragment: Fragment) -> int:
        row = None if self._columns is None else self._row.get(self._columns.readings(fragment))
        if row is None:
            raise self._unknown(fragment)
        return row

    def _fitted(self, fragment: Fragment) -> Scaled:
        if self._data is None:
            raise self._unknown(fragment)
        return self._data

    @staticmethod
    def _unknown(fragment: Fragment) -> LikelihoodError:
        return LikelihoodError(
            f'expected a fragment that the model was fitted to, got "{quoted(fragment.id)}"; '
            "all fragments are embedded together, so cluster them in one run"
        )

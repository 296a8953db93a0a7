"""The index `projection`: vectors by cells of random projections.

A vector x is projected on random directions a with offsets b, and a cell consists of the integers

    floor(a . x / w + b),   a ~ Normal(0, 1) in each dimension, b ~ Uniform(0, 1)

of `rows` directions together (Datar, Immorlica, Indyk and Mirrokni, "Locality-sensitive hashing
scheme based on p-stable distributions", 2004). Two vectors at distance d share a cell of one
direction with probability

    p(d) = erf(t / sqrt 2) - sqrt(2 / pi) (1 - exp(-t^2 / 2)) / t,   t = w / d

and share one of `tables` cells with 1 - (1 - p^rows)^tables. This helps if near vectors belong
together and dimensions have comparable scales; `standardised` makes them comparable.

Clusters differ in width, so there are tables of several widths w, from the distance of the closest
neighbours in the file to that of isolated points. There are enough rows to keep most of the file
outside a cell. A cell with too many clusters is closed, and a finer one is used.

With `angles`, the cells are the signs of a . x alone, which two vectors at angle v share with
probability 1 - v / pi per direction (Charikar, "Similarity estimation techniques from rounding
algorithms", 2002). This suits vectors whose length does not matter, such as embeddings.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from scipy.special import erf

from kbforge.contracts import LearnedState
from kbforge.contracts.fragment import Fragment
from kbforge.contracts.index import IntArray
from kbforge.contracts.likelihood import FloatArray
from kbforge.errors import UsageError, require_least
from kbforge.indexes.hashed import (
    LARGEST,
    HashedIndex,
    Hashes,
    RandomDirections,
    located,
    mixed,
    ordinary,
    stacked,
)
from kbforge.models.bundle import KeptReader
from kbforge.numerics import starts_of

_MOST_TABLES = 512
_MOST_ROWS = 24
_LOOKED_AT = 10_000  # fragments among which neighbours are looked for
_MOST_NUMBERS = 1 << 23  # of these fragments' vectors
_NEIGHBOURS_OF = 500  # fragments of which the nearest is looked for
_SHARES = (0.1, 0.5, 0.9, 0.98)  # of the fragments that have a neighbour at the distance of a scale
_CELLS = 4.0  # width of a cell, in distances of the scale
_IN_CELL = 64  # fragments, or a sixteenth of all, that may fall into a cell by chance
_LARGEST_CELL = 2.0**62


class Projection(HashedIndex):
    """Keys by cells of random projections of a fragment's vector.

    Args:
        families: maximum number of families of clusters that a key leads to; a key with more is
            closed: it counts only for fragments without any other key that leads to a family.
        shared: minimum number of keys in common with a family of clusters, if any family has that
            many.
        compared: maximum number of families that a fragment is compared with, those with the most
            keys in common; 0 sets no limit.
        tables: L, the number of keys per fragment; with distances, a quarter for each of four
            widths.
        rows: K, directions per table; 0 chooses a number to suit the file.
        angles: whether only the angle counts, not the distance.
        standardised: whether each dimension is divided by the spread of its values in the file.
        seed: random seed of the directions.

    Raises:
        UsageError: a number out of range.

    """

    options = ("tables", "rows", "angles", "standardised", "seed")

    def __init__(
        self,
        families: int = 64,
        shared: int = 1,
        compared: int = 64,
        tables: int = 32,
        rows: int = 0,
        angles: bool = False,
        standardised: bool = True,
        seed: int = 0,
    ) -> None:
        require_least(1, "index projection: ", families=families, shared=shared)
        require_least(0, "index projection: ", compared=compared, seed=seed)
        if not 1 <= tables <= _MOST_TABLES or (tables % len(_SHARES) and not angles):
            raise UsageError(
                f"index projection: tables: expected 1 to {_MOST_TABLES}, a multiple of "
                f"{len(_SHARES)} unless by angles, got {tables}"
            )
        if not 0 <= rows <= _MOST_ROWS:
            raise UsageError(f"index projection: rows: expected 0 to {_MOST_ROWS}, got {rows}")
        self.families, self.shared, self.compared = families, shared, compared
        self.tables, self.rows, self.seed = tables, rows, seed
        self.angles, self.standardised = angles, standardised
        self._use(np.zeros(0), np.zeros(0), np.ones(1), np.full(1, rows or 1, dtype=np.int64))

    def _use(self, mean: FloatArray, scale: FloatArray, widths: FloatArray, rows: IntArray) -> None:
        self._mean, self._scale, self._widths, self._rows = mean, scale, widths, rows
        self._directions: dict[int, RandomDirections] = {}
        draws = np.random.Generator(np.random.PCG64([self.seed, 1]))
        self._offsets = draws.random((self.tables, _MOST_ROWS))

    def fit(self, fragments: Sequence[Fragment]) -> str | None:
        """Find the scales of the dimensions, the widths of cells and how many directions."""
        having = [f for f in fragments if f.vector is not None]
        if not having:
            return None
        draws = np.random.Generator(np.random.PCG64([self.seed, 2]))
        most = max(min(_LOOKED_AT, _MOST_NUMBERS // len(having[0].vector or ())), 2)
        some = [having[i] for i in draws.permutation(len(having))[:most].tolist()]
        vectors = stacked([f for f in some if len(f.vector or ()) == len(having[0].vector or ())])
        share = max(min(_IN_CELL / len(having), 1 / 16), 1e-6)
        if self.angles:
            dimensions = vectors.shape[1]
            apart = self._rows_for(1 - _angles(vectors) / math.pi, share)
            self._use(np.zeros(dimensions), np.ones(dimensions), np.ones(1), np.array([apart]))
            return None
        mean, scale = located(vectors, self.standardised)
        with np.errstate(over="ignore", invalid="ignore"):
            near, others = _distances(ordinary((vectors - mean) / scale))
        near = near[near > 0]
        widths = _CELLS * np.quantile(near, _SHARES) if len(near) else np.ones(len(_SHARES))
        rows = [self._rows_for(together_at(others, width), share) for width in widths.tolist()]
        self._use(mean, scale, widths, np.array(rows))
        return None

    def _rows_for(self, together: FloatArray, share: float) -> int:
        """The smallest number of directions that separates all but a share of some pairs."""
        if self.rows or not len(together):
            return self.rows or 1
        enough = (n for n in range(1, _MOST_ROWS) if np.mean(together**n) <= share)
        return next(enough, _MOST_ROWS)

    def dump(self) -> LearnedState:
        """The centre of the vectors, the widths of cells, and the number of directions per
        table."""
        found = {"mean": self._mean, "scale": self._scale}
        return LearnedState({}, {**found, "widths": self._widths, "rows": self._rows})

    def load(self, kept: LearnedState) -> None:
        read = KeptReader(kept, "index projection")
        read.only()
        mean = read.array("mean", np.float64, least=-LARGEST, most=LARGEST)
        scale = read.array("scale", np.float64, len(mean), least=0, most=LARGEST)
        widths = read.array("widths", np.float64, least=0, most=LARGEST)
        if not (scale > 0).all() or not (widths > 0).all():
            raise read.wrong("scale", "numbers above 0", "others")
        if len(widths) not in (1, len(_SHARES)):
            raise read.wrong("widths", f"1 or {len(_SHARES)} numbers", f"{len(widths)}")
        rows = read.array("rows", np.int64, len(widths), least=1, most=_MOST_ROWS)
        self._use(mean, scale, widths, rows)

    def keys_of(self, fragments: Sequence[Fragment]) -> tuple[IntArray, IntArray]:
        """See `kbforge.contracts.index`; vectors of different lengths share no key."""
        lengths = [0 if f.vector is None else len(f.vector) for f in fragments]
        starts = starts_of(
            np.array([length > 0 for length in lengths], dtype=np.int64) * self.tables
        )
        keys = np.empty((len(fragments), self.tables), dtype=np.uint64)
        for length in sorted({*lengths} - {0}):
            which = [i for i, other in enumerate(lengths) if other == length]
            keys[which] = self._cells(stacked([fragments[i] for i in which]))
        having = np.array(lengths, dtype=np.int64) > 0
        return starts, keys[having].ravel().view(np.int64)

    def _cells(self, vectors: FloatArray) -> Hashes:
        """The cells of some vectors of one length, shape [vectors, tables]."""
        if vectors.shape[1] == len(self._mean):
            with np.errstate(over="ignore", invalid="ignore"):
                vectors = ordinary((vectors - self._mean) / self._scale)
        at = self._along(vectors.shape[1]).projected(vectors)
        keys = np.empty((len(vectors), self.tables), dtype=np.uint64)
        for table in range(self.tables):
            scale = table % len(self._widths)
            rows = int(self._rows[scale])
            here = at[:, table, :rows]
            if self.angles:
                cells = (here > 0).astype(np.float64)
            else:
                with np.errstate(over="ignore"):
                    cells = np.floor(here / self._widths[scale] + self._offsets[table, :rows])
            numbers = np.clip(cells, -_LARGEST_CELL, _LARGEST_CELL).astype(np.int64)
            key = np.full(len(vectors), vectors.shape[1] * _MOST_TABLES + table, dtype=np.uint64)
            for row in range(rows):
                key = mixed(key ^ mixed(numbers[:, row].view(np.uint64)))
            keys[:, table] = key
        return keys

    def _along(self, dimensions: int) -> RandomDirections:
        """The directions on which vectors of this length are projected."""
        held = self._directions.get(dimensions)
        if held is None:
            held = RandomDirections(self.seed, dimensions, self.tables, int(self._rows.max()))
            self._directions[dimensions] = held
        return held


def together_at(distances: FloatArray, width: float) -> FloatArray:
    """For each distance, the probability that two vectors share a cell of one direction."""
    t = width / np.maximum(distances, 1e-9 * width)
    inside = erf(t / math.sqrt(2))
    return np.asarray(inside - math.sqrt(2 / math.pi) * -np.expm1(-t * t / 2) / t)


def _distances(vectors: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Distances from some vectors to the nearest other one, and between some pairs."""
    near = np.zeros(min(len(vectors), _NEIGHBOURS_OF))
    for i in range(len(near)):
        squares = np.square(vectors - vectors[i]).sum(axis=1)
        if len(squares) > 1:
            near[i] = math.sqrt(np.partition(squares, 1)[1])  # the nearest is itself
    half = len(vectors) // 2
    pairs = np.square(vectors[:half] - vectors[half : 2 * half]).sum(axis=1)
    return near, np.sqrt(pairs)


def _angles(vectors: FloatArray) -> FloatArray:
    """The angles between some pairs of vectors."""
    half = len(vectors) // 2
    one, two = vectors[:half], vectors[half : 2 * half]
    lengths = np.linalg.norm(one, axis=1) * np.linalg.norm(two, axis=1)
    cosines = np.einsum("nd,nd->n", one, two) / np.maximum(lengths, 1e-300)
    return np.asarray(np.arccos(np.clip(cosines, -1, 1)))

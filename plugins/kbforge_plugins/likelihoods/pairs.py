"""The pair likelihood: trained on other kinds of data, it reads any attributes without training.

A model that ships says of two fragments how probable it is that they are one entity, from numbers
that need no schema: how near their names are, how rare what they share, which attributes agree or
conflict, and whether each is the other's best (`models.pairs`). A cluster's likelihood is the sum
of the clipped log odds of its pairs, which repeated statements enter with less weight
(`models.pairs.live_pairs`). What a pair is worth is read from the file that is clustered.
"""

from __future__ import annotations

from collections.abc import Sequence
from ctypes import CDLL
from hashlib import sha256
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from kbforge.contracts import CandidateIndex, ConjugateLikelihood, FloatArray, Fragment
from kbforge.contracts.kept import Kept
from kbforge.errors import ModelError, quoted
from kbforge.files.io import read_small
from kbforge.fit.heard import UNREAD, PairOdds
from kbforge.models.defaults import default_folder, read_default
from kbforge.models.trees import Trees, read_trees
from kbforge_plugins.models.pairs.compiled import CompiledPairs
from kbforge_plugins.models.pairs.description import FEATURES
from kbforge_plugins.models.pairs.explanation import Explanation
from kbforge_plugins.models.pairs.keeping import Reading, Writing
from kbforge_plugins.models.pairs.live_pairs import PairTable, counted, nats, sum_of
from kbforge_plugins.models.pairs.nearby import Nearby, leading_of
from kbforge_plugins.models.pairs.odds import APART, MODEL, UNITS, Odds

_MOST_BYTES = 1 << 26
_FORMAT = "pairs 1"


class Pairs(ConjugateLikelihood):
    """A pretrained model of pairs, for any attributes.

    Args:
        model: another model than the one that ships: its file, or the folder it is in.

    Raises:
        KBForgeError: the file cannot be read, or (ModelError) is not such a model.

    """

    explains = alpha_from_file = keeps = True
    probability = False

    def __init__(self, model: str | None = None) -> None:
        self._trees = _read(model)
        self._digest = sha256(self._trees.to_bytes()).hexdigest()
        self.default_alpha = 1.0
        self._odds = Odds.fitted((), self._trees)
        self._nearby = Nearby(self._odds)
        self.index: CandidateIndex = self._nearby
        self._explanation: Explanation | None = None

    def fit(self, fragments: Sequence[Fragment]) -> str | None:
        """Read the file: how rare its names and values are, and what agreement in them is worth.

        Returns:
            One sentence for the user.

        """
        self._odds = Odds.fitted(fragments, self._trees)
        self._nearby.follow(self._odds)
        self._explanation = None
        pairs = len(self._odds.links)
        return (
            f"pairs: {pairs:,} pairs of {len(fragments):,} fragments compared by the model that "
            "was trained on other data"
        )

    def kept(self) -> Kept:
        """What was read of the file, and the log odds of its pairs; not the model, but which."""
        into = Writing()
        into.value("format", _FORMAT)
        into.value("model", self._digest)
        self._odds.keep(into)
        self._nearby.keep(into)
        return into.kept()

    def take_up(self, kept: Kept) -> None:
        """Be as the one that kept this, which was made with the same model.

        Raises:
            ModelError: it is damaged, of another format, or of another model.

        """
        reading = Reading(kept)
        for name, mine in (("format", _FORMAT), ("model", self._digest)):
            if reading.value(name) != mine:
                raise reading.damaged(name, f"expected {mine}, got {reading.value(name)}")
        odds = Odds.taken(reading, self._trees)
        leading = leading_of(reading, odds.links)
        reading.require_all_read()
        self._nearby.follow(odds, leading)
        self._odds, self._explanation = odds, None

    def log_marginal(self, clusters: Sequence[Sequence[Fragment]]) -> FloatArray:
        """L(C), nats, shape [len(clusters)]."""
        odds = self._odds
        sums = [sum_of(odds, counted(map(odds.encode, cluster))) for cluster in clusters]
        return np.array([nats(units) for units in sums], dtype=np.float64)

    def live_clusters(self) -> PairTable:
        """A new, empty table."""
        return PairTable(self._odds)

    def compiled_clusters(self, kernel: CDLL) -> CompiledPairs:
        """A new, empty table in the compiled kernel."""
        return CompiledPairs(kernel, self._odds)

    def pair_odds(
        self, fragments: Sequence[Fragment], placed: NDArray[np.bool_] | None = None
    ) -> PairOdds:
        """The clipped log odds of the pairs of these fragments, by row.

        Args:
            fragments: of the file that this was fitted to, or others.
            placed: which of the others to place against the file, the rest being `UNREAD`; None is
                all.

        """
        odds = self._odds
        row = np.full(len(fragments), UNREAD, np.int64)
        for number, fragment in enumerate(fragments):
            known = odds.row_of(fragment, placed is None or bool(placed[number]))
            row[number] = UNREAD if known is None else known
        first, second, above = odds.near_of(np.unique(row[row != UNREAD]))
        return PairOdds(row, first, second, (above + APART) / UNITS, APART / UNITS)

    def contributions(self, fragment: Fragment, cluster: Sequence[Fragment]) -> dict[str, float]:
        """What each attribute says for the fragment's joining the cluster, in nats.

        The sum over attributes is L(C + x) - L(C) - L({x}). See `models.pairs.explanation`.
        """
        if self._explanation is None:
            self._explanation = Explanation(self._odds, self._trees)
        return self._explanation.of(fragment, cluster)


def _read(model: str | None) -> Trees:
    """The trees of a file or folder, of those that ship if none is named."""
    if model is None:
        return _checked(read_default(default_folder(None, MODEL), MODEL), f"the shipped {MODEL}")
    given = Path(model)
    if given.is_dir():
        return _checked(read_default(given, MODEL), quoted(str(given / MODEL), 400))
    return _checked(read_small(model, "a pair model", _MOST_BYTES, ModelError), quoted(model, 400))


def _checked(content: bytes, where: str) -> Trees:
    trees = read_trees(content, where)
    if trees.features != FEATURES:
        differ = sorted({*trees.features} ^ {*FEATURES})
        said = quoted(differ[0]) if differ else "their order"
        raise ModelError(
            f"{where}: expected the {len(FEATURES)} features of this version, got others ({said}); "
            "train it anew with python -m kbforge_training.defaults.pairs"
        )
    return trees

"""The likelihood `pairs`: needs no training on the user's file.

The shipped model scores whether two fragments are the same entity, from numbers that need no
schema: the similarity of their names, the rarity of what they share, which attributes agree or
conflict, and whether each is the other's best match. The weights depend on the clustered file.

A row that was seen n times has weight w_n = sqrt(n), so fifty equal mentions do not outvote all
other evidence, but still outweigh the prior's preference for large clusters:

    L(C) = sum over rows r < s of C of w(n_r) w(n_s) o(r, s) + sum over rows r of (n_r - 1) o(r, r)

with o the clipped log odds of a pair. Answers correct those of two different rows that are
candidates (`layer`). All sums are of integers, so L depends only on the multiset, to the last bit.

*Contributions.* A tree's sum for a pair is split over the features on its path: each node's feature
gets the change of the mean of the leaves from the node to the child (Saabas 2014). Features of
agreement, of all words, of differences and of the odds of all attributes are distributed over the
attributes that both rows state, in proportion to their evidence in this file; all other features
describe the name.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import replace
from functools import cached_property
from hashlib import sha256
from math import isqrt
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from kbforge.contracts import (
    CandidateIndex,
    ConjugateLikelihood,
    FloatArray,
    Fragment,
    IntArray,
    LearnedState,
    Likelihood,
    PairAnswer,
)
from kbforge.errors import ModelError, OtherModelError, UsageError, quoted
from kbforge.files.io import read_small
from kbforge.fit.description import UNREAD, Lesson, PairOdds, Renaming
from kbforge.kernel.binding import EncodedFragments, MergingClusters, address, kernel_library
from kbforge.models.bundle import default_folder, read_bundle, read_default
from kbforge.models.trees import Trees, load_parts, save_parts
from kbforge.numerics import starts_of
from kbforge_plugins.likelihoods.pairs.bags import PartReader, flattened
from kbforge_plugins.likelihoods.pairs.differences import DIFFERENCE_FEATURES
from kbforge_plugins.likelihoods.pairs.file import (
    AGREEMENT_FEATURES,
    ALL_TEXT_FEATURES,
    FEATURES,
    ODDS_OF_ALL_FEATURES,
    Rows,
    row_pairs,
)
from kbforge_plugins.likelihoods.pairs.layer import COLUMNS, MOST_WEIGHT, WEIGHTS
from kbforge_plugins.likelihoods.pairs.odds import (
    APART,
    MODEL,
    MOST,
    UNITS,
    Odds,
    OddsLinks,
    PairIndex,
    Row,
    leading_of,
)

SENT = ("starts", "second", "above", "back_starts", "back", "back_first", "own")
"""The arrays of links that a table elsewhere needs."""


class RowOdds(Protocol):
    """The log odds of pairs of rows, of which each fragment states one."""

    @property
    def links(self) -> OddsLinks:
        """Those of the rows of a file."""

    @property
    def n_rows(self) -> int:
        """The number of rows of the file and later rows."""

    def encode_all(self, fragments: Sequence[Fragment]) -> IntArray:
        """The rows of fragments, shape [fragments]."""

    def near(self, row: Row) -> Mapping[Row, int]:
        """For each candidate of a row, including itself: the log odds minus `APART`, in units."""


class PairClusters(MergingClusters):
    """How often each cluster has each row."""

    def __init__(self, odds: RowOdds) -> None:
        self._odds, self._told = odds, len(odds.links.own)
        self._arrays = odds.links.arrays  # the kernel reads them as long as the table lives
        new = kernel_library().kb_pairs_new
        super().__init__(new(self._told, *map(address, self._arrays), APART, float(UNITS)))

    def sent(self) -> LearnedState:
        """The file's rows and links."""
        own = {"rows": len(self._odds.links.own), "apart": APART, "units": float(UNITS)}
        return LearnedState(own, dict(zip(SENT, self._arrays, strict=True)))

    def read(self, fragments: Sequence[Fragment]) -> EncodedFragments:
        odds = self._odds
        rows = odds.encode_all(fragments).astype(np.int32)
        starts = np.arange(len(rows) + 1)
        first, self._told = self._told, odds.n_rows
        # each new row's candidates among the rows before it, so that a pair is told once
        near = [
            [(other, above) for other, above in odds.near(row).items() if other <= row]
            for row in range(first, self._told)
        ]
        sizes = np.array([len(some) for some in near], dtype=np.int64)
        pairs = np.array([one for some in near for one in some], dtype=np.int32).reshape(-1, 2)
        told = first, starts_of(sizes), *pairs.T.copy()
        return EncodedFragments(starts, np.zeros(len(rows), np.int32), rows, told)

    def read_all(self, fragments: Sequence[Fragment]) -> EncodedFragments:
        encoded = self.read(fragments)
        self.tell(encoded)
        return encoded._replace(new=None)

    def tell(self, encoded: EncodedFragments) -> None:
        first, starts, *arrays = encoded.new
        n = len(starts) - 1
        self.kernel.kb_pairs_rows(self.handle, first, n, address(starts), *map(address, arrays))


_ONE = 1 << 8
"""The weight of a row that was seen once."""


def weight(n: int) -> int:
    """w_n in units of which a row seen once has 256, as the kernel has it."""
    return isqrt(n * _ONE * _ONE)


_MOST_BYTES = 1 << 26
_FORMAT, _RENAMING = "pairs 3", "renaming"


class Pairs(ConjugateLikelihood):
    """A pretrained model of pairs, for any attributes.

    Args:
        model: use this model (a file, or its folder) instead of the shipped one.
        link: an attribute, or "source": fragments that share a value of it are different entities,
            and are not compared.
        layer: weights of the layer that answers teach, for a file: first a constant that is added
            to the log odds of every compared pair, in nats; those that are not given are 0.

    Raises:
        KBForgeError: the file cannot be read, or (ModelError) is not such a model; or there are too
            many weights, or one is out of range.

    """

    explains = alpha_from_file = keeps = takes_link = loads_bundles = True
    probability = False
    lesson: Lesson | None = None
    """What answers taught it, unless a state was loaded."""

    def __init__(
        self, model: str | None = None, link: str | None = None, layer: tuple[float, ...] = ()
    ) -> None:
        self._parts, self._link = _read(model), link
        self._of_trees(self._parts[_part(link)])
        self.default_alpha = 1.0
        self.layer = _checked(layer)
        self._use(Odds.fitted((), self.trees, link))
        self._nearby = PairIndex(self._odds)
        self.index: CandidateIndex = self._nearby

    @classmethod
    def from_bundle(
        cls, path: Path, link: str | None = None, layer: tuple[float, ...] = ()
    ) -> Pairs:
        """Load a model that `kbforge train-pairs` wrote.

        Args:
            path: the bundle's folder.
            link: as for the constructor.
            layer: weights that replace those of the bundle.

        Raises:
            ModelError: the bundle is damaged or not of this kind.

        """
        bundle, where = read_bundle(path), quoted(str(path), 400)
        bundle.require_of("pairs", where)
        learned = bundle.recipe.get("layer")
        if MODEL not in bundle.files or not isinstance(learned, list):
            raise ModelError(f"{where} has no {MODEL} or layer: kbforge train-pairs writes both")
        if not all(isinstance(weight, float) for weight in learned):
            raise ModelError(f"{where}: layer: expected numbers")
        if not layer and (link is None) == (bundle.recipe.get("link") is None):
            layer = tuple(learned)
        return cls(str(path / MODEL), link, layer)

    def to_bytes(self) -> bytes:
        """The model, without a layer: what `model` names."""
        parts = {**self._parts, _part(self._link): self.trees}
        return model_bytes(*(parts[name] for name in _PARTS))

    def _of_trees(self, trees: Trees) -> None:
        self.trees = trees  # whose sums are the log odds of pairs, before a layer
        self._digest = sha256(trees.to_bytes()).hexdigest()
        vars(self).pop("_node_means", None)

    def _use(self, odds: Odds) -> None:
        self._odds = odds
        vars(self).pop("_scored", None)

    def fit(self, fragments: Sequence[Fragment], known: Likelihood | None = None) -> str | None:
        """Read how rare names and values are, and what agreement is worth; says so to the user.

        `known` is a likelihood that was fitted to the file: `attributes` is not fitted again.
        """
        self._use(Odds.fitted(fragments, self.trees, self._link, self.layer, known))
        self._nearby.follow(self._odds)
        pairs, expected = len(self._odds.links), ""
        if self._link is not None and self._odds.bias:
            expected = f"; about {self._odds.matches:,.0f} matches expected"
        return (
            f"pairs: {pairs:,} pairs of {len(fragments):,} fragments compared by the model that "
            f"was trained on other data{expected}"
        )

    @property
    def one_to_one(self) -> bool:
        """Whether the fitted linked tables seem one to one; False for a loaded state."""
        return self._odds.one_to_one

    @property
    def reads(self) -> dict[str, ConjugateLikelihood]:
        """The likelihood `attributes`, fitted to the same file; none if it reads nothing."""
        fitted = self._odds.file.learned
        return {} if fitted is None else {"attributes": fitted.likelihood}

    def taught(self, answers: Sequence[PairAnswer]) -> Pairs:
        """The likelihood of the same file with the layer that these answers teach, and no others.

        Fragments need not be of the file; answers about two that state the same teach nothing.
        """
        if not answers and not self.layer:
            return self
        return self._learned(*self._odds.taught(answers))

    def trained(self, labels: Sequence[PairAnswer]) -> Pairs:
        """The likelihood of the same file with the trees and the layer that these labels teach.

        Labels of two fragments that state the same say how probably such two are one entity.
        """
        return self._learned(*self._odds.trained(labels))

    def _learned(self, odds: Odds, lesson: Lesson) -> Pairs:
        other = copy(self)
        other.lesson = lesson
        if odds.trees is not self.trees:
            other._of_trees(odds.trees)
        other._use(odds)
        other.layer = other._odds.weights
        other._nearby = PairIndex(other._odds)
        other.index = other._nearby
        return other

    def read_by(self, renaming: Renaming) -> None:
        """See `kbforge.fit.description.PairModel`."""
        self._odds.file.renaming = renaming

    def dump(self) -> LearnedState:
        """The fitted state of the file, the log odds of its pairs, and the model's identity."""
        leading = self._nearby.kept_leading()
        own = {"format": _FORMAT, "model": self._digest, "leading": leading}
        kept, renaming = flattened({**own, **self._odds.dump()}), self._odds.file.renaming
        if renaming is not None:
            kept = replace(kept, values={**kept.values, _RENAMING: renaming.to_json()})
        return kept

    def load(self, kept: LearnedState) -> None:
        """Load a saved state; a ModelError if it is damaged, an OtherModelError if of another
        model."""
        reading = PartReader(kept)
        if (reading.value("format"), reading.value("model")) != (_FORMAT, self._digest):
            raise OtherModelError("the saved state has a different format or pair model")
        odds = Odds.load(reading, self.trees, self._link)
        leading = leading_of(reading, odds.links)
        if _RENAMING in kept.values:
            odds.file.renaming = Renaming.from_json(reading.value(_RENAMING))
        reading.require_all_read()
        self._nearby.follow(odds, leading)
        self._use(odds)
        self.layer = odds.weights

    def forget(self) -> None:
        """Drop the rows of fragments outside the file."""
        self._odds.forget()
        vars(self).pop("_scored", None)

    def log_marginal(self, clusters: Sequence[Sequence[Fragment]]) -> FloatArray:
        scored = self._scored
        return scored.log_marginals(scored.encode_sets(clusters))[:, 0]

    def live_clusters(self) -> PairClusters:
        return PairClusters(self._odds)

    @cached_property
    def _scored(self) -> PairClusters:
        """A table for L of sets, which was told of later rows."""
        return self.live_clusters()

    def pair_odds(
        self, fragments: Sequence[Fragment], placed: NDArray[np.bool_] | None = None
    ) -> PairOdds:
        """The clipped log odds of the pairs of these fragments, by row.

        Fragments outside the file are compared with it if `placed` marks them (None: all); the
        others are `UNREAD`.
        """
        odds = self._odds
        row = odds.file.rows_of(fragments)
        if row is None:
            row = np.full(len(fragments), UNREAD, np.int64)
            for number, fragment in enumerate(fragments):
                found = odds.row_of(fragment, placed is None or bool(placed[number]))
                row[number] = UNREAD if found is None else found
        first, second, above = odds.near_of(np.unique(row[row != UNREAD]))
        return PairOdds(row, first, second, (above + APART) / UNITS, APART / UNITS)

    def contributions(self, fragment: Fragment, cluster: Sequence[Fragment]) -> dict[str, float]:
        """The contribution of each attribute (or `name`) to the fragment's joining the cluster, in
        nats.

        The sum over attributes is L(C + x) - L(C) - L({x}).
        """
        return self.contributions_to(fragment, [cluster])[0]

    def contributions_to(
        self, fragment: Fragment, clusters: Sequence[Sequence[Fragment]]
    ) -> list[dict[str, float]]:
        """Like `contributions`, for several clusters; all pairs are described together."""
        odds = self._odds
        x = odds.encode(fragment)
        joined = [Counter(map(odds.encode, cluster)) for cluster in clusters]
        near = odds.near(x)
        rows = sorted({row for members in joined for row in members if row in near})
        parts = _pair_contributions(odds, self.trees, self._node_means, x, rows)
        scored = self._scored
        gains = scored.log_gains(scored.encode(fragment), scored.encode_sets(clusters))
        return [
            self._summed(fragment, x, members, parts, gain)
            for members, gain in zip(joined, gains, strict=True)
        ]

    def _summed(
        self,
        fragment: Fragment,
        x: Row,
        members: Mapping[Row, int],
        parts: Mapping[Row, Mapping[str, float]],
        gain: float,
    ) -> dict[str, float]:
        """The contributions of a row's candidates among the members, by attribute."""
        odds = self._odds
        naming = next(
            (a for a in (*odds.file.naming, *fragment.properties) if a in fragment.properties),
            "name",
        )
        said = dict.fromkeys((naming, *fragment.properties), 0.0)
        here = members.get(x, 0)
        for row, n in sorted(members.items()):
            times = 1.0 if row == x else weight(n) / weight(1)
            if row != x:
                times *= (weight(here + 1) - weight(here)) / weight(1)
            for attribute, part in parts.get(row, {}).items():
                said[attribute if attribute in said else naming] += times * part
        # rows that are no candidates are apart by their names
        said[naming] += gain - sum(said.values())
        return said

    @cached_property
    def _node_means(self) -> FloatArray:
        """For each node of the trees, the mean of its children's means."""
        trees = self.trees
        mean = np.zeros(len(trees.feature))
        for node in range(len(mean) - 1, -1, -1):
            children = (int(trees.left[node]), int(trees.right[node]))
            mean[node] = sum(mean[c] if c >= 0 else trees.leaves[-1 - c] for c in children) / 2
        return mean


_SHARED, _DIFFERENT = (
    np.isin(np.array(FEATURES), some)
    for some in (
        (*AGREEMENT_FEATURES, *ALL_TEXT_FEATURES, *ODDS_OF_ALL_FEATURES),
        DIFFERENCE_FEATURES,
    )
)


def _pair_contributions(
    odds: Odds, trees: Trees, means: FloatArray, x: Row, rows: Sequence[Row]
) -> dict[Row, dict[str, float]]:
    """For each other row and attribute ("" for the name), its part of the clipped log odds."""
    a, i = odds.rows_of(x)
    described: dict[int, tuple[Rows, list[Row], list[int]]] = {}
    for row in rows:
        b, j = odds.rows_of(row)
        _, some, places = described.setdefault(id(b), (b, [], []))
        some.append(row)
        places.append(j)
    out: dict[Row, dict[str, float]] = {}
    for b, some, places in described.values():
        at, others = np.full(len(some), i), np.array(places)
        features = odds.file.describe(a, at, b, others)
        parts = _feature_contributions(trees, means, features)
        parts += _taught_contributions(odds, parts, features) * (np.array(some) != x)[:, None]
        log_odds = parts.sum(axis=1)
        clipped = np.clip(log_odds, -MOST, MOST)
        nothing = log_odds == 0
        parts *= ((clipped + nothing) / (log_odds + nothing))[:, None]
        told: list[dict[str, float]] = [defaultdict(float) for _ in some]
        # what agreement says is shared out by the evidence of the attributes that both state, and
        # what differences say by that of the attributes that they compare
        differences = odds.file.differences
        evidence = np.abs(odds.file.evidence(a, b, row_pairs(at, others)))
        compared = differences.compared(a.measures, at, b.measures, others)
        for columns, names, sizes in (
            (_SHARED, odds.file.worths, evidence),
            (_DIFFERENT, differences.attributes, compared),
        ):
            total = sizes.sum(axis=0)
            scale = parts[:, :-1][:, columns].sum(axis=1) / (total + (total == 0))
            for name, of in zip(names, scale * sizes, strict=True):
                for k in np.flatnonzero(of).tolist():
                    told[k][name] += float(of[k])
        for k, row in enumerate(some):
            told[k][""] = float(clipped[k]) - sum(told[k].values())
            out[row] = told[k]
    return out


def _taught_contributions(odds: Odds, parts: FloatArray, features: FloatArray) -> FloatArray:
    """What linked tables and answers add to the contributions of features, same shape."""
    added = np.zeros(parts.shape)
    added[:, -1] = odds.bias
    if odds.layer is not None:
        plain = parts.sum(axis=1) + odds.bias
        constant, of_odds, *of_features = (
            odds.layer.inputs(plain, features[:, COLUMNS].astype(np.float32)) * odds.layer.weights
        ).T
        added[:, -1] += constant + of_odds
        added[:, COLUMNS] += np.transpose(of_features)
    return added


def _feature_contributions(trees: Trees, means: FloatArray, features: FloatArray) -> FloatArray:
    """The contribution of each feature to the trees' sum, and last the constant part.

    Args:
        trees: of the model.
        means: by node, as `_node_means`.
        features: shape [pairs, features].

    Returns:
        shape [pairs, features + 1].

    """
    n, width = features.shape[0], features.shape[1] + 1

    def mean_of(node: IntArray) -> FloatArray:
        inner = means[np.maximum(node, 0)]
        return np.where(node >= 0, inner, trees.leaves[np.maximum(-1 - node, 0)])

    roots = trees.roots.astype(np.int64)
    parts = np.zeros((n, width))
    parts[:, -1] = trees.offset[0] + mean_of(roots).sum()
    inner = np.tile(roots >= 0, n)
    node, pair = np.tile(roots, n)[inner], np.repeat(np.arange(n), len(roots))[inner]
    while len(node):
        column = trees.feature[node]
        value = features[pair, column]
        left = np.where(np.isnan(value), trees.missing_left[node], value <= trees.threshold[node])
        child = np.where(left, trees.left[node], trees.right[node]).astype(np.int64)
        gained = mean_of(child) - means[node]
        parts += np.bincount(pair * width + column, gained, n * width).reshape(n, width)
        inner = child >= 0
        node, pair = child[inner], pair[inner]
    return parts


_PARTS = ("fragments", "tables")


def _checked(layer: Sequence[float]) -> tuple[float, ...]:
    if len(layer) > WEIGHTS or not all(abs(weight) <= MOST_WEIGHT for weight in layer):
        got = quoted(",".join(map(str, layer)), 100)
        raise UsageError(
            f"layer: expected up to {WEIGHTS} numbers from {-MOST_WEIGHT:g} to {MOST_WEIGHT:g}, "
            f"got {got}"
        )
    return tuple(layer)


def _part(link: str | None) -> str:
    return "fragments" if link is None else "tables"


def _read(model: str | None) -> dict[str, Trees]:
    """The trees of a file or folder, by default the shipped ones: for a file and for linked
    tables."""
    if model is not None and not Path(model).is_dir():
        content, where = read_small(model, "a pair model", _MOST_BYTES, ModelError), model
    else:
        folder = default_folder(None, MODEL) if model is None else Path(model)
        content, where = read_default(folder, MODEL), str(folder / MODEL)
    where = quoted(where, 400)
    found = load_parts(content, where, _PARTS, ())[0]
    return {name: _of_this_version(trees, where) for name, trees in found.items()}


def _of_this_version(trees: Trees, where: str) -> Trees:
    place = {feature: column for column, feature in enumerate(FEATURES)}
    unknown = sorted({*trees.features} - {*place})
    if unknown:
        raise ModelError(
            f"{where}: expected features of this version, got {quoted(unknown[0])}; train it again "
            "with python -m kbforge_lab.training.defaults.pairs"
        )
    columns = np.array([place[feature] for feature in trees.features], dtype=np.int32)
    return replace(trees, features=FEATURES, feature=columns[trees.feature])


def model_bytes(fragments: Trees, tables: Trees) -> bytes:
    """A model for the fragments of a file, and one for linked tables."""
    return save_parts(dict(zip(_PARTS, (fragments, tables), strict=True)), {})

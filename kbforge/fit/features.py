"""Features of an entity that a confidence map reads besides its reported probability.

No label is read. The fragments give an entity's numbers of fragments and names, whether another
entity has its name, the similarity of the nearest other name, and whether other values agree inside
and with that neighbour. A model of pairs gives the certainty of the pairs inside, the strength of
the best rival outside, and the probability that all inside and none outside belong. The judge gives
the share of groupings with the same cluster. Unknown values are NaN, which the trees treat as
missing.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from kbforge.contracts import FloatArray, Fragment, IntArray
from kbforge.evaluation.reliability import BoolArray, ReportedEntities, ReportedPairs
from kbforge.files.columns import Statements
from kbforge.fit.description import (
    NONE,
    UNREAD,
    Descriptions,
    FileContext,
    FileSummary,
    PairOdds,
    Prediction,
    describe,
)
from kbforge.fit.hypotheses import PAIRS
from kbforge.numerics import at_numbers, spread, starts_of

_LIMIT = math.log(999)  # logits beyond p = .999 are one cell: what 1 means is for the data to say


@dataclass(frozen=True, slots=True)
class ClusteringReport:
    """A clustering's report for a map, without gold labels."""

    fragments: Sequence[Fragment]  # in order
    entities: ReportedEntities  # the point estimate
    changed: BoolArray | None = None
    """[fragments] Which are in changed subproblems, with the others only for comparison; None means
    all."""
    stated: Statements | None = None  # by the fragments, if known


def log_odds(probability: FloatArray) -> FloatArray:
    """In nats, within +-log 999."""
    with np.errstate(divide="ignore"):
        odds: FloatArray = np.log(probability) - np.log1p(-probability)
    return np.clip(odds, -_LIMIT, _LIMIT)


Columns: TypeAlias = dict[str, FloatArray]
"""Name of a feature -> its value for each claim."""

OF_ENTITIES = (
    *("fragments", "subproblem", "commonest", "borne_elsewhere", "kept"),
    *("nearest", "crowd", "cohesion", "words", "letters", "foreign", "attributes"),
    *("agree", "compared", "neighbour_agrees", "neighbour_differs"),
)
_ALIKE = 0.5  # cosine from which two names are called alike
AT_ONCE = 1 << 15  # entities whose features are held at one time


class EntityColumns:
    """The columns `OF_ENTITIES`, of some of the entities at a time.

    What entities tell of each other is kept for all of them, in a few bytes each: the two that hold
    most of each name, and the most common value of each attribute.
    """

    def __init__(self, facts: Descriptions, entities: ReportedEntities) -> None:
        self._facts, self._entities = facts, entities
        self._starts = starts_of(entities.lengths)
        k, names = len(entities), len(facts.named)
        self._bearers = np.full((2, names), NONE, np.int32)  # the first ones of equals
        self._borne = np.zeros((2, names), np.int32)  # how many of their fragments bear it
        self._commonest = np.full(
            (facts.values.shape[1], k + 1), NONE, np.int32
        )  # none of the last
        self._agreeing, self._compared = np.zeros(k), np.zeros(k, np.int8)
        for first in range(0, k, AT_ONCE):
            self._read(slice(first, min(first + AT_ONCE, k)))

    def of(self, part: slice) -> Columns:
        """The columns of a part, each of shape [part]."""
        facts, sizes = self._facts, self._entities.lengths[part]
        members, of = self._members(part)
        names = self._names(members, of)
        compared = self._compared[part].astype(np.float64)
        with np.errstate(invalid="ignore"):
            agree = np.where(compared > 0, self._agreeing[part] / compared, np.nan)
        stating = np.bincount(of, weights=facts.attributes[members], minlength=len(sizes))
        return {
            "fragments": np.log(sizes),
            "subproblem": np.log(self._entities.size[part]),
            **_names_of(facts, names, sizes),
            "attributes": stating / sizes,
            "agree": agree,
            "compared": compared,
            **self._beside(part, self._neighbours(names, part)),
        }

    def _members(self, part: slice) -> tuple[IntArray, IntArray]:
        """The fragments of a part, and the place of the entity of each."""
        sizes = self._entities.lengths[part]
        begin, end = self._starts[part.start], self._starts[part.stop]
        return self._entities.members[begin:end], np.repeat(np.arange(len(sizes)), sizes)

    def _names(self, members: IntArray, of: IntArray) -> _Counts:
        name = self._facts.name[members]
        there = name >= 0
        return _Counts(of[there], name[there], max(len(self._facts.named), 1))

    def _read(self, part: slice) -> None:
        """Add what the others are told of a part."""
        members, of = self._members(part)
        k = part.stop - part.start
        self._bear(self._names(members, of), part.start)
        for column, commonest in enumerate(self._commonest):
            values = self._facts.values[members, column]
            there = values >= 0
            if not there.any():
                continue
            counts = _Counts(of[there], values[there], int(values.max()) + 1)
            pairs = counts.count * (counts.count - 1.0)
            same = np.bincount(counts.cluster, weights=pairs, minlength=k)
            stating = np.bincount(of[there], minlength=k).astype(np.float64)
            enough = stating > 1
            # the mean probability that two fragments agree, of attributes that both state
            self._agreeing[part][enough] += same[enough] / (stating * (stating - 1))[enough]
            self._compared[part] += enough
            order = np.lexsort((counts.thing, -counts.count, counts.cluster))
            cluster, at = np.unique(counts.cluster[order], return_index=True)
            commonest[part.start + cluster] = counts.thing[order][at]

    def _bear(self, names: _Counts, first: int) -> None:
        """Let entities from this number on be among the two that hold most of their names."""
        order = np.lexsort((names.cluster, -names.count, names.thing))
        name, begin = np.unique(names.thing[order], return_index=True)
        there, counts = np.full((4, len(name)), NONE), np.zeros((4, len(name)), np.int64)
        there[:2], counts[:2] = self._bearers[:, name], self._borne[:, name]
        for row, has in ((2, slice(None)), (3, np.diff(begin, append=len(order)) > 1)):
            at = order[begin[has] + row - 2]
            there[row, has], counts[row, has] = first + names.cluster[at], names.count[at]
        best = np.argsort(-counts, axis=0, kind="stable")[:2]
        self._bearers[:, name] = np.take_along_axis(there, best, axis=0)
        self._borne[:, name] = np.take_along_axis(counts, best, axis=0)

    def _neighbours(self, names: _Counts, part: slice) -> IntArray:
        """For each cluster, another with its name or the most similar name, `NONE` without any."""
        alike, k = self._facts.alike, part.stop - part.start
        at, place = spread(alike.starts, names.thing)
        other = np.concatenate([names.thing, alike.second[at]])
        cosine = np.concatenate([np.full(len(names.thing), 2.0), alike.strength[at]])
        own = np.concatenate([names.cluster, names.cluster[place]])
        first, second = self._bearers[:, other]
        there = np.where(first == own + part.start, second, first)
        known = there >= 0
        own, there, cosine = own[known], there[known], cosine[known]
        best = cosine == _largest(own, cosine, np.zeros(k))[own]
        out = np.full(k, len(self._entities), np.int64)
        np.minimum.at(out, own[best], there[best])
        out[out == len(self._entities)] = NONE
        return out

    def _beside(self, part: slice, neighbour: IntArray) -> Columns:
        """The agreement of the most common values of a cluster with its neighbour's."""
        agree, differ = np.zeros((2, len(neighbour)))
        for commonest in self._commonest:
            own, other = commonest[part], commonest[neighbour]
            both = (own >= 0) & (other >= 0) & (neighbour >= 0)
            agree += both & (own == other)
            differ += both & (own != other)
        alone = neighbour < 0
        agree[alone], differ[alone] = np.nan, np.nan
        return {"neighbour_agrees": agree, "neighbour_differs": differ}


def _largest(of: IntArray, values: FloatArray | IntArray, least: FloatArray) -> FloatArray:
    """The maximum per index of the given values, in place and starting from `least`."""
    np.maximum.at(least, of, values)
    return least


def _smallest(of: IntArray, values: FloatArray, k: int) -> FloatArray:
    """The minimum value for each of k items, inf without any."""
    out = np.full(k, np.inf)
    np.minimum.at(out, of, values)
    return out


def _links_of(odds: PairOdds, held: _Counts) -> tuple[IntArray, IntArray]:
    """The links of each row of each cluster, and the place of the row."""
    return spread(starts_of(np.bincount(odds.first, minlength=_rows_of(odds))), held.thing)


class _Counts:
    """How often each item, such as a name, occurs in each cluster: entries by cluster, then
    item."""

    def __init__(
        self, cluster: IntArray, thing: NDArray[np.signedinteger[Any]], width: int
    ) -> None:
        self._width = width
        self._keys, self.count = np.unique(cluster * width + thing, return_counts=True)
        self.cluster, self.thing = self._keys // width, self._keys % width

    def of(self, cluster: IntArray, thing: NDArray[np.signedinteger[Any]]) -> IntArray:
        """How often each item occurs in each cluster, same shape."""
        return at_numbers(self._keys, self.count, cluster * self._width + thing, 0)

    def elsewhere(self, cluster: IntArray, thing: IntArray) -> BoolArray:
        """Whether another cluster has each item."""
        holders = np.bincount(self.thing, minlength=self._width)[thing]
        only = np.zeros(self._width, np.int64)
        only[self.thing] = self.cluster
        return np.asarray((holders > 1) | ((holders == 1) & (only[thing] != cluster)))


def _names_of(facts: Descriptions, named: _Counts, sizes: IntArray) -> Columns:
    k = len(sizes)
    cluster, name, count = named.cluster, named.thing, named.count
    names = np.bincount(cluster, minlength=k)
    borne = np.bincount(cluster, weights=facts.named[name] - count, minlength=k)
    bearing = np.bincount(cluster, weights=count, minlength=k)
    commonest = _largest(cluster, count, np.zeros(k))
    # every name of a cluster with every name that is like it
    at, place = spread(facts.alike.starts, name)
    other, cosine = facts.alike.second[at], facts.alike.strength[at]
    held = named.of(cluster[place], other)
    outside, inside = facts.named[other] > held, held > 0
    nearest = _largest(cluster[place][outside], cosine[outside], np.zeros(k))
    nearest[borne > 0] = 1.0
    close = outside & (cosine >= _ALIKE)
    crowd = np.bincount(
        cluster[place][close], weights=(facts.named[other] - held)[close], minlength=k
    )
    best = _largest(place[inside], cosine[inside], np.zeros(len(name)))
    cohesion = np.ones(k)
    several = names[cluster] > 1
    np.minimum.at(cohesion, cluster[several], best[several])

    def mean(of_name: FloatArray) -> FloatArray:
        return np.bincount(cluster, weights=of_name[name], minlength=k) / np.maximum(names, 1)

    out = {
        "commonest": commonest / sizes,
        "borne_elsewhere": np.log1p(borne),
        "kept": bearing / np.maximum(bearing + borne, 1),
        "nearest": nearest,
        "crowd": np.log1p(crowd),
        "cohesion": cohesion,
        "words": mean(facts.words),
        "letters": np.log1p(mean(facts.letters)),
        "foreign": mean(facts.foreign),
    }
    for column in out.values():
        column[names == 0] = np.nan
    return out


PAIRS_OF_ENTITIES = (
    *("odds_sum", "odds_mean", "odds_least", "odds_weakest", "odds_rival", "odds_rival_mean"),
    *("odds_margin", "odds_hold", "odds_alone", "odds_exact"),
)
PAIRS_OF_FILES = ("file_odds_precision", "file_odds_recall", "file_odds_links")
VOTES = "votes"
JUDGED_OF_FILES = ("predicted", "predicted_gain", "predicted_votes")

_LEAST = -50.0  # nats; sums below say one thing


def odds_of_entities(odds: PairOdds, entities: ReportedEntities) -> dict[str, FloatArray]:
    """The columns `PAIRS_OF_ENTITIES`, each of shape [entities]."""
    k = len(entities)
    held = _rows_by_cluster(odds, entities)
    at, place = _links_of(odds, held)
    own, other, nats = held.cluster[place], odds.second[at], odds.nats[at]
    self_link = other == held.thing[place]
    inside = (held.of(own, other) > 0) & (~self_link | (held.count[place] > 1))
    outside = held.elsewhere(own, other)
    # inside: every two rows, without a link `apart`; a row with itself where it is there twice
    rows = np.bincount(held.cluster, minlength=k).astype(np.float64)
    weight = np.where(self_link, 1.0, 0.5)[inside]
    linked = np.bincount(own[inside & ~self_link], minlength=k) / 2
    twice = np.bincount(own[inside & self_link], minlength=k)
    missing = rows * (rows - 1) / 2 - linked
    total = missing * odds.apart + _sums(own[inside], weight * nats[inside], k)
    pairs = rows * (rows - 1) / 2 + twice
    least = _smallest(own[inside], nats[inside], k)
    least[missing > 0.25] = np.minimum(least[missing > 0.25], odds.apart)
    # of each row of each cluster the best inside and the best outside
    apart = np.full(len(held.thing), odds.apart)
    best = _largest(place[inside], nats[inside], apart.copy())
    rival = _largest(place[outside], nats[outside], apart)
    several = (rows > 1) | (twice > 0)
    mean_rival, alone = _rivals(odds, own[outside], other[outside], nats[outside], rows)
    hold = _sums(held.cluster, _log_sigmoid(best), k)
    hold[~several] = 0.0
    found = {
        "odds_sum": np.maximum(total, _LEAST),
        "odds_mean": total / np.maximum(pairs, 1),
        "odds_least": least,
        "odds_weakest": _smallest(held.cluster, best, k),
        "odds_rival": _largest(held.cluster, rival, np.full(k, odds.apart)),
        "odds_rival_mean": mean_rival,
        "odds_margin": _smallest(held.cluster, best - rival, k),
        "odds_hold": np.maximum(hold, _LEAST),
        "odds_alone": np.maximum(alone, _LEAST),
        "odds_exact": np.maximum(hold + alone, _LEAST),
    }
    for name in ("odds_mean", "odds_least", "odds_weakest", "odds_margin"):
        found[name] = np.where(several, found[name], np.nan)
    if (odds.row == UNREAD).any():
        unread = np.zeros(k, np.bool_)
        unread[entities.of_members[odds.row[entities.members] == UNREAD]] = True
        for column in found.values():
            column[unread] = np.nan
    return found


def odds_of_pairs(odds: PairOdds, pairs: ReportedPairs) -> FloatArray:
    """The log odds of each pair, NaN where the model has not read both fragments; shape [pairs]."""
    rows = _rows_of(odds)
    keys = odds.first * rows + odds.second
    order = np.argsort(keys, kind="stable")
    i, j = odds.row[pairs.first], odds.row[pairs.second]
    found = at_numbers(keys[order], odds.nats[order], i * rows + j, odds.apart)
    return np.where((i == UNREAD) | (j == UNREAD), np.nan, found)


def odds_of_file(odds: PairOdds, entities: ReportedEntities) -> dict[str, float]:
    """The columns `PAIRS_OF_FILES`: the model of pairs' expectations of the grouping."""
    held = _rows_by_cluster(odds, entities)
    at, place = _links_of(odds, held)
    other, nats = odds.second[at], odds.nats[at]
    different = other != held.thing[place]
    inside = (held.of(held.cluster[place], other) > 0) & different
    sure = 1 / (1 + np.exp(-nats))
    found, every = float(sure[inside].sum()), float(sure[different].sum())
    return {
        "file_odds_precision": found / max(float(inside.sum()), 1.0) if inside.any() else np.nan,
        "file_odds_recall": found / every if every else np.nan,
        "file_odds_links": every / max(len(held.thing), 1),
    }


def votes_of(predicted: Prediction, places: IntArray, entities: ReportedEntities) -> FloatArray:
    """The column `VOTES`, shape [entities]; NaN for clusters that are not completely in the judge's
    sample."""
    starts = starts_of(entities.lengths)
    place = places[entities.members]
    known = np.logical_and.reduceat(place >= 0, starts[:-1]) if len(entities) else np.zeros(0, bool)
    at, of = spread(starts, np.flatnonzero(known))
    place, sizes = place[at], entities.lengths[known]
    exact = np.zeros((len(predicted.labels), len(sizes)))
    for number, labels in enumerate(predicted.labels):
        low, high = np.full(len(sizes), len(labels)), np.full(len(sizes), -1)
        np.minimum.at(low, of, labels[place])
        np.maximum.at(high, of, labels[place])
        exact[number] = (low == high) & (np.bincount(labels)[low] == sizes)
    votes = np.full(len(known), np.nan)
    votes[known] = predicted.weights @ exact
    return votes


def judged_of_file(predicted: Prediction, votes: FloatArray) -> dict[str, float]:
    """The columns `JUDGED_OF_FILES`, by the votes for the entities."""
    known = votes[~np.isnan(votes)]
    mean = float(known.mean()) if len(known) else np.nan
    return dict(zip(JUDGED_OF_FILES, (predicted.f1, predicted.gain, mean), strict=True))


def _rows_by_cluster(odds: PairOdds, entities: ReportedEntities) -> _Counts:
    row = odds.row[entities.members]
    read = row != UNREAD
    return _Counts(entities.of_members[read], row[read], _rows_of(odds))


def _rows_of(odds: PairOdds) -> int:
    """The number of rows, including those of other fragments."""
    return max(int(odds.row.max(initial=0)), int(odds.second.max(initial=0))) + 1


def _rivals(
    odds: PairOdds, cluster: IntArray, other: IntArray, nats: FloatArray, rows: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """The best mean log odds between a cluster and a row outside, and the log probability of
    none."""
    k = len(rows)
    best = np.full(k, odds.apart)
    if not len(cluster):
        return best, np.zeros(k)
    width = int(other.max()) + 1
    keys, inverse = np.unique(cluster * width + other, return_inverse=True)
    above = _sums(inverse, nats - odds.apart, len(keys))
    own = keys // width
    mean = above / rows[own] + odds.apart
    return _largest(own, mean, best), _sums(own, _log_sigmoid(-mean), k)


def _sums(of: IntArray, values: FloatArray, k: int) -> FloatArray:
    """The sum of the values of each of k items; without items, numpy would count in integers."""
    return np.bincount(of, weights=values, minlength=k).astype(np.float64)


def _log_sigmoid(nats: FloatArray) -> FloatArray:
    return np.asarray(-np.logaddexp(0.0, -nats))


REPORTED = "reported"

_WHOLE = (*PAIRS_OF_FILES, *JUDGED_OF_FILES)
ENTITY_FEATURES = (REPORTED, *OF_ENTITIES, *PAIRS_OF_ENTITIES, VOTES, *_WHOLE)


class ConfidenceFeatures:
    """A report with a confidence map's other inputs."""

    def __init__(self, reported: ClusteringReport, context: FileContext) -> None:
        self._fragments, self._entities = reported.fragments, reported.entities
        self._context = context
        self._stated = reported.stated
        predicted = context.predicted
        self._places = None if predicted is None else predicted.places(reported.fragments)
        self._odds = pair_odds(reported, context)

    @cached_property
    def _facts(self) -> Descriptions:
        """The names and values of the fragments."""
        whole = self._context.whole
        counted = None if whole is None else whole.counted
        return describe(self._fragments, counted, self._stated)

    def entities(self, features: tuple[str, ...], part: slice | None = None) -> FloatArray:
        """Some columns of the entities, or of a part of them, shape [entities, features]."""
        part = slice(0, len(self._entities)) if part is None else part
        columns = self._described.of(part)
        columns |= {name: column[part] for name, column in self._compared.items()}
        probability = self._entities.probability[part]
        rows = np.full((len(probability), len(features)), np.nan)
        for number, name in enumerate(features):
            if name == REPORTED:
                rows[:, number] = log_odds(probability)
            elif name in columns:
                rows[:, number] = columns[name]
            elif name in _WHOLE:
                rows[:, number] = self._whole.get(name, np.nan)
        return rows

    @cached_property
    def _described(self) -> EntityColumns:
        return EntityColumns(self._facts, self._entities)

    @cached_property
    def _compared(self) -> Columns:
        """What the model of pairs and the judge tell of all entities."""
        columns: Columns = {}
        if self._odds is not None:
            columns |= odds_of_entities(self._odds, self._entities)
        if self._context.predicted is not None and self._places is not None:
            columns[VOTES] = votes_of(self._context.predicted, self._places, self._entities)
        return columns

    @property
    def whole(self) -> FileSummary:
        """Columns of the whole file."""
        return FileSummary(self._facts.counted, self._whole)

    @cached_property
    def _whole(self) -> Mapping[str, float]:
        if self._context.whole is not None:
            return self._context.whole.columns
        whole: dict[str, float] = {}
        if self._odds is not None:
            whole |= odds_of_file(self._odds, self._entities)
        if self._context.predicted is not None:
            whole |= judged_of_file(self._context.predicted, self._compared[VOTES])
        return whole


def pair_odds(reported: ClusteringReport, context: FileContext) -> PairOdds | None:
    """The log odds of the model of pairs; if it clusters, it has placed the fragments added to the
    file."""
    if context.pairs is None:
        return None
    placed = reported.changed
    if context.likelihood != PAIRS:
        placed = np.zeros(len(reported.fragments), np.bool_)
    return context.pairs.pair_odds(reported.fragments, placed)

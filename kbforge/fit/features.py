"""Features of an entity that a confidence map reads besides its reported probability.

No label is read. The fragments give an entity's numbers of fragments and names, whether another
entity has its name, the similarity of the nearest other name, and whether other values agree inside
and with that neighbour. A model of pairs gives, for an *entity*, the certainty of the pairs inside,
the strength of the best rival outside, and the probability that all inside and none outside belong;
for a *pair*, its log odds, those of the best others of its two rows, and those through a third row.
The judge gives the share of groupings with the same cluster or pair. Unknown values are NaN, which
the trees treat as missing.
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
    *("fragments", "subproblem", "rivals", "names", "commonest", "borne_elsewhere", "kept"),
    *("nearest", "crowd", "cohesion", "words", "letters", "foreign", "digits", "attributes"),
    *("agree", "compared", "neighbour_agrees", "neighbour_differs", "linked", "linked_share"),
)
_ALIKE = 0.5  # cosine from which two names are called alike


def entity_columns(facts: Descriptions, entities: ReportedEntities) -> Columns:
    """The columns `OF_ENTITIES`, each of shape [entities]."""
    sizes, k = entities.lengths, len(entities)
    of = np.zeros(len(facts), np.int64)  # [n] number of each fragment's cluster
    of[entities.members] = entities.of_members
    there = facts.name >= 0
    names = _Counts(of[there], facts.name[there], max(len(facts.named), 1))
    # nats of rare values that the best fragment outside shares with one inside
    inner, outer = of[facts.linked.first], of[facts.linked.second]
    outside = inner != outer
    linked = _largest(inner[outside], facts.linked.strength[outside], np.zeros(k))
    stating = np.bincount(of, weights=facts.attributes, minlength=k)
    return {
        "fragments": np.log(sizes),
        "subproblem": np.log(entities.size),
        # entities of the point estimate in the same subproblem
        "rivals": np.log(np.bincount(entities.subproblem)[entities.subproblem]),
        **_names_of(facts, names, sizes),
        "attributes": stating / sizes,
        **_values_of(facts, of, _neighbours(facts, names, k)),
        "linked": linked,
        "linked_share": linked / np.log(max(facts.counted.fragments, len(facts)) + 1.0),
    }


def _largest(of: IntArray, values: FloatArray | IntArray, least: FloatArray) -> FloatArray:
    """The maximum per index of the given values, in place and starting from `least`."""
    np.maximum.at(least, of, values)
    return least


def _smallest(of: IntArray, values: FloatArray, k: int) -> FloatArray:
    """The minimum value for each of k items, inf without any."""
    out = np.full(k, np.inf)
    np.minimum.at(out, of, values)
    return out


def _place(keys: IntArray, wanted: IntArray) -> tuple[IntArray, BoolArray]:
    """The position of each wanted key among ascending ones, at least one, and whether it is
    present."""
    at = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
    return at, np.asarray(keys[at] == wanted)


def _links_of(first: IntArray, things: IntArray) -> tuple[IntArray, IntArray]:
    """For each item its links, ascending by first: place among the items, and link."""
    # an item that is unread, -1, has none
    starts = np.cumsum(np.bincount(first + 2, minlength=int(things.max(initial=0)) + 3))
    low = starts[things + 1]
    counts = starts[things + 2] - low
    place = np.repeat(np.arange(len(things)), counts)
    return place, np.arange(len(place)) - np.repeat(np.cumsum(counts) - counts, counts) + low[place]


class _Counts:
    """How often each item, such as a name, occurs in each cluster: entries by cluster, then
    item."""

    def __init__(
        self, cluster: IntArray, thing: NDArray[np.signedinteger[Any]], width: int
    ) -> None:
        self._width = width
        self._keys, self.count = np.unique(cluster * width + thing, return_counts=True)
        self.cluster, self.thing = self._keys // width, self._keys % width

    def of(self, cluster: IntArray, thing: IntArray) -> IntArray:
        """How often each item occurs in each cluster, same shape."""
        if not len(self._keys):
            return np.zeros(len(cluster), np.int64)
        at, there = _place(self._keys, cluster * self._width + thing)
        return np.where(there, self.count[at], 0)

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
    place, at = _links_of(facts.alike.first, name)
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
        "names": np.log1p(names),
        "commonest": commonest / sizes,
        "borne_elsewhere": np.log1p(borne),
        "kept": bearing / np.maximum(bearing + borne, 1),
        "nearest": nearest,
        "crowd": np.log1p(crowd),
        "cohesion": cohesion,
        "words": mean(facts.words),
        "letters": np.log1p(mean(facts.letters)),
        "foreign": mean(facts.foreign),
        "digits": mean(facts.digits),
    }
    for column in out.values():
        column[names == 0] = np.nan
    return out


def _neighbours(facts: Descriptions, names: _Counts, k: int) -> IntArray:
    """For each cluster, another with its name or the most similar name, `NONE` without any."""
    # the two largest clusters of each name, so that one of them is another than one's own
    order = np.lexsort((names.cluster, -names.count, names.thing))
    name, cluster = names.thing[order], names.cluster[order]
    start = np.searchsorted(name, np.arange(len(facts.named)))
    stop = np.searchsorted(name, np.arange(len(facts.named)), side="right")
    first = np.full(len(facts.named), NONE, np.int64)
    second = first.copy()
    first[stop > start] = cluster[start[stop > start]]
    second[stop > start + 1] = cluster[start[stop > start + 1] + 1]
    place, at = _links_of(facts.alike.first, names.thing)
    other = np.concatenate([names.thing, facts.alike.second[at]])
    cosine = np.concatenate([np.full(len(names.thing), 2.0), facts.alike.strength[at]])
    own = np.concatenate([names.cluster, names.cluster[place]])
    there = np.where(first[other] == own, second[other], first[other])
    known = there >= 0
    own, there, cosine = own[known], there[known], cosine[known]
    best = cosine == _largest(own, cosine, np.zeros(k))[own]
    out = np.full(k, k, np.int64)
    np.minimum.at(out, own[best], there[best])
    out[out == k] = NONE
    return out


def _values_of(facts: Descriptions, of: IntArray, neighbour: IntArray) -> Columns:
    """The agreement of values inside a cluster, and of its most common values with its neighbour's.

    Inside, it is the mean probability that two fragments agree, over the attributes that both
    state.
    """
    k = len(neighbour)
    total, compared, agree, differ = np.zeros((4, k))
    for column in range(facts.values.shape[1]):
        values = facts.values[:, column]
        there = values >= 0
        if not there.any():
            continue
        counts = _Counts(of[there], values[there], int(values.max()) + 1)
        pairs = counts.count * (counts.count - 1.0)
        same = np.bincount(counts.cluster, weights=pairs, minlength=k)
        stating = np.bincount(of[there], minlength=k).astype(np.float64)
        enough = stating > 1
        total[enough] += same[enough] / (stating * (stating - 1))[enough]
        compared += enough
        order = np.lexsort((counts.thing, -counts.count, counts.cluster))
        cluster, at = np.unique(counts.cluster[order], return_index=True)
        commonest = np.full(k + 1, NONE, np.int64)  # the last one for no neighbour
        commonest[cluster] = counts.thing[order][at]
        own, other = commonest[:k], commonest[neighbour]
        both = (own >= 0) & (other >= 0) & (neighbour >= 0)
        agree += both & (own == other)
        differ += both & (own != other)
    alone = neighbour < 0
    agree[alone], differ[alone] = np.nan, np.nan
    with np.errstate(invalid="ignore"):
        inside = np.where(compared > 0, total / compared, np.nan)
    return {
        "agree": inside,
        "compared": compared,
        "neighbour_agrees": agree,
        "neighbour_differs": differ,
    }


PAIRS_OF_ENTITIES = (
    *("odds_sum", "odds_mean", "odds_least", "odds_weakest", "odds_rival", "odds_rival_mean"),
    *("odds_margin", "odds_hold", "odds_alone", "odds_exact"),
)
PAIRS_OF_PAIRS = ("odds", "odds_other", "odds_ahead", "odds_between", "odds_bearers")
PAIRS_OF_FILES = ("file_odds_precision", "file_odds_recall", "file_odds_links")
JUDGED_OF_CLAIMS = ("votes", "votes_plain")
JUDGED_OF_FILES = ("predicted", "predicted_gain", "predicted_votes")

_AT_ONCE = 50_000  # pairs of fragments, whose links are held at one time
_LEAST = -50.0  # nats; sums below say one thing


def odds_of_entities(odds: PairOdds, entities: ReportedEntities) -> dict[str, FloatArray]:
    """The columns `PAIRS_OF_ENTITIES`, each of shape [entities]."""
    k = len(entities)
    held = _rows_by_cluster(odds, entities)
    place, at = _links_of(odds.first, held.thing)
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


def odds_of_pairs(odds: PairOdds, pairs: ReportedPairs) -> dict[str, FloatArray]:
    """The columns `PAIRS_OF_PAIRS`, each of shape [pairs]."""
    rows = _rows_of(odds)
    keys = odds.first * rows + odds.second
    order = np.argsort(keys, kind="stable")
    keys, nats = keys[order], odds.nats[order]
    parts = []
    for start in range(0, len(pairs), _AT_ONCE):
        part = pairs.part(slice(start, start + _AT_ONCE))
        i, j = odds.row[part.first], odds.row[part.second]
        unread = (i == UNREAD) | (j == UNREAD)
        own = _look_up(keys, nats, i * rows + j, odds.apart)
        others, between = [], np.full(len(i), odds.apart)
        for one, two in ((i, j), (j, i)):
            place, at = _links_of(odds.first, one)
            third = odds.second[at]
            other = (third != two[place]) & (third != one[place])
            apart = np.full(len(one), odds.apart)
            others.append(_largest(place[other], odds.nats[at][other], apart))
            if one is i:
                # the links of a row outside are not there, but those to it are
                way = _look_up(keys, nats, two[place] * rows + third, odds.apart)
                both = np.minimum(way, odds.nats[at])
                np.maximum.at(between, place[other], both[other])
        near = np.bincount(odds.first[odds.nats > 0], minlength=rows)
        most = np.maximum(*others)
        bearers = np.log1p(np.maximum(near[i], near[j]))
        found = (own, most, own - most, between, bearers)
        parts.append(tuple(np.where(unread, np.nan, column) for column in found))
    columns = zip(*parts, strict=True) if parts else ([np.zeros(0)] for _ in PAIRS_OF_PAIRS)
    return {
        name: np.concatenate(column).astype(np.float64)
        for name, column in zip(PAIRS_OF_PAIRS, columns, strict=True)
    }


def odds_of_file(odds: PairOdds, entities: ReportedEntities) -> dict[str, float]:
    """The columns `PAIRS_OF_FILES`: the model of pairs' expectations of the grouping."""
    held = _rows_by_cluster(odds, entities)
    place, at = _links_of(odds.first, held.thing)
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


def judged_of_entities(
    predicted: Prediction, places: IntArray, entities: ReportedEntities
) -> dict[str, FloatArray]:
    """The columns `JUDGED_OF_CLAIMS`; NaN for clusters that are not completely in the judge's
    sample."""
    sizes, of, place = entities.lengths, entities.of_members, places[entities.members]
    known = np.ones(len(sizes), bool)
    np.logical_and.at(known, of, place >= 0)
    exact = np.zeros((len(predicted.labels), len(sizes)))
    for number, labels in enumerate(predicted.labels):
        low, high = np.full(len(sizes), len(labels)), np.full(len(sizes), -1)
        np.minimum.at(low, of, labels[place])
        np.maximum.at(high, of, labels[place])
        size = np.append(np.bincount(labels), 0)
        exact[number] = (low == high) & (size[np.minimum(low, len(size) - 1)] == sizes)
    return _votes_of(predicted, exact, known)


def judged_of_pairs(
    predicted: Prediction, places: IntArray, pairs: ReportedPairs
) -> dict[str, FloatArray]:
    """The columns `JUDGED_OF_CLAIMS`; NaN for pairs outside the judge's sample."""
    first, second = places[pairs.first], places[pairs.second]
    known = (first >= 0) & (second >= 0)
    together = predicted.labels[:, first] == predicted.labels[:, second]
    return _votes_of(predicted, together.astype(np.float64), known)


def judged_of_file(predicted: Prediction, votes: FloatArray) -> dict[str, float]:
    """The columns `JUDGED_OF_FILES`, by the votes for the entities."""
    known = votes[~np.isnan(votes)]
    mean = float(known.mean()) if len(known) else np.nan
    return dict(zip(JUDGED_OF_FILES, (predicted.f1, predicted.gain, mean), strict=True))


def _votes_of(predicted: Prediction, exact: FloatArray, known: BoolArray) -> dict[str, FloatArray]:
    found = (predicted.weights @ exact, exact.mean(axis=0))
    columns = (np.where(known, votes, np.nan) for votes in found)
    return dict(zip(JUDGED_OF_CLAIMS, columns, strict=True))


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


def _look_up(keys: IntArray, nats: FloatArray, wanted: IntArray, other: float) -> FloatArray:
    if not len(keys):
        return np.full(len(wanted), other)
    at, there = _place(keys, wanted)
    return np.where(there, nats[at], other)


def _log_sigmoid(nats: FloatArray) -> FloatArray:
    return np.asarray(-np.logaddexp(0.0, -nats))


REPORTED = "reported"
PAIRS = "pairs"

_WHOLE = (*PAIRS_OF_FILES, *JUDGED_OF_FILES)
ENTITY_FEATURES = (REPORTED, *OF_ENTITIES, *PAIRS_OF_ENTITIES, *JUDGED_OF_CLAIMS, *_WHOLE)
PAIR_FEATURES = (REPORTED, *PAIRS_OF_PAIRS, *JUDGED_OF_CLAIMS)
"""Features of a file or its names are misleading for pairs on new kinds of data."""


class ConfidenceFeatures:
    """A report with a confidence map's other inputs."""

    def __init__(self, reported: ClusteringReport, context: FileContext) -> None:
        self._fragments, self._entities, self._context = (
            reported.fragments,
            reported.entities,
            context,
        )
        self._stated = reported.stated
        predicted = context.predicted
        self._places = None if predicted is None else predicted.places(reported.fragments)
        self._odds = _odds(reported, context)

    @cached_property
    def _facts(self) -> Descriptions:
        """The names and values of the fragments; columns of pairs do not need them."""
        whole = self._context.whole
        counted = None if whole is None else whole.counted
        return describe(self._fragments, counted, self._stated)

    def entities(self, features: tuple[str, ...]) -> FloatArray:
        """Some columns of the entities, shape [entities, features]."""
        return self._rows(features, self._entities.probability, self._of_entities)

    def pairs(self, features: tuple[str, ...], pairs: ReportedPairs) -> FloatArray:
        """Some columns of some pairs, shape [pairs, features]."""
        columns: Columns = {}
        if self._odds is not None:
            columns |= odds_of_pairs(self._odds, pairs)
        if self._context.predicted is not None and self._places is not None:
            columns |= judged_of_pairs(self._context.predicted, self._places, pairs)
        return self._rows(features, pairs.probability, columns)

    def _rows(
        self, features: tuple[str, ...], probability: FloatArray, columns: Columns
    ) -> FloatArray:
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
    def _of_entities(self) -> Columns:
        columns = entity_columns(self._facts, self._entities)
        if self._odds is not None:
            columns |= odds_of_entities(self._odds, self._entities)
        if self._context.predicted is not None and self._places is not None:
            columns |= judged_of_entities(self._context.predicted, self._places, self._entities)
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
            whole |= judged_of_file(self._context.predicted, self._of_entities["votes"])
        return whole


def _odds(reported: ClusteringReport, context: FileContext) -> PairOdds | None:
    """The log odds of the model of pairs; if it clusters, it has placed the fragments added to the
    file."""
    if context.pairs is None:
        return None
    placed = reported.changed
    if context.likelihood != PAIRS:
        placed = np.zeros(len(reported.fragments), np.bool_)
    return context.pairs.pair_odds(reported.fragments, placed)

"""Covariates from a model of pairs and from a judge: what they say of each entity and each pair.

Of an *entity*: how sure the model of pairs is of those inside, how strong the best rival outside
is, and how probable it is by both that all inside hold and nothing outside belongs; and in how
many of the groupings that were judged the same cluster is. Of a *pair*: its own log odds, those of
the best others of its two rows, and those by way of a third row; and in how many groupings the two
are together.
"""

from __future__ import annotations

import numpy as np

from kbforge.contracts import Cluster, FloatArray, IntArray
from kbforge.evaluation.reliability import BoolArray, Entities, Pairs
from kbforge.fit.heard import UNREAD, PairOdds, Predicted

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


def odds_of_entities(odds: PairOdds, clusters: tuple[Cluster, ...]) -> dict[str, FloatArray]:
    """The columns `PAIRS_OF_ENTITIES`, each of shape [entities]."""
    k = len(clusters)
    held = _Held.of(odds, clusters)
    place, at = _links_of(odds, held.row)
    own, other, nats = held.cluster[place], odds.second[at], odds.nats[at]
    self_link = other == held.row[place]
    inside = held.has(own, other) & (~self_link | (held.count[place] > 1))
    outside = held.elsewhere(own, other)
    # inside: every two rows, without a link `apart`; a row with itself where it is there twice
    rows = np.bincount(held.cluster, minlength=k).astype(np.float64)
    weight = np.where(self_link, 1.0, 0.5)[inside]
    linked = np.bincount(own[inside & ~self_link], minlength=k) / 2
    twice = np.bincount(own[inside & self_link], minlength=k)
    missing = rows * (rows - 1) / 2 - linked
    total = missing * odds.apart + _summed(own[inside], weight * nats[inside], k)
    pairs = rows * (rows - 1) / 2 + twice
    least = np.full(k, np.inf)
    np.minimum.at(least, own[inside], nats[inside])
    least[missing > 0.25] = np.minimum(least[missing > 0.25], odds.apart)
    # of each row of each cluster the best inside and the best outside
    entries = len(held.row)
    best = np.full(entries, odds.apart)
    np.maximum.at(best, place[inside], nats[inside])
    rival = np.full(entries, odds.apart)
    np.maximum.at(rival, place[outside], nats[outside])
    several = (rows > 1) | (twice > 0)
    weakest, ahead = np.full(k, np.inf), np.full(k, np.inf)
    np.minimum.at(weakest, held.cluster, best)
    np.minimum.at(ahead, held.cluster, best - rival)
    most = np.full(k, odds.apart)
    np.maximum.at(most, held.cluster, rival)
    mean_rival, alone = _rivals(odds, own[outside], other[outside], nats[outside], rows)
    hold = _summed(held.cluster, _log_sigmoid(best), k)
    hold[~several] = 0.0
    found = {
        "odds_sum": np.maximum(total, _LEAST),
        "odds_mean": total / np.maximum(pairs, 1),
        "odds_least": least,
        "odds_weakest": weakest,
        "odds_rival": most,
        "odds_rival_mean": mean_rival,
        "odds_margin": ahead,
        "odds_hold": np.maximum(hold, _LEAST),
        "odds_alone": np.maximum(alone, _LEAST),
        "odds_exact": np.maximum(hold + alone, _LEAST),
    }
    for name in ("odds_mean", "odds_least", "odds_weakest", "odds_margin"):
        found[name] = np.where(several, found[name], np.nan)
    if (odds.row == UNREAD).any():
        unread = np.array([(odds.row[list(cluster)] == UNREAD).any() for cluster in clusters])
        for column in found.values():
            column[unread] = np.nan
    return found


def odds_of_pairs(odds: PairOdds, pairs: Pairs) -> dict[str, FloatArray]:
    """The columns `PAIRS_OF_PAIRS`, each of shape [pairs]."""
    rows = max(int(odds.row.max(initial=0)), int(odds.second.max(initial=0))) + 1
    keys = odds.first * rows + odds.second
    order = np.argsort(keys, kind="stable")
    keys, nats = keys[order], odds.nats[order]
    parts = []
    for start in range(0, len(pairs), _AT_ONCE):
        part = pairs.part(slice(start, start + _AT_ONCE))
        i, j = odds.row[part.first], odds.row[part.second]
        unread = (i == UNREAD) | (j == UNREAD)
        own = _looked_up(keys, nats, i * rows + j, odds.apart)
        others, between = [], np.full(len(i), odds.apart)
        for one, two in ((i, j), (j, i)):
            place, at = _links_of(odds, one)
            third = odds.second[at]
            other = (third != two[place]) & (third != one[place])
            best = np.full(len(one), odds.apart)
            np.maximum.at(best, place[other], odds.nats[at][other])
            others.append(best)
            if one is i:
                # the links of a row outside are not there, but those to it are
                way = _looked_up(keys, nats, two[place] * rows + third, odds.apart)
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


def odds_of_file(odds: PairOdds, clusters: tuple[Cluster, ...]) -> dict[str, float]:
    """The columns `PAIRS_OF_FILES`: what the model of pairs expects of the grouping."""
    held = _Held.of(odds, clusters)
    place, at = _links_of(odds, held.row)
    other, nats = odds.second[at], odds.nats[at]
    different = other != held.row[place]
    inside = held.has(held.cluster[place], other) & different
    sure = 1 / (1 + np.exp(-nats))
    found, every = float(sure[inside].sum()), float(sure[different].sum())
    return {
        "file_odds_precision": found / max(float(inside.sum()), 1.0) if inside.any() else np.nan,
        "file_odds_recall": found / every if every else np.nan,
        "file_odds_links": every / max(len(held.row), 1),
    }


def judged_of_entities(
    predicted: Predicted, places: IntArray, entities: Entities
) -> dict[str, FloatArray]:
    """The columns `JUDGED_OF_CLAIMS`; NaN of clusters that are not whole in the judge's sample.

    Args:
        predicted: by the judge.
        places: of all fragments in the sample, as of `Predicted.places`.
        entities: of the fragments.

    """
    sizes = np.array([len(cluster) for cluster in entities.clusters], np.int64)
    members = np.fromiter((f for c in entities.clusters for f in c), np.int64, int(sizes.sum()))
    of, place = np.repeat(np.arange(len(sizes)), sizes), places[members]
    known = np.ones(len(sizes), bool)
    np.logical_and.at(known, of, place >= 0)
    exact = np.zeros((len(predicted.labels), len(sizes)))
    for number, labels in enumerate(predicted.labels):
        low, high = np.full(len(sizes), len(labels)), np.full(len(sizes), -1)
        np.minimum.at(low, of, labels[place])
        np.maximum.at(high, of, labels[place])
        size = np.append(np.bincount(labels), 0)
        exact[number] = (low == high) & (size[np.minimum(low, len(size) - 1)] == sizes)
    return _voted(predicted, exact, known)


def judged_of_pairs(predicted: Predicted, places: IntArray, pairs: Pairs) -> dict[str, FloatArray]:
    """The columns `JUDGED_OF_CLAIMS`; NaN of pairs outside the judge's sample.

    Args:
        predicted: by the judge.
        places: of all fragments in the sample, as of `Predicted.places`.
        pairs: of the fragments.

    """
    first, second = places[pairs.first], places[pairs.second]
    known = (first >= 0) & (second >= 0)
    together = predicted.labels[:, first] == predicted.labels[:, second]
    return _voted(predicted, together.astype(np.float64), known)


def judged_of_file(predicted: Predicted, votes: FloatArray) -> dict[str, float]:
    """The columns `JUDGED_OF_FILES`.

    Args:
        predicted: by the judge.
        votes: for the entities.

    """
    known = votes[~np.isnan(votes)]
    mean = float(known.mean()) if len(known) else np.nan
    return dict(zip(JUDGED_OF_FILES, (predicted.f1, predicted.gain, mean), strict=True))


def _voted(predicted: Predicted, exact: FloatArray, known: BoolArray) -> dict[str, FloatArray]:
    found = (predicted.weights @ exact, exact.mean(axis=0))
    columns = (np.where(known, votes, np.nan) for votes in found)
    return dict(zip(JUDGED_OF_CLAIMS, columns, strict=True))


class _Held:
    """Which rows each cluster has: entries of (cluster, row), ascending, and how often each is."""

    def __init__(self, rows: int, keys: IntArray, count: IntArray) -> None:
        self._rows, self._keys = rows, keys
        self.cluster, self.row, self.count = keys // rows, keys % rows, count
        self._holders = np.bincount(self.row, minlength=rows)
        self._only = np.zeros(rows, np.int64)
        self._only[self.row] = self.cluster

    @classmethod
    def of(cls, odds: PairOdds, clusters: tuple[Cluster, ...]) -> _Held:
        sizes = np.array([len(cluster) for cluster in clusters], np.int64)
        members = np.fromiter((f for c in clusters for f in c), np.int64, int(sizes.sum()))
        rows = max(int(odds.row.max(initial=0)), int(odds.second.max(initial=0))) + 1
        row = odds.row[members]
        keys = (np.repeat(np.arange(len(clusters)), sizes) * rows + row)[row != UNREAD]
        return cls(rows, *np.unique(keys, return_counts=True))

    def has(self, cluster: IntArray, row: IntArray) -> BoolArray:
        """Whether each cluster has each row."""
        wanted = cluster * self._rows + row
        at = np.minimum(np.searchsorted(self._keys, wanted), len(self._keys) - 1)
        return np.asarray(self._keys[at] == wanted)

    def elsewhere(self, cluster: IntArray, row: IntArray) -> BoolArray:
        """Whether another cluster has each row."""
        holders = self._holders[row]
        return np.asarray((holders > 1) | ((holders == 1) & (self._only[row] != cluster)))


def _rivals(
    odds: PairOdds, cluster: IntArray, other: IntArray, nats: FloatArray, rows: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """The best mean log odds of a cluster with a row outside, and the log probability of none."""
    k = len(rows)
    best, alone = np.full(k, odds.apart), np.zeros(k)
    if not len(cluster):
        return best, alone
    width = int(other.max()) + 1
    keys, inverse = np.unique(cluster * width + other, return_inverse=True)
    above = _summed(inverse, nats - odds.apart, len(keys))
    own = keys // width
    mean = above / rows[own] + odds.apart
    np.maximum.at(best, own, mean)
    return best, _summed(own, _log_sigmoid(-mean), k)


def _summed(of: IntArray, values: FloatArray, k: int) -> FloatArray:
    """The sum of the values of each of k things; numpy counts in integers where there is none."""
    return np.bincount(of, weights=values, minlength=k).astype(np.float64)


def _links_of(odds: PairOdds, rows: IntArray) -> tuple[IntArray, IntArray]:
    """For each of some rows its links: place among the rows, and which link."""
    low = np.searchsorted(odds.first, rows)
    counts = np.searchsorted(odds.first, rows, side="right") - low
    place = np.repeat(np.arange(len(rows)), counts)
    return place, np.arange(len(place)) - np.repeat(np.cumsum(counts) - counts, counts) + low[place]


def _looked_up(keys: IntArray, nats: FloatArray, wanted: IntArray, other: float) -> FloatArray:
    if not len(keys):
        return np.full(len(wanted), other)
    at = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
    return np.where(keys[at] == wanted, nats[at], other)


def _log_sigmoid(nats: FloatArray) -> FloatArray:
    return np.asarray(-np.logaddexp(0.0, -nats))

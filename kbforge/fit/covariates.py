"""What, besides its reported probability, says how far an entity can be believed; no label is read.

How many fragments and names it has, whether its name is borne elsewhere, how like the nearest other
name is, whether other values agree inside and with that neighbour.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from kbforge.contracts import Cluster, FloatArray, IntArray
from kbforge.evaluation.reliability import Entities
from kbforge.fit.told import NONE, Told

Columns: TypeAlias = dict[str, FloatArray]
"""Name of a covariate -> its value for each claim."""

OF_ENTITIES = (
    *("fragments", "subproblem", "rivals", "names", "commonest", "borne_elsewhere", "kept"),
    *("nearest", "crowd", "cohesion", "words", "letters", "foreign", "digits", "attributes"),
    *("agree", "compared", "neighbour_agrees", "neighbour_differs", "linked", "linked_share"),
)
LIMIT = float(np.log(999))  # nats; reports beyond .999 say one thing
_ALIKE = 0.5  # cosine from which two names are called alike


def log_odds(probability: FloatArray) -> FloatArray:
    """In nats, within +-`LIMIT`."""
    with np.errstate(divide="ignore"):
        odds: FloatArray = np.log(probability) - np.log1p(-probability)
    return np.clip(odds, -LIMIT, LIMIT)


def entity_columns(told: Told, entities: Entities) -> Columns:
    """The covariates of entities, the file's not among them."""
    grouped = _grouped(told, entities.clusters)
    out: Columns = {
        "fragments": np.log(grouped.sizes),
        "subproblem": np.log(entities.size),
        "rivals": _rivals(entities),
    }
    return out | _names_of(told, grouped) | _values_of(told, grouped) | _links_of(told, grouped)


def _links_of(told: Told, grouped: _Grouped) -> Columns:
    """How many nats of rare values the best fragment outside shares with one inside."""
    k = len(grouped.sizes)
    first, second, nats = told.linked.first, told.linked.second, told.linked.strength
    outside = grouped.of[first] != grouped.of[second]
    best = np.zeros(k)
    np.maximum.at(best, grouped.of[first][outside], nats[outside])
    most = np.log(max(told.counted.fragments, len(told)) + 1.0)
    return {"linked": best, "linked_share": best / most}


@dataclass(frozen=True, slots=True)
class _Grouped:
    """A grouping with its names counted.

    Attributes:
        of: number of each fragment's cluster, shape [n].
        sizes: of the clusters.
        cluster: of each (cluster, name) that there is, ascending.
        name: of each of them.
        count: fragments of each of them.

    """

    of: IntArray
    sizes: IntArray
    cluster: IntArray
    name: IntArray
    count: IntArray
    width: int

    def counted(self, cluster: IntArray, name: IntArray) -> IntArray:
        """How many fragments of each cluster bear each name, same shape."""
        if not len(self.cluster):
            return np.zeros(len(cluster), np.int64)
        keys, wanted = self.cluster * self.width + self.name, cluster * self.width + name
        at = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
        return np.where(keys[at] == wanted, self.count[at], 0)


def _grouped(told: Told, clusters: tuple[Cluster, ...]) -> _Grouped:
    of = np.zeros(len(told), np.int64)
    sizes = np.array([len(cluster) for cluster in clusters], np.int64)
    of[np.fromiter((f for c in clusters for f in c), np.int64, len(told))] = np.repeat(
        np.arange(len(clusters)), sizes
    )
    width = max(len(told.named), 1)
    there = told.name >= 0
    keys, count = np.unique(of[there] * width + told.name[there], return_counts=True)
    return _Grouped(of, sizes, keys // width, keys % width, count, width)


def _rivals(entities: Entities) -> FloatArray:
    """Other entities of the point estimate in the same subproblem, as log(1 + them)."""
    return np.log(np.bincount(entities.subproblem)[entities.subproblem])


def _names_of(told: Told, grouped: _Grouped) -> Columns:
    k = len(grouped.sizes)
    cluster, name, count = grouped.cluster, grouped.name, grouped.count
    names = np.bincount(cluster, minlength=k)
    borne = np.bincount(cluster, weights=told.named[name] - count, minlength=k)
    bearing = np.bincount(cluster, weights=count, minlength=k)
    commonest = np.zeros(k)
    np.maximum.at(commonest, cluster, count)
    # every name of a cluster with every name that is like it
    place, other, cosine = _likely(told, name)
    outside = told.named[other] > grouped.counted(cluster[place], other)
    inside = grouped.counted(cluster[place], other) > 0
    nearest = np.zeros(k)
    np.maximum.at(nearest, cluster[place][outside], cosine[outside])
    nearest[borne > 0] = 1.0
    close = outside & (cosine >= _ALIKE)
    crowd = np.bincount(
        cluster[place][close],
        weights=(told.named[other] - grouped.counted(cluster[place], other))[close],
        minlength=k,
    )
    best = np.zeros(len(name))
    np.maximum.at(best, place[inside], cosine[inside])
    cohesion = np.ones(k)
    several = names[cluster] > 1
    np.minimum.at(cohesion, cluster[several], best[several])
    nameless = names == 0
    out = {
        "names": np.log1p(names),
        "commonest": commonest / grouped.sizes,
        "borne_elsewhere": np.log1p(borne),
        "kept": bearing / np.maximum(bearing + borne, 1),
        "nearest": nearest,
        "crowd": np.log1p(crowd),
        "cohesion": cohesion,
        "words": _mean_by(grouped, told.words),
        "letters": np.log1p(_mean_by(grouped, told.letters)),
        "foreign": _mean_by(grouped, told.foreign),
        "digits": _mean_by(grouped, told.digits),
    }
    for column in out.values():
        column[nameless] = np.nan
    return out


def _mean_by(grouped: _Grouped, of_name: FloatArray) -> FloatArray:
    k = len(grouped.sizes)
    total = np.bincount(grouped.cluster, weights=of_name[grouped.name], minlength=k)
    return total / np.maximum(np.bincount(grouped.cluster, minlength=k), 1)


def _values_of(told: Told, grouped: _Grouped) -> Columns:
    k = len(grouped.sizes)
    agree, compared = _agreement(told, grouped.of, k)
    neighbour = _neighbours(told, grouped)
    with_one, against = _compared(told, grouped, neighbour)
    return {
        "attributes": np.bincount(grouped.of, weights=told.attributes, minlength=k) / grouped.sizes,
        "agree": agree,
        "compared": compared,
        "neighbour_agrees": with_one,
        "neighbour_differs": against,
    }


def _agreement(told: Told, group: IntArray, groups: int) -> tuple[FloatArray, FloatArray]:
    """Of each group, how likely two of its fragments agree on an attribute that both state.

    Args:
        told: what is said.
        group: of each fragment, `NONE` for none, shape [n].
        groups: how many there are.

    Returns:
        The mean over the attributes that two fragments state, NaN without any, and how many those
        are; both of shape [groups].

    """
    total, compared = np.zeros(groups), np.zeros(groups)
    for column in range(told.values.shape[1]):
        values = told.values[:, column]
        there = (values >= 0) & (group >= 0)
        if not there.any():
            continue
        width = int(values.max()) + 1
        keys, count = np.unique(group[there] * width + values[there], return_counts=True)
        stating = np.bincount(group[there], minlength=groups).astype(np.float64)
        same = np.bincount(keys // width, weights=count * (count - 1.0), minlength=groups)
        enough = stating > 1
        total[enough] += same[enough] / (stating * (stating - 1))[enough]
        compared += enough
    with np.errstate(invalid="ignore"):
        return np.where(compared > 0, total / compared, np.nan), compared


def _neighbours(told: Told, grouped: _Grouped) -> IntArray:
    """Of each cluster another that bears its name or the one most like it, `NONE` without any."""
    k = len(grouped.sizes)
    # the two largest clusters of each name, so that one of them is another than one's own
    order = np.lexsort((grouped.cluster, -grouped.count, grouped.name))
    name, cluster = grouped.name[order], grouped.cluster[order]
    start = np.searchsorted(name, np.arange(len(told.named)))
    stop = np.searchsorted(name, np.arange(len(told.named)), side="right")
    first = np.full(len(told.named), NONE, np.int64)
    second = first.copy()
    first[stop > start] = cluster[start[stop > start]]
    second[stop > start + 1] = cluster[start[stop > start + 1] + 1]
    place, other, cosine = _likely(told, grouped.name)
    place = np.concatenate([np.arange(len(grouped.name)), place])
    other = np.concatenate([grouped.name, other])
    cosine = np.concatenate([np.full(len(grouped.name), 2.0), cosine])
    own = grouped.cluster[place]
    there = np.where(first[other] == own, second[other], first[other])
    known = there >= 0
    own, there, cosine = own[known], there[known], cosine[known]
    order = np.lexsort((there, -cosine, own))
    own, there = own[order], there[order]
    at = np.searchsorted(own, np.arange(k))
    out = np.full(k, NONE, np.int64)
    found = at < len(own)
    found[found] = own[at[found]] == np.flatnonzero(found)
    out[found] = there[at[found]]
    return out


def _compared(told: Told, grouped: _Grouped, neighbour: IntArray) -> tuple[FloatArray, FloatArray]:
    """On how many attributes the commonest values of a cluster and its neighbour agree, differ."""
    k = len(grouped.sizes)
    agree, differ = np.zeros(k), np.zeros(k)
    for column in range(told.values.shape[1]):
        values = told.values[:, column]
        there = values >= 0
        if not there.any():
            continue
        width = int(values.max()) + 1
        keys, count = np.unique(grouped.of[there] * width + values[there], return_counts=True)
        order = np.lexsort((keys, -count, keys // width))
        cluster, at = np.unique(keys[order] // width, return_index=True)
        commonest = np.full(k + 1, NONE, np.int64)  # the last one for no neighbour
        commonest[cluster] = keys[order][at] % width
        own, other = commonest[:k], commonest[neighbour]
        both = (own >= 0) & (other >= 0) & (neighbour >= 0)
        agree += both & (own == other)
        differ += both & (own != other)
    alone = neighbour < 0
    agree[alone], differ[alone] = np.nan, np.nan
    return agree, differ


def _likely(told: Told, name: IntArray) -> tuple[IntArray, IntArray, FloatArray]:
    """For each of some names the names like it: place among them, the other name, cosine."""
    low = np.searchsorted(told.alike.first, name)
    counts = np.searchsorted(told.alike.first, name, side="right") - low
    place = np.repeat(np.arange(len(name)), counts)
    at = np.arange(len(place)) - np.repeat(np.cumsum(counts) - counts, counts) + low[place]
    return place, told.alike.second[at], told.alike.strength[at]

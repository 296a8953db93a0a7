"""The neighbourhood of an entity: possible merges, related and similar entities.

Neighbours are entities that share a cluster with it in some particle, then those that its values
name, or whose values name it, then those that share index keys; a key with few entities counts
more. The drawing follows Fruchterman and Reingold (1991): each pair of nodes repels, each edge
attracts, and the entity itself stays in the middle.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from itertools import chain, combinations
from typing import Any, TypeAlias

import numpy as np

from kbforge.contracts import FloatArray, Fragment
from kbforge.store.pages import numbers_from_bytes
from kbforge.store.store import Store
from kbforge.store.tables import rows_of
from kbforge_serve.answers import plain
from kbforge_serve.facts import holding, references
from kbforge_serve.helpers import aside
from kbforge_serve.readers import Readers

MOST_NEIGHBOURS = 18
_MOST_EDGES = 48
_MOST_READ = 12  # fragments of an entity, whose keys and values are compared
_MOST_LED = 60  # families of clusters that keys lead to, those with the heaviest keys
_MOST_VALUES = 5  # named for an edge
_LEAST_KEYS = 4  # that connect two neighbours: one or two are a first name or a year
_STEPS = 80  # of the drawing
_MARGIN = 0.06  # of the unit square that stays empty on each side

Pair: TypeAlias = tuple[str, str]
"""The ids of two entities, ascending."""


@aside
def neighbourhood(readers: Readers, id: str) -> dict[str, Any]:
    """An entity and its neighbours, with the connections of each pair, and positions for drawing.

    Nodes are references with `x` and `y` from 0 to 1, the entity itself first. An edge has the
    probability that the two share a cluster (`joined`), the `links` of values of one that name the
    other, each with the id of the entity that states it and the attribute, the number of keys that
    their first fragments share, and values that both but few others state.

    Raises NotFoundError if there is no such entity now.
    """
    with readers.store() as store:
        home, members = store.entity(id)
        joined = _joined(store, [home])
        beside = {a if b == id else b: p for (a, b), p in joined.items() if id in (a, b)}
        near, related = _near(readers, store, members), _related(readers, store, id)
        ranked = sorted(beside, key=lambda other: (-beside[other], other))
        ranked += [other for other in related if other not in beside]
        ranked += sorted(near.keys() - {*ranked}, key=lambda other: (-near[other], other))
        ids = [id, *[other for other in ranked if other != id][:MOST_NEIGHBOURS]]
        nodes = [plain(one) for one in references(readers, store, ids)]
        rows = list(rows_of(store.database.connection, "entity", "id", ids))
        joined = _joined(store, sorted({home for _, home, _ in rows}))
        said = _said(store, {id: numbers_from_bytes(held).tolist() for id, _, held in rows})
        edges = _edges(readers, store, ids, joined, said, _links(readers, store, ids))
    strength = np.zeros((len(ids), len(ids)))
    strength[0, 1:] = strength[1:, 0] = 0.3  # so that nothing drifts away
    place = {one: at for at, one in enumerate(ids)}
    for edge in edges:
        at = place[edge["first"]], place[edge["second"]]
        pull = edge["joined"] + 0.1 * min(edge["keys"], 5) + 0.2 * bool(edge["values"])
        pull += 0.3 * bool(edge["links"])
        strength[at] = strength[at[::-1]] = 0.2 + pull
    for node, (x, y) in zip(nodes, _drawn(strength).tolist(), strict=True):
        node["x"], node["y"] = x, y
    return {"id": id, "nodes": nodes, "edges": edges}


def _joined(store: Store, names: Sequence[int]) -> dict[Pair, float]:
    """The probability that two entities share a cluster, for the entities of some subproblems."""
    rows = store.database.connection
    holder: dict[int, str] = {}
    for entity, _, members in rows_of(rows, "entity", "subproblem", names):
        holder.update(dict.fromkeys(numbers_from_bytes(members).tolist(), entity))
    found: dict[Pair, float] = defaultdict(float)
    for page in map(store.pages.page, names):
        weights = np.exp(page.weights).tolist()
        for particle, weight in zip(page.subproblem().particles, weights, strict=True):
            pairs = {  # two entities that share several clusters of a particle count once
                pair
                for cluster in particle.clusters
                if len(cluster) > 1
                for pair in combinations(sorted({holder[n] for n in cluster}), 2)
            }
            for pair in pairs:
                found[pair] += weight
    return {pair: min(probability, 1.0) for pair, probability in found.items()}


def _related(readers: Readers, store: Store, id: str) -> list[str]:
    """The entities that an entity's values name, the most probable first, then those whose values
    name it; at most `MOST_NEIGHBOURS` each."""
    view = readers.view_of(store)
    (own,) = view.with_ids([id])
    named: dict[str, float] = {}
    for value in chain.from_iterable(own.properties.values()):
        for meaning in value.meanings[:1]:
            named[meaning.entity] = max(named.get(meaning.entity, 0.0), meaning.probability)
    tails = sorted(named, key=lambda other: (-named[other], other))[:MOST_NEIGHBOURS]
    heads, _ = view.stating(own, 0, MOST_NEIGHBOURS)
    return list(dict.fromkeys((*tails, *(one.entity for one in heads))))


def _links(readers: Readers, store: Store, ids: Sequence[str]) -> dict[Pair, list[Pair]]:
    """Which entities' values name which: the head and the attribute of each link, by pair."""
    found: dict[Pair, dict[Pair, None]] = defaultdict(dict)
    for head in readers.view_of(store).with_ids(ids):
        for attribute, values in head.properties.items():
            for tail in {value.meanings[0].entity for value in values if value.meanings}:
                found[min(head.id, tail), max(head.id, tail)][head.id, attribute] = None
    return {pair: [*links] for pair, links in found.items()}


def _near(readers: Readers, store: Store, numbers: Sequence[int]) -> dict[str, float]:
    """The entities that share keys with some fragments, and the weights of the keys."""
    fragments = store.pages.fragments(numbers[:_MOST_READ])
    keys = sorted(_keys(readers, store, list(fragments.values())))
    weights: dict[int, float] = defaultdict(float)
    for families in store.pages.postings(keys).values():
        for family in families.families:
            weights[family] += 1 / len(families.families)
    best = sorted(weights, key=lambda family: (-weights[family], family))[:_MOST_LED]
    out: dict[str, float] = defaultdict(float)
    for number, entity in holding(readers, store, best).items():
        out[entity.id] += weights[number]
    return out


def _keys(readers: Readers, store: Store, fragments: Sequence[Fragment]) -> set[int]:
    """The keys of fragments; empty if the likelihood has no index."""
    index = readers.models(store)[0].spec.index
    if index is None:
        return set()
    with readers.scoring():
        return {key for fragment in fragments for key in index.keys(fragment)}


def _said(store: Store, members: Mapping[str, Sequence[int]]) -> dict[str, list[Fragment]]:
    """The first fragments of entities."""
    numbers = [n for held in members.values() for n in held[:_MOST_READ]]
    found = store.pages.fragments(numbers)
    return {id: [found[n] for n in held[:_MOST_READ]] for id, held in members.items()}


def _edges(
    readers: Readers,
    store: Store,
    ids: Sequence[str],
    joined: Mapping[Pair, float],
    said: Mapping[str, Sequence[Fragment]],
    links: Mapping[Pair, Sequence[Pair]],
) -> list[dict[str, Any]]:
    """The connections of each pair of entities, the strongest edges first."""
    values = {
        id: {(name, value) for f in said[id] for name, of in f.properties.items() for value in of}
        for id in ids
    }
    common = Counter(value for held in values.values() for value in held)
    telling = {value for value, count in common.items() if count <= max(2, len(ids) // 2)}
    keys = {id: _keys(readers, store, said[id]) for id in ids}
    edges: list[dict[str, Any]] = []
    for first, second in combinations(ids, 2):
        pair = min(first, second), max(first, second)
        probability, linked = joined.get(pair, 0.0), links.get(pair, ())
        shared = len(keys[first] & keys[second])
        both = sorted(values[first] & values[second] & telling)[:_MOST_VALUES]
        if probability or linked or both or shared >= (1 if first == ids[0] else _LEAST_KEYS):
            edges.append(
                {
                    "first": first,
                    "second": second,
                    "joined": probability,
                    "links": [list(one) for one in linked],
                    "keys": shared,
                    "values": [list(one) for one in both],
                }
            )
    edges.sort(
        key=lambda e: (
            *(-e["joined"], e["first"] != ids[0]),
            *(-len(e["links"]), -len(e["values"]), -e["keys"]),
        )
    )
    return edges[:_MOST_EDGES]


def _drawn(strength: FloatArray) -> FloatArray:
    """Positions of nodes with edges of these strengths, shape [n, 2], from 0 to 1."""
    n = len(strength)
    angle = 2 * np.pi * np.arange(n) / max(n - 1, 1)
    at = np.stack([np.cos(angle), np.sin(angle)], axis=1)
    at[0] = 0.0
    ideal = 1.2 / np.sqrt(n)
    for step in range(_STEPS):
        apart = at[:, None] - at
        distance = np.maximum(np.sqrt((apart**2).sum(axis=2)), 1e-3)
        force = ideal**2 / distance**2 - strength * distance / ideal
        moved = (apart * force[:, :, None]).sum(axis=1)
        length = np.maximum(np.sqrt((moved**2).sum(axis=1, keepdims=True)), 1e-9)
        at += moved / length * np.minimum(length, 0.15 * (1 - step / _STEPS))
        at -= at[0]
    low, high = at.min(axis=0), at.max(axis=0)
    wide = np.maximum(high - low, 1e-9)
    scaled = np.where(high - low > 1e-6, (at - low) / wide, 0.5)
    out: FloatArray = (_MARGIN + (1 - 2 * _MARGIN) * scaled).round(4)
    return out

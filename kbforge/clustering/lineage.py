"""Lineage: how the clusters of a run grew, so that a live table can be rebuilt the same way.

A cluster grew by its fragments in order of arrival, and clusters with the same beginning share it.
This makes a tree: each node is a current or former cluster, and its parent is the cluster without
the newest fragment. A table that is extended along the tree makes the same additions in the same
order as the run, so it holds the same bits.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from kbforge.contracts import Cluster, FloatArray, Fragment, LiveClusters, Observation


def replay(
    table: LiveClusters,
    clusters: Mapping[int, Cluster],
    fragments: Mapping[int, Fragment],
    first_free: int,
    scored: bool,
) -> dict[int, float]:
    """Extend a table, whose slots may have gaps, by clusters; if `scored`, returns L(C) by slot.

    L is in nats, the sum of each fragment's contribution. The table holds no cluster in these slots
    and from the `first_free` on, which former clusters have until their last child is made. It
    keeps its clusters, whether or not an error is raised.
    """
    parent: list[int] = []
    born: dict[int, list[int]] = {}
    known: dict[tuple[int, int], int] = {}
    slot_of: dict[int, int] = {}
    for slot, cluster in clusters.items():
        node = -1
        for fragment in cluster:
            at = known.setdefault((node, fragment), len(parent))
            if at == len(parent):
                parent.append(node)
                born.setdefault(fragment, []).append(at)
            node = at
        slot_of[node] = slot
    node_of = {slot: node for node, slot in slot_of.items()}
    former = [node for node in range(len(parent)) if node not in slot_of]
    slot_of |= {node: slot for slot, node in enumerate(former, first_free)} | {-1: -1}
    children = np.bincount([p for p in parent if p >= 0], minlength=len(parent)).tolist()
    scores, held = [0.0] * len(parent), set[int]()
    try:
        for fragment in sorted(born):
            nodes = born[fragment]
            x = table.encode(fragments[fragment])
            parents = np.array([slot_of[parent[node]] for node in nodes])
            own = [slot_of[node] for node in nodes]
            if scored:
                gains = _gains(table, x, parents).tolist()
                for node, gain in zip(nodes, gains, strict=True):
                    scores[node] = gain + (scores[parent[node]] if parent[node] >= 0 else 0.0)
            table.extend(x, parents, np.array(own))
            held.update(own)
            ended = []
            for before in (parent[node] for node in nodes if parent[node] >= 0):
                children[before] -= 1
                if not children[before] and slot_of[before] not in node_of:
                    ended.append(slot_of[before])
            if ended:
                table.release(np.array(ended))
                held.difference_update(ended)
    except BaseException:
        table.release(np.array(sorted(held), dtype=np.int64))
        raise
    return {slot: scores[node] for slot, node in node_of.items()} if scored else {}


def _gains(table: LiveClusters, x: Observation, parents: np.ndarray) -> FloatArray:
    """L(C + x) - L(C) of the clusters in these slots, L({x}) where a slot is -1."""
    out = np.empty(len(parents))
    opened = parents < 0
    if opened.any():
        out[opened] = table.log_predictive_new(x)
    if not opened.all():
        out[~opened] = table.log_predictive_of(x, parents[~opened])
    return out

"""Resolves a graph: its fragments go into a store, and what the store says is written back.

The store remembers fragments, groups and decisions. So a later run has the same result, and a
merge can be undone: decisions part a key from its entity, and the input is written again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import combinations
from typing import Any

from kbforge.contracts import Decision, Fragment
from kbforge.errors import NotFoundError, quoted
from kbforge.files.fragments import stop
from kbforge.files.io import open_folder
from kbforge.jobs.decide import decide
from kbforge.jobs.decide import undo as withdraw
from kbforge.store.database import Database
from kbforge.store.store import Store
from kbforge_graphs.resolve.plan import Grouping, Plan
from kbforge_graphs.resolve.shapes import Shape, shape_of


class Graph:
    """A graph and its fragments.

    Args:
        path: a folder or a file.
        source: its format, None if the files show it.

    """

    def __init__(self, path: str, source: str | None = None) -> None:
        self.path, self.shape = path, shape_of(path, source)
        self.fragments: list[Fragment] = list(self.shape.read([path], stop))
        self.keys = {x.id: str((x.metadata or {})["entity"]) for x in self.fragments}
        self.recorded = {**self.shape.names}

    def plan(self, store: str, at_least: float = 0.0) -> Plan:
        """How the graph changes, as a store with its fragments groups them."""
        with Database(store) as database:
            grouping = Grouping(Store(database).pages, self.keys)
        return Plan(grouping, self.keys, self.recorded, self.shape.new_key, at_least)

    def keys_of(self, name: str) -> list[str]:
        """The keys that a user means: a key, or the name or the id of one."""
        node = self.shape.node
        called = {str(row[node.key]) for row in self.shape.nodes if row.get(node.id) == name}
        return [
            key
            for key in dict.fromkeys(self.keys.values())
            if key in called or name in (key, self.shape.name_of(key))
        ]


def undo(graph: Graph, store: str, names: Iterable[str]) -> int:
    """Decide that keys are what the graph says: each its own entity, and all its mentions that one.

    The survivor of a merge parts from all that joined it; without it, what joined others stays.
    Decisions that say otherwise are withdrawn. Returns the number of new decisions.

    Raises:
        NotFoundError: a name that no merge and no parting has.

    """
    plan = graph.plan(store)
    undone = set[str]()
    for name in names:
        keys = [key for key in graph.keys_of(name) if plan.changes(key)]
        if not keys:
            raise NotFoundError(
                f"{quoted(name)} is in no merge and no parting of this graph; kbforge resolve "
                "graph lists both"
            )
        for key in keys:
            undone |= {k for n in plan.of_key[key] if n.survivor == key for k in n.mentions} | {key}
    wanted: dict[str, list[str]] = {}  # the group of each mention
    for node in plan.nodes:
        rest = [id for key, ids in node.mentions.items() if key not in undone for id in ids]
        wanted |= dict.fromkeys(rest, rest)
    for key in undone:
        own = [id for node in plan.of_key[key] for id in node.mentions[key]]
        wanted |= dict.fromkeys(own, own)
    made = 0
    # the fragments that a decision affects are clustered again, and may form other groups
    while decisions := _towards(wanted, plan):
        with Database(store) as database:
            in_force = [one for one in Store(database).decisions() if one.undone is None]
        for one in in_force:
            groups = [id(wanted[x]) for x in (one.first, one.second) if x in wanted]
            if groups[1:] and one.same != (groups[0] == groups[1]):
                withdraw(store, one.number)
        decide(store, decisions)
        made += len(decisions)
        plan = graph.plan(store)
    return made


def _towards(wanted: Mapping[str, list[str]], plan: Plan) -> list[Decision]:
    """Decisions that make groups of mentions from those of a plan that differ from them."""
    out: list[Decision] = []
    changed: dict[int, list[str]] = {}
    nodes_of: dict[int, int] = {}
    for at, node in enumerate(plan.nodes):
        inside = {id(wanted[x]): wanted[x] for ids in node.mentions.values() for x in ids}
        if len(inside) > 1:
            changed |= inside
        changed |= {g: group for g, group in inside.items() if nodes_of.setdefault(g, at) != at}
        out += (Decision(False, a[0], b[0]) for a, b in combinations(inside.values(), 2))
    for first, *rest in changed.values():
        out += (Decision(True, first, other) for other in rest)
    return out


def write(graph: Graph, plan: Plan, output: str, store: str) -> dict[str, Any]:
    """Write the graph as a plan has it; returns the report of `--json`.

    It has the changes, the least sure one first, and counts of records before and after.
    """
    shape = graph.shape
    before = _counts(shape)
    ids = {str(row[shape.node.key]): row.get(shape.node.id) for row in shape.nodes}
    names = {"triples.csv", *(file.name for file in shape.files)}
    with open_folder(output, names, "resolve graph") as out:
        ids |= shape.write_all(out, plan).node_ids

    def about(key: str) -> dict[str, Any]:
        return {"name": shape.name_of(key), "id": ids.get(key) or key}

    joined: list[dict[str, Any]] = [
        {"probability": probability, "joined": about(key), "into": about(node.key)}
        for node in plan.nodes
        for key, probability in node.probability.items()
    ]
    parted: list[dict[str, Any]] = [
        {
            "probability": part.probability,
            "parted": about(key),
            "into": about(part.node.key),
            "mentions": len(part.node.mentions[key]),
        }
        for key, parts in plan.parted.items()
        for part in parts
    ]
    return {
        "graph": graph.path,
        "output": output,
        "store": store,
        "source": shape.name,
        "before": before,
        "after": _counts(shape),
        "joined": sorted(joined, key=lambda one: one["probability"]),
        "parted": sorted(parted, key=lambda one: one["probability"]),
    }


def _counts(shape: Shape) -> dict[str, int]:
    loops = sum(row[shape.edge.ends[0]] == row[shape.edge.ends[1]] for row in shape.edges)
    counts = {"entities": len(shape.nodes), "relations": len(shape.edges)}
    return counts | {"relations of an entity with itself": loops}

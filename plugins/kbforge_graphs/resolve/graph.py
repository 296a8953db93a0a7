"""Resolves a graph: its fragments go into a store, and what the store says is written back.

The store remembers fragments, groups and decisions. So a later run has the same result, and a
merge can be undone: decisions part a key from its entity, and the input is written again.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from itertools import combinations
from typing import Any

import orjson

from kbforge.contracts import Decision, Fragment
from kbforge.errors import NotFoundError, counted, did_you_mean, quoted
from kbforge.files.fragments import stop
from kbforge.files.io import open_folder
from kbforge.jobs.decide import Ties, decide
from kbforge.jobs.decide import undo as withdraw
from kbforge.jobs.opening import locked
from kbforge.store.database import Database
from kbforge.store.store import Store
from kbforge.store.tables import write_rows
from kbforge_graphs.resolve.plan import Grouping, Node, Plan
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


_LEAST = "least_change"
"""The fact with the least probability of a change."""
_UNDONE = "undone_names"
"""The fact with the names that were undone, and the keys of an undo that has not ended."""


def least_change(store: str, given: float | None) -> float:
    """The least probability of a change, which a store remembers: 0 if none was ever given."""
    with locked(store) as held:
        known: float = held.fact(_LEAST, 0.0)
        if given is None or given == known:
            return known
        _remember(held, _LEAST, given)
        return given


def _remember(store: Store, name: str, fact: object) -> None:
    row = {name: (orjson.dumps(fact),)}
    store.database.transaction(lambda rows: write_rows(rows, "meta", row))


def undo(graph: Graph, store: str, names: Iterable[str], at_least: float) -> str:
    """Make keys what the graph says: each its own entity, and all its mentions that one.

    The survivor of a merge parts from all that joined it; without it, what joined others stays.
    First the decisions that say otherwise are withdrawn, the latest first. What then still differs
    is decided. An undo that was interrupted goes on, whatever is undone now. Returns what was done,
    in words.

    Raises:
        NotFoundError: a name that no merge and no parting has, or had.

    """
    plan = graph.plan(store, at_least)
    with locked(store) as held:
        known = held.fact(_UNDONE, {"names": [], "keys": []})
        undone = {key for name in names for key in _undone(graph, plan, name, known["names"])}
        if not undone and not known["keys"]:
            return ""
        undone.update(known["keys"])
        known = {"names": sorted({*known["names"], *names}), "keys": sorted(undone)}
        _remember(held, _UNDONE, known)
    withdrawn = made = 0
    while numbers := _contradicting(store, _wanted(plan, undone)):
        for number in numbers:
            withdraw(store, number)
        withdrawn += len(numbers)
        plan = graph.plan(store, at_least)
    wanted = _wanted(plan, undone)
    # the fragments that a decision affects are clustered again, and may form other groups
    while decisions := _towards(wanted, plan):
        decide(store, decisions, ties=_ties(wanted))
        made += len(decisions)
        plan = graph.plan(store, at_least)
    with locked(store) as held:
        _remember(held, _UNDONE, {**known, "keys": []})
    counts = [(withdrawn, "withdrawn"), (made, "made")]
    return " and ".join(f"{counted(n, 'decision')} {done}" for n, done in counts if n)


def _undone(graph: Graph, plan: Plan, name: str, before: Collection[str]) -> set[str]:
    """The keys that leave what they joined, or are whole again, if a name is undone.

    None do if it was undone `before`.
    """
    keys = [key for key in graph.keys_of(name) if plan.changes(key)]
    if not keys and name not in before:
        changed = [graph.shape.name_of(key) for key in plan.of_key if plan.changes(key)]
        raise NotFoundError(
            f"{quoted(name)} is in no merge and no parting of this graph"
            f"{did_you_mean(name, changed)}; kbforge resolve graph lists both"
        )
    joined = (n for key in keys for n in plan.of_key[key] if n.survivor == key)
    return {*keys, *(key for node in joined for key in node.mentions)}


def _wanted(plan: Plan, undone: Collection[str]) -> dict[str, list[str]]:
    """The group that each mention should be in."""
    groups = defaultdict[str | int, list[str]](list)
    for at, node in enumerate(plan.nodes):
        for key, ids in node.mentions.items():
            groups[key if key in undone else at] += ids
    return {id: group for group in groups.values() for id in group}


def _contradicting(store: str, wanted: Mapping[str, list[str]]) -> list[int]:
    """The decisions in force, the latest first, that say otherwise, themselves or by a tie."""
    with Database(store) as database:
        in_force = {one.decision.name: one.number for one in Store(database).decisions()}
        constraints = Store(database).pages.totals.constraints
    numbers = set[int]()
    for one in constraints.decisions:
        groups = [id(wanted[x]) for x in (one.first, one.second) if x in wanted]
        if groups[1:] and one.same != (groups[0] == groups[1]):
            numbers.add(in_force[one.name])
    return sorted(numbers, reverse=True)


def _ties(wanted: Mapping[str, list[str]]) -> Ties:
    """What says that the groups of two mentions are whole."""

    def tied(_: Store, one: Decision) -> list[Decision]:
        ids = (one.first, one.second)
        return [Decision(True, id, x) for id in ids for x in wanted[id] if x != id]

    return tied


def _towards(wanted: Mapping[str, list[str]], plan: Plan) -> list[Decision]:
    """Decisions that, with ties, make groups of mentions from those of a plan that differ."""
    out: list[Decision] = []
    home: dict[int, int] = {}
    for at, node in enumerate(plan.nodes):
        inside = {id(wanted[x]): x for ids in node.mentions.values() for x in ids}
        out += (Decision(False, a, b) for a, b in combinations(inside.values(), 2))
        out += (
            Decision(True, wanted[x][0], x)
            for group, x in inside.items()
            if home.setdefault(group, at) != at
        )
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

    def about(key: str, node: Node) -> dict[str, Any]:
        mention = node.mentions.get(key, node.mentions[node.survivor])[0]
        return {"name": shape.name_of(key), "id": ids.get(key) or key, "mention": mention}

    joined: list[dict[str, Any]] = [
        {"probability": probability, "joined": about(key, node), "into": about(node.key, node)}
        for node in plan.nodes
        for key, probability in node.probability.items()
    ]
    parted: list[dict[str, Any]] = [
        {
            "probability": part.probability,
            "parted": about(key, part.node),
            "into": about(part.node.key, part.node),
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
        "at_least": plan.least,
        "before": before,
        "after": _counts(shape),
        "joined": sorted(joined, key=lambda one: one["probability"]),
        "parted": sorted(parted, key=lambda one: one["probability"]),
    }


def _counts(shape: Shape) -> dict[str, int]:
    loops = sum(row[shape.edge.ends[0]] == row[shape.edge.ends[1]] for row in shape.edges)
    counts = {"entities": len(shape.nodes), "relations": len(shape.edges)}
    return counts | {"relations of an entity with itself": loops}

"""Plans how a graph changes: which of its keys become one entity, and which become several.

A graph names an entity by a key, its name or an id; the fragments of a key are its mentions in text
units. A store groups fragments, so an entity there may have mentions of several keys, and a key
mentions in several entities. The plan turns these groups into *nodes* in three steps:

1. *Part.* The mentions of a key in other entities than its main one leave it, if they are as
   probably something else as is asked.
2. *Join.* Within an entity the key with most mentions survives; the others that are the same with
   the probability asked join it. What is left does the same again.
3. *Name.* A node keeps the key of its survivor. If a key survives in several nodes, the one with
   most of its mentions keeps it, and the others get a new key.

The probability that two sets of mentions are one entity is the mean over their pairs, by the
weights of the particles.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

from kbforge.contracts import Pages, Particle
from kbforge_graphs.sources.graphs import fragment_id

Mentions: TypeAlias = Sequence[str]
"""Ids of fragments."""
NewKey: TypeAlias = Callable[[str, int], str]
"""Makes a key from one that is in use, and a number from 2."""


class Grouping:
    """The groups of a graph's fragments in a store, and their probabilities.

    Args:
        pages: the store's.
        keys: the key of each fragment of the graph, in its order.

    """

    def __init__(self, pages: Pages, keys: Mapping[str, str]) -> None:
        ids = {number: id for id, number in pages.numbers(list(keys)).items()}
        self.entities: list[Mentions] = []
        self._home: dict[str, int] = {}
        self._particles: list[tuple[Particle, ...]] = []
        self._numbers = {id: number for number, id in ids.items()}
        for page in pages.pages(pages.names()):
            subproblem = page.subproblem()
            for cluster in subproblem.clusters:
                if mentions := [ids[number] for number in cluster if number in ids]:
                    self.entities.append(mentions)
                    self._home |= dict.fromkeys(mentions, len(self._particles))
            self._particles.append(subproblem.particles)

    def together(self, some: Mentions, others: Mentions) -> float:
        """The probability that a mention of the one set and one of the other are one entity."""
        expected = 0.0
        for home in {self._home[id] for id in some} & {self._home[id] for id in others}:
            left, right = (
                {self._numbers[id] for id in ids if self._home[id] == home}
                for ids in (some, others)
            )
            for particle in self._particles[home]:
                pairs = sum(
                    len(left.intersection(cluster)) * len(right.intersection(cluster))
                    for cluster in particle.clusters
                )
                expected += math.exp(particle.log_weight) * pairs
        return min(expected / (len(some) * len(others)), 1.0)


@dataclass
class Node:
    """An entity of the resolved graph."""

    survivor: str  # the key whose record it keeps
    key: str = ""  # its own: the survivor's, or a new one
    mentions: dict[str, Mentions] = field(default_factory=dict)  # of each key, the survivor first
    probability: dict[str, float] = field(default_factory=dict)  # that each other key is the same


class Part(NamedTuple):
    """A node that has mentions of a key whose main node is another one."""

    node: Node
    probability: float  # that these mentions are another entity


@dataclass(eq=False)
class Plan:
    """The nodes of the resolved graph."""

    grouping: Grouping  # of the fragments
    keys: Mapping[str, str]  # the key of each fragment, in the order of the graph
    recorded: Mapping[str, object]  # the keys that have a record; one without survives among such
    new_key: NewKey  # names the nodes of a key after the first
    least: float  # probability of a change

    def __post_init__(self) -> None:
        self._order = {id: at for at, id in enumerate(self.keys)}
        self.parted: dict[str, list[Part]] = {}
        self.nodes: list[Node] = []
        for mentions in self._part():
            self.nodes += self._join(mentions)
        self.nodes.sort(key=lambda node: self._order[node.mentions[node.survivor][0]])
        self._name()
        self._node_of = {
            id: node for node in self.nodes for ids in node.mentions.values() for id in ids
        }
        self.of_key: dict[str, list[Node]] = {}
        for node in self.nodes:
            for key in node.mentions:
                self.of_key.setdefault(key, []).append(node)
        for key, nodes in self.of_key.items():
            nodes.sort(key=lambda node: -len(node.mentions[key]))
            if nodes[1:]:
                first = nodes[0].mentions[key]
                self.parted[key] = [
                    Part(node, 1 - self.grouping.together(node.mentions[key], first))
                    for node in nodes[1:]
                ]

    def _part(self) -> Iterator[dict[str, list[str]]]:
        """The mentions of each key in each entity, after the first step."""
        entities: list[dict[str, list[str]]] = []
        places = defaultdict[str, list[int]](list)
        for at, mentions in enumerate(self.grouping.entities):
            of_key = defaultdict[str, list[str]](list)
            for id in sorted(mentions, key=self._order.__getitem__):
                of_key[self.keys[id]].append(id)
            entities.append(of_key)
            for key in of_key:
                places[key].append(at)
        for key, found in places.items():
            main, *others = sorted(found, key=lambda at: -len(entities[at][key]))
            for at in others:
                there, here = entities[at][key], entities[main][key]
                if 1 - self.grouping.together(there, here) < self.least:
                    here += entities[at].pop(key)
            entities[main][key].sort(key=self._order.__getitem__)
        return filter(None, entities)

    def _join(self, mentions: Mapping[str, Mentions]) -> Iterator[Node]:
        """The nodes of an entity; the survivor of each has a record, and then most mentions."""

        def rank(key: str) -> tuple[bool, int, int]:
            return key not in self.recorded, -len(mentions[key]), self._order[mentions[key][0]]

        left = sorted(mentions, key=rank)
        while left:
            node = Node(left[0], mentions={left[0]: mentions[left[0]]})
            for key in left[1:]:
                probability = self.grouping.together(mentions[key], mentions[node.survivor])
                if probability >= self.least:
                    node.mentions[key] = mentions[key]
                    node.probability[key] = probability
            left = [key for key in left if key not in node.mentions]
            yield node

    def _name(self) -> None:
        of_survivor: dict[str, list[Node]] = {}
        for node in self.nodes:
            of_survivor.setdefault(node.survivor, []).append(node)
        taken = set(self.keys.values())
        for key, nodes in of_survivor.items():
            nodes.sort(key=lambda node: -len(node.mentions[key]))
            nodes[0].key, number = key, 1
            for node in nodes[1:]:
                while not node.key or node.key in taken:
                    number += 1
                    node.key = self.new_key(key, number)
                taken.add(node.key)

    def nodes_at(self, key: str, unit: str = "") -> list[str]:
        """The keys of the nodes of a key: the one in a text unit, if it is mentioned there, else
        all, the main one first. A key that is not in the graph stays."""
        node = self._node_of.get(fragment_id(unit, key))
        nodes = [node] if node is not None else self.of_key.get(key, ())
        return [node.key for node in nodes] or [key]

    def changes(self, key: str) -> bool:
        """Whether a key joins others, or parts."""
        return key in self.parted or any(
            n.mentions.keys() > {key} for n in self.of_key.get(key, ())
        )

    def is_same(self, node: Node) -> bool:
        """Whether a node is what it was."""
        return [node.survivor] == [*node.mentions] and len(self.of_key[node.survivor]) == 1

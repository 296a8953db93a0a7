"""Rewrites the records of a graph as a plan says; what the plan leaves alone stays as it was.

A record is a dictionary, such as a row of a table or an object of JSON. A *layout* says what its
fields mean. A node that joins several keeps the record of its survivor: texts and lists are joined,
counts follow them, and all other fields are the survivor's. A node that parts from a key has a copy
of its record under a new key, with the text units that are its own.

Relations follow the nodes. If the nodes of a relation changed, it becomes one with those of the
same kind between the same nodes; weights are added. A relation of several text units whose ends
differ by unit becomes several, and each gets the share of its weight that its units have. So no
weight, text or unit is lost, and a relation between two keys of one node joins it with itself.
"""

from __future__ import annotations

import uuid
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count, product
from typing import Any, NamedTuple, TypeAlias, TypeVar

from kbforge_graphs.resolve.plan import Node, Plan
from kbforge_graphs.sources.graphs import Relation

Record: TypeAlias = dict[str, Any]
Follow: TypeAlias = Callable[[Any, str], Sequence[Any]]
"""The new references for an old one in a text unit."""
_Owner = TypeVar("_Owner")


class Layout(NamedTuple):
    """The fields of records of one kind; "" for one that the shape lacks."""

    key: str = ""  # of a node
    ends: tuple[str, str] = ("", "")  # of a relation: keys of nodes
    id: str = ""  # that other records refer to, if it is not the key
    number: str = ""  # a number without meaning, which is unique
    units: str = ""
    weight: str = ""
    texts: Mapping[str, str] = {}  # fields that are joined, and what separates their parts
    counts: Mapping[str, str] = {}  # fields that count the parts of others
    copies: Sequence[str] = ()  # fields that repeat the key
    kind: Sequence[str] = ()  # fields in which relations that become one are equal
    is_directed: bool = False


@dataclass
class _Piece:
    """A relation, or the part of it that some text units state."""

    at: int  # of the record
    ends: tuple[str, str]
    units: Sequence[str]
    share: float
    is_same: bool


@dataclass
class Rewriter:
    """Rewrites nodes and relations, and knows their new ids afterwards."""

    plan: Plan
    node_ids: dict[str, Any] = field(default_factory=dict)  # of nodes with a record, by new key
    edge_ids: dict[str, list[tuple[Sequence[str], Any]]] = field(default_factory=dict)
    """The units and the new id of each part of a relation, by its old id."""

    # --- nodes ------------------------------------------------------------------------------------

    def nodes(self, records: Sequence[Record], layout: Layout) -> list[Record]:
        """The nodes of the resolved graph; new ones come last."""
        of_key = defaultdict[str, list[Record]](list)
        for record in records:
            of_key[str(record[layout.key])].append(record)
        kept = {node.key: node for node in self.plan.nodes if node.key == node.survivor}
        out: list[Record] = []
        for key, record in ((str(record[layout.key]), record) for record in records):
            node = kept.get(key)
            if key not in self.plan.of_key or (node is not None and self.plan.is_same(node)):
                out.append(record)
            elif node is not None and record is of_key[key][0]:
                out.append(self._node(node, record, of_key, layout))
        numbered = _numbering(records, layout.number)
        for node in self.plan.nodes:
            if node.key != node.survivor and of_key[node.survivor]:
                made = self._node(node, of_key[node.survivor][0], of_key, layout)
                if layout.id:
                    made[layout.id] = made_id(made.get(layout.id), node.key)
                out.append(numbered(made))
        if layout.id:
            self.node_ids |= {str(record[layout.key]): record.get(layout.id) for record in out}
        return out

    def _node(
        self, node: Node, base: Record, of_key: Mapping[str, Sequence[Record]], layout: Layout
    ) -> Record:
        names = [layout.key, *(name for name in layout.copies if name in base)]
        made = base | dict.fromkeys(names, node.key)
        stating = [(key, record) for key in node.mentions for record in of_key[key]]
        of = self.plan.nodes_at
        _join(made, stating, layout, lambda key, unit: of(key, unit)[0] == node.key)
        return made

    # --- relations --------------------------------------------------------------------------------

    def edges(
        self, records: Sequence[Record], layout: Layout, stated: Iterable[Relation] | None = None
    ) -> list[Record]:
        """The relations between the nodes of the resolved graph.

        `stated` are the relations as the source reads them, of which the text units are taken.
        """
        waiting = defaultdict[tuple[str, str], deque[Relation]](deque)
        for relation in stated or ():
            waiting[relation.head, relation.tail].append(relation)
        groups: dict[tuple[str, ...], list[_Piece]] = {}
        for at, record in enumerate(records):
            for piece in self._pieces(at, record, layout, waiting):
                ends = piece.ends if layout.is_directed else tuple(sorted(piece.ends))
                kind = (repr(record.get(name)) for name in layout.kind)
                groups.setdefault((*ends, *kind), []).append(piece)
        numbered, used = _numbering(records, layout.number), set[int]()
        out: list[tuple[int, Record]] = []
        for pieces in groups.values():
            if all(piece.is_same for piece in pieces):
                out += [(piece.at, records[piece.at]) for piece in pieces]
                made_of = [(piece, records[piece.at]) for piece in pieces]
            else:
                # the id of a relation whose ends stay is the one to keep
                first = next((piece for piece in pieces if piece.is_same), pieces[0])
                made = self._edge(records, first, pieces, layout)
                if first.at in used:
                    if layout.id:
                        made[layout.id] = made_id(made.get(layout.id), *first.ends)
                    made = numbered(made)
                used.add(first.at)
                out.append((first.at, made))
                made_of = [(piece, made) for piece in pieces]
            for piece, record in made_of:
                if layout.id:
                    found = (piece.units, record.get(layout.id))
                    old = str(records[piece.at].get(layout.id))
                    self.edge_ids.setdefault(old, []).append(found)
        return [record for _, record in sorted(out, key=lambda one: one[0])]

    def _pieces(
        self,
        at: int,
        record: Record,
        layout: Layout,
        waiting: dict[tuple[str, str], deque[Relation]],
    ) -> list[_Piece]:
        head, tail = (str(record[end]) for end in layout.ends)
        stated = waiting[head, tail].popleft() if waiting.get((head, tail)) else None
        if stated is not None:
            units: Sequence[str] = stated.units
        elif layout.units:
            value = record.get(layout.units) or ()
            separator = layout.texts[layout.units]
            units = value.split(separator) if isinstance(value, str) else value
        else:  # such as a relation of an entity with a text unit, or with its type
            units = [end for end in (head, tail) if end not in self.plan.of_key]
        found: dict[tuple[str, str], list[str]] = {}
        for unit in units or ("",):
            of_head, of_tail = self.plan.nodes_at(head, unit), self.plan.nodes_at(tail, unit)
            if layout.units or stated is not None:  # a unit says one thing of each end
                of_head, of_tail = of_head[:1], of_tail[:1]
            for ends in product(of_head, of_tail):
                found.setdefault(ends, []).append(unit)
        total = sum(map(len, found.values()))
        same = len(found) == 1 and (head, tail) in found
        return [
            _Piece(at, ends, stating, len(stating) / total, same) for ends, stating in found.items()
        ]

    def _edge(
        self, records: Sequence[Record], first: _Piece, pieces: Sequence[_Piece], layout: Layout
    ) -> Record:
        made = {**records[first.at], **dict(zip(layout.ends, first.ends, strict=True))}
        stating = [(piece, records[piece.at]) for piece in pieces]
        _join(made, stating, layout, lambda piece, unit: piece.share == 1 or unit in piece.units)
        weights = [
            (record[layout.weight], piece.share)
            for piece, record in stating
            if record.get(layout.weight) is not None
        ]
        if weights:
            whole = sum(float(weight) * share for weight, share in weights)
            made[layout.weight] = str(whole) if isinstance(weights[0][0], str) else whole
        return made

    # --- what refers to them ----------------------------------------------------------------------

    def edge_ids_of(self, old: str, unit: str) -> list[Any]:
        """The new ids of a relation, of the part that a unit states if there is one."""
        parts = self.edge_ids.get(old, [((), old)])
        of_unit = [new for units, new in parts if unit in units]
        return of_unit or [new for _, new in parts]


def refer(record: Record, follow: Mapping[str, Follow], unit: str = "") -> Record:
    """The record, of which some fields refer to nodes or relations; `unit` is the field with the
    text unit in which they do. A list that refers to one that parted has all its parts."""
    made, place = {**record}, record.get(unit) or ""
    for name, new in follow.items():
        if isinstance(old := record.get(name), str):
            made[name] = new(old, place)[0]
        elif old:
            made[name] = list(dict.fromkeys(n for one in old for n in new(one, place)))
    return made


def made_id(*parts: object) -> str:
    """An id that depends only on these texts."""
    return str(uuid.uuid5(uuid.NAMESPACE_URL, "\0".join(map(str, parts))))


def _join(
    made: Record,
    stating: Sequence[tuple[_Owner, Record]],
    layout: Layout,
    says: Callable[[_Owner, Any], bool],
) -> None:
    """Join the texts and lists of records, and count them; `says` whether the owner of one has a
    text unit."""
    for name, separator in layout.texts.items():
        values = [(owner, record[name]) for owner, record in stating if name in record]
        parts = {
            repr(part): part
            for owner, value in values
            for part in (value.split(separator) if isinstance(value, str) else value or ())
            if part != "" and (name != layout.units or says(owner, part))
        }
        if any(isinstance(value, list) for _, value in values):
            made[name] = list(parts.values())
        elif any(isinstance(value, str) for _, value in values):
            made[name] = separator.join(parts.values())
    for name, of in layout.counts.items():
        if name in made:
            made[name] = len(made[of])


def _numbering(records: Sequence[Record], name: str) -> Callable[[Record], Record]:
    """Gives new records the numbers after the largest one, if they have numbers."""
    used = (record.get(name) for record in records)
    last = max((number for number in used if isinstance(number, int)), default=-1)
    numbers = count(last + 1)

    def numbered(record: Record) -> Record:
        number = next(numbers)
        return {**record, name: number} if name in record else record

    return numbered

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import quote

import networkx

from kbforge import registry
from kbforge.contracts import Entity
from kbforge.testing import ExporterContract
from tests.contracts.test_exporters import Linked, in_a_ring, rows, texts
from tests.graphs.exporters import readers


def in_order(found: list[Any], target: Path) -> list[Any]:
    """What a library gives in any order, in the order in which the ids stand in the file."""
    content = target.read_bytes()
    return sorted(found, key=lambda e: content.index(f"entity:{quote(e[0], safe='')}".encode()))


class TestNQuads(ExporterContract):
    name = "nquads"

    def parse(self, target: Path) -> list[tuple[str, set[str]]]:
        return in_order(texts(readers.nquads(target)), target)


class TestJsonLd(ExporterContract):
    name = "jsonld"

    def parse(self, target: Path) -> list[tuple[str, set[str]]]:
        return in_order(texts(readers.jsonld(target)), target)


class TestNeo4j(Linked):
    name = "neo4j"
    folder = True

    def parse(self, target: Path) -> list[tuple[str, set[str]]]:
        return texts(readers.neo4j(target))


class Own(ExporterContract):
    """A format of graphs: the relations that the entities state."""

    streaming = False

    def make(self) -> Any:
        return registry.create("exporters", self.name, self.options)

    def entities(self) -> list[Entity]:
        return in_a_ring(super().entities())


class TestGraphMl(Own):
    name = "graphml"

    def holds(self, entity: Entity) -> set[str]:
        texts = {entity.name, *(f"to {entity.name}" for a in entity.properties if a[:3] == "to ")}
        return {re.sub("[\x0b\x0c]", "\ufffd", text) for text in texts}

    def parse(self, target: Path) -> list[tuple[str, set[str]]]:
        graph = networkx.read_graphml(target)
        return [
            (of["canonical_id"], {name, *(r for _, _, r in graph.out_edges(name, data="relation"))})
            for name, of in graph.nodes(data=True)
        ]


class TestTriples(Own):
    name = "triples"
    options: ClassVar = {"guard_formulas": False}

    def holds(self, entity: Entity) -> set[str]:
        return {entity.name, f"to {entity.name}", "|".join(entity.fragments)}

    def parse(self, target: Path) -> list[tuple[str, set[str]]]:
        return [(r["head_id"], {r["head"], r["relation"], r["context"]}) for r in rows(target)]

    def test_nul_survives_or_is_replaced(self, tmp_path: Path) -> None:
        """An entity that names no other is in no triple."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import quote

import networkx
import pyarrow.parquet as pq
import pytest

from kbforge import registry
from kbforge.contracts import Entity
from kbforge.testing import ExporterContract
from tests.contracts.test_exporters import in_a_ring, rows, texts
from tests.graphs.exporters import readers
from tests.graphs.writing import write_graphrag


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


class TestNeo4j(ExporterContract):
    name = "neo4j"
    folder = True

    def parse(self, target: Path) -> list[tuple[str, set[str]]]:
        return texts(readers.neo4j(target))


class Graphs(ExporterContract):
    """A format of graphs, which exports the entities of a graph in a ring.

    Each first fragment is described by the last value of its entity.
    """

    streaming = False

    @pytest.fixture(autouse=True)
    def graph(self, tmp_path_factory: pytest.TempPathFactory) -> None:
        described = [(entity.fragments[0], self.described(entity)) for entity in self.entities()]
        keys = [key for key, _ in described]
        self.folder_of_graph = write_graphrag(
            tmp_path_factory.mktemp("graph"),
            [{"title": key, "description": text} for key, text in described],
            [{"source": a, "target": b} for a, b in zip(keys, keys[1:] + keys[:1], strict=True)],
        )

    def make(self) -> Any:
        return registry.create("exporters", self.name, {"graph": str(self.folder_of_graph)})

    def described(self, entity: Entity) -> str:
        values = [value.value for found in entity.properties.values() for value in found]
        return values[-1].strip() if values else ""

    def holds(self, entity: Entity) -> set[str]:
        is_in_graph = entity.id in {one.id for one in self.entities()}
        return {entity.name, self.described(entity) if is_in_graph else ""}


class TestGraphRag(Graphs):
    name = "graphrag"
    folder = True

    def parse(self, target: Path) -> list[tuple[str, set[str]]]:
        found = pq.read_table(target / "entities.parquet").to_pylist()
        return [(row["id"], {row["title"], row["description"]}) for row in found]


class TestGraphMl(Graphs):
    name = "graphml"

    def holds(self, entity: Entity) -> set[str]:
        return {re.sub("[\x0b\x0c]", "\ufffd", text) for text in super().holds(entity)}

    def parse(self, target: Path) -> list[tuple[str, set[str]]]:
        nodes = networkx.read_graphml(target).nodes(data=True)
        return [(of["canonical_id"], {name, of.get("description", "")}) for name, of in nodes if of]


class TestTriples(Graphs):
    name = "triples"

    def make(self) -> Any:
        options = {"graph": str(self.folder_of_graph), "guard_formulas": False}
        return registry.create("exporters", self.name, options)

    def holds(self, entity: Entity) -> set[str]:
        return {entity.name}

    def parse(self, target: Path) -> list[tuple[str, set[str]]]:
        return [(row["head_id"], {row["head"]}) for row in rows(target) if row["head_id"]]

    def test_nul_survives_or_is_replaced(self, tmp_path):
        """An entity without a relation is in no triple."""


class Own(ExporterContract):
    """A format of graphs without a graph: the relations that the entities state."""

    streaming = False

    def make(self) -> Any:
        return registry.create("exporters", self.name, self.options)

    def entities(self) -> list[Entity]:
        return in_a_ring(super().entities())


class TestOwnGraphMl(Own):
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


class TestOwnTriples(Own):
    name = "triples"
    options: ClassVar = {"guard_formulas": False}

    def holds(self, entity: Entity) -> set[str]:
        return {entity.name, f"to {entity.name}", "|".join(entity.fragments)}

    def parse(self, target: Path) -> list[tuple[str, set[str]]]:
        return [(r["head_id"], {r["head"], r["relation"], r["context"]}) for r in rows(target)]

    def test_nul_survives_or_is_replaced(self, tmp_path: Path) -> None:
        """An entity that names no other is in no triple."""

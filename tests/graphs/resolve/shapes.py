"""A small graph in each shape: VICTORIA is a queen and a city, and SCROOGE has two names."""

import base64
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import networkx
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from tests.graphs.writing import write_graphrag

NAMES = {
    "VICTORIA": ["u1", "u2"],
    "ALBERT": ["u1"],
    "SCROOGE": ["u3"],
    "MR. SCROOGE": ["u3"],
    "MARLEY": ["u3"],
}
EDGES = [
    ("VICTORIA", "ALBERT", 4.0, ["u1", "u2"]),
    ("SCROOGE", "MARLEY", 2.0, ["u3"]),
    ("MARLEY", "MR. SCROOGE", 3.0, ["u3"]),
    ("MR. SCROOGE", "SCROOGE", 5.0, ["u3"]),
]
MERGED = [["u1#VICTORIA"], ["u1#ALBERT"], ["u2#VICTORIA"], ["u3#SCROOGE", "u3#MR. SCROOGE"]]
SEP = "<SEP>"


def graphrag(folder: Path) -> Path:
    ids = {name: f"id-{name}" for name in NAMES}
    entities = [
        {"id": ids[name], "human_readable_id": at, "title": name, "type": "PERSON",
         "description": f"{name}.", "text_unit_ids": units, "frequency": len(units)}
        for at, (name, units) in enumerate(NAMES.items())
    ]  # fmt: skip
    edges = [
        {"id": f"r{at}", "source": a, "target": b, "weight": w, "description": f"{a} and {b}.",
         "text_unit_ids": units}
        for at, (a, b, w, units) in enumerate(EDGES)
    ]  # fmt: skip
    units = [
        {"id": unit, "text": unit, "document_id": "d", "n_tokens": 3,
         "entity_ids": [ids[name] for name, of in NAMES.items() if unit in of],
         "relationship_ids": [f"r{at}" for at, edge in enumerate(EDGES) if unit in edge[3]]}
        for unit in ("u1", "u2", "u3")
    ]  # fmt: skip
    write_graphrag(folder, entities, edges, units)
    tables = {
        "communities": [
            {"id": "c", "entity_ids": list(ids.values()), "relationship_ids": ["r0", "r2", "r3"]}
        ],
        "covariates": [
            {"id": "v", "subject_id": "MR. SCROOGE", "object_id": "NONE", "text_unit_id": "u3"}
        ],
        "community_reports": [{"id": "p", "summary": "MR. SCROOGE is mean."}],
    }
    for name, rows in tables.items():
        pq.write_table(pa.Table.from_pylist(rows), folder / f"{name}.parquet")
    (folder / "lancedb").mkdir()
    (folder / "lancedb" / "index").write_bytes(b"\0")
    return folder


def _graphml(folder: Path, called: Callable[[str], str]) -> None:
    graph = networkx.Graph()
    for name, units in NAMES.items():
        graph.add_node(
            called(name), entity_id=called(name), entity_type=called("person"),
            description=f"{name}.", source_id=SEP.join(units), created_at=17,
        )  # fmt: skip
    for a, b, weight, units in EDGES:
        graph.add_edge(
            called(a), called(b), weight=weight, description=f"{a} and {b}.",
            keywords=f"{a},kin", source_id=SEP.join(units),
        )  # fmt: skip
    networkx.write_graphml(graph, folder / "graph_chunk_entity_relation.graphml")


def vectors(rows: list[dict[str, Any]]) -> dict[str, Any]:
    matrix = np.arange(3 * len(rows), dtype=np.float32)
    text = base64.b64encode(matrix.tobytes()).decode()
    return {"embedding_dim": 3, "data": rows, "matrix": text}


def lightrag(folder: Path) -> Path:
    folder.mkdir()
    _graphml(folder, str)
    pairs = [SEP.join(sorted((a, b))) for a, b, *_ in EDGES]
    stores = {
        "kv_store_entity_chunks": {
            name: {"chunk_ids": units, "count": len(units), "create_time": 1, "_id": name}
            for name, units in NAMES.items()
        },
        "kv_store_relation_chunks": {
            pair: {"chunk_ids": edge[3], "count": len(edge[3]), "create_time": 1, "_id": pair}
            for pair, edge in zip(pairs, EDGES, strict=True)
        },
        "kv_store_full_entities": {
            "d": {"entity_names": list(NAMES), "count": len(NAMES), "_id": "d"}
        },
        "kv_store_full_relations": {
            "d": {"relation_pairs": [[a, b] for a, b, *_ in EDGES], "count": 4, "_id": "d"}
        },
        "kv_store_text_chunks": {"u1": {"content": "MR. SCROOGE", "tokens": 2}},
        "vdb_entities": vectors(
            [{"__id__": f"ent-{n}", "entity_name": n, "content": n, "source_id": SEP.join(units)}
             for n, units in NAMES.items()]
        ),
        "vdb_relationships": vectors(
            [{"__id__": f"rel-{a}{b}", "src_id": a, "tgt_id": b, "source_id": SEP.join(units)}
             for a, b, _, units in EDGES]
        ),
    }  # fmt: skip
    for name, value in stores.items():
        (folder / f"{name}.json").write_text(json.dumps(value))
    return folder


def nano(folder: Path) -> Path:
    folder.mkdir()
    _graphml(folder, '"{}"'.format)
    stores = {
        "vdb_entities": vectors(
            [{"__id__": f"ent-{name}", "entity_name": f'"{name}"'} for name in NAMES]
        ),
        "kv_store_community_reports": {
            "0": {
                "report_string": "SCROOGE.",
                "nodes": [f'"{name}"' for name in NAMES],
                "edges": [[f'"{a}"', f'"{b}"'] for a, b, *_ in EDGES],
            }
        },
    }
    for name, value in stores.items():
        (folder / f"{name}.json").write_text(json.dumps(value))
    return folder


def graphiti(folder: Path) -> Path:
    folder.mkdir()
    stamp = "2025-01-01T00:00:00Z"
    value = {
        "episodes": [
            {"uuid": unit, "name": unit, "content": "text", "valid_at": stamp,
             "entity_edges": [f"r{at}" for at, edge in enumerate(EDGES) if unit in edge[3]]}
            for unit in ("u1", "u2", "u3")
        ],
        "nodes": [
            {"uuid": f"n-{name}", "name": name, "group_id": "", "labels": ["Entity", "Person"],
             "created_at": stamp, "name_embedding": [0.1, 1 / 3], "summary": f"{name}.",
             "attributes": {}}
            for name in NAMES
        ],
        "edges": [
            {"uuid": f"r{at}", "source_node_uuid": f"n-{a}", "target_node_uuid": f"n-{b}",
             "name": "KNOWS", "fact": f"{a} knows {b}.", "episodes": units, "valid_at": stamp,
             "invalid_at": None, "fact_embedding": [0.5]}
            for at, (a, b, _, units) in enumerate(EDGES)
        ],
        "episodic_edges": [
            {"uuid": f"m-{unit}-{name}", "source_node_uuid": unit, "target_node_uuid": f"n-{name}"}
            for name, units in NAMES.items()
            for unit in units
        ],
    }  # fmt: skip
    (folder / "graph.json").write_text(json.dumps(value))
    return folder


def _cognee() -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    nodes = [
        {"id": "t-person", "type": "EntityType", "name": "person"},
        *({"id": unit, "type": "DocumentChunk", "text": f"Text {unit}."} for unit in NAMES_UNITS),
        *({"id": f"n-{n}", "type": "Entity", "name": n, "description": f"{n}."} for n in NAMES),
    ]
    edges = [
        *(
            {"source": unit, "target": f"n-{name}", "relationship_name": "contains"}
            for name, units in NAMES.items()
            for unit in units
        ),
        *(
            {"source": f"n-{n}", "target": "t-person", "relationship_name": "is_a"} for n in NAMES
        ),
        *(
            {"source": f"n-{a}", "target": f"n-{b}", "relationship_name": "knows",
             "edge_text": f"{a} knows {b}."}
            for a, b, *_ in EDGES
        ),
    ]  # fmt: skip
    return nodes, edges


NAMES_UNITS = ("u1", "u2", "u3")


def cognee(folder: Path) -> Path:
    folder.mkdir()
    nodes, edges = _cognee()
    (folder / "export.json").write_text(json.dumps({"nodes": nodes, "edges": edges}, indent=2))
    return folder


def cogx(folder: Path) -> Path:
    folder.mkdir()
    nodes, edges = _cognee()
    kinds: Mapping[str, list[dict[str, Any]]] = {
        "entities": [
            {"kind": "entity", "external_system": "cognee", "external_id": node["id"],
             "name": node["name"], "description": node["description"], "aliases": []}
            for node in nodes if node["type"] == "Entity"
        ],
        "documents": [
            {"kind": "document", "external_id": node["id"], "content": node["text"]}
            for node in nodes if node["type"] == "DocumentChunk"
        ],
        "nodes": [node for node in nodes if node["type"] == "EntityType"],
        "facts": [
            {"kind": "fact", "external_id": f"{e['source']}:{e['target']}",
             "subject_ref": e["source"], "predicate": e["relationship_name"],
             "object_ref": e["target"], "fact_text": e.get("edge_text"), "provenance": []}
            for e in edges
        ],
    }  # fmt: skip
    for name, rows in kinds.items():
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    counts = {"entity": 5, "document": 3, "raw_node": 1, "fact": len(kinds["facts"])}
    (folder / "manifest.json").write_text(json.dumps({"cogx_version": "0.1", "counts": counts}))
    return folder


SHAPES: Mapping[str, Callable[[Path], Path]] = {
    "graphrag": graphrag,
    "lightrag": lightrag,
    "nano": nano,
    "graphiti": graphiti,
    "cognee": cognee,
    "cogx": cogx,
}


def contents(folder: Path) -> dict[str, Any]:
    """All records of a folder, by file."""
    return {
        str(file.relative_to(folder)): _content(file)
        for file in sorted(folder.rglob("*"))
        if file.is_file()
    }


def _content(file: Path) -> Any:
    match file.suffix:
        case ".parquet":
            return pq.read_table(file).to_pylist(), pq.read_schema(file)
        case ".json":
            return json.loads(file.read_text())
        case ".jsonl":
            return [json.loads(line) for line in file.read_text().splitlines()]
        case ".graphml":
            graph = networkx.read_graphml(file)
            return type(graph), list(graph.nodes.items()), sorted(graph.edges(data=True), key=repr)
    return file.read_bytes()

"""What is in an export, fragment by fragment, by the libraries that read such files."""

from __future__ import annotations

import io
import json
from urllib.parse import quote, unquote

import pyarrow.parquet as pq
import rdflib
from followthemoney.dataset import Dataset
from followthemoney.statement import StatementEntity
from followthemoney.statement.serialize import read_csv_statements

from tests.exporters import neo4j_import

BASE = "urn:kbforge:"
DATASET = Dataset.make({"name": "kbforge", "title": "KBForge"})
NOWHERE = (rdflib.graph.DATASET_DEFAULT_GRAPH_ID, None)


def parquet(target):
    """{entity id: {fragment id: (source, {(attribute, value)})}}."""
    found = {}
    for row in pq.read_table(target).to_pylist():
        held = found[row["id"]] = {f["id"]: (f["source"], set()) for f in row["fragments"]}
        for said in row["properties"]:
            for fragment in said["fragments"]:
                held[fragment][1].add((said["attribute"], said["value"]))
    return found


def _name(term, kind):
    start = f"{BASE}{kind}:"
    text = str(term)
    return unquote(text.removeprefix(start)) if text.startswith(start) else None


def nquads(target):
    """As `parquet`; the named graph of each statement must be the fragment's source."""
    data = rdflib.Dataset()
    data.parse(data=target.read_bytes(), format="nquads")
    quads = [(s, p, o, None if g in NOWHERE else g) for s, p, o, g in data.quads()]
    found, graph_of, entity_of = {}, {}, {}
    for s, p, o, g in quads:
        if str(p) == f"{BASE}relation:name":
            found.setdefault(_name(s, "entity"), {})
        elif str(p) == f"{BASE}relation:fragment":
            fragment = _name(o, "fragment")
            found.setdefault(_name(s, "entity"), {})[fragment] = (None, set())
            graph_of[fragment], entity_of[fragment] = g, _name(s, "entity")
    for s, p, o, g in quads:
        fragment, attribute = _name(s, "fragment"), _name(p, "attribute")
        if fragment is None:
            continue
        assert g == graph_of[fragment]
        held = found[entity_of[fragment]]
        if attribute is not None:
            held[fragment][1].add((attribute, str(o)))
            assert (rdflib.URIRef(f"{BASE}entity:{_quoted(entity_of[fragment])}"), p, o, g) in quads
        else:
            if str(p) == f"{BASE}relation:row":
                continue
            assert str(p) == f"{BASE}relation:source"
            held[fragment] = (str(o), held[fragment][1])
            assert str(g) in (str(o), f"{BASE}source:{_quoted(str(o))}")
    return found


def _quoted(name):
    return quote(name, safe="")


def jsonld(target):
    """As `parquet`."""
    graph = rdflib.Graph()
    graph.parse(data=target.read_bytes(), format="json-ld")
    found = {}
    for entity in graph.subjects(rdflib.RDF.type, rdflib.URIRef("https://schema.org/Thing")):
        held = found[_name(entity, "entity")] = {}
        for node in graph.objects(entity, rdflib.URIRef(f"{BASE}relation:fragment")):
            source = graph.value(node, rdflib.URIRef(f"{BASE}relation:source"))
            said = {
                (_name(p, "attribute"), str(o))
                for p, o in graph.predicate_objects(node)
                if _name(p, "attribute") is not None
            }
            held[_name(node, "fragment")] = (None if source is None else str(source), said)
    return found


def neo4j(target):
    """As `parquet`, but attributes have the names that the header gives them."""
    nodes, related = neo4j_import.read(target)
    found = {entity: {} for entity in nodes["Entity"]}
    for fragment, entity, kind in related:
        assert kind == "BELONGS_TO"
        node = nodes["Fragment"][fragment]
        said = {(k, v) for k, vs in node.items() if isinstance(vs, list) for v in vs}
        found[entity][fragment] = (node.get("source"), said)
    return found


def ftm(target):
    """As `parquet`, by property, with what stood there; the entities hold together."""
    statements = list(read_csv_statements(io.BytesIO(target.read_bytes())))
    assert len({s.id for s in statements}) == len(statements)
    assert all(s.id == s.generate_key() for s in statements)
    found, by_entity = {}, {}
    for s in statements:
        by_entity.setdefault(s.canonical_id, []).append(s)
        held = found.setdefault(s.canonical_id, {}).setdefault(s.entity_id, (s.origin, set()))
        assert held[0] == s.origin
        if s.prop != s.BASE:
            held[1].add((s.prop, s.original_value or s.value))
    for entity_id, held in by_entity.items():
        entity = StatementEntity.from_statements(DATASET, held)
        assert entity.id == entity_id
        assert {s.id for s in entity.statements} >= {s.id for s in held if s.prop != s.BASE}
    return found


def kblam(target):
    """The rows, with the six keys that KBLaM's data class takes, and no others."""
    rows = json.loads(target.read_bytes())
    keys = {"name", "description_type", "description", "Q", "A", "key_string"}
    for row in rows:
        assert row.keys() == keys
        assert all(isinstance(value, str) for value in row.values())
        assert row["Q"] == f"What is {row['key_string']}?"
        assert row["key_string"] == f"the {row['description_type']} of {row['name']}"
    return rows

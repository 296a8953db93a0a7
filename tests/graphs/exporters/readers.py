"""What is in an exported graph, fragment by fragment, by the libraries that read such files."""

from urllib.parse import quote, unquote

import rdflib

from tests.graphs.exporters import neo4j_import

BASE = "urn:kbforge:"
NOWHERE = (rdflib.graph.DATASET_DEFAULT_GRAPH_ID, None)


def _name(term, kind):
    start = f"{BASE}{kind}:"
    text = str(term)
    return unquote(text.removeprefix(start)) if text.startswith(start) else None


def nquads(target):
    """As `tests.exporters.readers.parquet`; a statement is in the graph of its source."""
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
    """As `tests.exporters.readers.parquet`."""
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
    """As `tests.exporters.readers.parquet`, by the names that the header gives attributes."""
    nodes, related = neo4j_import.read(target)
    found = {entity: {} for entity in nodes["Entity"]}
    for fragment, entity, kind in related:
        assert kind == "BELONGS_TO"
        node = nodes["Fragment"][fragment]
        said = {(k, v) for k, vs in node.items() if isinstance(vs, list) for v in vs}
        found[entity][fragment] = (node.get("source"), said)
    return found

"""Everything that reads a file, each with a good file to damage."""

from __future__ import annotations

import bz2
import gzip
import json
import shutil
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date
from pathlib import Path

import openpyxl
import pyarrow as pa
import pyarrow.parquet as pq

from tests.jsonl import write_lines
from tests.registry.distributions import within
from tests.sources.readers import zstandard
from tests.sources.rebel_documents import document

PROGRAM = (sys.executable, "-m", "kbforge")


@dataclass(frozen=True)
class Reader:
    """A way to read a file."""

    name: str
    file: str  # that is damaged, relative to the folder of good files
    command: str  # which reads it as `{}`

    def arguments(self, path: Path) -> list[str]:
        return [part.replace("{}", str(path)) for part in self.command.split()]


TABLES = tuple(
    Reader(f"cluster {file}", file, f"cluster {{}} --likelihood attributes {more}-o out.jsonl")
    for file, more in (
        *(("people.csv", ""), ("people.tsv", ""), ("people.xlsx", ""), ("people.parquet", "")),
        *(("array.json", "--id id "), ("objects.jsonl", "--id id "), ("messy.csv", "")),
        *(("people.csv.gz", ""), ("people.csv.bz2", ""), ("people.tsv.zst", "")),
        *(("wide.csv", ""), ("western.csv", ""), ("marked.csv", "")),
        ("cyrillic.csv", "--set source.encoding=cp1251 "),
    )
)
"""Tables that `cluster` reads by their ending."""

READERS = (
    *TABLES,
    Reader("fragments", "people.jsonl", "cluster {} --likelihood attributes -o out.jsonl"),
    Reader("fragments, default", "people.jsonl", "cluster {} -o out.jsonl"),
    Reader("load jsonl", "people.jsonl", "load jsonl {} -o out.jsonl"),
    Reader("load objects", "objects.jsonl", "load jsonl {} --id id -o out.jsonl"),
    Reader("quarantine", "people.jsonl", "load jsonl {} --on-error quarantine -o out.jsonl"),
    Reader("load csv", "people.csv", "load csv {} --id id -o out.jsonl"),
    Reader("load csv lists", "people.csv", "load csv {} --separator | -o out.jsonl"),
    Reader("load parquet", "people.parquet", "load parquet {} --id id -o out.jsonl"),
    Reader("load xlsx", "people.xlsx", "load xlsx {} --id id -o out.jsonl"),
    Reader("load rebel", "rebel.jsonl", "load rebel {} -o out.jsonl"),
    Reader("load tweetnerd", "tweets.tsv", "load tweetnerd {} -o out.jsonl"),
    Reader("load array", "array.json", "load jsonl {} --id id -o out.jsonl"),
    Reader("load triples", "triples.jsonl", "load triples {} -o out.jsonl"),
    Reader("load csv triples", "triples.csv", "load triples {} -o out.jsonl"),
    Reader("load rdf", "triples.nq", "load triples {} -o out.jsonl"),
    Reader("load spacy", "spacy.json", "load spacy {} --label kb_id -o out.jsonl"),
    Reader("load gliner", "gliner.json", "load gliner {} -o out.jsonl"),
    Reader(
        "load wikidata", "wikidata.json", "load wikidata {} --set source.claims=P1,P2 -o out.jsonl"
    ),
    Reader("load graphrag", "graph/entities.parquet", "load graphrag {} -o out.jsonl"),
    Reader("load graphrag ends", "graph/relationships.parquet", "load graphrag {} -o out.jsonl"),
    Reader("load lightrag", "graph.graphml", "load lightrag {} -o out.jsonl"),
    Reader("load langchain", "langchain.jsonl", "load property-graph {} -o out.jsonl"),
    Reader("load llamaindex", "llamaindex.json", "load property-graph {} -o out.jsonl"),
    Reader("resolve graph", "graph.graphml", "resolve graph {} --likelihood names -o out"),
    Reader("resolve graphiti", "graphiti.json", "resolve graph {} --likelihood names -o facts"),
    Reader("answers", "answers.jsonl", "cluster people.jsonl --answers {} -o out.jsonl"),
    Reader("decisions", "decisions.jsonl", "decide kb.sqlite --file {}"),
    Reader("pipeline", "pipeline.toml", "run {} --dry-run"),
    Reader(
        "calibration", "calibration.toml", "cluster people.jsonl --set calibration={} -o out.jsonl"
    ),
    Reader(
        "confidence",
        "confidence.toml",
        "cluster people.jsonl --likelihood attributes --alpha 1 -o out.jsonl "
        "--set confidence-map={}",
    ),
    Reader("manifest", "model/manifest.json", "cluster people.jsonl --likelihood {} -o out.jsonl"),
    Reader("policy", "policy.toml", "export kb.jsonl --policy {} -o out.jsonl"),
    Reader("show", "kb.jsonl", "show {}"),
    Reader("show json", "kb.jsonl", "show {} --json --top 9"),
    Reader("export", "kb.jsonl", "export {} --format csv -o out.csv"),
    Reader("report", "kb.jsonl", "report {} -o out.html"),
    Reader("evaluate", "kb.jsonl", "evaluate {} people.jsonl"),
    Reader("store status", "kb.sqlite", "status {}"),
    Reader("store show", "kb.sqlite", "show {}"),
    Reader("store changes", "kb.sqlite", "changes {} -o out.jsonl"),
    Reader("store add", "kb.sqlite", "cluster people.jsonl --into {}"),
)


GRAPHML = """<?xml version='1.0' encoding='utf-8'?>
<graphml xmlns="http://graphml.graphdrawing.org/xmlns">
  <key id="d0" for="node" attr.name="entity_type" attr.type="string" />
  <key id="d1" for="node" attr.name="source_id" attr.type="string" />
  <key id="d2" for="edge" attr.name="weight" attr.type="double" />
  <graph edgedefault="undirected">
    <node id="&quot;ANN&quot;"><data key="d0">person</data>
      <data key="d1">a&lt;SEP&gt;b</data></node>
    <node id="Bob"><data key="d1">a</data></node>
    <edge source="Bob" target="&quot;ANN&quot;"><data key="d2">2.5</data></edge>
  </graph>
</graphml>
"""


def prepare(folder: Path) -> None:
    """Write a good file for each reader."""
    people = [
        {
            "id": f"p{i}",
            "properties": {"name": [f"Ann {i // 3}", "Anna"], "born": [f"{1960 + i // 3}-01-02"]},
            "label": str(i // 3),
            "source": "a",
        }
        for i in range(12)
    ]
    write_lines(folder / "people.jsonl", people)
    flat = [{"id": i, "name": f"Ann {i}", "tags": ["a", 2], "ok": True} for i in range(9)]
    write_lines(folder / "objects.jsonl", flat)
    (folder / "people.csv").write_text(
        'id,name,born\n1,"Ann, A.",1960\n2,Bob|Rob,1961\n3,"O""Neil",\n4,Ö,1\n'
    )
    _write_tables(folder)
    columns = {"id": [1, 2, 3], "name": ["Ann", "Bob", None], "tags": [["a"], [], ["b", "c"]]}
    pq.write_table(pa.table(columns), folder / "people.parquet")
    book = openpyxl.Workbook()
    for row in (
        ("id", "name", "born"),
        (1, "Ann", date(1960, 1, 2)),
        (2, "=Bob", True),
        (3, None, 1.5),
    ):
        book.active.append(row)
    book.save(folder / "people.xlsx")
    write_lines(folder / "rebel.jsonl", [document(i) for i in range(3)])
    (folder / "tweets.tsv").write_text(
        "1\tAnn\t0\t3\tQ1\t3\n2\tBob\t4\t7\tQ2\t2\n3\tBo\t0\t2\tNOT FOUND\t1\n"
    )
    _write_graphs(folder)
    _write_built_graphs(folder)
    same = {"number": 1, "how": "informative", "joined": 0.5, "share": 0.5}
    answers = [
        {"a": "p0", "b": b, "same": s, "asked": same, "fragments_sha256": "0" * 64}
        for b, s in (("p1", True), ("p5", False), ("p2", None))
    ]
    write_lines(folder / "answers.jsonl", answers)
    write_lines(folder / "decisions.jsonl", [{"a": "p0", "b": "p1", "same": True}])
    (folder / "pipeline.toml").write_text(
        '[[step]]\nverb = "cluster"\nargs = ["people.jsonl"]\n[step.options]\noutput = "o.jsonl"\n'
        'alpha = 2.5\nset = ["likelihood.scale=2"]\n'
    )
    (folder / "policy.toml").write_text(
        'default = "latest"\nsources = ["a"]\ndate = "properties.born"\n[attributes]\n'
        'name = "longest"\n'
    )
    _run(folder, "cluster people.jsonl --likelihood attributes -o kb.jsonl")
    _run(folder, "cluster people.jsonl --likelihood attributes --into kb.sqlite")
    _run(folder, "calibrate people.jsonl --likelihood attributes -o calibration.toml")
    _run(
        folder,
        "calibrate people.jsonl --likelihood attributes --alpha 1 --confidence -o confidence.toml",
    )
    _run(folder, "train-ngram people.jsonl -o model")
    for name in ("kb.sqlite-wal", "kb.sqlite-shm", "kb.sqlite-lock"):
        (folder / name).unlink(missing_ok=True)


def _write_tables(folder: Path) -> None:
    """Tables in several formats, encodings and packings, and one as people have them."""
    text = "id,name,town\n1,Zoë,Brno\n2,Bob,Wien\n3,Łukasz,Brno\n4,Zoe,Brno\n"
    tabs = text.replace(",", "\t").encode()
    (folder / "people.tsv").write_bytes(tabs)
    (folder / "people.csv.gz").write_bytes(gzip.compress(text.encode(), mtime=0))
    (folder / "people.csv.bz2").write_bytes(bz2.compress(text.encode()))
    (folder / "people.tsv.zst").write_bytes(zstandard(tabs))
    (folder / "wide.csv").write_bytes(text.encode("utf-16-le"))
    (folder / "marked.csv").write_bytes(text.encode("utf-8-sig"))
    (folder / "western.csv").write_bytes(text.replace("Ł", "L").encode("cp1252"))
    (folder / "cyrillic.csv").write_bytes("имя;город\nАнна;Прага\nБорис;Вена\n".encode("cp1251"))
    (folder / "messy.csv").write_text(
        'name,name,,\nAnn,A,x,\n\nBob,"B\nb",,\nname,name,,\n,,,,\nCy,,,\n'
    )


def _write_graphs(folder: Path) -> None:
    """What recognisers of entities and Wikidata write."""
    flat = [{"id": i, "name": f"Ann {i}", "tags": ["a", 2], "ok": True} for i in range(9)]
    text = 'Ann met "Bob" in Łódź.'
    spans = [(0, 3, "PERSON"), (9, 12, "PERSON"), (17, 21, "GPE")]
    ents = [{"start": a, "end": b, "label": kind, "kb_id": f"Q{a}"} for a, b, kind in spans]
    found = [
        {"start": a, "end": b, "text": text[a:b], "label": kind, "score": 0.5}
        for a, b, kind in spans
    ]
    related = {"head": found[0], "tail": found[1], "relation": "met", "score": 0.25}
    values = [
        ("string", "x"),
        ("wikibase-entityid", {"entity-type": "item", "numeric-id": 5}),
        ("time", {"time": "+1952-03-11T00:00:00Z", "precision": 11}),
        ("quantity", {"amount": "+1.96", "unit": "1"}),
        ("globecoordinate", {"latitude": 51.25, "longitude": -0.5}),
    ]
    claims = [
        {"mainsnak": {"snaktype": "value", "datavalue": {"type": k, "value": v}}, "rank": "normal"}
        for k, v in values
    ]
    label = {"en": {"language": "en", "value": "Ann"}}
    items = [
        {"id": f"Q{i}", "type": "item", "labels": label, "aliases": [], "claims": {"P1": claims}}
        for i in range(1, 4)
    ]
    keys, rows = (
        ("head", "relation", "tail", "context"),
        [("Ann", "met", f"Bob {i}", f"c{i // 2}") for i in range(6)],
    )
    write_lines(folder / "triples.jsonl", [dict(zip(keys, row, strict=True)) for row in rows])
    (folder / "triples.csv").write_text("\n".join(map(",".join, [keys, *rows])))
    (folder / "triples.nq").write_text(
        '<http://x.org/Ann> <http://x.org/name> "Ann \\u00e9"@en .\n'
        "<http://x.org/Ann> <http://x.org/met> _:bob <http://x.org/c1> .\n" * 3
    )
    (folder / "array.json").write_text(json.dumps(flat, indent=1))
    (folder / "spacy.json").write_text(json.dumps([{"text": text, "ents": ents}] * 3, indent=2))
    (folder / "gliner.json").write_text(json.dumps([[*found, related], found]))
    (folder / "wikidata.json").write_text("[\n" + ",\n".join(map(json.dumps, items)) + "\n]\n")


def _write_built_graphs(folder: Path) -> None:
    """Graphs as language models' graph builders write them."""
    ends = {"source": ["ANN", "BOB"], "target": ["BOB", "CY"], "weight": [1.0, None]}
    units = [["u1"], ["u1", "u2"]]
    (folder / "graph").mkdir()
    pq.write_table(
        pa.table({"title": ["ANN", "BOB"], "type": ["PERSON", None], "text_unit_ids": units}),
        folder / "graph" / "entities.parquet",
    )
    pq.write_table(
        pa.table({**ends, "text_unit_ids": units}), folder / "graph" / "relationships.parquet"
    )
    (folder / "graph.graphml").write_text(GRAPHML)
    nodes = [{"id": name, "type": "Person", "properties": {"born": 1960}} for name in ("A", "B")]
    relation = {"source": nodes[0], "target": nodes[1], "type": "KNOWS", "properties": {}}
    text = {"page_content": "A knows B.", "metadata": {"source": "a"}}
    graph = {"nodes": nodes, "relationships": [relation], "source": text}
    write_lines(folder / "langchain.jsonl", [graph, graph])
    ends = {"source_node_uuid": "a", "target_node_uuid": "b"}
    graphiti = {
        "nodes": [{"uuid": key, "name": key, "labels": ["Entity"]} for key in "ab"],
        "edges": [{**ends, "uuid": "r", "name": "KNOWS", "fact": "a knows b", "episodes": ["u"]}],
    }
    write_lines(folder / "graphiti.json", [graphiti])
    of_unit = {"triplet_source_id": "u1"}
    names = {name: {"label": "Person", "name": name, "properties": of_unit} for name in ("A", "B")}
    knows = {"label": "KNOWS", "source_id": "A", "target_id": "B", "properties": of_unit}
    write_lines(folder / "llamaindex.json", [{"nodes": names, "relations": {"A_KNOWS_B": knows}}])


def put(reader: Reader, good: Path, place: Path, content: bytes) -> Path:
    """Put damaged content where the reader finds it; returns what to give to the command."""
    if reader.file.startswith("model/"):
        model = place / "model"
        shutil.rmtree(model, ignore_errors=True)
        shutil.copytree(good / "model", model)
        (place / reader.file).write_bytes(content)
        return model
    if reader.file.startswith("graph/"):
        graph = place / "graph"
        shutil.rmtree(graph, ignore_errors=True)
        shutil.copytree(good / "graph", graph)
        (place / reader.file).write_bytes(content)
        return graph
    if "sqlite" in reader.file:  # what an earlier input left beside it is not its own
        for stale in place.glob("damaged*"):
            stale.unlink()
    target = place / f"damaged{''.join(Path(reader.file).suffixes)}"
    target.write_bytes(content)
    return target


def _run(folder: Path, command: str) -> None:
    ran = within(*command.split(), cwd=folder)
    assert ran.code == 0, ran.err


def cycle(count: int) -> Iterator[Reader]:
    """So many readers, each as often as the others."""
    for number in range(count):
        yield READERS[number % len(READERS)]

"""Which names of a graph are aliases: small graphs, and the real ones with gold."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Sequence
from itertools import combinations
from pathlib import Path

import pytest

import kbforge
from kbforge.contracts import Fragment
from kbforge.files.fragments import stop
from kbforge.fit.prepare import of_graph
from kbforge.registry import create
from kbforge_graphs.likelihoods.aliases.evidence import Evidence
from kbforge_graphs.likelihoods.aliases.words import relation, words_of_name
from tests.graphs.writing import write_graphrag


@pytest.mark.parametrize(
    ("one", "other", "kind"),
    [
        ("THE PORTER", "PORTER", "same"),
        ("OpenAI", "Open AI", "same"),
        ("Acme Inc.", "ACME", "form"),
        ("État", "ETAT", "same"),
        ("MR. SCROOGE", "SCROOGE", "title"),
        ("STATE OF MISSISSIPPI", "MISSISSIPPI", "form"),
        ("FINANCE MINISTRY", "MINISTRY OF FINANCE", "order"),
        ("KENNEDY, JOHN", "JOHN F. KENNEDY", "order"),
        ("JOHN A. SMITH", "JOHN B. SMITH", "sibling"),
        ("INFLUENZA A", "INFLUENZA", "start"),
        ("U.S.", "UNITED STATES", "initials"),
        ("IEYASU (1983)", "IEYASU (1988)", "unlike"),
        ("DIRECTOR OF PRODUCTS", "PRODUCTS", "part"),
        ("European Union", "EU", "initials"),
        ("United States of America", "USA", "initials"),
        ("SCROOGE'S NEPHEW (FRED)", "FRED", "aside"),
        ("SAM RIVERA", "RIVERA", "head"),
        ("SCROOGE’S NIECE BY MARRIAGE", "SCROOGE'S NIECE", "head"),
        ("BOB CRATCHIT", "BOB", "start"),
        ("GHOST OF MARLEY", "MARLEY", "part"),
        ("PHANTOMS", "PHANTOM", "number"),
        ("PORTLY GENTLEMEN", "PORTLY GENTLEMAN", "number"),
        ("SHAKESPEARE", "SHAKESPEAR", "spelling"),
        ("MR. FEZZIWIG", "MRS. FEZZIWIG", "unlike"),
        ("YOUNG JOE", "OLD JOE", "unlike"),
        ("GPT-3", "GPT-4", "unlike"),
        ("SCROOGE AND MARLEY", "SCROOGE", "unlike"),
        ("Synchronous learning", "Asynchronous learning", "sibling"),
        ("PETER CRATCHIT", "BOB CRATCHIT", "sibling"),
        ("AlphaGo", "AlphaZero", "apart"),
        ("HEART", "HEARTH", "apart"),
        ("FRUITERERS' SHOPS", "FRUITERER'S SHOP", "number"),
        ("...", "!", "same"),
    ],
)
def test_relations_of_names(one, other, kind):
    a, b = words_of_name(one), words_of_name(other)
    assert relation(a, b) == relation(b, a) == kind


def clustered(tmp_path: Path, entities, relations=(), **chosen) -> tuple[list[set[str]], list]:
    """The names of each entity of a graph, and its fragments."""
    rows = [
        {"title": title, "type": kind, "description": description, "text_unit_ids": units.split()}
        for title, kind, description, units in entities
    ]
    edges = [
        {"source": source, "target": target, "text_unit_ids": units.split()}
        for source, target, units in relations
    ]
    folder = write_graphrag(tmp_path, rows, edges)
    fragments = list(create("sources", "graphrag").read([str(folder)], stop))
    knowledge = kbforge.cluster(fragments, **chosen)
    name_of = {fragment.id: fragment.names[0] for fragment in fragments}
    return [{name_of[f] for f in entity.fragments} for entity in knowledge.entities], fragments


CAST = [
    ("EBENEZER SCROOGE", "PERSON", "A miser; he owns the counting-house.", "u1 u2 u3"),
    ("SCROOGE", "PERSON", "The old miser of the counting-house.", "u4 u5"),
    ("MR. SCROOGE", "PERSON", "The employer of Bob at the counting-house.", "u6"),
    ("SCROOGE AND MARLEY", "ORGANIZATION", "A firm.", "u1"),
    ("BOB CRATCHIT", "PERSON", "The clerk; he is poor.", "u1 u2"),
    ("ROBERT CRATCHIT", "PERSON", "Robert is the formal name of Bob Cratchit.", "u7"),
    ("MRS. CRATCHIT", "PERSON", "His wife; she cooks the goose.", "u3"),
    ("FEZZIWIG", "PERSON", "He is jovial, and held a ball.", "u8"),
    ("MR. FEZZIWIG", "PERSON", "He gave a ball; jovial.", "u9"),
    ("MRS. FEZZIWIG", "PERSON", "She danced at the ball.", "u8"),
    ("CHRISTMAS", "EVENT", "A feast in winter.", "u1 u4"),
    ("CHRISTMAS DINNER", "EVENT", "A goose, and a pudding.", "u3"),
    ("PHANTOM", "PERSON", "A shrouded spirit.", "u5"),
    ("PHANTOMS", "PERSON", "Many in the air.", "u6"),
    ("LONDON", "GEO", "A city of fog.", "u1 u2 u3"),
]
LINKS = [
    ("EBENEZER SCROOGE", "BOB CRATCHIT", "u1 u2"),
    ("SCROOGE", "BOB CRATCHIT", "u4"),
    ("MR. SCROOGE", "LONDON", "u6"),
    ("EBENEZER SCROOGE", "LONDON", "u1 u3"),
    ("FEZZIWIG", "MRS. FEZZIWIG", "u8"),
    ("MR. FEZZIWIG", "LONDON", "u9"),
]


def test_a_cast(tmp_path):
    groups, fragments = clustered(tmp_path, CAST, LINKS)
    assert of_graph(fragments)

    def together(*names: str) -> bool:
        return any(group.issuperset(names) for group in groups)

    assert together("EBENEZER SCROOGE", "SCROOGE", "MR. SCROOGE")
    assert together("BOB CRATCHIT", "ROBERT CRATCHIT")
    assert together("FEZZIWIG", "MR. FEZZIWIG")
    assert {"MRS. FEZZIWIG"} in groups
    assert {"MRS. CRATCHIT"} in groups
    assert {"SCROOGE AND MARLEY"} in groups
    assert {"CHRISTMAS"} in groups
    assert {"CHRISTMAS DINNER"} in groups
    assert {"PHANTOM"} in groups


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Synchronous learning", "Asynchronous learning"),
        ("AlphaGo", "AlphaZero"),
        ("GPT-3", "GPT-4"),
        ("Heart", "Hearth"),
        ("Ghost of Christmas Past", "Ghost of Christmas Present"),
        ("PHANTOM", "PHANTOMS"),
    ],
)
def test_series_and_antonyms_stay_apart_however_alike(tmp_path, one, other):
    alike = "A system of the laboratory that learns from games of experts."
    others = [(f"N{x}", "CONCEPT", f"Of {x} alone.", "u1 u2") for x in "abcdef"]
    entities = [(one, "CONCEPT", alike, "u1 u2"), (other, "CONCEPT", alike, "u3"), *others]
    links = [(name, f"N{x}", units) for name, units in ((one, "u1"), (other, "u3")) for x in "abc"]
    groups, _ = clustered(tmp_path, entities, links, likelihood="aliases")
    assert {one} in groups
    assert {other} in groups


def test_a_shared_first_name_joins_the_only_one_that_it_fits(tmp_path):
    """BOB may be two people in the one graph, and only one in the other."""
    people = [("BOB", "PERSON", "", "u3"), ("BOB CRATCHIT", "PERSON", "", "u1 u2")]
    links = [("BOB", "LONDON", "u3"), ("BOB CRATCHIT", "LONDON", "u1 u2")]
    places = [(f"PLACE {x}", "GEO", "", "u9") for x in "abcdefgh"]
    alone = Evidence(clustered(tmp_path / "a", [*people, *places], links)[1])
    rival = [("BOB MARLEY", "PERSON", "", "u4 u5 u6")]
    ambiguous = Evidence(clustered(tmp_path / "b", [*people, *rival, *places], links)[1])
    pair = ("bob", "bob cratchit")
    assert sum(ambiguous.terms[pair]) < sum(alone.terms[pair]) - 0.5


def test_types_and_relations_speak_against(tmp_path):
    entities = [
        ("PARIS", "GEO", "", "u1"),
        ("PARIS HILTON", "PERSON", "", "u2"),
        ("SAM", "PERSON", "", "u3"),
        ("SAM RIVERA", "PERSON", "", "u3"),
    ]
    evidence = Evidence(clustered(tmp_path, entities, [("SAM", "SAM RIVERA", "u3")])[1])
    assert evidence.features(("paris", "paris hilton"))["different"]
    assert evidence.features(("sam", "sam rivera"))["linked"]


def test_the_order_of_the_file_does_not_matter(tmp_path):
    _, fragments = clustered(tmp_path, CAST, LINKS)
    one, other = Evidence(fragments), Evidence(fragments[::-1])
    assert one.terms == other.terms


def test_other_files_are_no_graphs():
    assert not of_graph([Fragment("1", {"name": ("Ada",), "born": ("1815",)})])
    one_of_many = [Fragment(str(i), {"name": (f"N{i}",)}) for i in range(19)]
    assert not of_graph([*one_of_many, Fragment("x", {"name": ("X",), "neighbour": ("N1",)})])


def test_a_name_that_is_new_joins_its_equals_only(tmp_path):
    _, fragments = clustered(tmp_path, CAST, LINKS)
    likelihood = create("likelihoods", "aliases")
    likelihood.fit(fragments)
    new = [Fragment(f"new {i}", {"name": ("DR. SCROOGE",)}) for i in range(2)]
    old = next(f for f in fragments if f.names[0] == "SCROOGE")
    alone, both, mixed = likelihood.log_marginal([[new[0]], new, [new[0], old]])
    assert both > 2 * alone
    assert mixed < alone + likelihood.log_marginal([[old]])[0]


def pairs_of_names(fragments: Sequence[Fragment], entity_of) -> set[tuple[str, str]]:
    """The pairs of names in one entity; a name is in that of most of its fragments."""
    found: dict[str, Counter[str]] = defaultdict(Counter)
    for fragment in fragments:
        found[fragment.names[0]][entity_of[fragment.id]] += 1
    held = defaultdict(list)
    for name, entities in sorted(found.items()):
        held[min(entities, key=lambda e: (-entities[e], e))].append(name)
    return {pair for names in held.values() for pair in combinations(names, 2)}


@pytest.mark.parametrize(("graph", "least"), [("graphrag", 0.45), ("graphrag_dulce", 0.45)])
def test_graphs_of_language_models(data_dir, graph, least):
    fragments = list(create("sources", "graphrag").read([str(data_dir / "graphs" / graph)], stop))
    gold_folder = data_dir / "graphs" / "gold"

    def rows(kind: str) -> list[dict]:
        return [json.loads(r) for r in (gold_folder / f"{graph}.{kind}.jsonl").open()]

    gold = {row["name"]: row["label"] for row in rows("names") if row["status"] == "sure"}
    open_ones = [set(row["labels"]) for row in rows("disputes")]
    knowledge = kbforge.cluster(fragments)
    entity_of = {f: entity.id for entity in knowledge.entities for f in entity.fragments}
    found = [p for p in pairs_of_names(fragments, entity_of) if p[0] in gold and p[1] in gold]
    right = sum(gold[a] == gold[b] for a, b in found)
    wrong = sum(gold[a] != gold[b] and {gold[a], gold[b]} not in open_ones for a, b in found)
    there = sum(n * (n - 1) // 2 for n in Counter(gold.values()).values())
    assert 2 * right / (right + wrong + there) >= least

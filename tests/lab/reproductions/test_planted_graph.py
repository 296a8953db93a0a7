"""The planted graph: namesakes share a row, aliases do not, and labels find their fragments."""

import pyarrow.parquet as pq

from kbforge.contracts import Fragment
from kbforge.files.fragments import stop
from kbforge_graphs.sources.graphrag import GraphRagSource
from tests.scripts import script

planted_graph = script("planted_graph")


def mention(name: str, unit: str, label: str, **relations: str) -> Fragment:
    properties = {"name": (name,), **{key: (value,) for key, value in relations.items()}}
    return Fragment(f"{unit}-{label}", properties, label=label, source=unit)


def test_a_graph_of_namesakes_and_aliases(tmp_path):
    mentions = [
        mention("Victoria", "u1", "queen", spouse="Albert"),
        mention("Victoria", "u2", "city", country="Australia"),
        mention("Queen Victoria", "u3", "queen", spouse="Albert"),
        mention("victoria", "u2", "never shown"),
    ]
    labels = planted_graph.planted(mentions, tmp_path)
    rows = {row["title"]: row for row in pq.read_table(tmp_path / "entities.parquet").to_pylist()}
    assert list(rows) == ["VICTORIA", "ALBERT", "AUSTRALIA", "QUEEN VICTORIA"]
    assert rows["VICTORIA"]["text_unit_ids"] == ["u1", "u2"]
    assert rows["VICTORIA"]["description"] == (
        "VICTORIA spouse ALBERT. VICTORIA country AUSTRALIA."
    )
    fragments = {f.id: f for f in GraphRagSource().read([str(tmp_path)], stop)}
    assert {key: labels.get(key) for key in fragments} == {
        "u1#VICTORIA": "queen",
        "u2#VICTORIA": "city",
        "u1#ALBERT": None,
        "u3#ALBERT": None,
        "u2#AUSTRALIA": None,
        "u3#QUEEN VICTORIA": "queen",
    }
    assert fragments["u2#VICTORIA"].properties["neighbour"] == ("AUSTRALIA",)


def test_shares_of_pairs():
    clusters = {"a": 1, "b": 1, "c": 2}
    pairs = [("a", "b"), ("a", "c")]
    assert planted_graph.share(pairs, clusters, True) == "1 of 2"
    assert planted_graph.share(pairs[1:], clusters, False) == "1 of 1"

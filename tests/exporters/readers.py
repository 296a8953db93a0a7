"""What is in an export, fragment by fragment, by the libraries that read such files."""

import io
import json

import pyarrow.parquet as pq
from followthemoney.dataset import Dataset
from followthemoney.statement import StatementEntity
from followthemoney.statement.serialize import read_csv_statements

DATASET = Dataset.make({"name": "kbforge", "title": "KBForge"})


def parquet(target):
    """{entity id: {fragment id: (source, {(attribute, value)})}}."""
    found = {}
    for row in pq.read_table(target).to_pylist():
        held = found[row["id"]] = {f["id"]: (f["source"], set()) for f in row["fragments"]}
        for said in row["properties"]:
            for fragment in said["fragments"]:
                held[fragment][1].add((said["attribute"], said["value"]))
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

"""Small graphs in the shapes that language models' graph builders write."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

_TEXT, _TEXTS, _NUMBER = pa.string(), pa.list_(pa.string()), pa.int64()
ENTITIES = {
    **dict.fromkeys(("id", "title", "type", "description"), _TEXT),
    "human_readable_id": _NUMBER,
    "text_unit_ids": _TEXTS,
    "frequency": _NUMBER,
}
RELATIONSHIPS = {
    **dict.fromkeys(("id", "source", "target", "description"), _TEXT),
    "weight": pa.float64(),
    "text_unit_ids": _TEXTS,
}
TEXT_UNITS = {
    **dict.fromkeys(("id", "text", "document_id"), _TEXT),
    "n_tokens": _NUMBER,
    "entity_ids": _TEXTS,
    "relationship_ids": _TEXTS,
}

Rows = Sequence[Mapping[str, Any]]


def write_graphrag(
    folder: Path, entities: Rows, relationships: Rows, text_units: Rows | None = None
) -> Path:
    """GraphRAG's tables in a folder; a column that a row lacks is null."""
    tables = {"entities": (entities, ENTITIES), "relationships": (relationships, RELATIONSHIPS)}
    if text_units is not None:
        tables["text_units"] = (text_units, TEXT_UNITS)
    folder.mkdir(exist_ok=True)
    for name, (rows, schema) in tables.items():
        table = pa.Table.from_pylist(list(rows), pa.schema(list(schema.items())))
        pq.write_table(table, folder / f"{name}.parquet")
    return folder

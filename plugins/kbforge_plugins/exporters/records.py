"""Exporters of records: JSON lines, KBLaM's training data and Parquet.

*jsonl*: every verb can read it.

*kblam*: a question and an answer for each attribute, as a JSON array of objects with six keys:

    {"name": "Motown", "description_type": "country", "description": "United States",
     "Q": "What is the country of Motown?", "A": "The country of Motown is United States.",
     "key_string": "the country of Motown"}

KBLaM identifies an entity by its name and a fact by its key. So several values of an attribute
become one description, and only the name distinguishes entities. An entity without properties has
no facts. Values that name an entity are told by its name; facts wait in a temporary file for names
that come later.

*parquet*: one row per entity with nested columns, for data frames and databases.

| column | type |
|---|---|
| id, name | string |
| confidence, reported | double; the second is null if the first is not calibrated |
| subproblem | uint64 |
| properties | list of (attribute, value, fragments: list of string) |
| fragments | list of (id, source, metadata as JSON, vector); null if unknown |
| alternatives | list of (probability, groups: list of list of string) |
| vector | list of double; null if there is none |
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import orjson

from kbforge.contracts import Entity, Exporter, Fragment, View
from kbforge.errors import UsageError
from kbforge.files.io import open_output
from kbforge.kb.edges import edge_table

if TYPE_CHECKING:
    import pyarrow as pa


class KBLaMExporter(Exporter):
    """Questions and answers, one fact per attribute: KBLaM's training data.

    Args:
        separator: text between several values of an attribute.

    Raises:
        UsageError: an empty separator.

    """

    def __init__(self, separator: str = "; ") -> None:
        if not separator:
            raise UsageError("exporter kblam: separator: expected text, got nothing")
        self._separator = separator

    def export(self, view: View, target: str) -> None:
        """Write the array, one object per line."""
        with open_output(target) as out:
            out.write(b"[")
            between = b"\n"
            for name, attribute, texts in self._facts(view):
                out.write(between + orjson.dumps(self._fact(name, attribute, texts)))
                between = b",\n"
            out.write(b"\n]\n")

    def _facts(self, view: View) -> Iterator[tuple[str, str, list[str]]]:
        """Names of entities, attributes, and texts of their values."""
        with edge_table() as table, tempfile.TemporaryFile() as waiting:
            for entity in table.through(view.entities()):
                for attribute, values in entity.properties.items():
                    told = [(value.value, value.entity) for value in values]
                    fact = (entity.name, attribute, told)
                    waiting.write(orjson.dumps(fact, option=orjson.OPT_APPEND_NEWLINE))
            waiting.seek(0)
            for line in waiting:
                name, attribute, told = orjson.loads(line)
                named = ((of and table.name_of(of)) or text for text, of in told)
                yield name, attribute, list(dict.fromkeys(named))

    def _fact(self, name: str, attribute: str, texts: Sequence[str]) -> dict[str, str]:
        description = self._separator.join(texts)
        key = f"the {attribute} of {name}"
        return {
            "name": name,
            "description_type": attribute,
            "description": description,
            "Q": f"What is {key}?",
            "A": f"The {attribute} of {name} is {description}.",
            "key_string": key,
        }


class JsonlExporter(Exporter):
    """One entity per line, complete."""

    endings: ClassVar = (".jsonl", ".ndjson", ".json")

    def export(self, view: View, target: str) -> None:
        """Write one line per entity, keys in the order of `Entity.to_json`."""
        with open_output(target) as out:
            for _, lines in view.lines():
                out.write(lines)


_ROW_GROUP_BYTES = 200_000  # of JSON; a row group is held in memory


class ParquetExporter(Exporter):
    """One row per entity, with nested columns."""

    endings: ClassVar = (".parquet", ".pq")

    def export(self, view: View, target: str) -> None:
        """Write one row per entity, in groups of bounded size."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        schema = _schema()
        with open_output(target) as out, pq.ParquetWriter(pa.PythonFile(out), schema) as writer:
            rows: list[dict[str, Any]] = []
            size = 0
            for entity in view.entities():
                row = _row(entity, view)
                rows.append(row)
                size += len(orjson.dumps(row))
                if size > _ROW_GROUP_BYTES:
                    writer.write_table(pa.Table.from_pylist(rows, schema))
                    rows, size = [], 0
            if rows:
                writer.write_table(pa.Table.from_pylist(rows, schema))


def _schema() -> pa.Schema:
    import pyarrow as pa

    text, numbers = pa.string(), pa.list_(pa.float64())
    texts = pa.list_(text)
    stated = pa.struct([("attribute", text), ("value", text), ("fragments", texts)])
    fragment = pa.struct([("id", text), ("source", text), ("metadata", text), ("vector", numbers)])
    alternative = pa.struct([("probability", pa.float64()), ("groups", pa.list_(texts))])
    return pa.schema(
        [
            ("id", text),
            ("name", text),
            ("confidence", pa.float64()),
            ("reported", pa.float64()),
            ("subproblem", pa.uint64()),
            ("properties", pa.list_(stated)),
            ("fragments", pa.list_(fragment)),
            ("alternatives", pa.list_(alternative)),
            ("vector", numbers),
        ]
    )


def _row(entity: Entity, view: View) -> dict[str, Any]:
    return {
        "id": entity.id,
        "name": entity.name,
        "confidence": entity.confidence,
        "reported": entity.reported,
        "subproblem": entity.subproblem,
        "properties": [
            {"attribute": attribute, "value": value.value, "fragments": list(value.fragments)}
            for attribute, values in entity.properties.items()
            for value in values
        ],
        "fragments": [_fragment(fragment) for fragment in view.fragments(entity)],
        "alternatives": [alternative.to_json() for alternative in entity.alternatives],
        "vector": None if entity.vector is None else list(entity.vector),
    }


def _fragment(fragment: Fragment) -> dict[str, Any]:
    metadata = fragment.metadata
    return {
        "id": fragment.id,
        "source": fragment.source,
        "metadata": None if metadata is None else orjson.dumps(dict(metadata)).decode(),
        "vector": None if fragment.vector is None else list(fragment.vector),
    }

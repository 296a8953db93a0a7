"""Entities as JSON lines, which every verb reads back, and as KBLaM's training data.

KBLaM reads a question and an answer for each attribute, as a JSON array of objects with six keys:

    {"name": "Motown", "description_type": "country", "description": "United States",
     "Q": "What is the country of Motown?", "A": "The country of Motown is United States.",
     "key_string": "the country of Motown"}

KBLaM knows an entity by its name and a fact by its key. So several values of an attribute are one
description, and nothing but the name tells entities apart. An entity without properties has no
facts.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

import orjson

from kbforge.contracts import Entity, Exporter, View
from kbforge.errors import UsageError
from kbforge.files.io import open_output


class KBLaMExporter(Exporter):
    """Questions and answers, one fact an attribute: KBLaM's training data."""

    def __init__(self, separator: str = "; ") -> None:
        """Set the options.

        Args:
            separator: text between several values of an attribute.

        Raises:
            UsageError: an empty separator.

        """
        if not separator:
            raise UsageError("exporter kblam: separator: expected text, got nothing")
        self._separator = separator

    def export(self, view: View, target: str) -> None:
        """Write the array, one object a line."""
        with open_output(target) as out:
            out.write(b"[")
            between = b"\n"
            for entity in view.entities():
                for fact in self._facts(entity):
                    out.write(between + orjson.dumps(fact))
                    between = b",\n"
            out.write(b"\n]\n")

    def _facts(self, entity: Entity) -> Iterator[dict[str, str]]:
        for attribute, values in entity.properties.items():
            description = self._separator.join(value.value for value in values)
            key = f"the {attribute} of {entity.name}"
            yield {
                "name": entity.name,
                "description_type": attribute,
                "description": description,
                "Q": f"What is {key}?",
                "A": f"The {attribute} of {entity.name} is {description}.",
                "key_string": key,
            }


class JsonlExporter(Exporter):
    """One entity a line, complete."""

    endings: ClassVar = (".jsonl", ".ndjson", ".json")

    def export(self, view: View, target: str) -> None:
        """Write a line an entity, keys in the order of `Entity.to_json`."""
        with open_output(target) as out:
            for entity in view.entities():
                out.write(orjson.dumps(entity.to_json(), option=orjson.OPT_APPEND_NEWLINE))

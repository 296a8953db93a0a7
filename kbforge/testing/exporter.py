"""The laws of `kbforge.contracts.exporter`, as tests."""

from __future__ import annotations

import io
from collections.abc import Iterator
from dataclasses import replace
from typing import ClassVar

from kbforge.contracts import Entity
from kbforge.testing import examples
from kbforge.testing.contract import Contract


class ExporterContract(Contract):
    """Every entity once and in order, same bytes every time, and values that stay data."""

    kind: ClassVar[str] = "exporters"

    def parse(self, data: bytes) -> list[tuple[str, set[str]]]:
        """(id, values of all properties) of each entity in the file, in its order.

        Write it with the format's own parser, not with the exporter's code.
        """
        raise NotImplementedError

    def entities(self) -> list[Entity]:
        """What is exported: values that try to break out of the format."""
        return examples.entities()

    def exported(self, entities: list[Entity]) -> bytes:
        """The bytes of one export."""
        out = io.BytesIO()
        self.make().export(iter(entities), out)
        return out.getvalue()

    def test_every_entity_once_and_values_stay_data(self) -> None:
        entities = self.entities()
        expected = [(e.id, {v.value for vs in e.properties.values() for v in vs}) for e in entities]
        assert self.parse(self.exported(entities)) == expected

    def test_same_entities_same_bytes(self) -> None:
        assert self.exported(self.entities()) == self.exported(self.entities())

    def test_no_entities_is_a_valid_file(self) -> None:
        assert self.parse(self.exported([])) == []

    def test_the_stream_stays_open(self) -> None:
        out = io.BytesIO()
        self.make().export(iter(self.entities()), out)
        assert not out.closed

    def test_writes_as_it_reads(self) -> None:
        """One pass in bounded memory: bytes leave before the last entity has arrived."""
        out, written = io.BytesIO(), []
        first = self.entities()[0]

        def many() -> Iterator[Entity]:
            for i in range(5_000):
                yield replace(first, id=f"E{i}")
            written.append(out.tell())

        self.make().export(many(), out)
        assert written[0] > 0

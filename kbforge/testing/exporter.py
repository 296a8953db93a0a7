"""The laws of `kbforge.contracts.exporter`, as tests."""

from __future__ import annotations

import io
import tracemalloc
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, ClassVar

import pytest

from kbforge.contracts import Entity, Value
from kbforge.testing import examples
from kbforge.testing.contract import Contract


class ExporterContract(Contract):
    """Every entity once and in order, same bytes every time, and values that stay data.

    Attributes:
        streaming: whether bytes leave before the last entity has arrived.

    """

    kind: ClassVar[str] = "exporters"
    streaming: ClassVar[bool] = True

    def parse(self, data: bytes) -> list[tuple[str, set[str]]]:
        """(id, texts that `holds` names) of each entity in the file, in its order.

        Write it with the format's own parser, not with the exporter's code.
        """
        raise NotImplementedError

    def holds(self, entity: Entity) -> set[str]:
        """Which texts of an entity the format keeps: the values of all properties.

        Override it for a format that keeps others.
        """
        return {value.value for values in entity.properties.values() for value in values}

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
        expected = [(entity.id, self.holds(entity)) for entity in entities]
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
        """Bytes leave before the last entity has arrived, unless the format cannot."""
        if not self.streaming:
            pytest.skip("the format needs the last entity before the first byte")
        out, written = io.BytesIO(), []

        def many() -> Iterator[Entity]:
            yield from self._many(5_000)
            written.append(out.tell())

        self.make().export(many(), out)
        assert written[0] > 0

    def test_memory_does_not_grow_with_the_entities(self) -> None:
        peaks = []
        for n in (100, 3_000):
            exporter = self.make()
            tracemalloc.start()
            exporter.export(self._many(n), _Nowhere())
            peaks.append(tracemalloc.get_traced_memory()[1])
            tracemalloc.stop()
        # the entities would take 6 MB more
        assert peaks[1] - peaks[0] < 1_000_000

    def _many(self, n: int) -> Iterator[Entity]:
        """Entities of 2 kB or more, made one at a time."""
        first = self.entities()[0]
        for i in range(n):
            long = Value(f"{i} " * 500, (f"f{i}",))
            yield replace(first, id=f"E{i}", properties={**first.properties, "note": (long,)})


class _Nowhere(io.RawIOBase):
    """A stream that forgets what is written to it."""

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        return memoryview(data).nbytes

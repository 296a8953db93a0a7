"""The laws of `kbforge.contracts.view`, as tests."""

from __future__ import annotations

import io
import sys
import tracemalloc
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import ClassVar

import pytest

from kbforge.contracts import Entity, Fragment, Value
from kbforge.errors import UsageError
from kbforge.kb.entities import fragments_of
from kbforge.kb.view import EntitiesView
from kbforge.testing import examples
from kbforge.testing.contract import Contract


class ExporterContract(Contract):
    """Every entity once and in order, same bytes every time, and values that stay data.

    Attributes:
        streaming: whether bytes leave before the last entity has arrived.
        folder: whether the target is a folder of several files.

    """

    kind: ClassVar[str] = "exporters"
    streaming: ClassVar[bool] = True
    folder: ClassVar[bool] = False

    def parse(self, target: Path) -> list[tuple[str, set[str]]]:
        """(id, texts that `holds` names) of each entity in the file or folder, in its order.

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

    def exported(self, entities: list[Entity], folder: Path, known: bool = False) -> Path:
        """Where one export went.

        Args:
            entities: to export.
            folder: a file or folder in it.
            known: give the view fragments that have sources and metadata.

        """
        target = folder / f"kb-{len(list(folder.iterdir()))}"
        fragments = [f for entity in entities for f in with_sources(entity)] if known else None
        self.make().export(_Once(lambda: iter(entities), fragments), str(target))
        return target

    @pytest.mark.parametrize("known", [False, True])
    def test_every_entity_once_and_values_stay_data(self, tmp_path: Path, known: bool) -> None:
        entities = self.entities()
        expected = [(entity.id, self.holds(entity)) for entity in entities]
        assert self.parse(self.exported(entities, tmp_path, known)) == expected

    def test_nul_survives_or_is_replaced(self, tmp_path: Path) -> None:
        values = {"note": (Value("a\0b", ("f", "g")),)}
        entity = Entity("E-nul", "a", values, ("f", "g"), 1.0, 0)
        ((entity_id, held),) = self.parse(self.exported([entity], tmp_path))
        whole = self.holds(entity)
        assert entity_id == "E-nul"
        assert held in (whole, {text.replace("\0", "\ufffd") for text in whole})

    def test_same_entities_same_bytes(self, tmp_path: Path) -> None:
        one, other = (self.exported(self.entities(), tmp_path, True) for _ in range(2))
        assert content(one) == content(other)

    def test_no_entities_is_a_valid_file(self, tmp_path: Path) -> None:
        assert self.parse(self.exported([], tmp_path)) == []

    def test_standard_output_has_the_same_bytes_and_stays_open(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        stdout = _Stdout()
        monkeypatch.setattr(sys, "stdout", stdout)
        view = EntitiesView(lambda: iter(self.entities()))
        if self.folder:
            with pytest.raises(UsageError):
                self.make().export(view, "-")
            assert stdout.buffer.getvalue() == b""
        else:
            self.make().export(view, "-")
            assert not stdout.buffer.closed
            whole = self.exported(self.entities(), tmp_path).read_bytes()
            assert stdout.buffer.getvalue() == whole

    def test_writes_as_it_reads(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Bytes leave before the last entity has arrived, unless the format cannot."""
        if not self.streaming or self.folder:
            pytest.skip("the format needs the last entity before the first byte")
        stdout, written = _Stdout(), []
        monkeypatch.setattr(sys, "stdout", stdout)

        def many() -> Iterator[Entity]:
            yield from self._many(5_000)
            written.append(stdout.buffer.tell())

        self.make().export(EntitiesView(many), "-")
        assert written[0] > 0

    def test_a_failure_leaves_what_was_there(self, tmp_path: Path) -> None:
        old = self.exported(self.entities(), tmp_path)
        before = content(old)

        def torn() -> Iterator[Entity]:
            yield from self._many(200)
            raise ValueError("torn")

        for target in (old, tmp_path / "new"):
            with pytest.raises(ValueError, match="torn"):
                self.make().export(EntitiesView(torn), str(target))
        assert content(old) == before
        assert list(tmp_path.iterdir()) == [old]

    def test_memory_does_not_grow_with_the_entities(self, tmp_path: Path) -> None:
        def export(n: int) -> None:
            view = EntitiesView(lambda: self._many(n))
            self.make().export(view, str(tmp_path / f"{n}"))

        export(1)  # what is imported once does not count
        peaks = []
        for n in (100, 3_000):
            tracemalloc.start()
            export(n)
            peaks.append(tracemalloc.get_traced_memory()[1])
            tracemalloc.stop()
        # the entities would take 6 MB more
        assert peaks[1] - peaks[0] < 1_000_000

    def _many(self, n: int) -> Iterator[Entity]:
        """Entities of 2 kB or more, made one at a time."""
        first = self.entities()[0]
        for i in range(n):
            long = Value(f"{i} " * 500, (f"f{i}",))
            yield replace(
                first,
                id=f"E{i}",
                properties={"note": (long,)},
                fragments=(f"f{i}", f"g{i}"),
                alternatives=(),
            )


def with_sources(entity: Entity) -> list[Fragment]:
    """The fragments of an entity as they might have gone in: with source and metadata."""
    return [
        replace(
            fragment,
            vector=None if fragment.properties else entity.vector or (0.5,),
            source=f"https://example.org/{i % 2}.csv:{i}",
            metadata={"page": i},
        )
        for i, fragment in enumerate(fragments_of(entity))
    ]


def content(target: Path) -> dict[str, bytes]:
    """The bytes of a file, or of each file of a folder."""
    files = target.iterdir() if target.is_dir() else [target]
    return {"" if file == target else file.name: file.read_bytes() for file in files}


class _Once(EntitiesView):
    """A view that is read once."""

    def __init__(
        self, entities: Callable[[], Iterator[Entity]], fragments: list[Fragment] | None
    ) -> None:
        super().__init__(entities, fragments)
        self._asked = False

    def entities(self) -> Iterator[Entity]:
        assert not self._asked, "the exporter reads the view twice"
        self._asked = True
        return super().entities()


class _Stdout:
    """Standard output that is no terminal, as far as it takes bytes."""

    def __init__(self) -> None:
        self.buffer = io.BytesIO()

    def isatty(self) -> bool:
        return False

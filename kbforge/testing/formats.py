"""Tests of the laws of sources, exporters and serializers (`kbforge.contracts`)."""

from __future__ import annotations

import io
import random
import shutil
import sys
import tracemalloc
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import pytest

from kbforge.contracts import Entity, Fragment, Value
from kbforge.contracts.serializer import sorted_properties
from kbforge.errors import BadRecord, KBForgeError, UsageError
from kbforge.files.fragments import stop
from kbforge.kb.entities import fragments_of
from kbforge.kb.view import EntitiesView
from kbforge.testing import examples
from kbforge.testing.contract import Contract

GARBAGE = {
    "nothing": b"",
    "a newline": b"\n",
    "NUL": b"\0\0\0\n\0",
    "invalid UTF-8": b"\xff\xfe\xfa\n\xc3\n",
    "half an object": b'{"id": "a", "properties": {"name": ["x"',
    "nested": b"[" * 50_000 + b"\n",
    "a long line": b"x" * 200_000 + b"\n",
    "damaged gzip": b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\x03\xff\xff",
    "damaged zstd": b"\x28\xb5\x2f\xfd\xff\xff\xff\xff",
}


class SourceContract(Contract):
    """Streaming, deterministic, and nothing silently lost.

    `filename` is the name of the file that `document` is written to.
    """

    kind: ClassVar[str] = "sources"
    filename: ClassVar[str] = "input"

    def document(self, n: int) -> bytes:
        """A good file of n records that become n fragments, each of 200 bytes or more."""
        raise NotImplementedError

    def bad_documents(self) -> Mapping[str, bytes]:
        """Kind of error -> a file of three records: a good one, a bad one, and another good one."""
        raise NotImplementedError

    def inputs(self, folder: Path, content: bytes) -> list[str]:
        """Write `content` to the folder; returns the inputs to read. Override it for several
        files."""
        path = folder / self.filename
        path.write_bytes(content)
        return [str(path)]

    def test_every_good_record_is_read(self, tmp_path: Path) -> None:
        found = self._read(self.inputs(tmp_path, self.document(7)))
        assert len(found) == 7
        assert len({fragment.id for fragment in found}) == 7

    def test_fragments_keep_their_laws(self, tmp_path: Path) -> None:
        for fragment in self._read(self.inputs(tmp_path, self.document(7))):
            assert Fragment.from_json(fragment.to_json(), "test") == fragment

    def test_same_files_same_fragments(self, tmp_path: Path) -> None:
        inputs = self.inputs(tmp_path, self.document(20))
        assert self._read(inputs) == self._read(inputs)

    def test_memory_does_not_grow_with_the_input(self, tmp_path: Path) -> None:
        small, large = self.document(100), self.document(10_000)
        peaks = []
        for size, content in (("small", small), ("large", large)):
            inputs = self._written(tmp_path / size, content)
            source = self.make()
            tracemalloc.start()
            count = sum(1 for _ in source.read(inputs, stop))
            peaks.append(tracemalloc.get_traced_memory()[1])
            tracemalloc.stop()
        assert count == 10_000
        # an index of the ids seen is allowed, the records are not: a Python object for each
        # would take several times the bytes of the file
        assert peaks[1] - peaks[0] < (len(large) - len(small))

    def test_bad_records_are_handed_over_and_good_ones_kept(self, tmp_path: Path) -> None:
        for i, (what, content) in enumerate(self.bad_documents().items()):
            bad: list[tuple[BadRecord, bytes]] = []
            inputs = self._written(tmp_path / str(i), content)
            good = list(self.make().read(inputs, lambda error, raw: bad.append((error, raw))))  # noqa: B023
            assert len(good) == 2, f"{what}: expected the two good records, got {len(good)}"
            assert len(bad) == 1, f"{what}: expected one bad record, got {len(bad)}"
            error, raw = bad[0]
            assert Path(inputs[0]).name in error.where, what
            assert isinstance(raw, bytes), what
            assert "\n" not in str(error), what

    def test_on_bad_may_stop_the_reading(self, tmp_path: Path) -> None:
        for i, (what, content) in enumerate(self.bad_documents().items()):
            with pytest.raises(BadRecord):
                assert self._read(self._written(tmp_path / str(i), content)) is None, what

    def test_garbage_is_a_sentence_never_a_crash(self, tmp_path: Path) -> None:
        for i, (what, content) in enumerate(GARBAGE.items()):
            said = ""
            try:
                self._read(self._written(tmp_path / str(i), content))
            except KBForgeError as error:
                said = str(error)
            assert "\n" not in said, what

    def test_a_missing_file_is_a_sentence(self, tmp_path: Path) -> None:
        inputs = self.inputs(tmp_path, self.document(1))
        for path in map(Path, inputs):
            shutil.rmtree(path) if path.is_dir() else path.unlink()
        with pytest.raises(KBForgeError):
            self._read(inputs)

    def _read(self, inputs: Iterable[str]) -> list[Fragment]:
        return list(self.make().read(list(inputs), stop))

    def _written(self, folder: Path, content: bytes) -> list[str]:
        """The inputs in a new folder."""
        folder.mkdir()
        return self.inputs(folder, content)


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
        """The texts of an entity that the format keeps: the values of all properties.

        Override it for a format that keeps others.
        """
        return {value.value for values in entity.properties.values() for value in values}

    def entities(self) -> list[Entity]:
        """The entities to export: values that try to break out of the format."""
        return examples.entities()

    def exported(self, entities: list[Entity], folder: Path, known: bool = False) -> Path:
        """The target of one export.

        Args:
            entities: to export.
            folder: a file or folder in it.
            known: pass the view fragments with sources and metadata.

        """
        target = folder / f"kb-{len(list(folder.iterdir()))}"
        fragments = [f for entity in entities for f in with_sources(entity)] if known else None
        self.make().export(EntitiesView(_once(entities), fragments), str(target))
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
        stdout = _stdout()
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
        """Bytes leave before the last entity has arrived, unless the format prevents it."""
        if not self.streaming or self.folder:
            pytest.skip("the format needs the last entity before the first byte")
        stdout, written = _stdout(), []
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
    """Possible original fragments of an entity: with source and metadata."""
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


def _once(entities: list[Entity]) -> Callable[[], Iterator[Entity]]:
    """What gives the entities once."""
    left = [entities]

    def read() -> Iterator[Entity]:
        assert left, "the exporter reads the view twice"
        return iter(left.pop())

    return read


def _stdout() -> Any:
    """Standard output that is not a terminal, for bytes."""
    return SimpleNamespace(buffer=io.BytesIO(), isatty=lambda: False)


class SerializerContract(Contract):
    """Equal sets give equal text, and the text parses back to the set."""

    kind: ClassVar[str] = "serializers"

    def sets(self) -> list[list[Fragment]]:
        """Sets of fragments: none, one, repeated ones, and hostile text."""
        people = examples.fragments()
        return [[], people[:1], people, [people[0], people[0], people[1]], examples.hostile()]

    def test_order_and_repetition_of_values_do_not_count(self) -> None:
        rng, serializer = random.Random(11), self.make()
        for items in self.sets():
            assert serializer.serialize(_shuffled(items, rng)) == serializer.serialize(items)

    def test_repetition_of_fragments_counts(self) -> None:
        one = self.sets()[1]
        assert self.make().serialize(one * 2) != self.make().serialize(one)

    def test_different_sets_give_different_text(self) -> None:
        texts = [self.make().serialize(items) for items in self.sets()]
        assert len(set(texts)) == len(texts)

    def test_parsing_gives_the_set_back(self) -> None:
        serializer = self.make()
        for items in self.sets():
            found = serializer.parse(serializer.serialize(items))
            assert Counter(map(sorted_properties, found)) == Counter(
                sorted_properties(f.properties) for f in items
            )

    def test_one_line_of_unicode(self) -> None:
        for items in self.sets():
            text = self.make().serialize(items)
            assert text.encode().decode() == text
            assert "\n" not in text
            assert "\r" not in text

    def test_other_text_is_refused(self) -> None:
        serializer = self.make()
        text = serializer.serialize(self.sets()[2])
        for wrong in (text[:-1], text + " ", " " + text, text + "x", text[len(text) // 2 :]):
            with pytest.raises(ValueError):
                serializer.parse(wrong)


def _shuffled(items: list[Fragment], rng: random.Random) -> list[Fragment]:
    out = []
    for item in rng.sample(items, len(items)):
        keys = rng.sample(sorted(item.properties), len(item.properties))
        properties = {}
        for key in keys:
            values = [*item.properties[key], item.properties[key][0]]
            properties[key] = tuple(rng.sample(values, len(values)))
        out.append(replace(item, properties=properties))
    return out

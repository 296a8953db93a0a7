"""The laws of `kbforge.contracts.source`, as tests."""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import ClassVar, NoReturn

import pytest

from kbforge.contracts import Fragment
from kbforge.errors import BadRecord, KBForgeError
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

    Attributes:
        filename: how the file is called that `document` is written to.

    """

    kind: ClassVar[str] = "sources"
    filename: ClassVar[str] = "input"

    def document(self, n: int) -> bytes:
        """A good file of n records that become n fragments, each of 200 bytes or more."""
        raise NotImplementedError

    def bad_documents(self) -> Mapping[str, bytes]:
        """What is wrong -> a file with a good record, one bad record, and another good one."""
        raise NotImplementedError

    def inputs(self, folder: Path, content: bytes) -> list[str]:
        """Write `content` to the folder; the inputs to read. Override it for several files."""
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
            folder = tmp_path / size
            folder.mkdir()
            inputs = self.inputs(folder, content)
            source = self.make()
            tracemalloc.start()
            count = sum(1 for _ in source.read(inputs, _raise))
            peaks.append(tracemalloc.get_traced_memory()[1])
            tracemalloc.stop()
        assert count == 10_000
        # an index of the ids seen is allowed, the records are not: a Python object for each
        # would take several times the bytes of the file
        assert peaks[1] - peaks[0] < (len(large) - len(small))

    def test_bad_records_are_handed_over_and_good_ones_kept(self, tmp_path: Path) -> None:
        for i, (what, content) in enumerate(self.bad_documents().items()):
            folder = tmp_path / str(i)
            folder.mkdir()
            bad: list[tuple[BadRecord, bytes]] = []
            inputs = self.inputs(folder, content)
            good = list(self.make().read(inputs, lambda error, raw: bad.append((error, raw))))  # noqa: B023
            assert len(good) == 2, what
            assert len(bad) == 1, what
            error, raw = bad[0]
            assert Path(inputs[0]).name in error.where, what
            assert isinstance(raw, bytes), what
            assert "\n" not in str(error), what

    def test_on_bad_may_stop_the_reading(self, tmp_path: Path) -> None:
        for i, (what, content) in enumerate(self.bad_documents().items()):
            folder = tmp_path / str(i)
            folder.mkdir()
            with pytest.raises(BadRecord):
                assert list(self.make().read(self.inputs(folder, content), _raise)) is None, what

    def test_garbage_is_a_sentence_never_a_crash(self, tmp_path: Path) -> None:
        for i, (what, content) in enumerate(GARBAGE.items()):
            folder = tmp_path / str(i)
            folder.mkdir()
            problem = self._problem(self.inputs(folder, content))
            assert "\n" not in problem, what

    def test_a_missing_file_is_a_sentence(self, tmp_path: Path) -> None:
        inputs = self.inputs(tmp_path, self.document(1))
        for path in inputs:
            Path(path).unlink()
        with pytest.raises(KBForgeError):
            self._read(inputs)

    def _read(self, inputs: Iterable[str]) -> list[Fragment]:
        return list(self.make().read(list(inputs), _raise))

    def _problem(self, inputs: list[str]) -> str:
        """The sentence that reading ends with, "" if it ends well."""
        try:
            self._read(inputs)
        except KBForgeError as error:
            return str(error)
        return ""


def _raise(error: BadRecord, raw: bytes) -> NoReturn:
    raise error

"""Every source reads as it is asked, in bounded memory, from any packing and from stdin."""

from __future__ import annotations

import io
import sys
import tracemalloc
from itertools import islice

import pytest

from kbforge import registry
from kbforge.files.fragments import read_fragments, stop
from kbforge.jobs.load import load
from tests.sources.harness import ids_in
from tests.sources.readers import BY_LINE, READERS, gzipped, zstandard

OPTIONS = {"csv": {"id": "id"}, "parquet": {"id": "id"}, "hf": {"id": "id"}}
EVERY = pytest.mark.parametrize("name", READERS)
PACKINGS = pytest.mark.parametrize("pack", [bytes, gzipped, zstandard])
MIB = 1 << 20


def make(name):
    return registry.create("sources", name, OPTIONS.get(name, {}))


def peak_of(work) -> int:
    tracemalloc.start()
    try:
        work()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("name", BY_LINE)
def test_fragments_come_before_the_input_ends(monkeypatch, name):
    """An endless input: the first fragments arrive all the same."""
    endless = Endless(READERS[name].content(2_000))
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BufferedReader(endless)))
    fragments = make(name).read(["-"], lambda error, raw: None)
    assert [f.id for f in islice(fragments, 5)] == READERS[name].ids(5)
    assert endless.served < 4 * MIB


class Endless(io.RawIOBase):
    """A stream that repeats its content for ever."""

    def __init__(self, content: bytes) -> None:
        self._content, self.served = content, 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer) -> int:
        start = self.served % len(self._content)
        data = self._content[start : start + len(buffer)]
        buffer[: len(data)] = data
        self.served += len(data)
        return len(data)


@pytest.mark.slow
@EVERY
def test_memory_does_not_grow_with_the_input(tmp_path, name):
    """Apart from the digests that some need: at most 36 bytes a record, while they move."""
    source, peaks = make(name), []
    for n in (2_000, 8_000):
        file = tmp_path / f"{n}{READERS[name].suffix}"
        file.write_bytes(READERS[name].content(n))
        found = []
        peaks.append(peak_of(lambda f=file, c=found: c.append(count(source.read([str(f)], stop)))))
        assert found == [n]
    assert peaks[1] - peaks[0] < 36 * 6_000 + MIB / 2


def count(iterator) -> int:
    return sum(1 for _ in iterator)


@pytest.mark.slow
def test_memory_of_a_whole_load(tmp_path):
    """Reading, comparing ids and writing take less than the file itself."""
    file, output = tmp_path / "in.jsonl", tmp_path / "out.jsonl"
    file.write_bytes(READERS["jsonl"].content(20_000))
    peak = peak_of(lambda: load(make("jsonl"), [str(file)], str(output)))
    assert peak < 3 * MIB < file.stat().st_size


@pytest.mark.parametrize("name", BY_LINE)
@PACKINGS
def test_packed_files(tmp_path, name, pack):
    file = tmp_path / f"in{READERS[name].suffix}"
    file.write_bytes(pack(READERS[name].content(50)))
    assert [f.id for f in make(name).read([str(file)], stop)] == READERS[name].ids(50)


@pytest.mark.parametrize("name", [*BY_LINE, "parquet"])
@PACKINGS
def test_standard_input(program, tmp_path, name, pack):
    output = tmp_path / "out.jsonl"
    content = pack(READERS[name].content(50))
    ran = program("load", *READERS[name].arguments, "-", "-o", output, stdin=content)
    assert ran.code == 0
    assert ids_in(output) == READERS[name].ids(50)


@pytest.mark.parametrize("ending", ["", ".gz"])
def test_written_fragments_are_read_back(tmp_path, ending):
    source, output = tmp_path / "in.jsonl", tmp_path / f"out.jsonl{ending}"
    source.write_bytes(READERS["jsonl"].content(20))
    load(make("jsonl"), [str(source)], str(output))
    assert list(read_fragments(str(output))) == list(read_fragments(str(source)))
    first = output.read_bytes()
    load(make("jsonl"), [str(source)], str(output))
    assert output.read_bytes() == first


@EVERY
def test_several_inputs_are_read_in_order(tmp_path, name):
    reader = READERS[name]
    one, two = tmp_path / f"one{reader.suffix}", tmp_path / f"two{reader.suffix}"
    one.write_bytes(reader.content(3))
    two.write_bytes(reader.content(5))
    expected = reader.ids(3) + reader.ids(5)
    if name in ("rebel", "tweetnerd"):  # repeats across files are filtered, by documented rules
        expected = reader.ids(5)
    assert [f.id for f in make(name).read([str(one), str(two)], stop)] == expected

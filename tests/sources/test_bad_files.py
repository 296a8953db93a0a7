"""Files that cannot be opened, are damaged, or cannot be written: the same for every source."""

from __future__ import annotations

import builtins
import json
import os
import subprocess
import sys

import pytest

from tests.sources.harness import check_refused, ids_in
from tests.sources.readers import BY_LINE, READERS, gzipped, zstandard

EVERY = pytest.mark.parametrize("name", READERS)
FULL = pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")


@pytest.fixture
def good(tmp_path):
    """good(name) -> a file of 3 good records for that source."""

    def make(name):
        file = tmp_path / f"in{READERS[name].suffix}"
        file.write_bytes(READERS[name].content(3))
        return file

    return make


@EVERY
def test_good_file(program, good, tmp_path, name):
    """The table's own check: without a mistake there is no error."""
    output = tmp_path / "out.jsonl"
    ran = program("load", *READERS[name].arguments, good(name), "-o", output, "--json")
    assert ran.code == 0
    assert ids_in(output) == READERS[name].ids(3)
    assert json.loads(ran.out)["set_aside"] == 0


@EVERY
def test_no_such_file(program, tmp_path, name):
    file = tmp_path / f"none{READERS[name].suffix}"
    sentence = f"cannot read {file}: no such file or directory"
    check_refused(program, READERS[name].arguments, file, sentence)


@EVERY
def test_no_such_file_after_a_good_one(program, good, tmp_path, name):
    """No half results: the output appears only when all inputs were read."""
    missing = tmp_path / f"none{READERS[name].suffix}"
    output = tmp_path / "out.jsonl"
    ran = program("load", *READERS[name].arguments, good(name), missing, "-o", output)
    assert ran.code == 1
    assert ran.err == f"kbforge: cannot read {missing}: no such file or directory\n"
    assert not output.exists()
    assert sorted(path.suffix for path in tmp_path.iterdir()) == [READERS[name].suffix]


@EVERY
def test_folder(program, tmp_path, name):
    folder = tmp_path / f"folder{READERS[name].suffix}"
    folder.mkdir()
    sentence = f"cannot read {folder}: is a directory"
    check_refused(program, READERS[name].arguments, folder, sentence)


@EVERY
def test_no_permission(program, good, monkeypatch, name):
    """Simulated, because the tests may run as a user whom no permission stops."""
    file, real = good(name), builtins.open

    def guarded(path, *arguments, **options):
        if str(path) == str(file):
            raise PermissionError(13, "Permission denied", str(path))
        return real(path, *arguments, **options)

    monkeypatch.setattr(builtins, "open", guarded)
    check_refused(program, READERS[name].arguments, file, f"cannot read {file}: permission denied")


@EVERY
def test_output_folder_missing(program, good, tmp_path, name):
    output = tmp_path / "none" / "out.jsonl"
    ran = program("load", *READERS[name].arguments, good(name), "-o", output)
    assert ran.err == f"kbforge: cannot write {output}: no such file or directory\n"
    assert ran.code == 1


@EVERY
def test_output_is_a_folder(program, good, tmp_path, name):
    ran = program("load", *READERS[name].arguments, good(name), "-o", tmp_path)
    assert ran.err == f"kbforge: cannot write {tmp_path}: is a directory\n"
    assert ran.code == 1


@EVERY
@FULL
def test_disk_full(program, good, name):
    ran = program("load", *READERS[name].arguments, good(name), "-o", "/dev/full")
    assert ran.err == "kbforge: cannot write /dev/full: no space left on device\n"
    assert ran.code == 1


@FULL
def test_disk_full_for_the_quarantine(program, tmp_path):
    file, output = tmp_path / "in.jsonl", tmp_path / "out.jsonl"
    file.write_bytes(b"bad\n")
    ran = program("load", "jsonl", file, "-o", output, "--quarantine", "/dev/full")
    assert ran.err == "kbforge: cannot write /dev/full: no space left on device\n"
    assert ran.code == 1
    assert not output.exists()


def test_quarantine_folder_missing(program, good, tmp_path):
    aside = tmp_path / "none" / "q.jsonl"
    output = tmp_path / "out.jsonl"
    ran = program("load", "jsonl", good("jsonl"), "-o", output, "--quarantine", aside)
    assert ran.err == f"kbforge: cannot write {aside}: no such file or directory\n"
    assert ran.code == 1
    assert not output.exists()


@pytest.mark.parametrize("name", BY_LINE)
@pytest.mark.parametrize("pack", [gzipped, zstandard])
def test_packed_file_cut_short(program, tmp_path, name, pack):
    """Stopped with a sentence; or every line before the cut is kept."""
    reader = READERS[name]
    packed = pack(reader.content(9_000))
    file = tmp_path / f"in{reader.suffix}.packed"
    file.write_bytes(packed[: len(packed) * 2 // 3])
    output = tmp_path / "out" / "fragments.jsonl"
    output.parent.mkdir()
    command = ("load", *reader.arguments, file, "-o", output)

    stopped = program(*command)
    assert stopped.code == 1
    assert stopped.err.startswith(f"kbforge: {file}:")
    assert stopped.err.count("\n") == 1
    assert "expected a whole file, got a damaged or truncated one (" in stopped.err
    assert list(output.parent.iterdir()) == []

    assert program(*command, "--on-error", "quarantine").code == 0
    kept = ids_in(output)
    assert len(kept) > 1_000
    assert kept == reader.ids(len(kept))
    (record,) = (output.parent / "fragments.jsonl.quarantine.jsonl").read_bytes().splitlines()
    assert stopped.err == f"kbforge: {json.loads(record)['reason']}\n"
    assert json.loads(record)["where"] == f"{file}:{len(kept) + reader.header_lines + 1}"


@pytest.mark.parametrize("name", BY_LINE)
def test_damaged_gzip(program, tmp_path, name):
    file = tmp_path / f"in{READERS[name].suffix}.gz"
    file.write_bytes(b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\x03\xff\xff")
    ran = program("load", *READERS[name].arguments, file, "-o", tmp_path / "out.jsonl")
    assert ran.code == 1
    assert ran.err == (
        f"kbforge: {file}:1: expected a whole file, got a damaged or truncated one "
        "(Error -3 while decompressing data: invalid block type)\n"
    )


@pytest.mark.parametrize(
    ("arguments", "sentence", "code"),
    [
        (
            ["load", "xml", "in.xml"],
            'there is no source "xml"; available: csv, hf, jsonl, parquet, rebel, tweetnerd, '
            "xlsx (see kbforge plugins list)",
            1,
        ),
        (
            ["load", "jsonl", "in.jsonl", "--on-error", "quarantine"],
            "--on-error quarantine needs --quarantine FILE with standard output",
            2,
        ),
        (
            ["load", "jsonl", "in.jsonl", "--json"],
            "--json prints its summary on standard output; name a file with -o",
            2,
        ),
        (
            ["load", "jsonl", "in.jsonl", "-o", "x.jsonl", "--quarantine", "x.jsonl"],
            "the output and the quarantine are both x.jsonl",
            2,
        ),
        (
            ["load", "rebel", "in.jsonl", "--id", "id"],
            'source rebel has no option "id"; options: min_text, relations, relations_file, '
            "dedupe, members",
            2,
        ),
    ],
)
def test_bad_call(program, arguments, sentence, code):
    ran = program(*arguments)
    assert ran.err == f"kbforge: {sentence}\n"
    assert ran.code == code


def run(*arguments: object, stdin: bytes = b"", stdout: object = subprocess.PIPE):
    command = [sys.executable, "-m", "kbforge.cli.main", *map(str, arguments)]
    return subprocess.run(command, input=stdin, stdout=stdout, stderr=subprocess.PIPE, check=False)


def test_process_with_a_bad_line(tmp_path):
    ran = run("load", "jsonl", "-", stdin=READERS["jsonl"].content(2) + b"oops\n")
    assert ran.returncode == 1
    assert ran.stderr.decode() == (
        "kbforge: standard input:3: expected a JSON object, got invalid JSON at column 1 "
        "(unexpected character, expected a JSON value)\n"
    )


@FULL
def test_process_with_a_full_standard_output(good):
    with open("/dev/full", "wb") as full:
        ran = run("load", "jsonl", good("jsonl"), stdout=full)
    assert ran.returncode == 1
    assert ran.stderr.decode() == (
        "kbforge: cannot write standard output: no space left on device\n"
    )


def test_process_whose_reader_went_away(tmp_path):
    """Like `kbforge load ... | head -1`: the end of the reader is no error."""
    file = tmp_path / "in.jsonl"
    file.write_bytes(READERS["jsonl"].content(3_000))
    command = [sys.executable, "-m", "kbforge.cli.main", "load", "jsonl", str(file)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        process.stdout.readline()
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait() == 0

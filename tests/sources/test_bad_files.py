"""Files that cannot be opened, are damaged, or cannot be written: the same for every source."""

import builtins
import json
import os
import subprocess
import sys

import pytest

from kbforge import registry
from tests.sources.harness import ADVICE, ids_in
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
@pytest.mark.parametrize("why", ["no such file or directory", "is a directory"])
def test_input_that_is_no_file(refused, tmp_path, name, why):
    file = tmp_path / f"none{READERS[name].suffix}"
    if why == "is a directory":
        file.mkdir()
    refused(READERS[name].arguments, file, f"cannot read FILE: {why}")


@EVERY
def test_no_such_file_after_a_good_one(program, good, tmp_path, name):
    """No half results: the output appears only when all inputs were read."""
    missing = tmp_path / f"none{READERS[name].suffix}"
    reader = [*READERS[name].arguments, good(name), missing]
    check_failed(program, *reader, "-o", tmp_path / "out", why=f"read {missing}: {NO_FILE}")
    assert sorted(path.suffix for path in tmp_path.iterdir()) == [READERS[name].suffix]


@EVERY
def test_no_permission(refused, good, monkeypatch, name):
    """Simulated, because the tests may run as a user whom no permission stops."""
    file, real = good(name), builtins.open

    def guarded(path, *arguments, **options):
        if str(path) == str(file):
            raise PermissionError(13, "Permission denied", str(path))
        return real(path, *arguments, **options)

    monkeypatch.setattr(builtins, "open", guarded)
    refused(READERS[name].arguments, file, "cannot read FILE: permission denied")


NO_FILE = "no such file or directory"


def check_failed(program, *arguments, why):
    """`kbforge load` fails with one sentence."""
    ran = program("load", *arguments)
    assert ran.err == f"kbforge: cannot {why}\n"
    assert ran.code == 1


@EVERY
@pytest.mark.parametrize(
    ("output", "why"),
    [
        ("none/out.jsonl", NO_FILE),
        ("", "is a directory"),
        pytest.param("/dev/full", "no space left on device", marks=FULL),
    ],
)
def test_output_that_cannot_be_written(program, good, tmp_path, name, output, why):
    output = tmp_path / output
    reader = [*READERS[name].arguments, good(name)]
    check_failed(program, *reader, "-o", output, why=f"write {output}: {why}")


@pytest.mark.parametrize(
    ("aside", "why"),
    [
        ("none/q.jsonl", NO_FILE),
        pytest.param("/dev/full", "no space left on device", marks=FULL),
    ],
)
def test_quarantine_that_cannot_be_written(program, tmp_path, aside, why):
    file, output, aside = tmp_path / "in.jsonl", tmp_path / "out.jsonl", tmp_path / aside
    file.write_bytes(b"bad\n")
    arguments = ("jsonl", file, "-o", output, "--quarantine", aside)
    check_failed(program, *arguments, why=f"write {aside}: {why}")
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
    assert stopped.err == f"kbforge: {json.loads(record)['reason']}; {ADVICE}\n"
    assert json.loads(record)["where"] == f"{file}:{len(kept) + reader.header_lines + 1}"


@pytest.mark.parametrize("name", BY_LINE)
def test_damaged_gzip(program, tmp_path, name):
    file = tmp_path / f"in{READERS[name].suffix}.gz"
    file.write_bytes(b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\x03\xff\xff")
    ran = program("load", *READERS[name].arguments, file, "-o", tmp_path / "out.jsonl")
    assert ran.code == 1
    assert ran.err == (
        f"kbforge: {file}:1: expected a whole file, got a damaged or truncated one "
        f"(Error -3 while decompressing data: invalid block type); {ADVICE}\n"
    )


@pytest.mark.parametrize(
    ("arguments", "sentence", "code"),
    [
        (
            ["load", "xml", "in.xml"],
            f'there is no source "xml"; available: {", ".join(registry.names("sources"))} '
            "(see kbforge plugins list)",
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
    ],
)
def test_bad_call(program, arguments, sentence, code):
    ran = program(*arguments)
    assert ran.err == f"kbforge: {sentence}\n"
    assert ran.code == code


ENCODINGS = ["klingon", "hex", "rot13", "idna", "unicode_escape", "utf-7", "\x1b"]
COLUMNS = (
    "id, label, name, map, vector, separator, null, prefix, serial_dates, delimiter, encoding, "
    "columns"
)
KIND = '--set likelihood.a=1: unknown kind "likelihood", expected one of source'


@pytest.mark.parametrize(
    ("source", "option", "sentence"),
    [
        ("csv", ["--map", "name"], 'map: expected column=attribute, got "name"'),
        ("csv", "delimiter=ab", 'delimiter: expected one character or tab, got "ab"'),
        ("csv", "paint=red", f'source csv has no option "paint"; options: {COLUMNS}'),
        (
            "csv",
            ["--set", "colour=red"],
            '--set: expected kind.option=value, got "colour=red"',
        ),
        ("csv", ["--set", "likelihood.a=1"], KIND),
        ("csv", "prefix=perhaps", "source csv: prefix: expected true or false, got perhaps"),
        ("rebel", "min_text=many", "source rebel: min_text: expected a whole number, got many"),
        ("rebel", "dedupe=perhaps", "source rebel: dedupe: expected true or false, got perhaps"),
        (
            "rebel",
            ["--id", "id"],
            'source rebel has no option "id"; options: min_text, relations, dedupe',
        ),
        ("tweetnerd", "top=0", "top: expected at least 1, got 0"),
        ("tweetnerd", "top=many", "source tweetnerd: top: expected a whole number, got many"),
        (
            "tweetnerd",
            "unlinked=maybe",
            "source tweetnerd: unlinked: expected one of keep, drop, got maybe",
        ),
        *(
            (
                source,
                f"encoding={name}",
                "encoding: expected a text encoding such as cp1252, latin-1 or utf-16, got "
                '"{}"'.format(name.replace("\x1b", "\\x1b")),
            )
            for source, names in (("csv", ENCODINGS), ("jsonl", [*ENCODINGS, ""]))
            for name in names
        ),
    ],
)
def test_bad_option(refused, good, source, option, sentence):
    given = ["--set", f"source.{option}"] if isinstance(option, str) else option
    refused([source, *given], good(source), sentence, code=2)


def test_missing_file_of_an_option(refused, good, tmp_path):
    reader = ["tweetnerd", "--set", f"source.tweets={tmp_path}/none"]
    refused(reader, good("tweetnerd"), f"cannot read {tmp_path}/none: {NO_FILE}")


def run(*arguments: object, stdin: bytes = b"", stdout: object = subprocess.PIPE):
    command = [sys.executable, "-m", "kbforge.cli.main", *map(str, arguments)]
    return subprocess.run(command, input=stdin, stdout=stdout, stderr=subprocess.PIPE, check=False)


def test_process_with_a_bad_line(tmp_path):
    ran = run("load", "jsonl", "-", stdin=READERS["jsonl"].content(2) + b"oops\n")
    assert ran.returncode == 1
    assert ran.stderr.decode() == (
        "kbforge: standard input:3: expected a JSON object, got invalid JSON at column 1 "
        f"(unexpected character, expected a JSON value); {ADVICE}\n"
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

"""What every bad record and every unusable file must do to the program."""

import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from kbforge import registry
from kbforge.contracts import Fragment
from kbforge.files.fragments import stop
from tests.program import Run

# what several sources say of a record
NUMBER = "x: expected a finite number, got "
NO_ID = "id: expected a string, got nothing"
LONG_ID = "id: expected at most 4,096 characters, got 5,000"
AGAIN = 'id: expected a unique id, got "{}" again'
NO_NUL = "expected text without NUL characters, got "
LONG_VALUE = "properties.name: expected at most 65,536 characters, got 1,000,000"
MANY_VALUES = "properties.name: expected at most 10,000 values, got 20,000"
MANY_ATTRIBUTES = "properties: expected at most 1,024 attributes, got "
LONG_VECTOR = "vector: expected at most 65,536 numbers, got 70,000"
NO_VECTOR = "vector: expected a non-empty list of numbers, got an empty list"
NEITHER = "properties: expected at least one property or a vector, got neither"
UTF8 = "expected UTF-8 text, got the byte "
JSON = "expected a JSON object, got "
SPREADSHEET = " (if the file comes from a spreadsheet, try --set source.encoding=cp1252)"


ADVICE = "--on-error quarantine sets bad records aside"


def ids_in(output: Path) -> list[str]:
    return [json.loads(line)["id"] for line in output.read_bytes().splitlines()]


def read(kind: str, *files: Path, **options: object) -> tuple[list[Fragment], Counter[str]]:
    """(the fragments of some files, the source's counts)."""
    source = registry.create("sources", kind, options)
    return list(source.read([str(file) for file in files], stop)), source.counts


def check_bad_record(
    program: Run,
    reader: Sequence[object],
    file: Path,
    sentence: str,
    survivors: Sequence[str],
    raw: bytes | None = None,
    culprit: Path | None = None,
) -> None:
    """A file with one bad record: it stops the run with its sentence, or is set aside alone.

    `culprit` is the file that the sentence names, if it is not the input; `sentence` starts with
    the line; `raw` is the record as it stands in the file.
    """
    output = file.parent / "out" / "fragments.jsonl"
    output.parent.mkdir()
    command = ("load", *reader, file, "-o", output)
    reason = f"{culprit or file}:{sentence}"

    stopped = program(*command)
    assert stopped.err == f"kbforge: {reason}; {ADVICE}\n"
    assert stopped.code == 1
    assert list(output.parent.iterdir()) == []

    went_on = program(*command, "--on-error", "quarantine", "--json")
    assert went_on.code == 0
    assert ids_in(output) == list(survivors)
    quarantine = output.parent / "fragments.jsonl.quarantine.jsonl"
    (record,) = map(json.loads, quarantine.read_bytes().splitlines())
    assert record["reason"] == reason
    assert reason.startswith(record["where"] + ": ")
    if raw is not None:
        assert record["raw"] == raw.decode(errors="backslashreplace")
    summary = json.loads(went_on.out)
    assert (summary["fragments"], summary["set_aside"]) == (len(survivors), 1)


def check_refused(
    program: Run, reader: Sequence[object], file: object, sentence: str, code: int = 1
) -> None:
    """An input that is unusable as a whole: an error, with or without a quarantine.

    `FILE` in the sentence stands for the file.
    """
    output, sentence = Path(f"{file}.out.jsonl"), sentence.replace("FILE", str(file))
    for extra in ((), ("--on-error", "quarantine")):
        ran = program("load", *reader, file, "-o", output, *extra)
        assert ran.err == f"kbforge: {sentence}\n"
        assert ran.code == code
        assert not output.exists()

"""What every bad record and every unusable file must do to the program."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from tests.program import Run


def ids_in(output: Path) -> list[str]:
    return [json.loads(line)["id"] for line in output.read_bytes().splitlines()]


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
    assert stopped.err == f"kbforge: {reason}\n"
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
    """An input that is unusable as a whole: an error, with or without a quarantine."""
    output = Path(f"{file}.out.jsonl")
    for extra in ((), ("--on-error", "quarantine")):
        ran = program("load", *reader, file, "-o", output, *extra)
        assert ran.err == f"kbforge: {sentence}\n"
        assert ran.code == code
        assert not output.exists()

"""Running the real program in this process, and what every bad record must do to it."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from kbforge.cli.main import main


@dataclass(frozen=True)
class Ran:
    """How a command ended."""

    code: int
    out: bytes
    err: str

    @property
    def ids(self) -> list[str]:
        return [json.loads(line)["id"] for line in self.out.splitlines()]


Run = Callable[..., Ran]


@pytest.fixture
def kbforge(monkeypatch, capsysbinary) -> Run:
    """kbforge(*arguments, stdin=b"") through the program's entry point."""

    def run(*arguments: object, stdin: bytes = b"") -> Ran:
        monkeypatch.setattr(sys, "argv", ["kbforge", *map(str, arguments)])
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin)))
        capsysbinary.readouterr()
        with pytest.raises(SystemExit) as ended:
            main()
        out, err = capsysbinary.readouterr()
        assert b"Traceback" not in err
        return Ran(int(ended.value.code or 0), out, err.decode())

    return run


def ids_in(output: Path) -> list[str]:
    return [json.loads(line)["id"] for line in output.read_bytes().splitlines()]


def check_bad_record(
    kbforge: Run,
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

    stopped = kbforge(*command)
    assert stopped.err == f"kbforge: {reason}\n"
    assert stopped.code == 1
    assert list(output.parent.iterdir()) == []

    went_on = kbforge(*command, "--on-error", "quarantine", "--json")
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
    kbforge: Run, reader: Sequence[object], file: object, sentence: str, code: int = 1
) -> None:
    """An input that is unusable as a whole: an error, with or without a quarantine."""
    output = Path(f"{file}.out.jsonl")
    for extra in ((), ("--on-error", "quarantine")):
        ran = kbforge("load", *reader, file, "-o", output, *extra)
        assert ran.err == f"kbforge: {sentence}\n"
        assert ran.code == code
        assert not output.exists()

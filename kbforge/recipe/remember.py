"""The journal of a pipeline: what its steps did, and whether a step must run again.

A small JSON file beside the first output holds, for each step that succeeded, its options, the
version of the program, and the SHA-256 of every file that it read and wrote. A step is
skipped if its record still holds. Contents decide, not times: touching a file changes nothing, and
if a step writes the same bytes as before, the steps that read them do not run.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

import orjson

from kbforge.errors import BadRecord, KBForgeError, quoted
from kbforge.files.io import open_output
from kbforge.files.records import Record, json_value
from kbforge.recipe.read import Pipeline, PipelineStep

_FORMAT = 1
_MAX_FILES = 10_000
_CHUNK = 1 << 20


@dataclass(frozen=True, slots=True)
class StepRecord:
    """One successful run of a step.

    Attributes:
        program: name and version of the distribution that has the verb, and of kbforge.
        settings: option -> values.
        inputs: path -> SHA-256 of each input.
        outputs: path -> SHA-256 of each output.
        printed: its standard output; None if that was too long to keep.

    """

    program: str
    settings: Mapping[str, tuple[str, ...]]
    inputs: Mapping[str, str]
    outputs: Mapping[str, str]
    printed: str | None = ""


@dataclass(slots=True)
class Journal:
    """The records of a pipeline by step, and their file; `problem` says why that is unusable."""

    file: Path
    records: dict[str, StepRecord] = field(default_factory=dict)
    problem: str = ""

    def put(self, step: str, record: StepRecord) -> None:
        """Save the record of a successful run."""
        self.records[step] = record
        self._save()

    def forget(self, step: str) -> None:
        """Delete the record of a step, because it starts again."""
        if self.records.pop(step, None) is not None:
            self._save()

    def _save(self) -> None:
        data = {
            "format": _FORMAT,
            "steps": {name: asdict(record) for name, record in self.records.items()},
        }
        with open_output(str(self.file)) as out:
            out.write(orjson.dumps(data, option=orjson.OPT_INDENT_2) + b"\n")


def load_journal(pipeline: Pipeline) -> Journal:
    """The records of earlier runs; none, with a problem, if the file is unusable."""
    first = next((step.output for step in pipeline.steps if step.output), "")
    stem = Path(pipeline.path).stem
    file = pipeline.folder / Path(first).parent / f".{stem}.run.json"
    if not file.is_file():
        return Journal(file)
    try:
        return Journal(file, _parse(file.read_bytes(), str(file)))
    except (OSError, orjson.JSONDecodeError, KBForgeError):
        return Journal(file, problem=f"{quoted(str(file), 400)} cannot be used; every step runs")


def _parse(content: bytes, where: str) -> dict[str, StepRecord]:
    """The records, or the error of what is none."""

    def wrong(field: str, expected: str, got: str) -> KBForgeError:
        return BadRecord(where, expected, got, field)

    value = json_value(content, where)
    if not isinstance(value, dict):
        raise BadRecord(where, "a JSON object", "something else")
    top = Record(value, wrong).only("format", "steps")
    top.version(_FORMAT)
    steps = top.table("steps")
    return {name: _record(steps.table(name)) for name in steps}


def _record(step: Record) -> StepRecord:
    step.only("program", "settings", "inputs", "outputs", "printed")
    settings = step.table("settings")
    return StepRecord(
        program=step.get("program", str),
        settings={name: settings.texts(name) for name in settings},
        inputs=step.table("inputs").strings(),
        outputs=step.table("outputs").strings(),
        printed=None if step.is_null("printed") else step.get("printed", str),
    )


def why_run(step: PipelineStep, record: StepRecord | None, program: str, folder: Path) -> str:
    """Why a step must run, as a clause; "" if it need not. Hashes its inputs and outputs."""
    if record is None:
        return "it has not succeeded yet"
    if record.program != program:
        return f"{record.program} became {program}"
    if changed := sorted(_differing(record.settings, step.settings)):
        return f"{', '.join(changed)} changed"
    if record.printed is None:
        return "it printed too much to repeat"
    current = fingerprints(inputs_of(step, record, folder), folder)
    for path in sorted(current.keys() | record.inputs.keys()):
        if path not in current:
            return f"input {quoted(path)} is gone"
        if path not in record.inputs:
            return f"input {quoted(path)} is new"
        if current[path] != record.inputs[path]:
            return f"input {quoted(path)} changed"
    for path, digest in record.outputs.items():
        if not os.path.exists(folder / path):
            return f"output {quoted(path)} is missing"
        if fingerprint(folder / path) != digest:
            return f"output {quoted(path)} was modified"
    return ""


def inputs_of(step: PipelineStep, record: StepRecord | None, folder: Path) -> list[str]:
    """The files and folders that a step reads: those that it names, except its outputs."""
    written = record.outputs if record else {}
    return [path for path in step.named if path not in written and is_readable(folder / path)]


def is_readable(path: Path) -> bool:
    """Whether a path is a file or a folder, not a pipe or a device."""
    return os.path.isfile(path) or os.path.isdir(path)


def fingerprints(paths: Iterable[str], folder: Path) -> dict[str, str]:
    """path -> SHA-256."""
    return {path: fingerprint(folder / path) for path in paths}


def fingerprint(path: Path) -> str:
    """SHA-256 of a file's bytes, or of the names and bytes of all files in a folder."""
    try:
        if not os.path.isdir(path):
            return _file_digest(path)
        files = sorted(Path(root, name) for root, _, names in os.walk(path) for name in names)
        if len(files) > _MAX_FILES:
            raise KBForgeError(
                f"{quoted(str(path), 400)}: expected a folder of at most {_MAX_FILES:,} files as "
                f"input of a step, got {len(files):,}"
            )
        digest = hashlib.sha256()
        for file in files:
            if file.is_file():
                name = os.fsencode(file.relative_to(path))
                digest.update(f"{len(name)}:".encode() + name + _file_digest(file).encode())
        return digest.hexdigest()
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise KBForgeError(f"cannot read {quoted(str(path), 400)}: {reason}") from error


def _file_digest(path: Path) -> str:
    with open(path, "rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _differing(
    old: Mapping[str, tuple[str, ...]], new: Mapping[str, tuple[str, ...]]
) -> Iterable[str]:
    return (key for key in old.keys() | new.keys() if old.get(key) != new.get(key))

"""Results: one row a finished run, and a trace of each, as JSON lines that survive a crash.

    FOLDER/results.jsonl   one `Row` a line, appended when the run is finished
    FOLDER/trace.jsonl     some `TraceRow`s a run, appended just before its row

A process that is killed leaves at most half a line, or a trace whose row never came. Opening the
folder again drops both, so what is there is always whole runs.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, Literal, TypeAlias, TypeVar

import orjson

from kbforge.errors import BadRecord, KBForgeError, quoted
from kbforge.io import open_output

ROWS, TRACE = "results.jsonl", "trace.jsonl"

Format: TypeAlias = Literal["jsonl", "parquet"]


@dataclass(frozen=True, slots=True)
class _Identity:
    """What a row is about: the run."""

    key: str
    suite: str
    task: str
    method: str
    particles: int | None
    surrogate: bool
    max_evals: int | None
    shuffle: int


@dataclass(frozen=True, slots=True)
class Row(_Identity):
    """One finished run.

    Attributes:
        key: see `kbforge.bench.runs`.
        particles: P, None for a method without particles.
        surrogate: whether a surrogate proposed.
        max_evals: M; None with a surrogate is P, without one unlimited.
        shuffle: the order of the data.
        budget: the most seconds that the run could take.
        fragments: how many it got to, `of` how many.
        cut: whether the budget ended it; an online method's scores are then of what it got to, an
            offline one's of the best grouping of all so far.
        log_posterior: of the point estimate by the task's likelihood, nats; -inf is null in JSON.
        f1: mean of the fragments' B-cubed F1; `precision` and `recall` are B-cubed too.
        entities: clusters found; `gold_entities` there are, `exact_entities` exactly right.
        model_evaluations: sets that the likelihood scored.
        seconds: wall time of the clustering, without fitting, tracing and scoring.
        cpu_seconds: processor time of the same, which other work on the machine hardly changes.

    """

    clusterer: str
    options: str
    budget: float
    fragments: int
    of: int
    cut: bool
    log_posterior: float
    f1: float
    precision: float
    recall: float
    entities: int
    gold_entities: int
    exact_entities: int
    subproblems: int
    log10_effective_particles: float
    model_evaluations: int
    seconds: float
    cpu_seconds: float
    version: str


@dataclass(frozen=True, slots=True)
class TraceRow(_Identity):
    """The state of a run on its way: figures of the first `fragments` fragments."""

    fragments: int
    seconds: float
    subproblems: int
    log10_effective_particles: float
    model_evaluations: int
    log_posterior: float
    f1: float
    precision: float
    recall: float


class Results:
    """The folder's rows, in memory and on disk.

    Args:
        folder: made if it is not there, unless `repair` is False.
        repair: drop what a killed bench left half done; False changes nothing in the folder,
            which another bench may be writing to.

    Raises:
        KBForgeError: the folder cannot be made or written, or a file is not ours.

    """

    def __init__(self, folder: Path, repair: bool = True) -> None:
        self._folder = folder
        try:
            if repair:
                folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise _unwritable(folder, error) from error
        self.rows = {row.key: row for row in _read(folder / ROWS, Row, repair)}
        held = _read(folder / TRACE, TraceRow, repair)
        self.trace = [row for row in held if row.key in self.rows]
        if repair and len(self.trace) < len(held):
            _write(folder / TRACE, self.trace)

    def add(self, row: Row, trace: Sequence[TraceRow]) -> None:
        """Keep a finished run, on disk before this returns."""
        _append(self._folder / TRACE, trace)
        _append(self._folder / ROWS, [row])
        self.rows[row.key] = row
        self.trace += trace

    def write_parquet(self) -> None:
        """Write both tables as Parquet beside the JSON lines."""
        import pyarrow as pa  # arrives with datasets; only this needs it
        from pyarrow import parquet

        tables: tuple[tuple[str, Iterable[Row | TraceRow]], ...] = (
            (ROWS, self.rows.values()),
            (TRACE, self.trace),
        )
        for name, rows in tables:
            target = self._folder / Path(name).with_suffix(".parquet")
            with open_output(str(target)) as out:
                parquet.write_table(pa.Table.from_pylist([asdict(row) for row in rows]), out)


_R = TypeVar("_R", Row, TraceRow)


def _read(path: Path, kind: type[_R], repair: bool) -> list[_R]:
    if not path.exists():
        return []
    try:
        data = path.read_bytes()
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise KBForgeError(f"cannot read {quoted(str(path), 400)}: {reason}") from error
    # a line without its newline is the last one of a process that was killed
    whole = data[: data.rfind(b"\n") + 1]
    if repair and len(whole) < len(data):
        with open_output(str(path)) as out:
            out.write(whole)
    rows = []
    for number, line in enumerate(whole.splitlines(), 1):
        where = f"{path}:{number}"
        try:
            value = orjson.loads(line)
        except orjson.JSONDecodeError as error:
            raise BadRecord(where, "a JSON object", f"invalid JSON ({error.msg})") from error
        rows.append(_checked(kind, value, where))
    return rows


def _checked(kind: type[_R], value: Any, where: str) -> _R:
    names = [field.name for field in fields(kind)]
    if not isinstance(value, dict) or sorted(value) != sorted(names):
        expected = f"an object with the keys {', '.join(names)}"
        raise BadRecord(where, expected, "something else: a file of another version or program")
    if value["log_posterior"] is None:  # JSON has no -inf
        value["log_posterior"] = -math.inf
    return kind(**value)


def _append(path: Path, rows: Sequence[Row | TraceRow]) -> None:
    data = b"".join(map(_line, rows))
    try:
        with open(path, "ab") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        raise _unwritable(path, error) from error


def _write(path: Path, rows: Sequence[TraceRow]) -> None:
    with open_output(str(path)) as out:
        out.writelines(map(_line, rows))


def _line(row: Row | TraceRow) -> bytes:
    return orjson.dumps(row, option=orjson.OPT_APPEND_NEWLINE)


def _unwritable(path: Path, error: OSError) -> KBForgeError:
    reason = (error.strerror or str(error)).lower()
    return KBForgeError(f"cannot write {quoted(str(path), 400)}: {reason}")

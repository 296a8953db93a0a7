"""Results of a bench: a row and a trace for each run, as JSON lines.

    FOLDER/results.jsonl   one `Row` a line, appended when the run is finished
    FOLDER/trace.jsonl     some `TraceRow`s a run, appended just before its row
    FOLDER/.lock           held by the bench that writes to the folder

A process that is killed leaves at most half a line, or a trace whose row never came. Opening the
folder again drops both, so what is there is always whole runs.
"""

from __future__ import annotations

import contextlib
import math
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, Literal, TypeAlias, TypeVar, get_type_hints

import orjson

from kbforge import __version__
from kbforge.errors import BadRecord, KBForgeError, quoted
from kbforge.files.io import locked, open_output

ROWS, TRACE, LOCK = "results.jsonl", "trace.jsonl", ".lock"

Format: TypeAlias = Literal["jsonl", "parquet"]


# columns that older rows lack, and what is true of those
_ADDED: Mapping[str, Any] = {
    "seed": 0,
    "model": "",
    "alpha": None,
    "peak_mib": None,
    "pairs_ece": None,
    "pairs_ece_mapped": None,
    "entities_ece": None,
    "entities_ece_mapped": None,
    "way": "[]",
    "pairwise_precision": None,
    "pairwise_recall": None,
    "pairwise_f1": None,
    "rand": None,
    "edit_score": None,
    "normalised_vi": None,
    "trace": "[]",
}
# a share may be above 1 by the last bit; the rest is 0 or more
_SHARE = (0, 1 + 1e-9)
_RESULT = "the result of the run"
_RANGES: Mapping[str, tuple[float, float]] = {
    "log_posterior": (-math.inf, math.inf),
    "log10_effective_particles": (-math.inf, math.inf),
    "f1": _SHARE,
    "precision": _SHARE,
    "recall": _SHARE,
    "pairs_ece": _SHARE,
    "pairs_ece_mapped": _SHARE,
    "entities_ece": _SHARE,
    "entities_ece_mapped": _SHARE,
    "pairwise_precision": _SHARE,
    "pairwise_recall": _SHARE,
    "pairwise_f1": _SHARE,
    "rand": _SHARE,
    "edit_score": (-math.inf, 1),
    "normalised_vi": _SHARE,
}


@dataclass(frozen=True, slots=True)
class _Identity:
    """What a row is about: the run."""

    key: str  # see `kbforge_lab.bench.runs`
    suite: str
    task: str
    method: str
    particles: int | None  # P
    surrogate: bool
    max_evals: int | None  # M; with a surrogate None is P, without one unlimited
    shuffle: int
    seed: int = field(default=0, kw_only=True)  # which moved the orders


@dataclass(frozen=True, slots=True)
class Row(_Identity):
    """One finished run: scores, costs, and what was run.

    `f1`, `precision` and `recall` are B-cubed. The figures from `model` to `entities_ece_mapped`
    are of whole ways to a grouping alone; `trace` is of groupings by examples alone, whose scores
    are means over the sample and whose `log_posterior` is the mean of `trace`. The columns with a
    default are those that rows of earlier versions may lack.
    """

    clusterer: str
    options: str
    budget: float  # seconds
    fragments: int  # how many it got to, `of` how many
    of: int
    cut: bool  # by the budget; scores are then of what it got to, or of the best grouping so far
    log_posterior: float  # of the point estimate, nats; -inf is null in JSON
    f1: float
    precision: float
    recall: float
    entities: int  # clusters found; `gold_entities` exist, `exact_entities` are exactly right
    gold_entities: int
    exact_entities: int
    subproblems: int
    log10_effective_particles: float
    model_evaluations: int  # sets that the likelihood scored
    seconds: float  # on the wall, without fitting (except of a whole way), tracing and scoring
    cpu_seconds: float  # of the processor, for the same
    version: str
    model: str = ""
    alpha: float | None = None
    peak_mib: float | None = None  # of the process, which does no other run
    pairs_ece: float | None = None  # expected calibration error as reported
    pairs_ece_mapped: float | None = None  # by the confidence map of the likelihood
    entities_ece: float | None = None
    entities_ece_mapped: float | None = None
    way: str = "[]"  # offline, as JSON: pairs of processor seconds and best log posterior
    pairwise_precision: float | None = None
    pairwise_recall: float | None = None
    pairwise_f1: float | None = None
    rand: float | None = None
    edit_score: float | None = None
    normalised_vi: float | None = None
    trace: str = "[]"  # of a chain, as JSON: log joint densities of the sample, nats


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


@contextlib.contextmanager
def alone_in(folder: Path) -> Iterator[None]:
    """Keep other benches from writing to a folder, which is made; a killed one holds nothing."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with open(folder / LOCK, "wb"):
            pass
    except OSError as error:
        raise _unwritable(folder, error) from error
    with contextlib.ExitStack() as held:
        try:
            held.enter_context(locked(folder / LOCK))
        except BlockingIOError:
            raise KBForgeError(
                f"{quoted(str(folder), 400)} is in use: another bench is writing to it; wait for "
                "it, or give another --output"
            ) from None
        except OSError:  # a file system without locks
            pass
        yield


class Results:
    """The folder's rows, in memory and on disk."""

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
        import pyarrow as pa
        from pyarrow import parquet

        of: Mapping[Any, Any] = {
            str: pa.string(),
            bool: pa.bool_(),
            float: pa.float64(),
            float | None: pa.float64(),
        }
        tables: tuple[tuple[str, type[Row] | type[TraceRow], Iterable[Row | TraceRow]], ...] = (
            (ROWS, Row, self.rows.values()),
            (TRACE, TraceRow, self.trace),
        )
        for name, kind, rows in tables:
            # said and not guessed: a column without a value has its type, too
            schema = pa.schema([(c, of.get(t, pa.int64())) for c, t in _types(kind).items()])
            table = pa.Table.from_pylist([asdict(row) for row in rows], schema)
            target = self._folder / Path(name).with_suffix(".parquet")
            with open_output(str(target)) as out:
                parquet.write_table(table, out)


def require_readable(row: Row | TraceRow) -> None:
    """Refuse what would not be read again as it is: a stranger's clusterer may return anything."""
    if not row.log_posterior < math.inf:  # JSON has no word for it, nor for -inf, which may be
        raise BadRecord(_RESULT, "a number or -inf", str(row.log_posterior), "log_posterior")
    _checked(orjson.loads(_line(row)), _types(type(row)), _RESULT)


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
    rows, types = [], _types(kind)
    for number, line in enumerate(whole.splitlines(), 1):
        where = f"{path}:{number}"
        try:
            value = orjson.loads(line)
        except orjson.JSONDecodeError as error:
            raise BadRecord(where, "a JSON object", f"invalid JSON ({error.msg})") from error
        rows.append(kind(**_checked(value, types, where)))
    return rows


def _checked(value: Any, types: Mapping[str, Any], where: str) -> dict[str, Any]:
    if isinstance(value, dict):
        value = {name: known for name, known in _ADDED.items() if name in types} | value
    if not isinstance(value, dict) or value.keys() != types.keys():
        raise BadRecord(
            where,
            f"a row as kbforge {__version__} writes it",
            "one of another version or program; give another --output",
        )
    if value["log_posterior"] is None:  # JSON has no -inf
        value["log_posterior"] = -math.inf
    for name, wanted in types.items():
        if (expected := _amiss(name, wanted, value[name])) is not None:
            raise BadRecord(where, expected, quoted(value[name]), name)
    return value


def _types(kind: type[Row] | type[TraceRow]) -> dict[str, Any]:
    """The type of each column."""
    hints = get_type_hints(kind)
    return {column.name: hints[column.name] for column in fields(kind)}


def _amiss(name: str, wanted: Any, value: object) -> str | None:
    """What should be there instead; None if nothing is wrong."""
    if wanted is str:
        return None if isinstance(value, str) else "a string"
    if wanted is bool:
        return None if isinstance(value, bool) else "true or false"
    if value is None and wanted in (int | None, float | None):
        return None
    low, high = _RANGES.get(name, (0, math.inf))
    whole = wanted not in (float, float | None)
    taken = isinstance(value, int if whole else int | float) and not isinstance(value, bool)
    # only the log posterior may be infinite, and only downwards
    if taken and low <= value < math.inf and value <= high:  # type: ignore[operator]
        return None
    kind = "a whole number" if whole else "a number"
    if low == -math.inf:
        return kind
    return f"{kind} of at least {low}" if high == math.inf else f"{kind} from {low} to {high:g}"


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
    # a stranger's clusterer may count in NumPy's numbers
    return orjson.dumps(row, option=orjson.OPT_APPEND_NEWLINE | orjson.OPT_SERIALIZE_NUMPY)


def _unwritable(path: Path, error: OSError) -> KBForgeError:
    reason = (error.strerror or str(error)).lower()
    return KBForgeError(f"cannot write {quoted(str(path), 400)}: {reason}")

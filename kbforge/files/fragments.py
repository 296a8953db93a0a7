"""Files of fragments: reads them one at a time, checks ids, and sets bad records aside.

Every verb writes and reads JSON lines, including the REBEL/KeBAB shape (`Fragment.from_json`), and
reads other formats, such as tables, by their file extension. A bad record is passed to `on_bad` and
affects no other. The quarantine has one JSON object `where, reason, raw` per line.
"""

from __future__ import annotations

import contextlib
import gc
import os
import sys
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from hashlib import blake2b
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

import orjson

from kbforge import registry
from kbforge.contracts.fragment import Fragment, OnBad, Shared, Source
from kbforge.errors import BadRecord, KBForgeError, UsageError, quoted
from kbforge.files.io import called, open_output, read_lines
from kbforge.files.kinds import KINDS, kind_of
from kbforge.files.records import json_value
from kbforge.registry.options import option_parameters

_UNKNOWN = ("text", "binary", "empty", "toml")  # no more is known than the error says
_LINES = ("entities", "fragments", "answers", "quarantine", "changes", "objects")
WANTED = {
    "fragments": "fragments, one JSON object per line",
    "entities": "entities, as kbforge cluster writes",
    "answers": "answers, as kbforge review writes",
}
"""The name of an expected kind of JSON lines in errors."""
_KEYS = {"where", "reason", "raw"}
_LONGEST = 1 << 28
_Item = TypeVar("_Item")
_Read = TypeVar("_Read")


def stop(error: BadRecord, raw: bytes) -> None:
    """The `on_bad` that ends the run at the first bad record."""
    raise error


def stop_with(advice: str) -> OnBad:
    """An `on_bad` that ends the run and names a way to continue."""

    def advise(error: BadRecord, raw: bytes) -> None:
        error.advice = error.advice or advice
        raise error

    return advise


def parse_json(line: bytes, where: str) -> Any:
    """One JSON value, whose objects have distinct keys; a BadRecord names the position in the
    line."""
    try:
        return json_value(line, where)
    except orjson.JSONDecodeError as error:
        decoded(line, where)
        got = f"invalid JSON at column {error.colno} ({error.msg})"
        raise BadRecord(where, "a JSON object", got) from None


def decoded(line: bytes, where: str) -> str:
    """The text of a line; BadRecord names the byte that is not UTF-8."""
    try:
        return line.decode()
    except UnicodeDecodeError as error:
        got = f"the byte 0x{line[error.start]:02x} at byte {error.start + 1}"
        raise BadRecord(where, "UTF-8 text", got) from None


def read_each(
    items: Iterable[_Item],
    read: Callable[[_Item], _Read],
    raw_of: Callable[[_Item], bytes],
    on_bad: OnBad,
) -> Iterator[_Read]:
    """What `read` makes of each item; one that it calls a bad record goes to `on_bad`."""
    for item in items:
        try:
            found = read(item)
        except BadRecord as error:
            on_bad(error, raw_of(item))
            continue
        yield found


def located_lines(path: str, on_bad: OnBad) -> Iterator[tuple[str, bytes]]:
    """(`file:line`, the line) of a file."""
    for number, line in read_lines(path, on_bad):
        yield f"{called(path)}:{number}", line


def read_json_lines(path: str, on_bad: OnBad, wanted: str = "") -> Iterator[tuple[str, bytes, Any]]:
    """(`file:line`, the raw line, its JSON value) for every line with JSON; `wanted` as in
    `mistaken`."""
    for _, where, line, value in json_lines_of(read_lines(path, on_bad), path, on_bad, wanted):
        yield where, line, value


def json_lines_of(
    lines: Iterator[tuple[int, bytes]], path: str, on_bad: OnBad, wanted: str = ""
) -> Iterator[tuple[int, str, bytes, Any]]:
    """(line number, `file:line`, the raw line, its JSON value) of a file's numbered lines."""
    for number, line in lines:
        where = f"{called(path)}:{number}"
        try:
            value = parse_json(line, where)
        except BadRecord as error:
            on_bad(mistaken(error, path, line, wanted) if number == 1 else error, line)
            continue
        yield number, where, line, value


def mistaken(error: BadRecord, path: str, line: bytes, wanted: str = "") -> BadRecord:
    """The error about a file's first line; it names the kind of the file if it is not `wanted`.

    Kinds are those of `kbforge.files.kinds`; for the path "-" only the line is examined.
    """
    kind = kind_of(path, line)
    if kind in (wanted, *_UNKNOWN) or (kind in _LINES and not wanted):
        return error
    if kind == "objects" and wanted != "fragments":  # the error says what they lack
        return error
    expected = WANTED.get(wanted, "JSON lines")
    # of a table whose name says what it is, no fragments need to be written first
    source = registry.plugin_of("sources", path) if wanted == "entities" else None
    has_source = f" load {source} {{path}} -o " in KINDS[kind].use
    advice = KINDS["fragments" if has_source else kind].command(path)
    return BadRecord(error.where, expected, KINDS[kind].name, advice=advice)


def located(
    lines: Iterator[tuple[int, bytes]], path: str, on_bad: OnBad
) -> Iterator[tuple[str, Fragment]]:
    """(`file:line`, fragment) for every good one of a file's numbered lines.

    The first one is the file's first with content. Ids are not compared, values share memory.
    """
    shared = Shared()
    for count, (_, where, line, value) in enumerate(json_lines_of(lines, path, on_bad)):
        try:
            fragment = Fragment.from_json(value, where, shared)
        except BadRecord as error:
            on_bad(error if count else mistaken(error, path, line, "fragments"), line)
            continue
        yield where, fragment


def shown(value: object) -> str:
    """A JSON value for an error's `got`: as JSON, shortened; "nothing" for a missing one."""
    return "nothing" if value is None else quoted(orjson.dumps(value).decode(), 40)


def to_line(fragment: Fragment) -> bytes:
    """The fragment's JSON line, newline included; a KBForgeError if JSON cannot represent its
    content."""
    try:
        return orjson.dumps(fragment.to_json(), option=orjson.OPT_APPEND_NEWLINE)
    except orjson.JSONEncodeError as error:
        raise KBForgeError(
            f'the fragment "{quoted(fragment.id)}" cannot be written as JSON: {quoted(str(error))}'
        ) from None


def read_fragments(
    path: str,
    limit: int | None = None,
    options: Mapping[str, object] | None = None,
    tell: Callable[[str], None] | None = None,
) -> Iterator[Fragment]:
    """The fragments of a file, one at a time; every verb reads fragments with this.

    The file has JSON lines of fragments, plain or compressed ("-" is standard input), with any or
    no extension; or another format, which a source recognises by its extension, as in `kbforge
    load`. Memory grows only by the digests that prove the ids unique.

    Args:
        path: of the file.
        limit: maximum number of fragments to read.
        options: of the source, such as the column of the ids.
        tell: called with sentences about what a table was read as, and what was left out.

    Raises:
        UsageError: options for a file without a source, or that its source does not have.
        KBForgeError: the file cannot be opened.
        BadRecord: a bad record or a repeated id.

    """
    on_bad, given = advising(path), options or {}
    name = source_named(path, given)
    if name is None:
        fragments = located(read_lines(path, on_bad), path, on_bad)
        yield from first(distinct(fragments, on_bad), limit)
        return
    source = source_of(name, given)
    yield from read(source, [path], on_bad, limit)
    if tell is not None:
        for sentence in accounts(source, path):
            tell(sentence)


def source_of(name: str, given: Mapping[str, object]) -> Source:
    """A source with options, without those that it does not have and that nobody gave."""
    takes = option_parameters(registry.load("sources", name))
    own = {option: v for option, v in given.items() if v is not None or option in takes}
    source: Source = registry.create("sources", name, own)
    return source


def advising(path: str) -> OnBad:
    """The `on_bad` that ends the run at a file's first bad record, and says how to set it aside."""
    if path == "-":
        return stop
    stem = registry.name_of(path).partition(".")[0] or "file"
    aside = f"kbforge load {quoted(path, 400)} --on-error quarantine -o {quoted(stem)}-good.jsonl"
    return stop_with(f"{aside} sets bad records aside")


def source_named(path: str, given: Mapping[str, object]) -> str | None:
    """The source that reads a file with these options; None for JSON lines of fragments."""
    options = {name: value for name, value in given.items() if value is not None}
    if path == "-":
        if options:
            raise UsageError(
                f"{min(options)}: standard input has fragments, and only tables have columns; "
                "kbforge load SOURCE - turns a table into fragments"
            )
        return None
    if options:
        how = f"kbforge load SOURCE {quoted(path, 400)} -o fragments.jsonl reads it"
        return registry.require_plugin_of("sources", path, how)
    if registry.ending_of(path) in ("", ".jsonl"):
        return None
    return registry.plugin_of("sources", path)


def read(
    source: Source, inputs: Sequence[str], on_bad: OnBad = stop, limit: int | None = None
) -> Iterator[Fragment]:
    """The fragments of a source, one at a time, ids unique; `on_bad` decides on bad records."""
    numbered = enumerate(source.read(inputs, on_bad), 1)
    located = ((source.where or f"fragment {number}", x) for number, x in numbered)
    return first(distinct(located, on_bad), limit)


def accounts(source: Source, name: str) -> Iterator[str]:
    """Sentences about how a source interpreted an input, and what it changed."""
    yield from source.taken
    for rule, count in sorted(source.counts.items()):
        yield f"{quoted(name, 400)}: {rule}: {count:,}"


def held(fragments: Iterator[Fragment]) -> list[Fragment]:
    """A list of fragments that the garbage collector skips.

    They have no back references, and collecting over millions takes long.
    """
    collecting = gc.isenabled()
    gc.disable()
    try:
        out = list(fragments)
    finally:
        if collecting:
            gc.enable()
    gc.freeze()
    return out


def first(fragments: Iterator[Fragment], limit: int | None) -> Iterator[Fragment]:
    """The first items up to a limit; None means all."""
    # no input has more, and more is nothing that can be counted to
    return islice(fragments, None if limit is None else min(limit, sys.maxsize))


def write_fragments(fragments: Sequence[Fragment], path: str | Path) -> None:
    """Write fragments as canonical JSON lines."""
    with open_output(str(path)) as out:
        for fragment in fragments:
            out.write(to_line(fragment))


def distinct(located: Iterator[tuple[str, Fragment]], on_bad: OnBad) -> Iterator[Fragment]:
    """The fragments, without those that repeat an earlier id."""
    seen = DigestSet()
    for where, fragment in located:
        if seen.add(fragment.id.encode()):
            yield fragment
        else:
            on_bad(repeated(where, fragment), to_line(fragment).rstrip(b"\n"))


def repeated(where: str, fragment: Fragment) -> BadRecord:
    """The error about a fragment with an earlier one's id."""
    return BadRecord(where, "a unique id", f'"{quoted(fragment.id)}" again', "id")


class Quarantine:
    """An `on_bad` that sets records aside."""

    def __init__(self, out: BinaryIO) -> None:
        self._out = out
        self.records = 0

    def __call__(self, error: BadRecord, raw: bytes) -> None:
        """Write one record; bytes that are not UTF-8 are shown as `\\xff`."""
        text = raw.decode(errors="backslashreplace")
        record = {"where": error.where, "reason": str(error), "raw": text}
        self._out.write(orjson.dumps(record, option=orjson.OPT_APPEND_NEWLINE))
        self.records += 1


@contextlib.contextmanager
def open_quarantine(path: str | None) -> Iterator[OnBad]:
    """How to handle bad records: with a `Quarantine` or, without a path, an error.

    If nothing is set aside, no file is left, not even one of an earlier run.
    """
    if path is None:
        yield stop_with("--on-error quarantine sets bad records aside")
        return
    with open_output(path) as out:
        aside = Quarantine(out)
        yield aside
    if not aside.records and Path(path).is_file():
        Path(path).unlink()


def remove_quarantine(path: str) -> None:
    """Remove the quarantine file of an earlier run, if there is one."""
    with contextlib.suppress(OSError, orjson.JSONDecodeError), open(path, "rb") as file:
        record = orjson.loads(file.readline(_LONGEST))
        if isinstance(record, dict) and record.keys() == _KEYS:
            Path(path).unlink()


_FIRST_SLOTS = 1 << 12


class DigestSet:
    """Open addressing over an array of 64-bit digests; 0 marks a free slot."""

    def __init__(self) -> None:
        self._key = os.urandom(16)
        self._slots = array("Q", bytes(8 * _FIRST_SLOTS))
        self._members = 0

    def __len__(self) -> int:
        return self._members

    def add(self, member: bytes) -> bool:
        """Add a member; False if it was there before."""
        digest = blake2b(member, digest_size=8, key=self._key).digest()
        value = int.from_bytes(digest, "little") or 1
        if not _insert(self._slots, value):
            return False
        self._members += 1
        if 3 * self._members > 2 * len(self._slots):
            self._grow()
        return True

    def _grow(self) -> None:
        larger = array("Q", bytes(16 * len(self._slots)))
        for value in self._slots:
            if value:
                _insert(larger, value)
        self._slots = larger


def _insert(slots: array[int], value: int) -> bool:
    mask = len(slots) - 1
    slot = value & mask
    while held := slots[slot]:
        if held == value:
            return False
        slot = (slot + 1) & mask
    slots[slot] = value
    return True

"""Loading: from any source to canonical fragments, with bad records stopped or set aside."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import islice
from typing import BinaryIO

import orjson

from kbforge.contracts.fragment import Fragment
from kbforge.contracts.source import OnBad, Source
from kbforge.errors import BadRecord, UsageError, quoted
from kbforge.files.fragments import distinct
from kbforge.files.io import open_output
from kbforge.files.jsonl import stop, to_line


@dataclass(frozen=True, slots=True)
class LoadReport:
    """What a run of `load` did. `counts` is the source's own account (see `Source`)."""

    fragments: int
    set_aside: int
    counts: dict[str, int]
    seconds: float


def load(
    source: Source,
    inputs: Sequence[str],
    output: str,
    quarantine: str | None = None,
    limit: int | None = None,
    on_fragment: Callable[[int], None] | None = None,
) -> LoadReport:
    """Write the fragments of a source as canonical JSON lines, one at a time.

    Files appear under their names only when the whole run is done.

    Args:
        source: where fragments come from.
        inputs: paths, or "-".
        output: path, or "-".
        quarantine: path for bad records; None stops at the first.
        limit: write no more than this many fragments.
        on_fragment: called with the number of fragments so far.

    Raises:
        KBForgeError: an input or output that cannot be used.
        BadRecord: the first bad record, if there is no quarantine.

    """
    if quarantine is not None and quarantine == output:
        raise UsageError(f"the output and the quarantine are both {quoted(output, 400)}")
    started = time.monotonic()
    written = 0
    with ExitStack() as files:
        out = files.enter_context(open_output(output))
        aside = Quarantine(files.enter_context(open_output(quarantine))) if quarantine else None
        on_bad: OnBad = aside or stop
        for fragment in read(source, inputs, on_bad, limit):
            out.write(to_line(fragment))
            written += 1
            if on_fragment is not None:
                on_fragment(written)
    return LoadReport(
        fragments=written,
        set_aside=aside.records if aside else 0,
        counts=dict(sorted(source.counts.items())),
        seconds=time.monotonic() - started,
    )


def read(
    source: Source, inputs: Sequence[str], on_bad: OnBad = stop, limit: int | None = None
) -> Iterator[Fragment]:
    """The fragments of a source, one at a time, ids unique.

    Args:
        source: where fragments come from.
        inputs: paths, or "-".
        on_bad: what to do with a bad record; the default raises it.
        limit: read no more than this many fragments.

    Raises:
        KBForgeError: an input that cannot be used.
        BadRecord: a bad record or a repeated id, if `on_bad` raises it.

    """
    return islice(distinct(_located(source, inputs, on_bad), on_bad), limit)


def default_quarantine(output: str) -> str:
    """Where bad records go when the user names no file.

    Raises:
        UsageError: the output is standard output, beside which there is no place.

    """
    if output == "-":
        raise UsageError("--on-error quarantine needs --quarantine FILE with standard output")
    return f"{output}.quarantine.jsonl"


class Quarantine:
    """An `on_bad` that sets records aside: one JSON object `where, reason, raw` a line."""

    def __init__(self, out: BinaryIO) -> None:
        self._out = out
        self.records = 0

    def __call__(self, error: BadRecord, raw: bytes) -> None:
        """Write one record; bytes that are not UTF-8 are shown as `\\xff`."""
        text = raw.decode(errors="backslashreplace")
        record = {"where": error.where, "reason": str(error), "raw": text}
        self._out.write(orjson.dumps(record, option=orjson.OPT_APPEND_NEWLINE))
        self.records += 1


def _located(
    source: Source, inputs: Sequence[str], on_bad: OnBad
) -> Iterator[tuple[str, Fragment]]:
    for number, fragment in enumerate(source.read(inputs, on_bad), 1):
        yield (source.where or f"fragment {number}"), fragment

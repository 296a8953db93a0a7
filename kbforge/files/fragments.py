"""Files of fragments: read one at a time, ids unique, and written."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path

from kbforge.contracts.fragment import Fragment
from kbforge.contracts.source import OnBad
from kbforge.errors import BadRecord, quoted
from kbforge.files.digests import DigestSet
from kbforge.files.io import open_output
from kbforge.files.jsonl import read_located, stop, to_line


def read_fragments(
    path: str, on_bad: OnBad | None = None, limit: int | None = None
) -> Iterator[Fragment]:
    """The fragments of a JSON lines file, one at a time: what every verb reads.

    Plain, gzip or zstd; "-" is standard input; canonical or KeBAB shape. Memory does not grow
    with the input, apart from the digests that prove the ids unique.

    Args:
        path: the file, or "-".
        on_bad: what to do with a bad record; None raises it.
        limit: read no further than this many fragments; None reads all.

    Raises:
        KBForgeError: the file cannot be opened.
        BadRecord: a bad record or a repeated id, if `on_bad` raises it.

    """
    decide = on_bad or stop
    return first(distinct(read_located(path, decide), decide), limit)


def held(fragments: Iterator[Fragment]) -> list[Fragment]:
    """All of some fragments, for a program that holds them until it ends.

    Nothing in them refers back to them. So the garbage collector, which would go through millions
    of them again and again, rests while they are read, and passes over them from then on.
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
    """The first ones, whatever the limit is; None is all."""
    # no input has more, and more is nothing that can be counted to
    return islice(fragments, None if limit is None else min(limit, sys.maxsize))


def write_fragments(fragments: Sequence[Fragment], path: str | Path) -> None:
    """Write fragments as canonical JSON lines.

    Raises:
        KBForgeError: the file cannot be written.

    """
    with open_output(str(path)) as out:
        for fragment in fragments:
            out.write(to_line(fragment))


def distinct(located: Iterator[tuple[str, Fragment]], on_bad: OnBad) -> Iterator[Fragment]:
    """The fragments whose id no earlier one has."""
    seen = DigestSet()
    for where, fragment in located:
        if seen.add(fragment.id.encode()):
            yield fragment
        else:
            error = BadRecord(where, "an id of its own", f'"{quoted(fragment.id)}" again', "id")
            on_bad(error, to_line(fragment).rstrip(b"\n"))

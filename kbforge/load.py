"""Loading: from any source to canonical fragments, with bad records stopped or set aside."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from kbforge.contracts.fragment import Fragment
from kbforge.contracts.source import OnBad
from kbforge.digests import DigestSet
from kbforge.errors import BadRecord, quoted
from kbforge.jsonl import read_located, stop, to_line


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
    return islice(_distinct(read_located(path, decide), decide), limit)


def _distinct(located: Iterator[tuple[str, Fragment]], on_bad: OnBad) -> Iterator[Fragment]:
    """The fragments whose id no earlier one has."""
    seen = DigestSet()
    for where, fragment in located:
        if seen.add(fragment.id.encode()):
            yield fragment
        else:
            error = BadRecord(where, "an id of its own", f"{quoted(fragment.id)} again", "id")
            on_bad(error, to_line(fragment))

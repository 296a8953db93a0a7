"""Loads fragments from any source; bad records stop the run or are set aside."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from kbforge import registry
from kbforge.contracts.fragment import Source
from kbforge.errors import KBForgeError, UsageError, counted, listed, quoted
from kbforge.files.fragments import (
    Quarantine,
    open_quarantine,
    read,
    remove_quarantine,
    to_line,
)
from kbforge.files.io import called, open_output, require_apart, require_distinct


def source_and_files(given: Sequence[str]) -> tuple[str, list[str]]:
    """The source that a command names or its files imply, and the files.

    Raises:
        PluginError: the first word is neither a source nor a file.
        UsageError: no file, or files whose extensions do not imply one source.

    """
    first = given[0]
    if first in registry.names("sources"):
        if len(given) == 1:
            there = f"; for a file of that name, ./{first}" if Path(first).exists() else ""
            raise UsageError(f"load {quoted(first)}: expected files after the source{there}")
        return first, list(given[1:])
    if first != "-" and not registry.ending_of(first) and not Path(first).exists():
        registry.find("sources", first)  # names the sources that there are
    return source_of(given), list(given)


def source_of(inputs: Sequence[str]) -> str:
    """The source that all file extensions imply; a `UsageError` if they imply none, or several."""
    found: dict[str, str] = {}
    for path in inputs:
        if path == "-":
            raise UsageError(
                "standard input has no extension that implies its format; name the source, as in "
                "kbforge load csv -"
            )
        how = f"name the source, as in kbforge load csv {quoted(path, 400)}"
        found.setdefault(registry.require_plugin_of("sources", path, how), path)
    if len(found) > 1:
        (one, a), (other, b) = list(found.items())[:2]
        raise UsageError(
            f"{quoted(a, 400)} is for the source {one} and {quoted(b, 400)} for {other}; load "
            "files of one format at a time"
        )
    return next(iter(found))


def load(
    source: Source,
    inputs: Sequence[str],
    output: str,
    quarantine: str | None = None,
    limit: int | None = None,
    on_fragment: Callable[[int], None] | None = None,
    also_read: Sequence[str] = (),
) -> dict[str, Any]:
    """Write the fragments of a source as canonical JSON lines, one at a time.

    Files appear under their names only when the run has succeeded. Returns the summary of
    `kbforge load --json`, where `counts` is the source's own account (see `Source`).

    Args:
        source: where fragments come from.
        inputs: paths, or "-".
        output: path, or "-".
        quarantine: path for bad records; None stops at the first. A run without bad records writes
            no such file, and removes one of an earlier run.
        limit: write no more than this many fragments.
        on_fragment: called with the number of fragments so far.
        also_read: files that the source reads besides the inputs.

    Raises:
        UsageError: an output that is also an input, or the quarantine.
        KBForgeError: an input or output that cannot be used, or every record is bad.
        BadRecord: the first bad record, if there is no quarantine.
    """
    require_distinct([("output", output), ("quarantine", quarantine)])
    for path in (output, quarantine):
        if path is not None:
            require_apart(path, [*inputs, *also_read])
    started = time.monotonic()
    written = 0
    with open_output(output) as out:
        # the quarantine is whole first: without its records the fragments are not all there was
        with open_quarantine(quarantine) as on_bad:
            for written, fragment in enumerate(read(source, inputs, on_bad, limit), start=1):
                out.write(to_line(fragment))
                if on_fragment is not None:
                    on_fragment(written)
        set_aside = on_bad.records if isinstance(on_bad, Quarantine) else 0
        counts = dict(sorted(source.counts.items()))
        if set_aside and not written and not counts:
            raise KBForgeError(
                f"no fragments, and {quoted(output, 400)} was not written: of "
                f"{listed([called(path) for path in inputs], 3, 400)} every record is bad, "
                f"{counted(set_aside, 'record')} set aside in {quoted(str(quarantine), 400)}"
            )
    if quarantine is None and output != "-":
        remove_quarantine(default_quarantine(output))
    return {
        "fragments": written,
        "set_aside": set_aside,
        "counts": counts,
        "seconds": round(time.monotonic() - started, 6),
        "output": output,
        "quarantine": quarantine,
    }


def default_quarantine(output: str) -> str:
    """Where bad records go when the user names no file; nowhere beside standard output."""
    if output == "-":
        raise UsageError("--on-error quarantine needs --quarantine FILE with standard output")
    return f"{output}.quarantine.jsonl"

"""Inputs and outputs that are one file: refused before anything is read or written.

One file may be named in several ways: by another spelling of its path, a link, a hard link, or as
the file behind standard input or output.
"""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Iterable
from pathlib import Path

from kbforge.errors import UsageError, quoted
from kbforge.files.io import called


def require_apart(
    output: str | Path, inputs: Iterable[str | Path | None], whole: bool = False
) -> None:
    """Refuse an output that would replace an input.

    Args:
        output: a file, a folder or "-".
        inputs: files, folders, "-", None, and texts that name no file at all, which are passed
            over. An output in an input folder replaces an input if the folder has such a file.
        whole: a folder is replaced with all that is in it.

    Raises:
        UsageError: it is one of the inputs, or in one, or holds one.

    """
    for given in inputs:
        if given is not None and str(given) and _is_same(str(output), str(given), whole):
            name = "standard output" if output == "-" else quoted(str(output), 400)
            same = "" if str(output) == str(given) else f" ({quoted(called(str(given)), 400)})"
            raise UsageError(
                f"the output {name} is an input{same}, which it would replace; name another output"
            )


def require_distinct(outputs: Iterable[tuple[str, str | None]]) -> None:
    """Refuse two outputs that are one file.

    Args:
        outputs: what each is called, and where it goes.

    Raises:
        UsageError: two of them go to one place.

    """
    seen: list[tuple[str, str]] = []
    for what, path in outputs:
        if path is None:
            continue
        for other, place in seen:
            # what is not there yet is told by its name
            if path == place or _resolved(path) == _resolved(place) or _is_same(path, place):
                raise UsageError(f"the {other} and the {what} are both {quoted(path, 400)}")
        seen.append((what, path))


def _is_same(output: str, given: str, whole: bool = False) -> bool:
    out, there = _status(output, 1), _status(given, 0)
    if out is None or there is None:
        return False  # there is nothing to replace, or nothing that is read
    if os.path.samestat(out, there):
        return stat.S_ISREG(out.st_mode) or stat.S_ISDIR(out.st_mode)
    if "-" in (output, given) or not (stat.S_ISREG(out.st_mode) or stat.S_ISREG(there.st_mode)):
        return False
    one, other = Path(_resolved(output)), Path(_resolved(given))
    return one.parent == other or (whole and other.is_relative_to(one))


def _status(path: str, stream: int) -> os.stat_result | None:
    """Of the file, or of the standard stream that "-" is."""
    try:
        if path == "-":
            handle = (sys.stdin, sys.stdout)[stream]
            return os.fstat(handle.fileno())
        return os.stat(path)
    except (OSError, ValueError):  # not there, no path at all, or no stream with a number
        return None


def _resolved(path: str) -> str:
    return path if path == "-" or "\0" in path else os.path.realpath(path)

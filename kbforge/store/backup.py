"""Copies a store while others read and write it."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from kbforge.errors import BusyError, KBForgeError, OutputError, UsageError, quoted
from kbforge.files.io import (
    mode_of,
    reason_of,
    require_apart,
    require_writable,
    sweep,
    temporary_folder,
)
from kbforge.store.damage import refuse_damage
from kbforge.store.database import MODE, Database, log_of
from kbforge.store.store import Store


def backup(
    path: str,
    to: str,
    replace: bool = False,
    on_copied: Callable[[int], None] = lambda pages: None,
) -> dict[str, Any]:
    """Copy a store as it is now, and verify the copy; others can write to the store meanwhile.

    The copy appears under its name when it is complete. `replace` says whether it may replace
    another store. `on_copied` is called with the number of copied pages. Returns the summary of
    `kbforge backup --json`; `run` is the number of the last run, 0 if there was none.

    Raises:
        KBForgeError: the store cannot be read, is damaged, or lacks its log.
        UsageError: it would be copied onto itself, or to standard output.
        OutputError: a file with the name of the copy exists, or it cannot be written.

    """
    if to == "-":
        raise UsageError("expected the name of a new file, got standard output")
    require_apart(to, [path])
    require_writable(to)
    target = Path(os.path.realpath(to))
    with Database(path) as source:
        if (lacking := source.lacking) is not None:
            raise KBForgeError(lacking)
        _require_free(to, target, replace)
        try:
            sweep(target.parent)
            with temporary_folder(target.parent) as folder:
                made = folder / "copy"
                os.close(os.open(made, os.O_CREAT | os.O_EXCL | os.O_WRONLY, MODE))
                source.copy_to(str(made), on_copied)
                with Database(str(made), write=True, verify=False) as copy:  # it empties its log
                    rows, damage = copy.examined()
                    refuse_damage(path, damage)
                    run = Store(copy).last_number
                with open(made, "r+b") as file:
                    os.fsync(file.fileno())
                made.chmod(mode_of(target, MODE))
                os.replace(made, target)
        except OSError as error:
            raise OutputError(f"cannot write {quoted(to, 400)}: {reason_of(error)}") from error
    held = {"fragments": rows["fragment"], "entities": rows["entity"]}
    return {"path": to, "run": run, **held, "bytes": target.stat().st_size}


def _require_free(to: str, target: Path, replace: bool) -> None:
    """Refuse a name whose existing file the copy may not replace."""
    where = f"cannot write {quoted(to, 400)}"
    if os.path.lexists(target):
        if not replace:
            raise OutputError(f"{where}: it exists; --replace replaces a store by the copy")
        Database(to, write=True, verify=False).close()  # nobody writes it, and its log is empty
        if log_of(to).exists():
            raise BusyError(f"{where}: another program has it open; end that first")
    elif log_of(to).exists():
        raise OutputError(
            f"{where}: {quoted(str(log_of(to)), 400)} is the log of another file; remove it, or "
            "name another copy"
        )

"""The folder of a training run: FOLDER.training, beside the bundle that it will become.

    run.json                  what makes the run this very one: recipe and data
    lock                      held while a process trains here
    checkpoint.safetensors    where it is

It comes and goes in one step each, so that whenever a process is killed there is either no run or
one that can be gone on with.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import orjson

from kbforge.errors import KBForgeError, UsageError, quoted
from kbforge.files.io import open_output
from kbforge.files.temporary import locked

RUN = "run.json"

_LOCK = "lock"


def folder_of_run(bundle: Path) -> Path:
    """Where the state of the run for a bundle is."""
    # "." and ".." have no name that another one could be made of
    named = bundle if bundle.name not in ("", "..") else Path(os.path.abspath(bundle))
    return named.with_name(f"{named.name}.training")


def begin_run(work: Path, run: Mapping[str, Any]) -> None:
    """Make the folder of a run, or check that the one there is of this very run.

    Args:
        work: the folder.
        run: what tells it from others (JSON).

    Raises:
        UsageError: the folder is another run's, with what differs, or no run's.
        KBForgeError: it cannot be read or written.

    """
    path, where = work / RUN, quoted(str(work), 400)
    try:
        if path.exists():
            _require_same(where, orjson.loads(path.read_bytes()), run)
            return
        work.mkdir(exist_ok=True)
        # hidden files may be left of a kill in this place
        if any(not name.startswith(".") for name in os.listdir(work)):
            raise UsageError(f"{where} exists and holds no unfinished run; move or delete it")
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise KBForgeError(f"cannot write {where}: {reason}") from error
    except orjson.JSONDecodeError as error:
        raise KBForgeError(f"{where}: {RUN} is not JSON ({error}); delete the folder") from error
    with open_output(str(path)) as out:
        out.write(orjson.dumps(run, option=orjson.OPT_INDENT_2))


@contextlib.contextmanager
def alone_in(work: Path) -> Iterator[None]:
    """Keep other processes from training in the same folder; a killed one holds nothing.

    Raises:
        UsageError: one is.

    """
    with contextlib.ExitStack() as held:
        try:
            held.enter_context(locked(work / _LOCK))
        except OSError:
            raise UsageError(
                f"{quoted(str(work), 400)} is in use: another process is training there"
            ) from None
        yield


def remove_run(work: Path) -> None:
    """Delete the folder of a run, which a kill leaves either whole or gone."""
    aside = tempfile.mkdtemp(prefix=f".{work.name}.", dir=work.parent)
    os.rename(work, Path(aside) / work.name)
    shutil.rmtree(aside)


def _require_same(where: str, there: Any, here: Mapping[str, Any]) -> None:
    old, new = _flat(there), _flat(here)
    for name in [*new, *old]:
        if old.get(name) != new.get(name):
            raise UsageError(
                f"{where} holds an unfinished run that differs in {quoted(name)}: "
                f"{quoted(str(old.get(name)), 20)} there, {quoted(str(new.get(name)), 20)} here; "
                f"finish that one, or delete the folder"
            )


def _flat(value: Any, name: str = "") -> dict[str, Any]:
    """Leaves of nested tables: {"a": {"b": 1}} -> {"a b": 1}."""
    if not isinstance(value, Mapping):
        return {name: value}
    return {
        key: leaf
        for part, inner in value.items()
        for key, leaf in _flat(inner, f"{name} {part}".strip()).items()
    }

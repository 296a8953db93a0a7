"""Folders of files that appear under their name when they are whole."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from collections.abc import Collection, Iterator
from pathlib import Path

from kbforge.errors import OutputError, UsageError, quoted
from kbforge.files.io import mode_of, require_writable
from kbforge.files.temporary import sweep, temporary_folder


@contextlib.contextmanager
def open_folder(path: str, names: Collection[str], what: str) -> Iterator[Path]:
    """A new folder to write files into, which takes the place of `path` at the end.

    A folder that is there is replaced if it holds nothing but files of these names.

    Args:
        path: of the folder.
        names: of the files that are written.
        what: writes them, such as "exporter neo4j", for errors.

    Raises:
        UsageError: "-".
        OutputError: there is something else under that name, or it cannot be written.

    """
    if path == "-":
        raise UsageError(f"{what}: expected a folder, got standard output; give -o FOLDER")
    require_writable(path)
    folder = Path(os.path.realpath(path))
    try:
        if folder.exists():
            _require_ours(folder, names, path, what)
        sweep(folder.parent)
        with temporary_folder(folder.parent) as temporary:
            yield temporary
            for file in temporary.iterdir():
                with open(file, "rb") as written:
                    os.fsync(written.fileno())
                file.chmod(mode_of(folder / file.name, 0o666))
            temporary.chmod(mode_of(folder, 0o777))
            put_in_place(temporary, folder)
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise OutputError(f"cannot write {quoted(path, 400)}: {reason}") from error


def put_in_place(new: Path, folder: Path) -> None:
    """Give a folder another's name; the other is gone when that is done, and back if it fails.

    Raises:
        OSError: it cannot be done.

    """
    if not folder.exists():
        os.rename(new, folder)
        return
    # a folder cannot be replaced in one step: the old one steps aside, and back on failure
    aside = Path(tempfile.mkdtemp(prefix=f".{folder.name}.old.", dir=new.parent))
    os.rename(folder, aside / folder.name)
    try:
        os.rename(new, folder)
    except OSError:
        os.rename(aside / folder.name, folder)
        raise
    finally:
        with contextlib.suppress(OSError):
            if folder.exists():
                shutil.rmtree(aside)


def _require_ours(folder: Path, names: Collection[str], path: str, what: str) -> None:
    if folder.is_dir():
        strange = sorted(file.name for file in folder.iterdir() if file.name not in names)
        if not strange:
            return
        got = f"a folder with {quoted(strange[0])}"
    else:
        got = "something else"
    raise OutputError(
        f"{what}: {quoted(path, 400)}: expected no such folder, or one that it wrote, got {got}; "
        "name another"
    )

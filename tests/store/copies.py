"""Plain copies of a store, as `cp` makes them: of its file alone, without what lies beside it."""

from __future__ import annotations

import subprocess
import tempfile
from pathlib import Path

from kbforge.errors import KBForgeError
from kbforge.store.database import SMALL, Database
from tests.store.dump import dump


def copied(store: Path | str, to: Path) -> Path:
    """Copy the file alone, in another process: one that closes a file loses its locks on it."""
    subprocess.run(["cp", store, to], check=True)
    return to


def enlarge(store: Path | str) -> None:
    """Give a store so many free pages that it is verified where it is read, as large ones are."""
    with Database(str(store), write=True) as database:
        database.connection.execute(f"CREATE TABLE filler AS SELECT zeroblob({SMALL})")
        database.connection.execute("DROP TABLE filler")


def require_whole_copy(store: Path | str) -> None:
    """Fail unless a copy of the file alone has the rows of the store, and knows of nothing else."""
    with tempfile.TemporaryDirectory() as folder:
        copy = copied(store, Path(folder, "copy.sqlite"))
        assert dump(copy) == dump(store), "a plain copy lacks rows"
        with Database(str(copy)) as database:
            assert database.lacking is None


def require_honest_copy(store: Path | str) -> bool:
    """Fail if a copy of the file alone has other rows and passes for whole; whether it is whole."""
    with tempfile.TemporaryDirectory() as folder:
        copy = copied(store, Path(folder, "copy.sqlite"))
        try:
            with Database(str(copy)) as database:
                lacking = database.lacking
        except KBForgeError:  # it is empty, or damaged
            return False
        assert lacking is not None or dump(copy) == dump(store), "a plain copy passes for whole"
        return lacking is None

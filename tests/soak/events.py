"""`make soak`: kills of every verb that writes, beside a second writer and eight readers.

Each verb works on a copy of a small store. It is killed (SIGKILL) at a random moment and given
again, and the store must then equal one where it was not killed: all rows of all tables, without
times (`tests.store.dump`). Beside it another process keeps deciding what is decided already, which
is refused with a sentence while the verb writes, and eight processes keep reading: what they read
is of one moment, or a sentence says that there is nothing yet. In the end a plain copy of the file
must have all rows.
"""

import argparse
import random
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.process import BaseProcess
from pathlib import Path

from kbforge.errors import KBForgeError, OutputError
from kbforge.jobs.decide import decide
from kbforge.store.database import Database
from kbforge.store.store import Store
from tests.jobs.killing import PROCESSES
from tests.jobs.test_killed import VERBS, copy, filled, give
from tests.store.copies import require_whole_copy
from tests.store.dump import dump

READERS = 8
_REFUSED = "another kbforge command is writing to it"
_NOTHING_YET = ("no such file", "is empty", "file of another kind")


def main() -> int:
    """Kill, repeat, compare and tell; 1 if a store differs or anybody beside it failed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=12, help="of each verb")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    rng, total = random.Random(options.seed), 0
    with tempfile.TemporaryDirectory() as folder:
        base = Path(folder, "base.sqlite")
        filled(base)
        for name in VERBS:
            begin = time.perf_counter()
            tries, differ = kill_often(name, base, Path(folder), options.kills, rng)
            total += options.kills
            said = f"{options.kills} kills of {tries} tries hit, {len(differ)} stores differ"
            print(f"{name}: {said}, {time.perf_counter() - begin:.0f} s", flush=True)
            if differ:
                print("\n".join(differ[:10]))
                return 1
    print(f"{total} kills; every store, and a plain copy of it, equals the one that was not killed")
    return 0


def kill_often(
    name: str, base: Path, folder: Path, kills: int, rng: random.Random
) -> tuple[int, list[str]]:
    """Kill a verb until some kills hit; returns how many tries it took, and lines that differ."""
    start = folder / "nothing.sqlite" if name == "create" else base
    whole = folder / f"{name}-whole.sqlite"
    copy(start, whole)
    child = PROCESSES.Process(target=give, args=(name, str(whole)))
    begin = time.perf_counter()
    child.start()
    child.join()
    seconds, wanted = time.perf_counter() - begin, dump(whole)
    tries = hit = 0
    while hit < kills:
        tries += 1
        path = folder / f"{name}-{tries}.sqlite"
        copy(start, path)
        with beside(path):
            killed = _killed(name, path, rng.uniform(0.1, 1.1) * seconds)
            done = killed and name == "revisit" and dump(path) == wanted
            if not done:  # to revisit again is another revisit
                _until_done(name, path)
        require_whole_copy(path)
        found = dump(path)
        if found != wanted:
            return tries, sorted(set(found) ^ set(wanted))
        hit += killed
    return tries, []


def _killed(name: str, path: Path, seconds: float) -> bool:
    """Give a verb, and kill it after some time; whether that came before its end."""
    child = PROCESSES.Process(target=_until_done, args=(name, path))
    child.start()
    child.join(seconds)
    alive = child.is_alive()
    child.kill()
    child.join()
    assert alive or child.exitcode == 0, "the verb failed"
    return alive


def _until_done(name: str, path: Path) -> None:
    """Give a verb until no other writer is in its way."""
    while True:
        try:
            give(name, str(path))
        except OutputError as error:
            if _REFUSED not in str(error):
                raise
            time.sleep(0.01)
        else:
            return


@contextmanager
def beside(path: Path) -> Iterator[None]:
    """Have others read and write a store meanwhile; whoever fails fails the soak."""
    stop = path.with_suffix(".stop")
    others: list[BaseProcess] = [
        PROCESSES.Process(target=_read, args=(path, stop)) for _ in range(READERS)
    ]
    others.append(PROCESSES.Process(target=_write, args=(path, stop)))
    for other in others:
        other.start()
    try:
        yield
    finally:
        stop.touch()
        for other in others:
            other.join()
    assert [other.exitcode for other in others] == [0] * len(others), "somebody beside it failed"


def _read(path: Path, stop: Path) -> None:
    while not stop.exists():
        try:
            with Database(str(path)) as database, database.snapshot():
                require_consistent(Store(database))
        except KBForgeError as error:
            if not any(said in str(error) for said in _NOTHING_YET):
                raise
        time.sleep(0.1)


def require_consistent(store: Store) -> None:
    """Each fragment is in one entity, and the decisions in force are those that hold."""
    if not store.has_session:
        return
    numbers = [fragment.id for fragment in store.fragments()]
    held = [store.entity_of(n)[0] for n in store.pages.numbers(numbers).values()]
    assert len(held) == store.n_fragments == store.pages.totals.n_fragments
    assert len(set(held)) == store.n_entities
    in_force = [one.decision for one in store.decisions() if one.undone is None]
    assert list(store.pages.totals.constraints.decisions) == in_force


def _write(path: Path, stop: Path) -> None:
    """Decide again what is decided: it changes nothing, and holds the lock."""
    while not stop.exists():
        try:
            with Database(str(path)) as database:
                in_force = [one for one in Store(database).decisions() if one.undone is None]
            for one in in_force:
                if one.number == 3:  # which no verb undoes
                    decide(str(path), [one.decision])
        except KBForgeError as error:
            known = (_REFUSED, "has no fragment", *_NOTHING_YET)
            if not any(said in str(error) for said in known):
                raise
        time.sleep(0.3)


if __name__ == "__main__":
    sys.exit(main())

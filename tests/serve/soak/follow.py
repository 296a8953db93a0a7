"""`make soak`: who follows a served store has what it has, beside two writers that erase.

A server writes what its clients send: fragments, replaced ones, decisions and undos. At the same
time another process adds, removes, erases, decides, undoes, refits and searches. After each pair of
events a program that follows `GET /api/changes` must have the entities of the store, with what
their fragments say; so must one that asks only now and then, and one that begins at the end. A
plain copy of the file must have the rows of the store.

Before, the same is done without a server, after each single event.
"""

import argparse
import random
import sys
import tempfile
import time
from multiprocessing.connection import Connection
from pathlib import Path

import msgspec
from starlette.testclient import TestClient

from kbforge.errors import UsageError
from kbforge.fit.choices import RunOptions
from kbforge.jobs.update import add_fragments
from kbforge.store.changes import changes
from kbforge.store.database import Database, log_of
from kbforge.store.store import Store
from kbforge_serve.app import application
from kbforge_serve.service import Service
from tests.following import Content, Follower, Happenings, content, differences, lines_of
from tests.jobs.killing import PROCESSES
from tests.people import people
from tests.store.copies import require_whole_copy

PEOPLE = people(40, 8)
_SOME = 7  # changes of one answer, so that answers have several parts
_RESTING = 60.0  # seconds at most, until a server has emptied the log


def main() -> int:
    """Write, follow and compare; 1 if a follower lacks something or has too much."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=int, default=300)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    for often, run in (("event", alone), ("pair of events", followed)):
        begin = time.perf_counter()
        with tempfile.TemporaryDirectory() as folder:
            path = str(Path(folder, "kb.sqlite"))
            add_fragments(path, PEOPLE[:50], RunOptions(likelihood="attributes", alpha=10.0))
            counts, wrong = run(path, options.events, options.seed)
        told = ", ".join(f"{count} {name}" for name, count in sorted(counts.items()))
        print(f"{sum(counts.values())} events in {time.perf_counter() - begin:.0f} s: {told}")
        good = f"every follower and a plain copy equal the store after each {often}"
        print(wrong or good, flush=True)
        if wrong:
            return 1
    return 0


def alone(path: str, events: int, seed: int) -> tuple[dict[str, int], str]:
    """Have events happen without a server; otherwise as `followed`."""
    happening, follower = Happenings(path, PEOPLE, seed), Follower()
    for number in range(1, events + 1):
        happened = happening.happen()
        require_whole_copy(path)
        at, wanted = content(path)
        with Database(path) as database:
            found = [msgspec.to_builtins(one) for one in changes(Store(database), follower.at)]
        follower.hear({"from": follower.at, "to": at, "changes": found}, lines_of(path))
        if differs := differences(follower.entities, wanted):
            return happening.counts, f"after event {number} ({happened}) it differs in {differs}"
    return happening.counts, ""


def followed(path: str, events: int, seed: int) -> tuple[dict[str, int], str]:
    """Have events happen; returns how many of each kind, and where a follower differed."""
    here, there = PROCESSES.Pipe()
    other = PROCESSES.Process(target=_happen, args=(path, seed, there))
    other.start()
    rng, counts = random.Random(seed), dict[str, int]()
    near, far = Follower(), Follower()
    service = Service(path)
    service.writer.idle = 0.05
    try:
        with TestClient(application(service), "http://localhost") as client:
            for number in range(0, events, 2):
                here.send(True)
                said = _request(client, path, rng)
                for name in (said, str(here.recv())):
                    counts[name] = counts.get(name, 0) + 1
                wanted = _at_rest(path)
                require_whole_copy(path)
                late = [far] if rng.random() < 0.1 else []
                if number + 2 >= events:
                    late = [far, Follower()]
                for follower in (near, *late):
                    _follow(client, follower, path)
                    if follower.at != wanted[0] or differences(follower.entities, wanted[1]):
                        found = list(differences(follower.entities, wanted[1]))
                        return counts, f"after event {number + 2} ({said}) it differs in {found}"
    finally:
        here.send(False)
        other.join()
    return counts, ""


def _happen(path: str, seed: int, orders: Connection) -> None:
    """Be the other writer: one event for each order."""
    happening = Happenings(path, PEOPLE, seed)
    while orders.recv():
        try:
            orders.send(happening.happen())
        except UsageError:  # the server was faster, and a fragment or a decision is not there
            orders.send("refused")


def _request(client: TestClient, path: str, rng: random.Random) -> str:
    """Have the server write something; returns what."""
    name = rng.choice(("add", "add", "replace", "decide", "undo"))
    if name == "undo":
        decisions = client.get("/api/decisions").json()["decisions"]
        if not decisions:
            return "served nothing"
        answer = client.post(f"/api/decisions/{rng.choice(decisions)['number']}/undo")
    elif name == "decide":
        first, second = (x.id for x in rng.sample(PEOPLE, 2))
        sent = {"same": rng.random() < 0.5, "first": first, "second": second}
        answer = client.post("/api/decisions", json=sent)
    else:
        some = [x.to_json() for x in rng.sample(PEOPLE, rng.randint(1, 4))]
        if name == "replace":
            some = [
                {**one, "properties": {**one["properties"], "town": [f"{rng.random()}"]}}
                for one in some
            ]
        answer = client.post("/api/fragments?on_duplicate=replace", json=some)
    if answer.status_code in (404, 409):
        return "served refused"
    answer.raise_for_status()
    return f"served {name}"


def _at_rest(path: str) -> tuple[int, Content]:
    """What the store is when its last run has ended, and its log is empty."""
    until = time.monotonic() + _RESTING
    while True:
        with Database(path) as database:
            last = Store(database).last_run
        log = log_of(path)
        if last is not None and last.finished and not (log.exists() and log.stat().st_size):
            return content(path)
        assert time.monotonic() < until, "the server leaves its log behind"
        time.sleep(0.02)


def _follow(client: TestClient, follower: Follower, path: str) -> None:
    """Have a follower hear all that the server tells."""
    to: int | None = None
    last = -1
    while follower.at != last:
        after: str | None = ""
        while after is not None:
            asked = {"since": follower.at, "limit": _SOME, "after": after}
            found = client.get("/api/changes", params=asked if to is None else {**asked, "to": to})
            found.raise_for_status()
            follower.hear(found.json(), lines_of(path))
            to, last, after = (found.json()[name] for name in ("to", "last", "after"))
        to = None


if __name__ == "__main__":
    sys.exit(main())

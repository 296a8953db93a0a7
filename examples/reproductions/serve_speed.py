"""How fast a served store answers while several readers ask at once.

    python examples/reproductions/serve_speed.py STORE [--readers 8] [--seconds 20] [--processes 2]

Starts `kbforge serve` on the store and asks from other processes, over connections that stay open.
Each reader waits for an answer before it asks again. It measures one kind of question after
another, and then all of them mixed: pages of entities, searches (names, their beginnings, names
with a typing error, and the most frequent word), matches of fragments that the store does not have,
and the other pages. Times are milliseconds at the 50th, 95th and 99th percentile: of the server, by
its `Server-Timing` header, and of the reader; `cpu` is the server's processor time of one answer,
which other programs on the machine hardly change. Every answer must be 200.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import json
import multiprocessing
import os
import random
import signal
import socket
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from http.client import HTTPConnection
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlencode

from shell import table

from kbforge.contracts import Fragment
from kbforge.kb.entities import naming
from kbforge.store.tables import ask
from kbforge_serve.readers import Readers

SAMPLED = 2_000
MIXED = "all mixed"


class Question(NamedTuple):
    """A request: GET without a body, POST with one."""

    path: str
    body: bytes | None = None


def questions(store: str, rng: random.Random) -> dict[str, list[Question]]:
    """By kind, what readers ask of a store."""
    readers = Readers(store)
    with readers.store() as held:
        rows = held.database.connection
        most = ask(rows, "SELECT max(number) FROM fragment")[0][0]
        numbers = rng.sample(range(most + 1), min(SAMPLED, most))
        fragments = list(held.pages.fragments(numbers).values())
        homes = held.pages.homes(numbers)
        entities = [held.entity_of(number)[0] for number in homes]
    readers.close()
    ids = [fragment.id for fragment in fragments]
    names = [name for name in map(_name, fragments) if name]
    frequent = Counter(word for name in names for word in name.split()).most_common(1)[0][0]
    texts = [_text(rng, name, frequent) for name in names]
    return {
        "entity": [Question(f"/entity/{id}") for id in entities],
        "search": [Question(f"/search?{urlencode({'q': text})}") for text in texts],
        "match": [Question("/api/match", _unknown(rng, one)) for one in fragments],
        "fragment": [Question(f"/fragment?{urlencode({'id': id})}") for id in ids],
        "why": [Question(f"/why?{urlencode({'fragment': id})}") for id in ids],
        "compare": [
            Question(f"/compare?{urlencode({'first': a, 'second': b})}")
            for a, b in itertools.pairwise(entities)
        ],
        "subproblem": [Question(f"/subproblem/{home}") for home in homes.values()],
        "neighbourhood": [Question(f"/neighbourhood/{id}") for id in entities],
        "home": [Question("/")],
        "quality": [Question("/quality")],
        "runs": [Question("/runs")],
    }


def _name(fragment: Fragment) -> str:
    names = naming(tuple(fragment.properties))
    return " ".join(v[0] for a, v in fragment.properties.items() if a in names)


def _text(rng: random.Random, name: str, frequent: str) -> str:
    """What somebody types who looks for a name."""
    kind = rng.randrange(4)
    if kind == 0:
        return name[: rng.randint(2, max(2, len(name)))]
    if kind == 1:
        return _mistyped(rng, name)
    return frequent if kind == 2 and rng.random() < 0.2 else name


def _mistyped(rng: random.Random, text: str) -> str:
    at = rng.randrange(len(text))
    return text[:at] + rng.choice("abcdefghijklmnoprstuw") + text[at + 1 :]


def _unknown(rng: random.Random, fragment: Fragment) -> bytes:
    """A fragment that says about the same, as the body of a match."""
    said = {a: [*values] for a, values in fragment.properties.items()}
    attribute = rng.choice([*said])
    said[attribute][0] = _mistyped(rng, said[attribute][0])
    return json.dumps({"id": f"new-{rng.getrandbits(40)}", "properties": said}).encode()


class Reader(threading.Thread):
    """Asks one question after another until it is time to end."""

    def __init__(self, port: int, asked: Sequence[Question], until: float, seed: int) -> None:
        super().__init__()
        self._port, self._asked, self._until = port, asked, until
        self._rng = random.Random(seed)
        self.times: list[tuple[float, float]] = []  # of the server and of the reader, ms
        self.wrong: Counter[str] = Counter()

    def run(self) -> None:
        """Ask."""
        connection = HTTPConnection("127.0.0.1", self._port, timeout=120)
        while time.monotonic() < self._until:
            path, body = self._rng.choice(self._asked)
            headers = {"Content-Type": "application/json"} if body else {"Accept": "text/html"}
            begin = time.perf_counter()
            connection.request("POST" if body else "GET", path, body, headers)
            answer = connection.getresponse()
            answer.read()
            took = (time.perf_counter() - begin) * 1000
            if answer.status != 200:
                self.wrong[f"{answer.status} {path[:60]}"] += 1
                continue
            told = answer.headers.get("server-timing", "").partition("dur=")[2]
            self.times.append((float(told or "nan"), took))
        connection.close()


def _read(
    port: int, asked: Sequence[Question], seconds: float, readers: int, seed: int, out: Any
) -> None:
    """One process with some readers."""
    until = time.monotonic() + seconds
    threads = [Reader(port, asked, until, seed + n) for n in range(readers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    wrong = sum((thread.wrong for thread in threads), Counter[str]())
    out.put(([one for thread in threads for one in thread.times], wrong))


def measure(
    port: int, asked: Sequence[Question], seconds: float, readers: int, processes: int
) -> tuple[list[tuple[float, float]], Counter[str]]:
    """The times of all readers, and how often which answer was not 200."""
    context = multiprocessing.get_context("spawn")
    out = context.SimpleQueue()
    shares = [len(range(n, readers, processes)) for n in range(processes)]
    running = [
        context.Process(target=_read, args=(port, asked, seconds, share, 1000 * n, out))
        for n, share in enumerate(shares)
        if share
    ]
    for process in running:
        process.start()
    found = [out.get() for _ in running]
    for process in running:
        process.join()
    return [one for times, _ in found for one in times], sum((w for _, w in found), Counter())


def at(times: Sequence[float], share: float) -> float:
    """The time at a percentile."""
    return sorted(times)[min(int(share * len(times)), len(times) - 1)]


def cpu_seconds(process: int) -> float:
    """The processor time that a process and its children have used."""
    ticks = 0
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):  # it has ended
            fields = path.read_text().rpartition(")")[2].split()
            if process in (int(path.parent.name), int(fields[1])):
                ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as found:
        port: int = found.getsockname()[1]
        return port


def served(store: str, port: int, use: Callable[[int], None]) -> None:
    """Serve the store while `use` runs, which gets the number of the process."""
    command = [sys.executable, "-P", "-m", "kbforge.cli.main", "serve", store, "--port", str(port)]
    with subprocess.Popen(command) as server:
        try:
            end = time.monotonic() + 300
            while True:
                try:
                    connection = HTTPConnection("127.0.0.1", port, timeout=120)
                    connection.request("GET", "/")
                    if connection.getresponse().status == 200:
                        break
                except OSError:
                    if time.monotonic() > end or server.poll() is not None:
                        sys.exit("the server does not answer")
                time.sleep(0.2)
            use(server.pid)
        finally:
            server.send_signal(signal.SIGINT)


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("store")
    parser.add_argument("--readers", type=int, default=8)
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--processes", type=int, default=2, help="that the readers are in")
    parser.add_argument("--kinds", help="separated by commas; all if left out")
    given = parser.parse_args()
    kinds = questions(given.store, random.Random(1))
    kinds[MIXED] = [one for kind in ("entity", "search", "match") for one in kinds[kind]]
    wanted = given.kinds.split(",") if given.kinds else list(kinds)
    port = _free_port()
    head = ["kind", "a second", "cpu"]
    head += [f"{who} p{share}" for who in ("server", "reader") for share in (50, 95, 99)]
    rows: list[list[str]] = []

    def use(server: int) -> None:
        for kind in wanted:
            measure(port, kinds[kind], 2.0, given.readers, given.processes)  # caches fill
            used = -cpu_seconds(server)
            times, wrong = measure(port, kinds[kind], given.seconds, given.readers, given.processes)
            used += cpu_seconds(server)
            for answer, count in wrong.most_common(3):
                print(f"{kind}: {count} times {answer}", file=sys.stderr)
            if not times:
                rows.append([kind, "0", *["-"] * 7])
                continue
            answers = len(times) + wrong.total()
            row = [kind, f"{len(times) / given.seconds:,.0f}", f"{1000 * used / answers:.1f}"]
            for which in (0, 1):
                own = [one[which] for one in times]
                row += [f"{at(own, share):.1f}" for share in (0.5, 0.95, 0.99)]
            rows.append(row)
            print("  ".join(row), file=sys.stderr)

    served(given.store, port, use)
    print(table(head, rows))


if __name__ == "__main__":
    main()

"""How fast a served store answers while several readers ask at once.

    python examples/reproductions/serve_speed.py STORE [--readers 8] [--seconds 20] [--processes 2]
    python examples/reproductions/serve_speed.py STORE --writes FILE [--minutes 2] [--steady 10]

Starts `kbforge serve` on the store and asks from other processes, over connections that stay open.
Each reader waits for an answer before it asks again. It measures one kind of question after
another, and then some of them mixed: lists with several filters and orders, pages of entities,
searches (names, their beginnings, names with a typing error, and the most frequent word), matches
of fragments that the store does not have, and the other pages. Times are milliseconds at the 50th,
95th and 99th percentile: of the server, by its `Server-Timing` header, and of the reader; `cpu` is
the server's processor time of one answer, which other programs on the machine hardly change, and
`load` the load of the machine before. Every answer must be 200.

With `--writes` it serves a copy of the store, and measures while the readers go on asking: answers
to questions of the review, decisions and their undo, one after another; then batches of 500
fragments of FILE, with new ids, for some minutes at 1,000 a second as far as the server keeps up;
then resident memory minute by minute, under all of it. At the end it prints what was asked of a
store of a million, and what was measured.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import json
import multiprocessing
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from http.client import HTTPConnection
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import parse_qs, urlencode, urlsplit

from shell import table

from kbforge.contracts import Fragment
from kbforge.kb.entities import naming
from kbforge.store.database import SEARCH
from kbforge.store.tables import ask
from kbforge_serve.listing import ORDERS, listing
from kbforge_serve.readers import Readers

SAMPLED = 2_000
MIXED = "all mixed"
BATCH = 500
RATE = 1_000
"""Fragments a second."""
ASKED = {"list": 200, "entity": 200, "match": 50, "answer": 500}
"""Milliseconds at the 99th percentile, of a million records."""


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
    after = {order: listing(readers, order=order).after or "" for order in ORDERS}
    readers.close()
    ids = [fragment.id for fragment in fragments]
    names = [name for name in map(_name, fragments) if name]
    frequent = Counter(word for name in names for word in name.split()).most_common(1)[0][0]
    texts = [_text(rng, name, frequent) for name in names]
    return {
        "list": lists(rng, fragments, after),
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


def lists(
    rng: random.Random, fragments: Sequence[Fragment], after: dict[str, str]
) -> list[Question]:
    """Pages of the list of entities: each filter alone, and two of them, in both orders."""
    asked: list[Question] = []
    for one in fragments:
        attribute = rng.choice([*one.properties])
        value = rng.choice(one.properties[attribute])
        order = rng.choice(ORDERS)
        filters = [
            {},
            {"after": after[order]} if after[order] else {},
            {"text": value},
            {"where": attribute},
            {"where": f"!{attribute}"},
            {"where": f"{attribute}={value}"},
            {"least_size": rng.randint(2, 6)},
            {"most_size": 1},
            {"most_confidence": rng.choice((0.5, 0.9, 0.99))},
            {"source": one.source or "none"},
            {"since": rng.randint(0, 1)},
            {"decided": "true"},
            {"where": f"{attribute}={value}", "least_size": 2},
            {"where": f"!{attribute}", "most_confidence": 0.9},
        ]
        given = {"order": order, **rng.choice(filters)}
        if rng.random() < 0.5:
            given["columns"] = attribute
        path = rng.choice(("/entities", "/api/entities"))
        asked.append(Question(f"{path}?{urlencode(given)}"))
    return asked


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


class Times(NamedTuple):
    """Milliseconds of the server and of the reader, and what was asked."""

    server: float
    reader: float
    path: str


def ask_once(connection: HTTPConnection, question: Question) -> tuple[int, bytes, Times]:
    """Ask, and wait for the answer: its status, its body and its times."""
    path, body = question
    headers = {"Content-Type": "application/json"} if body is not None else {"Accept": "text/html"}
    begin = time.perf_counter()
    connection.request("GET" if body is None else "POST", path, body, headers)
    answer = connection.getresponse()
    said = answer.read()
    took = (time.perf_counter() - begin) * 1000
    told = answer.headers.get("server-timing", "").partition("dur=")[2]
    return answer.status, said, Times(float(told or "nan"), took, path)


class Reader(threading.Thread):
    """Asks one question after another until it is time to end."""

    def __init__(self, port: int, asked: Sequence[Question], until: float, seed: int) -> None:
        super().__init__()
        self._port, self._asked, self._until = port, asked, until
        self._rng = random.Random(seed)
        self.times: list[Times] = []
        self.wrong: Counter[str] = Counter()

    def run(self) -> None:
        """Ask."""
        connection = HTTPConnection("127.0.0.1", self._port, timeout=120)
        while time.monotonic() < self._until:
            status, _, times = ask_once(connection, self._rng.choice(self._asked))
            if status == 200:
                self.times.append(times)
            else:
                self.wrong[f"{status} {times.path[:60]}"] += 1
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


class Load:
    """Readers that ask for some seconds, in processes of their own.

    `measured` waits for their end, and gives the times of all answers, and which were not 200.
    """

    def __init__(
        self, port: int, asked: Sequence[Question], seconds: float, readers: int, processes: int
    ) -> None:
        context = multiprocessing.get_context("spawn")
        self._out = context.SimpleQueue()
        shares = [len(range(n, readers, processes)) for n in range(processes)]
        self._running = [
            context.Process(target=_read, args=(port, asked, seconds, share, 1000 * n, self._out))
            for n, share in enumerate(shares)
            if share
        ]
        for process in self._running:
            process.start()

    def measured(self) -> tuple[list[Times], Counter[str]]:
        """What they measured."""
        found = [self._out.get() for _ in self._running]
        for process in self._running:
            process.join()
        return [one for times, _ in found for one in times], sum((w for _, w in found), Counter())


def at(times: Sequence[float], share: float) -> float:
    """The time at a percentile."""
    return sorted(times)[min(int(share * len(times)), len(times) - 1)]


def _of(process: int) -> Iterator[list[str]]:
    """What Linux says of a process and its children."""
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):  # it has ended
            fields = path.read_text().rpartition(")")[2].split()
            if process in (int(path.parent.name), int(fields[1])):
                yield fields


def cpu_seconds(process: int) -> float:
    """The processor time that a process and its children have used."""
    ticks = sum(int(fields[11]) + int(fields[12]) for fields in _of(process))
    return ticks / os.sysconf("SC_CLK_TCK")


def resident(process: int) -> float:
    """The memory of a process and its children, in MiB."""
    pages = sum(int(fields[21]) for fields in _of(process))
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as found:
        port: int = found.getsockname()[1]
        return port


def served(store: str, port: int, use: Callable[[int], None]) -> None:
    """Serve the store while `use` runs, which gets the number of the process."""
    command = [sys.executable, "-P", "-m", "kbforge.cli.main", "serve", store, "--port", str(port)]
    with subprocess.Popen(command) as server:
        try:
            end = time.monotonic() + 900
            while True:
                try:
                    connection = HTTPConnection("127.0.0.1", port, timeout=120)
                    connection.request("GET", "/search?q=a")
                    if connection.getresponse().status == 200:
                        break
                except OSError:
                    if time.monotonic() > end or server.poll() is not None:
                        sys.exit("the server does not answer")
                time.sleep(0.2)
            use(server.pid)
        finally:
            server.send_signal(signal.SIGINT)


class Measurement:
    """What one server was measured to do, with the readers' kinds of questions."""

    def __init__(self, given: argparse.Namespace, port: int, server: int) -> None:
        self.given, self.port, self.server = given, port, server
        self.kinds = questions(given.store, random.Random(1))
        self.kinds[MIXED] = [
            one for kind in ("list", "entity", "search", "match") for one in self.kinds[kind]
        ]
        self.rows: list[list[str]] = []
        self.asked: list[list[str]] = []

    def load(self, kind: str, seconds: float) -> Load:
        """The readers, who begin to ask."""
        given = self.given
        return Load(self.port, self.kinds[kind], seconds, given.readers, given.processes)

    def reading(self, kinds: Sequence[str]) -> None:
        """Measure the kinds of questions, one after another."""
        for kind in kinds:
            self.load(kind, 2.0).measured()  # caches fill
            begin, load = cpu_seconds(self.server), os.getloadavg()[0]
            times, wrong = self.load(kind, self.given.seconds).measured()
            used = cpu_seconds(self.server) - begin
            self.note(kind, times, wrong, self.given.seconds, used, load)

    def note(
        self,
        kind: str,
        times: Sequence[Times],
        wrong: Counter[str],
        seconds: float,
        used: float,
        load: float,
    ) -> None:
        """Keep a row of figures, and print it."""
        for answer, count in wrong.most_common(3):
            print(f"{kind}: {count} times {answer}", file=sys.stderr)
        if not times:
            self.rows.append([kind, "0", *["-"] * 8])
            return
        answers = len(times) + wrong.total()
        row = [kind, f"{len(times) / seconds:,.1f}", f"{1000 * used / answers:.1f}", f"{load:.1f}"]
        for own in ([one.server for one in times], [one.reader for one in times]):
            row += [f"{at(own, share):.1f}" for share in (0.5, 0.95, 0.99)]
        self.rows.append(row)
        print("  ".join(row), file=sys.stderr)
        for one in sorted(times, key=lambda one: -one.server)[:3]:
            print(f"    slowest: {one.server:.0f} {one.path[:120]}", file=sys.stderr)
        if (most := ASKED.get(kind.split()[0])) is not None:
            measured = f"{at([one.server for one in times], 0.99):.0f} ms"
            self.asked.append([f"{kind}, 99th percentile", f"{most} ms", measured])

    # -- writing ------------------------------------------------------------------------------

    def answering(self, seconds: float) -> None:
        """Measure answers, decisions and their undo, one after another, beside readers."""
        pairs, connection = itertools.cycle(self.pairs()), self._connection()
        readers = self.load(MIXED, seconds)
        begin, load = cpu_seconds(self.server), os.getloadavg()[0]
        until, times, wrong = time.monotonic() + seconds, list[Times](), Counter[str]()

        def post(path: str, said: object) -> dict[str, Any]:
            status, body, took = ask_once(connection, Question(path, json.dumps(said).encode()))
            if status == 200:
                times.append(took)
            elif status != 409:  # it contradicts an earlier one
                wrong[f"{status} {path} {body[:200]!r}"] += 1
            found: dict[str, Any] = json.loads(body)
            return found

        while time.monotonic() < until:
            asked = json.loads(ask_once(connection, Question("/api/review"))[1])["question"]
            if asked:
                pair = {"first": asked["first"], "second": asked["second"]}
                post("/api/review", {**pair, "same": asked["asked"]["reported"] > 0.5})
            first, second = next(pairs)
            for same in (True, False):
                made = post("/api/decisions", {"first": first, "second": second, "same": same})
                if made.get("decision") is not None:
                    post(f"/api/decisions/{made['decision']}/undo", {})
        reading, refused = readers.measured()
        used = cpu_seconds(self.server) - begin
        self.note("answer", times, wrong, seconds, used, load)
        self.note(f"{MIXED}, beside answers", reading, refused, seconds, used, load)

    def pairs(self) -> list[tuple[str, str]]:
        """Fragments about which a person might decide: two of one subproblem, and two that are far
        from each other."""
        rng, found = random.Random(2), list[tuple[str, str]]()
        ids = [parse_qs(urlsplit(one.path).query)["id"][0] for one in self.kinds["fragment"]]
        connection = self._connection()
        for id in rng.sample(ids, min(200, len(ids))):
            said = ask_once(connection, Question(f"/api/similar?{urlencode({'fragment': id})}"))[1]
            near = [one["fragment"] for one in json.loads(said)["similar"]][:1]
            found += [(id, other) for other in near or rng.sample(ids, 1) if other != id]
        return found

    def adding(self, seconds: float) -> None:
        """Measure the addition of batches, beside readers; as many a second as asked, if it can."""
        readers = self.load(MIXED, seconds)
        begin, load = cpu_seconds(self.server), os.getloadavg()[0]
        start, connection = time.monotonic(), self._connection()
        times, wrong = list[Times](), Counter[str]()
        for n, batch in enumerate(self.batches()):
            time.sleep(max(0.0, start + n * BATCH / RATE - time.monotonic()))
            if time.monotonic() > start + seconds:
                break
            status, body, took = ask_once(connection, Question("/api/fragments", batch))
            if status == 200:
                times.append(took)
            else:
                wrong[f"{status} {body[:200]!r}"] += 1
        lasted = time.monotonic() - start
        reading, refused = readers.measured()
        used = cpu_seconds(self.server) - begin
        self.note(f"{BATCH} more", times, wrong, lasted, used, load)
        self.note(f"{MIXED}, beside additions", reading, refused, seconds, used, load)
        rate = BATCH * len(times) / lasted
        self.asked.append(["fragments a second, beside readers", f"{RATE:,}", f"{rate:,.0f}"])

    def batches(self) -> Iterator[bytes]:
        """The fragments of a file under new ids, in batches."""
        rng = random.Random(time.time_ns())
        with Path(self.given.writes).open("rb") as lines:
            while part := list(itertools.islice(lines, BATCH)):
                many = [json.loads(line) for line in part]
                for one in many:
                    one["id"] = f"more-{rng.getrandbits(60):x}"
                    one.pop("label", None)
                yield json.dumps(many).encode()

    def steady(self, minutes: float) -> None:
        """Measure memory by the minute, while readers ask and a person answers."""
        held = [resident(self.server)]
        while len(held) <= minutes:
            self.answering(60.0)
            held.append(resident(self.server))
            print(f"{held[-1]:,.0f} MiB", file=sys.stderr)
        said = " ".join(f"{one:,.0f}" for one in held)
        self.asked.append(["MiB resident, by the minute", "flat", said])

    def _connection(self) -> HTTPConnection:
        return HTTPConnection("127.0.0.1", self.port, timeout=600)


def main() -> None:
    """Print tables."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("store")
    parser.add_argument("--readers", type=int, default=8)
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--processes", type=int, default=2, help="that the readers are in")
    parser.add_argument("--kinds", help="separated by commas, or none; all if left out")
    parser.add_argument("--writes", metavar="FILE", help="measure writes: fragments to add")
    parser.add_argument("--minutes", type=float, default=2.0, help="of additions")
    parser.add_argument("--steady", type=float, default=10.0, help="minutes of constant memory")
    given = parser.parse_args()
    head = ["kind", "a second", "cpu", "load"]
    head += [f"{who} p{share}" for who in ("server", "reader") for share in (50, 95, 99)]
    with contextlib.ExitStack() as held:
        if given.writes:
            folder = held.enter_context(tempfile.TemporaryDirectory(dir=Path(given.store).parent))
            for name in (given.store, f"{given.store}{SEARCH}"):
                if Path(name).exists():
                    shutil.copy(name, folder)
            given.store = str(Path(folder) / Path(given.store).name)
        port = _free_port()

        def use(server: int) -> None:
            measured = Measurement(given, port, server)
            kinds = [*measured.kinds] if given.kinds is None else given.kinds.split(",")
            try:
                measured.reading([kind for kind in kinds if kind != "none"])
                if given.writes:
                    measured.answering(given.seconds)
                    if given.minutes:
                        measured.adding(60 * given.minutes)
                    if given.steady:
                        measured.steady(given.steady)
            finally:
                print(table(head, measured.rows))
                print(table(["asked", "at most", "measured"], measured.asked))

        served(given.store, port, use)


if __name__ == "__main__":
    main()

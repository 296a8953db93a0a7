"""`make soak`: a server is killed while fragments come, and none that it acknowledged is lost.

A client sends made-up people to a store in batches, at a rate, beside readers of entities and of
the search. This is done twice, from the same store. The first server goes through; its rate and how
long answers took are told. The second one is killed (SIGKILL) at random moments and started again,
and the client sends again what was not acknowledged. After each kill all that was acknowledged must
be there, and in the end the sorted dumps of both stores must be equal. A plain copy of the file of
a killed store has all of it, or says that it may lack something.

At last a server is stopped (SIGINT, SIGTERM) as soon as it has acknowledged 1,000 fragments, and a
plain copy of the file must have all of them.

Runs end by their fragments alone here, not by the clock, so that both stores have the same ones.
"""

from __future__ import annotations

import argparse
import os
import random
import resource
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import httpx
import numpy as np

from kbforge.contracts import Fragment
from kbforge.files.fragments import to_line
from kbforge.fit.choices import RunOptions
from kbforge.jobs.update import add_fragments
from kbforge.store.database import Database
from kbforge.store.store import Store
from tests.people import people
from tests.store.copies import require_honest_copy, require_whole_copy
from tests.store.dump import dump

READERS = 8
STOPPED = 1_000
"""Fragments that are acknowledged before a clean stop."""
PAUSE = 0.5
"""Seconds between two requests of a reader."""
STOPS = (signal.SIGINT, signal.SIGTERM)
_NEVER = 1e6  # seconds
_STARTING = 60.0  # seconds at most


def main() -> int:
    """Send, kill, compare and tell; 1 if a store differs or a fragment is lost."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--base", type=int, default=10_000, help="fragments in the store before")
    parser.add_argument("--seconds", type=float, default=120, help="of sending")
    parser.add_argument("--rate", type=float, default=1000, help="fragments a second")
    parser.add_argument("--batch", type=int, default=500, help="fragments of a request")
    parser.add_argument("--kills", type=int, default=10)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--serve", nargs=2, metavar=("STORE", "PORT"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        serve(*options.serve)
        return 0
    # who is started in the background ignores Ctrl-C, and so would the servers
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    coming = max(int(options.rate * options.seconds), STOPPED)
    found = people((options.base + coming) // 3 + 1000, options.seed)
    first, new = found[: options.base], found[options.base : options.base + coming]
    with tempfile.TemporaryDirectory() as folder:
        whole, killed = Path(folder, "whole.sqlite"), Path(folder, "killed.sqlite")
        add_fragments(str(whole), first, RunOptions(likelihood="attributes"))
        shutil.copy(whole, killed)
        clean = [shutil.copy(whole, Path(folder, f"{by.name}.sqlite")) for by in STOPS]
        batches = [new[at : at + options.batch] for at in range(0, len(new), options.batch)]
        names = [value for x in first[:2000] for value in x.properties.get("name", ())]
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        with ServerProcess(whole) as server, server.readers(names) as seconds:
            print(sent(server, batches, options.rate), flush=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        reads = np.quantile(seconds, [0.5, 0.99])
        print(
            f"{len(seconds):,} reads beside: half within {1000 * reads[0]:.0f} ms, 99 % within "
            f"{1000 * reads[1]:.0f} ms (as the client sees them); "
            f"the server took {spent:.0f} s of the processor",
            flush=True,
        )
        lost, hits = sent_and_killed(killed, batches, options.kills, random.Random(options.seed))
        print(f"{hits} kills, {lost} acknowledged fragments lost", flush=True)
        for by, store in zip(STOPS, clean, strict=True):
            lacks = sent_and_stopped(store, new[:STOPPED], by)
            print(f"{by.name}: a copy lacks {lacks} of {STOPPED:,} acknowledged", flush=True)
            lost += lacks
        differ = sorted(set(dump(whole)) ^ set(dump(killed)))
    if lost or differ:
        print("\n".join(differ[:10]))
        return 1
    print("the store equals the one that was not killed")
    return 0


class ServerProcess:
    """A server in a process of its own, on a port that stays the same, with its log in a file."""

    def __init__(self, store: Path, log: Path | None = None) -> None:
        self.store, self.log = store, log or Path(os.devnull)
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port: int = free.getsockname()[1]
        self.client = httpx.Client(base_url=f"http://127.0.0.1:{self.port}", timeout=60)
        self.start()

    def start(self) -> None:
        """Start, and wait until it answers."""
        command = [sys.executable, "-m", "tests.serve.soak.serve", "--serve", str(self.store)]
        with self.log.open("ab") as log:
            self.process = subprocess.Popen([*command, str(self.port)], stderr=log)
        until = time.monotonic() + _STARTING
        while time.monotonic() < until:
            try:
                self.client.get("/api/fragment", params={"id": "nobody"})
            except httpx.TransportError:
                assert self.process.poll() is None, "the server ended by itself"
                time.sleep(0.05)
            else:
                return
        raise TimeoutError("the server does not answer")

    def add(self, batch: Sequence[Fragment]) -> bool:
        """Send fragments until they are acknowledged; False if the server has died."""
        body = b"\n".join(map(to_line, batch))
        while True:
            try:
                answer = self.client.post(
                    "/api/fragments",
                    content=body,
                    headers={"content-type": "application/x-ndjson"},
                )
            except httpx.TransportError:
                return False
            if answer.status_code != 503:
                answer.raise_for_status()
                return True
            time.sleep(float(answer.headers["retry-after"]))

    @contextmanager
    def readers(self, names: Sequence[str]) -> Iterator[list[float]]:
        """Read beside; gives the seconds that each answer took. A failure fails the soak."""
        seconds: list[float] = []
        failed: list[object] = []
        stop = threading.Event()

        def read(seed: int) -> None:
            rng = random.Random(seed)
            with httpx.Client(base_url=self.client.base_url, timeout=60) as client:
                try:
                    while not stop.wait(PAUSE):
                        found = asked(client, "/api/search", q=rng.choice(names))
                        if results := found.get("results"):
                            asked(client, f"/api/entities/{rng.choice(results)['id']}")
                except httpx.HTTPError as error:
                    failed.append(error)

        def asked(client: httpx.Client, path: str, **parameters: str) -> dict[str, Any]:
            begin = time.perf_counter()
            try:
                answer = client.get(path, params=parameters)
            except httpx.RemoteProtocolError:
                # a server may close a connection between two requests: the client asks again
                answer = client.get(path, params=parameters)
            seconds.append(time.perf_counter() - begin)
            answer.raise_for_status()
            read: dict[str, Any] = answer.json()
            return read

        threads = [threading.Thread(target=read, args=(seed,)) for seed in range(READERS)]
        for thread in threads:
            thread.start()
        try:
            yield seconds
        finally:
            stop.set()
            for thread in threads:
                thread.join()
        assert not failed, f"a reader was not served: {failed[0]}"

    def kill(self) -> None:
        """End without a chance to tidy up."""
        self.process.kill()
        self.process.wait()

    def __enter__(self) -> ServerProcess:
        return self

    def __exit__(self, *_: object) -> None:
        self.client.close()
        self.process.send_signal(signal.SIGTERM)
        self.process.wait()


def sent(server: ServerProcess, batches: Sequence[Sequence[Fragment]], rate: float) -> str:
    """Send batches at a rate; returns a sentence on the rate that was reached."""
    begin, due, took = time.perf_counter(), 0.0, list[float]()
    for batch in batches:
        time.sleep(max(begin + due - time.perf_counter(), 0))
        before = time.perf_counter()
        assert server.add(batch), "the server died"
        took.append(time.perf_counter() - before)
        due += len(batch) / rate
    seconds = max(time.perf_counter() - begin, due)
    count = sum(map(len, batches))
    half, most = np.quantile(took, [0.5, 0.99])
    return (
        f"{count:,} fragments in {seconds:.0f} s, {count / seconds:,.0f} a second; a batch of "
        f"{len(batches[0])} is on disk within {1000 * half:.0f} ms, 99 % of them within "
        f"{1000 * most:.0f} ms"
    )


def sent_and_killed(
    store: Path, batches: Sequence[Sequence[Fragment]], kills: int, rng: random.Random
) -> tuple[int, int]:
    """Send batches to a server that is killed; returns acknowledged fragments lost, and kills."""
    last, lost, hits = 0.1, 0, 0
    acknowledged: list[str] = []
    moments = set(rng.sample(range(len(batches)), min(kills, len(batches))))
    with ServerProcess(store) as server:
        for number, batch in enumerate(batches):
            killer = threading.Timer(rng.uniform(0, last), server.process.kill)
            if number in moments:
                killer.start()
            before = time.perf_counter()
            done = server.add(batch)
            last = time.perf_counter() - before if done else last
            if done:
                acknowledged.extend(x.id for x in batch)
            if number in moments:
                killer.join()
                server.kill()
                hits += 1
                lost += missing(store, acknowledged)
                require_honest_copy(store)
                server.start()
                if not done:
                    assert server.add(batch), "the server died by itself"
                    acknowledged.extend(x.id for x in batch)
    require_whole_copy(store)
    return lost + missing(store, acknowledged), hits


def sent_and_stopped(store: Path, fragments: Sequence[Fragment], by: signal.Signals) -> int:
    """Stop a server once it has acknowledged fragments; how many a copy of the file lacks."""
    with ServerProcess(store) as server:
        for at in range(0, len(fragments), 50):
            assert server.add(fragments[at : at + 50]), "the server died"
        server.process.send_signal(by)
        server.process.wait()
    require_whole_copy(store)
    copy = shutil.copy(store, store.with_suffix(".copy"))
    return missing(copy, [one.id for one in fragments])


def missing(store: Path, ids: Sequence[str]) -> int:
    """How many of these fragments the store lacks."""
    with Database(str(store)) as database:
        return len(set(ids)) - len(Store(database).pages.numbers(ids))


def serve(store: str, port: str) -> None:
    """Be the server; runs end by their fragments alone."""
    from kbforge_serve.app import application
    from kbforge_serve.server import listen
    from kbforge_serve.server import serve as run
    from kbforge_serve.service import Service

    service = Service(store, helpers=2)
    service.writer.idle = service.writer.run_seconds = _NEVER
    with listen("127.0.0.1", int(port)) as listening, suppress(KeyboardInterrupt):
        run(application(service), listening, service.feed.stop)


if __name__ == "__main__":
    sys.exit(main())

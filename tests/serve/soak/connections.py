"""`make soak`: many connections keep a server waiting, and readers beside them are served.

A quarter of the connections each sends nothing, a part of its headers, its body a byte a second,
or follows the changes. One that the server closes is opened again after five seconds. The server
may open as many files as on most systems. Eight readers ask beside: all are answered, 99 % of them
within a second, and the server's log has at most a hundred lines.
"""

import argparse
import asyncio
import contextlib
import multiprocessing
import resource
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from itertools import cycle
from multiprocessing.queues import SimpleQueue
from multiprocessing.synchronize import Event
from pathlib import Path

import numpy as np

from kbforge.fit.choices import RunOptions
from kbforge.jobs.update import add_fragments
from tests.people import people
from tests.serve.soak.serve import ServerProcess

FILES = 1024
"""Files that the server may open."""
LATEST = 1.0
"""Seconds within which 99 % of the readers are answered."""
MOST_LINES = 100
_AGAIN = 5.0  # seconds until a connection that was closed is opened again
_STEP = 1.0  # seconds between two bytes of the slow ones
_HOST = b"Host: localhost\r\n"
KINDS = {
    "idle": b"",
    "half headers": b"GET / HTTP/1.1\r\n" + _HOST,
    "slow body": b"POST /api/fragments HTTP/1.1\r\n" + _HOST + b"Content-Length: 100000\r\n\r\n",
    "followers": b"GET /api/changes/stream HTTP/1.1\r\n" + _HOST + b"\r\n",
}
"""By kind, how a connection begins."""
_GOES_ON = {"half headers": b"X-Slow: 1\r\n", "slow body": b"x"}


def main() -> int:
    """Keep waiting, read and tell; 1 if readers waited or the log is long."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--connections", type=int, default=1500)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--base", type=int, default=10_000, help="fragments in the store")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        seconds, lines = besieged(
            Path(folder), options.base, options.connections, options.seconds, FILES
        )
    late = float(np.quantile(seconds, 0.99))
    return int(late > LATEST or lines > MOST_LINES)


def besieged(
    folder: Path, base: int, connections: int, seconds: float, files: int
) -> tuple[list[float], int]:
    """How long readers waited for answers beside many connections, and how many lines were logged.

    A reader that is not answered fails it.
    """
    store, log = folder / "kb.sqlite", folder / "log"
    found = people(base // 3 + 100, 0)[:base]
    add_fragments(str(store), found, RunOptions(likelihood="attributes"))
    names = [value for x in found[:2000] for value in x.properties.get("name", ())]
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (files, hard))  # the server inherits it
    try:
        server = ServerProcess(store, log)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    with server:
        with server.readers(names) as took, crowd(server.port, connections) as met:
            time.sleep(seconds)
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
    spent = resource.getrusage(resource.RUSAGE_CHILDREN)
    lines = len(log.read_text().splitlines())
    half, late = np.quantile(took, [0.5, 0.99])
    print(
        f"{len(took):,} reads beside {connections:,} connections: half within {1000 * half:.0f} "
        f"ms, 99 % within {1000 * late:.0f} ms; {lines} lines in the log; the server took "
        f"{spent.ru_utime + spent.ru_stime - before.ru_utime - before.ru_stime:.0f} s of the "
        f"processor; of the others {', '.join(f'{n:,} {what}' for what, n in met.items())}",
        flush=True,
    )
    return took, lines


@contextlib.contextmanager
def crowd(port: int, connections: int) -> Iterator[Counter[str]]:
    """Keep connections open from a process of its own; gives what they have met, at the end."""
    context = multiprocessing.get_context("spawn")
    stop, out = context.Event(), context.SimpleQueue()
    process = context.Process(target=_crowd, args=(port, connections, stop, out))
    process.start()
    met = out.get()  # it has begun
    try:
        yield met
    finally:
        stop.set()
        met.update(out.get())
        process.join()


def _crowd(port: int, connections: int, stop: Event, out: SimpleQueue[Counter[str]]) -> None:
    """Be the process."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    met = Counter[str]()

    async def all_of_them() -> None:
        kinds = [kind for kind, _ in zip(cycle(KINDS), range(connections), strict=False)]
        tasks = [asyncio.create_task(_keep(port, kind, met)) for kind in kinds]
        out.put(met)
        while not stop.is_set():
            await asyncio.sleep(0.1)
        for task in tasks:
            task.cancel()

    asyncio.run(all_of_them())
    out.put(met)


async def _keep(port: int, kind: str, met: Counter[str]) -> None:
    """Keep one connection open, again and again."""
    while True:
        with contextlib.suppress(OSError):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            met["opened"] += 1
            writer.write(KINDS[kind])
            slow = asyncio.create_task(_go_on(writer, kind))
            try:
                first = await reader.readline()
                met["answered 200" if b" 200 " in first else "closed"] += 1
                while first and b" 200 " in first and await reader.read(1 << 16):
                    pass
            finally:
                slow.cancel()
                writer.transport.abort()
        await asyncio.sleep(_AGAIN)


async def _go_on(writer: asyncio.StreamWriter, kind: str) -> None:
    """Send a little, time and again."""
    while kind in _GOES_ON:
        await asyncio.sleep(_STEP)
        writer.write(_GOES_ON[kind])


if __name__ == "__main__":
    sys.exit(main())

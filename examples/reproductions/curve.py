"""Time against the number of fragments: with the kernel, without it, Splink and dedupe.

    python examples/reproductions/curve.py FILE --sizes 1000,3000,10000 -o curve.svg
    python examples/reproductions/curve.py FILE --rivals /tmp/rivals/bin/python --sizes ...

Every program goes from the file to its clusters in a process of its own, the smallest file first; a
program that takes longer than --seconds gets no larger one. Splink and dedupe (`splink_side.py`,
`dedupe_side.py`) run in an environment of their own, whose interpreter --rivals names (BTrees 6
lacks what dedupe 3.0.3 calls):

    python3 -m venv /tmp/rivals
    /tmp/rivals/bin/pip install splink duckdb pyarrow dedupe 'BTrees<6'

The load of the machine is printed with the table: compare curves of one run only.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from shell import table

from kbforge.errors import KBForgeError
from kbforge.fit.choices import RunOptions
from kbforge.kernel.binding import kernel_status
from kbforge.pictures import save
from kbforge_lab.bench.figures import seconds_by_size
from kbforge_lab.bench.scale.measuring import measure_all, write_parts

SIDES = {"Splink": "splink_side.py", "dedupe": "dedupe_side.py"}


class Point(NamedTuple):
    """What one file took a program."""

    seconds: float
    cpu: float
    mib: float


def main() -> None:
    """Measure, print the table, draw."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("file", help="JSON lines file of fragments")
    parser.add_argument("--sizes", default="1000,3000,10000,30000")
    parser.add_argument("--likelihood", default="attributes")
    parser.add_argument("--rivals", metavar="PYTHON", help="interpreter that has Splink and dedupe")
    parser.add_argument("--seconds", type=float, default=300.0, help="that end a curve")
    parser.add_argument("-o", "--output", default="curve.svg")
    given = parser.parse_args()
    sizes = sorted({int(part) for part in given.sizes.split(",")})
    print(f"{kernel_status()}; load {os.getloadavg()[0]:.1f} before\n", flush=True)
    curves: dict[str, dict[int, Point]] = {}
    choices = RunOptions(likelihood=given.likelihood)

    def ours(size: int) -> Point:
        (one,) = measure_all(given.file, [size], choices)
        return Point(one.seconds, sum(one.cpu.values()), one.peak_mib or 0.0)

    curves["KBForge"] = curve(ours, sizes, given.seconds)
    if given.rivals:
        with tempfile.TemporaryDirectory() as folder:
            write_parts(given.file, sizes, "first", 0, Path(folder))
            for name, script in SIDES.items():
                side = [given.rivals, str(Path(__file__).with_name(script))]

                def theirs(size: int, side: list[str] = side, name: str = name) -> Point:
                    return rival(name, [*side, f"{folder}/{size}.jsonl"], given.seconds)

                curves[name] = curve(theirs, sizes, given.seconds)
    print(shown(curves, sizes))
    print(f"\nload {os.getloadavg()[0]:.1f} after")
    drawn = {name: [(n, p.seconds) for n, p in found.items()] for name, found in curves.items()}
    figure = seconds_by_size(drawn)
    if figure is not None:
        save(figure, given.output)


def curve(run: Callable[[int], Point], sizes: list[int], most: float) -> dict[int, Point]:
    """The points of a program, until one takes too long or fails."""
    found: dict[int, Point] = {}
    for size in sizes:
        try:
            found[size] = run(size)
        except KBForgeError as error:
            print(error, flush=True)
            break
        if found[size].seconds > most:
            break
    return found


def rival(name: str, command: list[str], most: float) -> Point:
    """Run a program of others; KBForgeError: it failed, or took more than so many seconds."""
    about = f"{name}, {Path(command[-1]).stem} fragments"
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            check=False,
            env=os.environ | {"OMP_NUM_THREADS": "1"},
            timeout=most,
        )
    except subprocess.TimeoutExpired:
        raise KBForgeError(f"{about}: ended after {most:g} seconds") from None
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["nothing said"])[-1]
        raise KBForgeError(f"{about}: {last}")
    found = json.loads(done.stdout)
    return Point(found["seconds"], found["cpu_seconds"], found["peak_mib"])


def shown(curves: dict[str, dict[int, Point]], sizes: list[int]) -> str:
    """A row a size: seconds on the wall, of the processor, MiB."""
    rows = []
    for size in sizes:
        row = [f"{size:,}"]
        for found in curves.values():
            point = found.get(size)
            row.append(
                f"{point.seconds:,.1f} ({point.cpu:,.1f}), {point.mib:,.0f}" if point else "-"
            )
        rows.append(row)
    return table(["fragments", *(f"{name}: s (processor), MiB" for name in curves)], rows)


if __name__ == "__main__":
    main()

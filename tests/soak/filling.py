"""Stores by the plain default, and models of many values: the slow part of `make soak`.

First every likelihood that keeps takes up what it kept of 60,000 different values. Then records are
put into a store by the plain default, in one go and killed at random moments, and fragments are
added: both stores must be equal, byte for byte, and readable.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path

from kbforge.files.fragments import write_fragments
from tests.likelihoods.test_kept_whole import KEEPING, require_kept, spellings
from tests.people import people
from tests.soak.__main__ import exported
from tests.soak.killing import fill, fill_killed
from tests.store.dump import dump


def main() -> int:
    """Run and tell; 1 if the stores differ."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--values", type=int, default=60_000, help="different, of a likelihood")
    parser.add_argument("--fragments", type=int, default=10_000, help="of the store")
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    known, later = spellings(options.values, 1), spellings(20, 2)
    for name in KEEPING:
        begin = time.perf_counter()
        require_kept(name, known, later)
        print(f"{time.perf_counter() - begin:.1f} s to keep and take up {name}", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        found = [*people(options.fragments // 3, options.seed), *spellings(3000, options.seed)]
        first, more = Path(folder, "first.jsonl"), Path(folder, "more.jsonl")
        write_fragments(found[100:], first)
        write_fragments(found[:100], more)
        whole, killed = Path(folder, "whole.sqlite"), Path(folder, "killed.sqlite")
        seconds = fill(whole, first)
        print(f"{seconds:.1f} s to fill a store by the plain default", flush=True)
        hit = fill_killed(killed, first, options.kills, seconds, options.seed)
        for store in (whole, killed):
            fill(store, more)
        same = dump(whole) == dump(killed) and exported(whole) == exported(killed)
        print(f"{hit} kills of {options.kills} hit; {'equal' if same else 'DIFFERENT'}")
        return 0 if same else 1


if __name__ == "__main__":
    sys.exit(main())

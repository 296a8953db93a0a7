"""`make soak`: 100 kills over an update of 20,000 fragments, and the store is as without them.

A store is made of the first half of some made-up people; then the other half comes. One copy is
filled in one go, the other is killed at random moments until the update has come to its end. Their
exports and their sorted dumps must be equal, byte for byte.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from kbforge.files.fragments import write_fragments
from tests.people import people
from tests.soak.killing import command, fill, fill_killed
from tests.store.dump import dump


def main() -> int:
    """Run and tell; 1 if the stores differ."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--fragments", type=int, default=20_000, help="of the update")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        first, update = Path(folder, "first.jsonl"), Path(folder, "update.jsonl")
        found = people(options.fragments, options.seed + 1)
        write_fragments(found[: options.fragments], first)
        write_fragments(found[options.fragments : 2 * options.fragments], update)
        whole, killed = Path(folder, "whole.sqlite"), Path(folder, "killed.sqlite")
        how = ["--likelihood", "attributes"]
        print(f"{fill(whole, first, how):.1f} s to make the store", flush=True)
        shutil.copy(whole, killed)
        seconds = fill(whole, update)
        print(f"{seconds:.1f} s for the update", flush=True)
        hit = fill_killed(killed, update, options.kills, seconds, options.seed)
        same = dump(whole) == dump(killed) and exported(whole) == exported(killed)
        print(f"{hit} kills of {options.kills} hit; {'equal' if same else 'DIFFERENT'}")
        return 0 if same else 1


def exported(store: Path) -> bytes:
    """What `kbforge export` writes."""
    return subprocess.run(
        command("export", store, "-o", "-"), check=True, capture_output=True
    ).stdout


if __name__ == "__main__":
    sys.exit(main())

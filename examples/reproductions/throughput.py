"""Speed and memory of split SMC (P = 100) with the bigram model on real people's names.

    KBFORGE_DATA=... python examples/reproductions/throughput.py

Each data set runs in a process of its own. Alpha is calibrated on the last records of
chadwick_100k, which are in neither test, and scaled by the number of fragments.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import tempfile
import time
from itertools import islice
from pathlib import Path

from shell import data_folder, kbforge, table

from kbforge.contracts import Progress
from kbforge.files.fragments import read_fragments, write_fragments
from kbforge.fit.alpha import read_calibration
from kbforge.fit.choices import RunOptions
from kbforge.jobs.cluster import cluster

LIKELIHOOD = "bigram"
SETS = {"chadwick_10k": None, "chadwick_100k": 20_000}
CALIBRATED_ON = 4_000
EARLY = (2_000, 4_000)
WINDOW = 2_000


def alpha_per_fragment() -> float:
    """The calibrated alpha, divided by the number of fragments it was calibrated on."""
    fragments = read_fragments(str(data_folder() / "chadwick/chadwick_100k.jsonl.gz"))
    with tempfile.TemporaryDirectory() as folder:
        held_out, found = Path(folder) / "held_out.jsonl", Path(folder) / "calibration.toml"
        write_fragments(list(islice(fragments, 90_000, 90_000 + CALIBRATED_ON)), held_out)
        search = ["--calibrator", "bcubed", "--between", "1e3,1e12", "--set", "particles=20"]
        kbforge("calibrate", held_out, "--likelihood", LIKELIHOOD, *search, "-o", found)
        return read_calibration(str(found)).alpha / CALIBRATED_ON


def measure(name: str, alpha: float) -> None:
    """Print one run's figures as JSON."""
    path = data_folder() / f"chadwick/{name}.jsonl.gz"
    fragments = list(read_fragments(str(path), limit=SETS[name]))
    marks: dict[int, float] = {}

    def on_step(progress: Progress) -> None:
        if progress.fragments % WINDOW == 0 or progress.fragments == len(fragments):
            marks[progress.fragments] = time.perf_counter()

    choices = RunOptions(likelihood=LIKELIHOOD, alpha=alpha * len(fragments))
    done = cluster(fragments, choices, on_step)
    early = (marks[EARLY[1]] - marks[EARLY[0]]) / (EARLY[1] - EARLY[0])
    last = sorted(marks)[-2:]
    late = (marks[last[1]] - marks[last[0]]) / (last[1] - last[0])
    summary = done.summary()
    summary["early_ms"], summary["late_ms"] = 1e3 * early, 1e3 * late
    summary["peak_mib"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps(summary))


def main() -> None:
    """Print the table."""
    if len(sys.argv) == 3:
        measure(sys.argv[1], float(sys.argv[2]))
        return
    alpha = alpha_per_fragment()
    rows = []
    for name in SETS:
        command = [sys.executable, __file__, name, repr(alpha)]
        done = subprocess.run(command, stdout=subprocess.PIPE, check=True)
        run = json.loads(done.stdout)
        rows.append(
            [
                name,
                f"{run['fragments']:,}",
                f"{run['clustered_per_second']:,.0f}",
                f"{run['early_ms']:.2f}",
                f"{run['late_ms']:.2f}",
                f"{run['late_ms'] / run['early_ms']:.2f}",
                f"{run['peak_mib']:,.0f}",
                f"{run['alpha']:.3g}",
            ]
        )
    head = ["set", "fragments", "fragments/s", "ms a fragment, 2,000-4,000", "ms at the end"]
    print(table([*head, "growth", "peak MiB", "alpha"], rows))


if __name__ == "__main__":
    main()

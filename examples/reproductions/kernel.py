"""The time that the kernel takes for a fragment, and how it grows with the file.

python examples/reproductions/kernel.py FILE... [--likelihood attributes] [--first 20000]
"""

from __future__ import annotations

import argparse
import time
from itertools import islice

import numpy as np

from kbforge import registry
from kbforge.contracts import ConjugateLikelihood, Fragment, ModelSpec
from kbforge.files.fragments import read_fragments
from kbforge.kernel.binding import kernel_status
from kbforge_plugins.clusterers.sequential import SplitSmc

_PART = 1000


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("files", nargs="+")
    parser.add_argument("--likelihood", default="attributes")
    parser.add_argument("--first", type=int, help="fragments of each file")
    parser.add_argument("--particles", type=int, default=100)
    given = parser.parse_args()
    print(kernel_status(), "\n")
    print("| file | fragments | likelihood | us a fragment | growth |")
    print("|---|---:|---|---:|---:|")
    for file in given.files:
        fragments = list(islice(read_fragments(file), given.first))
        likelihood = registry.create("likelihoods", given.likelihood, {})
        likelihood.fit(fragments)
        name = file.rsplit("/", 1)[-1]
        row = timed(likelihood, fragments, given.particles)
        print(f"| {name} | {len(fragments):,} | {given.likelihood} | {row} |", flush=True)


def timed(likelihood: ConjugateLikelihood, fragments: list[Fragment], particles: int) -> str:
    """Microseconds of the processor a fragment, and their growth.

    Growth is the time of the last tenth of the fragments over that of the second tenth.
    """
    spec = ModelSpec(likelihood, likelihood.default_alpha, index=likelihood.index)
    session = SplitSmc(particles=particles).open(spec, np.random.default_rng(0))
    seconds: list[float] = []
    for begin in range(0, len(fragments), _PART):
        started = time.process_time()
        session.add(fragments[begin : begin + _PART])
        seconds.append(time.process_time() - started)
    tenth = max(len(seconds) // 10, 1)
    growth = sum(seconds[-tenth:]) / max(sum(seconds[tenth : 2 * tenth]), 1e-9)
    return f"{1e6 * sum(seconds) / len(fragments):,.0f} | {growth:.2f}"


if __name__ == "__main__":
    main()

"""The compiled kernel beside the NumPy engine: processor time, in one process, by turns.

    python examples/reproductions/kernel.py FILE... [--likelihood attributes] [--first 20000]

Both engines take in the same fragments, a part at a time. What became of every fragment is
compared, and so is the posterior. `--kernel-only` leaves out the NumPy engine.
"""

from __future__ import annotations

import argparse
import time
from itertools import islice

import numpy as np

from kbforge import registry
from kbforge.clustering.session import SmcSession
from kbforge.contracts import ConjugateLikelihood, Fragment, Problem, Session
from kbforge.files.fragments import read_fragments
from kbforge.kernel.binding import kernel_library, kernel_status
from kbforge_plugins.clusterers.sequential import SplitSmc

_PART = 1000


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("files", nargs="+")
    parser.add_argument("--likelihood", default="attributes")
    parser.add_argument("--first", type=int, help="fragments of each file")
    parser.add_argument("--particles", type=int, default=100)
    parser.add_argument("--kernel-only", action="store_true")
    given = parser.parse_args()
    print(kernel_status(), "\n")
    print("| file | fragments | likelihood | NumPy, us a fragment | kernel, us | ratio | growth |")
    print("|---|---:|---|---:|---:|---:|---:|")
    for file in given.files:
        fragments = list(islice(read_fragments(file), given.first))
        likelihood = registry.create("likelihoods", given.likelihood, {})
        likelihood.fit(fragments)
        name = file.rsplit("/", 1)[-1]
        row = compared(likelihood, fragments, given.particles, given.kernel_only)
        print(f"| {name} | {len(fragments):,} | {given.likelihood} | {row} |", flush=True)


def compared(
    likelihood: ConjugateLikelihood, fragments: list[Fragment], particles: int, alone: bool
) -> str:
    """A row of the table: microseconds a fragment, their ratio, how much the kernel's grow.

    Growth is the time of the last tenth of the fragments over that of the second tenth.
    """
    problem = Problem(likelihood, likelihood.default_alpha, index=likelihood.index)
    rules, kernel = SplitSmc(particles=particles)._rules, kernel_library()
    assert kernel is not None, kernel_status()
    compiled = SmcSession(problem, rules, np.random.default_rng(0), kernel=kernel)
    reference = SmcSession(problem, rules, np.random.default_rng(0))
    seconds: list[list[float]] = [[], []]
    for begin in range(0, len(fragments), _PART):
        part = fragments[begin : begin + _PART]
        told = taken(compiled, part, seconds[1])
        assert alone or taken(reference, part, seconds[0]) == told
    assert alone or reference.posterior() == compiled.posterior()
    tenth = max(len(seconds[1]) // 10, 1)
    growth = sum(seconds[1][-tenth:]) / max(sum(seconds[1][tenth : 2 * tenth]), 1e-9)
    each = [1e6 * sum(one) / len(fragments) for one in seconds]
    if alone:
        return f" | {each[1]:,.0f} | | {growth:.2f}"
    return f"{each[0]:,.0f} | {each[1]:,.0f} | {each[0] / each[1]:.1f} | {growth:.2f}"


def taken(session: Session, part: list[Fragment], seconds: list[float]) -> object:
    """Take in fragments; the processor time that it took is added to the list."""
    begin = time.process_time()
    told = session.add(part)
    seconds.append(time.process_time() - begin)
    return told


if __name__ == "__main__":
    main()

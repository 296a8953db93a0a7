"""What suites share: data sets, labelled files, and methods of the split-SMC paper.

What the paper calls MCMC is two methods here, Gibbs and Metropolis.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from kbforge.contracts.fragment import Fragment
from kbforge.errors import KBForgeError, quoted
from kbforge.files.fragments import read_fragments
from kbforge.files.io import called
from kbforge_lab.suites.plan import Method


def data_files(suite: str, names: Sequence[str], instead: str) -> list[Path]:
    """Files of the folder that KBFORGE_DATA names."""
    folder = os.environ.get("KBFORGE_DATA")
    listed = " and ".join(filter(None, [", ".join(names[:-1]), names[-1]]))
    needs = f"suite {suite} reads {listed} in the folder that KBFORGE_DATA names"
    if not folder:
        raise KBForgeError(f"{needs}, which is not set; {instead}")
    paths = [Path(folder) / name for name in names]
    for path in paths:
        if not path.is_file():
            raise KBForgeError(f"{needs}; there is no {quoted(str(path), 400)}; {instead}")
    return paths


def labelled(suite: str, file: str) -> tuple[Fragment, ...]:
    """The fragments of a file that is compared on."""
    fragments = tuple(read_fragments(file))
    where = f"suite {suite}: {quoted(called(file), 400)}"
    if not fragments:
        raise KBForgeError(f"{where} holds no fragment")
    bare = [fragment.id for fragment in fragments if not fragment.label]
    if bare:
        raise KBForgeError(
            f"{where}: expected a label on every fragment, which groupings are scored by, got "
            f'{len(bare):,} of {len(fragments):,} without, the first of them "{quoted(bare[0])}"'
        )
    return fragments


GREEDY = Method("Greedy", "greedy")
AGGLOMERATIVE = Method("Agglomerative", "agglomerative")


def smc(particles: int, surrogate: bool = False) -> Method:
    """One set of particles for all fragments."""
    return Method("SMC", "smc", particles=particles, surrogate=surrogate)


def split_smc(particles: int, surrogate: bool = False) -> Method:
    """A set of particles a subproblem."""
    return Method("Split SMC", "split-smc", particles=particles, surrogate=surrogate)


def gibbs(sweeps: int | None = None) -> Method:
    """At most so many sweeps, for a result that no machine's speed decides."""
    return Method("Gibbs", "gibbs", _at_most(sweeps))


def metropolis(sweeps: int | None = None) -> Method:
    """As `gibbs`; the surrogate proposes."""
    return Method("Metropolis", "metropolis", _at_most(sweeps), surrogate=True)


def offline(sweeps: int | None = None) -> tuple[Method, ...]:
    """All that go over the fragments again and again, for a task with a surrogate."""
    batched = Method("Agglomerative (batch 100)", "agglomerative", {"batch": 100})
    return gibbs(sweeps), metropolis(sweeps), AGGLOMERATIVE, batched


def _at_most(sweeps: int | None) -> dict[str, int]:
    return {} if sweeps is None else {"sweeps": sweeps}

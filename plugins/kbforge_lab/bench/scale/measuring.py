"""One size, from file to knowledge base, in a process of its own: the cost of each part.

    python -m kbforge_lab.bench.scale.measuring < JOB.json

A job names the file of fragments, the knowledge base to write and the choices of a run. Standard
output has a line of JSON whenever there is something to tell: how far a part has come, and last the
figures or one sentence on what went wrong. The process ends when nobody reads them any more.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from kbforge.contracts import OnStep, Posterior, Progress
from kbforge.errors import KBForgeError
from kbforge.files.fragments import held, read_fragments
from kbforge.fit.choices import Choices
from kbforge.fit.prepare import prepare
from kbforge.jobs.cluster import KnowledgeBase, Times
from kbforge.kernel.library import kernel_status
from kbforge_lab.bench.costs import Clocks, peak_mib, resident_mib
from kbforge_lab.bench.scale.shards import Routed, routed

PARTS = ("reading", "preparing", "clustering", "writing")
Tell: TypeAlias = Callable[[Mapping[str, Any]], None]

_SECONDS_APART = 0.5


@dataclass(frozen=True, slots=True)
class Measured:
    """What one size took.

    Attributes:
        fragments: how many there were.
        entities: found.
        subproblems: at the end.
        clusters: distinct ones that the particles held at the end, over all subproblems.
        largest: fragments of the largest subproblem.
        wall: seconds of each part.
        cpu: seconds of the processor of each part, threads together.
        starting: seconds of the processor until the program could begin.
        peak_mib: the most memory of the process, None where the system does not say.
        held_mib: memory after each part.
        likelihood: that was used.
        kernel: which one there was.
        written: bytes of the knowledge base.
        routed: what a router would send, for each number of shards that was asked for.

    """

    fragments: int
    entities: int
    subproblems: int
    clusters: int
    largest: int
    wall: Mapping[str, float]
    cpu: Mapping[str, float]
    starting: float
    peak_mib: float | None
    held_mib: Mapping[str, float | None]
    likelihood: str
    kernel: str
    written: int
    routed: Sequence[Routed] = ()

    @property
    def seconds(self) -> float:
        """On the wall, all parts together."""
        return sum(self.wall.values())

    def own(self, part: str) -> float:
        """Seconds that a part took by itself.

        They are those on the wall, or of the processor where that is less: then the process waited
        for others of the machine.
        """
        return min(self.wall[part], self.cpu[part])

    @property
    def engine_per_second(self) -> float:
        """Fragments a second of the clustering alone."""
        return self.fragments / max(self.own("clustering"), 1e-9)


def measured(
    file: str, output: str, choices: Choices, shards: Sequence[int], tell: Tell
) -> Measured:
    """Go all the way from a file to a knowledge base."""
    stages = _Stages(tell)
    starting = stages.last.cpu
    fragments = held(read_fragments(file))
    stages.end("reading")
    prepared = prepare(fragments, choices)
    stages.end("preparing")
    rng = np.random.default_rng(choices.seed)
    begin = time.perf_counter()
    posterior = prepared.clusterer.cluster(
        fragments, prepared.problem, rng, _told(tell, len(fragments))
    )
    times = Times(clustering=time.perf_counter() - begin)
    stages.end("clustering")
    knowledge = KnowledgeBase(
        tuple(fragments),
        posterior,
        times,
        prepared.alpha,
        prepared.confidence,
        prepared.notes,
        prepared.likelihood,
    )
    knowledge.write(output)
    stages.end("writing")
    peak = peak_mib()  # what follows is not part of the way
    index = prepared.problem.index
    return Measured(
        fragments=len(fragments),
        **_found(posterior),
        wall={name: one.wall for name, one in stages.spent.items()},
        cpu={name: one.cpu for name, one in stages.spent.items()},
        starting=starting,
        peak_mib=peak,
        held_mib=stages.held,
        likelihood=prepared.likelihood,
        kernel=kernel_status(),
        written=Path(output).stat().st_size,
        routed=routed(fragments, index, posterior, shards) if index and shards else (),
    )


class _Stages:
    """The clocks and the memory at the end of each part."""

    def __init__(self, tell: Tell) -> None:
        self.spent: dict[str, Clocks] = {}
        self.held: dict[str, float | None] = {}
        self.last = Clocks.now()
        self._tell = tell
        tell({"part": PARTS[0], "done": 0})

    def end(self, part: str) -> None:
        """A part is over; the next one begins."""
        now = Clocks.now()
        self.spent[part] = now - self.last
        self.held[part] = resident_mib()
        following = PARTS[PARTS.index(part) + 1 :]
        if following:
            self._tell({"part": following[0], "done": 0})
        self.last = Clocks.now()


def _told(tell: Tell, total: int) -> OnStep:
    """Tells of progress now and then."""
    due = time.monotonic() + _SECONDS_APART

    def on_step(progress: Progress) -> None:
        nonlocal due
        if time.monotonic() >= due:
            due = time.monotonic() + _SECONDS_APART
            tell({"part": "clustering", "done": progress.fragments, "of": total})

    on_step.seldom = True  # type: ignore[attr-defined]
    return on_step


def _found(posterior: Posterior) -> dict[str, int]:
    """The sizes of a result."""
    entities = clusters = largest = subproblems = 0
    for subproblem in posterior.subproblems:
        subproblems += 1
        entities += len(subproblem.particles[0].clusters)
        clusters += len({one for row in subproblem.particles for one in row.clusters})
        largest = max(largest, len(subproblem.fragments))
    return {
        "entities": entities,
        "subproblems": subproblems,
        "clusters": clusters,
        "largest": largest,
    }


def figures(one: Measured) -> dict[str, Any]:
    """As JSON has them."""
    out = {field.name: getattr(one, field.name) for field in fields(one)}
    return out | {"routed": [asdict(costs) for costs in one.routed]}


def read_figures(told: Mapping[str, Any]) -> Measured:
    """What `figures` wrote."""
    return Measured(**{**told, "routed": [Routed(**costs) for costs in told["routed"]]})


def main() -> None:
    """Do the job on standard input."""
    job = json.load(sys.stdin)

    def tell(message: Mapping[str, Any]) -> None:
        print(json.dumps(message), flush=True)

    try:
        choices = Choices(**job["choices"])
        done = measured(job["file"], job["output"], choices, job["shards"], tell)
        tell({"measured": figures(done)})
    except BrokenPipeError:
        os._exit(1)  # nobody waits for it
    except KBForgeError as error:
        tell({"error": str(error)})
    except MemoryError:
        tell({"error": "out of memory"})


if __name__ == "__main__":
    main()

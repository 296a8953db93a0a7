"""The suite `supervised`: grouping by examples (Daumé and Marcu 2005, 7.3.1, table 1).

Digits 1, 3, 5, 8 and 9 are labelled, 0, 2, 4, 6 and 7 are to be grouped. Of methods that draw, a
run is one seed: of a chain's, R-hat and the effective sample size say whether they have met.

| method | what |
|---|---|
| Coarse, Fine, K-means | all as one, each by itself, k-means that is told how many |
| CDP | the Dirichlet process without examples |
| Binary | a classifier of pairs, then agglomeration, tuned on labels that are hidden |
| Xing-K | k-means that is told how many, by the best metric (diagonal, full) or one before it |
| SCDP-1, SCDP-2, SCDP-3 | the paper's models |
| SCDP-1 (chosen), ... | with the power and separation that find labelled digits again best |

Each digit has 8 by 8 pixels, and there are 30 to 300 of each; the features are centred and scaled
over all of them.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from kbforge.contracts import FloatArray, Fragment, IntArray
from kbforge.errors import KBForgeError, UsageError, quoted
from kbforge.registry import install_command
from kbforge_lab.scdp import sampler
from kbforge_lab.scdp.gaussian import Near
from kbforge_lab.scdp.sampler import SCDP1, SCDP2, SCDP3, Scdp
from kbforge_lab.suites.groupers import (
    Binary,
    Chain,
    Chosen,
    Coarse,
    Fine,
    KMeans,
    Start,
    XingKMeans,
)
from kbforge_lab.suites.plan import Expectation, Method, PaperFigures, Suite, SuitePlan, Task

UNTRAINED = "CDP"
"""Sees no examples."""

_POWERS = (1.0, 0.5, 0.3, 0.2)
_RATES = (1.0, 0.3, 0.1, 0.03)


def published() -> Mapping[str, Scdp]:
    """The paper's models, by name."""
    return {UNTRAINED: sampler.UNTRAINED, "SCDP-1": SCDP1, "SCDP-2": SCDP2, "SCDP-3": SCDP3}


def candidates() -> Mapping[str, tuple[Scdp, ...]]:
    """What is chosen from, by name: powers of the likelihood, and rates of the separation."""
    return {
        "SCDP-1": tuple(replace(SCDP1, power=power) for power in _POWERS),
        "SCDP-2": tuple(replace(SCDP2, power=power) for power in _POWERS),
        "SCDP-3": tuple(
            replace(SCDP3, power=power, separation=Near(rate))
            for power in _POWERS[:3]
            for rate in _RATES
        ),
    }


EXAMPLES = (1, 3, 5, 8, 9)
USPS = "usps/usps.h5"


@dataclass(frozen=True)
class Digits:
    """Fragments of vectors, the labels being the digits."""

    examples: tuple[Fragment, ...]
    fragments: tuple[Fragment, ...]


def of_scikit_learn() -> tuple[FloatArray, IntArray]:
    """The 1,797 digits that come with scikit-learn, shapes [n, 64] and [n]."""
    try:
        from sklearn.datasets import load_digits
    except ImportError as error:
        raise KBForgeError(
            "the suite supervised needs scikit-learn, whose digits it groups: "
            f"{install_command('supervised')}"
        ) from error
    bunch = load_digits()
    return np.asarray(bunch.data, dtype=np.float64), np.asarray(bunch.target, dtype=np.int64)


def usps_file() -> Path | None:
    """The digits of the United States Postal Service in the folder that KBFORGE_DATA names."""
    folder = os.environ.get("KBFORGE_DATA")
    path = Path(folder) / USPS if folder else None
    return path if path is not None and path.is_file() else None


def of_usps(path: Path) -> tuple[FloatArray, IntArray]:
    """The 7,291 of its train set, 2 by 2 pixels averaged, shapes [n, 64] and [n]."""
    try:
        import h5py
    except ImportError as error:
        raise KBForgeError(f"reading {USPS} needs h5py: {install_command('supervised')}") from error
    try:
        with h5py.File(path) as file:
            images, target = np.asarray(file["train/data"]), np.asarray(file["train/target"])
    except (OSError, KeyError) as error:
        raise KBForgeError(
            f"{quoted(str(path), 400)} does not hold the digits: {quoted(str(error), 200)}"
        ) from error
    blocks = images.astype(np.float64).reshape(-1, 8, 2, 8, 2).mean(axis=(2, 4))
    return blocks.reshape(-1, 64), target.astype(np.int64)


def drawn(
    images: FloatArray,
    target: IntArray,
    counts: tuple[int, int],
    rng: np.random.Generator,
) -> Digits:
    """So many rows of each digit, or all there are, without the pixels that never change."""
    low, high = counts
    rows = [
        rng.permutation(np.flatnonzero(target == digit))[: rng.integers(low, high + 1)]
        for digit in range(10)
    ]
    chosen = np.concatenate(rows)
    values, labels = images[chosen], target[chosen]
    spread = values.std(axis=0)
    values = (values - values.mean(axis=0))[:, spread > 0] / spread[spread > 0]
    made: dict[bool, list[Fragment]] = {True: [], False: []}
    for number, vector, digit in zip(chosen, values.tolist(), labels.tolist(), strict=True):
        made[digit in EXAMPLES].append(Fragment(f"digit-{number}", {}, tuple(vector), str(digit)))
    return Digits(tuple(made[True]), tuple(made[False]))


_COUNTS, _QUICK_COUNTS = (30, 300), (15, 30)
_SECONDS, _QUICK_SECONDS = 600.0, 60.0
# table 1: F, and the minutes of a chain
_PUBLISHED = {
    "Coarse": PaperFigures(None, (0.372, None)),
    "Fine": PaperFigures(None, (0.000, None)),
    "K-means": PaperFigures(None, (0.555, None)),
    "CDP": PaperFigures(None, (0.031, None)),
    "Binary": PaperFigures(None, (0.592, None)),
    "Xing-K": PaperFigures(None, (0.608, None)),
    "SCDP-1": PaperFigures(None, (0.666, None), 40.0),
    "SCDP-2": PaperFigures(None, (0.675, None), 60.0),
    "SCDP-3": PaperFigures(None, (0.756, None), 300.0),
}


class SupervisedSuite(Suite):
    """Grouping digits by examples of other digits; needs scikit-learn. Tasks: digits, usps.
    Methods: Coarse, Fine, K-means, Binary, Xing-K (stopped), Xing-K (diagonal), Xing-K (full),
    CDP, SCDP-1 to SCDP-3 as published, and with settings chosen on hidden examples. Quick: few
    digits of the first task, two short chains per model.

    Args:
        chains: runs of each random method.
        sweeps: sweeps of a chain, at least 10; the second half counts.
        start: start of the chains: all fragments `together`, all `apart`, in `twenty` random
            clusters, or each of these in `turns`.
        seed: random seed of the drawn digits.

    """

    def __init__(
        self,
        chains: int = 10,
        sweeps: int = 200,
        start: Start = "turns",
        seed: int = 0,
    ) -> None:
        for name, number, least in (
            ("chains", chains, 1),
            ("sweeps", sweeps, 10),
            ("seed", seed, 0),
        ):
            if number < least:
                raise UsageError(f"suite supervised: {name} must be at least {least}, got {number}")
        self._chains, self._sweeps, self._seed = chains, sweeps, seed
        self._start = start

    def plan(self, quick: bool = False) -> SuitePlan:
        sweeps = 10 if quick else self._sweeps
        chains = min(2, self._chains) if quick else self._chains
        notes: list[str] = []
        tasks = tuple(self._tasks(quick, notes))
        methods = (*_others(chains), *self._of_chains(sweeps))
        return SuitePlan(
            tasks,
            methods,
            shuffles=chains,
            seconds=_QUICK_SECONDS if quick else _SECONDS,
            reference="K-means",
            expectations=_expected(tasks),
            published={
                (task.name, method.name): _PUBLISHED[called]
                for task in tasks
                for method in methods
                if (called := method.name.split(" (")[0]) in _PUBLISHED
            },
            notes=tuple(notes),
        )

    def _of_chains(self, sweeps: int) -> Iterable[Method]:
        for name, model in published().items():
            chain = Chain(model, self._start, sweeps, trained=name != UNTRAINED)
            yield Method(name, grouper=chain)
        for name, models in candidates().items():
            yield Method(f"{name} (chosen)", grouper=Chosen(models, self._start, sweeps))

    def _tasks(self, quick: bool, notes: list[str]) -> Iterable[Task]:
        yield self._task("digits", *of_scikit_learn(), quick)
        path = usps_file()
        if path is None:
            notes.append(f"not in the folder that KBFORGE_DATA names: {USPS}")
        elif not quick:
            yield self._task("usps", *of_usps(path), quick)

    def _task(
        self,
        name: str,
        images: FloatArray,
        target: IntArray,
        quick: bool,
    ) -> Task:
        rng = np.random.default_rng(self._seed)
        found = drawn(images, target, _QUICK_COUNTS if quick else _COUNTS, rng)
        return Task(name, found.fragments, examples=found.examples)


def _others(chains: int) -> Iterable[Method]:
    """What the paper compares with; what draws nothing runs once, and what takes long twice."""
    yield Method("Coarse", grouper=Coarse(), shuffles=1)
    yield Method("Fine", grouper=Fine(), shuffles=1)
    yield Method("K-means", grouper=KMeans())
    yield Method("Binary", grouper=Binary(), shuffles=min(2, chains))
    yield Method("Xing-K (stopped)", grouper=XingKMeans(stopped=True))
    yield Method("Xing-K (diagonal)", grouper=XingKMeans())
    yield Method("Xing-K (full)", grouper=XingKMeans(full=True), shuffles=min(2, chains))


def _expected(tasks: Iterable[Task]) -> tuple[Expectation, ...]:
    return tuple(
        Expectation(task.name, "K-means", "pairwise_f1", no_worse_than=("Coarse", "Fine"))
        for task in tasks
    )

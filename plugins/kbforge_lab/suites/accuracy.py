"""Suite `accuracy`: what `kbforge cluster FILE` gives on every labelled set, and what else would.

| method | what |
|---|---|
| exact name | fragments of one name are one entity: what anybody gets by hand |
| default | `kbforge cluster FILE`, no option |
| attributes, bigram, pairs, names | `kbforge cluster FILE --likelihood NAME` |
| best alpha: NAME | greedy clustering at alphas of a grid for 300 s, the best by the labels |
| ceiling | the best that the labels allow anybody who sees what the fragments say |

The sets are the labelled files of the folder that KBFORGE_DATA names. What the default learned, it
learned from families of labelled sets, so that its figures on these families say little about data
that are new. `without` names a folder with models that were trained leave-one-family-out: in
FOLDER/FAMILY are those of all families but this one, and each set is clustered by those that have
not seen its family.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Final

from kbforge.contracts.fragment import Fragment
from kbforge.errors import KBForgeError, UsageError, quoted
from kbforge_lab.contracts.suite import Expectation, Method, Model, Plan, Standing, Suite, Task
from kbforge_lab.suites.data import data_files, labelled
from kbforge_lab.suites.invented import invented
from kbforge_lab.suites.labelled_sets import SETS, UNSEEN, LabelledSet

_DEFAULT = "default"
_EXACT: Final = "exact name"
_CEILING: Final = "ceiling"
_MOST = 12_000
_QUOTED = "the 26 sets"
_SLACK = 0.005
_SECONDS, _QUICK_SECONDS = 900.0, 60.0
_INSTEAD = "any labelled fragments do: --set suite.data=FILE"
_BEST_SECONDS = 300.0
# from where all stay apart, which is fast, to where most fuse, which takes longest: what is left
# out where time is short is of little use
_RECORD_ALPHAS = tuple(10.0 ** (k / 2) for k in range(12, -5, -1))
# long strings need the largest
_NAME_ALPHAS = tuple(10.0**k for k in (40, 30, 25, 20, 15, 12, 10, *range(8, 0, -1)))
_GRIDS: Mapping[str, tuple[float, ...]] = {
    "attributes": _RECORD_ALPHAS,
    "pairs": _RECORD_ALPHAS,
    "bigram": _NAME_ALPHAS,
}


class Accuracy(Suite):
    """What `kbforge cluster FILE` gives on all labelled sets, from the folder KBFORGE_DATA. Tasks:
    the sets. Methods: exact name, default, attributes, bigram, pairs, names, best alpha:
    attributes, best alpha: bigram, best alpha: pairs, ceiling. Quick: two small invented sets, no
    data needed.

    Args:
        data: files of labelled fragments to compare on instead, each a set that is called as the
            file is.
        most: sets of more fragments are left out; from 12000 on, walmart_amazon is there with its
            24,628 all the same, because it is one of the 26 sets whose mean is quoted.
        orders: how many orders of each set, the first of them that of the file.
        likelihoods: to compare the default with; gpt is one that takes long.
        alphas: of all likelihoods, to find the best in hindsight; none takes a grid of each.
        without: a folder of models that were trained leave-one-family-out, FOLDER/FAMILY.

    """

    def __init__(
        self,
        data: tuple[str, ...] = (),
        most: int = _MOST,
        orders: int = 1,
        likelihoods: tuple[str, ...] = ("attributes", "bigram", "pairs", "names"),
        alphas: tuple[float, ...] = (),
        without: str | None = None,
    ) -> None:
        for name, number in (("most", most), ("orders", orders)):
            if number < 1:
                raise UsageError(f"suite accuracy: {name} must be at least 1, got {number}")
        called = [_called(file) for file in data]
        if len(set(called)) < len(called):
            raise UsageError(
                "suite accuracy: data: expected files of different names, which sets are called "
                f"by, got {', '.join(called)}"
            )
        self._data = data
        self._most = most
        self._orders = orders
        self._likelihoods = likelihoods
        self._alphas = alphas
        self._without = None if without is None else _checked(Path(without))

    def plan(self, quick: bool = False) -> Plan:
        notes: list[str] = []
        if quick:
            made = invented().items()
            tasks = [Task(name, held, standing="unseen") for name, held in made]
        elif self._data:
            tasks = [Task(_called(file), labelled("accuracy", file)) for file in self._data]
        else:
            tasks = self._found(notes)
        return Plan(
            tasks=tuple(tasks),
            methods=tuple(self._methods(_QUICK_SECONDS if quick else _BEST_SECONDS)),
            shuffles=1 if quick else self._orders,
            seconds=_QUICK_SECONDS if quick else _SECONDS,
            reference=_DEFAULT,
            expectations=tuple(
                Expectation(task.name, _DEFAULT, "f1", no_worse_than=_EXACT, slack=_SLACK)
                for task in tasks
            ),
            groups={} if quick or self._data else {_QUOTED: _names(s for s in SETS if s.counted)},
            notes=tuple(notes),
        )

    def _methods(self, seconds: float) -> Iterable[Method]:
        yield Method(_EXACT, baseline=_EXACT)
        yield Method(_DEFAULT, "split-smc")
        for name in self._likelihoods:
            yield Method(name, "split-smc", likelihood=Model(name))
        for name in self._likelihoods:
            if alphas := self._alphas or _GRIDS.get(name, ()):
                best = Method(f"best alpha: {name}", "greedy", likelihood=Model(name))
                yield replace(best, alphas=alphas, shuffles=1, seconds=seconds)
        yield Method(_CEILING, baseline=_CEILING)

    def _found(self, notes: list[str]) -> list[Task]:
        """The sets of the data folder that are not too large."""
        wanted = [one for one in SETS if self._wants(one)]
        if not wanted:
            least = min(one.fragments for one in SETS)
            raise UsageError(
                f"suite accuracy: most: expected at least {least}, the fragments of the smallest "
                f"set, got {self._most}"
            )
        folder = os.environ.get("KBFORGE_DATA")
        there = [one for one in wanted if folder and (Path(folder) / one.file).is_file()]
        if not there:
            data_files("accuracy", [wanted[0].file], _INSTEAD)  # raises
        missing = [one.name for one in wanted if one not in there]
        if missing:
            notes.append(f"not in the folder that KBFORGE_DATA names: {', '.join(missing)}")
        large = [one.name for one in SETS if one not in wanted]
        if large:
            notes.append(
                f"larger than {self._most:,} fragments and left out (--set suite.most=NUMBER): "
                f"{', '.join(large)}"
            )
        return [self._task(one, one.read(Path(str(folder))), notes) for one in there]

    def _wants(self, one: LabelledSet) -> bool:
        return one.fragments <= self._most or (one.counted and self._most >= _MOST)

    def _task(self, one: LabelledSet, fragments: tuple[Fragment, ...], notes: list[str]) -> Task:
        held_out = None if self._without is None else self._without / one.family
        standing: Standing = "unseen" if one.family in UNSEEN else "seen"
        if held_out is not None and held_out.is_dir():
            standing = "held out"
        elif held_out is not None:
            notes.append(f"{one.name}: no models without the family {one.family} in {held_out}")
            held_out = None
        defaults = None if held_out is None else str(held_out)
        return Task(one.name, fragments, family=one.family, defaults=defaults, standing=standing)


def _checked(folder: Path) -> Path:
    families = {one.family for one in SETS}
    if not any((folder / family).is_dir() for family in families):
        raise KBForgeError(
            f"suite accuracy: without: expected a folder with a folder for each family, such as "
            f'{min(families)}, got "{quoted(str(folder), 400)}", which has none'
        )
    return folder


def _called(file: str) -> str:
    return Path(file).name.split(".")[0]


def _names(sets: Iterable[LabelledSet]) -> tuple[str, ...]:
    return tuple(one.name for one in sets)

"""The suite `accuracy`: the default and its rivals on every labelled set.

| method | what |
|---|---|
| all apart, exact name, TF-IDF | groupings that need no model: `kbforge_lab.bench.baselines` |
| default | `kbforge cluster FILE`, no option |
| attributes, bigram, pairs, names | `kbforge cluster FILE --likelihood NAME` |
| best alpha: NAME | greedy clustering at alphas of a grid for 300 s, the best by the labels |
| ceiling | the best that the labels allow anybody who sees what the fragments say |

The sets are the labelled files of the folder that KBFORGE_DATA names, by kind:

| kind | sets |
|---|---|
| plain | the files as they are |
| link | two tables that have no doubles: with `--link source`, and once more as one file |
| namesakes, flattened, ... | plain ones in another shape: `kbforge_lab.training.defaults.shapes` |

The default learned from families of labelled sets, so its figures on these say little about new
data. `without` names a folder of models trained leave-one-family-out, FOLDER/FAMILY being of all
families but that one. A family shares what a model could learn from one set and use on another:
source, entities or generator (`kbforge_lab.training.defaults.families`).
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import numpy as np

from kbforge.contracts.fragment import Fragment
from kbforge.errors import KBForgeError, UsageError, quoted
from kbforge.files.fragments import read_fragments
from kbforge_lab.suites.data import data_files, labelled
from kbforge_lab.suites.plan import (
    Baseline,
    Expectation,
    Method,
    Metric,
    Model,
    Standing,
    Suite,
    SuitePlan,
    Task,
)
from kbforge_lab.training.defaults.families import LabelledFile
from kbforge_lab.training.defaults.shapes import SHAPES, in_shape

_PLAIN, _LINK = "plain", "link"

UNSEEN = frozenset({"rldata", "wd", "dwie", "webnlg"})
"""Families that nothing that ships may be trained on: their licences do not allow it."""


@dataclass(frozen=True, slots=True)
class LabelledSet:
    """A set of the data folder."""

    name: str
    file: str
    family: str
    fragments: int  # about how many, to choose before reading
    first: int | None = None  # whole entities in order of appearance, until this many fragments
    counted: bool = False  # one of the 26 whose mean is quoted
    linked: bool = False  # by `--link source`

    @property
    def kind(self) -> str:
        return _LINK if self.file.startswith(f"{_LINK}/") else _PLAIN

    @property
    def group(self) -> str:
        """Whose mean is given."""
        return f"{_LINK}, as one file" if self.kind == _LINK and not self.linked else self.kind

    def read(self, folder: Path) -> tuple[Fragment, ...]:
        found = [f for f in read_fragments(str(folder / self.file)) if f.label]
        return tuple(found if self.first is None else first_entities(found, self.first))


def first_entities(fragments: Sequence[Fragment], at_least: int) -> list[Fragment]:
    """All fragments of the first entities that together have at least so many."""
    sizes: dict[str | None, int] = {}
    for fragment in fragments:
        sizes[fragment.label] = sizes.get(fragment.label, 0) + 1
    chosen, total = set(), 0
    for label, size in sizes.items():
        if total >= at_least:
            break
        chosen.add(label)
        total += size
    return [fragment for fragment in fragments if fragment.label in chosen]


def _confusable() -> Iterator[LabelledSet]:
    for name, sizes in {
        "wd50": (297, 195),
        "wd200": (795, 510),
        "dwie50": (510, 488),
        "dwie100": (663, 711),
    }.items():
        family = name.rstrip("0125")
        for part, size in zip(("train", "dev"), sizes, strict=True):
            file = f"confusable/{name}_{part}.jsonl"
            yield LabelledSet(f"{name}_{part}", file, family, size, counted=part == "dev")


def _tables() -> Iterator[LabelledSet]:
    """Pairs of tables: linked, and the same as one file."""
    for name, file, family, size in (
        ("abt_buy", "abt_buy_full.jsonl", "products", 2_152),
        ("amazon_google", "amazon_google_full.jsonl.gz", "products", 4_393),
        ("dblp_acm", "dblp_acm_full.jsonl", "papers", 4_910),
        ("walmart_amazon", "walmart_amazon_full.jsonl.gz", "products", 24_628),
    ):
        yield LabelledSet(f"link_{name}", f"{_LINK}/{file}", family, size, linked=True)
        yield LabelledSet(f"{name}_full", f"{_LINK}/{file}", family, size)


_HISTORICAL = "splink_hist50k/historical_50k.jsonl.gz"

SETS = (
    *_confusable(),
    LabelledSet("restaurant", "restaurant/restaurant_864.jsonl", "restaurant", 864, counted=True),
    LabelledSet("rldata500", "rldata/rldata500.jsonl", "rldata", 500, counted=True),
    LabelledSet("rldata10000", "rldata/rldata10000.jsonl", "rldata", 10_000, counted=True),
    LabelledSet("cora", "cora/cora_1879.jsonl", "papers", 1_879, counted=True),
    LabelledSet("dblp_acm", "products_biblio/dblp_acm.jsonl", "papers", 4_910, counted=True),
    LabelledSet("abt_buy", "products_biblio/abt_buy.jsonl", "products", 2_152, counted=True),
    LabelledSet(
        "amazon_google", "products_biblio/amazon_google.jsonl", "products", 4_393, counted=True
    ),
    LabelledSet(
        "walmart_amazon", "products_biblio/walmart_amazon.jsonl", "products", 24_628, counted=True
    ),
    LabelledSet("cddb", "cddb/cddb_9763.jsonl", "cddb", 9_763, counted=True),
    LabelledSet("chadwick_10k", "chadwick/chadwick_10k.jsonl.gz", "chadwick", 10_000, counted=True),
    LabelledSet("chadwick_100k", "chadwick/chadwick_100k.jsonl.gz", "chadwick", 100_000),
    LabelledSet("chadwick_1M", "chadwick/chadwick_1M.jsonl.gz", "chadwick", 1_000_000),
    LabelledSet("historical_5k", _HISTORICAL, "splink", 5_019, first=5_000),
    LabelledSet("historical_20k", _HISTORICAL, "splink", 20_003, first=20_000),
    LabelledSet("historical_50k", _HISTORICAL, "splink", 50_576),
    LabelledSet("fake_1000", "more/splink_fake1000/fake_1000.jsonl", "splink", 992, counted=True),
    LabelledSet("febrl1", "more/febrl/febrl1.jsonl", "febrl", 1_000, counted=True),
    LabelledSet("febrl2", "more/febrl/febrl2.jsonl", "febrl", 4_999, counted=True),
    LabelledSet("febrl3", "more/febrl/febrl3.jsonl", "febrl", 4_994, counted=True),
    LabelledSet("febrl4", "more/febrl/febrl4.jsonl.gz", "febrl", 9_997, counted=True),
    LabelledSet("mhercl", "more/mhercl/mhercl.jsonl", "mhercl", 1_087, counted=True),
    LabelledSet("conel22", "more/conel22/conel22.jsonl", "conel22", 1_893, counted=True),
    LabelledSet("ecbplus", "more/ecbplus/ecbplus.jsonl", "ecbplus", 1_816, counted=True),
    LabelledSet("fair_el", "more/fair_el/fair_el.jsonl", "fair_el", 1_558, counted=True),
    LabelledSet("gum_ccby", "more/gum/gum_ccby.jsonl", "fair_el", 812, counted=True),
    LabelledSet("gum_ccbysa", "more/gum/gum_ccbysa.jsonl", "fair_el", 917),
    LabelledSet(
        "syriaca_places", "more/syriaca/syriaca_places.jsonl", "syriaca", 8_322, counted=True
    ),
    LabelledSet(
        "syriaca_persons", "more/syriaca/syriaca_persons.jsonl", "syriaca", 11_468, counted=True
    ),
    LabelledSet("inspire_wang", "more/inspire_wang/inspire_wang.jsonl.gz", "inspire", 15_424),
    LabelledSet("artists_nga", "more/artists/artists_nga.jsonl.gz", "artists", 20_622),
    LabelledSet("places_ne", "more/places_ne/places_ne.jsonl.gz", "places_ne", 22_752),
    LabelledSet("nsi_brands", "more/nsi_brands/nsi_brands.jsonl.gz", "nsi_brands", 22_860),
    LabelledSet("ror", "more/ror/ror.jsonl.gz", "ror", 35_677),
    LabelledSet("dwie", "dwie/dwie_public_traindev.jsonl", "dwie", 8_588),
    LabelledSet("webnlg", "webnlg/webnlg_1text_per_entry.jsonl.gz", "webnlg", 30_108),
    *_tables(),
)
"""Every labelled set with properties; those with vectors have suites of their own."""


_FIRST = (
    *("Maren", "Tobias", "Ines", "Callum", "Priya", "Anselm"),
    *("Odette", "Ruben", "Zofia", "Hamish", "Yasmin", "Lucian"),
)
_LAST = (
    *("Okafor", "Lindqvist", "Marsh", "Petrov", "Delacroix"),
    *("Nakamura", "Byrne", "Solano", "Weiss", "Aldana"),
)
_PLACES = ("Bergen", "Tucson", "Porto", "Nakuru", "Gdynia", "Dundee", "Valdivia", "Halifax")
_ENTITIES = 30
_SIGHTINGS = (1, 4)  # of an entity, both included
_SLIP, _MISSING, _INITIAL = 0.15, 0.2, 0.3


def invented(seed: int = 0) -> dict[str, tuple[Fragment, ...]]:
    """Name of a set -> its fragments, the same ones every time."""
    return {
        "invented-records": _shuffled(_records(np.random.default_rng([seed, 0])), seed),
        "invented-names": _shuffled(_bare_names(np.random.default_rng([seed, 1])), seed),
    }


def _shuffled(made: Iterator[tuple[str, dict[str, str]]], seed: int) -> tuple[Fragment, ...]:
    """(label, properties) as fragments in random order."""
    held = list(made)
    return tuple(
        Fragment(f"f{i}", {k: (v,) for k, v in held[j][1].items()}, label=held[j][0])
        for i, j in enumerate(np.random.default_rng([seed, 2]).permutation(len(held)).tolist())
    )


def _records(rng: np.random.Generator) -> Iterator[tuple[str, dict[str, str]]]:
    for entity in range(_ENTITIES):
        year, month, day = rng.integers([1900, 1, 1], [1990, 13, 29]).tolist()
        whole = {
            "name": f"{rng.choice(_FIRST)} {rng.choice(_LAST)}",
            "born": f"{year}-{month:02}-{day:02}",
            "birthplace": str(rng.choice(_PLACES)),
        }
        for _ in range(_sightings(rng)):
            kept = {k: v for k, v in whole.items() if k == "name" or rng.random() >= _MISSING}
            yield f"person-{entity}", {k: _slipped(v, rng) for k, v in kept.items()}


def _bare_names(rng: np.random.Generator) -> Iterator[tuple[str, dict[str, str]]]:
    pairs = rng.choice(len(_FIRST) * len(_LAST), _ENTITIES, replace=False)
    for entity, pair in enumerate(pairs.tolist()):
        first, last = _FIRST[pair % len(_FIRST)], _LAST[pair // len(_FIRST)]
        for _ in range(_sightings(rng)):
            shown = f"{first[0]}." if rng.random() < _INITIAL else first
            yield f"name-{entity}", {"name": f"{shown} {last}"}


def _sightings(rng: np.random.Generator) -> int:
    return int(rng.integers(_SIGHTINGS[0], _SIGHTINGS[1] + 1))


def _slipped(value: str, rng: np.random.Generator) -> str:
    """The value, or with two neighbouring characters swapped."""
    if rng.random() >= _SLIP:
        return value
    k = int(rng.integers(1, len(value) - 1))
    return value[: k - 1] + value[k] + value[k - 1] + value[k + 1 :]


_DEFAULT = "default"
_SIMPLE: tuple[Baseline, ...] = ("all apart", "exact name", "TF-IDF")
_RIVALS = _SIMPLE[1:]
_CEILING: Final = "ceiling"
_QUOTED = "the 26 sets"
_MEASURES: tuple[Metric, ...] = ("f1", "pairwise_f1")
_MOST = 12_000
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
    the sets. Methods: all apart, exact name, TF-IDF, default, attributes, bigram, pairs, names,
    best alpha: attributes, best alpha: bigram, best alpha: pairs, ceiling. Quick: two small
    invented sets, no data needed.

    Args:
        data: files of labelled fragments to use instead; each is a set with the name of its file.
        kinds: plain (the labelled files), link (pairs of tables, linked and as one file), and other
            shapes of the plain ones: namesakes, flattened, described, tabulated, offers.
        most: leave out sets with more fragments; from 12000 on, walmart_amazon with its 24,628
            stays, because it is one of the 26 sets whose mean is quoted, and so do all of link.
        orders: number of orders of each set; the first is the file's.
        likelihoods: likelihoods to compare the default with; gpt takes long.
        alphas: values of alpha to find the best in hindsight, for all likelihoods; none takes a
            grid for each.
        without: folder of models that were trained without a family, FOLDER/FAMILY.

    """

    def __init__(
        self,
        data: tuple[str, ...] = (),
        kinds: tuple[str, ...] = (_PLAIN, _LINK),
        most: int = _MOST,
        orders: int = 1,
        likelihoods: tuple[str, ...] = ("attributes", "bigram", "pairs", "names"),
        alphas: tuple[float, ...] = (),
        without: str | None = None,
    ) -> None:
        for name, number in (("most", most), ("orders", orders)):
            if number < 1:
                raise UsageError(f"suite accuracy: {name} must be at least 1, got {number}")
        known = (_PLAIN, _LINK, *SHAPES)
        if not kinds or not set(kinds) <= set(known):
            raise UsageError(
                f"suite accuracy: kinds: expected some of {', '.join(known)}, got "
                f"{quoted(', '.join(kinds))}"
            )
        called = [_called(file) for file in data]
        if len(set(called)) < len(called):
            raise UsageError(
                "suite accuracy: data: expected files of different names, which sets are called "
                f"by, got {', '.join(called)}"
            )
        self._data = data
        self._kinds = kinds
        self._shapes = [kind for kind in kinds if kind in SHAPES]
        self._most = most
        self._orders = orders
        self._likelihoods = likelihoods
        self._alphas = alphas
        self._without = None if without is None else _checked(Path(without))

    def plan(self, quick: bool = False) -> SuitePlan:
        notes: list[str] = []
        groups: dict[str, tuple[str, ...]] = {}
        if quick:
            made = invented().items()
            tasks = [Task(name, held, standing="unseen") for name, held in made]
        elif self._data:
            tasks = [Task(_called(file), labelled("accuracy", file)) for file in self._data]
        else:
            found = self._found(notes)
            tasks = [task for group in found.values() for task in group]
            groups = {name: _names(group) for name, group in found.items()}
            if _PLAIN in self._kinds:
                groups[_QUOTED] = _names(one for one in SETS if one.counted)
        return SuitePlan(
            tasks=tuple(tasks),
            methods=tuple(self._methods(_QUICK_SECONDS if quick else _BEST_SECONDS)),
            shuffles=1 if quick else self._orders,
            seconds=_QUICK_SECONDS if quick else _SECONDS,
            reference=_DEFAULT,
            expectations=tuple(
                Expectation(task.name, _DEFAULT, metric, no_worse_than=_RIVALS, slack=_SLACK)
                for task in tasks
                for metric in _MEASURES
            ),
            groups=groups,
            notes=tuple(notes),
        )

    def _methods(self, seconds: float) -> Iterable[Method]:
        for simple in _SIMPLE:
            yield Method(simple, baseline=simple)
        yield Method(_DEFAULT, "batch")
        for name in self._likelihoods:
            yield Method(name, "batch", likelihood=Model(name))
        for name in self._likelihoods:
            if alphas := self._alphas or _GRIDS.get(name, ()):
                best = Method(f"best alpha: {name}", "greedy", likelihood=Model(name))
                yield replace(best, alphas=alphas, shuffles=1, seconds=seconds)
        yield Method(_CEILING, baseline=_CEILING)

    def _found(self, notes: list[str]) -> dict[str, list[Task]]:
        """The sets of the data folder that are not too large, by group."""
        kinds = {one.kind for one in SETS} & {*self._kinds, *([_PLAIN] if self._shapes else [])}
        known = [one for one in SETS if one.kind in kinds]
        wanted = [one for one in known if self._wants(one)]
        if not wanted:
            least = min(one.fragments for one in known)
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
        large = [one.name for one in known if one not in wanted]
        if large:
            notes.append(
                f"larger than {self._most:,} fragments and left out (--set suite.most=NUMBER): "
                f"{', '.join(large)}"
            )
        found: dict[str, list[Task]] = {}
        for one in there:
            task = self._task(one, one.read(Path(str(folder))), notes)
            if one.kind in self._kinds:
                found.setdefault(one.group, []).append(task)
            for shape in self._shapes if one.kind == _PLAIN else ():
                file = in_shape(shape, LabelledFile(one.family, one.name, task.fragments))
                if file is not None:
                    shaped = replace(task, name=file.name, fragments=file.fragments)
                    found.setdefault(shape, []).append(shaped)
        return found

    def _wants(self, one: LabelledSet) -> bool:
        quoted = one.counted or one.kind == _LINK
        return one.fragments <= self._most or (quoted and self._most >= _MOST)

    def _task(self, one: LabelledSet, fragments: tuple[Fragment, ...], notes: list[str]) -> Task:
        held_out = None if self._without is None else self._without / one.family
        standing: Standing = "unseen" if one.family in UNSEEN else "seen"
        if held_out is not None and held_out.is_dir():
            standing = "held out"
        elif held_out is not None:
            notes.append(f"{one.name}: no models without the family {one.family} in {held_out}")
            held_out = None
        defaults = None if held_out is None else str(held_out)
        return Task(
            one.name,
            fragments,
            family=one.family,
            defaults=defaults,
            standing=standing,
            linked=one.linked,
        )


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


def _names(sets: Iterable[LabelledSet | Task]) -> tuple[str, ...]:
    return tuple(one.name for one in sets)

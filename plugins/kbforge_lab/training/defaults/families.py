"""Labelled families of data, and files resampled from them that each look like a file of its own.

A family is one kind of data from one origin. Models that ship are judged leave-one-family-out: the
model for a family has seen none of its files. A resampled file has 150 to 600 fragments of one
file of the family. It varies by what decides how hard a file is: how many entities it has, how
alike they are, how large they are, how many are seen once, which attributes are there, and how
many slips of the pen. Ids are new, so that they say nothing about the labels.
"""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

from kbforge.contracts import Fragment
from kbforge.errors import UsageError
from kbforge.files.fragments import read_fragments
from kbforge_lab.training.defaults.generated import GENERATED, generated_files, slip

_FEWEST, _MOST = 150, 600
_SMALLEST, _SMALL = 12, 120
_LARGE, _LARGEST = 700, 2400
_LARGEST_CLUSTER = 40
_MOST_BEARERS = 300
_MOST_NEIGHBOURS = 12


@dataclass(frozen=True, slots=True)
class Family:
    """One kind of data from one origin.

    Attributes:
        name: of the family.
        files: of fragments, below the folder of all data; none for the generated family.
        ships: whether what ships may be trained on it; the others are only measured.

    """

    name: str
    files: tuple[str, ...]
    ships: bool


@dataclass(frozen=True, slots=True)
class LabelledFile:
    """Fragments with gold labels that count as one file.

    Attributes:
        family: its name.
        name: of the file, unique within the family.
        fragments: in the file's order, ids unique, each labelled.

    """

    family: str
    name: str
    fragments: tuple[Fragment, ...]


def _products(*names: str) -> tuple[str, ...]:
    return tuple(f"products_biblio/{name}.jsonl" for name in names)


FAMILIES = (
    Family(
        "febrl",
        (
            *(f"more/febrl/febrl{number}.jsonl" for number in (1, 2, 3)),
            "more/febrl/febrl4.jsonl.gz",
        ),
        ships=True,
    ),
    Family(
        "splink",
        ("splink_hist50k/historical_50k.jsonl.gz", "more/splink_fake1000/fake_1000.jsonl"),
        ships=True,
    ),
    Family("rldata", ("rldata/rldata500.jsonl", "rldata/rldata10000.jsonl"), ships=False),
    Family("chadwick", ("chadwick/chadwick_10k.jsonl.gz",), ships=True),
    Family("restaurant", ("restaurant/restaurant_864.jsonl",), ships=True),
    Family("papers", ("cora/cora_1879.jsonl", *_products("dblp_acm")), ships=True),
    Family("products", _products("abt_buy", "amazon_google", "walmart_amazon"), ships=True),
    Family("cddb", ("cddb/cddb_9763.jsonl",), ships=True),
    Family("inspire", ("more/inspire_wang/inspire_wang.jsonl.gz",), ships=True),
    Family("ecbplus", ("more/ecbplus/ecbplus.jsonl",), ships=True),
    Family("mhercl", ("more/mhercl/mhercl.jsonl",), ships=True),
    Family("conel22", ("more/conel22/conel22.jsonl",), ships=True),
    # gum's share-alike half is measured, never trained on, so it is in no family
    Family("fair_el", ("more/fair_el/fair_el.jsonl", "more/gum/gum_ccby.jsonl"), ships=True),
    Family("ror", ("more/ror/ror.jsonl.gz",), ships=True),
    Family("nsi_brands", ("more/nsi_brands/nsi_brands.jsonl.gz",), ships=True),
    Family("artists", ("more/artists/artists_nga.jsonl.gz",), ships=True),
    Family("places_ne", ("more/places_ne/places_ne.jsonl.gz",), ships=True),
    Family(
        "syriaca",
        ("more/syriaca/syriaca_places.jsonl", "more/syriaca/syriaca_persons.jsonl"),
        ships=True,
    ),
    Family(
        "wd",
        tuple(f"confusable/wd{n}_{half}.jsonl" for n in (50, 200) for half in ("train", "dev")),
        ships=False,
    ),
    Family(
        "dwie",
        (
            "dwie/dwie_public_traindev.jsonl",
            *(f"confusable/dwie{n}_{half}.jsonl" for n in (50, 100) for half in ("train", "dev")),
        ),
        ships=False,
    ),
    Family("webnlg", ("webnlg/webnlg_1text_per_entry.jsonl.gz",), ships=False),
    Family(GENERATED, (), ships=True),
)
"""Every family; a family's place in the list decides nothing."""


def family_named(name: str) -> Family:
    """The family of this name."""
    for family in FAMILIES:
        if family.name == name:
            return family
    known = ", ".join(family.name for family in FAMILIES)
    raise UsageError(f'family: expected one of {known}, got "{name}"')


def resampled(root: Path, family: Family, count: int, seed: int) -> Iterator[LabelledFile]:
    """Files drawn from a family; each depends on the family, the seed and its number alone."""
    if not family.files:
        yield from generated(count, seed)
        return
    for number in range(count):
        path = family.files[number % len(family.files)]
        stem = Path(path).name.split(".")[0]
        rng = random.Random(f"{family.name}/{seed}/{number}")
        size = round(_FEWEST * (_MOST / _FEWEST) ** rng.random())
        fragments = _draw(_clusters(root / path), rng, size)
        yield LabelledFile(family.name, f"{stem}-{seed}-{number}", fragments)


def large(root: Path, family: Family, count: int, seed: int) -> Iterator[LabelledFile]:
    """Files as of `resampled`, of 700 to 2400 fragments if the family's files have so many."""
    for number in range(count if family.files else 0):
        path = family.files[number % len(family.files)]
        rng = random.Random(f"large/{family.name}/{seed}/{number}")
        size = round(_LARGE * (_LARGEST / _LARGE) ** rng.random())
        fragments = _draw(_clusters(root / path), rng, size)
        yield LabelledFile(
            family.name, f"large-{Path(path).name.split('.')[0]}-{seed}-{number}", fragments
        )


def small(root: Path, family: Family, count: int, seed: int) -> Iterator[LabelledFile]:
    """Files as of `resampled`, of which some entities are kept: 12 to 120 fragments."""
    for file in resampled(root, family, count, seed):
        rng = random.Random(f"small/{file.family}/{file.name}")
        size = round(_SMALLEST * (_SMALL / _SMALLEST) ** rng.random())
        labels = list(dict.fromkeys(f.label for f in file.fragments))
        counts = Counter(f.label for f in file.fragments)
        rng.shuffle(labels)
        kept, held = set(), 0
        for label in labels:
            if held < size:
                kept.add(label)
                held += counts[label]
        fragments = tuple(f for f in file.fragments if f.label in kept)
        yield LabelledFile(file.family, f"small-{file.name}", fragments)


def generated(count: int, seed: int) -> Iterator[LabelledFile]:
    """Made-up people, organisations and products: the family "generated"."""
    for name, fragments in generated_files(count, seed):
        yield LabelledFile(GENERATED, name, fragments)


def whole(root: Path, family: Family, most: int | None = None) -> Iterator[LabelledFile]:
    """A family's files as they are, in their own order and with their own ids."""
    for path in family.files:
        fragments = tuple(_name_first(f) for f in read_fragments(str(root / path)))
        if most is None or len(fragments) <= most:
            yield LabelledFile(family.name, Path(path).name.split(".")[0], fragments)


@lru_cache(maxsize=2)
def _clusters(path: Path) -> Mapping[str, tuple[Fragment, ...]]:
    """Gold clusters of a file, in order of first appearance; fragments without a label left out."""
    found: dict[str, list[Fragment]] = defaultdict(list)
    for fragment in read_fragments(str(path)):
        if fragment.label is not None:
            found[fragment.label].append(fragment)
    return {label: tuple(members) for label, members in found.items()}


def _draw(
    clusters: Mapping[str, Sequence[Fragment]], rng: random.Random, size: int
) -> tuple[Fragment, ...]:
    cap = min(rng.choice((2, 4, size, size)), max(_LARGEST_CLUSTER, size // 5))
    singletons = rng.choice((0.0, 0.0, 0.0, 0.3, 0.6, 0.9))
    alone = rng.choice((1.0, 1.0, 0.5, 0.1))
    drawn: list[Fragment] = []
    for label in _entities(clusters, rng):
        members = clusters[label]
        if len(members) == 1 and rng.random() > alone:
            continue
        most = 1 if rng.random() < singletons else cap
        drawn += members if len(members) <= most else rng.sample(list(members), most)
        if len(drawn) >= size:
            break
    rng.shuffle(drawn)
    seen = _attributes_seen(drawn, rng)
    slips = rng.choice((0.0, 0.0, 0.0, rng.uniform(0.02, 0.2)))
    named = rng.random() < 0.67
    return tuple(
        replace(
            f,
            id=f"f{number}",
            properties=_with_slips(_observed(_joined(f) if named else f, seen, rng), slips, rng),
            source=None,
            metadata=None,
        )
        for number, f in enumerate(map(_name_first, drawn))
    )


def _entities(clusters: Mapping[str, Sequence[Fragment]], rng: random.Random) -> Iterator[str]:
    """Every label once: uniformly, or with those that share a name or a word next to each other."""
    labels = sorted(clusters)
    rng.shuffle(labels)
    mode = rng.choice(("uniform", "words", "words", "namesakes", "mixed"))
    if mode == "uniform":
        yield from labels
        return
    bearers = _bearers(clusters, labels, whole_names=mode == "namesakes")
    if mode == "namesakes":  # those with namesakes first
        labels.sort(key=lambda label: not any(len(b) > 1 for b in bearers.of(label)))
    done: set[str] = set()
    most = rng.randint(2, _MOST_NEIGHBOURS)
    for label in labels:
        if label in done:
            continue
        done.add(label)
        yield label
        if mode == "mixed" and rng.random() < 0.5:
            continue
        # rare words first: their bearers are the ones that can be confused
        near = [
            other
            for bearing in sorted(bearers.of(label), key=len)
            for other in bearing
            if other not in done
        ]
        for other in list(dict.fromkeys(near))[:most]:
            done.add(other)
            yield other


class _bearers:
    """Which entities bear a word, or a whole name."""

    def __init__(
        self,
        clusters: Mapping[str, Sequence[Fragment]],
        labels: Sequence[str],
        whole_names: bool,
    ) -> None:
        self._words = {
            label: tuple(
                dict.fromkeys(
                    word
                    for fragment in clusters[label]
                    for name in _joined(fragment).names
                    for word in ([name.casefold()] if whole_names else name.casefold().split())
                )
            )
            for label in labels
        }
        self._bearers: dict[str, list[str]] = defaultdict(list)
        for label in labels:
            for word in self._words[label]:
                self._bearers[word].append(label)

    def of(self, label: str) -> list[list[str]]:
        """The bearers of each word of an entity; of words that all bear, none."""
        found = (self._bearers[word] for word in self._words[label])
        return [bearing for bearing in found if len(bearing) <= _MOST_BEARERS]


def _name_first(fragment: Fragment) -> Fragment:
    """The fragment with `name` as its first attribute, if it has one."""
    if "name" not in fragment.properties:
        return fragment
    rest = {key: values for key, values in fragment.properties.items() if key != "name"}
    return replace(fragment, properties={"name": fragment.names, **rest})


def _joined(fragment: Fragment) -> Fragment:
    """The fragment with a name of its `first_name` and `surname`, where it has no name."""
    properties = dict(fragment.properties)
    if "name" in properties:
        return fragment
    parts = [properties.pop(key)[0] for key in ("first_name", "surname") if key in properties]
    if not parts:
        return fragment
    return replace(fragment, properties={"name": (" ".join(parts),), **properties})


def _attributes_seen(fragments: Sequence[Fragment], rng: random.Random) -> dict[str, float]:
    """How often each attribute other than the name is kept: all, some of them, or none."""
    counts = Counter(key for f in fragments for key in f.properties if key != "name")
    mode = rng.choice(("all", "all", "all", "some", "some", "names"))
    if mode == "all":
        return dict.fromkeys(counts, 1.0)
    if mode == "names":
        return dict.fromkeys(counts, 0.0)
    kept, each = rng.uniform(0.3, 0.9), rng.uniform(0.4, 1.0)
    return {key: each if rng.random() < kept else 0.0 for key in sorted(counts)}


def _observed(
    fragment: Fragment, seen: Mapping[str, float], rng: random.Random
) -> dict[str, tuple[str, ...]]:
    """What is kept of a fragment's properties: at least its name, or its first attribute."""
    names = {"name", "first_name", "surname"}
    kept = {
        key: values
        for key, values in fragment.properties.items()
        if key in names or rng.random() < seen.get(key, 1.0)
    }
    return kept or dict([next(iter(fragment.properties.items()))])


def _with_slips(
    properties: dict[str, tuple[str, ...]], rate: float, rng: random.Random
) -> dict[str, tuple[str, ...]]:
    """Slips of the pen in a share of the values."""
    if not rate:
        return properties
    return {
        key: tuple(slip(value, rng) if rng.random() < rate else value for value in values)
        for key, values in properties.items()
    }

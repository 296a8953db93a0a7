"""The labelled sets of the data folder, and the family that each belongs to.

A family is what sets have in common that a model could learn from one and use on another: the same
source, the same entities, the same generator. Who trains on a set of a family has seen the family.
The families are those of `kbforge_lab.training.defaults.families`, by the same names.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from kbforge.contracts.fragment import Fragment
from kbforge.files.fragments import read_fragments

UNSEEN = frozenset({"rldata", "wd", "dwie", "webnlg"})
"""Families that nothing that ships may be trained on: their licences do not allow it."""


@dataclass(frozen=True, slots=True)
class LabelledSet:
    """A set of the data folder.

    Attributes:
        name: what tables call it.
        file: in the data folder.
        family: whose other sets are like it.
        fragments: about how many, which says before it is read whether it is wanted.
        first: only whole entities, in order of first appearance, until so many fragments at least.
        counted: whether it is one of the 26 whose mean is quoted.

    """

    name: str
    file: str
    family: str
    fragments: int
    first: int | None = None
    counted: bool = False

    def read(self, folder: Path) -> tuple[Fragment, ...]:
        """The fragments that have a label."""
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
)
"""Every labelled set with properties; those with vectors have suites of their own."""

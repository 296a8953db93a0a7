"""The confidence map: how to read what a posterior reports, as a small TOML that travels with it.

    format = 1
    kbforge = "0.2.0"

    [likelihood]                   # a map is good for this likelihood only
    name = "bigram"
    [likelihood.options]
    scale = "25"

    [clustering]                   # how the reports came about that it was fitted on
    clusterer = "split-smc"
    alpha = 12.5
    temperature = 1.0
    shuffles = 1

    [data]
    fragments = 5000
    sha256 = "..."

    [[pairs]]                      # two fragments share a cluster
    largest = 4                    # for subproblems of so many fragments at most; the last has none
    claims = 120                   # how many this part was fitted on
    reported = [0.02, 0.5, 0.999]
    calibrated = [0.04, 0.4, 0.95]

    [[entities]]                   # a cluster is exactly an entity; likewise
    ...

It may be a file of its own, `confidence.toml` in a model bundle, or the table `confidence` of a
calibration file. Reading is strict.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from kbforge.contracts import FloatArray, Fragment
from kbforge.evaluation.monotone import Band, MonotoneMap
from kbforge.evaluation.reliability import BoolArray, Entities, Pairs
from kbforge.files.records import Option, Record
from kbforge.files.toml import read_table, toml_value
from kbforge.version import __version__

FORMAT = 1
IN_BUNDLE = "confidence.toml"
WRITER = "kbforge calibrate --confidence"


@dataclass(frozen=True, slots=True)
class Reported:
    """What a clustering reports, as far as a map may know it: gold labels are not read.

    Attributes:
        fragments: those that were clustered, in order.
        entities: the point estimate.
        changed: which of the fragments are in subproblems that changed, shape [fragments]; None is
            all. The others are there to be compared with.

    """

    fragments: Sequence[Fragment]
    entities: Entities
    changed: BoolArray | None = None


class Reading(Protocol):
    """How to read what is reported: the calibrated probabilities of claims."""

    def of_entities(self, reported: Reported) -> FloatArray:
        """That each entity of the point estimate is exactly right, shape [entities]."""

    def of_pairs(self, reported: Reported, pairs: Pairs) -> FloatArray:
        """That each of some pairs of fragments is one entity, shape [pairs]."""


@dataclass(frozen=True, slots=True)
class ConfidenceMap:
    """Maps for both kinds of claims, and where they come from.

    Attributes:
        pairs: of "these two fragments share a cluster".
        entities: of "this cluster is exactly an entity".
        likelihood: name or path of the likelihood it was fitted with.
        options: that likelihood's options.
        clusterer: name of the clusterer.
        alpha: the concentration given or calibrated, before tempering.
        temperature: of the likelihood.
        shuffles: orders of the data that the reports were averaged over.
        fragments: how many were clustered to fit it, with those that have no label.
        sha256: their fingerprint.
        kbforge: version of the program.

    """

    pairs: MonotoneMap
    entities: MonotoneMap
    likelihood: str
    clusterer: str
    alpha: float
    temperature: float
    shuffles: int
    fragments: int
    sha256: str
    options: Mapping[str, Option] = field(default_factory=dict)
    kbforge: str = __version__

    def of_entities(self, reported: Reported) -> FloatArray:
        """As `Reading`; the fragments do not matter."""
        return self.entities.apply(reported.entities.probability, reported.entities.size)

    def of_pairs(self, reported: Reported, pairs: Pairs) -> FloatArray:
        """As `Reading`; the fragments do not matter."""
        return self.pairs.apply(pairs.probability, pairs.size)


def confidence_toml(found: ConfidenceMap) -> bytes:
    """The content of a file of its own."""
    head = f"# Written by {WRITER}; read by kbforge cluster --confidence-map.\n"
    return (head + "\n".join(lines_of(found)) + "\n").encode()


def lines_of(found: ConfidenceMap, within: str = "") -> Iterator[str]:
    """The lines of the map; `within` is the table that holds it, with a dot behind."""
    yield f"format = {FORMAT}"
    yield f"kbforge = {toml_value(found.kbforge)}"
    yield ""
    yield f"[{within}likelihood]"
    yield f"name = {toml_value(found.likelihood)}"
    yield f"[{within}likelihood.options]"
    for key, value in sorted(found.options.items()):
        yield f"{toml_value(key)} = {toml_value(value)}"
    yield ""
    yield f"[{within}clustering]"
    yield f"clusterer = {toml_value(found.clusterer)}"
    yield f"alpha = {found.alpha!r}"
    yield f"temperature = {found.temperature!r}"
    yield f"shuffles = {found.shuffles}"
    yield ""
    yield f"[{within}data]"
    yield f"fragments = {found.fragments}"
    yield f"sha256 = {toml_value(found.sha256)}"
    for name, part in (("pairs", found.pairs), ("entities", found.entities)):
        for band in part.bands:
            yield ""
            yield f"[[{within}{name}]]"
            if math.isfinite(band.largest):
                yield f"largest = {band.largest:.0f}"
            yield f"claims = {band.claims}"
            yield f"reported = {_numbers(band.reported)}"
            yield f"calibrated = {_numbers(band.calibrated)}"


def read_confidence(path: str) -> ConfidenceMap:
    """Read a file of its own strictly; "-" is standard input.

    Raises:
        KBForgeError: unreadable, not TOML, or not a confidence map; with file and field.

    """
    return parse_confidence(read_table(path, "confidence", WRITER))


def parse_confidence(top: Record) -> ConfidenceMap:
    """The map that a table holds.

    Raises:
        KBForgeError: with file and field.

    """
    top.only("format", "kbforge", "likelihood", "clustering", "data", "pairs", "entities")
    top.get("format", int)
    top.version(FORMAT)
    likelihood = top.table("likelihood").only("name", "options")
    how = top.table("clustering").only("clusterer", "alpha", "temperature", "shuffles")
    for key in ("alpha", "temperature"):
        if not how.number(key) > 0:
            raise how.wrong(key, "a number above 0", repr(how.number(key)))
    data = top.table("data").only("fragments", "sha256")
    return ConfidenceMap(
        pairs=_map(top, "pairs"),
        entities=_map(top, "entities"),
        likelihood=likelihood.get("name", str),
        options=likelihood.table("options").options(),
        clusterer=how.get("clusterer", str),
        alpha=how.number("alpha"),
        temperature=how.number("temperature"),
        shuffles=how.count("shuffles"),
        fragments=data.count("fragments"),
        sha256=data.get("sha256", str),
        kbforge=top.get("kbforge", str),
    )


def _map(top: Record, name: str) -> MonotoneMap:
    tables = list(top.tables(name))
    if not tables:
        raise top.wrong(name, "at least one table", "none")
    bands: list[Band] = []
    for number, table in enumerate(tables):
        table.only("largest", "claims", "reported", "calibrated")
        last = number == len(tables) - 1
        if last and "largest" in table:
            raise table.wrong("largest", "nothing, for it is the last", "a number")
        largest = math.inf if last else table.number("largest")
        before = bands[-1].largest if bands else 0.0
        if largest <= before:
            raise table.wrong("largest", f"more than {before:g}", f"{largest:g}")
        reported, calibrated = table.numbers("reported"), table.numbers("calibrated")
        _check_knots(table, reported, calibrated)
        bands.append(Band(largest, table.count("claims"), reported, calibrated))
    return MonotoneMap(tuple(bands))


def _check_knots(table: Record, reported: tuple[float, ...], calibrated: tuple[float, ...]) -> None:
    if not reported:
        raise table.wrong("reported", "at least one number", "none")
    if len(calibrated) != len(reported):
        raise table.wrong(
            "calibrated", f"{len(reported)} numbers, as many as reported", str(len(calibrated))
        )
    for key, values in (("reported", reported), ("calibrated", calibrated)):
        for value in values:
            if not 0 <= value <= 1:
                raise table.wrong(key, "numbers from 0 to 1", f"{value:g}")
        for before, value in itertools.pairwise(values):
            if value < before:
                got = f"{value:g} after {before:g}"
                raise table.wrong(key, "numbers that never descend", got)


def _numbers(values: tuple[float, ...]) -> str:
    return f"[{', '.join(map(repr, values))}]"

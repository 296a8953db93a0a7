"""Confidence maps: monotone maps from reported probabilities to observed frequencies.

A truncated posterior under a misspecified likelihood is overconfident, especially in large
subproblems. The map therefore reads the reported probability p and the size s of the subproblem:

1. Claims with known truth are put into bands of sizes (1, 2, 3-4, 5-8, ...) and, within a band,
   into cells of equal width in logit p.
2. A cell's share of true claims is shrunk towards a map of all sizes, with the weight of a few
   subproblems. Claims of one subproblem are true or false together, so the evidence is the number
   of subproblems, not of claims. So sparse bands follow the others, and no band is certain after a
   few subproblems.
3. Each band gets a weighted isotonic regression (pool adjacent violators) over logit p.

Between cells the map is linear in logit p, beyond them constant. It never decreases in p; the data
determine its dependence on s. A small TOML file has a map for each kind of claim:

    format = 1
    kbforge = "0.2.0"

    [likelihood]                   # a map is valid only for this likelihood
    name = "bigram"
    [likelihood.options]
    scale = "25"

    [clustering]                   # how the reports came about that it was fitted on
    clusterer = "split-smc"
    alpha = 12.5
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

import numpy as np

from kbforge.contracts import FloatArray, Fragment
from kbforge.evaluation.reliability import BoolArray, Claims, ReportedEntities, ReportedPairs
from kbforge.files.records import Option, Record, read_table, toml_value
from kbforge.version import __version__

_LIMIT = math.log(999)  # logits beyond p = .999 are one cell: what 1 means is for the data to say
_CELL = 0.5  # nats of logit p
_EVIDENCE = 10.0  # what the map of all sizes counts for in a cell of a band, in subproblems


@dataclass(frozen=True, slots=True)
class Band:
    """The map for a band of subproblem sizes."""

    largest: float  # fragments of its largest subproblem; infinite for the last band
    claims: int  # that it was fitted on
    reported: tuple[float, ...]  # probabilities, never descending, at least one
    calibrated: tuple[float, ...]  # what they are mapped to, in [0, 1], never descending

    def apply(self, probability: FloatArray) -> FloatArray:
        """The calibrated probabilities of reported ones, same shape."""
        knots = log_odds(np.array(self.reported))
        return np.interp(log_odds(probability), knots, self.calibrated)


@dataclass(frozen=True, slots=True)
class MonotoneMap:
    """Bands by ascending `largest`, the last of them infinite."""

    bands: tuple[Band, ...]

    def apply(self, probability: FloatArray, size: FloatArray) -> FloatArray:
        """The calibrated probabilities of reported ones from subproblems of these sizes, same
        shape."""
        out = np.empty(len(probability))
        number = np.searchsorted([band.largest for band in self.bands], size)
        for k, band in enumerate(self.bands):
            out[number == k] = band.apply(probability[number == k])
        return out

    def one(self, probability: float, size: float) -> float:
        """The calibrated probability of one reported one."""
        return float(self.apply(np.array([probability]), np.array([size]))[0])


def fit(claims: Claims) -> MonotoneMap:
    """The map fitted to claims whose truth is known; no claims are a ValueError."""
    if not len(claims):
        raise ValueError("no claims to fit a map to")
    # one true and one false subproblem more than there were: nothing is certain for ever
    subproblems = len(np.unique(claims.subproblem))
    share = (claims.true.mean() * subproblems + 1) / (subproblems + 2)
    anywhere = _fit_band(claims, math.inf, np.full(len(claims), share), 1.0)
    doubling = np.ceil(np.log2(np.maximum(claims.size, 1))).astype(np.int64)
    bands = []
    for k in np.unique(doubling).tolist():
        part = claims.where(doubling == k)
        largest = math.inf if k == doubling.max() else float(2**k)
        bands.append(_fit_band(part, largest, anywhere.apply(part.probability), _EVIDENCE))
    return MonotoneMap(tuple(bands))


def isotonic(values: FloatArray, weights: FloatArray) -> FloatArray:
    """The non-decreasing sequence nearest to `values` in weighted least squares, same shape."""
    from scipy.optimize import isotonic_regression  # .2 s to import, and few maps are fitted

    return np.asarray(isotonic_regression(values, weights=weights).x, np.float64)


def _fit_band(claims: Claims, largest: float, prior: FloatArray, strength: float) -> Band:
    """Isotonic regression on the cells of a band's claims.

    `prior`, the probability of each claim [claims], has the weight of `strength` subproblems per
    cell.
    """
    cells = np.floor(log_odds(claims.probability) / _CELL).astype(np.int64)
    _, cell, counts = np.unique(cells, return_inverse=True, return_counts=True)
    reported, true, expected = (
        np.bincount(cell, weights=values) / counts
        for values in (claims.probability, claims.true.astype(np.float64), prior)
    )
    # the subproblems that each cell has claims of
    width = int(claims.subproblem.max()) + 1
    evidence = np.bincount(np.unique(cell * width + claims.subproblem) // width).astype(np.float64)
    share = (evidence * true + strength * expected) / (evidence + strength)
    calibrated = np.clip(isotonic(share, counts.astype(np.float64)), 0.0, 1.0)
    # six digits say more than any data can, and people can read them
    reported, calibrated = np.round(reported, 6), np.round(calibrated, 6)
    # interpolation finds what lies within a run of equal values
    steps = np.diff(calibrated) != 0
    kept = np.flatnonzero(np.append(True, steps) | np.append(steps, True))
    knots, values = tuple(reported[kept].tolist()), tuple(calibrated[kept].tolist())
    return Band(largest, len(claims), knots, values)


def log_odds(probability: FloatArray) -> FloatArray:
    """In nats, within +-log 999."""
    with np.errstate(divide="ignore"):
        odds: FloatArray = np.log(probability) - np.log1p(-probability)
    return np.clip(odds, -_LIMIT, _LIMIT)


FORMAT = 1
IN_BUNDLE = "confidence.toml"
WRITER = "kbforge calibrate --confidence"


@dataclass(frozen=True, slots=True)
class ClusteringReport:
    """A clustering's report for a map, without gold labels."""

    fragments: Sequence[Fragment]  # in order
    entities: ReportedEntities  # the point estimate
    changed: BoolArray | None = None
    """[fragments] Which are in changed subproblems, with the others only for comparison; None means
    all."""


class ConfidenceMap(Protocol):
    """A confidence map: the calibrated probabilities of claims."""

    def of_entities(self, reported: ClusteringReport) -> FloatArray:
        """The probability that each entity of the estimate is exactly right, shape [entities]."""

    def of_pairs(self, reported: ClusteringReport, pairs: ReportedPairs) -> FloatArray:
        """The probability that each pair of fragments is one entity, shape [pairs]."""


@dataclass(frozen=True, slots=True)
class MonotoneConfidence:
    """Maps for pairs and entities, and their origin."""

    pairs: MonotoneMap  # of "these two fragments share a cluster"
    entities: MonotoneMap  # of "this cluster is exactly an entity"
    likelihood: str  # name or path of the likelihood that it was fitted with
    clusterer: str
    alpha: float  # given or calibrated
    shuffles: int  # orders of the data that the reports were averaged over
    fragments: int  # that were clustered to fit it, with those that have no label
    sha256: str  # their fingerprint
    options: Mapping[str, Option] = field(default_factory=dict)  # of the likelihood
    kbforge: str = __version__

    def of_entities(self, reported: ClusteringReport) -> FloatArray:
        """As `ConfidenceMap`; it ignores the fragments."""
        return self.entities.apply(reported.entities.probability, reported.entities.size)

    def of_pairs(self, reported: ClusteringReport, pairs: ReportedPairs) -> FloatArray:
        """As `ConfidenceMap`; it ignores the fragments."""
        return self.pairs.apply(pairs.probability, pairs.size)


def confidence_toml(found: MonotoneConfidence) -> bytes:
    """The content of a separate file."""
    head = f"# Written by {WRITER}; read by kbforge cluster --set confidence-map.\n"
    return (head + "\n".join(lines_of(found)) + "\n").encode()


def lines_of(found: MonotoneConfidence, within: str = "") -> Iterator[str]:
    """The lines of the map; `within` is the enclosing table, followed by a dot."""
    yield f"format = {FORMAT}"
    yield f"kbforge = {toml_value(found.kbforge)}"
    yield from likelihood_lines(found.likelihood, found.options, within)
    yield ""
    yield f"[{within}clustering]"
    yield f"clusterer = {toml_value(found.clusterer)}"
    yield f"alpha = {found.alpha!r}"
    yield f"shuffles = {found.shuffles}"
    yield from data_lines(found.fragments, found.sha256, within)
    for name, part in (("pairs", found.pairs), ("entities", found.entities)):
        for band in part.bands:
            yield ""
            yield f"[[{within}{name}]]"
            if math.isfinite(band.largest):
                yield f"largest = {band.largest:.0f}"
            yield f"claims = {band.claims}"
            # a list is written in TOML as in Python
            yield f"reported = {list(band.reported)}"
            yield f"calibrated = {list(band.calibrated)}"


def likelihood_lines(name: str, options: Mapping[str, Option], within: str = "") -> Iterator[str]:
    """The table of a likelihood, with an empty line before."""
    yield ""
    yield f"[{within}likelihood]"
    yield f"name = {toml_value(name)}"
    yield f"[{within}likelihood.options]"
    for key, value in sorted(options.items()):
        yield f"{toml_value(key)} = {toml_value(value)}"


def data_lines(fragments: int, sha256: str, within: str = "") -> Iterator[str]:
    """The table of the data, with an empty line before."""
    yield ""
    yield f"[{within}data]"
    yield f"fragments = {fragments}"
    yield f"sha256 = {toml_value(sha256)}"


def read_confidence(path: str) -> MonotoneConfidence:
    """Read a separate file strictly; "-" is standard input. Errors name file and field."""
    return parse_confidence(read_table(path, "confidence", WRITER))


def parse_confidence(top: Record) -> MonotoneConfidence:
    """The map in a table; errors name file and field."""
    top.only("format", "kbforge", "likelihood", "clustering", "data", "pairs", "entities")
    top.get("format", int)
    top.version(FORMAT)
    likelihood = top.table("likelihood").only("name", "options")
    how = top.table("clustering").only("clusterer", "alpha", "temperature", "shuffles")
    if not how.number("alpha") > 0:
        raise how.wrong("alpha", "a number above 0", repr(how.number("alpha")))
    if "temperature" in how and how.number("temperature") != 1:  # an earlier version had it
        raise how.wrong("temperature", "1 or nothing", repr(how.number("temperature")))
    data = top.table("data").only("fragments", "sha256")
    return MonotoneConfidence(
        pairs=_map(top, "pairs"),
        entities=_map(top, "entities"),
        likelihood=likelihood.get("name", str),
        options=likelihood.table("options").options(),
        clusterer=how.get("clusterer", str),
        alpha=how.number("alpha"),
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

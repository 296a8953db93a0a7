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
    largest = 4                    # maximum fragments of the subproblem; the last has none
    claims = 120                   # how many this part was fitted on
    reported = [0.02, 0.5, 0.999]
    calibrated = [0.04, 0.4, 0.95]

    [[entities]]                   # a cluster is exactly an entity; same fields
    ...

It may be a separate file, `confidence.toml` in a model bundle, or the table `confidence` of a
calibration file. Reading is strict.

*Answers.* Answers about a file shift a map that was fitted on other files. The map gives a claim
the probability c; with offset o the claim has logit c + o. The prior of the offset is o ~ N(0,
S^2), so with few answers the map hardly changes.

An answer that contradicts a cluster shows that it is not exactly an entity, unless the person erred
(with probability e). One that agrees shows less: the pair in question reveals only a share h of the
wrong clusters. So

    P(contradiction) = e + (1 - 2 e) h (1 - sigmoid(logit c + o)),   logit h ~ N(0, 1)

and o is its posterior mean, on a grid of o and h.

*The shipped map.* A map of only the reported probability is accurate for the data that it was
fitted on; on other data the same report is true far more or far less often. So for entities there
are trees, in `confidence.safetensors`, that also read the features of `kbforge.fit.features`: log
odds that the fragments of a cluster are exactly one entity. They were fitted on many families of
data with equal weights.

The trees never decrease in the reported log odds, all else equal. Within a subproblem claims keep
the order of their reports: if the trees reverse it, both get their mean. On new kinds of data the
trees err by file: all claims of a file are true more often, or less often, than predicted. The
report also errs by file, but seldom in the same direction, so the result is a mean of the two, in
which a report above .97 counts as .97. The weight of the report was optimal on families that the
trees had not seen. The trees were fitted for some likelihoods. For others the lower of report and
map counts. They do not cover fragments without properties.

A pair gets the mean of its report and of what the model of pairs says of these two fragments alone.
Trees do not help there: on families that they had not seen they were worse than this mean.

*Decisions.* A map knows nothing of decisions. If "same" ties all fragments of an entity to each
other, people have said that it is one, so only others can be missing. Then the entity has at least
the reported probability (`told_of_entities`): that is the posterior under all decisions, and it is
1 once an entity is confirmed. This was measured with decisions by labels
(`examples/reproductions/living.py decisions`). "Different" does not raise a confidence: it says
nothing of the fragments that it does not name, and on the same sets entities of one fragment that
it named were wrong far more often than reported.

*Stores.* A store keeps a map, and reads it again:

map         a map of reported probabilities: its TOML
doubt       the shipped map, or that of a folder of defaults: the likelihood that clustered, and
            the judge's expectations of groupings; the trees come from the version that reads, and
            the model of pairs has a state of its own
answered    another map, and the audits that shift it

Facts about the whole file are saved separately (`whole_of`, `with_whole`): they come from a report
on all of the file, and are frozen for later reports on parts.
"""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, logit

from kbforge.clustering.constraints import DecisionGraph
from kbforge.contracts import Decision, FloatArray, Fragment, IntArray, LearnedState
from kbforge.errors import ModelError, quoted
from kbforge.evaluation.reliability import BoolArray, Claims, ReportedPairs
from kbforge.files.answers import MOST_WRONG, NumberedAnswer
from kbforge.files.columns import ids_of
from kbforge.files.records import Option, Record, parse_toml, read_table, toml_value
from kbforge.fit.description import FileContext, FileCounts, FileSummary, PairModel, Prediction
from kbforge.fit.features import (
    AT_ONCE,
    ENTITY_FEATURES,
    ClusteringReport,
    ConfidenceFeatures,
    log_odds,
    odds_of_pairs,
    pair_odds,
)
from kbforge.fit.questions import ERROR
from kbforge.models.bundle import KeptReader, default_folder, read_default, together
from kbforge.models.trees import Trees, load_parts, save_parts
from kbforge.numerics import starts_of
from kbforge.version import __version__

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


MonotoneMap: TypeAlias = tuple[Band, ...]
"""Bands by ascending `largest`, the last of them infinite."""


def mapped(bands: MonotoneMap, probability: FloatArray, size: FloatArray) -> FloatArray:
    """The calibrated probabilities of reported ones from subproblems of these sizes, same shape."""
    out = np.empty(len(probability))
    number = np.searchsorted([band.largest for band in bands], size)
    for k, band in enumerate(bands):
        out[number == k] = band.apply(probability[number == k])
    return out


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
    return tuple(bands)


def isotonic(values: FloatArray, weights: FloatArray) -> FloatArray:
    """The non-decreasing sequence nearest to `values` in weighted least squares, same shape.

    It pools adjacent violators (Busing 2022) with the bits of `scipy.optimize.isotonic_regression`,
    whose import takes .2 s.
    """
    x, w = values.tolist(), weights.tolist()
    pools: list[tuple[float, float, int]] = []  # the mean, the weight and the end of each
    end = 0
    while end < len(x):
        mean, weight = x[end], w[end]
        end += 1
        if pools and pools[-1][0] >= mean:
            before, of_before, _ = pools.pop()
            total, weight = of_before * before + weight * mean, weight + of_before
            mean = total / weight
            while end < len(x) and mean >= x[end]:
                total, weight = total + w[end] * x[end], weight + w[end]
                mean, end = total / weight, end + 1
            while pools and pools[-1][0] >= mean:
                before, of_before, _ = pools.pop()
                total, weight = total + of_before * before, weight + of_before
                mean = total / weight
        pools.append((mean, weight, end))
    means, ends = [mean for mean, *_ in pools], [end for *_, end in pools]
    return np.repeat(np.array(means, np.float64), np.diff(ends, prepend=0))


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


FORMAT = 1
IN_BUNDLE = "confidence.toml"
WRITER = "kbforge calibrate --confidence"


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
        return mapped(self.entities, reported.entities.probability, reported.entities.size)

    def of_pairs(self, reported: ClusteringReport, pairs: ReportedPairs) -> FloatArray:
        """As `ConfidenceMap`; it ignores the fragments."""
        return mapped(self.pairs, pairs.probability, pairs.size)


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
        for band in part:
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
            raise table.wrong("largest", "nothing, because it is the last", "a number")
        largest = math.inf if last else table.number("largest")
        before = bands[-1].largest if bands else 0.0
        if largest <= before:
            raise table.wrong("largest", f"more than {before:g}", f"{largest:g}")
        reported, calibrated = table.numbers("reported"), table.numbers("calibrated")
        _check_knots(table, reported, calibrated)
        bands.append(Band(largest, table.count("claims"), reported, calibrated))
    return tuple(bands)


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


_SPREAD = 1.0  # S, nats
_GRID = 61
_WIDEST = 3.0  # standard deviations
_LEAST = 1e-3  # no map is surer than that

Audit: TypeAlias = tuple[str, str, bool]
"""An answer that tests an entity: ids of two fragments, and whether they are one entity."""


def shift(probability: FloatArray, offset: float) -> FloatArray:
    """The probabilities with a constant added to their log odds, same shape; 0 and 1 stay."""
    if not offset:
        return probability
    return np.asarray(expit(logit(probability) + offset), np.float64)


def offset_of(probability: FloatArray, contradicted: BoolArray) -> float:
    """The offset in nats, from tested claims and whether an answer contradicts each."""
    if not len(probability):
        return 0.0
    z = np.linspace(-_WIDEST, _WIDEST, _GRID)
    offsets = (_SPREAD * z)[:, None, None]
    found = expit(z)[None, :, None]
    right = expit(logit(np.clip(probability, _LEAST, 1 - _LEAST)) + offsets)  # [o, 1, claims]
    said = ERROR + (1 - 2 * ERROR) * found * (1 - right)  # [o, h, claims]
    weight = np.log(np.where(contradicted, said, 1 - said)).sum(axis=2)
    weight = weight - (z[:, None] ** 2 + z[None, :] ** 2) / 2
    mass = np.exp(weight - weight.max())
    return float((mass.sum(axis=1) * _SPREAD * z).sum() / mass.sum())


@dataclass(frozen=True, slots=True)
class AuditedConfidence:
    """A map, and answers about the fragments that it reads.

    It leaves pairs unchanged: the pairs of questions are uncertain ones, so their answers are not
    representative.
    """

    reading: ConfidenceMap
    audits: tuple[Audit, ...]  # of fragments, of which some may be gone
    offset: float | None = None  # None computes it from what is read; set where only a part is read

    @classmethod
    def of(
        cls,
        reading: ConfidenceMap,
        answers: Sequence[NumberedAnswer],
        fragments: Sequence[Fragment],
    ) -> AuditedConfidence:
        """The map with the audits among reliable answers, by numbers of the fragments."""
        audits = (
            (fragments[answer.first].id, fragments[answer.second].id, answer.same)
            for answer in answers
            if answer.audit and answer.same is not None and answer.right >= 1 - MOST_WRONG
        )
        return cls(reading, tuple(audits))

    def of_entities(self, reported: ClusteringReport) -> FloatArray:
        """As `ConfidenceMap`, shifted."""
        before = self.reading.of_entities(reported)
        offset = self.offset_by(reported, before) if self.offset is None else self.offset
        return shift(before, offset)

    def offset_by(self, reported: ClusteringReport, before: FloatArray) -> float:
        """The offset, from a report on all fragments and the map's probabilities `before`."""
        asked = {name for a, b, _ in self.audits for name in (a, b)}
        number = {f.id: k for k, f in enumerate(reported.fragments) if f.id in asked}
        placed = [
            (number[a], number[b], same)
            for a, b, same in self.audits
            if a in number and b in number
        ]
        entities = reported.entities
        holder = dict(zip(entities.members.tolist(), entities.of_members.tolist(), strict=True))
        tested = [
            (holder[a], same != (holder[a] == holder[b]))
            for a, b, same in placed
            if a in holder and b in holder
        ]
        numbers = np.array([number for number, _ in tested], np.int64)
        failed = np.array([failed for _, failed in tested], np.bool_)
        return offset_of(before[numbers], failed)

    def of_pairs(self, reported: ClusteringReport, pairs: ReportedPairs) -> FloatArray:
        """As `ConfidenceMap`."""
        return self.reading.of_pairs(reported, pairs)


def told_of_entities(
    reading: ConfidenceMap | None, reported: ClusteringReport, decisions: Sequence[Decision]
) -> FloatArray:
    """The confidence of each entity under the decisions in force, shape [entities].

    It is what the map says, or the reported probability without one; if decisions tie an entity
    (`tied_by`), at least the reported probability.
    """
    probability = reported.entities.probability
    if reading is None:
        return probability
    sure = reading.of_entities(reported)
    return np.where(tied_by(decisions, reported), np.maximum(sure, probability), sure)


def tied_by(decisions: Sequence[Decision], reported: ClusteringReport) -> BoolArray:
    """Whether "same" ties all fragments of an entity to each other, shape [entities].

    A single fragment is tied if it is named.
    """
    entities, ids = reported.entities, list(ids_of(reported.fragments))
    same = [one for one in decisions if one.same]
    if {id for one in same for id in (one.first, one.second)}.isdisjoint(ids):
        return np.zeros(len(entities), np.bool_)  # most additions concern no decision
    component = DecisionGraph(same).component
    number = {name: place for place, name in enumerate(component)}
    tie = [number[component[id]] if id in component else -1 for id in ids]
    ties, starts = np.array(tie)[entities.members], starts_of(entities.lengths)[:-1]
    first = np.minimum.reduceat(ties, starts)
    tied: BoolArray = (first >= 0) & (first == np.maximum.reduceat(ties, starts))
    return tied


CONFIDENCE_FILE = "confidence.safetensors"

_WRITER = "python -m kbforge_lab.training.defaults.confidence"
_SUREST = 0.97  # what a report counts as at most; at least the rest to 1
_OF_PAIRS = 0.5  # weight of the report of a pair


@dataclass(frozen=True, eq=False)
class TreeConfidence:
    """The map of a folder, for one file."""

    entities: Trees  # log odds
    likelihoods: tuple[str, ...]  # that they were fitted for
    share: float  # of the report in what is told of entities
    context: FileContext

    def of_entities(self, reported: ClusteringReport) -> FloatArray:
        """As `ConfidenceMap`."""
        entities, trees = reported.entities, self.entities
        described = ConfidenceFeatures(reported, self.context)
        sums = np.empty(len(entities))
        for start in range(0, len(entities), AT_ONCE):
            part = slice(start, min(start + AT_ONCE, len(entities)))
            sums[part] = trees.predict(described.entities(trees.features, part))
        calibrated = expit(sums)  # NumPy's exp has other last bits on other processors
        if self.context.likelihood not in self.likelihoods:
            calibrated = np.minimum(calibrated, entities.probability)
            return in_order(entities.probability, calibrated, entities.subproblem)
        calibrated = in_order(entities.probability, calibrated, entities.subproblem)
        return pooled(entities.probability, calibrated, self.share)

    def of_pairs(self, reported: ClusteringReport, pairs: ReportedPairs) -> FloatArray:
        """As `ConfidenceMap`."""
        odds = pair_odds(reported, self.context)
        alone = None if odds is None else odds_of_pairs(odds, pairs)
        return pairs_told(pairs.probability, alone)


def pairs_told(probability: FloatArray, odds: FloatArray | None) -> FloatArray:
    """The probabilities of pairs, from reports and log odds of the model of pairs, if known.

    Arrays have shape [pairs]; log odds that are unknown are NaN.
    """
    alone = probability if odds is None else np.where(np.isnan(odds), probability, expit(odds))
    return pooled(probability, alone, _OF_PAIRS)


def pooled(probability: FloatArray, calibrated: FloatArray, share: float) -> FloatArray:
    """The mean of reported and calibrated probabilities, with this weight of the report; same
    shape."""
    return calibrated + share * (np.clip(probability, 1 - _SUREST, _SUREST) - calibrated)


def in_order(probability: FloatArray, calibrated: FloatArray, subproblem: IntArray) -> FloatArray:
    """Calibrated probabilities in the order of the reported ones within a subproblem."""
    order = np.lexsort((calibrated, probability, subproblem))
    sorted_ones, number = calibrated[order], subproblem[order]
    begins = np.flatnonzero(np.diff(number, prepend=-1))
    ends = np.append(begins[1:], len(order))
    turned = (np.diff(sorted_ones, append=np.inf) < 0) & (np.diff(number, append=-1) == 0)
    for place in np.unique(np.searchsorted(begins, np.flatnonzero(turned), side="right") - 1):
        part = slice(begins[place], ends[place])
        sorted_ones[part] = isotonic(sorted_ones[part], np.ones(ends[place] - begins[place]))
    out = np.empty_like(calibrated)
    out[order] = np.clip(sorted_ones, 0.0, 1.0)
    return out


def confidence_bytes(
    entities: Trees,
    likelihoods: tuple[str, ...],
    share: float,
    families: tuple[str, ...],
    files: int,
) -> bytes:
    """The content of `confidence.safetensors`: trees, and facts about them.

    `share` is the weight of the report, `files` how many the trees were fitted on.
    """
    facts = {"likelihoods": likelihoods, "report": share, "families": families, "files": files}
    told = np.frombuffer(json.dumps(facts).encode(), np.uint8)
    return save_parts({"entities": entities}, {"facts": told})


def shipped_confidence(context: FileContext, defaults: str | None = None) -> TreeConfidence:
    """The map of the folder `defaults` for a file, or the shipped one if it has none.

    One that is damaged, in an old format or with unknown features is a ModelError.
    """
    if defaults is not None and not (Path(defaults) / CONFIDENCE_FILE).exists():
        for earlier in sorted(Path(defaults).glob("doubt.*")):
            raise ModelError(
                f"{quoted(defaults, 400)}: expected {CONFIDENCE_FILE}, got {earlier.name} of an "
                "earlier version; kbforge lab train-default DATA -o "
                f"{quoted(defaults, 400)} --part confidence makes the new file"
            )
    folder = default_folder(defaults, CONFIDENCE_FILE)
    where = quoted(str(folder / CONFIDENCE_FILE), 400)
    content = read_default(folder, CONFIDENCE_FILE)
    trees, others = load_parts(content, where, ("entities",), ("facts",))
    for name in trees["entities"].features:
        if name not in ENTITY_FEATURES:
            raise ModelError(
                f'{where}: expected features that this version has, got "{quoted(name)}" '
                f"({_WRITER} writes this file)"
            )
    likelihoods, share = _facts(others["facts"], where)
    return TreeConfidence(trees["entities"], likelihoods, share, context)


def _facts(facts: NDArray[Any], where: str) -> tuple[tuple[str, ...], float]:
    """The likelihoods of the trees, and the weight of the report."""

    def wrong(field: str, expected: str, got: str) -> ModelError:
        return ModelError(
            f"{where}: {field}: expected {expected}, got {got} ({_WRITER} writes this file)"
        )

    try:
        told = json.loads(facts.tobytes())
    except ValueError as error:
        raise wrong("facts", "JSON", quoted(str(error), 200)) from error
    if not isinstance(told, dict):
        raise wrong("facts", "an object", quoted(told, 40))
    record = Record(told, wrong).only("likelihoods", "report", "families", "files")
    return record.texts("likelihoods"), record.within("report", 0.0, 1.0)


_CALLED = "confidence map"
_MAP, _TREES, _ANSWERED = KINDS = ("map", "doubt", "answered")
_LARGEST_DIGEST = 2**63 - 1


def dump_map(reading: ConfidenceMap) -> LearnedState:
    """A map as plain data; a ModelError if it is of an unknown kind."""
    if isinstance(reading, MonotoneConfidence):
        return LearnedState({"kind": _MAP, "toml": confidence_toml(reading).decode()})
    if isinstance(reading, AuditedConfidence):
        audits = [list(audit) for audit in reading.audits]
        return together(
            LearnedState({"kind": _ANSWERED, "audits": audits}), reading=dump_map(reading.reading)
        )
    if isinstance(reading, TreeConfidence):
        context = reading.context
        predicted = None if context.predicted is None else _dump_predicted(context.predicted)
        own: dict[str, Any] = {
            "kind": _TREES,
            "likelihood": context.likelihood,
            "pairs": context.pairs is not None,
            "judged": predicted is not None,
        }
        return together(LearnedState(own), predicted=predicted)
    raise ModelError(f"{_CALLED}: a {type(reading).__name__} cannot be kept")


def load_map(
    kept: LearnedState, pairs: PairModel | None = None, defaults: str | None = None
) -> ConfidenceMap:
    """The map saved by `dump_map`, with its model of pairs and folder, if any."""
    read = KeptReader(kept, _CALLED)
    kind = read.fields.choice("kind", KINDS)
    if kind == _MAP:
        toml = read.only("kind", "toml").get("toml", str)
        return parse_confidence(Record(parse_toml(toml.encode(), _CALLED, ModelError), read.wrong))
    if kind == _ANSWERED:
        read.only("kind", "audits", "reading")
        return AuditedConfidence(load_map(read.part("reading"), pairs, defaults), _audits(read))
    judged = read.fields.get("judged", bool, "true or false")
    fields = read.only("kind", "likelihood", "pairs", "judged", *(["predicted"] * judged))
    had_pairs = fields.get("pairs", bool, "true or false")
    if had_pairs and pairs is None:
        raise ModelError(f"{_CALLED}: it was made with a model of pairs, and none is given")
    context = FileContext(
        fields.get("likelihood", str),
        pairs if had_pairs else None,
        _predicted(read.part("predicted")) if judged else None,
    )
    return shipped_confidence(context, defaults)


def pair_model_of(reading: ConfidenceMap) -> PairModel | None:
    """The model of pairs that a map uses, if any."""
    if isinstance(reading, AuditedConfidence):
        return pair_model_of(reading.reading)
    return reading.context.pairs if isinstance(reading, TreeConfidence) else None


def reads_whole(reading: ConfidenceMap) -> bool:
    """Whether a map's result for an entity depends on the file besides the entity's report."""
    return isinstance(reading, AuditedConfidence | TreeConfidence)


def whole_of(reading: ConfidenceMap, reported: ClusteringReport) -> LearnedState | None:
    """A map's facts about the whole file, from a report on all of it; None if there are none."""
    if isinstance(reading, AuditedConfidence):
        offset = reading.offset_by(reported, reading.reading.of_entities(reported))
        inner = whole_of(reading.reading, reported)
        return together(LearnedState({"shift": offset}), reading=inner)
    if not isinstance(reading, TreeConfidence):
        return None
    whole = ConfidenceFeatures(reported, reading.context).whole
    counted = whole.counted
    columns = {name: value for name, value in whole.columns.items() if not np.isnan(value)}
    return LearnedState(
        {
            "columns": columns,
            "names": counted.names,
            "naming": list(counted.naming),
            "others": list(counted.others),
        },
        {"parts": counted.parts},
    )


def with_whole(reading: ConfidenceMap, kept: LearnedState) -> ConfidenceMap:
    """The map for reports on parts of the file with these saved facts."""
    read = KeptReader(kept, f"{_CALLED}: the saved facts of the file")
    if isinstance(reading, AuditedConfidence):
        inner = reading.reading
        if "reading" in kept.values:
            inner = with_whole(inner, read.part("reading"))
        return replace(reading, reading=inner, offset=read.fields.number("shift"))
    if not isinstance(reading, TreeConfidence):
        return reading
    fields = read.only("columns", "names", "naming", "others")
    columns = fields.get("columns", dict)
    for name, value in columns.items():
        if not isinstance(value, float | int):
            raise fields.wrong(f"columns.{name}", "a number", value)
    counted = FileCounts(
        fields.get("names", int),
        fields.texts("naming"),
        fields.texts("others"),
        read.array("parts", np.int32, least=0),
    )
    if not len(counted.parts):
        raise fields.wrong("parts", "counts", "none")
    return replace(reading, context=replace(reading.context, whole=FileSummary(counted, columns)))


def _audits(read: KeptReader) -> tuple[Audit, ...]:
    out = []
    for number, audit in enumerate(read.fields.get("audits", list)):
        if not isinstance(audit, list) or list(map(type, audit)) != [str, str, bool]:
            expected = "two ids and whether they are one entity"
            raise read.fields.wrong(f"audits[{number}]", expected, audit)
        out.append((audit[0], audit[1], audit[2]))
    return tuple(out)


def _dump_predicted(predicted: Prediction) -> LearnedState:
    return LearnedState(
        {"f1": predicted.f1, "gain": predicted.gain, "ids": list(predicted.ids)},
        {
            "weights": predicted.weights,
            "labels": predicted.labels.astype(np.int32),
            "stated": predicted.stated,
        },
    )


def _predicted(kept: LearnedState) -> Prediction:
    read = KeptReader(kept, f"{_CALLED}: the saved expectations of groupings")
    fields = read.only("f1", "gain", "ids")
    ids = fields.texts("ids")
    n = len(ids)
    weights = read.array("weights", np.float64, least=0.0, most=1.0)
    labels = read.array("labels", np.int32, len(weights), least=0, most=n - 1, width=n)
    stated = read.array("stated", np.int64, n, least=0, most=_LARGEST_DIGEST)
    f1, gain = fields.number("f1"), fields.number("gain")
    return Prediction(f1, gain, weights, labels.astype(np.int64), ids, stated)

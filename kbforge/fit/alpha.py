"""Alpha from a calibration file or from a grouping.

`kbforge calibrate` writes a small TOML that `kbforge cluster` reads:

    format = 1
    alpha = 12.5                   # concentration of the Dirichlet process
    log_alpha = 2.5257286443082556
    at_edge = ""                   # "low" or "high": the search range was too narrow
    kbforge = "0.2.0"

    [objective]
    name = "pseudo-likelihood"     # the calibrator
    value = -1234.5

    [likelihood]
    name = "bigram"                # an alpha is good for this likelihood only
    [likelihood.options]
    scale = "25"

    [data]
    fragments = 500
    sha256 = "..."                 # of the fragments, as `fingerprint` makes it

    [confidence]                   # optional: the map that `kbforge calibrate --confidence` adds
    ...

Reading is strict: a missing, unknown, mistyped or contradictory field is an error.

A slow likelihood estimates alpha from the grouping of a fast one; no labels are read. If the
likelihood is not a true probability of the file (a language model trained elsewhere), an alpha from
other data is off by tens of nats. The grouping determines alpha, which should open the same number
of entities. The fragments come in a random order, each decides between the earlier clusters and a
new one, and with

    r_i = L({i}) - logsumexp over clusters C of [log |C| + L(C + i) - L(C)]

the log odds at alpha 1 that i opens a new cluster, log alpha is the maximum of the
pseudo-likelihood of the grouping's own decisions (Besag 1975), a logistic regression with an
intercept only: the a at which

    sum over i of sigmoid(a + r_i) = how many decisions of the grouping open a cluster.

A single wrong decision of the grouping moves one term by less than one, whatever its odds.

It is cheap: it scores only a sample of decisions, each against the fragment's own cluster and the
others that share most with it, and only a sample of the fragments of a large cluster.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import orjson
from scipy.special import expit

from kbforge.clustering.scoring import ScoreCache
from kbforge.contracts import CandidateIndex, FloatArray, Fragment, Likelihood
from kbforge.errors import LikelihoodError, UsageError, quoted
from kbforge.files.io import open_output
from kbforge.files.records import Option, Record, read_table, toml_value
from kbforge.fit.confidence import (
    MonotoneConfidence,
    data_lines,
    likelihood_lines,
    lines_of,
    parse_confidence,
)
from kbforge.indexes.selective import Selective
from kbforge.numerics import root_of
from kbforge.version import __version__

CALIBRATION_FILE = "calibration.toml"
"""The calibration of a model, in its bundle."""

FORMAT = 1
_LOG_TOLERANCE = 1e-6


@dataclass(frozen=True, slots=True)
class Calibration:
    """A calibrated concentration and its origin."""

    alpha: float  # > 0
    objective: str  # name of the calibrator
    value: float  # its objective at alpha
    at_edge: str  # "low", "high" or ""
    likelihood: str  # name or path of the likelihood that it was calibrated for
    fragments: int  # that it was calibrated on
    sha256: str  # their fingerprint
    options: Mapping[str, Option] = field(default_factory=dict)  # of the likelihood
    kbforge: str = __version__
    confidence: MonotoneConfidence | None = None  # the map for what is reported with this alpha

    @property
    def log_alpha(self) -> float:
        """log alpha, in nats: the offset of the likelihood at alpha 1."""
        return math.log(self.alpha)


def fingerprint(fragments: Iterable[Fragment]) -> str:
    """SHA-256 of the fragments as JSON lines with sorted keys: the same for any file format."""
    digest = hashlib.sha256()
    for fragment in fragments:
        digest.update(orjson.dumps(fragment.to_json(), option=orjson.OPT_SORT_KEYS) + b"\n")
    return digest.hexdigest()


def write_calibration(calibration: Calibration, path: str) -> None:
    """Write a calibration file atomically; "-" is standard output."""
    with open_output(path) as out:
        out.write(to_toml(calibration))


def to_toml(c: Calibration) -> bytes:
    """The content of a calibration file."""
    lines = [
        "# Written by kbforge calibrate; read by kbforge cluster --set calibration.",
        f"format = {FORMAT}",
        f"alpha = {c.alpha!r}",
        f"log_alpha = {c.log_alpha!r}",
        f"at_edge = {toml_value(c.at_edge)}",
        f"kbforge = {toml_value(c.kbforge)}",
        "",
        "[objective]",
        f"name = {toml_value(c.objective)}",
        f"value = {c.value!r}",
        *likelihood_lines(c.likelihood, c.options),
        *data_lines(c.fragments, c.sha256),
    ]
    if c.confidence is not None:
        lines += ["", "[confidence]", *lines_of(c.confidence, "confidence.")]
    return "\n".join(lines).encode() + b"\n"


def read_calibration(path: str) -> Calibration:
    """Read strictly; "-" is standard input. Errors name file and field."""
    return _parse(read_table(path, "calibration", "kbforge calibrate"))


def _parse(top: Record) -> Calibration:
    top.only(
        *("format", "alpha", "log_alpha", "at_edge", "kbforge", "objective", "likelihood", "data"),
        "confidence",
    )
    top.get("format", int)
    top.version(FORMAT)
    alpha, log_alpha = top.number("alpha"), top.number("log_alpha")
    if not alpha > 0:
        raise top.wrong("alpha", "a number above 0", repr(alpha))
    if not math.isclose(math.log(alpha), log_alpha, abs_tol=_LOG_TOLERANCE):
        raise top.wrong(
            "log_alpha", f"the natural logarithm of alpha ({math.log(alpha):.6f})", repr(log_alpha)
        )
    at_edge = top.get("at_edge", str)
    if at_edge not in ("", "low", "high"):
        raise top.wrong("at_edge", '"low", "high" or ""', quoted(at_edge))
    objective = top.table("objective").only("name", "value")
    likelihood = top.table("likelihood").only("name", "options")
    data = top.table("data").only("fragments", "sha256")
    return Calibration(
        alpha=alpha,
        objective=objective.get("name", str),
        value=objective.number("value"),
        at_edge=at_edge,
        likelihood=likelihood.get("name", str),
        options=likelihood.table("options").options(),
        fragments=data.get("fragments", int),
        sha256=data.get("sha256", str),
        kbforge=top.get("kbforge", str),
        confidence=parse_confidence(top.table("confidence")) if "confidence" in top else None,
    )


DECISIONS = 200
OTHERS = 2  # clusters other than its own that a fragment is compared with
MEMBERS = 8  # of a cluster that are scored

_BEYOND = 20.0  # nats outside of all odds, where the sum is flat


@dataclass(frozen=True, slots=True)
class _Decision:
    """A fragment's choices: clusters of earlier fragments, its own first."""

    fragment: int  # i
    opens: bool  # whether i opens a cluster in the grouping
    sizes: Sequence[int]  # |C| of each cluster
    sets: Sequence[Sequence[int]]  # some members of each


def alpha_by_grouping(
    likelihood: Likelihood,
    fragments: Sequence[Fragment],
    clusters: Sequence[Sequence[int]],
) -> float:
    """The alpha at which a likelihood opens as many entities as a grouping has.

    The likelihood may be a black box. `clusters` has each index of `fragments` once, otherwise a
    UsageError is raised. A NaN, or a fragment without any finite choice, raises a LikelihoodError.
    """
    if sorted(i for cluster in clusters for i in cluster) != list(range(len(fragments))):
        raise UsageError("alpha by a grouping: expected each fragment in one cluster")
    if len(fragments) < 2:
        return likelihood.default_alpha
    index = likelihood.index
    if index is None:
        index = Selective()
        index.fit(fragments)
    asked = list(_decisions(fragments, clusters, index, np.random.default_rng(0)))
    odds = _log_odds_new(ScoreCache.of(likelihood), fragments, asked)
    if np.isnan(odds).any():
        raise LikelihoodError("the likelihood gives a fragment NaN, or no finite place")
    # one half where none or all open a cluster, so that there is a maximum
    opened = min(max(sum(one.opens for one in asked), 0.5), len(asked) - 0.5)
    return math.exp(_where_expected(odds, opened))


def _decisions(
    fragments: Sequence[Fragment],
    clusters: Sequence[Sequence[int]],
    index: CandidateIndex,
    rng: np.random.Generator,
) -> Iterator[_Decision]:
    """A sample of the decisions of the fragments, in a random order."""
    order = rng.permutation(len(fragments)).tolist()
    cluster_of = {i: number for number, cluster in enumerate(clusters) for i in cluster}
    # the first has no choice
    chosen = set((1 + rng.permutation(len(fragments) - 1)[:DECISIONS]).tolist())
    before: dict[int, list[int]] = {}
    postings: dict[int, set[int]] = {}
    for place, i in enumerate(order):
        own, keys = cluster_of[i], index.keys(fragments[i])
        if place in chosen:
            ranked = _most_alike(keys, postings, own)
            met = [own] * (own in before) + ranked
            sets = [_some(before[number], rng) for number in met]
            yield _Decision(i, own not in before, [len(before[n]) for n in met], sets)
        before.setdefault(own, []).append(i)
        for key in keys:
            postings.setdefault(key, set()).add(own)


def _most_alike(keys: Sequence[int], postings: dict[int, set[int]], own: int) -> list[int]:
    """The clusters that share most with a fragment, weighted towards rare keys."""
    weight: dict[int, float] = {}
    for key in keys:
        for number in postings.get(key, ()):
            if number != own:
                weight[number] = weight.get(number, 0.0) + 1 / len(postings[key])
    return sorted(weight, key=lambda number: (-weight[number], number))[:OTHERS]


def _some(members: Sequence[int], rng: np.random.Generator) -> list[int]:
    if len(members) <= MEMBERS:
        return list(members)
    return [members[k] for k in sorted(rng.permutation(len(members))[:MEMBERS].tolist())]


def _log_odds_new(
    cache: ScoreCache, fragments: Sequence[Fragment], asked: Sequence[_Decision]
) -> FloatArray:
    """r of each decision, nats."""
    sets: list[list[Fragment]] = []
    for one in asked:
        x = fragments[one.fragment]
        sets.append([x])
        for members in one.sets:
            held = [fragments[i] for i in members]
            sets += [held, [*held, x]]
    scores = iter(cache.log_marginal(sets).tolist())
    odds = []
    for one in asked:
        alone = next(scores)
        joins = [-next(scores) + next(scores) + math.log(size) for size in one.sizes]
        existing = float(np.logaddexp.reduce(joins, initial=-np.inf))
        odds.append(math.nan if alone == existing == -math.inf else alone - existing)
    return np.array(odds)


def _where_expected(odds: FloatArray, opened: float) -> float:
    """The log alpha with the same expected number of new clusters, within the range of the odds."""
    finite = odds[np.isfinite(odds)]
    if not len(finite):
        return 0.0
    low, high = -float(finite.max()) - _BEYOND, -float(finite.min()) + _BEYOND

    def excess(log_alpha: float) -> float:
        return float(expit(log_alpha + odds).sum()) - opened

    # fragments that share nothing with others open a cluster at any alpha
    if excess(low) >= 0:
        return low + _BEYOND
    if excess(high) <= 0:
        return high - _BEYOND
    return root_of(excess, low, high)

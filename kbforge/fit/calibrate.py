"""Calibration on labelled fragments: alpha, reliability, and a confidence map.

A calibrator chooses alpha. For reliability the fragments are clustered without their labels, and
the claims of the clustering are compared with the labels. The mean over several orders of the
fragments makes more cautious claims than one order. A confidence map is fitted to such claims.

A map is tested on entities that it was not fitted on. They are clustered separately: selecting
pairs within one part of a larger clustering would lose wrong pairs but no right ones.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from kbforge import registry
from kbforge.contracts import CalibrationResult, Calibrator, Fragment, Posterior, Progress, Search
from kbforge.errors import KBForgeError, UsageError, quoted
from kbforge.evaluation.reliability import (
    BINS,
    LEAST,
    Reliability,
    entity_claims,
    entity_probabilities,
    pair_claims,
    pair_probabilities,
    reliability,
    renumbered,
)
from kbforge.evaluation.scores import Scores, compare
from kbforge.files.io import open_output, require_writable
from kbforge.files.records import Option
from kbforge.fit.alpha import Calibration, fingerprint, read_calibration, write_calibration
from kbforge.fit.choices import PreparedRun, RunOptions
from kbforge.fit.confidence import (
    IN_BUNDLE,
    ConfidenceMap,
    MonotoneConfidence,
    confidence_toml,
    fit,
)
from kbforge.fit.features import ClusteringReport
from kbforge.fit.prepare import prepare
from kbforge.models.bundle import add_file, read_bundle

OnOrder = Callable[[int, Progress], None]
"""Called with the number of the order, from 0, and the progress of its clustering."""


def _cluster_orders(
    fragments: Sequence[Fragment], choices: RunOptions, shuffles: int, on_order: OnOrder | None
) -> tuple[PreparedRun, list[Posterior]]:
    """Cluster the fragments in the order given, then in random ones, `shuffles` in all.

    All posteriors use the numbers of the first order. Fragments without any label are an error.
    """
    if fragments and all(fragment.label is None for fragment in fragments):
        raise KBForgeError(f"none of the {len(fragments):,} fragments has a label")
    prepared = prepare(fragments, choices)
    posteriors: list[Posterior] = []
    for number in range(shuffles):
        order = list(range(len(fragments)))
        if number:
            random = np.random.default_rng([choices.seed, number])
            order = random.permutation(len(fragments)).tolist()
        posterior = prepared.clusterer.cluster(
            [fragments[k] for k in order],
            prepared.spec,
            np.random.default_rng(choices.seed),
            None if on_order is None else partial(on_order, number),
        )
        posteriors.append(renumbered(posterior, order) if number else posterior)
    return prepared, posteriors


_BLOCKS = "▁▂▃▄▅▆▇█"


Curve: TypeAlias = tuple[tuple[float, float], ...]
"""(alpha, objective) of every evaluation, by alpha."""


def search_between(between: str | None) -> Search:
    """The search range between two concentrations, LOW,HIGH; None keeps the default."""
    if between is None:
        return Search()
    try:
        low, high = (math.log(float(part)) for part in between.split(","))
    except ValueError:
        low = high = math.nan
    if not -math.inf < low < high < math.inf:
        raise UsageError(
            "--between: expected LOW,HIGH with LOW above 0 and HIGH above LOW, got "
            f"{quoted(between)}"
        )
    return Search(low, high)


def calibrate(
    fragments: Sequence[Fragment],
    choices: RunOptions,
    calibrator: str = "pseudo-likelihood",
    search: Search | None = None,
    on_evaluation: Callable[[float, float], None] | None = None,
) -> tuple[Calibration, Curve, tuple[str, ...]]:
    """Choose alpha for the likelihood that `choices` names; the last value has notes for the
    user."""
    if not fragments:
        raise KBForgeError("there are no fragments to calibrate on")
    search = search or Search()
    chooser: Calibrator = registry.create("calibrators", calibrator, choices.of("calibrator"))
    # any alpha will do: it is what the calibrator looks for
    prepared = prepare(fragments, replace(choices, alpha=1.0, calibration=None))
    result = chooser.calibrate(
        fragments,
        prepared.spec,
        prepared.clusterer,
        search,
        np.random.default_rng(choices.seed),
        on_evaluation,
    )
    calibration = Calibration(
        alpha=result.alpha,
        objective=calibrator,
        value=result.objective,
        at_edge=result.at_edge,
        likelihood=prepared.likelihood,
        options={
            key: value if isinstance(value, Option) else str(value)
            for key, value in choices.of("likelihood").items()
        },
        fragments=len(fragments),
        sha256=fingerprint(fragments),
    )
    return calibration, result.curve, prepared.notes + _edge_note(result, search)


def sparkline(curve: Curve, width: int = 48) -> str:
    """The objective over log alpha as one line of blocks, `width` characters."""
    places = np.log([alpha for alpha, _ in curve])
    values = np.array([value for _, value in curve])
    finite = np.isfinite(values)
    if not finite.any():
        return ""
    values = np.interp(np.linspace(places[0], places[-1], width), places[finite], values[finite])
    span = float(np.ptp(values)) or 1.0
    heights = (values - values.min()) / span * (len(_BLOCKS) - 1)
    return "".join(_BLOCKS[int(height)] for height in heights.round())


def _edge_note(result: CalibrationResult, search: Search) -> tuple[str, ...]:
    if not result.at_edge:
        return ()
    edge = math.exp(search.low if result.at_edge == "low" else search.high)
    return (
        f"the best alpha lies at the {result.at_edge} edge of the search range ({edge:.4g}): widen "
        f"the range with --{result.at_edge}; if it stays at the edge, these fragments do not bound "
        f"alpha",
    )


Mapped: TypeAlias = tuple[Reliability, Reliability | None]
"""The reliability of one kind of claims, raw and calibrated by a map (None without one)."""


@dataclass(frozen=True, slots=True)
class ReliabilityReport:
    """How often a clustering's claims are true."""

    fragments: int  # that were clustered
    unlabelled: int  # of them
    pairs: Mapped  # claims that two fragments share a cluster
    entities: Mapped  # claims that a cluster is exactly an entity
    scores: Scores  # of the point estimate
    shuffles: int  # orders of the data to average over; the first is the one given
    alpha: float
    notes: tuple[str, ...]  # sentences for the user

    def summary(self) -> dict[str, Any]:
        """The summary of `kbforge evaluate --reliability --json`."""
        return {
            "fragments": self.fragments,
            "unlabelled": self.unlabelled,
            "alpha": self.alpha,
            "shuffles": self.shuffles,
            "least_probability": LEAST,
            "bins": BINS,
            "pairs": _by_name(self.pairs),
            "entities": _by_name(self.entities),
            "scores": self.scores.to_json(),
        }


def _by_name(measured: Mapped) -> dict[str, Any]:
    raw, mapped = measured
    return {"raw": asdict(raw), "mapped": None if mapped is None else asdict(mapped)}


def measure_reliability(
    fragments: Sequence[Fragment],
    choices: RunOptions,
    confidence: ConfidenceMap | None = None,
    shuffles: int = 1,
    on_order: OnOrder | None = None,
) -> ReliabilityReport:
    """Cluster labelled fragments and compare the claims with the labels.

    Fragments without a label are clustered with the others. `confidence` is the map to apply; None
    uses the one for the choices, if any. The reported probability is the mean over `shuffles`
    orders of the fragments, starting with the given one.
    """
    prepared, posteriors = _cluster_orders(fragments, choices, shuffles, on_order)
    notes = list(prepared.notes)
    found = confidence or prepared.confidence
    if isinstance(found, MonotoneConfidence) and found.shuffles != shuffles:
        notes.append(
            f"the confidence map was fitted on reports of {found.shuffles} orders, "
            f"and reads reports of {shuffles} here"
        )
    labels = [fragment.label for fragment in fragments]
    pairs = pair_probabilities(posteriors, LEAST)
    entities = entity_probabilities(posteriors)
    claims = pair_claims(pairs, labels), entity_claims(entities, labels)
    raw = [reliability(one) for one in claims]
    mapped: list[Reliability | None] = [None, None]
    if found is not None:
        reported = ClusteringReport(tuple(fragments), entities)
        pairs = replace(pairs, probability=found.of_pairs(reported, pairs))
        entities = replace(entities, probability=found.of_entities(reported))
        claims = pair_claims(pairs, labels), entity_claims(entities, labels)
        mapped = [reliability(one) for one in claims]
    labelled = [k for k, label in enumerate(labels) if label is not None]
    predicted = posteriors[0].labels()
    return ReliabilityReport(
        fragments=len(fragments),
        unlabelled=len(fragments) - len(labelled),
        pairs=(raw[0], mapped[0]),
        entities=(raw[1], mapped[1]),
        scores=compare([predicted[k] for k in labelled], [labels[k] for k in labelled]),
        shuffles=shuffles,
        alpha=prepared.alpha,
        notes=tuple(notes),
    )


def fit_confidence(
    fragments: Sequence[Fragment],
    choices: RunOptions,
    shuffles: int = 1,
    on_order: OnOrder | None = None,
) -> MonotoneConfidence:
    """Cluster labelled fragments and fit the map of their claims to the labels."""
    prepared, posteriors = _cluster_orders(fragments, choices, shuffles, on_order)
    labels = [fragment.label for fragment in fragments]
    pairs = pair_claims(pair_probabilities(posteriors, LEAST), labels)
    entities = entity_claims(entity_probabilities(posteriors), labels)
    if not len(pairs):
        raise KBForgeError(
            "no confidence map can be fitted: no two labelled fragments may share an entity; try "
            "a smaller alpha"
        )
    if not len(entities):
        raise KBForgeError(
            "no confidence map can be fitted: every entity has a fragment without a label; give "
            "fragments that all have labels"
        )
    return MonotoneConfidence(
        pairs=fit(pairs),
        entities=fit(entities),
        likelihood=choices.likelihood_name,
        options={key: str(value) for key, value in choices.of("likelihood").items()},
        clusterer=choices.clusterer_name,
        alpha=prepared.alpha,
        shuffles=shuffles,
        fragments=len(fragments),
        sha256=fingerprint(fragments),
    )


def save_confidence(found: MonotoneConfidence, path: str, calibration: str | None) -> str:
    """Save a map where commands find it, and return its file.

    `path` is a model folder, the calibration file in use, or any other file, which is replaced.
    """
    if Path(path).is_dir():
        add_file(Path(path), IN_BUNDLE, confidence_toml(found))
        return str(Path(path) / IN_BUNDLE)
    if calibration is not None and _same_file(path, calibration):
        write_calibration(replace(read_calibration(path), confidence=found), calibration)
        return calibration
    with open_output(path) as out:
        out.write(confidence_toml(found))
    return path


def require_place(path: str) -> None:
    """Check before long work that `save_confidence` can save a map."""
    if Path(path).is_dir():
        read_bundle(Path(path))
    else:
        require_writable(path)


def halves(fragments: Sequence[Fragment]) -> tuple[list[Fragment], list[Fragment]]:
    """Split gold entities into halves for fitting and testing, always in the same way.

    Fragments without a label are in neither. Too few entities for two halves are an error.
    """
    known = [fragment for fragment in fragments if fragment.label is not None]
    fitted, tested = [f for f in known if _is_first(f)], [f for f in known if not _is_first(f)]
    if not fitted or not tested:
        entities = len({fragment.label for fragment in known})
        raise KBForgeError(
            f"a confidence map needs labelled entities to fit on and others to be tested on, "
            f"got {entities} in all"
        )
    return fitted, tested


def require_disjoint(fitted: Sequence[Fragment], tested: Sequence[Fragment]) -> None:
    """Refuse to test a map on entities that it was fitted on."""
    shared = {f.label for f in fitted} & {f.label for f in tested} - {None}
    if shared:
        raise UsageError(
            f"--test-on: expected entities that the map is not fitted on, got {len(shared):,} of "
            f'them, such as "{quoted(min(map(str, shared)))}"'
        )


def _same_file(one: str, other: str) -> bool:
    # one file may be named in several ways
    try:
        return Path(one).samefile(other)
    except OSError:
        return False


def _is_first(fragment: Fragment) -> bool:
    digest = hashlib.blake2b(str(fragment.label).encode(), digest_size=1).digest()
    return digest[0] % 2 == 0

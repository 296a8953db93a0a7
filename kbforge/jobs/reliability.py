"""Assessing: is what a clustering reports true as often as it says? By names and options.

Fragments with labels are clustered without them, in one order or several, and the claims that come
out are held against gold. A confidence map is fitted the same way, on fragments of other entities:
they are clustered by themselves, because to cluster all and then to choose pairs within one part
would lose wrong pairs, half of which reach from one part into the other, and no right ones.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from kbforge.contracts import Fragment, Posterior, Progress
from kbforge.errors import KBForgeError, UsageError, quoted
from kbforge.evaluation.monotone import MonotoneMap, fit
from kbforge.evaluation.reliability import (
    BINS,
    LEAST,
    Claims,
    Reliability,
    entity_claims,
    pair_claims,
    reliability,
    renumbered,
)
from kbforge.evaluation.scores import Scores, compare
from kbforge.files.io import open_output, require_writable
from kbforge.jobs.cluster import DEFAULT_LIKELIHOOD, Choices, prepare
from kbforge.models.bundle import add_file, read_bundle
from kbforge.models.calibration import fingerprint, read_calibration, write_calibration
from kbforge.models.confidence import IN_BUNDLE, ConfidenceMap, confidence_toml

OnOrder = Callable[[int, Progress], None]
"""Called with the number of the order, from 0, and how far its clustering has come."""


@dataclass(frozen=True, slots=True)
class How:
    """How to measure.

    Attributes:
        bins: of equal width, of the reliability tables.
        shuffles: orders of the data to average over; the first is the one given.
        least: pairs with no more reported probability are left out.

    """

    bins: int = BINS
    shuffles: int = 1
    least: float = LEAST


@dataclass(frozen=True, slots=True)
class Compared:
    """The reliability of one kind of claims, raw and by a map (None without one)."""

    raw: Reliability
    mapped: Reliability | None

    def to_json(self) -> dict[str, Any]:
        """Both by name."""
        return {
            "raw": self.raw.to_json(),
            "mapped": None if self.mapped is None else self.mapped.to_json(),
        }


@dataclass(frozen=True, slots=True)
class Assessment:
    """What became of a clustering's claims.

    Attributes:
        fragments: how many were clustered.
        unlabelled: how many of them gold says nothing about.
        pairs: claims that two fragments share a cluster.
        entities: claims that a cluster of the point estimate is exactly an entity.
        scores: of the point estimate.
        how: bins, shuffles and the least probability.
        alpha: the concentration, before tempering.
        temperature: of the likelihood.
        notes: sentences for the user.

    """

    fragments: int
    unlabelled: int
    pairs: Compared
    entities: Compared
    scores: Scores
    how: How
    alpha: float
    temperature: float
    notes: tuple[str, ...]

    def summary(self) -> dict[str, Any]:
        """The figures that `kbforge reliability --json` prints."""
        return {
            "fragments": self.fragments,
            "unlabelled": self.unlabelled,
            "alpha": self.alpha,
            "temperature": self.temperature,
            "shuffles": self.how.shuffles,
            "least_probability": self.how.least,
            "bins": self.how.bins,
            "pairs": self.pairs.to_json(),
            "entities": self.entities.to_json(),
            "scores": self.scores.to_json(),
        }


def assess(
    fragments: Sequence[Fragment],
    choices: Choices,
    how: How,
    confidence: ConfidenceMap | None = None,
    on_order: OnOrder | None = None,
) -> Assessment:
    """Cluster labelled fragments and hold the claims against the labels.

    Args:
        fragments: those without a label are clustered with the others, and judge nothing.
        choices: likelihood, clusterer and so on.
        how: how to measure.
        confidence: the map to apply; None takes the one that goes with the choices, if any.
        on_order: is told of progress.

    Raises:
        KBForgeError: no labels, or as `kbforge.jobs.cluster.cluster`.

    """
    run = _cluster(fragments, choices, how, on_order)
    found = confidence or run.confidence
    if found is not None and found.shuffles != how.shuffles:
        run.notes.append(
            f"the confidence map was fitted on reports of {found.shuffles} orders, "
            f"and reads reports of {how.shuffles} here"
        )
    pairs, entities = run.claims(how.least)
    labelled = [k for k, label in enumerate(run.labels) if label is not None]
    predicted = run.posteriors[0].labels()
    return Assessment(
        fragments=len(fragments),
        unlabelled=len(fragments) - len(labelled),
        pairs=_compared(pairs, None if found is None else found.pairs, how.bins),
        entities=_compared(entities, None if found is None else found.entities, how.bins),
        scores=compare([predicted[k] for k in labelled], [run.labels[k] for k in labelled]),
        how=how,
        alpha=run.alpha,
        temperature=choices.temperature,
        notes=tuple(run.notes),
    )


def fit_confidence(
    fragments: Sequence[Fragment],
    choices: Choices,
    how: How,
    on_order: OnOrder | None = None,
) -> ConfidenceMap:
    """Cluster labelled fragments and fit the map of their claims to the labels.

    Raises:
        KBForgeError: no labels, no claims to fit a map on, or as `kbforge.jobs.cluster.cluster`.

    """
    run = _cluster(fragments, choices, how, on_order)
    pairs, entities = run.claims(how.least)
    if not len(pairs):
        raise KBForgeError(
            "there is nothing to fit a confidence map on: no two labelled fragments may share an "
            "entity; try a smaller alpha"
        )
    if not len(entities):
        raise KBForgeError(
            "there is nothing to fit a confidence map on: every entity found has a fragment "
            "without a label; give fragments that all have one"
        )
    return ConfidenceMap(
        pairs=fit(pairs),
        entities=fit(entities),
        likelihood=choices.likelihood or DEFAULT_LIKELIHOOD,
        options={key: str(value) for key, value in choices.of("likelihood").items()},
        clusterer=choices.clusterer,
        alpha=run.alpha,
        temperature=float(choices.temperature),
        shuffles=how.shuffles,
        fragments=len(fragments),
        sha256=fingerprint(fragments),
    )


def save_confidence(found: ConfidenceMap, path: str, calibration: str | None) -> str:
    """Put a map where it will be found: into a model folder, a calibration file, or a file.

    Args:
        found: the map.
        path: a model folder, the calibration file, or any other file, which is replaced.
        calibration: the calibration file in use, if any.

    Returns:
        The file that now holds it.

    Raises:
        KBForgeError: it cannot be written.

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
    """Find out before long work that a map cannot be put somewhere.

    Args:
        path: as of `save_confidence`.

    Raises:
        KBForgeError: a folder that is not a model, or a file that cannot be written.

    """
    if Path(path).is_dir():
        read_bundle(Path(path))
    else:
        require_writable(path)


def halves(fragments: Sequence[Fragment]) -> tuple[list[Fragment], list[Fragment]]:
    """One gold entity in two, and the others; the same ones every time.

    Returns:
        To fit on, and to test on, in the order given; fragments without a label are in neither.

    Raises:
        KBForgeError: there are too few entities for both.

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
    """Refuse to test a map on entities that it was fitted on.

    Raises:
        UsageError: a label is in both.

    """
    shared = {f.label for f in fitted} & {f.label for f in tested} - {None}
    if shared:
        raise UsageError(
            f"--fit-on: expected entities that are not in the test, got {len(shared):,} of them, "
            f'such as "{quoted(min(map(str, shared)))}"'
        )


@dataclass(slots=True)
class _Run:
    """Fragments clustered in one order or several.

    Attributes:
        posteriors: one an order, all in the numbers of the first.
        labels: gold.
        alpha: before tempering.
        confidence: the map that goes with the choices.
        notes: sentences for the user.

    """

    posteriors: list[Posterior]
    labels: list[str | None]
    alpha: float
    confidence: ConfidenceMap | None
    notes: list[str]

    def claims(self, least: float) -> tuple[Claims, Claims]:
        """Those of pairs, and those of entities."""
        return (
            pair_claims(self.posteriors, self.labels, least),
            entity_claims(self.posteriors, self.labels),
        )


def _cluster(
    fragments: Sequence[Fragment], choices: Choices, how: How, on_order: OnOrder | None
) -> _Run:
    labels = [fragment.label for fragment in fragments]
    if fragments and all(label is None for label in labels):
        raise KBForgeError(f"none of the {len(fragments):,} fragments has a label")
    prepared = prepare(fragments, choices)
    posteriors = []
    for number in range(how.shuffles):
        order = _order(len(fragments), number, choices.seed)
        posterior = prepared.clusterer.cluster(
            [fragments[k] for k in order],
            prepared.problem,
            np.random.default_rng(choices.seed),
            None if on_order is None else _told(on_order, number),
        )
        posteriors.append(renumbered(posterior, order) if number else posterior)
    notes = list(prepared.notes)
    return _Run(posteriors, labels, prepared.alpha, prepared.confidence, notes)


def _order(n: int, number: int, seed: int) -> list[int]:
    """The order given, then random ones."""
    if not number:
        return list(range(n))
    found: list[int] = np.random.default_rng([seed, number]).permutation(n).tolist()
    return found


def _told(on_order: OnOrder, number: int) -> Callable[[Progress], None]:
    return lambda progress: on_order(number, progress)


def _compared(claims: Claims, found: MonotoneMap | None, bins: int) -> Compared:
    raw = reliability(claims, bins)
    if found is None:
        return Compared(raw, None)
    mapped = replace(claims, probability=found.apply(claims.probability, claims.size))
    return Compared(raw, reliability(mapped, bins))


def _same_file(one: str, other: str) -> bool:
    # one file may be named in several ways
    try:
        return Path(one).samefile(other)
    except OSError:
        return False


def _is_first(fragment: Fragment) -> bool:
    digest = hashlib.blake2b(str(fragment.label).encode(), digest_size=1).digest()
    return digest[0] % 2 == 0

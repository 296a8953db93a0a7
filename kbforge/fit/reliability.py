"""Reliability: is what a clustering reports true as often as it says?

Fragments with labels are clustered without them, in one order or several. What the clustering
claims is held against the labels.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from kbforge.contracts import Fragment
from kbforge.evaluation.reliability import (
    BINS,
    LEAST,
    Claims,
    Reliability,
    entity_claims,
    pair_claims,
    reliability,
)
from kbforge.evaluation.scores import Scores, compare
from kbforge.fit.choices import Choices
from kbforge.fit.confidence import ConfidenceMap, Reading, Reported
from kbforge.fit.orders import OnOrder, cluster_orders


@dataclass(frozen=True, slots=True)
class ReliabilitySettings:
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
class ReliabilityReport:
    """What became of a clustering's claims.

    Attributes:
        fragments: how many were clustered.
        unlabelled: how many of them gold says nothing about.
        pairs: claims that two fragments share a cluster.
        entities: claims that a cluster of the point estimate is exactly an entity.
        scores: of the point estimate.
        settings: bins, shuffles and the least probability.
        alpha: the concentration, before tempering.
        temperature: of the likelihood.
        notes: sentences for the user.

    """

    fragments: int
    unlabelled: int
    pairs: Compared
    entities: Compared
    scores: Scores
    settings: ReliabilitySettings
    alpha: float
    temperature: float
    notes: tuple[str, ...]

    def summary(self) -> dict[str, Any]:
        """The figures that `kbforge evaluate --reliability --json` prints."""
        return {
            "fragments": self.fragments,
            "unlabelled": self.unlabelled,
            "alpha": self.alpha,
            "temperature": self.temperature,
            "shuffles": self.settings.shuffles,
            "least_probability": self.settings.least,
            "bins": self.settings.bins,
            "pairs": self.pairs.to_json(),
            "entities": self.entities.to_json(),
            "scores": self.scores.to_json(),
        }


def measure_reliability(
    fragments: Sequence[Fragment],
    choices: Choices,
    settings: ReliabilitySettings,
    confidence: Reading | None = None,
    on_order: OnOrder | None = None,
) -> ReliabilityReport:
    """Cluster labelled fragments and hold the claims against the labels.

    Args:
        fragments: those without a label are clustered with the others, and judge nothing.
        choices: likelihood, clusterer and so on.
        settings: how to measure.
        confidence: the map to apply; None takes the one that goes with the choices, if any.
        on_order: is told of progress.

    Raises:
        KBForgeError: no labels, or as `kbforge.jobs.cluster.cluster`.

    """
    run = cluster_orders(fragments, choices, settings.shuffles, on_order)
    notes = list(run.notes)
    found = confidence or run.confidence
    if isinstance(found, ConfidenceMap) and found.shuffles != settings.shuffles:
        notes.append(
            f"the confidence map was fitted on reports of {found.shuffles} orders, "
            f"and reads reports of {settings.shuffles} here"
        )
    pairs, entities = run.pairs(settings.least), run.entities()
    reported, mapped = Reported(run.fragments, entities), None
    if found is not None:
        mapped = (
            replace(pairs, probability=found.of_pairs(reported, pairs)),
            replace(entities, probability=found.of_entities(reported)),
        )
    labelled = [k for k, label in enumerate(run.labels) if label is not None]
    predicted = run.posteriors[0].labels()
    return ReliabilityReport(
        fragments=len(fragments),
        unlabelled=len(fragments) - len(labelled),
        pairs=_compared(
            pair_claims(pairs, run.labels),
            None if mapped is None else pair_claims(mapped[0], run.labels),
            settings.bins,
        ),
        entities=_compared(
            entity_claims(entities, run.labels),
            None if mapped is None else entity_claims(mapped[1], run.labels),
            settings.bins,
        ),
        scores=compare([predicted[k] for k in labelled], [run.labels[k] for k in labelled]),
        settings=settings,
        alpha=run.alpha,
        temperature=choices.temperature,
        notes=tuple(notes),
    )


def _compared(raw: Claims, mapped: Claims | None, bins: int) -> Compared:
    return Compared(reliability(raw, bins), None if mapped is None else reliability(mapped, bins))

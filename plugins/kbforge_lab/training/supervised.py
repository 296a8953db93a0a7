"""Trains supervised clustering: chooses settings by labelled fragments, writes a bundle.

The entities of the labelled fragments are parted into folds. Each fold is hidden in turn and
grouped beside the others, as new fragments will be; the settings whose groupings have the best
B-cubed F1 are taken. First the dimensions, by average linkage alone; then, for each model of the
paper, the power of the likelihood and the rate of separation; last the factor of the scatter, for
clusterers that hold one type.

Source of the models: Daumé and Marcu (2005), who cross-validate nothing of them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from kbforge import registry
from kbforge.contracts import FloatArray, Fragment, IntArray, ModelSpec
from kbforge.errors import KBForgeError
from kbforge.evaluation.scores import compare
from kbforge.fit.alpha import CALIBRATION_FILE, Calibration, fingerprint, to_toml
from kbforge.models.bundle import Bundle, require_place, write_bundle
from kbforge_lab.likelihoods.supervised import (
    CARD,
    MODELS,
    PLUGIN,
    Columns,
    Comparison,
    ModelChoice,
    ScaledVectors,
    Scatter,
    Settings,
    SupervisedModel,
    files_of,
    linked,
    named,
    require_readable,
    scaled,
    slimmed,
    usual,
)
from kbforge_lab.scdp.references import references
from kbforge_lab.scdp.run import run
from kbforge_lab.scdp.sampler import start, variant

FOLDS = 3
FEWEST_ENTITIES, FEWEST_REPEATED = 6, 3
_DIMENSIONS = (20, 40, 80)
# rates of separation and powers of the likelihood, by model
_TRIED: Mapping[int, tuple[tuple[float, float], ...]] = {
    1: ((1.0, 1.0), (1.0, 0.3)),
    2: ((1.0, 1.0), (1.0, 0.3)),
    3: ((1.0, 1.0), (0.01, 1.0)),
}
_SWEEPS, _KEPT = 20, 5
_FACTORS = (1.0, 3.0, 10.0, 30.0)
_OBJECTIVE = "B-cubed F1 of hidden entities"
PARTS = FOLDS * (len(_DIMENSIONS) + sum(map(len, _TRIED.values())) + len(_FACTORS))
"""Of the work, as `OnPart` counts them."""

OnPart = Callable[[int], None]
"""Is told how many of `PARTS` are done."""


@dataclass(frozen=True, slots=True)
class SupervisedTraining:
    """What training found."""

    fragments: int
    entities: int
    trained: SupervisedModel
    dimensions: Mapping[int, float]  # -> mean B-cubed F1 of hidden entities by average linkage
    one_type: float  # the same by `agglomerative` and the scatter alone

    @property
    def linkage(self) -> float:
        return max(self.dimensions.values())

    @property
    def best(self) -> str:
        """The clusterer that did best on hidden entities."""
        settings = self.trained.settings
        scores = {
            "linkage": self.linkage,
            "scdp": settings.choices[settings.model].score,
            "agglomerative": self.one_type,
        }
        return max(scores, key=scores.__getitem__)


def train(
    fragments: Sequence[Fragment],
    folder: Path,
    features: Sequence[str] = (),
    most: int = 1000,
    seed: int = 0,
    on_part: OnPart | None = None,
) -> SupervisedTraining:
    """Choose settings on hidden entities, and write the bundle."""
    require_place(folder)
    labelled = [fragment for fragment in fragments if fragment.label is not None]
    rng = np.random.default_rng(seed)
    kept = _some(labelled, most, rng)
    entities = _require_enough(kept)
    compared = named(features, kept) if features else usual(kept)
    require_readable(compared, kept)
    vectors = all(fragment.vector is not None for fragment in kept) and not features
    hidden = _HiddenEntities(kept, compared, vectors, rng, on_part)
    dimensions = hidden.dimensions()
    best = max(dimensions, key=lambda each: (dimensions[each], -each))
    choices = hidden.choices(best)
    factors = hidden.factors(best)
    factor = max(factors, key=factors.__getitem__)
    model = max(choices, key=lambda each: choices[each].score)
    settings = Settings(best, model, choices, factor)
    trained = SupervisedModel(compared, vectors, slimmed(kept, compared, vectors), settings)
    found = SupervisedTraining(len(labelled), entities, trained, dimensions, factors[factor])
    write_bundle(folder, _bundle(found, labelled, seed))
    return found


def _some(labelled: Sequence[Fragment], most: int, rng: np.random.Generator) -> list[Fragment]:
    """Fragments of whole entities, in their order; at least one entity."""
    sizes = Counter(fragment.label for fragment in labelled)
    if sizes.total() <= most:
        return list(labelled)
    names, taken, count = list(sizes), set(), 0
    for i in rng.permutation(len(names)).tolist():
        if count + sizes[names[i]] <= most:
            taken.add(names[i])
            count += sizes[names[i]]
    return [fragment for fragment in labelled if fragment.label in taken]


def _require_enough(kept: Sequence[Fragment]) -> int:
    """How many entities there are."""
    sizes = Counter(fragment.label for fragment in kept)
    repeated = sum(size > 1 for size in sizes.values())
    if len(sizes) < FEWEST_ENTITIES or repeated < FEWEST_REPEATED:
        raise KBForgeError(
            f"too few labelled fragments to learn from: expected at least {FEWEST_ENTITIES} "
            f"entities, {FEWEST_REPEATED} of them with several fragments, got {len(sizes)} and "
            f"{repeated}"
        )
    return len(sizes)


class _HiddenEntities:
    """Labelled fragments, of which some entities are hidden in turn."""

    def __init__(
        self,
        kept: Sequence[Fragment],
        compared: Sequence[Comparison],
        vectors: bool,
        rng: np.random.Generator,
        on_part: OnPart | None,
    ) -> None:
        self._columns = Columns(kept, compared, _DIMENSIONS[-1], vectors)
        names = {label: i for i, label in enumerate(dict.fromkeys(f.label for f in kept))}
        self._labels = np.array([names[fragment.label] for fragment in kept])
        self._fold = rng.permutation(len(names))[self._labels] % FOLDS
        self._seed = int(rng.integers(2**31))
        self._on_part, self._done = on_part, 0

    def dimensions(self) -> dict[int, float]:
        return {
            each: self._mean(each, lambda data, gold: _score(linked(data), gold))
            for each in _DIMENSIONS
        }

    def choices(self, dimensions: int) -> dict[int, ModelChoice]:
        out = {}
        for model in MODELS:
            tried = [
                ModelChoice(rate, power, self._mean(dimensions, self._chain(model, rate, power)))
                for rate, power in _TRIED[model]
            ]
            out[model] = max(tried, key=lambda choice: choice.score)
        return out

    def factors(self, dimensions: int) -> dict[float, float]:
        """Scores of the scatter alone, by its factor."""
        agglomerative = registry.create("clusterers", "agglomerative")

        def grouped(factor: float) -> Callable[[ScaledVectors, IntArray], float]:
            def score(data: ScaledVectors, gold: IntArray) -> float:
                items = [
                    Fragment(str(i), {}, tuple(row)) for i, row in enumerate(data.test.tolist())
                ]
                spec = ModelSpec(Scatter(data.within * factor), 1.0)
                found = agglomerative.cluster(items, spec, np.random.default_rng(0))
                return _score(np.array(found.labels()), gold)

            return score

        return {factor: self._mean(dimensions, grouped(factor)) for factor in _FACTORS}

    def _chain(
        self, model: int, rate: float, power: float
    ) -> Callable[[ScaledVectors, IntArray], float]:
        def score(data: ScaledVectors, gold: IntArray) -> float:
            known = references(data.train, data.labels, data.test)
            begin, rng = start(known, linked(data)), np.random.default_rng(self._seed)
            _, trace = run(variant(model, rate, power), known, begin, _SWEEPS, _KEPT, rng)
            return float(np.mean([_score(grouping, gold) for grouping in trace.groupings]))

        return score

    def _mean(self, dimensions: int, score: Callable[[ScaledVectors, IntArray], float]) -> float:
        """Over the folds, each weighed by its fragments."""
        scores, sizes = [], []
        for data, gold in self._folds(self._columns.first(dimensions)):
            scores.append(score(data, gold))
            sizes.append(len(gold))
            self._done += 1
            if self._on_part is not None:
                self._on_part(self._done)
        return float(np.average(scores, weights=sizes))

    def _folds(self, values: FloatArray) -> Iterator[tuple[ScaledVectors, IntArray]]:
        for fold in range(FOLDS):
            rest = self._fold != fold
            yield scaled(values[rest], self._labels[rest], values[~rest]), self._labels[~rest]


def _score(grouping: IntArray, gold: IntArray) -> float:
    return compare(grouping.tolist(), gold.tolist()).bcubed_f1_item_mean


def _bundle(found: SupervisedTraining, labelled: Sequence[Fragment], seed: int) -> Bundle:
    digest = fingerprint(labelled)
    calibration = Calibration(
        alpha=1.0,
        objective=_OBJECTIVE,
        value=found.one_type,
        at_edge="",
        likelihood=PLUGIN,
        fragments=len(labelled),
        sha256=digest,
    )
    return Bundle(
        kind="likelihoods",
        plugin=PLUGIN,
        files={
            **files_of(found.trained),
            CALIBRATION_FILE: to_toml(calibration),
            CARD: card(found).encode(),
        },
        recipe={"folds": FOLDS, "sweeps": _SWEEPS, "seed": seed},
        data={"fragments": len(labelled), "sha256": digest},
    )


def card(found: SupervisedTraining) -> str:
    """What a model was trained on, and what hidden entities said, in Markdown."""
    trained, settings = found.trained, found.trained.settings
    features = ", ".join(f"`{each}`" for each in trained.compared)
    rows = [f"| {each} | {score:.3f} |" for each, score in found.dimensions.items()]
    models = []
    for model, choice in settings.choices.items():
        rate = f"{choice.rate:g}" if model == MODELS[-1] else ""
        models.append(f"| {model} | {rate} | {choice.power:g} | {choice.score:.3f} |")
    lines = [
        "# A model of supervised clustering",
        "",
        f"It keeps {len(trained.references):,} of {found.fragments:,} labelled fragments, of "
        f"{found.entities:,} entities: what is compared of them stands in `references.jsonl`. "
        "Whoever has the model can read it.",
        "",
        f"Compared: {features or 'vectors'}{', vectors' if features and trained.vectors else ''}.",
        "",
        f"Scores are the mean B-cubed F1 of labelled entities that were hidden, {FOLDS} folds.",
        "",
        "| dimensions of a feature | average linkage |",
        "|---:|---:|",
        *rows,
        "",
        f"With {settings.dimensions} dimensions:",
        "",
        "| model | rate | power | F1 |",
        "|---|---:|---:|---:|",
        *models,
        f"| one scatter, times {settings.factor:g}, agglomerative | | | {found.one_type:.3f} |",
        "",
        f"`scdp` takes model {settings.model} unless it is told another. "
        f"Best on hidden entities: `{found.best}`.",
    ]
    return "\n".join(lines) + "\n"

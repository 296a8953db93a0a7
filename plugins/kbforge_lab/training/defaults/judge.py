"""Trains the judge on the gains of every hypothesis on many labelled files.

Groupings along each merge path, and what the judge reads of them with their F1, are kept on disk,
so an interrupted run goes on; deleting a folder makes its part anew. The pair model of a file has
not seen its family (`without/FAMILY/pairs.safetensors`), nor has the scorer that judges it
(`fold_of`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import cast

import numpy as np

from kbforge.contracts import CandidateIndex, ConjugateLikelihood, FloatArray, Fragment, IntArray
from kbforge.fit.description import PairModel, PairOdds
from kbforge.fit.hypotheses import (
    NAMES,
    Hypothesis,
    exact_groups,
    groupings,
    hypotheses,
    log_alphas_of,
    sample_of,
)
from kbforge.fit.judge import JUDGE_FILE, HypothesisScorer, adjusted_gains
from kbforge.fit.statistics import (
    PairExpectations,
    agreement,
    compare_sample,
    statistics_of,
)
from kbforge.indexes.selective import Selective
from kbforge.models.boosting import averaged, fit_trees
from kbforge.models.bundle import list_defaults, make_likelihood
from kbforge.models.trees import Trees
from kbforge_lab.pool import in_processes
from kbforge_lab.training.defaults.families import (
    FAMILIES,
    LabelledFile,
    fold_of,
    large,
    resampled,
    small,
    whole,
)
from kbforge_lab.training.defaults.shapes import SHAPES, shaped
from kbforge_plugins.likelihoods.pairs.odds import MODEL

_PARAMETERS = {
    "objective": "l2",
    "learning_rate": 0.05,
    "num_leaves": 15,
    "min_data_in_leaf": 40,
    "feature_fraction": 0.3,
    "bagging_fraction": 0.7,
    "bagging_freq": 1,
    "lambda_l2": 5.0,
    "max_bin": 63,
}
_ROUNDS = 250
_SEEDS = (1, 2, 3)
"""Of ensembles that are averaged: one alone errs by chance as much as its margin."""
_DREAD = 0.1
"""F1 that a share of files far below exact names is worth: all of them as much as this."""
_MARGINS = (0.0, 0.0025, 0.005, 0.0075, 0.01, 0.015, 0.02, 0.03, 0.04, 0.06)


PAIRS = "pairs"
FILES, SMALL_FILES, LARGE_FILES, SHAPED_FILES, SEED = 16, 6, 4, 9, 0
"""Resampled files a family, small and large ones, and those of which a third is given in its other
shapes; the files that are drawn depend on the seed."""
MOST_WHOLE = 25_000
"""Files of so many fragments are judged whole too."""


@dataclass(frozen=True, eq=False)
class JudgedFile:
    """A labelled file with all that the judge reads of it, and what is true."""

    family: str
    name: str
    found: tuple[Hypothesis, ...]
    names: tuple[str, ...]
    statistics: FloatArray  # [hypotheses, statistics]
    f1: FloatArray  # mean B-cubed F1 of the seeds of a sample, [hypotheses]

    @property
    def shape(self) -> str:
        """The other shape that the file was given; "" for one as it was drawn."""
        first = self.name.split("-")[0]
        return first if first in SHAPES else ""

    @property
    def gain(self) -> FloatArray:
        """F1 over that of exact names, [hypotheses]."""
        exact = next(i for i, h in enumerate(self.found) if h.likelihood == NAMES)
        return np.asarray(self.f1 - self.f1[exact])


@dataclass(frozen=True, eq=False)
class SampleHypotheses:
    """What the likelihoods say of a sample."""

    found: tuple[Hypothesis, ...]
    odds: PairOdds | None  # by the model of pairs; None if it found nothing to read
    places: tuple[int, ...]  # of the sample's fragments in the file, seeds first
    seeds: int


def run(file: LabelledFile, pairs: Path | None) -> SampleHypotheses:
    """Fit the likelihoods that find something to read, and follow their merge paths."""
    options = {} if pairs is None else {"model": str(pairs)}
    likelihood = make_likelihood(PAIRS, options)
    assert isinstance(likelihood, ConjugateLikelihood)
    likelihood.fit(file.fragments)
    model = cast(PairModel, likelihood)
    fitted = {PAIRS: likelihood, **model.reads}
    index = _index(file)
    sample = sample_of(file.fragments, index, model)
    paths = {
        kind: groupings(one, sample.fragments, log_alphas_of(kind)) for kind, one in fitted.items()
    }
    own = {kind: math.log(one.default_alpha) for kind, one in fitted.items()}
    exact = np.array(exact_groups(sample.fragments), dtype=np.int64)
    found = hypotheses(exact, paths, own)
    odds = model.pair_odds(sample.fragments)
    return SampleHypotheses(tuple(found), odds, sample.places, sample.seeds)


def judged(file: LabelledFile, folder: Path) -> JudgedFile:
    """A file with its runs and statistics, from disk if they are there."""
    stem = f"{file.family}/{file.name}.npz"
    if not (folder / "runs" / stem).is_file():
        models = [folder / "without" / file.family / MODEL, folder / MODEL]
        pairs = next((path for path in models if path.is_file()), None)
        write_run(run(file, pairs), folder / "runs" / stem)
    told = read_run(folder / "runs" / stem)
    kept = folder / "statistics" / stem
    if kept.is_file():
        with np.load(kept, allow_pickle=False) as held:
            names = tuple(map(str, held["names"]))
            return JudgedFile(file.family, file.name, told.found, names, held["x"], held["f1"])
    sample = [file.fragments[place] for place in told.places]
    seen = compare_sample(sample, _index(file), file.fragments)
    expected = None if told.odds is None else PairExpectations(told.odds)
    names, x = statistics_of(seen, told.found, file.fragments, expected)
    gold = _gold(sample)
    # around the seeds alone the sample is as the file is
    f1 = np.array([agreement(h.labels, gold, told.seeds)[2] for h in told.found])
    kept.parent.mkdir(parents=True, exist_ok=True)
    np.savez_compressed(kept, names=np.array(names), x=x, f1=f1)
    return JudgedFile(file.family, file.name, told.found, names, x, f1)


def write_run(told: SampleHypotheses, path: Path) -> None:
    """Keep a run."""
    path.parent.mkdir(parents=True, exist_ok=True)
    odds = told.odds
    links = {} if odds is None else {f.name: getattr(odds, f.name) for f in fields(PairOdds)}
    np.savez_compressed(
        path,
        labels=np.stack([h.labels for h in told.found]).astype(np.int32),
        kinds=np.array([h.likelihood for h in told.found]),
        log_alphas=np.array([h.log_alpha for h in told.found]),
        own=np.array([h.own for h in told.found]),
        places=np.array(told.places),
        seeds=told.seeds,
        **links,
    )


def read_run(path: Path) -> SampleHypotheses:
    """A run that was kept."""
    with np.load(path, allow_pickle=False) as held:
        labels = held["labels"].astype(np.int64)
        rows = zip(held["kinds"], held["log_alphas"], labels, held["own"], strict=True)
        found = tuple(Hypothesis(str(kind), float(a), of, float(own)) for kind, a, of, own in rows)
        odds = None
        if "row" in held:
            links = {f.name: held[f.name] for f in fields(PairOdds)}
            odds = PairOdds(**{**links, "apart": float(links["apart"])})
        return SampleHypotheses(found, odds, tuple(held["places"].tolist()), int(held["seeds"]))


def _index(file: LabelledFile) -> CandidateIndex:
    index = Selective()
    index.fit(file.fragments)
    return index


def _gold(fragments: Sequence[Fragment]) -> IntArray:
    number: dict[str | None, int] = {}
    return np.array([number.setdefault(f.label, len(number)) for f in fragments])


def judged_files(
    root: Path, out: Path, count: int, on_file: Callable[[JudgedFile], None] | None = None
) -> list[JudgedFile]:
    """Judge resampled files of every family, small, large and whole ones, and other shapes."""
    drawn = (
        file
        for family in FAMILIES
        for file in chain(
            resampled(root, family, count, SEED),
            small(root, family, min(count, SMALL_FILES), SEED + 100),
            large(root, family, min(count, LARGE_FILES), SEED + 200),
            whole(root, family, MOST_WHOLE),
            shaped(root, family, min(count, SHAPED_FILES), SEED),
        )
    )
    found = []
    for file in in_processes(partial(judged, folder=out), drawn):
        found.append(file)
        if on_file is not None:
            on_file(file)
    return found


def write(trained: TrainedJudges, out: Path) -> None:
    """Write the scorer that ships into the folder, and the others below `without/FAMILY`."""
    scorers = {out: trained.ships} | {
        out / "without" / family: scorer for family, scorer in trained.without.items()
    }
    for folder, scorer in scorers.items():
        folder.mkdir(parents=True, exist_ok=True)
        (folder / JUDGE_FILE).write_bytes(scorer.to_bytes())
        list_defaults(folder)


def train(files: Sequence[JudgedFile]) -> HypothesisScorer:
    """A scorer of these files without a margin; files weigh the same."""
    names = files[0].names
    rows = np.concatenate([file.statistics for file in files])
    weights = np.concatenate([np.full(len(f.f1), 1 / len(f.f1)) for f in files])
    weights /= weights.mean()
    gain, level = (np.concatenate([getattr(f, key) for f in files]) for key in ("gain", "f1"))

    def fitted(target: FloatArray) -> Trees:
        return averaged(
            [
                fit_trees(names, rows, target, {**_PARAMETERS, "seed": seed}, _ROUNDS, weights)
                for seed in _SEEDS
            ]
        )

    return HypothesisScorer(fitted(gain), fitted(level), 0.0, 0.0)


def predicted(scorer: HypothesisScorer, file: JudgedFile) -> FloatArray:
    """The smoothed gains that a scorer expects of a file's hypotheses."""
    return scorer.gains(file.names, file.statistics, file.found)


@dataclass(frozen=True, slots=True)
class ChoiceScores:
    """What choosing came to, mean over families."""

    exact: float
    chosen: float
    best: float
    below: float  # share of files more than .005 below exact names
    far_below: float


def outcome(
    files: Sequence[JudgedFile], gains: Mapping[str, FloatArray], margin: float
) -> ChoiceScores:
    """How the choices by these gains (by file name) fare."""
    by_family: dict[str, list[tuple[float, ...]]] = {}
    for file in files:
        expected = gains[f"{file.family}/{file.name}"]
        worth = adjusted_gains(expected, file.names, file.statistics, file.found, margin)
        chosen = int(np.argmax(worth))
        gain = file.gain
        exact = float((file.f1 - gain)[0])
        row = exact, float(file.f1[chosen]), float(file.f1.max()), gain[chosen] < -0.005
        by_family.setdefault(file.family, []).append((*row, gain[chosen] < -0.01))
    means = [np.mean(rows, axis=0) for rows in by_family.values()]
    return ChoiceScores(*map(float, np.mean(means, axis=0)))


@dataclass(frozen=True, eq=False)
class TrainedJudges:
    """Scorers and how they fare, each on families that it has not seen."""

    ships: HypothesisScorer
    without: Mapping[str, HypothesisScorer]
    margins: tuple[tuple[float, ChoiceScores], ...]  # (margin, outcome) of every margin tried
    by_family: Mapping[str, ChoiceScores]  # with the margin taken; other shapes by their own names


def train_each(
    files: Sequence[JudgedFile], ships: frozenset[str], leave_out: Sequence[str] = ()
) -> TrainedJudges:
    """The scorer that ships, those without some families, and their margin.

    The margin is the best for files of unseen families, counting twice those that end below exact
    names. The spread is the standard deviation of the errors of predicted gains. Files in other
    shapes are trained on, and count in neither.
    """
    used = [file for file in files if file.family in ships]
    plain = [file for file in used if not file.shape]
    shipped = train(used)
    without, gains = {}, {}
    by_fold: dict[tuple[str, ...], HypothesisScorer] = {(): shipped}
    for family in leave_out or sorted({file.family for file in files}):
        fold = fold_of(family)
        if fold not in by_fold:
            by_fold[fold] = train([file for file in used if file.family not in fold])
        without[family] = by_fold[fold]
        for file in files:
            if file.family == family:
                gains[f"{family}/{file.name}"] = predicted(without[family], file)
    margins = tuple((margin, outcome(plain, gains, margin)) for margin in _MARGINS)
    margin = max(margins, key=lambda item: item[1].chosen - _DREAD * item[1].far_below)[0]
    spread = _spread(plain, gains)

    kinds: dict[str, list[JudgedFile]] = {}
    for file in files:
        if file.family in without:
            kinds.setdefault(file.shape or file.family, []).append(file)
    return TrainedJudges(
        replace(shipped, margin=margin, spread=spread),
        {name: replace(scorer, margin=margin, spread=spread) for name, scorer in without.items()},
        margins,
        {kind: outcome(of_kind, gains, margin) for kind, of_kind in kinds.items()},
    )


def _spread(files: Sequence[JudgedFile], gains: Mapping[str, FloatArray]) -> float:
    """Of the better half of the hypotheses of each file: what true gains differ by, all in all."""
    errors = []
    for file in files:
        expected = gains[f"{file.family}/{file.name}"]
        better = expected >= np.median(expected)
        errors.append(np.std((file.gain - expected)[better]))
    return float(np.mean(errors))

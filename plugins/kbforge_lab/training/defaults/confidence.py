"""Trains the shipped confidence map, on claims about many labelled files.

    python -m kbforge_lab.training.defaults.confidence --data DATA --claims CLAIMS --out OUT

1. Files are drawn from every family and clustered without their labels: by the default, and by each
   likelihood that it chooses from, with the models in OUT/without/FAMILY. Most are resampled, which
   makes them hard, some of them have thousands of fragments; the family's own files that are not
   too large are there as they are. The claims, their features and their truth are kept below
   CLAIMS, so a run that was stopped goes on.
2. For each family, trees are fitted on the claims about entities of the others' files, and read all
   of the family's own.
3. The share of the report is the one with which trees that have not seen a family say best what is
   true of the default's claims there: for a family's map, on all other families.
4. The map of each family is written to OUT/without/FAMILY, and judged on its own claims by the
   default, by how the files were drawn. The map that ships is fitted on all families that may train
   what ships, and written to OUT. Claims about pairs only judge: nothing is fitted for them.

Families weigh the same, so do the ways to draw their files, and the files of each. The default's
claims of a file weigh as much as those of all likelihoods that it did not choose.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, cast

import numpy as np

from kbforge import registry
from kbforge.clustering.rules import DirichletProcess
from kbforge.contracts import FloatArray, IntArray, Likelihood, ModelSpec, Posterior
from kbforge.errors import UsageError
from kbforge.evaluation.reliability import (
    BINS,
    LEAST,
    BoolArray,
    Claims,
    entity_claims,
    entity_probabilities,
    pair_claims,
    pair_probabilities,
    reliability,
)
from kbforge.fit.confidence import (
    CONFIDENCE_FILE,
    confidence_bytes,
    in_order,
    pairs_told,
    pooled,
)
from kbforge.fit.description import FileContext, PairModel
from kbforge.fit.features import (
    ENTITY_FEATURES,
    JUDGED_OF_FILES,
    REPORTED,
    VOTES,
    ClusteringReport,
    ConfidenceFeatures,
    odds_of_pairs,
    pair_odds,
)
from kbforge.fit.hypotheses import ATTRIBUTES, NAMES, PAIRS
from kbforge.fit.prepare import Chooser
from kbforge.models.boosting import fit_trees
from kbforge.models.bundle import list_defaults
from kbforge.models.trees import Trees
from kbforge_lab.pool import in_processes
from kbforge_lab.training.defaults.families import (
    CATALOGUES,
    FAMILIES,
    Family,
    LabelledFile,
    large,
    resampled,
    vast,
    whole,
)

LIKELIHOODS = (NAMES, ATTRIBUTES, PAIRS)
KINDS = ("entities", "pairs")
PARAMETERS: dict[str, Any] = {
    "objective": "binary",
    "seed": 0,
    "learning_rate": 0.05,
    "num_leaves": 6,
    "lambda_l2": 50.0,
    "min_data_in_leaf": 60,
    "feature_fraction": 0.5,
    "bagging_fraction": 0.7,
    "bagging_freq": 1,
}
ROUNDS = 150

_SPEAKS_FOR = (REPORTED, VOTES)  # the more, the more probable
_WITHOUT_VOTES, _WITHOUT_JUDGE = 0.4, 0.15  # shares of files
_MOST_FITTED = 60  # of one kind of a file and likelihood, of those that maps are fitted on
_MOST_CLAIMS = 400  # of one kind of a file; more say the same again
_MOST_WHOLE = 25_000  # fragments of a file that is taken as it is
_LARGE, _VAST = 4, 2  # files of a family
RESAMPLED, MANY, WHOLE = DRAWN = ("resampled", "many", "whole")
_SHARES = np.linspace(0.0, 0.8, 9)


@dataclass(frozen=True, slots=True)
class KnownClaims:
    """Claims of one kind with their truth; arrays over claims."""

    rows: FloatArray  # features; of pairs the log odds of the model, [claims, features]
    probability: FloatArray  # reported
    subproblem: IntArray  # numbers differ between files
    true: BoolArray  # by gold
    family: Any
    file: IntArray  # by number
    run: Any  # the likelihood
    chosen: BoolArray  # whether the default took that likelihood
    drawn: Any  # how the file was made, one of `DRAWN`

    def where(self, chosen: BoolArray) -> KnownClaims:
        return KnownClaims(*(getattr(self, name)[chosen] for name in self.__slots__))


def collect(root: Path, claims: Path, models: Path, count: int, seed: int) -> None:
    """Cluster files and keep their claims."""
    keep = partial(_keep_claims, claims, models)
    # a model that has not seen catalogues says little of those that have
    families = [family for family in FAMILIES if family.name != CATALOGUES]
    drawn = (
        (drawn, file) for family in families for drawn, file in _files(root, family, count, seed)
    )
    for place in filter(None, in_processes(keep, drawn)):
        print(place, flush=True)


def _keep_claims(claims: Path, models: Path, of: tuple[str, LabelledFile]) -> Path | None:
    """Where the claims of a file are kept; None if they are there from before."""
    drawn, file = of
    place = claims / file.family / drawn / f"{file.name}.npz"
    if place.exists():
        return None
    found = _claims_of(file, models / "without" / file.family)
    place.parent.mkdir(parents=True, exist_ok=True)
    np.savez_compressed(place, **found)
    return place


def _files(root: Path, family: Family, count: int, seed: int) -> Iterator[tuple[str, LabelledFile]]:
    """The files of a family, each with how it was drawn."""
    yield from ((RESAMPLED, file) for file in resampled(root, family, count, seed))
    yield from ((MANY, file) for file in large(root, family, _LARGE, seed))
    yield from ((MANY, file) for file in vast(root, family, _VAST, seed))
    for file in whole(root, family, _MOST_WHOLE):
        labelled = tuple(fragment for fragment in file.fragments if fragment.label is not None)
        yield WHOLE, replace(file, fragments=labelled)


def _claims_of(file: LabelledFile, models: Path) -> dict[str, Any]:
    """The arrays of a file, by each likelihood that finds something to read."""
    chooser = Chooser(file.fragments, str(models))
    choice, judged = chooser.choose(), chooser.judgement
    assert judged is not None  # every file has properties
    likelihoods: dict[str, Likelihood] = {
        NAMES: registry.create("likelihoods", NAMES, {}),
        **chooser.fitted,
    }
    likelihoods[NAMES].fit(file.fragments)
    found: dict[str, Any] = {}
    for name, likelihood in likelihoods.items():
        alpha = judged.only(name).chosen.alpha
        prior = DirichletProcess(likelihood.default_alpha if alpha is None else alpha)
        spec = ModelSpec(
            *(likelihood, prior.alpha, None, None, likelihood.index), exponent=prior.exponent
        )
        clusterer = registry.create("clusterers", "batch", {})
        posterior = clusterer.cluster(file.fragments, spec, np.random.default_rng(0), None)
        pairs_by = cast(PairModel | None, chooser.fitted.get("pairs"))
        context = FileContext(name, pairs_by, judged.only(name).predicted(name))
        arrays = _arrays(file, posterior, context)
        found |= {f"{name}.{key}": value for key, value in arrays.items()}
        found[f"{name}.chosen"] = np.array([name == choice.name])
    return found


def _arrays(file: LabelledFile, posterior: Posterior, context: FileContext) -> dict[str, Any]:
    labels = [fragment.label for fragment in file.fragments]
    entities = entity_probabilities([posterior])
    pairs = pair_probabilities([posterior], LEAST)
    reported = ClusteringReport(file.fragments, entities)
    odds = pair_odds(reported, context)
    unread = np.full(len(pairs), np.nan)
    rows = {
        "entities": ConfidenceFeatures(reported, context).entities(ENTITY_FEATURES),
        "pairs": (unread if odds is None else odds_of_pairs(odds, pairs))[:, None],
    }
    claims = {"entities": entity_claims(entities, labels), "pairs": pair_claims(pairs, labels)}
    found: dict[str, Any] = {}
    for kind, held in claims.items():
        kept = np.sort(np.random.default_rng(0).permutation(len(held))[:_MOST_CLAIMS])
        found |= {
            f"{kind}.rows": rows[kind][kept].astype(np.float32),
            f"{kind}.probability": held.probability[kept],
            f"{kind}.subproblem": held.subproblem[kept],
            f"{kind}.true": held.true[kept],
        }
    return found


def gathered(claims: Path, kind: str) -> KnownClaims:
    """All claims of a kind that were kept."""
    parts: list[KnownClaims] = []
    for number, (family, drawn, path) in enumerate(_kept(claims)):
        with np.load(path) as held:
            for run in LIKELIHOODS:
                if f"{run}.{kind}.true" not in held or not len(held[f"{run}.{kind}.true"]):
                    continue
                n = len(held[f"{run}.{kind}.true"])
                parts.append(
                    KnownClaims(
                        held[f"{run}.{kind}.rows"].astype(np.float64),
                        held[f"{run}.{kind}.probability"],
                        held[f"{run}.{kind}.subproblem"] + len(parts) * 1_000_000,
                        held[f"{run}.{kind}.true"],
                        np.full(n, family, object),
                        np.full(n, number),
                        np.full(n, run, object),
                        np.full(n, held[f"{run}.chosen"][0]),
                        np.full(n, drawn, object),
                    )
                )
    if not parts:
        raise UsageError(f"{claims}: expected claims, got none")
    return KnownClaims(
        *(np.concatenate([getattr(p, n) for p in parts]) for n in KnownClaims.__slots__)
    )


def _kept(claims: Path) -> Iterator[tuple[str, str, Path]]:
    for family in FAMILIES:
        for drawn in DRAWN:
            for path in sorted((claims / family.name / drawn).glob("*.npz")):
                yield family.name, drawn, path


def weights(known: KnownClaims) -> FloatArray:
    """Each family the same, within it each way to draw, then each file, then the default; mean 1,
    shape [claims]."""
    run, family, drawn = (
        np.unique(names.astype(str), return_inverse=True)[1]
        for names in (known.run, known.family, known.drawn)
    )
    _, own, claims = np.unique(
        known.file * len(LIKELIHOODS) + run, return_inverse=True, return_counts=True
    )
    each = np.where(known.chosen, len(LIKELIHOODS) - 1.0, 1.0) / claims[own]
    for numbers in (known.file, family * len(DRAWN) + drawn, family):
        each /= np.bincount(numbers, weights=each)[numbers]
    out: FloatArray = each / each.mean()
    return out


def fitted(known: KnownClaims) -> Trees:
    """The trees of claims about entities."""
    known = _forgetful(_thinned(known))
    return fit_trees(
        ENTITY_FEATURES,
        known.rows,
        known.true.astype(np.float64),
        {**PARAMETERS, "monotone_constraints": [int(n in _SPEAKS_FOR) for n in ENTITY_FEATURES]},
        ROUNDS,
        weights(known),
    )


def _thinned(known: KnownClaims) -> KnownClaims:
    """At most `_MOST_FITTED` claims of each file and likelihood; more say nearly the same."""
    run = np.unique(known.run.astype(str), return_inverse=True)[1]
    own = known.file * len(LIKELIHOODS) + run
    order = np.lexsort((np.random.default_rng(0).random(len(own)), own))
    rank = np.arange(len(own)) - np.searchsorted(own[order], own[order])
    return known.where(np.sort(order[rank < _MOST_FITTED]))


def _forgetful(known: KnownClaims) -> KnownClaims:
    """The same without the judge's votes for some files and likelihoods.

    The judge sees a sample of large files, and is not asked where alpha is given.
    """
    run = np.unique(known.run.astype(str), return_inverse=True)[1]
    own = known.file * len(LIKELIHOODS) + run
    luck = np.random.default_rng(1).random(int(own.max()) + 1)[own]
    rows = known.rows.copy()
    for names, share in (((VOTES,), _WITHOUT_VOTES), (JUDGED_OF_FILES, _WITHOUT_JUDGE)):
        for name in names:
            rows[luck < share, ENTITY_FEATURES.index(name)] = np.nan
    return replace(known, rows=rows)


def read(trees: Trees, known: KnownClaims) -> FloatArray:
    """The calibrated probabilities of claims, as the program reports them."""
    calibrated = 1 / (1 + np.exp(-trees.predict(known.rows)))
    return in_order(known.probability, calibrated, known.subproblem)


def share_of_report(known: KnownClaims, calibrated: FloatArray) -> float:
    """The share of the report that says best what is true of the default's claims.

    `calibrated` [claims] is by trees that have not seen the family of a claim.
    """
    part, said = known.where(known.chosen), calibrated[known.chosen]
    each = weights(part)
    mixed = (pooled(part.probability, said, share) for share in _SHARES.tolist())
    return float(_SHARES[np.argmin([_log_score(one, part.true, each) for one in mixed])])


def judged(known: KnownClaims, calibrated: FloatArray) -> dict[str, float]:
    """ECE and log score, raw and calibrated; how far apart the calibrated ones are; and the surest.

    The surest are the tenth of the claims with the highest calibrated probability, and those that
    equal the last of them.
    """
    surest = calibrated >= np.quantile(calibrated, 0.9)
    claims = Claims(known.probability, known.probability, known.subproblem, known.true)
    return {
        "files": len(np.unique(known.file)),
        "claims": len(known.true),
        "true": float(known.true.mean()),
        "raw": reliability(claims).ece,
        "calibrated": reliability(replace(claims, probability=calibrated)).ece,
        "raw_by_files": _ece_by_files(known, known.probability),
        "by_files": _ece_by_files(known, calibrated),
        "raw_log": _log_score(known.probability, known.true),
        "log": _log_score(calibrated, known.true),
        "mean": float(calibrated.mean()),
        "spread": float(calibrated.std()),
        "surest": float(calibrated[surest].mean()),
        "surest_true": float(known.true[surest].mean()),
    }


def _ece_by_files(known: KnownClaims, probability: FloatArray) -> float:
    """The expected calibration error where every file weighs the same."""
    weight = 1 / np.bincount(known.file)[known.file]
    bins = np.minimum((probability * BINS).astype(np.int64), BINS - 1)
    gaps = np.bincount(bins, weights=weight * (probability - known.true))
    return float(np.abs(gaps).sum() / weight.sum())


def _log_score(probability: FloatArray, true: BoolArray, each: FloatArray | None = None) -> float:
    """Mean nats that the truth surprises by; no report counts as nearer to certain than .999.

    `each` [claims] are weights; None is all the same.
    """
    said = np.clip(np.where(true, probability, 1 - probability), 0.001, 1.0)
    return float(-np.average(np.log(said), weights=each))


def main(arguments: Sequence[str] | None = None) -> None:
    """Collect, fit leave-one-family-out, judge, and write what ships."""
    parser = argparse.ArgumentParser(prog="python -m kbforge_lab.training.defaults.confidence")
    parser.add_argument("--data", type=Path, required=True, help="folder of all labelled data")
    parser.add_argument("--claims", type=Path, required=True, help="folder that keeps claims")
    parser.add_argument("--out", type=Path, required=True, help="folder to write maps to")
    parser.add_argument("--count", type=int, default=12, help="files of each family")
    parser.add_argument("--seed", type=int, default=0)
    chosen = parser.parse_args(arguments)
    collect(chosen.data, chosen.claims, chosen.out, chosen.count, chosen.seed)
    known = gathered(chosen.claims, "entities")
    ships = np.array([family.name for family in FAMILIES if family.ships], object)
    may = np.isin(known.family, ships)
    unseen = np.zeros(len(known.true))  # probabilities by trees that have not seen the family
    trees_of: dict[str, Trees] = {}
    for name in [family.name for family in FAMILIES if (known.family == family.name).any()]:
        own = known.family == name
        trees_of[name] = fitted(known.where(may & ~own))
        unseen[own] = read(trees_of[name], known.where(own))
    trees_of[""] = fitted(known.where(may))
    told = unseen.copy()
    for name, trees in trees_of.items():
        own = known.family == name
        share = share_of_report(known.where(may & ~own), unseen[may & ~own])
        told[own] = pooled(known.probability[own], unseen[own], share)
        names = tuple(str(ship) for ship in ships if ship != name)
        files = len(np.unique(known.file[may & ~own]))
        content = confidence_bytes(trees, LIKELIHOODS, share, names, files)
        folder = chosen.out / "without" / name if name else chosen.out
        _write(folder / CONFIDENCE_FILE, content)
        list_defaults(folder)
    print(f"share of the report of entities: {share:.1f}")
    _print_kind("entities", known, told)
    pairs = gathered(chosen.claims, "pairs")
    _print_kind("pairs", pairs, pairs_told(pairs.probability, pairs.rows[:, 0]))


def _print_kind(kind: str, known: KnownClaims, told: FloatArray) -> None:
    """The figures of each family by how its files were drawn, and their means."""
    print(
        f"\n{kind}: family, claims, share true, ECE (by files), log score, mean, spread, the "
        "surest tenth and its share true"
    )
    for drawn in DRAWN:
        found = []
        for family in FAMILIES:
            own = (known.family == family.name) & known.chosen & (known.drawn == drawn)
            if own.any():
                found.append(judged(known.where(own), told[own]))
                _print(f"{kind}, {drawn}", family.name, found[-1])
        if found:
            means = {key: float(np.mean([one[key] for one in found])) for key in found[0]}
            _print(f"{kind}, {drawn}", "MEAN", means)


def _print(kind: str, family: str, found: dict[str, float]) -> None:
    print(
        f"{kind}: {family:12} {found['claims']:6.0f} {found['true']:.2f}  "
        f"{found['raw']:.3f} -> {found['calibrated']:.3f} "
        f"({found['raw_by_files']:.3f} -> {found['by_files']:.3f})  "
        f"{found['raw_log']:.2f} -> {found['log']:.2f}  "
        f"{found['mean']:.2f} {found['spread']:.2f}  "
        f"{found['surest']:.2f} {found['surest_true']:.2f}",
        flush=True,
    )


def _write(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)


if __name__ == "__main__":
    main()

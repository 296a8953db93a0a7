"""The confidence maps that ship: claims of many labelled files, and trees fitted to their truth.

    python -m kbforge_training.defaults.doubt --data DATA --claims CLAIMS --out OUT

1. Files are resampled from every family and clustered without their labels, by each likelihood.
   The claims, their covariates and their truth are kept below CLAIMS, one file each. What is there
   already is not made again, so a run that was stopped goes on.
2. For each family, maps are fitted on the claims of the others, written to OUT/without/FAMILY, and
   judged on the family's own.
3. The maps that ship are fitted on all families that may train what ships, and written to OUT.

Every family weighs the same, and within a family every file.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from kbforge.contracts import FloatArray, IntArray
from kbforge.errors import UsageError
from kbforge.evaluation.reliability import (
    LEAST,
    BoolArray,
    Claims,
    entity_claims,
    pair_claims,
    reliability,
)
from kbforge.jobs.choices import Choices
from kbforge.jobs.orders import cluster_orders
from kbforge.models.doubt.covariates import (
    OF_ENTITIES,
    OF_FILES,
    OF_PAIRS,
    entity_columns,
    file_columns,
    pair_columns,
)
from kbforge.models.doubt.shipped import (
    ENTITIES,
    FACTS,
    PAIRS,
    REPORTED,
    facts_toml,
    in_order,
    rows_of,
)
from kbforge.models.doubt.told import told
from kbforge.models.trees import Trees
from kbforge_training.defaults.families import FAMILIES, LabelledFile, resampled
from kbforge_training.defaults.trees import fit_trees

RUNS = ("attributes", "bigram")
KINDS = {"entities": (ENTITIES, OF_ENTITIES), "pairs": (PAIRS, OF_PAIRS)}
PARAMETERS: dict[str, Any] = {
    "objective": "binary",
    "seed": 0,
    "learning_rate": 0.05,
    "num_leaves": 6,
    "lambda_l2": 50.0,
    "min_data_in_leaf": 200,
    "feature_fraction": 0.5,
    "bagging_fraction": 0.7,
    "bagging_freq": 1,
}
ROUNDS = 150

_MOST_CLAIMS = 1000  # of one kind of a file; more say the same again


@dataclass(frozen=True, slots=True)
class Known:
    """Claims with their truth, of one kind.

    Attributes:
        rows: reported log odds and covariates, shape [claims, features].
        probability: reported, shape [claims].
        subproblem: of each, no two of different files alike, shape [claims].
        true: by gold, shape [claims].
        family: of each, shape [claims].
        file: number of each one's file and run, shape [claims].
        run: of each, shape [claims].

    """

    rows: FloatArray
    probability: FloatArray
    subproblem: IntArray
    true: BoolArray
    family: Any
    file: IntArray
    run: Any

    def where(self, chosen: BoolArray) -> Known:
        """Some of the claims."""
        return Known(*(getattr(self, name)[chosen] for name in self.__slots__))


def features_of(kind: str) -> tuple[str, ...]:
    """The columns of the rows of a kind of claims."""
    return (REPORTED, *KINDS[kind][1], *OF_FILES)


def collect(root: Path, claims: Path, count: int, seed: int, runs: Sequence[str]) -> None:
    """Cluster resampled files and keep their claims.

    Args:
        root: the folder of all data.
        claims: where claims are kept.
        count: files of each family.
        seed: of the resampling.
        runs: likelihoods, each perhaps with an alpha: `bigram@1000`.

    Raises:
        KBForgeError: a file of a family cannot be read.

    """
    for family in FAMILIES:
        for file in resampled(root, family, count, seed):
            for run in runs:
                place = claims / family.name / f"{file.name}.{run}.npz"
                if not place.exists():
                    found = _claims_of(file, run)
                    place.parent.mkdir(parents=True, exist_ok=True)
                    np.savez_compressed(place, **found)
                    print(place, flush=True)


def _claims_of(file: LabelledFile, run: str) -> dict[str, Any]:
    """The arrays of a file and run; none where the likelihood has no use for the file."""
    name, _, alpha = run.partition("@")
    choices = Choices(likelihood=name, alpha=float(alpha) if alpha else None)
    try:
        clustered = cluster_orders(file.fragments, choices, 1, None)
    except UsageError:
        return {}
    said = told(file.fragments)
    entities, pairs = clustered.entities(), clustered.pairs(LEAST)
    whole = file_columns(said, entities, None)
    found: dict[str, Any] = {}
    for kind, claims, columns in (
        ("entities", entity_claims(entities, clustered.labels), entity_columns(said, entities)),
        ("pairs", pair_claims(pairs, clustered.labels), pair_columns(said, pairs)),
    ):
        rows = rows_of(features_of(kind), claims.probability, columns, whole)
        kept = np.sort(
            np.random.default_rng(0).permutation(len(claims))[: min(len(claims), _MOST_CLAIMS)]
        )
        found |= {
            f"{kind}.rows": rows[kept].astype(np.float32),
            f"{kind}.probability": claims.probability[kept],
            f"{kind}.subproblem": claims.subproblem[kept],
            f"{kind}.true": claims.true[kept],
        }
    return found


def gathered(claims: Path, kind: str, runs: Sequence[str]) -> Known:
    """All claims of a kind that were kept.

    Raises:
        UsageError: there are none.

    """
    parts: list[Known] = []
    for number, (family, run, path) in enumerate(_kept(claims, runs)):
        with np.load(path) as held:
            if f"{kind}.rows" not in held or not len(held[f"{kind}.true"]):
                continue
            n = len(held[f"{kind}.true"])
            parts.append(
                Known(
                    held[f"{kind}.rows"].astype(np.float64),
                    held[f"{kind}.probability"],
                    held[f"{kind}.subproblem"] + number * 1_000_000,
                    held[f"{kind}.true"],
                    np.full(n, family, object),
                    np.full(n, number),
                    np.full(n, run, object),
                )
            )
    if not parts:
        raise UsageError(f"{claims}: expected claims of {', '.join(runs)}, got none")
    return Known(*(np.concatenate([getattr(p, n) for p in parts]) for n in Known.__slots__))


def _kept(claims: Path, runs: Sequence[str]) -> Iterator[tuple[str, str, Path]]:
    for family in FAMILIES:
        for path in sorted((claims / family.name).glob("*.npz")):
            run = path.name.removesuffix(".npz").partition(".")[2]
            if run in runs:
                yield family.name, run, path


def weights(known: Known) -> FloatArray:
    """Each family the same, within it each file; mean 1, shape [claims]."""
    _, file, claims = np.unique(known.file, return_inverse=True, return_counts=True)
    _, first = np.unique(file, return_index=True)
    _, family, files = np.unique(
        known.family[first].astype(str), return_inverse=True, return_counts=True
    )
    each = 1 / (claims * files[family])
    out: FloatArray = each[file]
    out /= out.mean()
    return out


def fitted(known: Known, kind: str) -> Trees:
    """The map of claims."""
    features = features_of(kind)
    monotone = [int(name == REPORTED) for name in features]
    return fit_trees(
        features,
        known.rows,
        known.true.astype(np.float64),
        {**PARAMETERS, "monotone_constraints": monotone},
        ROUNDS,
        weights(known),
    )


def read(trees: Trees, known: Known) -> FloatArray:
    """The calibrated probabilities of claims, as the program tells them."""
    calibrated = 1 / (1 + np.exp(-trees.predict(known.rows)))
    return in_order(known.probability, calibrated, known.subproblem)


def judged(known: Known, calibrated: FloatArray) -> dict[str, float]:
    """ECE and log score, raw and calibrated; and how far apart the calibrated ones are."""
    claims = Claims(known.probability, known.probability, known.subproblem, known.true)
    return {
        "claims": len(known.true),
        "true": float(known.true.mean()),
        "raw": reliability(claims).ece,
        "calibrated": reliability(replace(claims, probability=calibrated)).ece,
        "raw_log": _log_score(known.probability, known.true),
        "log": _log_score(calibrated, known.true),
        "mean": float(calibrated.mean()),
        "spread": float(calibrated.std()),
    }


def _log_score(probability: FloatArray, true: BoolArray) -> float:
    """Mean nats that the truth surprises by; no report counts as nearer to certain than .999."""
    said = np.clip(np.where(true, probability, 1 - probability), 0.001, 1.0)
    return float(-np.log(said).mean())


def main(arguments: Sequence[str] | None = None) -> None:
    """Collect, fit leave-one-family-out, judge, and write what ships."""
    parser = argparse.ArgumentParser(prog="python -m kbforge_training.defaults.doubt")
    parser.add_argument("--data", type=Path, required=True, help="folder of all labelled data")
    parser.add_argument("--claims", type=Path, required=True, help="folder that keeps claims")
    parser.add_argument("--out", type=Path, required=True, help="folder to write maps to")
    parser.add_argument("--count", type=int, default=12, help="files of each family")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--runs", nargs="+", default=list(RUNS), metavar="LIKELIHOOD[@ALPHA]")
    chosen = parser.parse_args(arguments)
    collect(chosen.data, chosen.claims, chosen.count, chosen.seed, chosen.runs)
    ships = np.array([family.name for family in FAMILIES if family.ships], object)
    names = [family.name for family in FAMILIES]
    files = 0
    for kind, (file_name, _) in KINDS.items():
        known = gathered(chosen.claims, kind, chosen.runs)
        may = np.isin(known.family, ships)
        files = max(files, len(np.unique(known.file[may])))
        print(f"\n{kind}: family, claims, share true, ECE, log score, mean, spread")
        for name in names:
            own = known.family == name
            if not own.any():
                continue
            trees = fitted(known.where(may & ~own), kind)
            _write(chosen.out / "without" / name / file_name, trees.to_bytes())
            part = known.where(own)
            found = judged(part, read(trees, part))
            print(
                f"{kind}: {name:12} {found['claims']:7} {found['true']:.2f}  "
                f"{found['raw']:.3f} -> {found['calibrated']:.3f}   "
                f"{found['raw_log']:.2f} -> {found['log']:.2f}   "
                f"{found['mean']:.2f}  {found['spread']:.2f}",
                flush=True,
            )
        _write(chosen.out / file_name, fitted(known.where(may), kind).to_bytes())
    likelihoods = tuple(dict.fromkeys(run.partition("@")[0] for run in chosen.runs))
    for name in ("", *(f"without/{name}" for name in names)):
        others = tuple(str(ship) for ship in ships if name != f"without/{ship}")
        _write(chosen.out / name / FACTS, facts_toml(likelihoods, others, files))


def _write(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)


if __name__ == "__main__":
    main()

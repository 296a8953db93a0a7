"""Fragments grouped by examples, beside likelihoods that need none or make less of them.

    python examples/reproductions/scdp_references.py [--sets cora ...] [--sweeps 60] [--chains 1]

*cora* is the reference matching of Daumé and Marcu (2005, section 7.3.4, table 4): references to
publications by three authors, those of one to be grouped (each is the test set once), those of the
others labelled. The paper's authors are not in the data; its files are by others: ids 0 to 755
Utgoff, to 1284 Fahlman, the rest Kibler. *restaurant* is parted into halves by entities. The
confusable sets have train sets of the same family, of other entities; *far* of another family.

Scores of the test set: pairwise precision, recall and F (twice what the paper's formula says, as in
its tables), and the mean of the fragments' own B-cubed F1. Seconds are processor time of training
and of clustering. A star marks the model that hidden labelled entities chose.
"""

from __future__ import annotations

import argparse
import resource
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from shell import data_folder, kbforge, kbforge_json, table

from kbforge.contracts import Fragment
from kbforge.files.fragments import read_fragments, write_fragments

AUTHORS = {"utgoff": (0, 756), "fahlman": (756, 1285), "kibler": (1285, 1879)}
CONFUSABLE = ("dwie50", "wd50", "wd200", "dwie100")
FAR = {"wd50": "dwie100", "dwie50": "wd200"}
SETS = ("cora", "restaurant", "confusable", "far")
HEAD = ["test set", "system", "P", "R", "F", "B-cubed F1", "entities", "train s", "cluster s"]


@dataclass(frozen=True)
class Split:
    """Labelled fragments and those to be grouped."""

    name: str
    train: list[Fragment]
    test: list[Fragment]


def of_cora() -> Iterator[Split]:
    everything = list(read_fragments(str(data_folder() / "cora" / "cora_1879.jsonl")))
    everything.sort(key=lambda fragment: int(fragment.id.split("-")[1]))
    for author, (first, end) in AUTHORS.items():
        rest = everything[:first] + everything[end:]
        yield Split(f"cora, {author}", rest, everything[first:end])


def of_restaurant() -> Iterator[Split]:
    everything = list(read_fragments(str(data_folder() / "restaurant" / "restaurant_864.jsonl")))
    labels = sorted({fragment.label or "" for fragment in everything})
    half = {labels[i] for i in np.random.default_rng(0).permutation(len(labels))[::2].tolist()}
    halves = [[f for f in everything if (f.label in half) == known] for known in (True, False)]
    for number, (train, test) in enumerate([halves, halves[::-1]], start=1):
        yield Split(f"restaurant, half {number}", train, test)


def confusable(name: str, part: str) -> list[Fragment]:
    return list(read_fragments(str(data_folder() / "confusable" / f"{name}_{part}.jsonl")))


def of_confusable() -> Iterator[Split]:
    for name in CONFUSABLE:
        yield Split(name, confusable(name, "train"), confusable(name, "dev"))


def far() -> Iterator[Split]:
    for name, other in FAR.items():
        train = confusable(other, "train")
        yield Split(f"{name} by {other}", train, confusable(name, "dev"))


SPLITS = {"cora": of_cora, "restaurant": of_restaurant, "confusable": of_confusable, "far": far}


class Bench:
    """Systems on one split; `budget` is the options of scdp."""

    def __init__(self, split: Split, folder: Path, budget: list[str]) -> None:
        self._split, self._folder, self._budget = split, folder, budget
        self._train, self._test = folder / "train.jsonl", folder / "test.jsonl"
        write_fragments(split.train, self._train)
        write_fragments(split.test, self._test)

    def rows(self) -> Iterator[list[str]]:
        yield self._row("names", ["--likelihood", "names"])
        yield self._row("attributes", ["--likelihood", "attributes"])
        yield self._row("pairs", ["--likelihood", "pairs"])
        labelled, spent = self._trained(["train-attributes", "--labels"])
        yield self._row("train-attributes --labels", ["--likelihood", labelled], spent)
        model, spent = self._trained(["lab", "train-supervised"])
        for number in (1, 2, 3):
            options = [
                "--set",
                "clusterer=scdp",
                "--set",
                f"clusterer.model={number}",
                *self._budget,
            ]
            chosen = " *" if spent["scdp"] == number else ""
            yield self._row(f"SCDP-{number}{chosen}", ["--likelihood", model, *options], spent)
        yield self._row("linkage", ["--likelihood", model, "--set", "clusterer=linkage"], spent)
        yield self._row("one scatter, split-smc", ["--likelihood", model], spent)

    def _trained(self, command: list[str]) -> tuple[str, dict[str, Any]]:
        model, before = str(self._folder / "-".join(command)), _spent()
        told = kbforge_json(*command, self._train, "-o", model)
        return model, {**told, "cpu": _spent() - before}

    def _row(
        self, system: str, options: list[str], trained: dict[str, Any] | None = None
    ) -> list[str]:
        kb, before = self._folder / "kb.jsonl", _spent()
        kbforge("cluster", self._test, *options, "-o", kb)
        seconds = _spent() - before
        scores = kbforge_json("evaluate", kb, self._test)
        names = ("pairwise_precision", "pairwise_recall", "pairwise_f1", "bcubed_f1_item_mean")
        return [
            self._split.name,
            system,
            *(f"{scores[name]:.3f}" for name in names),
            str(scores["clusters"]),
            "" if trained is None else f"{trained['cpu']:.1f}",
            f"{seconds:.1f}",
        ]


def _spent() -> float:
    """Processor seconds of the commands so far."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--sets", nargs="+", choices=SETS, default=list(SETS))
    parser.add_argument("--sweeps", type=int, default=60)
    parser.add_argument("--chains", type=int, default=1)
    options = parser.parse_args()
    settings = {"sweeps": options.sweeps, "chains": options.chains}
    budget = [w for key, value in settings.items() for w in ("--set", f"clusterer.{key}={value}")]
    rows = []
    for name in options.sets:
        for split in SPLITS[name]():
            with tempfile.TemporaryDirectory() as folder:
                for row in Bench(split, Path(folder), budget).rows():
                    rows.append(row)
                    print(" | ".join(row), flush=True)
    print()
    print(table(HEAD, rows))


if __name__ == "__main__":
    main()

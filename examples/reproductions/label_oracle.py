"""How much do a few answers help? Questions of `kbforge review`, answered by gold.

    KBFORGE_DATA=... python examples/reproductions/label_oracle.py
    python examples/reproductions/label_oracle.py --sets ror abt_buy --seeds 3 --errors 0.05
    python examples/reproductions/label_oracle.py --without models/without

Each set is clustered without answers and with the first 10, 30 and 100 of a review. Larger sets
are cut to their first entities. `--without` names models of `kbforge lab train-default` that have
not seen the family, FOLDER/FAMILY. Prints a line a set, and the means: F1 of items / of pairs.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
from shell import data_folder, table

from kbforge.contracts import Fragment
from kbforge.evaluation.scores import compare
from kbforge.files.answers import AnswerFile
from kbforge.fit.choices import RunOptions
from kbforge.fit.review import FileReview
from kbforge.jobs.cluster import cluster
from kbforge_lab.suites.accuracy import SETS, LabelledSet

STOPS = (0, 10, 30, 100)
HARD = (
    *("cora", "inspire_wang", "walmart_amazon", "amazon_google", "abt_buy", "wd200_dev"),
    *("wd200_train", "places_ne", "ror", "nsi_brands", "syriaca_places", "syriaca_persons"),
    *("artists_nga", "mhercl", "fair_el"),
)
"""Sets on which the default does badly."""


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sets", nargs="*", default=HARD)
    parser.add_argument("--first", type=int, default=2_000, help="fragments of a larger set")
    parser.add_argument("--errors", type=float, default=0.0, help="share of wrong answers")
    parser.add_argument("--seeds", type=int, default=1, help="reviews of each set")
    parser.add_argument("--without", help="FOLDER/FAMILY has models that have not seen the family")
    options = parser.parse_args()
    found: dict[str, np.ndarray] = {}
    for of in chosen(options.sets, options.first):
        defaults = None if options.without is None else f"{options.without}/{of.family}"
        fragments = of.read(data_folder())
        reviews = [
            after_answers(fragments, RunOptions(defaults=defaults, seed=seed), options.errors)
            for seed in range(options.seeds)
        ]
        found[of.name] = np.mean(reviews, axis=0)
        print(rows_of({of.name: found[of.name]})[0], flush=True)
    head = ["set", *(f"{count} answers" for count in STOPS)]
    print("\n" + table(head, rows_of({**found, "mean": np.mean([*found.values()], axis=0)})))


def chosen(names: Sequence[str], first: int) -> Iterator[LabelledSet]:
    """The sets of these names; of a larger one the first entities."""
    for of in SETS:
        if of.name in names:
            yield of if of.fragments <= first else replace(of, first=first)


def after_answers(
    fragments: Sequence[Fragment], choices: RunOptions, errors: float = 0.0
) -> np.ndarray:
    """F1 of items and of pairs after as many answers as `STOPS` says, shape [stops, 2].

    Answers are gold's, but for a share of errors.
    """
    rng = np.random.default_rng(choices.seed)
    scores = []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "answers.jsonl"
        with AnswerFile(str(path)) as answers:
            review = FileReview(fragments, choices, answers)
            for count in range(STOPS[-1] + 1):
                if count in STOPS:
                    used = replace(choices, answers=str(path)) if count else choices
                    scores.append(f1_of(fragments, used))
                if count < STOPS[-1] and (question := review.question()) is not None:
                    same = question.first.fragment.label == question.second.fragment.label
                    review.answer(question, same != bool(rng.random() < errors))
    return np.array(scores)


def f1_of(fragments: Sequence[Fragment], choices: RunOptions) -> tuple[float, float]:
    """F1 of items and of pairs of a clustering."""
    kb = cluster(fragments, choices)
    entity = {f: number for number, one in enumerate(kb.entities) for f in one.fragments}
    found = compare([entity[f.id] for f in fragments], [f.label for f in fragments])
    return found.bcubed_f1_item_mean, found.pairwise_f1


def rows_of(found: dict[str, np.ndarray]) -> list[list[str]]:
    """A row of a table for each set."""
    return [
        [name, *(f"{items:.3f}/{pairs:.3f}" for items, pairs in scores)]
        for name, scores in found.items()
    ]


if __name__ == "__main__":
    main()

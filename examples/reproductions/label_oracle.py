"""How much do answers and labels help? Gold answers questions of `kbforge review`, or labels pairs.

    KBFORGE_DATA=... python examples/reproductions/label_oracle.py
    python examples/reproductions/label_oracle.py --sets ror abt_buy --seeds 3 --errors 0.05
    python examples/reproductions/label_oracle.py --without models/without
    python examples/reproductions/label_oracle.py --labels --sets abt_buy_full cora --first 30000

Each set is clustered without answers and with the first 10, 30 and 100 of a review. Larger sets
are cut to their first entities. `--without` names models of `kbforge lab train-default` that have
not seen the family, FOLDER/FAMILY. Prints a line a set, and the means: F1 of items / of pairs.

With `--labels` the file is clustered without labels, with 30 and 300 labelled pairs, drawn from the
compared pairs of half of its entities within 4 nats of even odds, and with the labels of that half.
Only the fragments of the other half are scored.
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
from kbforge.fit.choices import RunOptions, default_options
from kbforge.fit.review import FileReview
from kbforge.jobs.cluster import cluster
from kbforge.models.bundle import make_likelihood
from kbforge_lab.suites.accuracy import SETS, LabelledSet

STOPS = (0, 10, 30, 100)
LABELLED = ("no label", "30 pairs", "300 pairs", "half a file")
HARD = (
    *("cora", "inspire_wang", "walmart_amazon", "amazon_google", "abt_buy", "wd200_dev"),
    *("wd200_train", "places_ne", "ror", "nsi_brands", "syriaca_places", "syriaca_persons"),
    *("artists_nga", "mhercl", "fair_el"),
)
"""Sets on which the default does badly."""
NEAR = 4.0
"""Nats from even odds, up to which a pair is uncertain."""
SAID = ("different", "same")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sets", nargs="*", default=HARD)
    parser.add_argument("--first", type=int, default=2_000, help="fragments of a larger set")
    parser.add_argument("--errors", type=float, default=0.0, help="share of wrong answers")
    parser.add_argument("--seeds", type=int, default=1, help="reviews of each set")
    parser.add_argument("--labels", action="store_true", help="instead of answers")
    parser.add_argument("--without", help="FOLDER/FAMILY has models that have not seen the family")
    options = parser.parse_args()
    found: dict[str, np.ndarray] = {}
    for of in chosen(options.sets, options.first):
        defaults = None if options.without is None else f"{options.without}/{of.family}"
        fragments = of.read(data_folder())
        runs = [
            replace(RunOptions(defaults=defaults, seed=seed), link="source" if of.linked else None)
            for seed in range(options.seeds)
        ]
        reviews = [
            with_labels(fragments, run)
            if options.labels
            else after_answers(fragments, run, options.errors)
            for run in runs
        ]
        found[of.name] = np.mean(reviews, axis=0)
        print(rows_of({of.name: found[of.name]})[0], flush=True)
    heads = LABELLED if options.labels else [f"{count} answers" for count in STOPS]
    head = ["set", *heads]
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


def with_labels(fragments: Sequence[Fragment], choices: RunOptions) -> np.ndarray:
    """F1 of items and of pairs of the fragments of half of the entities, as `LABELLED`, shape
    [4, 2]; labels are of the others."""
    rng = np.random.default_rng(choices.seed)
    entities = sorted({str(f.label) for f in fragments})
    known = {entities[k] for k in rng.permutation(len(entities))[: len(entities) // 2]}
    half = [f for f in fragments if f.label in known]
    rest = [f for f in fragments if f.label not in known]
    plain = [replace(f, label=None) for f in fragments]
    scores = [f1_of(plain, choices, rest)]
    pairs = uncertain_pairs(half, fragments, choices)
    with tempfile.TemporaryDirectory() as folder:
        used = replace(choices, labels_from=str(Path(folder) / "labels.csv"))
        for count in (30, 300):
            drawn = (pairs[k] for k in rng.permutation(len(pairs))[:count])
            lines = (f"{a.id},{b.id},{SAID[a.label == b.label]}\n" for a, b in drawn)
            Path(str(used.labels_from)).write_text("".join(["a,b,said\n", *lines]))
            scores.append(f1_of(plain, used, rest))
        lines = (f"{f.id},{f.label}\n" for f in half)
        Path(str(used.labels_from)).write_text("".join(["fragment,entity\n", *lines]))
        scores.append(f1_of(plain, used, rest))
    return np.array(scores)


def uncertain_pairs(
    some: Sequence[Fragment], fragments: Sequence[Fragment], choices: RunOptions
) -> list[tuple[Fragment, Fragment]]:
    """The pairs of some fragments that the model of pairs compares, and is not certain of."""
    options = default_options("pairs", choices.defaults, choices.link)
    model = make_likelihood("pairs", options)
    model.fit(fragments)
    odds = model.pair_odds(some)  # type: ignore[attr-defined]
    stating = dict(zip(odds.row.tolist(), some, strict=True))
    near = (np.abs(odds.nats) < NEAR) & (odds.first < odds.second)
    both = zip(odds.first[near].tolist(), odds.second[near].tolist(), strict=True)
    return [(stating[a], stating[b]) for a, b in both if a in stating and b in stating]


def f1_of(
    fragments: Sequence[Fragment], choices: RunOptions, gold: Sequence[Fragment] = ()
) -> tuple[float, float]:
    """F1 of items and of pairs of a clustering, over the fragments in `gold` or all."""
    kb = cluster(fragments, choices)
    entity = {f: number for number, one in enumerate(kb.entities) for f in one.fragments}
    gold = gold or fragments
    found = compare([entity[f.id] for f in gold], [f.label for f in gold])
    return found.bcubed_f1_item_mean, found.pairwise_f1


def rows_of(found: dict[str, np.ndarray]) -> list[list[str]]:
    """A row of a table for each set."""
    return [
        [name, *(f"{items:.3f}/{pairs:.3f}" for items, pairs in scores)]
        for name, scores in found.items()
    ]


if __name__ == "__main__":
    main()

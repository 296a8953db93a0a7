"""How often the intervals of an audit hold the truth, and how wide they are, on labelled sets.

    python examples/reproductions/audits.py DATA --answers 60 200 --runs 20

Labels answer the questions of `kbforge evaluate --audit`. Two groupings of each set are audited:
fragments of equal names, and those connected by pairs that the pair model finds more likely one
entity than not. Coverage is the share of intervals (precision, recall and F1 over all runs) that
hold what the labels give; half widths are means.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components

from kbforge.contracts import Fragment
from kbforge.evaluation.scores import compare
from kbforge.files.answers import WHOLE, AnswerFile
from kbforge.files.lines import read_columns
from kbforge.fit.audit import AuditReport, AuditReview
from kbforge.fit.description import PairOdds
from kbforge.fit.hypotheses import exact_groups
from kbforge.fit.review import Evidence
from kbforge.jobs.audit import odds_of

SETS = {
    "wd50_dev": "confusable/wd50_dev.jsonl",
    "dwie100_dev": "confusable/dwie100_dev.jsonl",
    "restaurant": "restaurant/restaurant_864.jsonl",
    "rldata500": "rldata/rldata500.jsonl",
    "cora": "cora/cora_1879.jsonl",
    "abt_buy": "products_biblio/abt_buy.jsonl",
    "conel22": "more/conel22/conel22.jsonl",
    "ecbplus": "more/ecbplus/ecbplus.jsonl",
    "febrl1": "more/febrl/febrl1.jsonl",
    "splink_fake1000": "more/splink_fake1000/fake_1000.jsonl",
    "gum_ccby": "more/gum/gum_ccby.jsonl",
    "mhercl": "more/mhercl/mhercl.jsonl",
}
"""One of each family, and none of more than 2,200 fragments, as every run asks anew."""

Truth = tuple[tuple[float, float, float], tuple[float, float, float]]


def truth_of(grouping: Sequence[int], labels: Sequence[str]) -> Truth:
    """Precision, recall and F1 of pairs and of entities."""
    found = compare(grouping, labels)
    exact, made, gold = found.exact_clusters, found.clusters, found.gold_clusters
    pairs = (found.pairwise_precision, found.pairwise_recall, found.pairwise_f1)
    return pairs, (exact / made, exact / gold, 2 * exact / (made + gold))


def groupings(fragments: Sequence[Fragment], odds: PairOdds) -> Iterator[tuple[str, list[int]]]:
    """Two groupings to audit: the number of each fragment's entity."""
    yield "equal names", exact_groups(fragments)
    likely = odds.nats > 0
    rows = int(odds.row.max()) + 1
    ones = np.ones(likely.sum())
    links = csr_array((ones, (odds.first[likely], odds.second[likely])), shape=(rows, rows))
    of_rows = connected_components(links)[1]
    yield "linked pairs", of_rows[odds.row].tolist()


def members_of(grouping: Sequence[int]) -> list[list[int]]:
    """The fragments of each entity."""
    entities: dict[int, list[int]] = {}
    for number, entity in enumerate(grouping):
        entities.setdefault(entity, []).append(number)
    return list(entities.values())


def by_labels(evidence: Evidence[Any]) -> bool:
    """The answer to a question of an audit."""
    others = evidence.second.others if evidence.question.how == WHOLE else ()
    right = evidence.first.fragment.label
    assert evidence.question.how != WHOLE or evidence.second.size == len(others) + 2
    return all(other.label == right for other in (evidence.second.fragment, *others))


def audited(
    fragments: Sequence[Fragment],
    entities: Sequence[Sequence[int]],
    odds: PairOdds,
    counts: Sequence[int],
    seed: int,
) -> list[AuditReport]:
    """The reports of one audit after so many answers."""
    reports = []
    with tempfile.TemporaryDirectory() as folder:
        for count in counts:
            with AnswerFile(str(Path(folder) / "answers.jsonl")) as file:
                review = AuditReview(fragments, entities, odds, file, count, seed)
                while (question := review.question()) is not None:
                    review.answer(question, by_labels(question))
                reports.append(review.report())
    return reports


def measured(path: Path, counts: Sequence[int], runs: int) -> Iterator[tuple[str, np.ndarray]]:
    """For each grouping of a set, [runs, counts, 6, (truth, estimate, low, high)]."""
    fragments = list(read_columns(str(path)))
    labels = [str(fragment.label) for fragment in fragments]
    odds = odds_of(fragments)
    for name, grouping in groupings(fragments, odds):
        truth = [score for kind in truth_of(grouping, labels) for score in kind]
        entities = members_of(grouping)
        yield (
            name,
            np.array(
                [
                    [
                        [
                            (t, s.value, s.low, s.high)
                            for t, s in zip(truth, (*r.pairs, *r.entities), strict=True)
                        ]
                        for r in audited(fragments, entities, odds, counts, seed)
                    ]
                    for seed in range(runs)
                ]
            ),
        )


def coverage(figures: np.ndarray) -> np.ndarray:
    """Whether the intervals hold the truth, by three digits as they are printed."""
    truth, _, low, high = np.moveaxis(figures.round(3), -1, 0)
    return np.asarray((low <= truth) & (truth <= high))


def main() -> None:
    """Print a line for each set and grouping, and the means."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("data", type=Path)
    parser.add_argument("--answers", type=int, nargs="+", default=[60, 200])
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--sets", nargs="+", default=list(SETS))
    given = parser.parse_args()
    found = []
    for name in given.sets:
        for grouping, figures in measured(given.data / SETS[name], given.answers, given.runs):
            found.append(figures)
            show(f"{name}, {grouping}", figures, given.answers)
    show("mean", np.concatenate(found), given.answers)


def show(name: str, figures: np.ndarray, counts: Sequence[int]) -> None:
    """One line for each number of answers: truth, coverage and half width of the six scores."""
    held, width = coverage(figures), (figures[..., 3] - figures[..., 2]) / 2
    means = [values.mean(axis=0) for values in (figures[..., 0], held, width)]
    for k, count in enumerate(counts):
        cells = (
            "{:.3f} {:.2f} ±{:.3f}".format(*(mean[k, q] for mean in means))
            for q in range(figures.shape[2])
        )
        print(f"{name} | {count} | " + " | ".join(cells), flush=True)


if __name__ == "__main__":
    main()

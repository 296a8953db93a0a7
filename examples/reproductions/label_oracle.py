"""How much do a few answers help? Questions of `kbforge review`, answered by gold.

    KBFORGE_DATA=... python examples/reproductions/label_oracle.py
    python examples/reproductions/label_oracle.py --families ror wd --files 4 --errors 0.05
    python examples/reproductions/label_oracle.py --without models/without

Files are resampled from labelled families as for training. Of each, the judge's hypotheses are
scored against gold: the one chosen after so many answers, and the best in hindsight; answers can
close the gap between the two. `--without` judges each family by models of `kbforge lab
train-default` that have not seen it. `--confidence` says how far the calibrated confidence of
entities is off (expected calibration error) before and after. Prints a line a family, then means.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from shell import data_folder, table

from kbforge.contracts import FloatArray
from kbforge.evaluation.reliability import entity_claims, entity_probabilities, reliability
from kbforge.evaluation.scores import compare
from kbforge.files.answers import AnswerFile
from kbforge.fit.choices import Choices
from kbforge.fit.confidence import ClusteringReport
from kbforge.fit.review import FileReview
from kbforge.jobs.cluster import cluster
from kbforge_lab.training.defaults.families import FAMILIES, LabelledFile, family_named, resampled

STOPS = (0, 5, 10, 20, 30)


@dataclass(frozen=True)
class Answered:
    """F1 of what was chosen for one file."""

    family: str
    best: float  # of all candidates
    chosen: tuple[float, ...]  # after as many answers as `STOPS` says
    off: tuple[float, ...] = ()  # calibration error before and after the answers

    @property
    def gaps(self) -> FloatArray:
        """What is missing to the best, shape [stops]."""
        return self.best - np.array(self.chosen)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--families", nargs="*", default=[family.name for family in FAMILIES])
    parser.add_argument("--files", type=int, default=2, help="of each family")
    parser.add_argument("--errors", type=float, default=0.0, help="share of wrong answers")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--confidence", action="store_true", help="also measure confidence")
    parser.add_argument("--without", help="FOLDER/FAMILY has models that have not seen the family")
    options = parser.parse_args()
    everything: list[Answered] = []
    for name in options.families:
        defaults = None if options.without is None else f"{options.without}/{name}"
        choices = Choices(defaults=defaults, seed=options.seed)
        found = [
            ask(file, options.errors, choices, options.confidence)
            for file in resampled(data_folder(), family_named(name), options.files, options.seed)
        ]
        everything += found
        print(table_of(found).splitlines()[-2], flush=True)
    print("\n" + table_of(everything))


def ask(file: LabelledFile, errors: float, choices: Choices, confidence: bool) -> Answered:
    """Answer the questions about one file by gold, some of them wrongly."""
    rng = np.random.default_rng(choices.seed)
    with tempfile.TemporaryDirectory() as folder, AnswerFile(f"{folder}/a.jsonl") as answers:
        labelling = FileReview(file.fragments, choices, answers)
        judged = labelling.judgement
        gold = [fragment.label for fragment in judged.sample.fragments]
        scores = [compare(h.labels.tolist(), gold).bcubed_f1_item_mean for h in judged.found]
        chosen = []
        for count in range(STOPS[-1] + 1):
            if count in STOPS:
                chosen.append(scores[labelling.judgement.place])
            question = labelling.question()
            if question is not None:
                same = question.first.fragment.label == question.second.fragment.label
                labelling.answer(question, same != bool(rng.random() < errors))
        off = ()
        if confidence:
            answered = replace(choices, answers=f"{folder}/a.jsonl")
            off = tuple(error_of_entities(file, made) for made in (choices, answered))
    return Answered(file.family, max(scores), tuple(chosen), off)


def error_of_entities(file: LabelledFile, choices: Choices) -> float:
    """How far the calibrated confidence of a clustering's entities is off."""
    kb = cluster(file.fragments, choices)
    entities = entity_probabilities([kb.posterior])
    assert kb.confidence is not None
    sure = kb.confidence.of_entities(ClusteringReport(kb.fragments, entities))
    labels = [fragment.label for fragment in kb.fragments]
    return reliability(entity_claims(replace(entities, probability=sure), labels)).ece


def table_of(found: Sequence[Answered]) -> str:
    """One line a family, and the mean over families; the share of the gap that is closed."""
    head = ["family", "best", *(f"{count} answers" for count in STOPS), "closed by 30"]
    measured = bool(found[0].off)
    head += ["entities off by", "after 30"] if measured else []
    rows, means, offs = [], [], []
    for family in dict.fromkeys(one.family for one in found):
        own = [one for one in found if one.family == family]
        figures = np.array([[one.best, *one.chosen] for one in own]).mean(axis=0)
        off = np.array([one.off for one in own]).mean(axis=0)
        means.append(figures)
        offs.append(off)
        rows.append([family, *_line(figures), *(f"{one:.3f}" for one in off)])
    off = np.array(offs).mean(axis=0)
    rows.append(["mean", *_line(np.array(means).mean(axis=0)), *(f"{one:.3f}" for one in off)])
    return table(head, rows)


def _line(figures: FloatArray) -> list[str]:
    best, first, last = figures[0], figures[1], figures[-1]
    closed = f"{(last - first) / (best - first):.0%}" if best - first > 1e-9 else "-"
    return [*(f"{figure:.3f}" for figure in figures), closed]


if __name__ == "__main__":
    main()

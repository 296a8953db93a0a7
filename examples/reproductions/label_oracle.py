"""How much do a few answers help? Questions of `kbforge review`, answered by gold.

    KBFORGE_DATA=... python examples/reproductions/label_oracle.py
    python examples/reproductions/label_oracle.py --families ror wd --files 4 --errors 0.05
    python examples/reproductions/label_oracle.py --without models/without

Files are resampled from labelled families as for training. Of each, the judge's hypotheses are
scored against gold: the one chosen after so many answers, and the best in hindsight, with other
biases of the pair model (`best`) and without (`best, no bias`). Answers can close the gap from the
default's choice to the best. `--without` judges each family by models of `kbforge lab
train-default` that have not seen it. `--confidence` says how far the calibrated confidence of
entities is off (expected calibration error) before and after. Prints a line a family, then means;
then which share of both gaps so many answers close, and how what a dozen answers were expected to
gain compares with what they gained.
"""

from __future__ import annotations

import argparse
import itertools
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from shell import data_folder, table

from kbforge.evaluation.reliability import entity_claims, entity_probabilities, reliability
from kbforge.evaluation.scores import compare
from kbforge.files.answers import AnswerFile
from kbforge.fit.choices import RunOptions
from kbforge.fit.features import ClusteringReport
from kbforge.fit.review import FileReview
from kbforge.jobs.cluster import cluster
from kbforge_lab.training.defaults.families import FAMILIES, LabelledFile, family_named, resampled

STOPS = (0, 5, 10, 12, 20, 30)
DOZEN = STOPS.index(12)


@dataclass(frozen=True)
class Answered:
    """F1 of what was chosen for one file."""

    family: str
    best: float  # of all candidates
    plain: float  # the best without bias
    chosen: tuple[float, ...]  # after as many answers as `STOPS` says
    expected: float  # what a dozen answers were expected to gain
    off: tuple[float, ...] = ()  # calibration error before and after the answers

    @property
    def gained(self) -> float:
        """What a dozen answers gained."""
        return self.chosen[DOZEN] - self.chosen[0]


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
        choices = RunOptions(defaults=defaults, seed=options.seed)
        found = [
            ask(file, options.errors, choices, options.confidence)
            for file in resampled(data_folder(), family_named(name), options.files, options.seed)
        ]
        everything += found
        print(table_of(found).splitlines()[-2], flush=True)
    print("\n" + table_of(everything))
    print("\n" + closed(everything))
    print(expectations(everything))


def ask(file: LabelledFile, errors: float, choices: RunOptions, confidence: bool) -> Answered:
    """Answer the questions about one file by gold, some of them wrongly."""
    rng = np.random.default_rng(choices.seed)
    with tempfile.TemporaryDirectory() as folder, AnswerFile(f"{folder}/a.jsonl") as answers:
        labelling = FileReview(file.fragments, choices, answers)
        judged = labelling.judgement
        expected = judged.gain_of_answers
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
        off: tuple[float, ...] = ()
        if confidence:
            answered = replace(choices, answers=f"{folder}/a.jsonl")
            off = tuple(error_of_entities(file, made) for made in (choices, answered))
    plain = max(score for score, h in zip(scores, judged.found, strict=True) if not h.bias)
    return Answered(file.family, max(scores), plain, tuple(chosen), expected, off)


def error_of_entities(file: LabelledFile, choices: RunOptions) -> float:
    """How far the calibrated confidence of a clustering's entities is off."""
    kb = cluster(file.fragments, choices)
    entities = entity_probabilities([kb.posterior])
    assert kb.confidence is not None
    sure = kb.confidence.of_entities(ClusteringReport(kb.fragments, entities))
    labels = [fragment.label for fragment in kb.fragments]
    return reliability(entity_claims(replace(entities, probability=sure), labels)).ece


def closed(found: Sequence[Answered]) -> str:
    """The share of the gap that answers close, of means over families."""
    best, plain, first, *after = _means(found)
    gaps = [max(most - first, _NO_GAP) for most in (plain, best)]
    shares = ["{:.0%} ({:.0%})".format(*((mean - first) / gap for gap in gaps)) for mean in after]
    return (
        f"{', '.join(map(str, STOPS[1:]))} answers close {', '.join(shares)} of the gap to the "
        "best without bias (to the best)"
    )


def expectations(found: Sequence[Answered]) -> str:
    """What a dozen answers were expected to gain, file by file, and what they gained."""
    expected = np.array([one.expected for one in found])
    gained = np.array([one.gained for one in found])
    correlation = np.corrcoef(expected, gained)[0, 1] if len(found) > 1 else np.nan
    bands = []
    for low, high in itertools.pairwise(_BANDS):
        held = (expected >= low) & (expected < high)
        if held.any():
            of = f"{held.sum()} files {expected[held].mean():+.3f} {gained[held].mean():+.3f}"
            bands.append(f"from {low:g}: {of}")
    return (
        f"a dozen answers: expected {expected.mean():+.3f}, gained {gained.mean():+.3f}, "
        f"correlation {correlation:.2f}; expected and gained by band: {'; '.join(bands)}"
    )


_NO_GAP = 1e-9
_BANDS = (0.0, 0.01, 0.02, 0.03, 0.05, 1.0)


def _means(found: Sequence[Answered]) -> list[float]:
    """Best, best without bias and chosen, means over families."""
    families: dict[str, list[list[float]]] = {}
    for one in found:
        families.setdefault(one.family, []).append([one.best, one.plain, *one.chosen])
    means = np.mean([np.mean(own, axis=0) for own in families.values()], axis=0)
    return [float(mean) for mean in means]


def table_of(found: Sequence[Answered]) -> str:
    """One line a family, and the mean over families."""
    head = ["family", "best", "best, no bias", *(f"{count} answers" for count in STOPS)]
    measured = bool(found[0].off)
    head += ["entities off by", "after 30"] if measured else []
    rows, offs = [], []
    for family in dict.fromkeys(one.family for one in found):
        own = [one for one in found if one.family == family]
        off = np.array([one.off for one in own]).mean(axis=0)
        offs.append(off)
        rows.append([family, *(f"{figure:.3f}" for figure in (*_means(own), *off))])
    off = np.array(offs).mean(axis=0)
    rows.append(["mean", *(f"{figure:.3f}" for figure in (*_means(found), *off))])
    return table(head, rows)


if __name__ == "__main__":
    main()

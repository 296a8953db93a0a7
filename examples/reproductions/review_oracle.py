"""Do good questions pay? Pairs are asked about, gold answers, and answers become decisions.

    KBFORGE_DATA=... python examples/reproductions/review_oracle.py
    python examples/reproductions/review_oracle.py --sets febrl1 --orders 5 --errors 0.05
    python examples/reproductions/review_oracle.py --without models/without --picture review.png

Each set is clustered as `kbforge cluster FILE` does, and then asked about in several ways:

| way | next is |
|---|---|
| gain | the pair whose answer is expected to set most right (kbforge.fit) |
| random in doubt | any of the pairs of fragments that the particles report between .05 and .95 |
| random uncertain | any of those on which they differ at all |

All start from one state. Prints F1 after every tenth answer as Markdown, and the gain over that of
random uncertain pairs; the picture has a curve a way, mean and extremes over orders and repeats.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import TypeAlias

import numpy as np
from shell import data_folder, table

from kbforge.contracts import Decision, FloatArray, Fragment, Session
from kbforge.errors import ContradictionError
from kbforge.evaluation.reliability import pair_probabilities
from kbforge.evaluation.scores import compare
from kbforge.fit.choices import RunOptions
from kbforge.fit.questions import PairQuestion, PosteriorQueue
from kbforge.jobs.cluster import open_live
from kbforge.pictures import PALETTE, look, new_figure, save
from kbforge_lab.suites.accuracy import SETS, LabelledSet

RANDOM, DOUBT = "random uncertain", "random in doubt"
WAYS = ("gain", DOUBT, RANDOM)
EVERY = 10

Answer: TypeAlias = Callable[[int, int], bool]
Curves: TypeAlias = dict[str, FloatArray]
"""Way -> F1 after so many answers, shape [runs, answers + 1]."""


def main() -> None:
    """Measure, print and draw."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sets", nargs="*", default=["wd200_dev", "historical_5k"])
    parser.add_argument("--answers", type=int, default=50)
    parser.add_argument("--orders", type=int, default=3, help="of each set, the file's first")
    parser.add_argument("--repeats", type=int, default=5, help="of random pairs, of each order")
    parser.add_argument("--errors", type=float, default=0.0, help="share of wrong answers")
    parser.add_argument("--ways", nargs="*", default=list(WAYS), choices=WAYS)
    parser.add_argument("--without", help="FOLDER/FAMILY has models that have not seen the family")
    parser.add_argument("--picture", default="review.png")
    options = parser.parse_args()
    known = {one.name: one for one in SETS}
    found = {name: measured(known[name], options) for name in options.sets}
    for name, curves in found.items():
        print(f"\n{name}\n\n{table_of(curves)}")
    draw(found, options.picture)


def measured(data: LabelledSet, options: argparse.Namespace) -> Curves:
    """The curves of a set."""
    fragments = data.read(data_folder())
    defaults = None if options.without is None else str(Path(options.without) / data.family)
    runs: dict[str, list[list[float]]] = {way: [] for way in options.ways}
    for order in range(options.orders):
        rng = np.random.default_rng([order, 0])
        places = rng.permutation(len(fragments)) if order else np.arange(len(fragments))
        held = [fragments[i] for i in places.tolist()]
        live = open_live(held, RunOptions(defaults=defaults))
        live.add(held)
        live.session.touched()
        state = live.session.snapshot()
        for way in options.ways:
            for repeat in range(options.repeats if way in (DOUBT, RANDOM) else 1):
                draws = np.random.default_rng([order, repeat, 1])
                made = live.prepared
                session = made.clusterer.open(made.spec, np.random.default_rng(0), state)
                answer = oracle(held, options.errors, draws)
                curve = asked(session, pairs_by(way, session, draws), answer)
                runs[way].append(list(islice(curve, options.answers + 1)))
    return {way: padded(found, options.answers + 1) for way, found in runs.items()}


def padded(curves: Sequence[Sequence[float]], length: int) -> FloatArray:
    """Curves of one length: where nothing was left to ask, F1 stays."""
    return np.array([[*curve, *[curve[-1]] * (length - len(curve))] for curve in curves])


def oracle(fragments: Sequence[Fragment], errors: float, rng: np.random.Generator) -> Answer:
    """Answers by gold, some of them wrong."""

    def answer(first: int, second: int) -> bool:
        same = fragments[first].label == fragments[second].label
        return same != bool(rng.random() < errors)

    return answer


Pairing: TypeAlias = Iterator[PairQuestion | tuple[int, int]]


def asked(session: Session, pairs: Callable[[Answer], Pairing], answer: Answer) -> Iterator[float]:
    """F1 before the first answer, and after each."""
    gold = [fragment.label for fragment in session.fragments]
    yield f1_of(session, gold)
    for _ in pairs(answer):
        yield f1_of(session, gold)


def f1_of(session: Session, gold: Sequence[str | None]) -> float:
    """B-cubed F1, the mean over items."""
    return compare(session.posterior().labels(), gold).bcubed_f1_item_mean


def pairs_by(way: str, session: Session, rng: np.random.Generator) -> Callable[[Answer], Pairing]:
    """What asks in one of the ways; each pair that comes out of it has been decided."""
    if way in (DOUBT, RANDOM):
        least = 0.05 if way == DOUBT else 0.0
        return lambda answer: at_random(session, answer, least, rng)
    return lambda answer: by_worth(session, answer, PosteriorQueue())


def by_worth(session: Session, answer: Answer, questions: PosteriorQueue) -> Pairing:
    """The most valuable questions."""
    questions.update(session.posterior().subproblems)
    while question := questions.next():
        same = answer(question.first, question.second)
        if not decided(session, question.first, question.second, same):
            questions.pass_over(question)
        questions.add(question, same)
        touched = session.touched()
        questions.gone(touched.gone)
        questions.update(map(session.subproblem, touched.changed))
        yield question


def at_random(session: Session, answer: Answer, least: float, rng: np.random.Generator) -> Pairing:
    """Pairs of fragments that are reported between `least` and 1 - `least`, at random."""
    while True:
        pairs = pair_probabilities([session.posterior()], least)
        open_ones = np.flatnonzero(pairs.probability < min(1 - least, 1 - 1e-9))
        if not len(open_ones):
            return
        k = int(rng.choice(open_ones))
        first, second = int(pairs.first[k]), int(pairs.second[k])
        decided(session, first, second, answer(first, second))
        yield first, second


def decided(session: Session, first: int, second: int, same: bool) -> bool:
    """Whether the answer could be honoured; wrong answers may contradict others."""
    ids = (session.fragments[first].id, session.fragments[second].id)
    try:
        session.constrain([Decision(same, *ids)])
    except ContradictionError:
        return False
    return True


def table_of(curves: Curves) -> str:
    """A line a way: mean F1 after so many answers, its gain, and that over random pairs."""
    gains = {way: float((found[:, -1] - found[:, 0]).mean()) for way, found in curves.items()}
    stops = range(0, next(iter(curves.values())).shape[1], EVERY)
    base = gains.get(RANDOM, 0.0)
    rows = []
    for way, found in curves.items():
        times = f"{gains[way] / base:.1f}" if base > 0 else "-"
        means = [f"{found[:, k].mean():.4f}" for k in stops]
        rows.append([way, *means, f"{gains[way]:+.4f}", times])
    return table(["way", *map(str, stops), "gain", "times random"], rows)


@look()
def draw(found: dict[str, Curves], path: str) -> None:
    """A panel a set: F1 against answers, mean and extremes."""
    figure = new_figure(4.5 * len(found), 3.6)
    for axes, (name, curves) in zip(
        figure.subplots(1, len(found), squeeze=False)[0], found.items(), strict=True
    ):
        for way, colour in zip(curves, PALETTE, strict=False):
            f1 = curves[way]
            xs = np.arange(f1.shape[1])
            axes.plot(xs, f1.mean(axis=0), color=colour, label=way, lw=1.6)
            axes.fill_between(xs, f1.min(axis=0), f1.max(axis=0), color=colour, alpha=0.1, lw=0)
        axes.set_title(name)
        axes.set_xlabel("answers")
        axes.set_ylabel("B-cubed F1")
    axes.legend(loc="upper left")
    save(figure, path)


if __name__ == "__main__":
    main()

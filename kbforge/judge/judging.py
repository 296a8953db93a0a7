"""Judging: from a file without labels to the likelihood and the alpha that suit it.

    sample       the file, or whole neighbourhoods of a large one
    hypotheses   exact names, and each likelihood's groupings along its merge path
    statistics   of the sample and of each hypothesis
    scorer       what each is expected to gain over exact names; the best is chosen

The likelihoods are fitted to the whole file, so that an alpha found on the sample holds for the
file: where a merge path is cut lies in the evidence of pairs that are close to each other.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.optimize import brentq

from kbforge.clustering.sample import Sample, neighbourhoods
from kbforge.contracts import CandidateIndex, ConjugateLikelihood, FloatArray, Fragment
from kbforge.judge.hypotheses import NAMES, Hypothesis, hypotheses, log_alphas_of, statistics_of
from kbforge.judge.paths import merge_path
from kbforge.judge.scorer import Scorer, best_of
from kbforge.judge.seen import see
from kbforge.judge.statistics import expected_entities

MOST_FRAGMENTS = 1_500
"""A file with more is sampled."""
_WRONG_ANSWER = 0.05
"""How often an answer is not what the grouping that holds would have said."""


@dataclass(frozen=True, slots=True)
class Answer:
    """Whether two fragments of a sample are one entity, by someone who knows.

    Attributes:
        one: a fragment's place in the sample.
        two: another's.
        same: whether they are.

    """

    one: int
    two: int
    same: bool


@dataclass(frozen=True, eq=False)
class Judged:
    """What was seen, what might be, and what was chosen.

    Attributes:
        sample: what was looked at.
        of: how many fragments the file has.
        found: the hypotheses.
        gains: [hypotheses] expected F1 over that of exact names.
        levels: [hypotheses] expected F1.
        names: of the statistics.
        statistics: [hypotheses, statistics] all that the scorer reads.
        open: [hypotheses] whether a hypothesis may be chosen.
        margin: what displaces exact names.
        spread: how far expected gains are from true ones, as a standard deviation.
        answers: what was told of pairs, if anything.

    """

    sample: Sample
    of: int
    found: tuple[Hypothesis, ...]
    gains: FloatArray
    levels: FloatArray
    names: tuple[str, ...]
    statistics: FloatArray
    open: tuple[bool, ...]
    margin: float
    spread: float
    answers: tuple[Answer, ...] = ()

    @property
    def weights(self) -> FloatArray:
        """[hypotheses] how probable each is to be the best, sum 1.

        A gain is off by the spread. An answer is what a hypothesis says but for a small share of
        wrong ones; so some answers outweigh what was expected.
        """
        score = self.gains / max(self.spread, 1e-3)
        for answer in self.answers:
            for k, hypothesis in enumerate(self.found):
                together = hypothesis.labels[answer.one] == hypothesis.labels[answer.two]
                right = bool(together) == answer.same
                score[k] += math.log(1 - _WRONG_ANSWER if right else _WRONG_ANSWER)
        weights = np.exp(score - score.max()) * np.array(self.open)
        return np.asarray(weights / weights.sum())

    @property
    def place(self) -> int:
        """Which hypothesis is chosen."""
        allowed = np.flatnonzero(self.open)
        if self.answers:
            return int(np.argmax(self.weights))
        found = [self.found[k] for k in allowed]
        return int(allowed[best_of(self.gains[allowed], found, self.margin)])

    @property
    def chosen(self) -> Hypothesis:
        """The hypothesis that is chosen."""
        return self.found[self.place]

    @property
    def expected_f1(self) -> float:
        """What F1 the chosen grouping is expected to have."""
        return float(self.levels[self.place])

    @property
    def expected_gain(self) -> float:
        """What the chosen grouping is expected to gain over exact names."""
        return float(self.gains[self.place])

    @property
    def entities(self) -> float:
        """How many entities the file has, if the chosen grouping is right.

        Only the seeds of a sample stand for the file: their clusters are whole.
        """
        labels = self.chosen.labels
        size = np.bincount(labels)[labels]
        return self.of * float(np.mean(1 / size[: self.sample.seeds]))

    def statistics_of_chosen(self) -> dict[str, float]:
        """The statistics of the file and of the chosen grouping, by name; NaN is missing."""
        return dict(zip(self.names, self.statistics[self.place].tolist(), strict=True))

    def answered(self, answers: Iterable[Answer]) -> Judged:
        """The same, with more answers: each hypothesis is weighed by those it agrees with."""
        return replace(self, answers=(*self.answers, *answers))

    def only(self, likelihood: str) -> Judged:
        """The same, but only hypotheses of this likelihood may be chosen.

        Raises:
            ValueError: there are none.

        """
        return self._restricted([h.likelihood == likelihood for h in self.found])

    def without_names(self) -> Judged:
        """The same, but exact names may not be chosen, if there is anything else."""
        allowed = [h.likelihood != NAMES for h in self.found]
        return self._restricted(allowed) if any(allowed) else self

    def _restricted(self, allowed: Sequence[bool]) -> Judged:
        if not any(allowed):
            raise ValueError("no hypothesis may be chosen")
        return replace(self, open=tuple(allowed))


def judge(
    fragments: Sequence[Fragment],
    likelihoods: Mapping[str, ConjugateLikelihood],
    index: CandidateIndex,
    scorer: Scorer,
    like: Mapping[str, str] | None = None,
) -> Judged:
    """Judge what suits a file.

    The result does not depend on the order of the fragments.

    Args:
        fragments: the file, at least one.
        likelihoods: fitted to it, by name; their tables are mergeable.
        index: fitted to it; says what is close.
        scorer: trained.
        like: likelihood -> the one of `hypotheses.KINDS` that it is judged as.

    Raises:
        LikelihoodError: a likelihood failed on a fragment.
        ModelError: the scorer reads statistics that this version does not know.

    """
    sample = neighbourhoods(fragments, index, MOST_FRAGMENTS)
    paths = {
        name: merge_path(
            likelihood, sample.fragments, likelihood.index, log_alphas_of(name, like)[0]
        )
        for name, likelihood in likelihoods.items()
    }
    seen = see(sample.fragments, index, fragments)
    found = hypotheses(seen, paths, like)
    names, statistics = statistics_of(seen, found, fragments, like)
    return Judged(
        sample=sample,
        of=len(fragments),
        found=tuple(found),
        gains=scorer.gains(names, statistics, found),
        levels=scorer.levels(names, statistics),
        names=names,
        statistics=statistics,
        open=(True,) * len(found),
        margin=scorer.margin,
        spread=scorer.spread,
    )


def alpha_for(fragments: int, entities: float) -> float:
    """The alpha under which so many fragments are expected to form so many entities."""
    low, high = -10.0, 30.0
    target = min(max(entities, 1.0 + 1e-9), fragments * (1 - 1e-9))

    def excess(log_alpha: float) -> float:
        return expected_entities(fragments, math.exp(log_alpha)) - target

    if excess(low) >= 0:
        return math.exp(low)
    if excess(high) <= 0:
        return math.exp(high)
    return math.exp(brentq(excess, low, high))

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
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from kbforge.clustering.sample import Sample, neighbourhoods
from kbforge.contracts import CandidateIndex, ConjugateLikelihood, FloatArray, Fragment, IntArray
from kbforge.files.answers import Placed
from kbforge.fit.close import close_ones
from kbforge.fit.expected import Expected
from kbforge.fit.heard import Predicted, ReadsPairs
from kbforge.fit.hypotheses import Hypothesis, hypotheses, log_alphas_of, statistics_of
from kbforge.fit.paths import merge_path
from kbforge.fit.queue import Queue, alike
from kbforge.fit.scorer import Scorer, worths
from kbforge.fit.seen import see
from kbforge.fit.statistics import ATTRIBUTES

MOST_FRAGMENTS = 800
"""A file with more is sampled."""
_LEAST_SPREAD = 1e-3


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
        answers: what was told of pairs, by numbers of the file's fragments.

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
    answers: tuple[Placed, ...] = ()

    @property
    def allowed(self) -> IntArray:
        """The places of the hypotheses that may be chosen."""
        return np.flatnonzero(self.open)

    @property
    def place(self) -> int:
        """Which hypothesis is chosen."""
        if self.answers:
            return int(self.allowed[self._asked.best()])
        return int(self.allowed[np.argmax(self._worth[self.allowed])])

    @property
    def chosen(self) -> Hypothesis:
        """The hypothesis that is chosen."""
        return self.found[self.place]

    @property
    def expected_f1(self) -> float:
        """What F1 the chosen grouping is expected to have."""
        of_names = self.levels[self.place] - self.gains[self.place]
        return float(np.clip(of_names + self.expected_gain, 0.0, 1.0))

    @property
    def expected_gain(self) -> float:
        """What the chosen grouping is expected to gain over exact names."""
        place = self.place
        return float(self.gains[place] + (self._moved(place) if self.answers else 0.0))

    def gain_over(self, before: Judged) -> float:
        """What the chosen grouping is expected to gain over the one chosen before, by answers.

        Args:
            before: the same with fewer answers.

        """
        one, other = self.place, before.place
        moved = self._moved(one) - self._moved(other)
        return float(self.gains[one] - self.gains[other] + moved)

    @property
    def entities(self) -> float:
        """How many entities the file has, if the chosen grouping is right.

        Only the seeds of a sample stand for the file: their clusters are whole.
        """
        labels = self.chosen.labels
        size = np.bincount(labels)[labels]
        return self.of * float(np.mean(1 / size[: self.sample.seeds]))

    def predicted(self, likelihood: str) -> Predicted | None:
        """What is expected of the chosen grouping, beside all others, for maps of doubt.

        Args:
            likelihood: the one that clusters; None is told if no grouping of it was judged.

        """
        if self.chosen.likelihood != likelihood:
            return None
        labels = np.stack([h.labels for h in self.found])
        weights = np.exp((self.gains - self.gains.max()) / max(self.spread, _LEAST_SPREAD))
        weights /= weights.sum()
        return Predicted.of(
            self.expected_f1, self.expected_gain, weights, labels, self.sample.fragments
        )

    def answered(self, answers: Iterable[Placed]) -> Judged:
        """The same, with more answers.

        Args:
            answers: by numbers of the file's fragments; about others than the sample's they choose
                nothing.

        """
        return replace(self, answers=(*self.answers, *answers))

    def questions(self, seed: int) -> Queue:
        """What to ask, to tell which of the hypotheses is best; with the answers so far.

        Its fragments are the sample's.

        Args:
            seed: of the questions.

        """
        allowed = self.allowed
        groupings = np.stack([self.found[k].labels for k in allowed.tolist()])
        queue = Queue(groupings, self._worth[allowed], alike(self.sample.fragments), seed)
        place = {number: at for at, number in enumerate(self.sample.places)}
        for answer in self.answers:
            if answer.first in place and answer.second in place:
                queue.add(place[answer.first], place[answer.second], answer.same)
        return queue

    @cached_property
    def _asked(self) -> Queue:
        return self.questions(0)

    @property
    def _worth(self) -> FloatArray:
        attributes = float(self.statistics[0, self.names.index(ATTRIBUTES)])
        return worths(self.gains, self.found, self.margin, attributes)

    def _moved(self, place: int) -> float:
        """By how much answers raise the expected gain of a hypothesis."""
        scores, _ = self._asked.scores()
        worth = self._worth[self.allowed]
        at = int(np.flatnonzero(self.allowed == place)[0])
        return float(scores[at] - (worth[at] - worth[0]))

    def only(self, likelihood: str) -> Judged:
        """The same, but only hypotheses of this likelihood may be chosen.

        Raises:
            ValueError: there are none.

        """
        return self._restricted([h.likelihood == likelihood for h in self.found])

    def without(self, likelihood: str) -> Judged:
        """The same, but no hypothesis of this likelihood may be chosen, if there is any other."""
        places = self.allowed
        allowed = np.zeros(len(self.found), dtype=bool)
        allowed[places] = [self.found[k].likelihood != likelihood for k in places.tolist()]
        return self._restricted(allowed.tolist()) if allowed.any() else self

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
    pairs: ReadsPairs | None = None,
    part: Sample | None = None,
    trying: Callable[[str], None] | None = None,
) -> Judged:
    """Judge what suits a file.

    The result does not depend on the order of the fragments.

    Args:
        fragments: the file, at least one.
        likelihoods: fitted to it, by name; their tables are mergeable.
        index: fitted to it; says what is close.
        scorer: trained.
        like: likelihood -> the one of `hypotheses.KINDS` that it is judged as.
        pairs: the model of pairs, fitted to the file, or to the part of it; None where it can read
            nothing.
        part: of the file, as of `part_of`; None is all of it.
        trying: is told the name of each likelihood before its merge path is found.

    Raises:
        LikelihoodError: a likelihood failed on a fragment.
        ModelError: the scorer reads statistics that this version does not know.

    """
    sample = looked_at(fragments, index, pairs, part)
    paths = {}
    for name, likelihood in likelihoods.items():
        if trying is not None:
            trying(name)
        least = log_alphas_of(name, like)[0]
        paths[name] = merge_path(likelihood, sample.fragments, likelihood.index, least)
    seen = see(sample.fragments, index, fragments)
    own = {name: math.log(likelihood.default_alpha) for name, likelihood in likelihoods.items()}
    found = hypotheses(seen, paths, own, like)
    expected = None if pairs is None else Expected(pairs.pair_odds(sample.fragments))
    names, statistics = statistics_of(seen, found, fragments, expected, like)
    gains = scorer.gains(names, statistics, found)
    levels = scorer.levels(names, statistics)
    return Judged(
        sample=sample,
        of=len(fragments),
        found=tuple(_at_their_own(found)),
        gains=gains,
        levels=levels,
        names=names,
        statistics=statistics,
        open=(True,) * len(found),
        margin=scorer.margin,
        spread=scorer.spread,
    )


def looked_at(
    fragments: Sequence[Fragment],
    index: CandidateIndex,
    pairs: ReadsPairs | None,
    part: Sample | None = None,
) -> Sample:
    """The file, or a sample of a large one.

    Args:
        fragments: the file.
        index: fitted to it.
        pairs: the model of pairs, fitted to it or to the part of it; None where it can read
            nothing.
        part: of the file; None is all of it.

    """
    if pairs is None or len(fragments) <= MOST_FRAGMENTS:
        return neighbourhoods(fragments, index, MOST_FRAGMENTS)
    if part is None:
        return close_ones(fragments, pairs.pair_odds(fragments), MOST_FRAGMENTS)
    found = close_ones(part.fragments, pairs.pair_odds(part.fragments), MOST_FRAGMENTS)
    return replace(found, places=tuple(part.places[i] for i in found.places))


def _at_their_own(found: Sequence[Hypothesis]) -> list[Hypothesis]:
    """The same, but of each likelihood the hypothesis nearest its own alpha has just that alpha.

    On a sample many alphas give one grouping, on the file they do not.
    """
    out = list(found)
    for likelihood in {h.likelihood for h in found if not math.isnan(h.own)}:
        along = [k for k, h in enumerate(found) if h.likelihood == likelihood]
        nearest = min(along, key=lambda k: abs(found[k].log_alpha - found[k].own))
        out[nearest] = replace(found[nearest], log_alpha=found[nearest].own)
    return out

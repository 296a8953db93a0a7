"""The judge: chooses among exact names, `attributes` and `pairs` for an unlabelled file.

    sample       the file, or whole neighbourhoods of a large one
    groupings    exact names, what `attributes` finds at its own alpha, and `pairs` at some alphas
    expectation  the F1 that the model of pairs expects of each
    worth        this, with a bonus for what is safe; the best is chosen

The model of pairs gives the probability that two fragments are one entity. These probabilities give
the expected B-cubed precision and recall of a grouping, fragment by fragment (Bagga and Baldwin,
1998, with probabilities for counts). It flatters its own grouping, which errs where it does, so two
others get a bonus: exact names, and on records those of `attributes`, whose evidence is the file's
own. If answers or labels have taught it, it needs no such correction.

The likelihoods are fitted to the whole file, so that a grouping of the sample is the file's.

*Answers* teach the model of pairs (`kbforge.contracts.Likelihood.taught`) before anything is
judged: they change its groupings, and what it expects of those of others.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import and_

import numpy as np
from scipy.sparse import csr_array
from scipy.special import expit

from kbforge.contracts import CandidateIndex, ConjugateLikelihood, FloatArray, Fragment, IntArray
from kbforge.fit.description import PairModel, PairOdds, Prediction
from kbforge.fit.hypotheses import (
    ALIASES,
    ATTRIBUTES,
    NAMES,
    PAIRS,
    exact_groups,
    groupings,
    sample_of,
)
from kbforge.indexes.selective import Sample

_LOG_ALPHAS = (-2.0, -1.5, -1.0, -0.5, 0.0)
"""Of the model of pairs. A smaller alpha looks good on a sample and is not on the file."""
_ATTRIBUTES_OF_A_RECORD = 2.5  # besides the name
_LEAST_RECORDS = 100  # fewer teach `attributes` little
_BONUS_OF_NAMES, _BONUS_ON_RECORDS = 0.03, 0.05
"""F1 by which pairs must expect more of other groupings.

On 811 files of 22 families, by pair models that had not seen the family: from .02 to .03 and from
.03 to .07 the mean F1 moves by .001, and that of files of more than 700 fragments by .001."""
_SPREAD = 0.03  # F1 by which an expectation errs
_UNDOUBTED = 0.9
"""F1 that must be expected of the choice before no answers are asked for."""
_JOINED_RIGHTLY = 0.8
"""The precision of joins of names; on graphs of language models and of news it was .75 to .95."""


@dataclass(frozen=True, eq=False)
class Hypothesis:
    """A grouping of a sample."""

    likelihood: str  # that finds it; "names" for exact names
    labels: IntArray  # [n] the smallest fragment of each one's cluster
    alpha: float | None = None  # that it is found at; None is the likelihood's own

    @property
    def clusters(self) -> tuple[tuple[int, ...], ...]:
        """Its clusters, by smallest fragment; each ascending."""
        held: dict[int, list[int]] = {}
        for i, label in enumerate(self.labels.tolist()):
            held.setdefault(label, []).append(i)
        return tuple(tuple(held[label]) for label in sorted(held))


@dataclass(frozen=True, eq=False)
class Judgement:
    """The result of the judge: the hypotheses, what is expected of them, and the choice."""

    sample: Sample  # the fragments that were compared
    found: tuple[Hypothesis, ...]  # exact names first
    expected: FloatArray  # [hypotheses] F1; 0 if no model of pairs reads the file
    worth: FloatArray  # [hypotheses] what they are compared by
    open: tuple[bool, ...]  # [hypotheses] whether a hypothesis may be chosen
    pairs: PairModel | None = None  # the model of pairs
    read: Sample | None = None  # what it is fitted to; None is the whole file

    @property
    def chosen(self) -> Hypothesis:
        """The chosen hypothesis."""
        return self.found[self._place]

    @property
    def _place(self) -> int:
        allowed = np.flatnonzero(self.open)
        return int(allowed[np.argmax(self.worth[allowed])])

    @property
    def expected_f1(self) -> float:
        """The F1 that the model of pairs expects of the chosen grouping."""
        return float(self.expected[self._place])

    @property
    def expected_gain(self) -> float:
        """How much more this is than that of exact names."""
        return float(self.expected[self._place] - self.expected[0])

    @property
    def wants_answers(self) -> bool:
        """Whether answers are expected to help."""
        return self.pairs is not None and self.expected_f1 < _UNDOUBTED

    def predicted(self, likelihood: str) -> Prediction | None:
        """The inputs of confidence maps; None if another likelihood than the chosen one
        clusters."""
        if self.chosen.likelihood != likelihood or self.pairs is None:
            return None
        weights = np.exp((self.worth - self.worth.max()) / _SPREAD)
        labels = np.stack([one.labels for one in self.found])
        gain, sample = self.expected_gain, self.sample.fragments
        return Prediction.of(self.expected_f1, gain, weights / weights.sum(), labels, sample)

    @property
    def entities(self) -> dict[int, int]:
        """The entities of the chosen grouping, by numbers of the sample's fragments."""
        return dict(zip(self.sample.places, self.chosen.labels.tolist(), strict=True))

    def without(self, likelihood: str) -> Judgement:
        """The same without hypotheses of this likelihood, if there are others."""
        return self._restricted([h.likelihood != likelihood for h in self.found])

    def only(self, likelihood: str) -> Judgement:
        """The same with hypotheses of this likelihood alone, if there are any."""
        return self._restricted([h.likelihood == likelihood for h in self.found])

    def _restricted(self, wanted: Sequence[bool]) -> Judgement:
        allowed = tuple(map(and_, self.open, wanted))
        return replace(self, open=allowed) if any(allowed) else self


def judge(
    fragments: Sequence[Fragment],
    likelihoods: Mapping[str, ConjugateLikelihood],
    index: CandidateIndex,
    pairs: PairModel | None = None,
    part: Sample | None = None,
    trying: Callable[[str], None] | None = None,
) -> Judgement:
    """Choose a likelihood for a file of at least one fragment, in any order.

    Likelihoods, which merge in rounds, and index are fitted to the file; `pairs`, the model of
    pairs, is fitted to the file or to its `part` (`part_of`), None if it reads nothing: then the
    last likelihood is chosen. `trying` gets each likelihood's name before its grouping is found.
    """
    sample = sample_of(fragments, index, pairs, part)
    found = [Hypothesis(NAMES, np.array(exact_groups(sample.fragments), np.int64))]
    for name, likelihood in likelihoods.items():
        if trying is not None:
            trying(name)
        if name == PAIRS:
            found += _along_alpha(likelihood, sample.fragments)
        else:
            found.append(Hypothesis(name, own_grouping(likelihood, sample.fragments)))
    expected, bonus = np.zeros(len(found)), np.zeros(len(found))
    if pairs is not None:
        expected = expected_f1(pairs.pair_odds(sample.fragments), [one.labels for one in found])
        if pairs.lesson is None or pairs.lesson.loss_after >= pairs.lesson.loss_before:
            kinds = [one.likelihood for one in found]
            bonus = np.array([_bonus(kind, sample.fragments, len(fragments)) for kind in kinds])
    elif len(found) > 1:
        bonus[-1] = 1.0
    return Judgement(
        *(sample, tuple(found), expected, expected + bonus, (True,) * len(found)),
        pairs=pairs,
        read=part,
    )


def _along_alpha(likelihood: ConjugateLikelihood, sample: Sequence[Fragment]) -> list[Hypothesis]:
    """The groupings of the model of pairs, whose odds do not say how many entities there are."""
    found = groupings(likelihood, sample, _LOG_ALPHAS)
    alphas = map(math.exp, _LOG_ALPHAS)
    return [Hypothesis(PAIRS, *one) for one in zip(found, alphas, strict=True)][::-1]


def own_grouping(likelihood: ConjugateLikelihood, fragments: Sequence[Fragment]) -> IntArray:
    """The grouping of a sample that a fitted likelihood finds by its own prior, shape [n]."""
    log_alpha = math.log(likelihood.default_alpha)
    (labels,) = groupings(likelihood, fragments, [log_alpha], likelihood.default_exponent)
    return labels


def _bonus(likelihood: str, sample: Sequence[Fragment], n: int) -> float:
    """What a grouping is worth more than is expected of it, in a file of n fragments."""
    if likelihood == NAMES:
        return _BONUS_OF_NAMES
    if likelihood != ATTRIBUTES or n < _LEAST_RECORDS:
        return 0.0
    stated = np.mean([len(f.properties) - ("name" in f.properties) for f in sample])
    return _BONUS_ON_RECORDS if stated >= _ATTRIBUTES_OF_A_RECORD else 0.0


def expected_f1(odds: PairOdds, groupings: Sequence[IntArray]) -> FloatArray:
    """The expected mean B-cubed F1 of groupings of one sample, from the odds of its fragments.

    A grouping has cluster numbers [n] below n, n at least 1.
    """
    n, (first, second, probability) = len(odds.row), _links(odds)
    wanted = 1 + np.bincount(first, probability, minlength=n)
    found = []
    for labels in groupings:
        size, same = np.bincount(labels, minlength=n)[labels], labels[first] == labels[second]
        right = 1 + np.bincount(first[same], probability[same], minlength=n)
        found.append(np.mean(2 * right / (size + wanted)))
    return np.array(found)


def _links(odds: PairOdds) -> tuple[IntArray, IntArray, FloatArray]:
    """Two fragments and the probability that they are one, in both directions, without
    repetition."""
    rows, of_fragment = np.unique(odds.row, return_inverse=True)
    here = np.isin(odds.first, rows) & np.isin(odds.second, rows)
    ends = np.searchsorted(rows, odds.first[here]), np.searchsorted(rows, odds.second[here])
    between = csr_array((expit(odds.nats[here]), ends), shape=(len(rows), len(rows)))
    of_fragments = between[of_fragment][:, of_fragment].tocoo()
    one, two = of_fragments.coords
    other = one != two
    return one[other].astype(np.int64), two[other].astype(np.int64), of_fragments.data[other]


def with_aliases(judged: Judgement, likelihood: ConjugateLikelihood) -> Judgement:
    """The judgement with the grouping of the likelihood `ALIASES`, which is fitted to the file.

    It joins exact names. Where it is right they lack what it joins, so it is expected to gain the
    difference, in F1, of exact names from it, times the probability that a join is right.
    """
    from kbforge.evaluation.scores import compare  # .04 s to import, and graphs are few

    labels = own_grouping(likelihood, judged.sample.fragments)
    alike = compare(judged.found[0].labels.tolist(), labels.tolist()).bcubed_f1_item_mean
    gain = _JOINED_RIGHTLY * (1 - alike)
    # it has the bonus of exact names over others only where these would be chosen
    worth = (judged.worth if judged.chosen.likelihood == NAMES else judged.expected)[0]
    return replace(
        judged,
        found=(*judged.found, Hypothesis(ALIASES, labels)),
        expected=np.append(judged.expected, judged.expected[0] + gain),
        worth=np.append(judged.worth, worth + gain),
        open=(*judged.open, True),
    )

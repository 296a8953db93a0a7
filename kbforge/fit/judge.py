"""The judge: chooses likelihood and alpha for an unlabelled file.

    sample       the file, or whole neighbourhoods of a large one
    hypotheses   exact names, and each likelihood's groupings along its merge path
    statistics   of the sample and of each hypothesis
    scorer       the expected gain of each over exact names
    worth        this, with the expectations of the model of pairs; the best is chosen

*Exponents.* The prior's factor ((|C| - 1)!)^e does harm where the evidence within a cluster is not
independent: with e = 1 a large cluster of namesakes attracts more of them. The sizes found do not
tell e, because they are those that the prior wants. The model of pairs tells it, because it knows
no clusters. For the chosen likelihood, e < 1 is chosen, with the same or a smaller alpha, if pairs
expect a clearly larger F1 of its groupings than of those with e = 1.

The scorer's file has two ensembles of trees over the same statistics. One predicts the gain in mean
B-cubed F1 over exact names, which compares hypotheses; the other predicts the F1 itself, which
confidence maps read.

The likelihoods are fitted to the whole file, so that an alpha found on the sample holds for the
file: where a merge path is cut lies in the evidence of pairs that are close to each other.

*Biases.* Answers also choose among hypotheses with a bias of the pair model. On unfamiliar data,
all log odds of the model may be too high or too low. A constant added to those of every compared
pair corrects this. It reaches groupings that no alpha gives, because alpha counts once per merge of
two clusters and the constant once per pair. Without answers the right constant is unknown, so these
hypotheses are only made if there are answers, or will be. The scorer was not trained on them. Each
is expected to gain as much as the most similar grouping
without bias, minus a penalty for dissimilarity.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
import orjson

from kbforge.clustering.rules import DirichletProcess
from kbforge.contracts import CandidateIndex, ConjugateLikelihood, FloatArray, Fragment, IntArray
from kbforge.errors import ModelError, counted, quoted
from kbforge.evaluation.reliability import BoolArray
from kbforge.files.answers import NumberedAnswer
from kbforge.fit.description import PairModel, Prediction
from kbforge.fit.hypotheses import (
    ALIASES,
    MOST_TO_CHOOSE,
    NAMES,
    Hypothesis,
    groupings,
    hypotheses,
    log_alphas_of,
    sample_of,
)
from kbforge.fit.questions import GroupingQueue
from kbforge.fit.statistics import (
    ATTRIBUTES,
    EXPECTED_F1,
    LOG_FRAGMENTS,
    PairExpectations,
    agreement,
    compare_sample,
    statistics_of,
)
from kbforge.indexes.selective import Sample
from kbforge.models.bundle import default_folder, read_default
from kbforge.models.trees import Trees, load_parts, save_parts

JUDGE_FILE = "judge.safetensors"
_LARGEST_MARGIN = 1.0
_SMOOTHING = (0.1, 0.2, 0.4, 0.2, 0.1)
_PULL = 0.01  # F1 that a nat of log alpha away from a likelihood's own costs
_FAR = 3.0  # nats of log alpha from which on nothing more is lost
_BY_PAIRS = 0.25
"""Weight of the gain that the model of pairs expects, relative to the scorer's: if equal names
are uninformative, the scorer expects little of any grouping, but the pairs still distinguish
groupings."""
PAIRS = "pairs"
_MANY = 20_000  # fragments from which on time counts
_COST = 0.0075
"""Reduction in F1 of the model of pairs for each doubling of a large file.

It takes four times as long as attributes, and twice the memory."""
_FLATTERED = 0.03
"""F1 by which the model of pairs is overrated, relative to attributes, if it sees only a part.

On parts of 4,000 of 10,000 fragments of six families .04 on average (.00 to .10); on samples whose
relatives come from the whole file .01 (-.06 to .09), which is noise."""
_OF_RECORDS = "attributes"
_ATTRIBUTES_OF_A_RECORD = 2.5
EXPONENTS = (0.75, 0.5)
"""Exponents of sizes that are tried besides 1."""
_POWERED = ("attributes",)  # the odds of pairs are so large that no exponent makes a difference
_LOWER = (2.0, 1.0, 0.0)  # nats below the chosen alpha, for smaller exponents need smaller alphas
_LEAST_BY_PAIRS = 0.01
"""F1 that pairs must expect of another exponent than 1.

On 27 files, with pair models that had not seen the family: one of chadwick and four of dwie get .5
or .75, and gain; elsewhere pairs expect at most .007 more, on wd200_dev, where it would lose."""
_TRUST = 0.04  # F1 that the attribute likelihood at its own alpha is worth more on records


@dataclass(frozen=True, eq=False)
class HypothesisScorer:
    """Trees and how they are read."""

    gain: Trees  # predicts the gain in F1 over exact names
    level: Trees  # predicts the F1
    margin: float  # expected gain from which on another grouping displaces exact names
    spread: float  # standard deviation of the prediction's error among the hypotheses of one file

    def gains(
        self, names: Sequence[str], statistics: FloatArray, found: Sequence[Hypothesis]
    ) -> FloatArray:
        """The expected gain of each hypothesis, [hypotheses]; 0 for exact names.

        Gains are smoothed along a merge path, so no single good alpha among bad ones is chosen.
        """
        raw = self.gain.predict(_in_order(names, statistics, self.gain.features))
        return smooth(raw, found)

    def levels(self, names: Sequence[str], statistics: FloatArray) -> FloatArray:
        """The expected F1 of each hypothesis, [hypotheses]."""
        raw = self.level.predict(_in_order(names, statistics, self.level.features))
        return np.clip(raw, 0.0, 1.0)

    def to_bytes(self) -> bytes:
        """The scorer as safetensors."""
        numbers = {name: np.array([getattr(self, name)]) for name in _NUMBERS}
        return save_parts({"gain": self.gain, "level": self.level}, numbers)


_NUMBERS = ("margin", "spread")


@lru_cache(maxsize=2)
def read_scorer(content: bytes, where: str) -> HypothesisScorer:
    """The scorer that `HypothesisScorer.to_bytes` wrote; `where` names the file in errors."""
    trees, numbers = load_parts(content, where, ("gain", "level"), _NUMBERS)
    for name, value in numbers.items():
        if value.shape != (1,) or value.dtype != np.float64 or not 0 <= value[0] <= _LARGEST_MARGIN:
            raise ModelError(f"{where}: {name}: expected one number from 0 to {_LARGEST_MARGIN:g}")
    margin, spread = (float(numbers[name][0]) for name in _NUMBERS)
    return HypothesisScorer(trees["gain"], trees["level"], margin, spread)


def shipped_scorer(defaults: str | None) -> HypothesisScorer:
    """The scorer of a folder, or the one that ships if the folder has none."""
    folder = default_folder(defaults, JUDGE_FILE)
    return read_scorer(read_default(folder, JUDGE_FILE), quoted(str(folder / JUDGE_FILE), 400))


def smooth(gains: FloatArray, found: Sequence[Hypothesis]) -> FloatArray:
    """Gains averaged with their neighbours on the same merge path; 0 for exact names."""
    out = np.array(gains, dtype=np.float64)
    for likelihood in {h.likelihood for h in found}:
        places = np.array([i for i, h in enumerate(found) if h.likelihood == likelihood])
        if likelihood == NAMES:
            out[places] = 0.0
        else:
            padded = np.pad(gains[places], len(_SMOOTHING) // 2, mode="edge")
            out[places] = sum(w * padded[k : k + len(places)] for k, w in enumerate(_SMOOTHING))
    return out


def adjusted_gains(
    gains: FloatArray,
    names: Sequence[str],
    statistics: FloatArray,
    found: Sequence[Hypothesis],
    margin: float,
) -> FloatArray:
    """The values that hypotheses are compared by, [hypotheses]: F1 over exact names, minus
    handicaps.

    The expected gains of the model of pairs, if it reads any fragment, are added to those of the
    scorer. Some groupings must be expected to gain a little more: one far from the likelihood's own
    alpha, one of a likelihood whose own alpha is uninformative, and one by `pairs` of a large file.
    Obvious choices get a bonus: exact names, `margin`, and on records the attribute likelihood at
    its own alpha. `statistics` [hypotheses, statistics] have `names`.
    """
    column = dict(zip(names, statistics.T, strict=True))
    exact = np.array([h.likelihood == NAMES for h in found])
    by_pairs = column[EXPECTED_F1]
    off = np.array([abs(h.log_alpha - h.own) for h in found])
    worth = gains + _BY_PAIRS * np.nan_to_num(by_pairs - by_pairs[exact.argmax()])
    worth -= _PULL * np.where(np.isnan(off), _FAR, np.minimum(off, _FAR))
    worth[exact] = gains[exact] + margin
    fragments = math.exp(column[LOG_FRAGMENTS][0])
    handicap = _COST * max(0.0, math.log2(fragments / _MANY))
    handicap += _FLATTERED * (fragments > MOST_TO_CHOOSE)
    worth[[h.likelihood == PAIRS for h in found]] -= handicap
    of_records = [k for k, h in enumerate(found) if h.likelihood == _OF_RECORDS]
    if of_records and column[ATTRIBUTES][0] >= _ATTRIBUTES_OF_A_RECORD:
        worth[min(of_records, key=lambda k: float(off[k]))] += _TRUST
    return np.asarray(worth)


def _in_order(names: Sequence[str], statistics: FloatArray, wanted: Sequence[str]) -> FloatArray:
    place = {name: i for i, name in enumerate(names)}
    for name in wanted:
        if name not in place:
            raise ModelError(f'the judge reads the statistic "{quoted(name)}", which is not known')
    return np.asarray(statistics[:, [place[name] for name in wanted]])


_JOINED_RIGHTLY = 0.8
"""The precision of joins of names; on graphs of language models and of news it was .75 to .95."""
_LEAST_SPREAD = 1e-3
_MADE_GOOD = 0.65
"""The share of a choice's expected loss that a dozen correct answers recovered, on about 128 files
of 22 families, each judged by models that had not seen the family."""


@dataclass(frozen=True, eq=False)
class Judgement:
    """The result of the judge: the hypotheses, their expected gains, and the choice."""

    sample: Sample  # the fragments that were compared
    found: tuple[Hypothesis, ...]
    gains: FloatArray  # [hypotheses] expected F1 over that of exact names
    levels: FloatArray  # [hypotheses] expected F1
    worth: FloatArray  # [hypotheses] what they are compared by without answers (`adjusted_gains`)
    open: tuple[bool, ...]  # [hypotheses] whether a hypothesis may be chosen
    spread: float  # how far expected gains are from true ones, as a standard deviation
    expected: PairExpectations | None = None  # of groupings of the sample
    answers: tuple[NumberedAnswer, ...] = ()  # by numbers of the file's fragments

    @property
    def allowed(self) -> IntArray:
        """The places of the hypotheses that may be chosen."""
        return np.flatnonzero(self.open)

    @property
    def place(self) -> int:
        """The index of the chosen hypothesis."""
        return int(self.allowed[np.argmax(self._values)])

    @property
    def chosen(self) -> Hypothesis:
        """The chosen hypothesis."""
        return self.found[self.place]

    @property
    def runner_up(self) -> tuple[Hypothesis, float] | None:
        """The best hypothesis of another likelihood, and how much less it is worth, from 0.

        None if only one likelihood may be chosen.
        """
        values, chosen = self._values, self.chosen.likelihood
        others = [
            (float(value), place)
            for value, place in zip(values, self.allowed.tolist(), strict=True)
            if self.found[place].likelihood != chosen
        ]
        if not others:
            return None
        value, place = max(others, key=lambda other: other[0])
        return self.found[place], float(values.max()) - value

    @property
    def close_behind(self) -> tuple[Hypothesis, float] | None:
        """The runner-up, if it is within the judge's usual error."""
        second = self.runner_up
        return second if second is not None and second[1] <= self.spread else None

    @property
    def gain_of_answers(self) -> float:
        """The expected gain of a dozen answers, in mean F1, if there are none so far.

        Each hypothesis may be the truth, with a probability that grows with its value, and the
        choice loses as much as the truth differs from it.
        """
        plain = [k for k in self.allowed.tolist() if not self.found[k].bias]
        worth = self.worth[plain]
        weights = np.exp((worth - worth.max()) / max(self.spread, _LEAST_SPREAD))
        labels = self.chosen.labels
        lacks = np.array([1 - agreement(self.found[k].labels, labels)[2] for k in plain])
        return float(_MADE_GOOD * (weights @ lacks) / weights.sum())

    @property
    def expected_f1(self) -> float:
        """The expected F1 of the chosen grouping."""
        of_names = self.levels[self.place] - self.gains[self.place]
        return float(np.clip(of_names + self.expected_gain, 0.0, 1.0))

    @property
    def expected_gain(self) -> float:
        """The expected gain of the chosen grouping over exact names."""
        place = self.place
        return float(self.gains[place] + (self._gain_by_answers(place) if self.answers else 0.0))

    def gain_over(self, before: Judgement) -> float:
        """The expected gain of the chosen grouping over the one chosen with fewer answers."""
        one, other = self.place, before.place
        moved = self._gain_by_answers(one) - self._gain_by_answers(other)
        return float(self.gains[one] - self.gains[other] + moved)

    def predicted(self, likelihood: str) -> Prediction | None:
        """The inputs of confidence maps; None if another likelihood than the chosen one
        clusters."""
        if self.chosen.likelihood != likelihood:
            return None
        plain = [k for k, h in enumerate(self.found) if not h.bias]  # as maps were trained
        labels, gains = np.stack([self.found[k].labels for k in plain]), self.gains[plain]
        weights = np.exp((gains - gains.max()) / max(self.spread, _LEAST_SPREAD))
        weights /= weights.sum()
        return Prediction.of(
            self.expected_f1, self.expected_gain, weights, labels, self.sample.fragments
        )

    def answered(self, answers: Iterable[NumberedAnswer]) -> Judgement:
        """The same, with more answers; those about fragments outside the sample have no effect."""
        return replace(self, answers=(*self.answers, *answers))

    def questions(self, seed: int) -> GroupingQueue:
        """Questions about the sample's fragments, to determine the best hypothesis."""
        allowed = self.allowed
        groupings = np.stack([self.found[k].labels for k in allowed.tolist()])
        queue = GroupingQueue(groupings, self.worth[allowed], _alike(self.sample.fragments), seed)
        place = {number: at for at, number in enumerate(self.sample.places)}
        for answer in self.answers:
            if answer.first in place and answer.second in place:
                pair = replace(answer, first=place[answer.first], second=place[answer.second])
                queue.add(pair, answer.same, 1 - answer.right)
        return queue

    @cached_property
    def _asked(self) -> GroupingQueue:
        return self.questions(0)

    @property
    def _values(self) -> FloatArray:
        """The values of the hypotheses that may be chosen, including answers; [allowed]."""
        return self._asked.scores() if self.answers else self.worth[self.allowed]

    def _gain_by_answers(self, place: int) -> float:
        """How much answers raise the expected gain of a hypothesis."""
        scores = self._asked.scores()
        worth = self.worth[self.allowed]
        at = int(np.flatnonzero(self.allowed == place)[0])
        return float(scores[at] - (worth[at] - worth[0]))

    def only(self, likelihood: str) -> Judgement:
        """The same, restricted to hypotheses of this likelihood, at least one."""
        return self._restrict(np.array([h.likelihood == likelihood for h in self.found]))

    def without(self, likelihood: str) -> Judgement:
        """The same without hypotheses of this likelihood, if there are others."""
        others = np.array([h.likelihood != likelihood for h in self.found]) & self.open
        return self._restrict(others) if others.any() else self

    def _restrict(self, allowed: BoolArray) -> Judgement:
        if not allowed.any():
            raise ValueError("no hypothesis may be chosen")
        return replace(self, open=tuple(allowed.tolist()))


def _alike(fragments: Sequence[Fragment]) -> IntArray:
    """Equal numbers for identical fragments, shape [n]."""
    numbers: dict[bytes, int] = {}
    says = (
        orjson.dumps([dict(f.properties), f.vector], option=orjson.OPT_SORT_KEYS) for f in fragments
    )
    found = (numbers.setdefault(said, len(numbers)) for said in says)
    return np.fromiter(found, np.int64, len(fragments))


def judge(
    fragments: Sequence[Fragment],
    likelihoods: Mapping[str, ConjugateLikelihood],
    index: CandidateIndex,
    scorer: HypothesisScorer,
    pairs: PairModel | None = None,
    part: Sample | None = None,
    trying: Callable[[str], None] | None = None,
) -> Judgement:
    """Choose likelihood and alpha for a file of at least one fragment, in any order.

    Likelihoods, which merge in rounds, and index are fitted to the file; `pairs`, the model of
    pairs, is fitted to the file or to its `part` (`part_of`), None if it reads nothing. `trying`
    gets each likelihood's name before its merge path is found.
    """
    sample = sample_of(fragments, index, pairs, part)
    paths = {}
    for name, likelihood in likelihoods.items():
        if trying is not None:
            trying(name)
        paths[name] = groupings(likelihood, sample.fragments, log_alphas_of(name))
    seen = compare_sample(sample.fragments, index, fragments)
    own = {name: math.log(likelihood.default_alpha) for name, likelihood in likelihoods.items()}
    found = hypotheses(seen.exact, paths, own)
    expected = None if pairs is None else PairExpectations(pairs.pair_odds(sample.fragments))
    names, statistics = statistics_of(seen, found, fragments, expected)
    gains = scorer.gains(names, statistics, found)
    levels = scorer.levels(names, statistics)
    return Judgement(
        sample=sample,
        found=tuple(_at_their_own(found)),
        gains=gains,
        levels=levels,
        worth=adjusted_gains(gains, names, statistics, found, scorer.margin),
        open=(True,) * len(found),
        spread=scorer.spread,
        expected=expected,
    )


def with_exponent(
    judged: Judgement, likelihood: ConjugateLikelihood, asked: float | None = None
) -> DirichletProcess:
    """The prior of a judgement's choice, with the exponent of sizes that suits or is asked for.

    `likelihood` is the chosen one.
    """
    chosen, expected = judged.chosen, judged.expected
    plain = DirichletProcess(chosen.alpha, 1.0 if asked is None else asked)
    suits = chosen.likelihood in _POWERED and asked is None and not judged.answers
    if expected is None or not suits:
        return plain
    log_alphas = [chosen.log_alpha - lower for lower in _LOWER]

    def best(exponent: float) -> tuple[float, float, float]:
        """The largest F1 that pairs expect on a path, log alpha, and the exponent."""
        found = groupings(likelihood, judged.sample.fragments, log_alphas, exponent)
        f1 = [expected.of(labels)[EXPECTED_F1] for labels in found]
        return max(zip(f1, log_alphas, [exponent] * len(f1), strict=True))

    of_one = (
        expected.of(h.labels)[EXPECTED_F1]
        for h in judged.found
        if h.likelihood == chosen.likelihood and log_alphas[0] <= h.log_alpha <= log_alphas[-1]
    )
    f1, log_alpha, exponent = max(map(best, EXPONENTS))
    if f1 < max(of_one) + _LEAST_BY_PAIRS:
        return plain
    return DirichletProcess(math.exp(log_alpha), exponent)


def _at_their_own(found: Sequence[Hypothesis]) -> list[Hypothesis]:
    """The same, but the hypothesis nearest to the likelihood's own alpha gets exactly that alpha.

    Many alphas give the same grouping on a sample, but not on the file.
    """
    out = list(found)
    for likelihood in {h.likelihood for h in found if not math.isnan(h.own)}:
        along = [k for k, h in enumerate(found) if h.likelihood == likelihood]
        nearest = min(along, key=lambda k: abs(found[k].log_alpha - found[k].own))
        out[nearest] = replace(found[nearest], log_alpha=found[nearest].own)
    return out


@dataclass(frozen=True, slots=True)
class AnswerEffect:
    """The effect of answers."""

    answers: int  # that say "same" or "not the same"
    unknown: int  # that say neither
    before: Hypothesis  # the best one without them
    after: Hypothesis  # the best one with them
    gain: float  # how much more F1 is expected of it, from 0

    def __str__(self) -> str:
        said = f"by {counted(self.answers, 'answer')}, {_called(self.after)} is best"
        if self.after is self.before:
            return f"{said}, as it is without answers"
        return f"{said}, not {_called(self.before)} (expected F1 {self.gain:+.3f})"

    def to_json(self) -> dict[str, Any]:
        """The figures by name; exact names have no alpha, and only `pairs` has a bias."""
        before, after = (
            {"likelihood": h.likelihood, "alpha": None if h.likelihood == NAMES else h.alpha}
            | ({"bias": h.bias} if h.bias else {})
            for h in (self.before, self.after)
        )
        figures = {"answers": self.answers, "unknown": self.unknown}
        return {**figures, "before": before, "after": after, "expected_gain": self.gain}


def effect_of_answers(before: Judgement, after: Judgement) -> AnswerEffect:
    """The effect of the answers in the judgement `after`."""
    unknown = sum(answer.same is None for answer in after.answers)
    return AnswerEffect(
        answers=len(after.answers) - unknown,
        unknown=unknown,
        before=before.chosen,
        after=after.chosen,
        gain=after.gain_over(before),
    )


def _called(hypothesis: Hypothesis) -> str:
    if hypothesis.likelihood == NAMES:
        return "names"
    bias = f" and bias {hypothesis.bias:+g}" if hypothesis.bias else ""
    return f"{hypothesis.likelihood} with alpha {hypothesis.alpha:,.4g}{bias}"


BIASES = (-3.0, -1.5, 1.5, 3.0)
"""Nats added to the log odds of every compared pair."""

_UNLIKE = 0.5  # F1 that a hypothesis is worth less if it has nothing in common with the nearest


def with_aliases(judged: Judgement, likelihood: ConjugateLikelihood) -> Judgement:
    """The judgement with the grouping of the likelihood `ALIASES`, which is fitted to the file.

    It joins exact names. Where it is right they lack what it joins, so it is expected to gain the
    difference, in F1, of exact names from it, times the probability that a join is right.
    """
    sample, exact = judged.sample.fragments, judged.found[0].labels
    (labels,) = groupings(likelihood, sample, [0.0], likelihood.default_exponent)
    gain = _JOINED_RIGHTLY * (1 - agreement(exact, labels)[2])
    return replace(
        judged,
        found=(*judged.found, Hypothesis(ALIASES, 0.0, labels)),
        gains=np.append(judged.gains, gain),
        levels=np.append(judged.levels, judged.levels[0] + gain),
        worth=np.append(judged.worth, judged.worth[0] + gain),
        open=(*judged.open, True),
    )


def with_biases(judged: Judgement, pairs: PairModel) -> Judgement:
    """The judgement with biased hypotheses added; `pairs` is fitted to the sample's file.

    Without answers the choice stays the same.
    """
    plain = np.array([k for k, h in enumerate(judged.found) if h.likelihood == PAIRS])
    found, nearest, likeness = [], [], []
    for hypothesis in _biased(judged, pairs, judged.found[plain[0]].own):
        others = (judged.found[k].labels for k in plain.tolist())
        alike = np.array([agreement(hypothesis.labels, other)[2] for other in others])
        if alike.max() < 1:
            found.append(hypothesis)
            nearest.append(plain[alike.argmax()])
            likeness.append(alike.max())
    at = np.array(nearest, dtype=np.int64)
    worth = judged.worth[at] - _UNLIKE * (1 - np.array(likeness))
    return replace(
        judged,
        found=(*judged.found, *found),
        gains=np.append(judged.gains, judged.gains[at]),
        levels=np.append(judged.levels, judged.levels[at]),
        worth=np.append(judged.worth, worth),
        open=(*judged.open, *(True for _ in found)),
    )


def _biased(judged: Judgement, pairs: PairModel, own: float) -> Iterator[Hypothesis]:
    """The groupings of the sample along the merge path of each bias."""
    sample, exact = judged.sample.fragments, judged.found[0].labels
    for bias in BIASES:
        path = groupings(pairs.biased(bias), sample, log_alphas_of(PAIRS))
        _, *along = hypotheses(exact, {PAIRS: path}, {PAIRS: own})
        yield from (replace(hypothesis, bias=bias) for hypothesis in along)

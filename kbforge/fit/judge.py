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

*Answers* teach the model of pairs (`kbforge.contracts.Likelihood.taught`) before anything is
judged: they change its groupings, and what it expects of those of others.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from kbforge.clustering.rules import DirichletProcess
from kbforge.contracts import CandidateIndex, ConjugateLikelihood, FloatArray, Fragment, IntArray
from kbforge.errors import ModelError, quoted
from kbforge.evaluation.reliability import BoolArray
from kbforge.fit.description import PairModel, Prediction
from kbforge.fit.hypotheses import (
    ALIASES,
    NAMES,
    Hypothesis,
    groupings,
    hypotheses,
    log_alphas_of,
    sample_of,
)
from kbforge.fit.statistics import (
    ATTRIBUTES,
    EXPECTED_F1,
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
_BY_TAUGHT_PAIRS = 1.0
"""The same if answers have taught the model of pairs.

On 15 files on which the default fails, judged by models that had not seen their family."""
PAIRS = "pairs"
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
    taught: bool = False,
) -> FloatArray:
    """The values that hypotheses are compared by, [hypotheses]: F1 over exact names, minus
    handicaps.

    The expected gains of the model of pairs, if it reads any fragment, are added to those of the
    scorer. Some groupings must be expected to gain a little more: one far from the likelihood's own
    alpha, and one of a likelihood whose own alpha is uninformative. Obvious choices get a bonus:
    exact names, `margin`, and on records the attribute likelihood at its own alpha. `statistics`
    [hypotheses, statistics] have `names`; `taught` says whether answers have taught the model of
    pairs.
    """
    column = dict(zip(names, statistics.T, strict=True))
    exact = np.array([h.likelihood == NAMES for h in found])
    by_pairs = column[EXPECTED_F1]
    off = np.array([abs(h.log_alpha - h.own) for h in found])
    by = _BY_TAUGHT_PAIRS if taught else _BY_PAIRS
    worth = gains + by * np.nan_to_num(by_pairs - by_pairs[exact.argmax()])
    worth -= _PULL * np.where(np.isnan(off), _FAR, np.minimum(off, _FAR))
    worth[exact] = gains[exact] + margin
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
    pairs: PairModel | None = None  # the model of pairs
    read: Sample | None = None  # what it is fitted to; None is the whole file

    @property
    def allowed(self) -> IntArray:
        """The places of the hypotheses that may be chosen."""
        return np.flatnonzero(self.open)

    @property
    def place(self) -> int:
        """The index of the chosen hypothesis."""
        return int(self.allowed[np.argmax(self.worth[self.allowed])])

    @property
    def chosen(self) -> Hypothesis:
        """The chosen hypothesis."""
        return self.found[self.place]

    @property
    def runner_up(self) -> tuple[Hypothesis, float] | None:
        """The best hypothesis of another likelihood, and how much less it is worth, from 0.

        None if only one likelihood may be chosen.
        """
        values, chosen = self.worth[self.allowed], self.chosen.likelihood
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
        worth = self.worth[self.allowed]
        weights = np.exp((worth - worth.max()) / max(self.spread, _LEAST_SPREAD))
        labels = self.chosen.labels
        lacks = np.array([1 - agreement(self.found[k].labels, labels)[2] for k in self.allowed])
        return float(_MADE_GOOD * (weights @ lacks) / weights.sum())

    @property
    def expected_f1(self) -> float:
        """The expected F1 of the chosen grouping."""
        of_names = self.levels[self.place] - self.gains[self.place]
        return float(np.clip(of_names + self.expected_gain, 0.0, 1.0))

    @property
    def expected_gain(self) -> float:
        """The expected gain of the chosen grouping over exact names."""
        return float(self.gains[self.place])

    def predicted(self, likelihood: str) -> Prediction | None:
        """The inputs of confidence maps; None if another likelihood than the chosen one
        clusters."""
        if self.chosen.likelihood != likelihood:
            return None
        labels, gains = np.stack([h.labels for h in self.found]), self.gains
        weights = np.exp((gains - gains.max()) / max(self.spread, _LEAST_SPREAD))
        weights /= weights.sum()
        return Prediction.of(
            self.expected_f1, self.expected_gain, weights, labels, self.sample.fragments
        )

    @property
    def entities(self) -> dict[int, int]:
        """The entities of the chosen grouping, by numbers of the sample's fragments."""
        return dict(zip(self.sample.places, self.chosen.labels.tolist(), strict=True))

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
    taught = pairs is not None and pairs.lesson is not None
    return Judgement(
        sample=sample,
        found=tuple(_at_their_own(found)),
        gains=gains,
        levels=levels,
        worth=adjusted_gains(gains, names, statistics, found, scorer.margin, taught),
        open=(True,) * len(found),
        spread=scorer.spread,
        expected=expected,
        pairs=pairs,
        read=part,
    )


def with_exponent(
    judged: Judgement, likelihood: ConjugateLikelihood, asked: float | None = None
) -> DirichletProcess:
    """The prior of a judgement's choice, with the exponent of sizes that suits or is asked for.

    `likelihood` is the chosen one.
    """
    chosen, expected = judged.chosen, judged.expected
    plain = DirichletProcess(chosen.alpha, 1.0 if asked is None else asked)
    suits = chosen.likelihood in _POWERED and asked is None
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


def with_aliases(judged: Judgement, likelihood: ConjugateLikelihood) -> Judgement:
    """The judgement with the grouping of the likelihood `ALIASES`, which is fitted to the file.

    It joins exact names. Where it is right they lack what it joins, so it is expected to gain the
    difference, in F1, of exact names from it, times the probability that a join is right.
    """
    sample, exact = judged.sample.fragments, judged.found[0].labels
    (labels,) = groupings(likelihood, sample, [0.0], likelihood.default_exponent)
    gain = _JOINED_RIGHTLY * (1 - agreement(exact, labels)[2])
    # it has the advantage of exact names over others only where these would be chosen
    worth = (judged.worth if judged.chosen.likelihood == NAMES else judged.gains)[0]
    return replace(
        judged,
        found=(*judged.found, Hypothesis(ALIASES, 0.0, labels)),
        gains=np.append(judged.gains, gain),
        levels=np.append(judged.levels, judged.levels[0] + gain),
        worth=np.append(judged.worth, worth + gain),
        open=(*judged.open, True),
    )

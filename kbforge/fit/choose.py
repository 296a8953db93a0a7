"""The default's choice of likelihood and alpha for a file, without labels.

Exact names and the likelihoods of `_CHOOSES_FROM` are compared on the file (`kbforge.fit.judge`). A
likelihood that the user names is judged by its own groupings alone, which gives its alpha. If its
clusters cannot be merged, it gets the alpha under which it opens as many entities as the best
grouping has (`kbforge.fit.alpha`).

In a large file only a part's pairs are compared (`kbforge.fit.hypotheses`), unless the model of
pairs clusters. Then confidence maps do not read its pairs. In a file of hundreds of thousands the
model of pairs is no choice.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, cast

from kbforge import registry
from kbforge.clustering.sample import Sample
from kbforge.contracts import (
    CandidateIndex,
    ConjugateLikelihood,
    Fragment,
    Likelihood,
    OnStage,
    Stage,
)
from kbforge.errors import UsageError, quoted
from kbforge.files.answers import NumberedAnswer
from kbforge.fit.alpha import alpha_by_grouping
from kbforge.fit.description import FileContext, PairModel
from kbforge.fit.hypotheses import (
    MOST_COMPARED,
    MOST_OF_PAIRS,
    MOST_TO_CHOOSE,
    NAMES,
    Hypothesis,
    part_of,
)
from kbforge.fit.judge import JUDGE_FILE, HypothesisScorer, Judgement, judge, read_scorer
from kbforge.fit.models import default_options
from kbforge.models.bundle import default_folder, read_default
from kbforge.models.resolve import make_likelihood
from kbforge.words import counted

_CHOOSES_FROM = ("bigram", "attributes", "pairs")
_OF_PAIRS = "pairs"
_OF_VECTORS = "gaussian"
_OVERRIDE = "name another with --likelihood"


@dataclass(frozen=True, eq=False)
class LikelihoodChoice:
    """A likelihood for a file.

    Attributes:
        name: of the likelihood.
        likelihood: fitted to the file; None if it is still to be made.
        alpha: None if it is still to be found.
        note: one sentence for the user; "" if there is nothing to say.

    """

    name: str
    likelihood: Likelihood | None = None
    alpha: float | None = None
    note: str = ""


class Chooser:
    """Finds what suits one file, and learns no likelihood twice.

    Args:
        fragments: the file.
        defaults: a folder with other models than those that ship.
        answers: about the fragments.
        on_stage: called with each stage: what is learned or tried.
        named: whether the user names the likelihood.

    Attributes:
        judged: what the judge found, None if it was not asked.
        fitted: by name, the likelihoods that were learned to choose from.

    """

    def __init__(
        self,
        fragments: Sequence[Fragment],
        defaults: str | None = None,
        answers: Sequence[NumberedAnswer] = (),
        on_stage: OnStage | None = None,
        named: bool = False,
    ) -> None:
        self._fragments, self._defaults, self._answers = fragments, defaults, answers
        self._on_stage = on_stage
        self._most = MOST_COMPARED if named else MOST_TO_CHOOSE
        self.judgement: Judgement | None = None
        self.fitted: dict[str, ConjugateLikelihood] = {}

    def choose(self, any_alpha: bool = True) -> LikelihoodChoice:
        """The likelihood and the alpha for a file of which the user says nothing.

        Args:
            any_alpha: whether alpha is open; if it is given, exact names are no choice, as they
                know no alpha.

        Raises:
            UsageError: the fragments have vectors of no likelihood's, or nothing at all.

        """
        if not self._described:
            note = f"chosen: {_OF_VECTORS}, as the fragments have vectors and no properties"
            return LikelihoodChoice(_OF_VECTORS, note=f"{note}; {_OVERRIDE}")
        fragments, answers = self._fragments, self._answers
        stages = Stages("choosing a likelihood", 2 * len(_readable()), self._on_stage)
        file = _File(fragments, MOST_TO_CHOOSE)
        fitted = self.fitted = _fitted(file, self._defaults, stages)
        judged = _judged(file, fitted, self._defaults, stages)
        if not any_alpha:
            judged = judged.without(NAMES)
        too_large = len(fragments) > MOST_OF_PAIRS
        if too_large:
            judged = judged.without(_OF_PAIRS)
        before, judged = judged, judged.answered(answers)
        why = str(effect_of_answers(before, judged)) if answers else _why(judged)
        if too_large:
            why += f"; {_OF_PAIRS} is not considered above {MOST_OF_PAIRS:,} fragments"
        self.judgement, best = judged, judged.chosen
        if best.likelihood == NAMES:
            likelihood: Likelihood = registry.create("likelihoods", NAMES, {})
            likelihood.fit(fragments)
            return LikelihoodChoice(NAMES, likelihood, likelihood.default_alpha, why)
        if best.likelihood == _OF_PAIRS and file.part is not None:
            fitted[_OF_PAIRS].fit(fragments)
        return LikelihoodChoice(best.likelihood, fitted[best.likelihood], best.alpha, why)

    def alpha(self, name: str, likelihood: Likelihood) -> tuple[float, str] | None:
        """The alpha for a likelihood, and one sentence about it; None if nothing tells.

        Args:
            name: of the likelihood, or the path of its bundle.
            likelihood: fitted to the file.

        """
        if not likelihood.alpha_from_file or not self._described:
            return None
        defaults = self._defaults
        # a model of pairs that is to cluster compares all of the file in any case
        most = MOST_COMPARED if name != _OF_PAIRS else sys.maxsize
        file = _File(self._fragments, most, likelihood.index)
        tried = {*_readable(), name}
        stages = Stages("choosing alpha", len(_readable()) + len(tried), self._on_stage)
        fitted = self.fitted = _fitted(file, defaults, stages, without=name)
        if isinstance(likelihood, ConjugateLikelihood) and likelihood.live_clusters().mergeable:
            before = _judged(file, {**fitted, name: likelihood}, defaults, stages).only(name)
            judged = before.answered(self._answers)
            alpha, why = judged.chosen.alpha, "suits this file"
        else:
            before = _judged(file, fitted, defaults, stages)
            judged = before.answered(self._answers)
            sample, clusters = judged.sample.fragments, judged.chosen.clusters
            alpha = alpha_by_grouping(likelihood, sample, clusters)
            why = f"opens as many entities as {judged.chosen.likelihood} finds in this file"
        self.judgement = judged
        if self._answers:
            why = f"{why}: {effect_of_answers(before, judged)}"
        return alpha, f"alpha {alpha:,.4g} {why}; --alpha overrides it"

    def context(self, name: str, likelihood: Likelihood) -> FileContext:
        """What the confidence maps that ship read of the file, beside its fragments.

        Args:
            name: of the likelihood, or the path of its bundle.
            likelihood: fitted to the file.

        """
        pairs: Likelihood | None = likelihood
        if name != _OF_PAIRS and len(self._fragments) > self._most:
            pairs = None
        elif name != _OF_PAIRS:
            if _OF_PAIRS not in self.fitted:
                file = _File(self._fragments, self._most)
                stages = Stages("learning how far to trust the result", 1, self._on_stage)
                self.fitted |= _fitted(file, self._defaults, stages, only=_OF_PAIRS)
            pairs = self.fitted.get(_OF_PAIRS)
        predicted = None if self.judgement is None else self.judgement.predicted(name)
        return FileContext(name, cast(PairModel | None, pairs), predicted)

    @property
    def _described(self) -> bool:
        """Whether a fragment has a property."""
        return any(fragment.properties for fragment in self._fragments)


class _File:
    """A file, and what of it is compared.

    Args:
        fragments: the file.
        most: a file with more fragments is compared in part.
        fitted: an index that was fitted to the file already.

    """

    def __init__(
        self, fragments: Sequence[Fragment], most: int, fitted: CandidateIndex | None = None
    ) -> None:
        self.fragments, self._most, self._fitted_index = fragments, most, fitted

    @cached_property
    def index(self) -> CandidateIndex:
        """Fitted to the file."""
        index: CandidateIndex = registry.create("indexes", "selective", {})
        if self._fitted_index is not None and index.like(self._fitted_index):
            return self._fitted_index
        index.fit(self.fragments)
        return index

    @cached_property
    def part(self) -> Sample | None:
        """In which pairs are compared; None is all of it."""
        if len(self.fragments) <= self._most:
            return None
        return part_of(self.fragments, self.index)

    def read_by(self, likelihood: str) -> Sequence[Fragment]:
        """The fragments that a likelihood is fitted to before it is chosen."""
        if likelihood != _OF_PAIRS or self.part is None:
            return self.fragments
        return self.part.fragments


class Stages:
    """Counts the stages of a choice.

    Args:
        what: is chosen.
        of: how many stages there are; what is left out counts as done.
        on_stage: called with each.

    """

    def __init__(self, what: str, of: int, on_stage: OnStage | None) -> None:
        self._what, self._of, self._on_stage, self._number = what, of, on_stage, 0

    def skip(self) -> None:
        """Count a stage that needs no work."""
        self._number += 1

    def begin(self, doing: str) -> None:
        """Tell of the next stage."""
        self._number += 1
        if self._on_stage is not None:
            self._on_stage(Stage(f"{self._what}: {doing}", self._number, self._of))


def _readable() -> list[str]:
    """The likelihoods to choose from that are installed."""
    return [name for name in _CHOOSES_FROM if name in registry.names("likelihoods")]


def _fitted(
    file: _File, defaults: str | None, stages: Stages, without: str = "", only: str = ""
) -> dict[str, ConjugateLikelihood]:
    """The likelihoods to choose from that can read the file."""
    out: dict[str, ConjugateLikelihood] = {}
    for name in _readable():
        if only not in ("", name):
            continue
        if name == without:
            stages.skip()
            continue
        stages.begin(f"learning {name}")
        likelihood = make_likelihood(name, default_options(name, defaults))
        assert isinstance(likelihood, ConjugateLikelihood)
        try:
            likelihood.fit(file.read_by(name))
        except UsageError:  # it finds nothing to read
            continue
        out[name] = likelihood
    return out


def _judged(
    file: _File,
    fitted: dict[str, ConjugateLikelihood],
    defaults: str | None,
    stages: Stages,
) -> Judgement:
    pairs = cast(PairModel | None, fitted.get(_OF_PAIRS))
    scorer = shipped_scorer(defaults)

    def trying(name: str) -> None:
        stages.begin(f"trying {name}")

    return judge(file.fragments, fitted, file.index, scorer, pairs, file.part, trying)


def _why(judged: Judgement) -> str:
    best, gain = judged.chosen, judged.expected_gain
    over = f", {gain:+.2f} over equal names" if gain > 0 else ""
    if best.likelihood == NAMES:
        return f"chosen: {NAMES}, as nothing is expected to beat equal names here; {_OVERRIDE}"
    return (
        f"chosen: {best.likelihood} with alpha {best.alpha:,.4g} (expected F1 "
        f"{judged.expected_f1:.2f}{over}; {_OVERRIDE})"
    )


@dataclass(frozen=True, slots=True)
class AnswerEffect:
    """What answers changed.

    Attributes:
        answers: how many say "same" or "not the same".
        unknown: how many say neither.
        before: the hypothesis that is best without them.
        after: the hypothesis that is best with them.
        gain: how much more F1 is expected of it, from 0.

    """

    answers: int
    unknown: int
    before: Hypothesis
    after: Hypothesis
    gain: float

    def __str__(self) -> str:
        said = f"by {counted(self.answers, 'answer')} {_called(self.after)} is best"
        if self.after is self.before:
            return f"{said}, as without them"
        return f"{said}, not {_called(self.before)} (expected F1 {self.gain:+.3f})"

    def to_json(self) -> dict[str, Any]:
        """The figures by name; exact names have no alpha."""
        before, after = (
            {
                "likelihood": one.likelihood,
                "alpha": None if one.likelihood == NAMES else one.alpha,
            }
            for one in (self.before, self.after)
        )
        figures = {"answers": self.answers, "unknown": self.unknown}
        return {**figures, "before": before, "after": after, "expected_gain": self.gain}


def effect_of_answers(before: Judgement, after: Judgement) -> AnswerEffect:
    """What the answers changed that came in between.

    Args:
        before: the judgement without answers.
        after: the same with them.

    """
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
    return f"{hypothesis.likelihood} with alpha {hypothesis.alpha:,.4g}"


def shipped_scorer(defaults: str | None) -> HypothesisScorer:
    """The scorer of a folder, or the one that ships if the folder has none.

    Raises:
        ModelError: it is damaged.

    """
    folder = default_folder(defaults, JUDGE_FILE)
    return _read(read_default(folder, JUDGE_FILE), quoted(str(folder / JUDGE_FILE), 400))


@lru_cache(maxsize=2)
def _read(content: bytes, where: str) -> HypothesisScorer:
    return read_scorer(content, where)

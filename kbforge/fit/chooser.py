"""Chooses likelihood and alpha for a file, with reasons.

The likelihoods that can read the file are fitted to it, and the judge (`kbforge.fit.judge`)
compares their groupings.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
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
from kbforge.errors import UsageError, option
from kbforge.files.answers import NumberedAnswer
from kbforge.fit.alpha import alpha_by_grouping
from kbforge.fit.biases import with_biases
from kbforge.fit.choices import SOURCE, default_options
from kbforge.fit.description import FileContext, PairModel
from kbforge.fit.duplicates import tables_to_link
from kbforge.fit.hypotheses import MOST_COMPARED, MOST_OF_PAIRS, MOST_TO_CHOOSE, NAMES, part_of
from kbforge.fit.judge import Judgement, effect_of_answers, judge, shipped_scorer
from kbforge.indexes.selective import Selective
from kbforge.models.bundle import make_likelihood

_CHOOSES_FROM = ("bigram", "attributes", "pairs")
_OF_PAIRS = "pairs"
_OF_VECTORS = "gaussian"
_ALPHA_OF_TABLES = 5.5
"""Of sources that are one to one: a third record gains no more by the best odds with one of a pair,
less those of records that are never compared (6 - 5 + log 2 nats), than this alpha costs it."""


@dataclass(frozen=True, eq=False)
class LikelihoodChoice:
    """The likelihood that was chosen for a file."""

    name: str
    likelihood: Likelihood | None = None  # fitted to the file; None if it is still to be made
    alpha: float | None = None  # None if it is still to be found
    note: str = ""  # one sentence for the user, if there is anything to say
    options: Mapping[str, object] = field(default_factory=dict)  # found besides


class Chooser:
    """Chooses likelihood and alpha for one unlabelled file; fits each likelihood once.

    Exact names and the likelihoods of `_CHOOSES_FROM` are compared on the file
    (`kbforge.fit.judge`). A likelihood that the user names (`named`) is judged by its own groupings
    alone, which gives its alpha. If its clusters cannot be merged, it gets the alpha under which it
    opens as many entities as the best grouping has (`kbforge.fit.alpha`).

    In a large file only a part's pairs are compared (`kbforge.fit.hypotheses`), unless the model of
    pairs clusters. Then confidence maps do not read its pairs. In a file of hundreds of thousands
    the model of pairs is no choice. With answers, or to ask for some (`asks`), the model of pairs
    is tried with other biases, too (`kbforge.fit.biases`).

    Where fragments are linked (`link`), the model of pairs compares those of different tables, by
    its own alpha: the judge has learned nothing of groupings that are one to one. So it does, if it
    may look for tables (`tables`), where the file's sources are tables and the model finds them to
    be one to one. Nothing forbids then that records of one table are an entity, but they are only
    joined where they state the same, or are alike to several records of others.
    """

    def __init__(
        self,
        fragments: Sequence[Fragment],
        defaults: str | None = None,
        answers: Sequence[NumberedAnswer] = (),
        on_stage: OnStage | None = None,
        named: bool = False,
        link: str | None = None,
        asks: bool = False,
        tables: bool = False,
    ) -> None:
        self._fragments, self._defaults, self._answers = fragments, defaults, answers
        self._on_stage, self._link, self._asks = on_stage, link, asks or bool(answers)
        self._looks_for_tables = tables and link is None and not self._asks
        self._most = MOST_COMPARED if named else MOST_TO_CHOOSE
        self.judgement: Judgement | None = None
        self.fitted: dict[str, ConjugateLikelihood] = {}

    def choose(self, any_alpha: bool = True) -> LikelihoodChoice:
        """Choose likelihood and alpha for a file.

        Exact names, which know no alpha, are no choice if alpha is given (not `any_alpha`).
        """
        if not self._described:
            note = f"chosen: {_OF_VECTORS}, as the fragments have vectors and no properties"
            return LikelihoodChoice(_OF_VECTORS, note=f"{note}; {_override()}")
        fragments, answers = self._fragments, self._answers
        by_pairs = len(fragments) <= MOST_OF_PAIRS and _OF_PAIRS in _readable()
        if self._link is not None and by_pairs:
            return self._linked()
        if self._looks_for_tables and by_pairs and (found := self._tables()) is not None:
            return found
        stages = Stages("choosing a likelihood", 2 * len(_readable()), self._on_stage)
        file = _File(fragments, MOST_TO_CHOOSE)
        fitted = self.fitted = _fit_likelihoods(file, self._options, stages)
        judged = _judge_file(file, fitted, self._defaults, stages)
        too_large = len(fragments) > MOST_OF_PAIRS
        if any_alpha and self._asks and not too_large and _OF_PAIRS in fitted:
            judged = with_biases(judged, cast(PairModel, fitted[_OF_PAIRS]))
        if not any_alpha:
            judged = judged.without(NAMES)
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
        chosen, options = fitted[best.likelihood], {"bias": best.bias} if best.bias else {}
        if options:
            chosen = cast(PairModel, chosen).biased(best.bias)
        if best.likelihood == _OF_PAIRS and file.part is not None:
            chosen.fit(fragments)
        return LikelihoodChoice(best.likelihood, chosen, best.alpha, why, options)

    def _linked(self) -> LikelihoodChoice:
        """The model of pairs of different tables."""
        Stages("choosing a likelihood", 1, self._on_stage).begin("comparing records across tables")
        likelihood = make_likelihood(_OF_PAIRS, self._options(_OF_PAIRS))
        said = likelihood.fit(self._fragments)
        note = f"chosen: {_OF_PAIRS}, which compares records of different tables; {_override()}"
        ignored = "answers choose nothing between linked tables" if self._answers else ""
        note = "; ".join(filter(None, (note, said, ignored)))
        return LikelihoodChoice(_OF_PAIRS, likelihood, likelihood.default_alpha, note)

    def _tables(self) -> LikelihoodChoice | None:
        """The model of pairs of the file's sources, if these are tables and one to one."""
        tables = tables_to_link(self._fragments)
        if not tables:
            return None
        stages = Stages("choosing a likelihood", 1, self._on_stage)
        stages.begin(f"comparing records across {tables}")
        options = default_options(_OF_PAIRS, self._defaults, SOURCE)
        likelihood = make_likelihood(_OF_PAIRS, options)
        said = likelihood.fit(self._fragments)
        if not cast(PairModel, likelihood).one_to_one:
            return None
        note = (
            f"chosen: {_OF_PAIRS}, which compares records of different sources: the fragments are "
            f"of {tables} whose records seem to be one to one; {_override()}, or forbid that "
            f"records of a table are one with {option('link', 'source')}"
        )
        note = "; ".join(filter(None, (note, said)))
        found = {"link": SOURCE}
        return LikelihoodChoice(_OF_PAIRS, likelihood, _ALPHA_OF_TABLES, note, found)

    def alpha(self, name: str, likelihood: Likelihood) -> tuple[float, str] | None:
        """The alpha for a fitted likelihood and a sentence about it; None without evidence."""
        if not likelihood.alpha_from_file or not self._described:
            return None
        if self._link is not None and likelihood.takes_link:
            return None
        defaults = self._defaults
        # a model of pairs that is to cluster compares all of the file in any case
        most = MOST_COMPARED if name != _OF_PAIRS else sys.maxsize
        file = _File(self._fragments, most, likelihood.index)
        tried = {*_readable(), name}
        stages = Stages("choosing alpha", len(_readable()) + len(tried), self._on_stage)
        fitted = self.fitted = _fit_likelihoods(file, self._options, stages, without=name)
        if isinstance(likelihood, ConjugateLikelihood) and likelihood.live_clusters().mergeable:
            before = _judge_file(file, {**fitted, name: likelihood}, defaults, stages).only(name)
            judged = before.answered(self._answers)
            alpha, why = judged.chosen.alpha, "suits this file"
        else:
            before = _judge_file(file, fitted, defaults, stages)
            judged = before.answered(self._answers)
            sample, clusters = judged.sample.fragments, judged.chosen.clusters
            alpha = alpha_by_grouping(likelihood, sample, clusters)
            why = f"opens as many entities as {judged.chosen.likelihood} finds in this file"
        self.judgement = judged
        if self._answers:
            why = f"{why}: {effect_of_answers(before, judged)}"
        return alpha, f"alpha {alpha:,.4g} {why}"

    def context(self, name: str, likelihood: Likelihood) -> FileContext:
        """What the confidence maps that ship read of the file, besides its fragments."""
        pairs: Likelihood | None = likelihood
        if name != _OF_PAIRS and len(self._fragments) > self._most:
            pairs = None
        elif name != _OF_PAIRS:
            if _OF_PAIRS not in self.fitted:
                file = _File(self._fragments, self._most)
                stages = Stages("learning how far to trust the result", 1, self._on_stage)
                self.fitted |= _fit_likelihoods(file, self._options, stages, only=_OF_PAIRS)
            pairs = self.fitted.get(_OF_PAIRS)
        predicted = None if self.judgement is None else self.judgement.predicted(name)
        return FileContext(name, cast(PairModel | None, pairs), predicted)

    def _options(self, name: str) -> dict[str, Any]:
        return default_options(name, self._defaults, self._link)

    @property
    def _described(self) -> bool:
        """Whether a fragment has a property."""
        return any(fragment.properties for fragment in self._fragments)


class _File:
    """A file, compared in part if it has more than `most` fragments; `fitted` is its index."""

    def __init__(
        self, fragments: Sequence[Fragment], most: int, fitted: CandidateIndex | None = None
    ) -> None:
        self.fragments, self._most, self._fitted_index = fragments, most, fitted

    @cached_property
    def index(self) -> CandidateIndex:
        """Fitted to the file."""
        index = Selective()
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
    """Counts the stages of the work, and reports each to `on_stage`."""

    def __init__(self, what: str, of: int, on_stage: OnStage | None) -> None:
        self._what, self._of, self._on_stage, self._number = what, of, on_stage, 0

    def skip(self) -> None:
        """Count a stage that needs no work."""
        self._number += 1

    def begin(self, doing: str) -> None:
        """Report the next stage."""
        self._number += 1
        if self._on_stage is not None:
            self._on_stage(Stage(f"{self._what}: {doing}", self._number, self._of))


def _readable() -> list[str]:
    """The likelihoods to choose from that are installed."""
    return [name for name in _CHOOSES_FROM if name in registry.names("likelihoods")]


def _fit_likelihoods(
    file: _File,
    options_of: Callable[[str], dict[str, Any]],
    stages: Stages,
    without: str = "",
    only: str = "",
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
        likelihood = make_likelihood(name, options_of(name))
        assert isinstance(likelihood, ConjugateLikelihood)
        try:
            likelihood.fit(file.read_by(name))
        except UsageError:  # it finds nothing to read
            continue
        out[name] = likelihood
    return out


def _judge_file(
    file: _File,
    fitted: dict[str, ConjugateLikelihood],
    defaults: str | None,
    stages: Stages,
) -> Judgement:
    pairs, scorer = cast(PairModel | None, fitted.get(_OF_PAIRS)), shipped_scorer(defaults)

    def trying(name: str) -> None:
        stages.begin(f"trying {name}")

    return judge(file.fragments, fitted, file.index, scorer, pairs, file.part, trying)


def _why(judged: Judgement) -> str:
    best, gain = judged.chosen, judged.expected_gain
    over = f", {gain:+.2f} over equal names" if gain > 0 else ""
    if best.likelihood == NAMES:
        return (
            f"chosen: {NAMES} (only identical names were merged; nothing else looked safe; "
            f"{_override()})"
        )
    second = judged.close_behind
    close = f"; {second.hypothesis.likelihood} is {second.behind:.3f} behind" if second else ""
    return (
        f"chosen: {best.likelihood} with alpha {best.alpha:,.4g} (expected F1 "
        f"{judged.expected_f1:.2f}{over}{close}; {_override()})"
    )


def _override() -> str:
    return f"name another with {option('likelihood')}"

"""The default that chooses: likelihood and alpha from the file, if the user names none.

Exact names and the likelihoods of `_CHOOSES_FROM` are compared on the file without labels
(`kbforge.fit`). A likelihood that the user names is judged by its own groupings alone, which
gives its alpha; one whose clusters cannot be merged gets the alpha under which it opens as many
entities as the judged grouping has (`kbforge.fit.grouping_alpha`).

Of a large file pairs are compared in a part alone (`kbforge.fit.part`), unless the model of pairs
is what clusters. So maps of doubt do not hear of its pairs. In a file of hundreds of thousands the
model of pairs is no choice.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import cast

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
from kbforge.files.answers import Placed
from kbforge.fit.answered import changed_by
from kbforge.fit.grouping_alpha import alpha_by_grouping
from kbforge.fit.heard import Heard, ReadsPairs
from kbforge.fit.hypotheses import NAMES
from kbforge.fit.judging import Judged, judge
from kbforge.fit.making import default_options
from kbforge.fit.part import MOST_COMPARED, MOST_OF_PAIRS, MOST_TO_CHOOSE, part_of
from kbforge.fit.scorer import JUDGE_FILE, Scorer, read_scorer
from kbforge.models.defaults import default_folder, read_default
from kbforge.models.resolve import make_likelihood

_CHOOSES_FROM = ("bigram", "attributes", "pairs")
_LIKE = {"trigram": "bigram"}
"""Likelihoods that are judged as if they were another one's."""
_OF_PAIRS = "pairs"
_OF_VECTORS = "gaussian"
_OVERRIDE = "name another with --likelihood"


@dataclass(frozen=True, eq=False)
class Chosen:
    """What suits a file.

    Attributes:
        name: of the likelihood.
        likelihood: fitted to the file; None if it is still to be made.
        alpha: None if nothing tells; then the likelihood's own holds.
        note: one sentence for the user.
        judged: what it was chosen from; None for vectors.
        fitted: the likelihoods that it was chosen from.

    """

    name: str
    likelihood: Likelihood | None
    alpha: float | None
    note: str
    judged: Judged | None
    fitted: Mapping[str, ConjugateLikelihood] = field(default_factory=dict)


def choose(
    fragments: Sequence[Fragment],
    defaults: str | None = None,
    any_alpha: bool = True,
    answers: Sequence[Placed] = (),
    on_stage: OnStage | None = None,
) -> Chosen:
    """The likelihood and the alpha for a file of which the user says nothing.

    Args:
        fragments: the file.
        defaults: a folder with other models than those that ship.
        any_alpha: whether alpha is open; if it is given, exact names are no choice, as they know
            no alpha.
        answers: about the fragments.
        on_stage: is told what is learned and tried.

    Raises:
        UsageError: the fragments have vectors of no likelihood's, or nothing at all.

    """
    if not any(fragment.properties for fragment in fragments):
        note = f"chosen: {_OF_VECTORS}, as the fragments have vectors and no properties"
        return Chosen(_OF_VECTORS, None, None, f"{note}; {_OVERRIDE}", None)
    stages = Stages("choosing a likelihood", 2 * len(_readable()), on_stage)
    file = _File(fragments, MOST_TO_CHOOSE)
    fitted = _fitted(file, defaults, stages)
    judged = _judged(file, fitted, defaults, stages)
    if not any_alpha:
        judged = judged.without(NAMES)
    too_large = len(fragments) > MOST_OF_PAIRS
    if too_large:
        judged = judged.without(_OF_PAIRS)
    before, judged = judged, judged.answered(answers)
    why = str(changed_by(before, judged)) if answers else _why(judged)
    if too_large:
        why += f"; {_OF_PAIRS} is no choice above {MOST_OF_PAIRS:,} fragments"
    best = judged.chosen
    if best.likelihood == NAMES:
        likelihood: Likelihood = registry.create("likelihoods", NAMES, {})
        likelihood.fit(fragments)
        return Chosen(NAMES, likelihood, likelihood.default_alpha, why, judged, fitted)
    if best.likelihood == _OF_PAIRS and file.part is not None:
        fitted[_OF_PAIRS].fit(fragments)
    return Chosen(best.likelihood, fitted[best.likelihood], best.alpha, why, judged, fitted)


class FromFile:
    """What a file says of alpha, found out when it is asked for.

    Args:
        fragments: the file.
        chosen: what was chosen for it; None if the user named the likelihood.
        defaults: a folder with other models than those that ship.
        answers: about the fragments.
        on_stage: is told what is learned and tried.

    Attributes:
        judged: what was judged, None if nothing was asked for.

    """

    def __init__(
        self,
        fragments: Sequence[Fragment],
        chosen: Chosen | None,
        defaults: str | None,
        answers: Sequence[Placed] = (),
        on_stage: OnStage | None = None,
    ) -> None:
        self._fragments, self._chosen, self._defaults = fragments, chosen, defaults
        self._on_stage = on_stage
        self._answers = answers
        self.judged = None if chosen is None else chosen.judged
        self._fitted = dict(chosen.fitted) if chosen is not None else {}
        self._most = MOST_COMPARED if chosen is None else MOST_TO_CHOOSE

    def alpha(self, name: str, likelihood: Likelihood) -> tuple[float, str] | None:
        """The alpha for a likelihood, and one sentence, "" if it was said; None if nothing tells.

        Args:
            name: of the likelihood, or the path of its bundle.
            likelihood: fitted to the file.

        """
        if self._chosen is not None and self._chosen.alpha is not None:
            return self._chosen.alpha, ""
        fragments, defaults = self._fragments, self._defaults
        if not likelihood.alpha_from_file or not any(f.properties for f in fragments):
            return None
        # a model of pairs that is to cluster compares all of the file in any case
        most = MOST_COMPARED if name != _OF_PAIRS else sys.maxsize
        file = _File(fragments, most, likelihood.index)
        tried = {*_readable(), name}
        stages = Stages("choosing alpha", len(_readable()) + len(tried), self._on_stage)
        fitted = self._fitted = _fitted(file, defaults, stages, without=name)
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
        self.judged = judged
        if self._answers:
            why = f"{why}: {changed_by(before, judged)}"
        return alpha, f"alpha {alpha:,.4g} {why}; --alpha says another"

    def heard(self, name: str, likelihood: Likelihood) -> Heard:
        """What maps of doubt hear of the file, beside its fragments.

        Args:
            name: of the likelihood, or the path of its bundle.
            likelihood: fitted to the file.

        """
        pairs: Likelihood | None = likelihood
        if name != _OF_PAIRS and len(self._fragments) > self._most:
            pairs = None
        elif name != _OF_PAIRS:
            if _OF_PAIRS not in self._fitted:
                file = _File(self._fragments, self._most)
                stages = Stages("learning how far to trust the result", 1, self._on_stage)
                self._fitted |= _fitted(file, self._defaults, stages, only=_OF_PAIRS)
            pairs = self._fitted.get(_OF_PAIRS)
        judged = self.judged
        predicted = None if judged is None else judged.predicted(name)
        return Heard(name, cast(ReadsPairs | None, pairs), predicted)


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
        on_stage: is told of each.

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
) -> Judged:
    pairs = cast(ReadsPairs | None, fitted.get(_OF_PAIRS))
    scorer = shipped_scorer(defaults)

    def trying(name: str) -> None:
        stages.begin(f"trying {name}")

    return judge(file.fragments, fitted, file.index, scorer, _LIKE, pairs, file.part, trying)


def _why(judged: Judged) -> str:
    best, gain = judged.chosen, judged.expected_gain
    over = f", {gain:+.2f} over equal names" if gain > 0 else ""
    if best.likelihood == NAMES:
        return f"chosen: {NAMES}, as nothing is expected to beat equal names here; {_OVERRIDE}"
    return (
        f"chosen: {best.likelihood} with alpha {best.alpha:,.4g} (expected F1 "
        f"{judged.expected_f1:.2f}{over}; {_OVERRIDE})"
    )


def shipped_scorer(defaults: str | None) -> Scorer:
    """The scorer of a folder, or the one that ships if the folder has none.

    Raises:
        ModelError: it is damaged.

    """
    folder = default_folder(defaults, JUDGE_FILE)
    return _read(read_default(folder, JUDGE_FILE), quoted(str(folder / JUDGE_FILE), 400))


@lru_cache(maxsize=2)
def _read(content: bytes, where: str) -> Scorer:
    return read_scorer(content, where)

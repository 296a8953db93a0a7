"""The one call from a file to likelihood, alpha and confidence map, with the reasons.

The user's choices count first. Next come alpha and confidence map of earlier runs, from the file
that the choices name or else from the model bundle. If such a file was made for other choices, it
counts all the same, and a note says so. The rest comes from the fragments, by a `Chooser`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, cast

from kbforge import registry
from kbforge.clustering.sample import Sample
from kbforge.clustering.state import DirichletProcess
from kbforge.contracts import (
    CandidateIndex,
    ConjugateLikelihood,
    Fragment,
    Likelihood,
    OnStage,
    Stage,
)
from kbforge.errors import KBForgeError, UsageError
from kbforge.files.answers import NumberedAnswer, placed, read_answers
from kbforge.fit.alpha import CALIBRATION_FILE, Calibration, alpha_by_grouping, read_calibration
from kbforge.fit.biases import with_biases
from kbforge.fit.choices import (
    DEFAULT_LIKELIHOOD,
    MANY,
    NO_INDEX,
    Choices,
    Fit,
    Models,
    called,
    default_options,
    link_note,
    make_clusterer,
    make_models,
)
from kbforge.fit.confidence import IN_BUNDLE, ConfidenceMap, MonotoneConfidence, read_confidence
from kbforge.fit.description import FileContext, PairModel
from kbforge.fit.hypotheses import MOST_COMPARED, MOST_OF_PAIRS, MOST_TO_CHOOSE, NAMES, part_of
from kbforge.fit.judge import Judgement, effect_of_answers, judge, shipped_scorer
from kbforge.fit.maps import AuditedConfidence, shipped_confidence
from kbforge.models.bundle import bundles_read_once, is_name, make_likelihood, require_device


def prepare(
    fragments: Sequence[Fragment],
    choices: Choices,
    decided: Sequence[NumberedAnswer] | None = None,
    on_stage: OnStage | None = None,
    asks: bool = False,
) -> Fit:
    """Find what suits the fragments: likelihood, alpha and confidence map, and notes that say why.

    A refit gives the decisions about pairs (`decided`), which count as answers. With `asks` the
    judgement is one to ask about. `on_stage` is called with what is learned or tried next.
    """
    if not fragments:
        raise KBForgeError("there are no fragments to cluster")
    require_device(choices.device)
    notes: list[str] = []
    answers = (*_answers(fragments, choices.answers), *(decided or ()))
    clusterer = make_clusterer(choices)
    if choices.alpha is not None:
        DirichletProcess(choices.alpha)  # refuses what cannot be one before anything is loaded
    named = _named_calibration(choices)
    chooser = Chooser(
        fragments,
        choices.defaults,
        answers,
        on_stage,
        named=choices.likelihood is not None,
        link=choices.link,
        asks=asks,
    )
    with bundles_read_once():
        choice = _choice(chooser, choices, named)
        if choice is not None:
            choices = replace(choices, likelihood=choice.name)
            notes += filter(None, (choice.note, _advice(chooser.judgement, choices)))
        fitted = None if choice is None else choice.likelihood
        models = make_models(choices, clusterer, notes, fitted, len(fragments) > MANY)
    if fitted is None:
        Stages("preparing", 1, on_stage).begin(f"learning {choices.likelihood_name}")
    _fit(models, fragments, choices, fitted is not None, notes)
    alpha = _alpha(models.likelihood, choices, named, choice, chooser, notes, decided is not None)
    if choices.link is not None:
        notes.append(link_note(fragments, choices.link))
    confidence: ConfidenceMap | None = _named_map(choices, named, notes)
    # maps have learned nothing of linked tables, whose report is nearer to the truth
    linked = choices.link is not None and models.likelihood.takes_link
    if confidence is None and not linked and any(f.properties for f in fragments):
        context = chooser.context(choices.likelihood_name, models.likelihood)
        confidence = shipped_confidence(context, choices.defaults)
    if answers and confidence is not None:
        confidence = AuditedConfidence.of(confidence, answers, fragments)
    return Fit(
        clusterer,
        models.problem(alpha, choices),
        alpha,
        confidence,
        choices.likelihood_name,
        models,
        chooser.judgement,
        tuple(notes),
        choices.of("likelihood") if choice is None else choice.options,
    )


def _answers(fragments: Sequence[Fragment], path: str | None) -> list[NumberedAnswer]:
    return [] if path is None else placed(read_answers(path), fragments, path)


def _choice(
    chooser: Chooser, choices: Choices, named: Calibration | None
) -> LikelihoodChoice | None:
    """The likelihood, unless the user names one, sets options of one or gives a calibration."""
    if choices.likelihood is not None:
        return None
    if choices.of("likelihood"):
        return LikelihoodChoice(DEFAULT_LIKELIHOOD)
    if named is not None:
        return LikelihoodChoice(named.likelihood)
    return chooser.choose(any_alpha=choices.alpha is None)


def _fit(
    models: Models,
    fragments: Sequence[Fragment],
    choices: Choices,
    fitted: bool,
    notes: list[str],
) -> None:
    """Fit the models, unless the likelihood is fitted already."""
    index = models.index
    if index is not None and index is not models.likelihood.index:
        index.fit(fragments)
        if not any(index.keys(fragment) for fragment in fragments):
            raise UsageError(
                f"--index {called(choices.index)}: it finds no key in any fragment, so no "
                f"fragments would be compared; --index {NO_INDEX} compares with all"
            )
    for model in (None if fitted else models.likelihood, models.surrogate):
        said = None if model is None else model.fit(fragments)
        if said:
            notes.append(said)


def _alpha(
    likelihood: Likelihood,
    choices: Choices,
    named: Calibration | None,
    choice: LikelihoodChoice | None,
    chooser: Chooser,
    notes: list[str],
    refits: bool,
) -> float:
    """The alpha chosen, else the calibration's, else the file's, else the likelihood's own."""
    if choices.alpha is not None:
        return choices.alpha
    if named is not None:
        _note_other_likelihood(choices, named, notes)
        return named.alpha
    bundle = _bundle(choices)
    if bundle is not None and (bundle / CALIBRATION_FILE).is_file():
        return read_calibration(str(bundle / CALIBRATION_FILE)).alpha
    if choice is not None and choice.alpha is not None:
        return choice.alpha
    found = chooser.alpha(choices.likelihood_name, likelihood)
    if found is not None:
        notes.append(found[1] if refits else f"{found[1]}; --alpha overrides it")
        return found[0]
    if bundle is not None and bundle.is_dir():
        notes.append(
            f"{choices.likelihood} has no calibration, so alpha is a guess; "
            "kbforge calibrate finds it (then --calibration or --alpha)"
        )
    return float(likelihood.default_alpha)


def _named_map(
    choices: Choices, named: Calibration | None, notes: list[str]
) -> MonotoneConfidence | None:
    """The map named, else that of the calibration named, or of the model bundle."""
    found, where = None, choices.confidence_map
    if where is not None:
        found = read_confidence(where)
    elif named is not None:
        found, where = named.confidence, choices.calibration
    bundle = _bundle(choices)
    if found is None and bundle is not None:
        where = str(bundle / IN_BUNDLE)
        found = read_confidence(where) if (bundle / IN_BUNDLE).is_file() else None
    if found is not None:
        _note_other_choices(choices, found, str(where), notes)
    return found


def _named_calibration(choices: Choices) -> Calibration | None:
    """The calibration file that the choices name, if any; naming an alpha too is an error."""
    if choices.calibration is None:
        return None
    if choices.alpha is not None:
        raise UsageError("--alpha and --calibration both set alpha; choose one")
    return read_calibration(choices.calibration)


def _bundle(choices: Choices) -> Path | None:
    """Where the likelihood was loaded from, if it was."""
    chosen = choices.likelihood
    return Path(chosen) if isinstance(chosen, str) and not is_name(chosen) else None


def _same(one: str, other: str) -> bool:
    # a model may since have moved, or be named from another folder
    return Path(one).name == Path(other).name


def _note_other_likelihood(choices: Choices, named: Calibration, notes: list[str]) -> None:
    used, options = choices.likelihood_name, choices.of("likelihood")
    if not _same(named.likelihood, used):
        notes.append(
            f"{choices.calibration} is a calibration of the likelihood {named.likelihood}, "
            f"used here with {used}"
        )
    elif dict(named.options) != {k: str(v) for k, v in options.items()}:
        notes.append(
            f"{choices.calibration} was made with other options of the likelihood: "
            f"{_listed(named.options)} there, {_listed(options)} here"
        )


def _note_other_choices(
    choices: Choices, found: MonotoneConfidence, where: str, notes: list[str]
) -> None:
    used, clusterer = choices.likelihood_name, choices.clusterer_name
    if not _same(found.likelihood, used):
        notes.append(
            f"the confidence map {where} was fitted with the likelihood {found.likelihood}, used "
            f"here with {used}"
        )
    if found.clusterer != clusterer or found.temperature != choices.temperature:
        notes.append(
            f"the confidence map {where} was fitted with {found.clusterer} at temperature "
            f"{found.temperature:g}, used here with {clusterer} at {choices.temperature:g}"
        )


def _listed(options: Mapping[str, object]) -> str:
    return ", ".join(f"{name}={value}" for name, value in options.items()) or "none"


_CHOOSES_FROM = ("bigram", "attributes", "pairs")
_OF_PAIRS = "pairs"
_OF_VECTORS = "gaussian"
_OVERRIDE = "name another with --likelihood"
_LEAST_GAIN = 0.01  # F1 that a dozen answers must be expected to gain before anyone is told


@dataclass(frozen=True, eq=False)
class LikelihoodChoice:
    """A likelihood for a file."""

    name: str
    likelihood: Likelihood | None = None  # fitted to the file; None if it is still to be made
    alpha: float | None = None  # None if it is still to be found
    note: str = ""  # one sentence for the user, if there is anything to say
    options: Mapping[str, object] = field(default_factory=dict)  # found besides


class Chooser:
    """Finds what suits one file, without labels, and learns no likelihood twice.

    Exact names and the likelihoods of `_CHOOSES_FROM` are compared on the file
    (`kbforge.fit.judge`). A likelihood that the user names (`named`) is judged by its own groupings
    alone, which gives its alpha. If its clusters cannot be merged, it gets the alpha under which it
    opens as many entities as the best grouping has (`kbforge.fit.alpha`).

    In a large file only a part's pairs are compared (`kbforge.fit.hypotheses`), unless the model of
    pairs clusters. Then confidence maps do not read its pairs. In a file of hundreds of thousands
    the model of pairs is no choice. With answers, or to ask for some (`asks`), the model of pairs
    is tried with other biases, too (`kbforge.fit.biases`).

    Where fragments are linked (`link`), the model of pairs compares those of different tables, by
    its own alpha: the judge has learned nothing of groupings that are one to one.
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
    ) -> None:
        self._fragments, self._defaults, self._answers = fragments, defaults, answers
        self._on_stage, self._link, self._asks = on_stage, link, asks or bool(answers)
        self._most = MOST_COMPARED if named else MOST_TO_CHOOSE
        self.judgement: Judgement | None = None
        self.fitted: dict[str, ConjugateLikelihood] = {}

    def choose(self, any_alpha: bool = True) -> LikelihoodChoice:
        """The likelihood and the alpha for a file of which the user says nothing.

        Exact names, which know no alpha, are no choice if alpha is given (not `any_alpha`).
        """
        if not self._described:
            note = f"chosen: {_OF_VECTORS}, as the fragments have vectors and no properties"
            return LikelihoodChoice(_OF_VECTORS, note=f"{note}; {_OVERRIDE}")
        fragments, answers = self._fragments, self._answers
        if self._link is not None and len(fragments) <= MOST_OF_PAIRS and _OF_PAIRS in _readable():
            return self._linked()
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
        note = f"chosen: {_OF_PAIRS}, which compares records of different tables; {_OVERRIDE}"
        return LikelihoodChoice(
            _OF_PAIRS, likelihood, likelihood.default_alpha, "; ".join(filter(None, (note, said)))
        )

    def alpha(self, name: str, likelihood: Likelihood) -> tuple[float, str] | None:
        """The alpha for a fitted likelihood, and one sentence about it; None if nothing tells."""
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
    """Counts the stages of what is done, and calls `on_stage` with each."""

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


def _advice(judged: Judgement | None, choices: Choices) -> str:
    """That answers are expected to pay, if they are, there are none, and alpha is open."""
    if judged is None or judged.answers or choices.alpha is not None:
        return ""
    if judged.gain_of_answers < _LEAST_GAIN:
        return ""
    return (
        f"a dozen answers are expected to gain {judged.gain_of_answers:+.2f}: kbforge review FILE, "
        "then this command with --answers answers.jsonl"
    )


def _why(judged: Judgement) -> str:
    best, gain = judged.chosen, judged.expected_gain
    over = f", {gain:+.2f} over equal names" if gain > 0 else ""
    if best.likelihood == NAMES:
        return f"chosen: {NAMES}, as nothing is expected to beat equal names here; {_OVERRIDE}"
    second = judged.close_behind
    close = f"; {second.hypothesis.likelihood} is {second.behind:.3f} behind" if second else ""
    return (
        f"chosen: {best.likelihood} with alpha {best.alpha:,.4g} (expected F1 "
        f"{judged.expected_f1:.2f}{over}{close}; {_OVERRIDE})"
    )

"""What was found for a likelihood in earlier runs: alpha and a confidence map.

Each is read from the file that the choices name, else from the model bundle. A file that was made
for other choices is used all the same, and a note says so.

What answers change: which hypothesis about a file is used.

The default that chooses: likelihood and alpha from the file, if the user names none.

Exact names and the likelihoods of `_CHOOSES_FROM` are compared on the file without labels
(`kbforge.fit`). A likelihood that the user names is judged by its own groupings alone, which
gives its alpha; one whose clusters cannot be merged gets the alpha under which it opens as many
entities as the judged grouping has (`kbforge.fit.alpha`).

Of a large file pairs are compared in a part alone (`kbforge.fit.sample`), unless the model of pairs
is what clusters. So maps of doubt do not hear of its pairs. In a file of hundreds of thousands the
model of pairs is no choice.

Preparing: from choices to a clusterer and its problem, fitted to the fragments at hand.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache, partial
from pathlib import Path
from typing import Any, cast

from kbforge import registry
from kbforge.clustering.prior import DirichletProcess
from kbforge.clustering.sample import Sample
from kbforge.contracts import (
    CandidateIndex,
    ConjugateLikelihood,
    Fragment,
    Likelihood,
    OnStage,
    Stage,
)
from kbforge.errors import KBForgeError, UsageError, quoted
from kbforge.files.answers import Placed, placed, read_answers
from kbforge.fit.alpha import CALIBRATION_FILE, Calibration, alpha_by_grouping, read_calibration
from kbforge.fit.choices import DEFAULT_LIKELIHOOD, NO_INDEX, Choices, called, link_note
from kbforge.fit.confidence import IN_BUNDLE, ConfidenceMap, Reading, read_confidence
from kbforge.fit.description import Heard, ReadsPairs
from kbforge.fit.judge import JUDGE_FILE, NAMES, Hypothesis, Judged, Scorer, judge, read_scorer
from kbforge.fit.maps import Answered, shipped_doubt
from kbforge.fit.models import MANY, Models, Prepared, default_options, make_clusterer, make_models
from kbforge.fit.sample import MOST_COMPARED, MOST_OF_PAIRS, MOST_TO_CHOOSE, part_of
from kbforge.models.bundle import bundles_read_once
from kbforge.models.defaults import default_folder, read_default
from kbforge.models.devices import require_device
from kbforge.models.resolve import is_name, make_likelihood
from kbforge.words import counted


def named_calibration(choices: Choices) -> Calibration | None:
    """The calibration file that the choices name, if any.

    Raises:
        UsageError: they name an alpha, too.
        KBForgeError: it cannot be read.

    """
    if choices.calibration is None:
        return None
    if choices.alpha is not None:
        raise UsageError("--alpha and --calibration both say what alpha is; choose one")
    return read_calibration(choices.calibration)


def alpha_of(
    likelihood: Likelihood,
    choices: Choices,
    named: Calibration | None,
    from_file: FromFile,
    notes: list[str],
) -> float:
    """The alpha chosen, else the calibration's, else what the file says, else the likelihood's own.

    Args:
        likelihood: fitted to the file.
        choices: which alpha, calibration and likelihood.
        named: as of `named_calibration`.
        from_file: what the file says.
        notes: sentences for the user are added to them.

    Raises:
        KBForgeError: the bundle's calibration cannot be read.

    """
    if choices.alpha is not None:
        return choices.alpha
    if named is not None:
        _note_other_likelihood(choices, named, notes)
        return named.alpha
    bundle = _bundle(choices)
    if bundle is not None:
        bundled = bundle / CALIBRATION_FILE
        if bundled.is_file():
            return read_calibration(str(bundled)).alpha
    found = from_file.alpha(choices.likelihood_name, likelihood)
    if found is not None:
        notes += [found[1]] if found[1] else []
        return found[0]
    if bundle is not None and bundle.is_dir():
        notes.append(
            f"{choices.likelihood} has no calibration, so alpha is a guess; "
            "kbforge calibrate finds it (then --calibration or --alpha)"
        )
    return float(likelihood.default_alpha)


def confidence_of(
    fragments: Sequence[Fragment],
    choices: Choices,
    named: Calibration | None,
    heard: Callable[[], Heard],
    notes: list[str],
) -> Reading | None:
    """The map named, else that of the calibration named, of the model bundle, or the shipped one.

    Args:
        fragments: what will be clustered; nothing that ships says how sure vectors alone are.
        choices: which map, calibration and likelihood.
        named: as of `named_calibration`.
        heard: what the maps that ship hear of the file; asked for if they are used.
        notes: sentences for the user are added to them.

    Raises:
        KBForgeError: the file cannot be read.

    """
    found, where = None, choices.confidence_map
    if where is not None:
        found = read_confidence(where)
    elif named is not None:
        found, where = named.confidence, choices.calibration
    bundle = _bundle(choices)
    if found is None and bundle is not None:
        bundled = bundle / IN_BUNDLE
        where = str(bundled)
        found = read_confidence(where) if bundled.is_file() else None
    if found is None:
        described = any(fragment.properties for fragment in fragments)
        return shipped_doubt(heard(), choices.defaults) if described else None
    _note_other_choices(choices, found, str(where), notes)
    return found


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
    choices: Choices, found: ConfidenceMap, where: str, notes: list[str]
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


@dataclass(frozen=True, slots=True)
class Changed:
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


def answers_for(fragments: Sequence[Fragment], choices: Choices) -> tuple[Placed, ...]:
    """The answers of the file that the choices name; none without one.

    Raises:
        KBForgeError: the file cannot be read, or is about other fragments.

    """
    if choices.answers is None:
        return ()
    return tuple(placed(read_answers(choices.answers), fragments, choices.answers))


def changed_by(before: Judged, after: Judged) -> Changed:
    """What the answers changed that came in between.

    Args:
        before: what was judged without answers.
        after: the same with them.

    """
    unknown = sum(answer.same is None for answer in after.answers)
    return Changed(
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


def prepare(
    fragments: Sequence[Fragment],
    choices: Choices,
    decided: Sequence[Placed] = (),
    on_stage: OnStage | None = None,
) -> Prepared:
    """Make the plugins that the choices name and fit what fits itself to the input.

    Args:
        fragments: to be clustered.
        choices: what the user chose.
        decided: what was decided of pairs of the fragments; heard as answers.
        on_stage: is told what is learned and tried.

    Raises:
        KBForgeError: nothing to cluster, an unknown plugin or option, no usable GPU.

    """
    if not fragments:
        raise KBForgeError("there are no fragments to cluster")
    require_device(choices.device)
    notes: list[str] = []
    answers = (*answers_for(fragments, choices), *decided)
    clusterer = make_clusterer(choices)
    if choices.alpha is not None:
        DirichletProcess(choices.alpha)  # refuses what cannot be one before anything is loaded
    named = named_calibration(choices)
    chosen = None
    with bundles_read_once():
        if choices.likelihood is None:
            chosen = _default(fragments, choices, named, answers, on_stage)
            choices = replace(choices, likelihood=chosen.name)
            notes += [chosen.note] if chosen.note else []
        fitted = None if chosen is None else chosen.likelihood
        many = len(fragments) > MANY
        models = make_models(choices, clusterer, notes, fitted, many)
    if fitted is None:
        Stages("preparing", 1, on_stage).begin(f"learning {choices.likelihood_name}")
    _fit(models, fragments, choices, fitted is not None, notes)
    from_file = FromFile(fragments, chosen, choices.defaults, answers, on_stage)
    alpha = alpha_of(models.likelihood, choices, named, from_file, notes)
    if choices.link is not None:
        notes.append(link_note(fragments, choices.link))
    heard = partial(from_file.heard, choices.likelihood_name, models.likelihood)
    confidence = confidence_of(fragments, choices, named, heard, notes)
    if answers and confidence is not None:
        confidence = Answered.of(confidence, answers, fragments)
    return Prepared(
        clusterer,
        models.problem(alpha, choices),
        alpha,
        confidence,
        choices.likelihood_name,
        models,
        from_file.judged,
        tuple(notes),
    )


def _fit(
    models: Models,
    fragments: Sequence[Fragment],
    choices: Choices,
    fitted: bool,
    notes: list[str],
) -> None:
    """Fit the models, but for a likelihood that is fitted already.

    Raises:
        UsageError: the index named finds no key in any fragment.

    """
    index = models.index
    if index is not None and index is not models.likelihood.index:
        index.fit(fragments)
        if not any(index.keys(fragment) for fragment in fragments):
            raise UsageError(
                f"--index {called(choices.index)}: it finds no key in any fragment, so that "
                f"nothing would be compared with anything; --index {NO_INDEX} compares with all"
            )
    for model in (None if fitted else models.likelihood, models.surrogate):
        said = None if model is None else model.fit(fragments)
        if said:
            notes.append(said)


def _default(
    fragments: Sequence[Fragment],
    choices: Choices,
    named: Calibration | None,
    answers: Sequence[Placed],
    on_stage: OnStage | None,
) -> Chosen:
    """The likelihood of a user who names none.

    Options are those of the attribute model, and a calibration says whose it is.
    """
    if choices.of("likelihood"):
        return Chosen(DEFAULT_LIKELIHOOD, None, None, "", None)
    if named is not None:
        return Chosen(named.likelihood, None, None, "", None)
    any_alpha = choices.alpha is None
    return choose(fragments, choices.defaults, any_alpha, answers, on_stage)

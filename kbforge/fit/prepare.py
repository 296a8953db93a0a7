"""The one call from a file to likelihood, alpha and confidence map, with the reasons.

What the user names counts first. Next come alpha and confidence map of earlier runs, from the file
that the choices name or else from the model bundle. If such a file was made for other choices, it
counts all the same, and a note says so. The rest comes from the fragments (`kbforge.fit.choose`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from kbforge.clustering.prior import DirichletProcess
from kbforge.contracts import Fragment, Likelihood, OnStage
from kbforge.errors import KBForgeError, UsageError
from kbforge.files.answers import NumberedAnswer, placed, read_answers
from kbforge.fit.alpha import CALIBRATION_FILE, Calibration, read_calibration
from kbforge.fit.choices import DEFAULT_LIKELIHOOD, NO_INDEX, Choices, called, link_note
from kbforge.fit.choose import Chooser, LikelihoodChoice, Stages
from kbforge.fit.confidence import IN_BUNDLE, ConfidenceMap, MonotoneConfidence, read_confidence
from kbforge.fit.maps import AuditedConfidence, shipped_confidence
from kbforge.fit.models import MANY, Fit, Models, make_clusterer, make_models
from kbforge.models.bundle import bundles_read_once
from kbforge.models.resolve import is_name, require_device


def prepare(
    fragments: Sequence[Fragment],
    choices: Choices,
    decided: Sequence[NumberedAnswer] = (),
    on_stage: OnStage | None = None,
) -> Fit:
    """Find what suits the fragments: likelihood, alpha and confidence map, and notes that say why.

    Args:
        fragments: to be clustered.
        choices: what the user chose.
        decided: decisions about pairs of the fragments, which count as answers.
        on_stage: called with each stage: what is learned or tried.

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
    chooser = Chooser(
        fragments, choices.defaults, answers, on_stage, named=choices.likelihood is not None
    )
    with bundles_read_once():
        choice = _choice(chooser, choices, named)
        if choice is not None:
            choices = replace(choices, likelihood=choice.name)
            notes += [choice.note] if choice.note else []
        fitted = None if choice is None else choice.likelihood
        models = make_models(choices, clusterer, notes, fitted, len(fragments) > MANY)
    if fitted is None:
        Stages("preparing", 1, on_stage).begin(f"learning {choices.likelihood_name}")
    _fit(models, fragments, choices, fitted is not None, notes)
    alpha = _alpha(models.likelihood, choices, named, choice, chooser, notes)
    if choices.link is not None:
        notes.append(link_note(fragments, choices.link))
    confidence: ConfidenceMap | None = _named_map(choices, named, notes)
    if confidence is None and any(fragment.properties for fragment in fragments):
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
    )


def _choice(
    chooser: Chooser, choices: Choices, named: Calibration | None
) -> LikelihoodChoice | None:
    """The likelihood of a user who names none.

    Options are those of the attribute model, and a calibration says whose it is.
    """
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
    """Fit the models, but for a likelihood that is fitted already.

    Raises:
        UsageError: the index named finds no key in any fragment.

    """
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
) -> float:
    """The alpha chosen, else the calibration's, else what the file says, else the likelihood's own.

    Args:
        likelihood: fitted to the file.
        choices: which alpha, calibration and likelihood.
        named: as of `named_calibration`.
        choice: what the file chose; None if the user names a likelihood.
        chooser: finds the alpha that suits the file.
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
    if bundle is not None and (bundle / CALIBRATION_FILE).is_file():
        return read_calibration(str(bundle / CALIBRATION_FILE)).alpha
    if choice is not None and choice.alpha is not None:
        return choice.alpha
    found = chooser.alpha(choices.likelihood_name, likelihood)
    if found is not None:
        notes.append(found[1])
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
    """The map named, else that of the calibration named, or of the model bundle.

    Args:
        choices: which map, calibration and likelihood.
        named: as of `named_calibration`.
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
        where = str(bundle / IN_BUNDLE)
        found = read_confidence(where) if (bundle / IN_BUNDLE).is_file() else None
    if found is not None:
        _note_other_choices(choices, found, str(where), notes)
    return found


def answers_for(fragments: Sequence[Fragment], choices: Choices) -> tuple[NumberedAnswer, ...]:
    """The answers of the file that the choices name; none without one.

    Raises:
        KBForgeError: the file cannot be read, or is about other fragments.

    """
    if choices.answers is None:
        return ()
    return tuple(placed(read_answers(choices.answers), fragments, choices.answers))


def named_calibration(choices: Choices) -> Calibration | None:
    """The calibration file that the choices name, if any.

    Raises:
        UsageError: they name an alpha, too.
        KBForgeError: it cannot be read.

    """
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

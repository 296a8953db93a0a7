"""Prepares a run: chooses likelihood, alpha and confidence map for a file, with reasons.

The user's choices have priority. Next come alpha and confidence map of earlier runs, from the file
that the choices name or else from the model bundle. If such a file was made for other choices, it
is used anyway, with a note. A `Chooser` derives the rest from the fragments.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from kbforge.clustering.constraints import reconciled
from kbforge.clustering.rules import DirichletProcess
from kbforge.contracts import (
    Clusterer,
    ConjugateLikelihood,
    Decision,
    Fragment,
    Likelihood,
    OnStage,
)
from kbforge.errors import KBForgeError, UsageError, option
from kbforge.files.answers import NumberedAnswer, placed, read_answers
from kbforge.files.answers import decided as decisions_of
from kbforge.fit.alpha import CALIBRATION_FILE, Calibration, read_calibration
from kbforge.fit.choices import (
    DEFAULT_LIKELIHOOD,
    MANY,
    NO_INDEX,
    Models,
    PreparedRun,
    RunOptions,
    called,
    link_note,
    make_clusterer,
    make_models,
)
from kbforge.fit.chooser import Chooser, LikelihoodChoice, Stages
from kbforge.fit.confidence import (
    IN_BUNDLE,
    AuditedConfidence,
    ConfidenceMap,
    MonotoneConfidence,
    read_confidence,
    shipped_confidence,
)
from kbforge.fit.judge import Judgement
from kbforge.models.bundle import bundles_read_once, is_name, require_device


def prepare(
    fragments: Sequence[Fragment],
    choices: RunOptions,
    decided: Sequence[NumberedAnswer] | None = None,
    on_stage: OnStage | None = None,
    asks: bool = False,
    tables: bool = False,
) -> PreparedRun:
    """Choose likelihood, alpha and confidence map for the fragments, with notes that say why.

    A refit passes the decisions about pairs (`decided`), which count as answers. With `asks` the
    judgement will be used for questions; with `tables` sources may be linked; `on_stage` is called
    at each stage.
    """
    if not fragments:
        raise KBForgeError("there are no fragments to cluster")
    require_device(choices.device)
    notes: list[str] = []
    said, decisions = _answers(choices, fragments)
    answers = (*said, *(decided or ()))
    clusterer = make_clusterer(choices)
    if choices.alpha is not None:
        DirichletProcess(choices.alpha)  # refuses what cannot be one before anything is loaded
    named = _named_calibration(choices)
    chooser = Chooser(
        *(fragments, choices.defaults, answers, on_stage),
        named=choices.likelihood is not None,
        link=choices.link,
        asks=asks,
        tables=tables,
    )
    fitted = None
    with bundles_read_once():
        choice = _choice(chooser, choices, named)
        if choice is not None:
            choices, fitted = replace(choices, likelihood=choice.name), choice.likelihood
            notes += filter(None, (choice.note, _advice(chooser.judgement, choices)))
        models = make_models(choices, clusterer, notes, fitted, len(fragments) > MANY)
    notes += _note_of_a_black_box(models, clusterer, choices, len(fragments))
    if fitted is None:
        Stages("preparing", 1, on_stage).begin(f"learning {choices.likelihood_name}")
    _fit(models, fragments, choices, fitted is not None, notes)
    alpha = _alpha(models.likelihood, choices, named, choice, chooser, notes, decided is not None)
    if choices.link is not None:
        notes.append(link_note(fragments, choices.link))
    confidence = _confidence(fragments, choices, named, models.likelihood, choice, chooser, notes)
    if answers and confidence is not None:
        confidence = AuditedConfidence.of(confidence, answers, fragments)
    return PreparedRun(
        clusterer,
        models.spec(alpha, choices),
        alpha,
        confidence,
        choices.likelihood_name,
        models,
        chooser.judgement,
        tuple(notes),
        choices.of("likelihood") if choice is None else choice.options,
        decisions,
    )


def _answers(
    choices: RunOptions, fragments: Sequence[Fragment]
) -> tuple[tuple[NumberedAnswer, ...], tuple[Decision, ...]]:
    """The answers in the file that the choices name, about these fragments; all as decisions."""
    if choices.answers is None:
        return (), ()
    said = read_answers(choices.answers)
    return tuple(placed(said, fragments, choices.answers)), tuple(decisions_of(said))


def honoured(fit: PreparedRun, fragments: Sequence[Fragment]) -> PreparedRun:
    """The same with its answers as constraints, and notes about contradictory answers.

    If answers contradict each other, the later one holds.
    """
    if not fit.answers:
        return fit
    kept, reasons = reconciled(fit.answers, fit.spec.constraints, fragments)
    constraints = replace(fit.spec.constraints, decisions=tuple(kept))
    spec = replace(fit.spec, constraints=constraints)
    return replace(fit, spec=spec, notes=(*fit.notes, *reasons))


def _choice(
    chooser: Chooser, choices: RunOptions, named: Calibration | None
) -> LikelihoodChoice | None:
    """Choose the likelihood, unless the user names one, sets options of one or gives a
    calibration."""
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
    choices: RunOptions,
    fitted: bool,
    notes: list[str],
) -> None:
    """Fit the models, unless the likelihood is fitted already."""
    index = models.index
    if index is not None and index is not models.likelihood.index:
        index.fit(fragments)
        if not any(index.keys(fragment) for fragment in fragments):
            raise UsageError(
                f"{option('index', called(choices.index))}: it finds no key in any fragment, so "
                f"no fragments would be compared; {option('index', NO_INDEX)} compares with all"
            )
    for model in (None if fitted else models.likelihood, models.surrogate):
        said = None if model is None else model.fit(fragments)
        if said:
            notes.append(said)


def _note_of_a_black_box(
    models: Models, clusterer: Clusterer, choices: RunOptions, fragments: int
) -> list[str]:
    """A note if every fragment is compared with all clusters."""
    asked = choices.index is not None or choices.exact or clusterer.unindexed
    limited = models.index is not None or models.surrogate is not None
    if asked or limited or isinstance(models.likelihood, ConjugateLikelihood):
        return []
    return [
        f"{choices.likelihood_name} scores whole sets and has no index: each of the {fragments:,} "
        f"fragments is compared with all clusters before it, up to "
        f"{fragments * (fragments - 1) // 2:,} comparisons for each grouping that is kept; "
        f"{option('index', 'NAME')} or {option('surrogate', 'NAME')} makes them fewer"
    ]


def _alpha(
    likelihood: Likelihood,
    choices: RunOptions,
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
        notes.append(found[1] if refits else f"{found[1]}; {option('alpha')} overrides it")
        return found[0]
    if bundle is not None and bundle.is_dir():
        notes.append(
            f"{choices.likelihood} has no calibration, so alpha is a guess; "
            f"kbforge calibrate finds it (then {option('calibration')} or {option('alpha')})"
        )
    return float(likelihood.default_alpha)


def _confidence(
    fragments: Sequence[Fragment],
    choices: RunOptions,
    named: Calibration | None,
    likelihood: Likelihood,
    choice: LikelihoodChoice | None,
    chooser: Chooser,
    notes: list[str],
) -> ConfidenceMap | None:
    """The named map, else the shipped one; none for linked tables.

    The posterior of linked tables is more accurate than a map.
    """
    found: ConfidenceMap | None = _named_map(choices, named, notes)
    linked = choices.link is not None or (choice is not None and "link" in choice.options)
    alone = linked and likelihood.takes_link
    if found is not None or alone or not any(f.properties for f in fragments):
        return found
    context = chooser.context(choices.likelihood_name, likelihood)
    return shipped_confidence(context, choices.defaults)


def _named_map(
    choices: RunOptions, named: Calibration | None, notes: list[str]
) -> MonotoneConfidence | None:
    """The named map, else that of the named calibration, or of the model bundle."""
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


def _named_calibration(choices: RunOptions) -> Calibration | None:
    """The calibration file that the choices name, if any; naming an alpha too is an error."""
    if choices.calibration is None:
        return None
    if choices.alpha is not None:
        both = f"{option('alpha')} and {option('calibration')}"
        raise UsageError(f"{both} both set alpha; choose one")
    return read_calibration(choices.calibration)


def _bundle(choices: RunOptions) -> Path | None:
    """The folder that the likelihood was loaded from, if any."""
    chosen = choices.likelihood
    return Path(chosen) if isinstance(chosen, str) and not is_name(chosen) else None


def _same(one: str, other: str) -> bool:
    # a model may since have moved, or be named from another folder
    return Path(one).name == Path(other).name


def _note_other_likelihood(choices: RunOptions, named: Calibration, notes: list[str]) -> None:
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
    choices: RunOptions, found: MonotoneConfidence, where: str, notes: list[str]
) -> None:
    used, clusterer = choices.likelihood_name, choices.clusterer_name
    if not _same(found.likelihood, used):
        notes.append(
            f"the confidence map {where} was fitted with the likelihood {found.likelihood}, used "
            f"here with {used}"
        )
    if found.clusterer != clusterer:
        notes.append(
            f"the confidence map {where} was fitted with {found.clusterer}, used here with "
            f"{clusterer}"
        )


def _listed(options: Mapping[str, object]) -> str:
    return ", ".join(f"{name}={value}" for name, value in options.items()) or "none"


_LEAST_GAIN = 0.01  # F1 that a dozen answers must be expected to gain before anyone is told


def _advice(judged: Judgement | None, choices: RunOptions) -> str:
    """The advice to answer questions, if it is expected to help."""
    if judged is None or judged.answers or choices.alpha is not None:
        return ""
    if judged.gain_of_answers < _LEAST_GAIN:
        return ""
    return (
        f"a dozen answers are expected to gain {judged.gain_of_answers:+.2f}: kbforge review FILE "
        f"asks, and {option('answers', 'answers.jsonl')} uses them"
    )

"""Preparing: from choices to a clusterer and its problem, fitted to the fragments at hand."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from kbforge.clustering.prior import DirichletProcess
from kbforge.contracts import Fragment, OnStage
from kbforge.errors import KBForgeError, UsageError
from kbforge.files.answers import Placed
from kbforge.fit.answered import answers_for
from kbforge.fit.audits import Answered
from kbforge.fit.calibration import Calibration
from kbforge.fit.choices import DEFAULT_LIKELIHOOD, NO_INDEX, Choices, called
from kbforge.fit.choose import Chosen, FromFile, Stages, choose
from kbforge.fit.companions import alpha_of, confidence_of, named_calibration
from kbforge.fit.linking import link_note
from kbforge.fit.making import MANY, Models, Prepared, make_clusterer, make_models
from kbforge.models.bundle import bundles_read_once
from kbforge.models.devices import require_device


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

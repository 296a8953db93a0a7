"""Prepares a run: chooses likelihood, alpha and confidence map for a file, with reasons.

The user's choices have priority. Next come alpha and confidence map of earlier runs, from the file
that the choices name or else from the model bundle. If such a file was made for other choices, it
is used anyway, with a note. A `Chooser` derives the rest from the fragments.

*Choosing.* The likelihoods that can read the file are fitted to it, and the judge
(`kbforge.fit.judge`) compares their groupings.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeVar, cast

import numpy as np

from kbforge import registry
from kbforge.clustering.constraints import components_of, reconciled
from kbforge.clustering.rules import DirichletProcess
from kbforge.contracts import (
    CandidateIndex,
    Clusterer,
    ConjugateLikelihood,
    Decision,
    Fragment,
    Likelihood,
    OnStage,
    Stage,
)
from kbforge.errors import KBForgeError, UsageError, option
from kbforge.files.answers import NumberedAnswer, pair_answers, placed, read_answers
from kbforge.files.answers import decided as decisions_of
from kbforge.files.columns import statements_of
from kbforge.fit.alpha import CALIBRATION_FILE, Calibration, alpha_by_grouping, read_calibration
from kbforge.fit.choices import (
    DEFAULT_LIKELIHOOD,
    MANY,
    NO_INDEX,
    SOURCE,
    Models,
    PreparedRun,
    RunOptions,
    called,
    default_options,
    link_note,
    make_clusterer,
    make_models,
    with_possible_prior,
)
from kbforge.fit.confidence import (
    IN_BUNDLE,
    AuditedConfidence,
    ConfidenceMap,
    MonotoneConfidence,
    read_confidence,
    shipped_confidence,
)
from kbforge.fit.description import FileContext, PairModel, is_pair_model
from kbforge.fit.duplicates import tables_to_link
from kbforge.fit.hypotheses import (
    ALIASES,
    ATTRIBUTES,
    MOST_COMPARED,
    MOST_OF_PAIRS,
    MOST_TO_CHOOSE,
    NAMES,
    PAIRS,
    part_of,
)
from kbforge.fit.judge import Hypothesis, Judgement, judge, with_aliases
from kbforge.fit.labels import read_labels
from kbforge.indexes.selective import Sample, Selective
from kbforge.models.bundle import bundles_read_once, is_name, make_likelihood, require_device
from kbforge.texts.statements import values_read_once


@values_read_once()
def prepare(
    fragments: Sequence[Fragment],
    choices: RunOptions,
    decided: Sequence[NumberedAnswer] | None = None,
    on_stage: OnStage | None = None,
    tables: bool = False,
) -> PreparedRun:
    """Choose likelihood, alpha and confidence map for the fragments, with notes that say why.

    A refit passes the decisions about pairs (`decided`), which count as answers. With `tables`
    sources may be linked; `on_stage` is called at each stage.
    """
    if not fragments:
        raise KBForgeError("there are no fragments to cluster")
    require_device(choices.device)
    notes: list[str] = []
    said, decisions = _answers(choices, fragments)
    answers = (*said, *(decided or ()))
    clusterer = make_clusterer(choices)
    choices = with_possible_prior(choices, clusterer)
    named = _named_calibration(choices)
    chooser = Chooser(
        *(fragments, choices.defaults, answers, on_stage, choices.labels_from),
        named=choices.likelihood is not None,
        link=choices.link,
        tables=tables,
        exponent=choices.size_exponent,
    )
    fitted = None
    with bundles_read_once():
        choice = _choice(chooser, choices, named)
        if choice is not None:
            choices, fitted = replace(choices, likelihood=choice.name), choice.likelihood
            notes += filter(None, (choice.note, _advice(chooser.judgement, choices, answers)))
        models = make_models(choices, clusterer, notes, fitted, len(fragments) > MANY)
    notes += _note_of_a_black_box(models, clusterer, choices, len(fragments))
    if fitted is None:
        Stages("preparing", 1, on_stage).begin(f"learning {choices.likelihood_name}")
    _fit(models, fragments, choices, fitted is not None, notes)
    if fitted is None:
        models = models.taught(chooser.teach)
    prior = _prior(models.likelihood, choices, named, choice, chooser, notes, decided is not None)
    notes += _lessons(models.likelihood, chooser.fitted.get(PAIRS))
    if choices.link is not None:
        notes.append(link_note(fragments, choices.link))
    confidence = _confidence(fragments, choices, named, models.likelihood, choice, chooser, notes)
    if answers and confidence is not None:
        confidence = AuditedConfidence.of(confidence, answers, fragments)
    return PreparedRun(
        clusterer,
        models.spec(prior, choices),
        confidence,
        choices.likelihood_name,
        models,
        tuple(notes),
        _with_layer(choices.of("likelihood") if choice is None else choice.options, models),
        decisions,
    )


def judged_by_pairs(fragments: Sequence[Fragment], choices: RunOptions) -> Judgement | None:
    """What the judge makes of a file without answers; None if it is not asked.

    A likelihood that the choices name is the choice if the judge compares its grouping.
    """
    chooser = Chooser(fragments, choices.defaults, link=choices.link)
    chooser.choose()
    judged = chooser.judgement
    if judged is None or choices.likelihood is None:
        return judged
    return judged.only(choices.likelihood_name)


def _lessons(*likelihoods: Likelihood | None) -> list[str]:
    """What answers taught the first that learned from them, in words."""
    lessons = (getattr(likelihood, "lesson", None) for likelihood in likelihoods)
    return [str(lesson) for lesson in lessons if lesson is not None][:1]


def _with_layer(options: Mapping[str, object], models: Models) -> Mapping[str, object]:
    """Options that make a likelihood again, with what answers taught it."""
    weights: Sequence[float] = getattr(models.likelihood, "layer", ())
    plain = {name: value for name, value in options.items() if name != "layer"}
    return {**plain, **({"layer": ",".join(map(str, weights))} if weights else {})}


def _answers(
    choices: RunOptions, fragments: Sequence[Fragment]
) -> tuple[tuple[NumberedAnswer, ...], tuple[Decision, ...]]:
    """The answers in the file that the choices name, about these fragments; all as decisions."""
    if choices.answers is None:
        return (), ()
    said = read_answers(choices.answers)
    return tuple(placed(said, fragments, choices.answers)), tuple(decisions_of(said))


def honoured(fit: PreparedRun, fragments: Sequence[Fragment]) -> PreparedRun:
    """The same with its answers as constraints, and notes about rules and contradictions.

    If answers contradict each other, the later one holds.
    """
    constraints, reasons = fit.spec.constraints, list[str]()
    if fit.answers:
        kept, reasons = reconciled(fit.answers, constraints, fragments)
        constraints = replace(constraints, decisions=tuple(kept))
    if any(constraints.rules):
        reasons += components_of(constraints, fragments).told()
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


def _prior(
    likelihood: Likelihood,
    choices: RunOptions,
    named: Calibration | None,
    choice: LikelihoodChoice | None,
    chooser: Chooser,
    notes: list[str],
    refits: bool,
) -> DirichletProcess:
    """The alpha chosen, else the calibration's, else the file's, else the likelihood's own.

    Only the file's comes with an exponent of sizes; others have the one asked for, or 1.
    """
    if choices.alpha is not None:
        return choices.prior
    if named is not None:
        _note_other_likelihood(choices, named, notes)
        return replace(choices.prior, alpha=named.alpha)
    bundle = _bundle(choices)
    if bundle is not None and (bundle / CALIBRATION_FILE).is_file():
        calibrated = read_calibration(str(bundle / CALIBRATION_FILE)).alpha
        return replace(choices.prior, alpha=calibrated)
    if choice is not None and choice.prior is not None:
        return choice.prior
    found = chooser.prior(choices.likelihood_name, likelihood)
    if found is not None:
        notes.append(found[1] if refits else f"{found[1]}; {option('alpha')} overrides it")
        return found[0]
    if bundle is not None and bundle.is_dir():
        notes.append(
            f"{choices.likelihood} has no calibration, so alpha is a guess; "
            f"kbforge calibrate finds it (then {option('calibration')} or {option('alpha')})"
        )
    return default_prior(likelihood, choices.size_exponent)


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


def default_prior(likelihood: Likelihood, exponent: float | None) -> DirichletProcess:
    """The likelihood's own prior, with another exponent of sizes if one is asked for."""
    asked = likelihood.default_exponent if exponent is None else exponent
    return DirichletProcess(float(likelihood.default_alpha), asked)


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
            f"{choices.calibration} was made with different options of the likelihood: "
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


def _advice(judged: Judgement | None, choices: RunOptions, answers: Sequence[object]) -> str:
    """The advice to answer questions, if it is expected to help."""
    if judged is None or answers or choices.labels_from or choices.alpha is not None:
        return ""
    if not judged.wants_answers:
        return ""
    return (
        f"answers to a dozen questions may help: kbforge review FILE asks, and "
        f"{option('answers', 'answers.jsonl')} uses them"
    )


_CHOOSES_FROM = PAIRS, ATTRIBUTES
_OF_VECTORS = "gaussian"
_ALPHA_OF_TABLES = 5.5
"""For sources that are one to one: this alpha costs a third record more than it can gain from one
of a pair by the best odds, minus those of records that are never compared (6 - 5 + log 2 nats)."""


AnyLikelihood = TypeVar("AnyLikelihood", bound=Likelihood)


@dataclass(frozen=True, eq=False)
class LikelihoodChoice:
    """The chosen likelihood for a file."""

    name: str
    likelihood: Likelihood | None = None  # fitted to the file; None if it is still to be made
    prior: DirichletProcess | None = None  # None if it is still to be found
    note: str = ""  # one sentence for the user, if there is anything to say
    options: Mapping[str, object] = field(default_factory=dict)  # found besides


class Chooser:
    """Chooses likelihood and prior for one unlabelled file; fits each likelihood once.

    Exact names and the likelihoods of `_CHOOSES_FROM` are compared on the file, each at its own
    alpha (`kbforge.fit.judge`). Another likelihood that the user names (`named`) gets the alpha
    under which it opens as many entities as the best grouping has (`kbforge.fit.alpha`).

    In a large file only the pairs of a part are compared (`kbforge.fit.hypotheses`), unless the
    model of pairs clusters; then confidence maps do not read its pairs. In a file of hundreds of
    thousands of fragments the model of pairs is not considered. Answers teach the model of pairs.

    If fragments are linked (`link`), the model of pairs compares those of different tables, with
    its own alpha, because the judge was not trained on one-to-one groupings. It does the same if
    `tables` allows it, the file's sources are tables, and the model finds them to be one to one.
    Then records of the same table may still be one entity, but only if they state the same, or are
    similar to several records of other tables.
    """

    def __init__(
        self,
        fragments: Sequence[Fragment],
        defaults: str | None = None,
        answers: Sequence[NumberedAnswer] = (),
        on_stage: OnStage | None = None,
        labels: str | None = None,
        named: bool = False,
        link: str | None = None,
        tables: bool = False,
        exponent: float | None = None,
    ) -> None:
        self._exponent = exponent
        self._fragments, self._defaults = fragments, defaults
        self._answers = pair_answers(answers, fragments)
        if answers and labels is not None:
            both = f"{option('answers')} and {option('labels-from')}"
            raise UsageError(f"{both} cannot be combined; answers can be in the file of labels")
        self._labels = None if labels is None else read_labels(labels)
        self._on_stage, self._link = on_stage, link
        self._looks_for_tables = tables and link is None and not answers
        self._most = MOST_COMPARED if named else MOST_TO_CHOOSE
        self.judgement: Judgement | None = None
        self.fitted: dict[str, ConjugateLikelihood] = {}

    def choose(self, any_alpha: bool = True) -> LikelihoodChoice:
        """Choose likelihood and alpha for a file.

        Exact names, which have no alpha, are not considered if alpha is given (not `any_alpha`).
        """
        if not self._described:
            note = f"chosen: {_OF_VECTORS}, as the fragments have vectors and no properties"
            return LikelihoodChoice(_OF_VECTORS, note=f"{note}; {_override()}")
        fragments = self._fragments
        by_pairs = len(fragments) <= MOST_OF_PAIRS and PAIRS in _readable()
        if self._link is not None and by_pairs:
            return self._linked()
        if self._looks_for_tables and by_pairs and (found := self._tables()) is not None:
            return found
        stages = Stages("choosing a likelihood", 2 * len(_readable()), self._on_stage)
        file = _File(fragments, MOST_TO_CHOOSE)
        fitted = self.fitted = self._fit_likelihoods(file, stages)
        judged = _judge_file(file, fitted, stages)
        too_large = len(fragments) > self._most_of_pairs
        if not any_alpha:
            judged = judged.without(NAMES)
        elif not too_large and ALIASES in registry.names("likelihoods") and of_graph(fragments):
            judged = with_aliases(judged, self._fitted(ALIASES))
        if too_large:
            judged = judged.without(PAIRS)
        self.judgement, best = judged, judged.chosen
        chosen = fitted.get(best.likelihood) or self._fitted(best.likelihood)
        prior = self._prior_of(best, chosen)
        if best.likelihood == PAIRS and file.part is not None:
            chosen.fit(fragments)
        note = self._why(judged, prior if any_alpha else None)
        return LikelihoodChoice(best.likelihood, chosen, prior, note)

    def _fitted(self, name: str) -> ConjugateLikelihood:
        """A likelihood without options, fitted to the whole file."""
        likelihood = make_likelihood(name, {})
        assert isinstance(likelihood, ConjugateLikelihood)
        likelihood.fit(self._fragments)
        self.fitted[name] = likelihood
        return likelihood

    def _why(self, judged: Judgement, prior: DirichletProcess | None) -> str:
        """The choice in words; without a prior if the user gives alpha."""
        why = _why(judged, prior)
        if len(self._fragments) > self._most_of_pairs:
            why += f"; {PAIRS} is not considered above {self._most_of_pairs:,} fragments"
        return why

    @property
    def _most_of_pairs(self) -> int:
        """Maximum fragments of a file that the model of pairs may cluster."""
        return MOST_OF_PAIRS if self._answers or self._labels else MOST_TO_CHOOSE

    def _with_alpha(self, alpha: float) -> DirichletProcess:
        return DirichletProcess(alpha, 1.0 if self._exponent is None else self._exponent)

    def _linked(self) -> LikelihoodChoice:
        """The model of pairs between different tables."""
        Stages("choosing a likelihood", 1, self._on_stage).begin("comparing records across tables")
        likelihood = make_likelihood(PAIRS, self._options(PAIRS))
        said = likelihood.fit(self._fragments)
        likelihood = self.teach(likelihood)
        note = f"chosen: {PAIRS}, which compares records of different tables; {_override()}"
        note = "; ".join(filter(None, (note, said)))
        prior = default_prior(likelihood, self._exponent)
        return LikelihoodChoice(PAIRS, likelihood, prior, note)

    def _tables(self) -> LikelihoodChoice | None:
        """The model of pairs between the file's sources, if these are tables and one to one."""
        tables = tables_to_link(self._fragments)
        if not tables:
            return None
        stages = Stages("choosing a likelihood", 1, self._on_stage)
        stages.begin(f"comparing records across {tables}")
        options = default_options(PAIRS, self._defaults, SOURCE)
        likelihood = make_likelihood(PAIRS, options)
        said = likelihood.fit(self._fragments)
        if not cast(PairModel, likelihood).one_to_one:
            return None
        likelihood = self.teach(likelihood)
        note = (
            f"chosen: {PAIRS}, which compares records of different sources: the fragments are "
            f"of {tables} whose records seem to be one to one; {_override()}, or forbid that "
            f"records of a table are one with {option('link', 'source')}"
        )
        note = "; ".join(filter(None, (note, said)))
        found = {"link": SOURCE}
        prior = self._with_alpha(_ALPHA_OF_TABLES)
        return LikelihoodChoice(PAIRS, likelihood, prior, note, found)

    def prior(self, name: str, likelihood: Likelihood) -> tuple[DirichletProcess, str] | None:
        """The prior for a fitted likelihood and a sentence about it; None without evidence."""
        if not likelihood.alpha_from_file or not self._described:
            return None
        if self._link is not None and likelihood.takes_link:
            return None
        name = _judged_as(name, likelihood)
        if name in _readable():
            judged = self._judge_named(name, likelihood)
            prior = self._prior_of(judged.chosen, likelihood)
            return prior, f"{_prior_called(prior)} suits this file"
        file = _File(self._fragments, MOST_COMPARED, likelihood.index)
        stages = Stages("choosing alpha", 2 * len(_readable()), self._on_stage)
        fitted = self.fitted = self._fit_likelihoods(file, stages)
        self.judgement = judged = _judge_file(file, fitted, stages)
        sample, clusters = judged.sample.fragments, judged.chosen.clusters
        prior = self._with_alpha(alpha_by_grouping(likelihood, sample, clusters))
        why = f"opens as many entities as {judged.chosen.likelihood} finds in this file"
        return prior, f"{_prior_called(prior)} {why}"

    def context(self, name: str, likelihood: Likelihood) -> FileContext:
        """What the shipped confidence maps read of the file, besides its fragments."""
        name = _judged_as(name, likelihood)
        if self.judgement is None and self._link is None and name in _readable():
            self._judge_named(name, likelihood)
        pairs: Likelihood | None = likelihood
        if name != PAIRS and len(self._fragments) > self._most:
            pairs = None
        elif name != PAIRS:
            if PAIRS not in self.fitted:
                file = _File(self._fragments, self._most)
                stages = Stages("learning how far to trust the result", 1, self._on_stage)
                self.fitted |= self._fit_likelihoods(file, stages, only=PAIRS)
            pairs = self.fitted.get(PAIRS)
        predicted = None if self.judgement is None else self.judgement.predicted(name)
        return FileContext(name, cast(PairModel | None, pairs), predicted)

    def _prior_of(self, found: Hypothesis, likelihood: Likelihood) -> DirichletProcess:
        """The prior under which a likelihood finds a grouping."""
        own = default_prior(likelihood, self._exponent)
        return own if found.alpha is None else replace(own, alpha=found.alpha)

    def _judge_named(self, name: str, likelihood: Likelihood) -> Judgement:
        """Judge a likelihood that the user named, beside the others that could be chosen."""
        most = sys.maxsize if name == PAIRS else self._most
        file = _File(self._fragments, most, likelihood.index)
        of = 2 * len(_readable()) - 1
        stages = Stages("learning how far to trust the result", of, self._on_stage)
        given = {name: cast(ConjugateLikelihood, likelihood)}
        self.fitted = self._fit_likelihoods(file, stages, given)
        self.judgement = _judge_file(file, self.fitted, stages).only(name)
        return self.judgement

    def _fit_likelihoods(
        self,
        file: _File,
        stages: Stages,
        given: Mapping[str, ConjugateLikelihood] = MappingProxyType({}),
        only: str = "",
    ) -> dict[str, ConjugateLikelihood]:
        """The likelihoods to choose from that can read the file; answers have taught them.

        Those given are fitted to the file. One that the model of pairs reads is fitted once: where
        a part is compared, to the file.
        """
        out = dict(given)
        known = {**given, **(cast(PairModel, given[PAIRS]).reads if PAIRS in given else {})}
        names = [name for name in _readable() if only in ("", name)]
        for name in reversed(names) if file.is_large else names:
            if name in given:
                continue
            stages.begin(f"learning {name}")
            read = file.read_by(name)
            likelihood = known.get(name) or make_likelihood(name, self._options(name))
            assert isinstance(likelihood, ConjugateLikelihood)
            try:
                if name == PAIRS:
                    cast(PairModel, likelihood).fit(read, known.get(ATTRIBUTES))
                elif name not in known:
                    likelihood.fit(read)
            except UsageError:  # it finds nothing to read
                continue
            out[name] = self.teach(likelihood)
            if read is file.fragments:
                file.fitted.append(out[name].index)
                known[name] = likelihood
                known |= cast(PairModel, out[name]).reads if name == PAIRS else {}
        return {name: out[name] for name in names if name in out}

    def teach(self, likelihood: AnyLikelihood) -> AnyLikelihood:
        """A fitted likelihood with what labels or answers teach it."""
        if self._labels is not None:
            return self._labels.teach(likelihood, self._fragments)
        return likelihood.taught(self._answers) if self._answers else likelihood

    def _options(self, name: str) -> dict[str, Any]:
        return default_options(name, self._defaults, self._link)

    @property
    def _described(self) -> bool:
        """Whether a fragment has a property."""
        return any(fragment.properties for fragment in self._fragments)


_OF_GRAPHS = "neighbour"
_LEAST_CONNECTED = 0.1


def of_graph(fragments: Sequence[Fragment]) -> bool:
    """Whether they are mentions of a graph, many of which state their neighbours."""
    stated = statements_of(fragments)
    if _OF_GRAPHS not in stated.attributes:
        return False
    connected = stated.attribute == stated.attributes.index(_OF_GRAPHS)
    fragment = np.searchsorted(stated.starts, np.flatnonzero(connected), side="right")
    return len(np.unique(fragment)) >= _LEAST_CONNECTED * len(fragments)


def _judged_as(name: str, likelihood: Likelihood) -> str:
    """The name that judge and confidence maps know: that of a model of pairs, wherever it is."""
    return PAIRS if is_pair_model(likelihood) else name


class _File:
    """A file, only a part of which is compared if it has more than `most` fragments; `fitted` are
    indexes of likelihoods that were fitted to it."""

    def __init__(
        self, fragments: Sequence[Fragment], most: int, fitted: CandidateIndex | None = None
    ) -> None:
        self.fragments, self._most, self.fitted = fragments, most, [fitted]

    @property
    def is_large(self) -> bool:
        """Whether pairs are compared only in a part of it."""
        return len(self.fragments) > self._most

    @cached_property
    def index(self) -> CandidateIndex:
        """The index, fitted to the file."""
        index = Selective()
        for fitted in self.fitted:
            if fitted is not None and index.like(fitted):
                return fitted
        index.fit(self.fragments)
        return index

    @cached_property
    def part(self) -> Sample | None:
        """The part in which pairs are compared; None is the whole file."""
        if not self.is_large:
            return None
        return part_of(self.fragments, self.index)

    def read_by(self, likelihood: str) -> Sequence[Fragment]:
        """The fragments that a likelihood is fitted to before it is chosen."""
        if likelihood != PAIRS or self.part is None:
            return self.fragments
        return self.part.fragments


class Stages:
    """Counts the stages of the work, and reports each to `on_stage`."""

    def __init__(self, what: str, of: int, on_stage: OnStage | None) -> None:
        self._what, self._of, self._on_stage, self._number = what, of, on_stage, 0

    def begin(self, doing: str) -> None:
        """Report the next stage."""
        self._number += 1
        if self._on_stage is not None:
            self._on_stage(Stage(f"{self._what}: {doing}", self._number, self._of))


def _readable() -> list[str]:
    """The likelihoods to choose from that are installed."""
    return [name for name in _CHOOSES_FROM if name in registry.names("likelihoods")]


def _judge_file(file: _File, fitted: dict[str, ConjugateLikelihood], stages: Stages) -> Judgement:
    pairs = cast(PairModel | None, fitted.get(PAIRS))

    def trying(name: str) -> None:
        stages.begin(f"trying {name}")

    return judge(file.fragments, fitted, file.index, pairs, file.part, trying)


def _prior_called(prior: DirichletProcess) -> str:
    """Alpha and, unless it is 1, the exponent of sizes, in words."""
    power = "" if prior.exponent == 1 else f" with size exponent {prior.exponent:g}"
    return f"alpha {prior.alpha:,.4g}{power}"


def _why(judged: Judgement, prior: DirichletProcess | None) -> str:
    name, gain = judged.chosen.likelihood, judged.expected_gain
    if name == NAMES:
        return (
            f"chosen: {NAMES} (only identical names were merged; nothing else looked safe; "
            f"{_override()})"
        )
    over = f", {gain:+.2f} over equal names" if gain > 0 else ""
    expected = f"expected F1 {judged.expected_f1:.2f}{over}; " if judged.pairs is not None else ""
    alpha = "" if prior is None else f" with {_prior_called(prior)}"
    return f"chosen: {name}{alpha} ({expected}{_override()})"


def _override() -> str:
    return f"name another with {option('likelihood')}"

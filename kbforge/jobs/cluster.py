"""Clusters a file: load, prepare, cluster, assemble, write.

    fragments = list(read_fragments("people.jsonl"))   # load: `kbforge.jobs.load` reads any format
    kb = cluster(fragments, RunOptions(alpha=20))         # prepare and cluster
    kb.write("kb.jsonl")                               # assemble and write

`kbforge cluster` is these three lines with a progress bar, and the Python API is these functions.

A live clustering adds fragments at any time and keeps the knowledge base up to date:

    live = open_live(fragments, RunOptions(alpha=20))   # learns from the fragments, adds none
    live.add(fragments)
    live.add(more)
    live.knowledge_base().write("kb.jsonl")

Vocabulary, base counts and alpha are fixed when it is opened, and learned from the fragments given
then.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, cast

import numpy as np

from kbforge.clustering.constraints import rule_of
from kbforge.contracts import (
    Constraints,
    Decision,
    Entity,
    FloatArray,
    Fragment,
    IntArray,
    OnStage,
    OnStep,
    Posterior,
    Progress,
    Provenance,
    Session,
    Snapshot,
    StepResult,
)
from kbforge.contracts.entity import table_html
from kbforge.errors import UsageError, counted, listed, option, percent, quoted
from kbforge.evaluation.reliability import entity_probabilities
from kbforge.files.arrow import ArrowTable
from kbforge.files.columns import Statements, in_metadata, statements_of
from kbforge.files.io import open_output
from kbforge.files.rules import read_rules
from kbforge.fit.authority import Authority, KnownEntities, entered
from kbforge.fit.choices import (
    PreparedRun,
    RunOptions,
    made_of,
    note_of_cut,
    require_link,
    require_rules,
)
from kbforge.fit.confidence import ConfidenceMap, told_of_entities
from kbforge.fit.duplicates import duplicates_note
from kbforge.fit.features import ClusteringReport
from kbforge.fit.identity import second_pass
from kbforge.fit.prepare import honoured, prepare
from kbforge.kb.entities import (
    MOST_ALTERNATIVES,
    Annotator,
    Corpus,
    Lines,
    entities_of,
    entity_lines,
    firsts_of_entities,
    ids_of_entities,
    with_made,
)
from kbforge.kb.facts import Facts
from kbforge.kb.links import KnownLink, Link, known_links_of, links_of
from kbforge.kb.pools import Pools
from kbforge.kb.read import largest
from kbforge.kb.relations import AUTO, Relations, declared_in, require_attributes, trusted
from kbforge.kb.times import StatedTimes
from kbforge.kb.view import FUSED, EntitiesView, GoldenView, read_policy, table_of
from kbforge.texts.statements import values_read_once

_SHOWN_ENTITIES = 10


def cluster(
    fragments: Sequence[Fragment],
    choices: RunOptions,
    on_step: OnStep | None = None,
    on_stage: OnStage | None = None,
    against: Authority | None = None,
    all_known: bool = False,
) -> KnowledgeBase:
    """Cluster fragments with distinct ids, in the given order.

    Args:
        fragments: to cluster.
        choices: likelihood, clusterer, alpha and other options.
        on_step: called after every step; it may raise `Interrupted` to end the run.
        on_stage: called at each stage before the first step.
        against: known entities; fragments close to one of them come first.
        all_known: whether the knowledge base includes known entities that no fragment joined.

    Raises:
        KBForgeError: as `prepare`.
        UsageError: a fragment has the id of one of the authority.
        LikelihoodError: the likelihood failed on a fragment, which the message names.

    """
    begin = time.perf_counter()
    fragments, known = in_metadata(fragments, choices.time), None
    if against is not None:
        fragments, known = entered(fragments, against, choices, all_known, on_stage)
    require_link(fragments, choices.link)
    require_rules(fragments, read_rules(choices.rules))
    require_attributes(fragments, choices.refers)
    dated = StatedTimes(fragments, choices.time)
    told = dated.note()  # it says at once if there are none
    with values_read_once():
        prepared = prepare(fragments, choices, on_stage=on_stage, tables=known is None)
        prepared = honoured(prepared if known is None else known.honoured(prepared), fragments)
        ready = time.perf_counter()
        posterior, prepared = _clustered(fragments, prepared, choices, on_step, known is None)
    reached = fragments[: posterior.n_fragments]  # of an interrupted run a prefix
    taken, too_large = _estimated(posterior, choices.estimate, prepared.spec.constraints, reached)
    others = told, too_large, note_of_cut(posterior.merges_cut)
    made = made_of(prepared, choices)
    return KnowledgeBase(
        reached,
        taken,
        Times(preparing=ready - begin, clustering=time.perf_counter() - ready),
        *(prepared.alpha, prepared.confidence),
        _notes(fragments, prepared, choices, others),
        prepared.likelihood,
        choices.alternatives,
        prepared.spec.likelihood.probability,
        made if known is None else known.recorded(made),
        known,
        len(fragments),
        size_exponent=prepared.spec.exponent,
        refers=choices.refers,
        dated=dated,
        decisions=prepared.spec.constraints.decisions,
    )


def _clustered(
    fragments: Sequence[Fragment],
    prepared: PreparedRun,
    choices: RunOptions,
    on_step: OnStep | None,
    twice: bool,
) -> tuple[Posterior, PreparedRun]:
    """The posterior, with identity as evidence if it may take two passes, and its run.

    If the second pass is interrupted, the first grouping is what there is.
    """
    if on_step is not None and not prepared.spec.likelihood.probability:
        on_step = _telling_scores(on_step)
    rng, run = np.random.default_rng(choices.seed), prepared.clusterer.cluster
    first, again = run(fragments, prepared.spec, rng, on_step), None
    if twice and first.complete:
        again = second_pass(fragments, lambda: firsts_of_entities(first), prepared, choices)
    if again is None:
        return first, prepared
    second = run(again.fragments, again.prepared.spec, rng, on_step)
    if not second.complete:
        return replace(first, ended=second.ended), prepared
    return second, again.prepared


def _notes(
    fragments: Sequence[Fragment], prepared: PreparedRun, choices: RunOptions, others: Iterable[str]
) -> tuple[str, ...]:
    """All sentences for the user: also about tables and their duplicates, unless the likelihood's
    own note has it."""
    told = choices.link is None and "link" in prepared.options
    tables = "" if told else duplicates_note(fragments, choices.link)
    return (*prepared.notes, *filter(None, (tables, *others)))


def _estimated(
    posterior: Posterior, estimate: str, constraints: Constraints, fragments: Sequence[Fragment]
) -> tuple[Posterior, str]:
    """The posterior with the estimate named, and a sentence on subproblems too large for it."""
    if estimate == "map":
        return posterior, ""
    from kbforge.kb.consensus import MOST, consensus

    taken = consensus(posterior, estimate, rule_of(constraints, fragments))
    large = sum(len(s.fragments) > MOST and len(s.particles) > 1 for s in posterior.subproblems)
    named = option("estimate", estimate)
    said = f"{named}: {counted(large, 'subproblem')} of more than {MOST:,} fragments"
    return taken, f"{said} kept the most probable grouping" if large else ""


def _telling_scores(on_step: OnStep) -> OnStep:
    """Wrap `on_step` to mark log posteriors as scores."""

    def told(progress: Progress) -> None:
        rounds = progress.rounds
        if rounds is not None:
            progress = replace(progress, rounds=replace(rounds, probability=False))
        on_step(progress)

    if getattr(on_step, "seldom", False):
        told.seldom = True  # type: ignore[attr-defined]
    return told


@dataclass(frozen=True, slots=True)
class Times:
    """Wall time of the parts of a run, in seconds; commands add reading, and from confidence on."""

    reading: float = 0.0
    preparing: float = 0.0  # choosing likelihood and alpha, and learning from the file
    clustering: float = 0.0
    confidence: float = 0.0
    assembling: float = 0.0
    writing: float = 0.0

    @property
    def total(self) -> float:
        """The sum."""
        return math.fsum(asdict(self).values())


@dataclass(frozen=True, repr=False)
class KnowledgeBase:
    """The result of a clustering, ready to read and write.

    Attributes:
        fragments: the clustered fragments, in order.
        posterior: the groupings and their probabilities.
        times: of each part of the run.
        alpha: the concentration used.
        confidence: the map of the entities' confidence, None if there is none.
        notes: sentences for the user about what was fitted and ignored.
        likelihood: name of the likelihood used, or the path of its bundle.
        alternatives: which other groupings an entity keeps, as in `RunOptions`.
        probability: whether the likelihood is a probability model; otherwise the log posterior is a
            score.
        made: how it was made.
        known: the known entities that the fragments were clustered against, if any; these come
            first.
        n_given: the number of fragments to cluster.
        number_ids: whether the clustered table had integer ids, so that `members` and `pairs`
            return integers, too.
        size_exponent: of the prior's factor (|C| - 1)!; 1 is the Dirichlet process.
        refers: the attributes whose values name entities, as in `RunOptions`.
        dated: the times of the fragments' statements, if they have any.
        decisions: that the groupings honour.

    """

    fragments: Sequence[Fragment]
    posterior: Posterior
    times: Times
    alpha: float
    confidence: ConfidenceMap | None
    notes: tuple[str, ...]
    likelihood: str = ""
    alternatives: str = "few"
    probability: bool = True
    made: Provenance | None = None
    known: KnownEntities | None = None
    n_given: int = 0
    number_ids: bool = False
    size_exponent: float = 1.0
    refers: str = AUTO
    dated: StatedTimes | None = None
    decisions: Sequence[Decision] = ()

    def __repr__(self) -> str:
        entities = counted(sum(map(len, self.posterior.estimates())), "entity", "entities")
        how = f"likelihood {quoted(self.likelihood)}, " if self.likelihood else ""
        ended = "" if self.complete else ", interrupted"
        held = counted(len(self.fragments), "fragment")
        return f"KnowledgeBase({held}, {entities}, {how}alpha {self.alpha:,.4g}{ended})"

    def _repr_html_(self) -> str:
        """The largest entities, for notebooks."""
        rows = [
            (
                *(e.name, len(e.fragments), percent(e.confidence)),
                "; ".join(f"{name} {values[0].value}" for name, values in e.properties.items()),
            )
            for e in largest(self.entities, _SHOWN_ENTITIES)
        ]
        left = len(self.entities) - len(rows)
        below = f"and {counted(left, 'entity', 'entities')} more" if left else ""
        return table_html(("entity", "fragments", "confidence", "values"), rows, repr(self), below)

    @property
    def seconds(self) -> float:
        """Wall time of the whole run."""
        return self.times.total

    @property
    def complete(self) -> bool:
        """Whether the run was completed, not interrupted."""
        return self.posterior.complete

    @cached_property
    def entities(self) -> tuple[Entity, ...]:
        """The entities, all in memory, in the order of the file."""
        return tuple(entities_of(self._lines()))

    @cached_property
    def links(self) -> tuple[Link, ...] | tuple[KnownLink, ...]:
        """The links between tables, or from mentions to the entities of an authority."""
        if self.known is not None:
            return tuple(known_links_of(self.fragments, self.posterior))
        return tuple(links_of(self.fragments, self.posterior))

    @cached_property
    def _corpus(self) -> Corpus:
        found = () if self._relations is None else self._relations.attributes
        return Corpus.of(self._stated, (*found, *declared_in(self.refers)))

    @cached_property
    def _stated(self) -> Statements:
        return statements_of(self.fragments)

    @cached_property
    def _calibrated(self) -> FloatArray | None:
        """The calibrated confidence of every cluster of the point estimate, by first fragment; 0
        for other fragments."""
        if self.confidence is None:
            return None
        entities = entity_probabilities([self.posterior])
        report = ClusteringReport(self.fragments, entities, stated=self._stated)
        sure = np.zeros(len(self.fragments))
        sure[entities.firsts] = told_of_entities(self.confidence, report, self.decisions)
        return sure

    def members(self) -> ArrowTable:
        """One row per fragment: id, entity_id, entity_name, confidence, reported."""
        return table_of(self._view(), "members", self.number_ids)

    def wide(self, policy: str | Path = FUSED) -> ArrowTable:
        """One row per entity: a golden record, with one column per attribute.

        Args:
            policy: which values it keeps: "fused", "most-stated", "latest", "longest", "all"
                (joined by `|`), or a TOML file.

        Raises:
            KBForgeError: no such policy, or a bad file.

        """
        rule = read_policy(str(policy))
        fragments = self.fragments if rule.needs_fragments else None
        view = self._view(fragments)
        return table_of(GoldenView(view, rule), "wide")

    def pairs(self, threshold: float = 0.5) -> ArrowTable:
        """One row per pair of fragments that are one entity with more than this probability.

        Only the groupings that entities keep count: `cluster(..., alternatives="all")` keeps all.

        Raises:
            UsageError: the threshold is not a probability below 1.

        """
        return table_of(self._view(), "pairs", self.number_ids, threshold=threshold)

    def relations(self) -> ArrowTable:
        """One row per relation between two entities: an attribute whose values name entities."""
        return table_of(self._view(), "relations")

    def _view(self, fragments: Sequence[Fragment] | None = None) -> EntitiesView:
        return EntitiesView(lambda: iter(self.entities), fragments)

    def write(self, output: str | Path) -> str:
        """Write the entities as JSON lines; "-" is standard output, `.gz` compresses.

        An interrupted run never passes for a completed one: it is written to OUTPUT.partial.

        Returns the file that was written.

        Raises:
            KBForgeError: it cannot be written.

        """
        target = self.target(str(output))
        self.write_as(target)
        return target

    def target(self, output: str) -> str:
        """The file that `write` uses for OUTPUT."""
        return output if self.complete or output == "-" else partial_name(output)

    def write_as(
        self,
        target: str,
        follow: Callable[[Iterator[Lines]], Iterator[Lines]] = lambda lines: lines,
    ) -> None:
        """Write under exactly this name, even if the run is incomplete.

        `follow` passes lines on as they are made, each time with the number of entities.
        """
        with open_output(target) as out:
            for _, lines in follow(self._lines()):
                out.write(lines)

    def _lines(self) -> Iterator[Lines]:
        most = None if self.alternatives == "all" else MOST_ALTERNATIVES
        known = () if self.known is None else self.known.authority.ids
        ids = ids_of_entities(self.fragments, self.posterior, known)
        shown = most, self._calibrated, ids, self._corpus, self._annotators(ids)
        found = entity_lines(self.fragments, self.posterior, *shown)
        if self.known is not None:
            n = len(self.posterior.subproblems)
            kept = self.known.kept(entities_of(found), self.fragments, n)
            found = ((1, entity.to_line()) for entity in kept)
        return with_made(found, self.made)

    def _annotators(self, ids: Mapping[int, str]) -> list[Annotator]:
        """What says more about the values of the entities with these ids."""
        facts, relations, dated = self._facts, self._relations, self.dated
        return [
            *([facts.annotate] if facts else ()),
            *([relations.annotator(ids, self._trust)] if relations else ()),
            *([dated.annotator(self._corpus.several, self._pools)] if dated else ()),
        ]

    def _trust(self, entities: IntArray) -> FloatArray:
        """A `Trust`, by the confidence of entities."""
        sure = self._calibrated
        return np.ones(len(entities)) if sure is None else trusted(sure[entities])

    @cached_property
    def _firsts(self) -> IntArray:
        """The first fragment of each fragment's entity, shape [fragments]."""
        return firsts_of_entities(self.posterior)

    @cached_property
    def _facts(self) -> Facts | None:
        """How probable values are that contradict each other; None if none do."""
        together = self.dated.together(self._firsts) if self.dated else None
        return Facts.of(self.fragments, self._firsts, self._corpus, together, pools=self._pools)

    @cached_property
    def _pools(self) -> Pools:
        """Which values of an attribute of an entity say the same."""
        return Pools.of(self._stated, self._firsts, self._relations)

    @cached_property
    def _relations(self) -> Relations | None:
        """What values mean that name other entities; None if no attribute refers."""
        return Relations.of(self.fragments, self._firsts, self.refers, self._stated)

    def note_of_links(self) -> str:
        """A sentence about the values that name entities; "" if none do, and none should."""
        linked = dict.fromkeys(declared_in(self.refers), 0)
        if self._relations is not None:
            linked = dict(self._relations.linked)
        found = listed([f"{n:,} of {quoted(name, 40)}" for name, n in linked.items() if n], 8)
        if found or not linked:
            return found and f"values that name entities: {found}"
        return f"{option('refers')}: no value of {listed([*linked], 8, 40)} names an entity"

    def state_confidence(self) -> None:
        """Compute the confidence of the entities now; otherwise, their first use does."""
        _ = self._calibrated

    def summary(self) -> dict[str, Any]:
        """The summary of `kbforge cluster --json`."""
        posterior, times = self.posterior, self.times
        entities = sum(map(len, posterior.estimates()))
        against: dict[str, Any] = {}
        if self.known is not None:
            against = self.known.summary(cast(tuple[KnownLink, ...], self.links))
            entities += against["known_entities_with_mentions"] - self.known.near
            if self.known.all:
                entities += against["known_entities"] - against["known_entities_with_mentions"]
        return {
            "fragments": posterior.n_fragments,
            "entities": entities,
            **against,
            "subproblems": len(posterior.subproblems),
            "log_posterior" if self.probability else "score": posterior.log_posterior,
            "log10_effective_particles": posterior.log10_effective_particles,
            "model_evaluations": posterior.model_evaluations,
            "evaluations_in_vain": posterior.evaluations_in_vain,
            "merges_cut": posterior.merges_cut,
            "seconds": times.total,
            **{f"seconds_{stage}": seconds for stage, seconds in asdict(times).items()},
            "clustered_per_second": posterior.n_fragments / max(times.clustering, 1e-9),
            "likelihood": self.likelihood,
            "alpha": self.alpha,
            "size_exponent": self.size_exponent,
            "complete": posterior.complete,
            "ended": posterior.ended,
        }


def partial_name(output: str) -> str:
    """The file of an interrupted run: OUTPUT.partial, with the extension for compression."""
    plain = output.removesuffix(".gz")
    return f"{plain}.partial{output[len(plain) :]}"


@dataclass(slots=True, repr=False)
class LiveClustering:
    """A session, its fragments, and the prepared run."""

    session: Session  # for what is not here, such as `snapshot` and `touched`
    prepared: PreparedRun
    fragments: list[Fragment] = field(default_factory=list)  # in the order in which they came
    times: Times = field(default_factory=Times)
    choices: RunOptions = field(default_factory=RunOptions)
    _ids: set[str] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self._ids = {fragment.id for fragment in self.fragments}

    def __repr__(self) -> str:
        likelihood = quoted(self.prepared.likelihood)
        return f"LiveClustering({counted(len(self.fragments), 'fragment')}, {likelihood})"

    def add(self, fragments: Sequence[Fragment]) -> list[StepResult]:
        """Add fragments one by one; returns the result of each.

        If one is refused, those before it have been added; it and those after it have not.

        Raises:
            UsageError: an id that was already added; nothing has been added.
            LikelihoodError: the likelihood failed on a fragment, which the message names.

        """
        new: set[str] = set()
        for fragment in fragments:
            if fragment.id in self._ids or fragment.id in new:
                again = quoted(fragment.id)
                raise UsageError(f'add: expected a unique id, got "{again}" again')
            new.add(fragment.id)
        begin, before = time.perf_counter(), self.session.n_fragments
        fragments = in_metadata(fragments, self.choices.time)
        try:
            return self.session.add(fragments)
        finally:
            self._took(time.perf_counter() - begin)
            taken = fragments[: self.session.n_fragments - before]
            self.fragments += taken
            self._ids.update(fragment.id for fragment in taken)

    def remove(self, ids: Sequence[str]) -> None:
        """Remove fragments: all of these, or none.

        Raises:
            UsageError: an unknown id.
            LikelihoodError: the likelihood failed on the other fragments.

        """
        begin = time.perf_counter()
        try:
            self.session.remove(ids)
        finally:
            self._took(time.perf_counter() - begin)
        self._ids.difference_update(ids)
        self.fragments[:] = [fragment for fragment in self.fragments if fragment.id in self._ids]

    def _took(self, seconds: float) -> None:
        self.times = replace(self.times, clustering=self.times.clustering + seconds)

    def knowledge_base(self) -> KnowledgeBase:
        """The current knowledge base; later additions do not change it."""
        made = self.prepared
        return KnowledgeBase(
            list(self.fragments),
            _estimated(
                self.session.posterior(),
                self.choices.estimate,
                self.session.constraints,
                self.fragments,
            )[0],
            self.times,
            made.alpha,
            made.confidence,
            made.notes,
            alternatives=self.choices.alternatives,
            size_exponent=made.spec.exponent,
            refers=self.choices.refers,
            dated=StatedTimes(self.fragments, self.choices.time),
            decisions=self.session.constraints.decisions,
        )


def open_live(
    fragments: Sequence[Fragment], choices: RunOptions, snapshot: Snapshot | None = None
) -> LiveClustering:
    """Open a clustering: `kbforge.open_session` with choices.

    Models are fitted to the fragments, which are not added.
    """
    begin = time.perf_counter()
    fragments = in_metadata(fragments, choices.time)
    prepared = honoured(prepare(fragments, choices), fragments)
    rng = np.random.default_rng(choices.seed)
    session = prepared.clusterer.open(prepared.spec, rng, snapshot)
    taken = list(snapshot.fragments if snapshot else ())
    times = Times(preparing=time.perf_counter() - begin)
    return LiveClustering(session, prepared, taken, times, choices)

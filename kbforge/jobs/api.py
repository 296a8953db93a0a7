"""The Python API: what `from kbforge import ...` gives, as docs/python.md explains it.

    fragments = load("people.csv", id="id")
    kb = cluster(fragments, likelihood="bigram", alpha=10)
    kb.write("kb.jsonl")

Each function is the verb of its name with keywords for options. Same input and choices, same bytes.

Keywords are checked like options. Sentences are written once, for the command line: "--alpha and
--calibration both say what alpha is". `in_keywords` says them with keywords: "alpha and calibration
both say what alpha is".
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, TypedDict, Unpack, cast

import numpy as np

from kbforge import registry
from kbforge.contracts import (
    CandidateIndex,
    Clusterer,
    ConjugateLikelihood,
    Entity,
    Fragment,
    Interrupted,
    Likelihood,
    OnBad,
    OnStep,
    Snapshot,
    View,
)
from kbforge.errors import KBForgeError, UsageError, quoted
from kbforge.evaluation.scores import Evaluation, score_entities
from kbforge.files.fragments import stop
from kbforge.files.io import open_output, require_apart
from kbforge.fit.authority import Authority
from kbforge.fit.choices import NO_INDEX, Choices
from kbforge.fit.questions import PairQuestion
from kbforge.fit.review import Evidence
from kbforge.jobs import cluster as chain
from kbforge.jobs import decide as deciding
from kbforge.jobs import remove as removing
from kbforge.jobs import report as telling
from kbforge.jobs import update as updating
from kbforge.jobs import views
from kbforge.jobs.authority import read_authority
from kbforge.jobs.cluster import LiveClustering, open_live
from kbforge.jobs.decide import reviewed
from kbforge.jobs.link import joined, one_to_one
from kbforge.jobs.load import read, source_of
from kbforge.jobs.remove import erase
from kbforge.jobs.report import Report
from kbforge.jobs.update import EventResult, OnDuplicate, UpdateResult
from kbforge.kb.view import EntitiesView, GoldenView, exporter_for, read_policy
from kbforge.kb.view import export as export_view
from kbforge.registry.options import bind_options
from kbforge.words import counted

PLUGINS: Mapping[str, str] = {
    "clusterer": "clusterers",
    "likelihood": "likelihoods",
    "surrogate": "likelihoods",
    "index": "indexes",
}
"""The kinds of plugin that a clustering uses, by the keyword that chooses one."""

_NAMES = "|".join(sorted((field.name.replace("_", "-") for field in fields(Choices)), key=len))
_SETTING = re.compile(r"--set ([a-z]+\.[a-z_]+)")
_GPU = re.compile(r"--gpu\b")
_PLUGIN = re.compile(rf"--({'|'.join(PLUGINS)}) ([a-z][a-z0-9-]*)")
_OPTION = re.compile(
    rf"--({_NAMES}|partial|fragments|labels|policy|on-duplicate|against)(?![a-z-])"
)


class ChoiceKeywords(TypedDict, total=False):
    """The keywords of a clustering: the fields of `Choices`, which explains them."""

    clusterer: str | Clusterer
    likelihood: str | Path | Likelihood | None
    surrogate: str | Path | ConjugateLikelihood | None
    index: str | CandidateIndex | None
    exact: bool
    particles: int | None
    max_evals: int | None
    alpha: float | None
    calibration: str | Path | None
    confidence_map: str | Path | None
    defaults: str | Path | None
    answers: str | Path | None
    estimate: str
    entities: int | None
    alternatives: str
    link: str | None
    temperature: float
    seed: int
    device: str
    options: Mapping[str, Mapping[str, object]]


def choices_from(keywords: Mapping[str, object], function: str) -> Choices:
    """The choices that keywords make, of the types that the fields of `Choices` have.

    The function is named in the error of an unknown keyword, or of a value of the wrong type.
    """
    own: dict[str, Any] = {}
    named: dict[str, object] = {}
    for name, value in keywords.items():
        is_object = name in PLUGINS and not (value is None or isinstance(value, str | Path))
        (own if is_object else named)[name] = (
            value.item() if isinstance(value, np.generic) else value
        )
    for name, contract in (("likelihood", Likelihood), ("surrogate", ConjugateLikelihood)):
        if name in own and not isinstance(own[name], contract):
            raise UsageError(
                f"{function}: {name}: expected a name, a model folder or a {contract.__name__}, "
                f"got {quoted(own[name])}"
            )
    options = _options(named.pop("options", {}), function)
    return Choices(**bind_options(Choices, function, named), **own, options=options)


@contextlib.contextmanager
def in_python() -> Iterator[None]:
    """Errors within it speak of keywords."""
    try:
        yield
    except KBForgeError as error:
        error.args = tuple(in_keywords(a) if isinstance(a, str) else a for a in error.args)
        raise


def in_keywords(sentence: str) -> str:
    """A sentence about options of the command line as one about keywords."""
    sentence = _SETTING.sub(r"options.\1", sentence)
    sentence = _GPU.sub('device="cuda"', sentence)
    sentence = _PLUGIN.sub(_plugin, sentence)
    return _OPTION.sub(lambda found: found[1].replace("-", "_"), sentence)


def _plugin(found: re.Match[str]) -> str:
    """`--likelihood gaussian` as `likelihood="gaussian"`; another word is no value."""
    keyword, word = found.groups()
    known = (*registry.names(PLUGINS[keyword]), *((NO_INDEX,) if keyword == "index" else ()))
    return f'{keyword}="{word}"' if word in known else found[0]


def _options(given: object, function: str) -> Mapping[str, Mapping[str, object]]:
    if not isinstance(given, Mapping):
        raise UsageError(f"{function}: options: expected a dictionary, got {quoted(given)}")
    for kind, values in given.items():
        if kind not in PLUGINS:
            known = ", ".join(sorted(PLUGINS))
            raise UsageError(
                f'{function}: options: unknown kind "{quoted(kind)}", expected one of {known}'
            )
        if not isinstance(values, Mapping):
            raise UsageError(
                f"{function}: options.{kind}: expected a dictionary, got {quoted(values)}"
            )
    return given


def load(
    *inputs: str | Path,
    source: str | None = None,
    limit: int | None = None,
    on_bad: OnBad = stop,
    **options: object,
) -> list[Fragment]:
    """The fragments of files.

    Args:
        inputs: paths; "-" is standard input.
        source: the format: "jsonl", "csv", "xlsx", "parquet", "rebel", "tweetnerd", "hf" or a
            plugin's; None goes by the ending of the inputs.
        limit: read no more than this many fragments.
        on_bad: called with the error and the bytes of a bad record; the default raises the error.
        options: of the source, such as `id="key"` for a table.

    Raises:
        KBForgeError: a file that cannot be read, or an unknown source or option.
        BadRecord: the first bad record, with file and line.

    """
    with in_python():
        if not inputs:
            raise UsageError("load: expected a file to read, got none")
        paths = [str(path) for path in inputs]
        reader = registry.create("sources", source or source_of(paths), options)
        return list(read(reader, paths, on_bad, limit))


def cluster(
    fragments: Iterable[Fragment],
    on_step: OnStep | None = None,
    *,
    executor: str | None = None,
    address: str | None = None,
    workers: int | None = None,
    scorers: int | None = None,
    against: Authority | Iterable[Fragment | Entity] | str | Path | None = None,
    all_known: bool = False,
    **chosen: Unpack[ChoiceKeywords],
) -> chain.KnowledgeBase:
    """Group fragments into entities, one after another.

    Args:
        fragments: each with an id of its own; their labels are not read.
        on_step: is told of every step; it may raise `Interrupted` to end the run there.
        executor: where to cluster: "ray" or a plugin's; None is here. The result is the same.
        address: of the executor's cluster.
        workers: of the executor, or threads of the compiled kernel, for later calls, too.
        scorers: of the executor: cluster here, and have a network's sets scored by so many.
        against: known entities, which are never merged: fragments (those of one label are one
            entity), entities, the path of either, or an `Authority`. Each takes in what belongs to
            it, the rest forms new entities; `kb.links` tells of each fragment.
        all_known: whether known entities that took in nothing are in the result, too.
        chosen: `clusterer`, `likelihood`, `surrogate` and `index`, by name or as objects;
            `particles`, `max_evals`, `alpha`, `calibration`, `confidence_map`, `answers`,
            `temperature`, `seed`, `device`; and `options`, such as {"likelihood": {"scale": 10}}.
            All mean what `kbforge cluster --help` says.

    Raises:
        KBForgeError: no fragments, an unknown keyword, plugin or option, or no usable GPU.
        LikelihoodError: the likelihood failed on a fragment, which the message names.

    """
    with in_python():
        choices = choices_from(chosen, "cluster")
        crew = chain.make_workers(executor, choices, address, workers, scorers)
        known, held = _authority(against), _distinct(fragments)
        kb = chain.cluster(held, choices, on_step, crew, None, known, all_known)
    return replace(kb, notes=tuple(in_keywords(note) for note in kb.notes))


def link(
    *tables: Iterable[Fragment],
    names: Sequence[str] | None = None,
    on_step: OnStep | None = None,
    against: Authority | Iterable[Fragment | Entity] | str | Path | None = None,
    all_known: bool = False,
    **chosen: Unpack[ChoiceKeywords],
) -> chain.KnowledgeBase:
    """Link tables: no entity has two records of one table. `kb.links` tells of each record.

    Args:
        tables: two or more, each of fragments with distinct ids. If tables share ids, every id gets
            its table's name in front (`table:id`).
        names: of the tables, which are their records' sources; None calls them "1", "2", and so on.
        on_step: as of `cluster`.
        against: link the mentions of one table to known entities instead, as `cluster` does. Any
            number of mentions may belong to one entity.
        all_known: as of `cluster`.
        chosen: as of `cluster`.

    Raises:
        KBForgeError: as `cluster`; or fewer than two tables, two of one name, or a table that has
            no attribute in common with another one.

    """
    if against is not None:
        with in_python():
            if len(tables) != 1:
                raise UsageError(f"link: against: expected one table, got {len(tables)}")
        return cluster(tables[0], on_step, against=against, all_known=all_known, **chosen)
    with in_python():
        called = list(names) if names is not None else [str(n + 1) for n in range(len(tables))]
        if len(called) != len(tables) or len(set(called)) < max(len(called), 2):
            raise UsageError(
                f"link: expected two tables or more, each of a name of its own, got {len(tables)} "
                f"and {counted(len(set(called)), 'name')}"
            )
        records = joined(dict(zip(called, map(_distinct, tables), strict=True)))
        choices = one_to_one(choices_from(chosen, "link"))
        kb = chain.cluster(records, choices, on_step)
    return replace(kb, notes=tuple(in_keywords(note) for note in kb.notes))


def open_session(
    fragments: Iterable[Fragment],
    snapshot: Snapshot | None = None,
    **chosen: Unpack[ChoiceKeywords],
) -> LiveClustering:
    """Open a clustering that fragments can be added to as they come.

    Args:
        fragments: vocabulary, rates and alpha are learned from these, where they are learned; none
            of them is added.
        snapshot: of an earlier session, opened with the same fragments and choices; it goes on.
        chosen: as of `cluster`.

    Raises:
        KBForgeError: as `cluster`, or the clusterer is an offline method.

    """
    with in_python():
        choices = choices_from(chosen, "open_session")
        live = open_live(_distinct(fragments), choices, snapshot)
        notes = tuple(in_keywords(note) for note in live.prepared.notes)
        live.prepared = replace(live.prepared, notes=notes)
        return live


def update(
    store: str | Path,
    fragments: Iterable[Fragment],
    on_duplicate: OnDuplicate = "error",
    on_step: OnStep | None = None,
    *,
    against: Authority | Iterable[Fragment | Entity] | str | Path | None = None,
    **chosen: Unpack[ChoiceKeywords],
) -> UpdateResult:
    """Add fragments to a store, which is created if it does not exist; returns what came of it.

    Args:
        store: path of its file.
        fragments: distinct ids; those that are there already are skipped.
        on_duplicate: what to do with one that is there with other content, "error" or "replace".
        on_step: is told of every step; it may raise `Interrupted` to end the run there.
        against: known entities, as of `cluster`; all of them come into the store, and are honoured
            later, too. Only for a store that was made with some.
        chosen: as of `cluster`, for a new store; one that exists has its own.

    Raises:
        UsageError: other choices than the store's, or a fragment that is there with other content;
            nothing was added then.
        KBForgeError: the store cannot be written.
        LikelihoodError: the likelihood failed on a fragment; those before it were added.

    """
    with in_python():
        held = _distinct(fragments)
        choices = choices_from(chosen, "update")
        known = _authority(against)
        taken = updating.add_fragments(
            str(store), held, choices, on_duplicate, "Python", on_step, against=known
        )
        return replace(taken, notes=tuple(in_keywords(note) for note in taken.notes))


def remove(
    store: str | Path,
    ids: Sequence[str] = (),
    source: str | None = None,
    secure: bool = False,
) -> EventResult:
    """Remove fragments from a store, as if they had not come: all of them, or none.

    Args:
        store: path of its file.
        ids: of fragments.
        source: all fragments from there, too.
        secure: also erase their content from the file and from what models learned.

    Raises:
        UsageError: the store lacks one of them, or has none from that source.

    """
    with in_python():
        remover = erase if secure else removing.remove
        return remover(str(store), list(ids), source)


def decide(store: str | Path, decisions: Iterable[tuple[str, str, str]]) -> EventResult:
    """Have a store honour decisions from now on; `told["decisions"]` has their numbers.

    Each decision is "same" or "different" and the ids of two fragments.

    Raises:
        UsageError: the store lacks a fragment.
        ContradictionError: a decision cannot hold beside the others, which the message names.

    """
    with in_python():
        return deciding.decide(str(store), deciding.decisions_of(decisions))


def undo(store: str | Path, number: int) -> EventResult:
    """Have a store honour a decision no longer; exactly as before if nothing came since.

    Raises:
        UsageError: there is no decision of this number in force.

    """
    with in_python():
        return deciding.undo(str(store), number)


def review(
    store: str | Path,
    ask: Callable[[Evidence[PairQuestion]], bool | None],
    count: int | None = None,
) -> EventResult:
    """Ask about uncertain pairs; answers are decisions, whose numbers `told["decisions"]` has.

    Each is in the store before the next question.

    Args:
        store: path of its file.
        ask: is given a question: `first.fragment` and `second.fragment`, whom they are with, and
            why; it says whether they are one entity, or None if nobody knows. It may raise
            `Interrupted` to end the review there.
        count: most questions; None asks until nothing is in doubt.

    Raises:
        KBForgeError: the store cannot be opened, or written.
        ContradictionError: an answer cannot hold beside decisions, which the message names.
        LikelihoodError: no grouping that satisfies an answer is possible.

    """
    with in_python(), reviewed(str(store)) as held:
        asked = 0
        while (count is None or asked < count) and (evidence := held.asks.question()) is not None:
            try:
                said = ask(evidence)
            except Interrupted:
                break
            held.asks.answer(evidence, said)
            asked += 1
        return held.done()


def report(
    kb: str | Path,
    output: str | Path,
    fragments: str | Path | None = None,
    labels: bool = False,
    title: str | None = None,
) -> Report:
    """Write a knowledge base as one page of HTML; returns the facts that the page tells.

    Args:
        kb: path of a file of entities, or of a store.
        output: path of the page; "-" is standard output.
        fragments: path of the file that was clustered, whose labels tell which entities are right.
        labels: whether to read the labels of a store's fragments.
        title: what the page calls it; None is the name of the file.

    Raises:
        KBForgeError: the knowledge base cannot be read, or the page cannot be written.

    """
    with in_python():
        require_apart(output, [kb, fragments])
        made = telling.report(str(kb), None if fragments is None else str(fragments), labels, title)
        with open_output(str(output)) as out:
            out.write(made.html.encode())
        return made


def evaluate(
    entities: Iterable[Entity], gold: Iterable[Fragment], partial: bool = False
) -> Evaluation:
    """Score entities against the labels of their fragments, which are matched by id.

    Fragments without labels are left out and counted; with `partial`, so are those that one side
    lacks.

    Raises:
        UsageError: nothing to compare, or one side lacks fragments and `partial` is False.

    """
    with in_python():
        return score_entities(entities, gold, partial)


def export(
    entities: Iterable[Entity],
    output: str | Path,
    format: str | None = None,
    fragments: Iterable[Fragment] | None = None,
    policy: str | Path | None = None,
    **options: object,
) -> int:
    """Write entities in the format of an exporter; returns how many there were.

    Args:
        entities: a knowledge base.
        output: path of a file, or of a folder for a format of several; "-" is standard output.
        format: "jsonl", "csv" or a plugin's; None goes by the ending of the output.
        fragments: those that were clustered; adds sources and metadata to formats that have them.
        policy: golden records: "most-stated", "latest", "longest", "all", or a TOML file; None
            takes all values.
        options: of the exporter, such as `separator=";"`.

    Raises:
        KBForgeError: an unknown format, policy or option, or the output cannot be written.

    """
    with in_python():
        name = format or exporter_for(str(output))
        exporter = registry.create("exporters", name, options)
        view: View = EntitiesView(lambda: iter(entities), fragments)
        if policy is not None:
            view = GoldenView(view, read_policy(str(policy)))
        return export_view(view, exporter, str(output))


def read_entities(path: str | Path) -> Iterator[Entity]:
    """The entities of a knowledge base, one at a time; a file, "-" for standard input, or a store.

    Raises:
        KBForgeError: the file cannot be opened.
        BadRecord: at the first line that is not an entity, with file and line.

    """
    return views.entities_of(str(path))


def _authority(
    given: Authority | Iterable[Fragment | Entity] | str | Path | None,
) -> Authority | None:
    """The known entities that a user gives."""
    if given is None or isinstance(given, Authority):
        return given
    if isinstance(given, str | Path):
        return read_authority(str(given))
    some = list(given)
    if some and all(isinstance(one, Entity) for one in some):
        return Authority.of_entities(cast(list[Entity], some))
    return Authority.of_fragments(_distinct(cast(list[Fragment], some)))


def _distinct(fragments: Iterable[Fragment]) -> list[Fragment]:
    """The fragments, if they are fragments and no two have one id."""
    if isinstance(fragments, str | Path):
        path = quoted(str(fragments), 400)
        raise UsageError(f'cluster: expected fragments, got a path; load("{path}") reads them')
    held = list(fragments)
    seen: set[str] = set()
    for number, fragment in enumerate(held):
        where = f"cluster: fragment {number}"
        if not isinstance(fragment, Fragment):
            raise UsageError(f"{where}: expected a Fragment, got {quoted(fragment)}")
        if fragment.id in seen:
            raise UsageError(f'{where}: expected a unique id, got "{quoted(fragment.id)}" again')
        seen.add(fragment.id)
    return held

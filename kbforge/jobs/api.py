"""The Python API: the functions that `kbforge` exports (docs/python.md).

    kb = cluster(df, id="id")   # a data frame, or fragments = load("people.csv", id="id")
    df.merge(kb.members().to_pandas(), on="id")
    kb.write("kb.jsonl")

Each function is the verb of its name, with keywords for options. The same input and choices give
the same bytes.

Keywords are checked like options, and messages name them as keywords: where the command line says
"--alpha and --set calibration both set alpha", Python says "alpha and calibration both set alpha".
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
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
from kbforge.errors import UsageError, counted, quoted, spelled
from kbforge.evaluation.scores import Evaluation, score_entities
from kbforge.files.arrow import ArrowTable, is_frame
from kbforge.files.fragments import read, stop
from kbforge.files.io import open_output, require_apart
from kbforge.fit.authority import Authority
from kbforge.fit.choices import SOURCE, RunOptions
from kbforge.fit.questions import PairQuestion
from kbforge.fit.review import Evidence
from kbforge.jobs import cluster as chain
from kbforge.jobs import decide as deciding
from kbforge.jobs import remove as removing
from kbforge.jobs import report as telling
from kbforge.jobs import update as updating
from kbforge.jobs import views
from kbforge.jobs.cluster import LiveClustering, open_live
from kbforge.jobs.decide import reviewed
from kbforge.jobs.link import columns_of, joined, tables_from
from kbforge.jobs.load import source_of
from kbforge.jobs.notebook import followed
from kbforge.jobs.opening import EventResult
from kbforge.jobs.remove import erase
from kbforge.jobs.report import Report
from kbforge.jobs.tables import COLUMNS, Records, fragments_from, pairs_from
from kbforge.jobs.update import OnDuplicate, UpdateResult
from kbforge.jobs.views import read_authority
from kbforge.kb.view import (
    FUSED,
    EntitiesView,
    GoldenView,
    exporter_for,
    read_policy,
    selected,
    table_of,
)
from kbforge.kb.view import export as export_view
from kbforge.registry.options import bind_options

PLUGINS: Mapping[str, str] = {
    "clusterer": "clusterers",
    "likelihood": "likelihoods",
    "surrogate": "likelihoods",
}
"""The kinds of plugin that a clustering uses, by the keyword that chooses one."""
_OBJECTS = (*PLUGINS, "index")
"""The keywords that take an object."""


class ClusterKeywords(TypedDict, total=False):
    """The keywords of a clustering: the fields of `RunOptions`, which documents them.

    `id` and those after it say what columns of tables mean, as the options of `kbforge load csv`
    do; they do not apply to fragments.
    """

    clusterer: str | Clusterer
    likelihood: str | Path | Likelihood | None
    surrogate: str | Path | ConjugateLikelihood | None
    index: str | CandidateIndex | None
    exact: bool
    particles: int | None
    max_evals: int | None
    alpha: float | None
    size_exponent: float | None
    calibration: str | Path | None
    confidence_map: str | Path | None
    defaults: str | Path | None
    answers: str | Path | None
    labels_from: str | Path | None
    estimate: str
    alternatives: str
    link: str | None
    rules: str | Path | None
    refers: str
    time: str | None
    seed: int
    device: str
    options: Mapping[str, Mapping[str, object]]
    id: str | None
    label: str | None
    map: Sequence[str] | Mapping[str, str] | None
    vector: Sequence[str] | None
    separator: str | None
    null: Sequence[str] | str | None


def choices_from(keywords: Mapping[str, object], function: str) -> RunOptions:
    """The choices given as keywords, with the types of the fields of `RunOptions`.

    Errors about an unknown keyword or a value of the wrong type name the function.
    """
    own: dict[str, Any] = {}
    named: dict[str, object] = {}
    for name, value in keywords.items():
        is_object = name in _OBJECTS and not (value is None or isinstance(value, str | Path))
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
    return RunOptions(**bind_options(RunOptions, function, named), **own, options=options)


def as_keyword(name: str, value: object) -> str:
    """A parameter as a keyword: `alpha`, `index="none"`, `options.clusterer.batch=1000`."""
    kind, dot, own = name.partition(".")
    if dot:
        keyword = own if kind == "source" else f"options.{name}"
        return f"{keyword}={value}" if value != "" else keyword
    if name == "gpu":
        return 'device="cuda"'
    keyword = "options" if name == "set" else name.replace("-", "_")
    written = f'"{value}"' if isinstance(value, str) else value
    return f"{keyword}={written}" if value != "" else keyword


_in_python = spelled(as_keyword)  # marks a verb whose messages use keywords


def _options(given: object, function: str) -> Mapping[str, Mapping[str, object]]:
    if not isinstance(given, Mapping):
        raise UsageError(f"{function}: options: expected a dictionary, got {quoted(given)}")
    for kind, values in given.items():
        if kind not in _OBJECTS:
            known = ", ".join(sorted(_OBJECTS))
            raise UsageError(
                f'{function}: options: unknown kind "{quoted(kind)}", expected one of {known}'
            )
        if not isinstance(values, Mapping):
            raise UsageError(
                f"{function}: options.{kind}: expected a dictionary, got {quoted(values)}"
            )
    return given


def _chosen(keywords: ClusterKeywords, function: str) -> tuple[RunOptions, dict[str, object]]:
    """The choices given as keywords, and those about the meaning of columns."""
    rest: dict[str, object] = {**keywords}
    columns = {name: rest.pop(name) for name in COLUMNS if name in rest}
    return choices_from(rest, function), columns


@_in_python
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
            plugin's; None uses the extension of the inputs.
        limit: read no more than this many fragments.
        on_bad: called with the error and the bytes of a bad record; the default raises the error.
        options: of the source, such as `id="key"` for a table.

    Raises:
        KBForgeError: a file that cannot be read, or an unknown source or option.
        BadRecord: the first bad record, with file and line.

    """
    if not inputs:
        raise UsageError("load: expected a file to read, got none")
    paths = [str(path) for path in inputs]
    reader = registry.create("sources", source or source_of(paths), options)
    return list(read(reader, paths, on_bad, limit))


@_in_python
def cluster(
    fragments: Records,
    on_step: OnStep | None = None,
    *,
    against: Authority | Records | Iterable[Entity] | str | Path | None = None,
    all_known: bool = False,
    **chosen: Unpack[ClusterKeywords],
) -> chain.KnowledgeBase:
    """Group fragments, or the rows of a table, into entities.

    Args:
        fragments: with unique ids, or a table: a data frame of pandas or polars, a table
            of PyArrow, a relation of DuckDB, or a list of dictionaries; or the path of a file, read
            as `load` reads it. Labels are not read.
        on_step: called after every step; it may raise `Interrupted` to end the run.
        against: known entities, which are never merged: fragments (one entity per label), entities,
            the path of either, or an `Authority`. Fragments join the known entities that they
            match, the others form new entities; `kb.links` lists each fragment.
        all_known: whether the result includes known entities that no fragment joined.
        chosen: `clusterer`, `likelihood`, `surrogate` and `index`, by name or as objects;
            `particles`, `max_evals`, `alpha`, `size_exponent`, `calibration`, `confidence_map`,
            `answers`, `seed`, `device`; and `options`, such as {"likelihood": {"scale": 10}}.
            `kbforge cluster --help` explains all of these. For a table also `id`, `label`, `map`,
            `vector`, `separator` and `null`, which `kbforge load csv --help` explains; every other
            column is an attribute.

    Raises:
        KBForgeError: no fragments, an unknown keyword, plugin or option, or no usable GPU.
        BadRecord: the first bad row of a table.
        LikelihoodError: the likelihood failed on a fragment, which the message names.

    """
    choices, columns = _chosen(chosen, "cluster")
    held, number_ids, told = fragments_from(fragments, columns, "cluster")
    known = _authority(against, columns)
    with followed(on_step) as (step, stage):
        kb = chain.cluster(held, choices, step, stage, known, all_known)
    return replace(kb, notes=(*told, *kb.notes), number_ids=number_ids and known is None)


@_in_python
def link(
    *tables: Records | Mapping[str, Records],
    names: Sequence[str] | None = None,
    on_step: OnStep | None = None,
    against: Authority | Records | Iterable[Entity] | str | Path | None = None,
    all_known: bool = False,
    **chosen: Unpack[ClusterKeywords],
) -> chain.KnowledgeBase:
    """Link tables: no entity has two records from the same table. `kb.links` lists each record.

    Args:
        tables: two or more, each in a form that `cluster` accepts, or one dictionary of them by
            name. If tables share ids, every id is prefixed with its table's name (`table:id`).
        names: of the tables, used as their records' sources; None names them "1", "2", and so on.
        on_step: as in `cluster`.
        against: link the mentions of one table to known entities instead, like `cluster`. Any
            number of mentions may belong to one entity.
        all_known: as in `cluster`.
        chosen: as in `cluster`. Some tables may lack a named column; `id` may name several columns,
            and a record uses the first that it has.

    Raises:
        KBForgeError: as `cluster`; or fewer than two tables, two with the same name, or a table
            that has no attribute in common with another one.

    """
    if against is not None:
        if len(tables) != 1:
            raise UsageError(f"link: against: expected one table, got {len(tables)}")
        mentions = cast(Records, tables[0])
        return cluster(mentions, on_step, against=against, all_known=all_known, **chosen)
    choices, columns = _chosen(chosen, "link")
    records = joined(tables_from(_named(tables, names), columns))
    with followed(on_step) as (step, stage):
        return chain.cluster(records, replace(choices, link=SOURCE), step, on_stage=stage)


def _named(
    tables: Sequence[Records | Mapping[str, Records]], names: Sequence[str] | None
) -> dict[str, Records]:
    """The tables by name."""
    found: list[Any] = list(tables)
    called = [str(n + 1) for n in range(len(tables))] if names is None else list(names)
    if len(tables) == 1 and isinstance(tables[0], Mapping) and names is None:
        called, found = [str(name) for name in tables[0]], list(tables[0].values())
    if len(called) != len(found) or len(set(called)) < max(len(called), 2):
        raise UsageError(
            f"link: expected two or more tables with different names, got {len(found)} "
            f"and {counted(len(set(called)), 'name')}"
        )
    return dict(zip(called, found, strict=True))


@_in_python
def open_session(
    fragments: Records,
    snapshot: Snapshot | None = None,
    **chosen: Unpack[ClusterKeywords],
) -> LiveClustering:
    """Open a clustering to which fragments can be added as they arrive.

    Args:
        fragments: vocabulary, rates and alpha are learned from these, unless they are given; none
            of them is added.
        snapshot: of an earlier session to continue, opened with the same fragments and choices.
        chosen: as in `cluster`.

    Raises:
        KBForgeError: as `cluster`, or the clusterer is an offline method.

    """
    choices, columns = _chosen(chosen, "open_session")
    held = fragments_from(fragments, columns, "open_session").fragments
    return open_live(held, choices, snapshot)


@_in_python
def update(
    store: str | Path,
    fragments: Records,
    on_duplicate: OnDuplicate = "error",
    on_step: OnStep | None = None,
    *,
    against: Authority | Records | Iterable[Entity] | str | Path | None = None,
    **chosen: Unpack[ClusterKeywords],
) -> UpdateResult:
    """Add fragments to a store, which is created if it does not exist; returns the result.

    Args:
        store: path of its file.
        fragments: in a form that `cluster` accepts; those already in the store are skipped.
        on_duplicate: what to do with a stored id and different content, "error" or "replace".
        on_step: called after every step; it may raise `Interrupted` to end the run.
        against: known entities, as for `cluster`; the store keeps all of them, even for later
            updates. Only for a store that was made with some.
        chosen: as for `cluster`, for a new store; an existing store has its own choices.

    Raises:
        UsageError: choices that differ from the store's, or a stored id with different content;
            nothing was added.
        KBForgeError: the store cannot be written.
        LikelihoodError: the likelihood failed on a fragment; those before it were added.

    """
    choices, columns = _chosen(chosen, "update")
    held, _, told = fragments_from(fragments, columns, "update")
    known = _authority(against, columns)
    with followed(on_step) as (step, stage):
        taken = updating.add_fragments(
            *(str(store), held, choices, on_duplicate, "Python", step, stage),
            against=known,
            accepted=columns_of((), None, pairs_from(columns)).attributes,
        )
    return replace(taken, notes=(*told, *taken.notes))


@_in_python
def remove(
    store: str | Path,
    ids: Sequence[str] = (),
    source: str | None = None,
    secure: bool = False,
) -> EventResult:
    """Remove fragments from a store: all of them, or none.

    Args:
        store: path of its file.
        ids: of fragments.
        source: also remove all fragments from this source.
        secure: also erase their content from the file and from what models learned.

    Raises:
        UsageError: the store lacks one of them, or has none from that source.

    """
    remover = erase if secure else removing.remove
    return remover(str(store), list(ids), source)


@_in_python
def decide(store: str | Path, decisions: Iterable[tuple[str, str, str]]) -> EventResult:
    """Add decisions to a store, which it honours from now on; `told["decisions"]` has their
    numbers.

    Each decision is "same" or "different" and the ids of two fragments.

    Raises:
        UsageError: the store lacks a fragment.
        ContradictionError: a decision contradicts others, which the message names.

    """
    return deciding.decide(str(store), deciding.decisions_of(decisions))


@_in_python
def undo(store: str | Path, number: int) -> EventResult:
    """Withdraw a decision; the store is exactly as before if nothing was added since.

    Raises:
        UsageError: no decision of this number is in force.

    """
    return deciding.undo(str(store), number)


@_in_python
def review(
    store: str | Path,
    ask: Callable[[Evidence[PairQuestion]], bool | None],
    count: int | None = None,
) -> EventResult:
    """Ask about uncertain pairs; answers become decisions, numbered in `told["decisions"]`.

    Each answer is stored before the next question.

    Args:
        store: path of its file.
        ask: called with a question: `first.fragment` and `second.fragment`, their clusters, and the
            evidence. It returns whether they are one entity, or None if unknown. It may raise
            `Interrupted` to end the review.
        count: maximum number of questions; None asks until nothing is uncertain.

    Raises:
        KBForgeError: the store cannot be opened, or written.
        ContradictionError: an answer contradicts decisions, which the message names.
        LikelihoodError: no grouping that satisfies an answer is possible.

    """
    with reviewed(str(store)) as held:
        asked = 0
        while (count is None or asked < count) and (evidence := held.question()) is not None:
            try:
                said = ask(evidence)
            except Interrupted:
                break
            held.answer(evidence, said)
            asked += 1
        return held.done()


@_in_python
def report(
    kb: str | Path,
    output: str | Path,
    fragments: str | Path | None = None,
    labels: bool = False,
    title: str | None = None,
) -> Report:
    """Write a knowledge base as one page of HTML; returns the facts on the page.

    Args:
        kb: path of a file of entities, or of a store.
        output: path of the page; "-" is standard output.
        fragments: path of the clustered file, whose labels show which entities are right.
        labels: whether to read the labels of a store's fragments.
        title: of the page; None is the name of the file.

    Raises:
        KBForgeError: the knowledge base cannot be read, or the page cannot be written.

    """
    require_apart(output, [kb, fragments])
    made = telling.report(str(kb), None if fragments is None else str(fragments), labels, title)
    with open_output(str(output)) as out:
        out.write(made.html.encode())
    return made


@_in_python
def evaluate(
    entities: Iterable[Entity], gold: Iterable[Fragment], partial: bool = False
) -> Evaluation:
    """Score entities against the labels of their fragments, matched by id.

    Fragments without labels are left out and counted; with `partial`, so are fragments that one
    side lacks.

    Raises:
        UsageError: nothing to compare, or one side lacks fragments and `partial` is False.

    """
    return score_entities(entities, gold, partial)


@_in_python
def export(
    entities: Iterable[Entity],
    output: str | Path,
    format: str | None = None,
    fragments: Iterable[Fragment] | None = None,
    policy: str | Path | None = None,
    at: str | None = None,
    **options: object,
) -> int:
    """Write entities in the format of an exporter; returns their number.

    Args:
        entities: a knowledge base.
        output: path of a file, or of a folder for a format of several; "-" is standard output.
        format: "jsonl", "csv" or a plugin's; None uses the extension of the output.
        fragments: the clustered ones; adds sources and metadata to formats that have them.
        policy: golden records: "fused", "most-stated", "latest", "longest", "all", or a TOML
            file; None
            keeps all values.
        at: keep the values that held at the end of this time, such as "2019"; None keeps all.
        options: of the exporter, such as `separator=";"`.

    Raises:
        KBForgeError: an unknown format, policy or option, or the output cannot be written.

    """
    name = format or exporter_for(str(output))
    exporter = registry.create("exporters", name, options)
    view: View = EntitiesView(lambda: iter(entities), fragments)
    if policy is not None or at is not None:
        view = selected(view, None if policy is None else str(policy), at)
    return export_view(view, exporter, str(output))


def read_entities(path: str | Path) -> Iterator[Entity]:
    """The entities of a knowledge base, one at a time; a file, "-" for standard input, or a store.

    Raises:
        KBForgeError: the file cannot be opened.
        BadRecord: at the first line that is not an entity, with file and line.

    """
    return views.entities_of(str(path))


def _authority(
    given: Authority | Records | Iterable[Entity] | str | Path | None, columns: Mapping[str, object]
) -> Authority | None:
    """The known entities that a user gives; `columns` map the columns of a table."""
    if given is None or isinstance(given, Authority):
        return given
    if isinstance(given, str | Path):
        return read_authority(str(given))
    if is_frame(given):
        table = cast(Records, given)
        return Authority.of_fragments(fragments_from(table, columns, "against").fragments)
    some: list[Any] = list(cast(Iterable[Any], given))
    if some and all(isinstance(one, Entity) for one in some):
        return Authority.of_entities(some)
    options = columns if some and isinstance(some[0], Mapping) else {}
    return Authority.of_fragments(fragments_from(some, options, "against").fragments)


@_in_python
def members(kb: str | Path) -> ArrowTable:
    """One row per fragment of a file of entities, or of a store, like `KnowledgeBase.members`.

    Raises:
        KBForgeError: the knowledge base cannot be read.

    """
    return table_of(views.view_of(str(kb)), "members")


@_in_python
def wide(kb: str | Path, policy: str | Path = FUSED) -> ArrowTable:
    """One row per entity of a file of entities, or of a store, like `KnowledgeBase.wide`.

    Raises:
        KBForgeError: the knowledge base cannot be read, or there is no such policy.

    """
    return table_of(GoldenView(views.view_of(str(kb)), read_policy(str(policy))), "wide")


@_in_python
def pairs(kb: str | Path, threshold: float = 0.5) -> ArrowTable:
    """One row per probable pair of a file of entities, or of a store, like `KnowledgeBase.pairs`.

    Raises:
        KBForgeError: the knowledge base cannot be read.
        UsageError: the threshold is not a probability below 1.

    """
    return table_of(views.view_of(str(kb)), "pairs", threshold=threshold)


@_in_python
def relations(kb: str | Path) -> ArrowTable:
    """One row per relation between entities of a file, or of a store; `KnowledgeBase.relations`.

    Raises:
        KBForgeError: the knowledge base cannot be read.

    """
    return table_of(views.view_of(str(kb)), "relations")

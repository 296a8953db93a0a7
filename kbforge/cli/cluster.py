"""`kbforge cluster`: groups fragments into the entities of a knowledge base."""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Annotated, Literal, TypeAlias

import typer

from kbforge import interrupts
from kbforge.cli import console, options
from kbforge.cli.options import option
from kbforge.errors import OutputError, UsageError, counted, listed, quoted
from kbforge.registry import named_after
from kbforge.registry.options import bind_options

if TYPE_CHECKING:
    from kbforge.contracts import Fragment
    from kbforge.fit.authority import Authority
    from kbforge.fit.choices import RunOptions
    from kbforge.jobs.cluster import KnowledgeBase, Times
    from kbforge.jobs.sync import Feed
    from kbforge.jobs.update import UpdateResult

app = typer.Typer(add_completion=False)


_Engine: TypeAlias = Literal["threads", "spark"]
_OnDuplicate: TypeAlias = Literal["error", "replace"]


@dataclass(frozen=True)
class _StoreOptions:
    """The `--set store.OPTION=VALUE` options for adding fragments to a store."""

    on_duplicate: _OnDuplicate | None = None  # what becomes of a fragment with other content
    remove_missing: bool = False  # remove what the file has no longer, of the same source


_SHOWN_EACH = 500  # entities
_FEW = 20  # up to so many fragments may well be one entity


@app.command(epilog=options.names_explained())
def cluster(
    context: typer.Context,
    fragments: options.Fragments,
    output: Annotated[
        str, option("--output", "-o", "Knowledge base to write; - for standard output.")
    ] = "NAME.kb.jsonl",
    into: Annotated[
        str | None,
        option(
            "--into",
            "Create this store or add to it, instead of -o. --set store.on-duplicate=replace "
            "replaces stored fragments whose content has changed; store.remove-missing=true "
            "removes those that their table has no longer.",
            metavar="STORE",
        ),
    ] = None,
    id_column: options.IdColumn = None,
    column_map: Annotated[
        list[str] | None,
        option(
            "--map",
            "Rename an attribute; COLUMN= leaves it out, and with --into COLUMN=COLUMN adds a "
            "new one. May be repeated.",
            metavar="COLUMN=ATTRIBUTE",
        ),
    ] = None,
    likelihood: options.Likelihood = None,
    alpha: options.Alpha = None,
    link: options.Link = None,
    refers: options.Refers = "auto",
    time: options.Time = None,
    against: options.Against = None,
    answers: options.Answers = None,
    limit: options.Limit = None,
    seed: options.HiddenSeed = 0,
    gpu: options.Gpu = False,
    engine: Annotated[
        _Engine,
        option(
            "--engine",
            "Where pairs are scored and merged: by threads here, or on Spark "
            "(--set clusterer.master=URL, as for spark-submit; else all cores here).",
            hidden=True,
        ),
    ] = "threads",
    settings: options.RunSettings = None,
    as_json: options.JsonSummary = False,
) -> None:
    """Group fragments into entities; write a knowledge base.

    Without options for likelihood and alpha, both are chosen to suit the file, and a note says why.
    NAME is the name of the input: people.kb.jsonl for data/people.jsonl.

    Examples:

        kbforge cluster people.csv -o kb.jsonl

        kbforge cluster new.jsonl --into kb.sqlite

        kbforge cluster postgresql://host/crm --query 'SELECT id, name, changed FROM people' --set
        source.watermark=changed --into kb.sqlite

        kbforge cluster mentions.jsonl --against authority.jsonl

        kbforge cluster fragments.jsonl --likelihood model/ --json

        kbforge cluster points.jsonl --likelihood gaussian --alpha 20

        kbforge cluster staff.csv --time observed && kbforge show staff.kb.jsonl --at 2019

        kbforge cluster fragments.jsonl --set estimate=vi --set alternatives=all

        kbforge load people.csv | kbforge cluster - -o - | kbforge show -

        kbforge cluster people.parquet --engine spark --set clusterer.master='local[2]'
    """
    from kbforge.files.io import require_apart, require_writable

    if not options.is_given(context, "output"):
        output = named_after(output, [fragments])
    if as_json and output == "-":
        raise UsageError("--json and -o - both write to standard output; choose one")
    choices = _on_engine(context, options.choices_of(context), engine)
    of_store = bind_options(_StoreOptions, "store", options.set_of(context, "store"))
    require_against(against, fragments)
    inputs = [fragments, answers, against, *options.files_of(settings, likelihood)]
    if into is not None:
        if options.is_given(context, "output"):
            raise UsageError(
                "--into and -o cannot be combined: kbforge export STORE -o FILE writes what a "
                "store has"
            )
        _take_in(context, into, choices, inputs, _StoreOptions(**of_store))
        return
    if of_store:
        raise UsageError(f"--set store.{next(iter(of_store)).replace('_', '-')} requires --into")
    from kbforge.jobs.cluster import partial_name  # what fits models takes .1 s to import
    from kbforge.kb.view import require_json_lines

    require_json_lines(
        output,
        "a knowledge base is",
        f"kbforge cluster {quoted(fragments, 400)} -o kb.jsonl, and then kbforge export kb.jsonl "
        f"-o {quoted(output, 400)}",
        f"kbforge cluster {quoted(fragments, 400)} --into {quoted(output, 400)} creates a store",
    )
    for path in filter(None, (output, partial_name(output))):
        require_apart(path, inputs)
    require_writable(output)
    begin = perf_counter()
    everything = options.read_all(context, fragments)
    if column_map:
        from kbforge.jobs.link import renamed

        everything, _ = renamed(everything, column_map)
    authority = read_known(against)
    reading = perf_counter() - begin
    write_clustered(everything, reading, choices, output, as_json, against=authority)


def _on_engine(context: typer.Context, choices: RunOptions, engine: _Engine) -> RunOptions:
    """The choices for an engine, which is a clusterer."""
    if engine == "threads":
        return choices
    refused = {name: context.params[name] for name in ("into", "link", "against", "answers")}
    refused |= {"set labels-from": choices.labels_from, "set rules": choices.rules}
    for name, value in refused.items():
        if value is not None:
            raise UsageError(f"--engine spark and --{name} cannot be combined")
    if choices.clusterer != "batch":
        raise UsageError("--engine spark and --set clusterer cannot be combined")
    return replace(choices, clusterer=engine)


def require_against(against: str | None, fragments: str) -> None:
    """Refuse to read standard input twice."""
    if against == fragments == "-":
        raise UsageError(
            "--against -: standard input has the fragments; write one of the two to a file"
        )


def read_known(against: str | None) -> Authority | None:
    """The authority in a file, if one was given."""
    if against is None:
        return None
    from kbforge.jobs.views import read_authority

    return read_authority(against)


def write_clustered(
    fragments: Sequence[Fragment],
    reading: float,
    choices: RunOptions,
    output: str,
    as_json: bool,
    links: str | None = None,
    records: str | None = None,
    against: Authority | None = None,
    all_known: bool = False,
) -> None:
    """Cluster fragments, write and report the result; `reading` took this many seconds.

    `links` and `records` are files for the links and for the fragments. An interrupted run ends
    with its own exit code.
    """
    from kbforge.files.fragments import write_fragments
    from kbforge.jobs.cluster import cluster as run
    from kbforge.kb.links import write_links

    with console.stoppable() as check, console.following(check) as (on_step, on_stage):
        kb = run(
            fragments,
            choices,
            on_step,
            on_stage=on_stage,
            against=against,
            all_known=all_known,
        )
    console.notes((*kb.notes, *_warnings(kb)))
    target = kb.target(output)
    outputs = [path for path in (target, links, records) if path is not None]
    replaced = [path for path in outputs if path != "-" and os.path.isfile(path)]
    # the result exists from here on, and nothing may lose it
    with interrupts.deferred():
        times = _write(kb, target)
        begin = perf_counter()
        if links is not None:
            write_links(kb.links, links)
        if records is not None:
            write_fragments(kb.fragments, records)
    writing = times.writing + perf_counter() - begin
    if replaced:
        what = "an earlier file" if len(replaced) == 1 else "earlier files"
        console.note(f"note: replaced {what}: {listed(replaced, 3, 400)}")
    kb = replace(kb, times=replace(times, reading=reading, writing=writing))
    console.notes(filter(None, (kb.note_of_links(),)))
    if as_json:
        console.print_json(kb.summary())
    else:
        _print_summary(kb, target)
    if not kb.complete:
        count = kb.posterior.n_fragments
        held = f"the first {count:,} of {kb.n_given:,} fragments"
        if count == kb.n_given:
            held = f"all {count:,} fragments, in the best grouping so far"
        console.note(f"{interrupts.sentence()}: {_place(target)} holds {held}")
        raise typer.Exit(interrupts.exit_code())


def _write(kb: KnowledgeBase, target: str) -> Times:
    """Write a result, show the progress, and add the times of the last stages to its own."""
    begin = perf_counter()
    with console.working("stating confidence"):
        kb.state_confidence()
    confidence = perf_counter() - begin
    assembling = 0.0

    def followed(parts: Iterator[tuple[int, bytes]]) -> Iterator[tuple[int, bytes]]:
        nonlocal assembling
        # with an authority there are others as well
        total = sum(map(len, kb.posterior.estimates())) if kb.known is None else None
        with console.progress(total=total, description="assembling and writing") as bar:
            done, before = 0, perf_counter()
            for count, lines in parts:
                assembling += perf_counter() - before
                if done // _SHOWN_EACH < (done + count) // _SHOWN_EACH:
                    bar.update(done + count)
                done += count
                yield count, lines
                before = perf_counter()

    begin = perf_counter()
    _save(lambda place: kb.write_as(place, followed), target)
    writing = perf_counter() - begin - assembling
    return replace(kb.times, confidence=confidence, assembling=assembling, writing=writing)


def _warnings(kb: KnowledgeBase) -> Iterator[str]:
    """Warnings about results that look wrong: one entity holds most of the fragments."""
    total = kb.posterior.n_fragments
    found = chain.from_iterable(kb.posterior.estimates())
    largest = max(map(len, found), default=0)
    if total > _FEW and 2 * largest > total:
        yield (
            f"one entity holds {largest:,} of {total:,} fragments; if that is wrong, try a larger "
            f"--alpha than {kb.alpha:.4g}, or another --likelihood"
        )


def _place(target: str) -> str:
    return "standard output" if target == "-" else quoted(target, 400)


def _print_summary(kb: KnowledgeBase, target: str) -> None:
    from kbforge.contracts import Ending

    figures = kb.summary()
    rows = {
        "fragments": f"{figures['fragments']:,}",
        "entities": f"{figures['entities']:,}",
    }
    if kb.known is not None:
        rows["mentions"] = f"{figures['mentions']:,}"
        rows["of them linked"] = f"{figures['linked']:,}"
        rows["known entities"] = f"{figures['known_entities']:,}"
        rows["of them with mentions"] = f"{figures['known_entities_with_mentions']:,}"
    rows |= {
        "subproblems": f"{figures['subproblems']:,}",
        "effective particles": f"10^{figures['log10_effective_particles']:.1f}",
    }
    if kb.probability:
        rows["log posterior (nats)"] = f"{figures['log_posterior']:,.2f}"
    else:
        rows["score"] = f"{figures['score']:,.2f}"
    if figures["ended"] != Ending.DONE:
        rows["ended by"] = str(figures["ended"])
    rows["model evaluations"] = f"{figures['model_evaluations']:,}"
    if figures["evaluations_in_vain"]:
        rows["of them unused"] = f"{figures['evaluations_in_vain']:,}"
    rows |= console.prior_rows(figures["alpha"], figures["size_exponent"])
    console.stderr().print(console.figures_of(rows.items()))
    parts = ("reading", "preparing", "clustering", "confidence", "assembling", "writing")
    spent = ", ".join(f"{part} {figures[f'seconds_{part}']:,.2f}" for part in parts)
    console.note(f"{figures['seconds']:,.2f} seconds: {spent}")
    console.note(f"wrote {_place(target)}")


# --- a store --------------------------------------------------------------------------------------


def _take_in(
    context: typer.Context,
    into: str,
    choices: RunOptions,
    inputs: Sequence[str | None],
    of_store: _StoreOptions,
) -> None:
    """Add the verb's file to a store and print a summary."""
    from kbforge.files.io import called, require_apart
    from kbforge.jobs.link import renamed
    from kbforge.jobs.sync import remove_missing
    from kbforge.jobs.update import add_fragments as run

    require_apart(into, inputs)
    given = context.params
    fragments: str = given["fragments"]
    begin = perf_counter()
    rows, feed = _rows_for(context, into, of_store)
    new, named = renamed(rows, given["column_map"] or ())
    known = read_known(given["against"])
    is_repeated = feed is not None or of_store.remove_missing
    on_duplicate = of_store.on_duplicate or ("replace" if is_repeated else "error")
    with console.stoppable() as check, console.following(check) as (on_step, on_stage):
        taken = run(
            into,
            new,
            choices,
            on_duplicate,
            called(fragments),
            on_step,
            on_stage,
            begin,
            known,
            named,
        )
    if taken.complete and of_store.remove_missing and (gone := remove_missing(into, new)):
        console.note(f"removed {counted(gone, 'fragment')} that the table has no longer")
    if taken.complete and feed is not None:
        feed.finish(into)
    console.notes(taken.notes)
    if taken.worth_it:
        console.note(
            f"note: the fragments added since the models learned differ by {taken.drift:.2f}, or "
            f"outnumber the others; kbforge refit {quoted(into, 400)} learns again"
        )
    if given["as_json"]:
        console.print_json(taken.summary())
    else:
        _print_taken(taken, into)
    if not taken.complete:
        console.note(
            f"{interrupts.sentence()}: {quoted(into, 400)} holds what was added by then; the same "
            "command continues"
        )
        raise typer.Exit(interrupts.exit_code())


def _rows_for(
    context: typer.Context, into: str, of_store: _StoreOptions
) -> tuple[Sequence[Fragment], Feed | None]:
    """The verb's fragments for a store; of a query with a watermark, those that have changed since
    its last complete run, unless rows that are missing are to be removed."""
    path, source = context.params["fragments"], options.source_options(context)
    whole = context.params["limit"] is None and "since" not in source
    if of_store.remove_missing and not whole:
        raise UsageError("--set store.remove-missing needs the whole table, without a limit")
    if "watermark" not in source or not whole:
        return options.read_all(context, path), None
    from kbforge.jobs.sync import Feed

    feed = Feed.into(into, path, source)
    since = {} if feed.since is None or of_store.remove_missing else {"since": feed.since}
    return options.read_all(context, path, **since), feed


def _print_taken(taken: UpdateResult, into: str) -> None:
    rows = {"added": f"{taken.added:,}"}
    if taken.replaced:
        rows["of them replaced"] = f"{taken.replaced:,}"
    if taken.skipped:
        rows["skipped"] = f"{taken.skipped:,}"
    rows |= {
        "fragments": f"{taken.fragments:,}",
        "entities": f"{taken.entities:,}",
        "subproblems": f"{taken.subproblems:,}",
        **console.prior_rows(taken.alpha, taken.size_exponent),
        "seconds": f"{taken.seconds:,.2f}",
    }
    console.stderr().print(console.figures_of(rows.items()))
    console.note(f"run {taken.run}: {counted(taken.added, 'fragment')} into {quoted(into, 400)}")


# --- saving ---------------------------------------------------------------------------------------
#
# A full disk, or a folder that went away, must not cost a result that took long. The result then
# goes to a new file elsewhere. If no place takes it and somebody sits at the terminal, the program
# waits.


def _save(write: Callable[[str], None], target: str) -> None:
    """Write a result with a function that writes it to a file; it may be called several times.

    Raises:
        OutputError: the result is in another file, or no file could be written.

    """
    while True:
        try:
            write(target)
            return
        except OutputError as error:
            for place in _elsewhere(target):
                try:
                    write(place)
                except OutputError:
                    continue
                raise OutputError(
                    f"{error}; the result is in {quoted(place, 400)} instead"
                ) from error
            if not (sys.stdin.isatty() and sys.stderr.isatty()):  # nobody is there
                raise
            console.note(
                f"{error}, and no other place takes it; free space and press Enter, or Ctrl-C"
            )
            if not sys.stdin.readline():
                raise


def _elsewhere(target: str) -> Iterator[str]:
    """Possible names of new files in the current folder and in the folder of temporary files."""
    name = "kb.jsonl" if target == "-" else Path(target).name
    plain = name.removesuffix(".gz")
    folders = [os.getcwd()]
    with contextlib.suppress(FileNotFoundError):  # it tries to write there
        folders.append(tempfile.gettempdir())
    for folder in dict.fromkeys(folders):
        free = (f"rescued-{n}-{plain}{name[len(plain) :]}" for n in range(1, 1000))
        for candidate in free:
            if not os.path.lexists(Path(folder) / candidate):
                yield str(Path(folder) / candidate)
                break

"""The verbs of a store: status, changes, decide, remove, refit and check."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from kbforge import interrupts
from kbforge.cli import console, options
from kbforge.cli.options import option
from kbforge.errors import UsageError, counted, lasting, listed, quoted

if TYPE_CHECKING:
    from kbforge.jobs.report import Status

_RUNS = 10  # of a status


status_app = typer.Typer(add_completion=False)


@status_app.command()
def status(
    store: options.Store,
    as_json: options.Json = False,
) -> None:
    """Describe a store: contents, models, runs and drift.

    It also reports whether learning again (kbforge refit) is worth it.

    Examples:

        kbforge status kb.sqlite

        kbforge status kb.sqlite --json
    """
    from msgspec import to_builtins

    from kbforge.jobs.report import status_of
    from kbforge.store.database import Database

    found = status_of(store)
    if as_json:
        console.print_json(to_builtins(found))
        return
    _print_status(found)
    with Database(store, verify=False) as database:
        if database.lacking is not None:
            console.note(f"note: {database.lacking}")


def _print_status(found: Status) -> None:
    rows = {
        "fragments": f"{found.fragments:,}",
        "entities": f"{found.entities:,}",
        "subproblems": f"{found.subproblems:,}",
        "effective particles": f"10^{found.log10_effective_particles:.1f}",
        "decisions in force": f"{found.decisions:,}",
        "likelihood": quoted(found.likelihood, 400),
        **console.prior_rows(found.alpha, found.size_exponent),
        "learned from": f"{found.learned_from:,}",
        "added since": f"{found.came_since:,}",
        "drift": f"{found.drift:.2f}",
        "megabytes": f"{found.megabytes:,.1f}",
    }
    if found.kbforge is not None:
        rows["learned by"] = f"kbforge {quoted(found.kbforge, 40)}"
    if found.link is not None:
        rows["linked by"] = quoted(found.link)
    out = console.stdout()
    out.print(console.figures_of(rows.items()))
    out.print()
    columns = ("run", "event", "added", "removed", "entities", "time", "about")
    runs = [
        (
            str(run.number),
            run.verb if run.finished else f"{run.verb} (not finished)",
            *(f"{figure:,}" for figure in (run.added, run.removed, run.entities)),
            lasting(run.seconds),
            quoted(run.about, 60),
        )
        for run in found.runs[-_RUNS:]
    ]
    out.print(console.table_of(columns, runs))
    if len(found.runs) > _RUNS:
        console.note(f"the last {_RUNS} of {len(found.runs):,} runs; --json has all")
    if found.erasing:
        console.note(
            f"note: {counted(found.erasing, 'fragment')} removed, and not erased yet, because "
            "kbforge remove --secure was interrupted; the next command that writes finishes it"
        )
    if found.refit_is_worth_it:
        most = ", ".join(quoted(name) for name in found.drift_by_attribute)
        of = f" (most in {most})" if most else ""
        console.note(
            f"note: the fragments added since differ from those that the models learned from{of}, "
            f"or outnumber them; kbforge refit {quoted(found.path, 400)} learns again"
        )


changes_app = typer.Typer(add_completion=False)


@changes_app.command()
def changes(
    store: options.Store,
    since: Annotated[
        int,
        option("--since", "Number of a run (see kbforge status); 0 is before the first.", min=0),
    ] = 0,
    to: Annotated[
        int | None, option("--to", "Number of a later run; now by default.", min=0)
    ] = None,
    output: Annotated[str, option("--output", "-o", "File to write; - is standard output.")] = "-",
    as_json: Annotated[
        bool,
        option(
            "--json",
            "Write one object with the changes up to the last completed run; its field to is "
            "the next --since.",
        ),
    ] = False,
    audit: Annotated[
        bool, option("--audit", "Write who wrote what in these runs, when and why.")
    ] = False,
) -> None:
    """List the entities that changed between two runs.

    Each line is a JSON object: the entity's id; kind (created, changed, merged, split or removed);
    the ids of its fragments before and after; others, the entities that exchanged fragments with
    it; and relinked, unchanged entities with a value of its name that means another entity now. An
    entity whose fragments were erased is listed without their ids.

    With --audit, each line is a run, a decision or an undo: its time (at), the name of who made it
    (by), and what it said. The line's chain is the SHA-256 of the line before and of this one, so
    kbforge check finds a missing or altered line. After an erasure, said is null.

    Examples:

        kbforge changes kb.sqlite --since 4 -o changes.jsonl

        kbforge changes kb.sqlite --audit -o audit.jsonl

        kbforge changes kb.sqlite --since 4 --to 6

        kbforge changes kb.sqlite --since 4 --json
    """
    import orjson
    from msgspec import to_builtins

    from kbforge.files.io import open_output, require_apart
    from kbforge.store.audit import audit_of
    from kbforge.store.changes import changes as read
    from kbforge.store.changes import read_changes
    from kbforge.store.database import Database
    from kbforge.store.store import Store

    if audit and as_json:
        raise UsageError("--audit writes lines; give it without --json")
    require_apart(output, [store])
    with Database(store) as database, database.snapshot(), open_output(output) as out:
        if audit:
            for line in audit_of(database.connection, since, to):
                out.write(orjson.dumps(to_builtins(line)) + b"\n")
            return
        if as_json:
            told = to_builtins(read_changes(Store(database), since, to))
            del told["after"]  # all of them are there
            out.write(orjson.dumps(told) + b"\n")
            return
        for change in read(Store(database), since, to):
            out.write(orjson.dumps(change) + b"\n")


backup_app = typer.Typer(add_completion=False)


@backup_app.command()
def backup(
    store: options.Store,
    copy: Annotated[str, typer.Argument(help="File to write.")],
    replace: Annotated[
        bool, option("--replace", "Replace a store that has the name of the copy.")
    ] = False,
    as_json: options.Json = False,
) -> None:
    """Copy a store as it is now, and verify the copy.

    Other commands and a server can write to the store meanwhile. The copy appears under its name
    when it is complete. It is a normal store: to go back to it, use its name instead.

    Examples:

        kbforge backup kb.sqlite kb-monday.sqlite

        kbforge backup kb.sqlite kb-latest.sqlite --replace --json
    """
    from kbforge.store.backup import backup as run

    with console.progress(total=None, description="copying pages") as bar:
        made = run(store, copy, replace, bar.update)
    if as_json:
        console.print_json(made)
        return
    console.note(
        f"{quoted(store, 400)} is copied to {quoted(copy, 400)}: {made['fragments']:,} fragments "
        f"in {made['entities']:,} entities, as of run {made['run']}"
    )


check_app = typer.Typer(add_completion=False)


@check_app.command()
def check(
    store: options.Store,
    as_json: options.Json = False,
) -> None:
    """Verify every page, index and row of a store.

    It also reports data missing from the file, for example because the file was copied without its
    log while a program was writing to it. The exit code is 1 if anything is damaged or missing.

    Examples:

        kbforge check kb.sqlite

        kbforge check kb.sqlite --json
    """
    from kbforge.store.database import Database

    with Database(store, verify=False) as database:
        rows, damage = database.examined()
        version, lacking = database.version, database.lacking
    whole = not damage and lacking is None
    if as_json:
        told = {"whole": whole, "rows": rows, "damage": damage, "lacking": lacking}
        console.print_json({"path": store, "version": version, **told})
    else:
        for table, count in rows.items():
            typer.echo(f"{table:<9} {count:>12,} rows intact")
        for sentence in damage:
            typer.echo(f"damage: {sentence}")
        if lacking is not None:
            typer.echo(lacking)
        if damage:
            typer.echo(f"{quoted(store, 400)} is damaged: restore it from a copy")
        elif whole:
            typer.echo(f"{quoted(store, 400)} is intact")
    if not whole:
        raise typer.Exit(1)


decide_app = typer.Typer(add_completion=False)


@decide_app.command()
def decide(
    store: options.Store,
    said: Annotated[
        str | None,
        typer.Argument(
            metavar="same|different|value",
            help="Whether they are the same entity, or that an attribute has a value.",
        ),
    ] = None,
    a: Annotated[str | None, typer.Argument(metavar="ID", help="Id of a fragment.")] = None,
    b: Annotated[
        str | None, typer.Argument(metavar="ID|ATTRIBUTE", help="Id of another, or an attribute.")
    ] = None,
    value: Annotated[
        str | None, typer.Argument(metavar="VALUE", help="Its value, which you know is right.")
    ] = None,
    file: Annotated[
        str | None,
        option(
            "--file",
            'Read decisions from JSON lines such as {"same": true, "a": ID, "b": ID}, or from '
            "answers that kbforge review collected; - for standard input.",
        ),
    ] = None,
    rules: Annotated[
        str | None,
        option(
            "--rules",
            'Replace the rules of the store by those of a TOML file: never = ["vat id"] keeps '
            'apart fragments whose values of it differ, always = ["passport"] merges those that '
            "share a value. An empty file withdraws all.",
        ),
    ] = None,
    rehearse: Annotated[
        bool, option("--try", "With --rules: only tell how many entities would change.")
    ] = False,
    unknown: Annotated[
        bool, option("--unknown", "Allow fragments that the store does not have yet.")
    ] = False,
    list_them: Annotated[
        bool, option("--list", "List the decisions, including undone ones.")
    ] = False,
    undo: Annotated[
        int | None, option("--undo", "Withdraw decision number N (see --list).", metavar="N")
    ] = None,
    by: options.By = None,
    note: options.Note = None,
    as_json: options.Json = False,
) -> None:
    """Decide what is one entity, a value or a rule; or undo.

    Every later grouping honours a decision. If two fragments are the same, their entities become
    one, unless another decision forbids that; --file decides about the two fragments of each line
    alone. A decision that contradicts others is refused, and one that is already in force is not
    repeated.

    A value settles an attribute of the fragment's entity: it is the golden one by every policy,
    with your name. What sources state stays. The last such decision holds.

    --rules holds for all fragments, present and later. Decisions win over rules, and never wins
    over always.

    --undo withdraws a decision; to undo a change of rules, give those before it. If the store has
    not changed since, it is restored exactly; otherwise what was affected is clustered again.

    Examples:

        kbforge decide kb.sqlite same row-17 row-20

        kbforge decide kb.sqlite different row-17 row-21

        kbforge decide kb.sqlite same row-17 row-20 --as ada --note "same phone"

        kbforge decide kb.sqlite value row-17 born 1815 --note "baptismal register"

        kbforge decide kb.sqlite --file decisions.jsonl --json

        kbforge decide kb.sqlite --rules rules.toml --try

        kbforge decide kb.sqlite --list

        kbforge decide kb.sqlite --undo 3
    """
    from kbforge.files.answers import read_decisions
    from kbforge.jobs import decide as job
    from kbforge.store.audit import signed

    given = [part for part in (said, a, b, value) if part is not None]
    if rehearse and rules is None:
        raise UsageError("--try requires --rules")
    if rules is not None:
        if given or file is not None or list_them or undo is not None:
            raise UsageError("--rules makes no decision; give it by itself")
        with signed(by, note):
            _set_rules(store, rules, rehearse, as_json)
        return
    if list_them or undo is not None:
        if given or file is not None or (list_them and undo is not None):
            raise UsageError("--list and --undo make no decision; give one of them by itself")
    elif (file is None) == (len(given) < 3) or (file is not None and given):
        raise UsageError("expected same or different and two ids, or --file; see --help")
    elif given and (said == "value") != (len(given) == 4):
        raise UsageError("expected two ids, or after value an id, an attribute and its value")
    if list_them:
        _list_decisions(store, as_json)
        return
    if undo is not None:
        with signed(by, note):
            done = job.undo(store, undo)
        how = "exactly as before" if done.told["exact"] else "clustered again without it"
        what = "was undone before" if done.told["already"] else f"undone, {how}"
        console.print_done(done, store, f"decision {undo} {what}", as_json)
        return
    with signed(by, note):
        if said == "value":
            done = job.assert_value(store, *given[1:])
        elif file is not None:
            done = job.decide(store, read_decisions(file), unknown)
        else:
            decisions = job.decisions_of([(given[0], given[1], given[2])])
            done = job.decide(store, decisions, unknown, job.whole_entities)
    numbers = done.told["decisions"]
    which = f"decision {numbers[0]}" if len(numbers) == 1 else f"{len(numbers)} decisions"
    if done.told["already"]:
        which += f" {'is' if len(numbers) == 1 else 'are'} in force already"
    console.print_done(done, store, which if numbers else "nothing was decided", as_json)


def _set_rules(store: str, rules: str, rehearse: bool, as_json: bool) -> None:
    from kbforge.files.rules import read_rules
    from kbforge.jobs.rules import in_words, set_rules

    done = set_rules(store, given := read_rules(rules), rehearse)
    count, some = done.told["changed"], done.told["examples"]
    would = "would change" if rehearse else "changed"
    said = f"{quoted(in_words(given), 400)}: {counted(count, 'entity', 'entities')} {would}"
    if some:
        said += f" (among them {listed(some, 3)})"
    if done.told["already"]:
        said = f"{quoted(in_words(given), 400)}: in force already"
    elif done.told["exact"]:
        said += ", exactly as before the last change of rules"
    for one in done.told["counts"]:
        how = "state" if one["rule"] == "never" else "share"
        values = f"{how} {counted(one['values'], 'value')} of {quoted(one['attribute'])}"
        console.note(f"{one['rule']}: {counted(one['fragments'], 'fragment')} {values}")
    console.notes(done.told["notes"])
    if rehearse and not as_json:
        console.note(f"nothing changed: {said}")
        return
    console.print_done(done, store, said, as_json)


def _list_decisions(store: str, as_json: bool) -> None:
    from kbforge.clustering.constraints import called
    from kbforge.contracts import Decision
    from kbforge.jobs.decide import signed_decisions
    from kbforge.store.database import Database
    from kbforge.store.store import Store

    with Database(store) as database, database.snapshot():
        decisions = signed_decisions(Store(database))
    if as_json:
        console.print_json({"decisions": [one._asdict() for one in decisions]})
    elif not decisions:
        console.note("the store has no decisions")
    else:
        for one in decisions:
            name = f"decision {one.number}"
            decided = called(Decision(one.same, one.a, one.b, name))
            said = f"{name} ({one.asserts})" if one.asserts else decided
            said += f" in run {one.run}"
            if one.undone is not None:
                said += f", undone in run {one.undone}"
            if one.by:
                said += f", by {quoted(one.by, 400)}"
            if one.note:
                said += f": {quoted(one.note, 400)}"
            console.stdout().print(said, markup=False, soft_wrap=True)


remove_app = typer.Typer(add_completion=False)


@remove_app.command()
def remove(
    store: options.Store,
    fragments: Annotated[
        list[str] | None, typer.Argument(metavar="ID", help="Ids of fragments.")
    ] = None,
    source: Annotated[
        str | None,
        option("--source", "Remove all fragments from this source, such as the table people.csv."),
    ] = None,
    secure: Annotated[
        bool, option("--secure", "Also erase their content from the file, its log and the models.")
    ] = False,
    by: options.By = None,
    note: options.Note = None,
    as_json: options.Json = False,
) -> None:
    """Remove fragments from a store.

    The stored groupings lose the fragments and get new weights. Either all or none of the named
    fragments are removed. Fragments removed earlier are skipped, so you can repeat the command.

    Without --secure the models keep what they learned from the fragments. With it they learn again
    from the rest, decisions about the fragments are deleted, and the file is rewritten, so that no
    trace remains. If that is interrupted, kbforge status reports it, and the next command that
    writes finishes it.

    Examples:

        kbforge remove kb.sqlite row-17 row-20

        kbforge remove kb.sqlite --source people.csv

        kbforge remove kb.sqlite row-17 --secure
    """
    from kbforge.jobs import remove as job
    from kbforge.store.audit import signed

    if not fragments and source is None:
        raise UsageError("expected the ids of fragments, or --source; see --help")
    with signed(by, note):
        done = (job.erase if secure else job.remove)(store, fragments or (), source)
    gone = counted(done.told["removed"], "fragment")
    how = "erased" if secure else "removed"
    what = f"all of them were {how} before" if done.told["already"] else f"{gone} {how}"
    console.print_done(done, store, what, as_json)


refit_app = typer.Typer(add_completion=False)


@refit_app.command()
def refit(
    context: typer.Context,
    store: options.Store,
    search: Annotated[
        bool, option("--search", "Keep the models, and search for better groupings instead.")
    ] = False,
    fragments: Annotated[
        list[str] | None,
        option(
            "--fragment",
            "With --search: search only around this fragment; may be repeated.",
            metavar="ID",
        ),
    ] = None,
    passes: Annotated[int, option("--passes", "With --search: number of passes.", min=1)] = 1,
    as_json: options.Json = False,
) -> None:
    """Learn the models again, or search for better groupings.

    Rates, base counts and alpha are learned again from all fragments in the store, and the stored
    groupings get new weights. Decisions count as answers. kbforge status reports when this is worth
    it.

    --search clusters neighbouring clusters again and keeps more probable groupings. It also splits
    and merges clusters by hashes and moves individual fragments. The log posterior never falls.
    Ctrl-C ends the search after the current step and keeps its result; a process that is killed
    leaves the store unchanged.

    Examples:

        kbforge refit kb.sqlite

        kbforge refit kb.sqlite && kbforge refit kb.sqlite --search

        kbforge refit kb.sqlite --search --fragment row-17 --passes 3
    """
    if search:
        _search(store, fragments, passes, as_json)
        return
    if (named := options.first_given(context, ("fragments", "passes"))) is not None:
        raise UsageError(f"{named} requires --search")
    from kbforge.jobs.refit import refit as run

    with console.progress(total=None, description="weighing") as bar:
        done = run(store, lambda steps, most: bar.update(steps))
    console.notes(done.told["notes"])
    was, now = done.told["alpha_before"], done.told["alpha"]
    what = f"learned again, alpha {now:,.4g} (it was {was:,.4g})"
    if done.told["already"]:
        what = "nothing has changed since the models learned"
    console.print_done(done, store, what, as_json)


def _search(store: str, fragments: list[str] | None, passes: int, as_json: bool) -> None:
    from kbforge.jobs.refit import revisit

    with (
        console.stoppable() as check,
        console.progress(total=None, description="searching") as bar,
    ):
        check()

        def on_step(steps: int) -> None:
            check()
            bar.update(steps)

        done = revisit(store, passes, fragments or None, on_step)
    figures = done.told
    if figures["complete"]:
        what = f"{figures['changed']:,} of {figures['steps']:,} steps changed something"
        what += f", {figures['gain']:+,.2f} nats"
    else:
        what = f"{interrupts.sentence()} after {figures['steps']:,} steps, which are kept"
    console.print_done(done, store, what, as_json)
    if not figures["complete"]:
        raise typer.Exit(interrupts.exit_code())

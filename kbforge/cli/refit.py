"""`kbforge refit`: learns the models of a store again, or searches for better groupings."""

from __future__ import annotations

from typing import Annotated

import typer

from kbforge import interrupts
from kbforge.cli import console, options
from kbforge.errors import UsageError

app = typer.Typer(add_completion=False)


@app.command()
def refit(
    context: typer.Context,
    store: options.Store,
    search: Annotated[
        bool,
        typer.Option("--search", help="Keep the models, and search for better groupings instead."),
    ] = False,
    fragments: Annotated[
        list[str] | None,
        typer.Option(
            "--fragment",
            metavar="ID",
            help="With --search: search only around this fragment; may be repeated.",
        ),
    ] = None,
    passes: Annotated[
        int, typer.Option("--passes", min=1, help="With --search: number of passes.")
    ] = 1,
    as_json: options.Json = False,
) -> None:
    """Learn the models again, or search for better groupings.

    Rates, base counts and alpha are learned from all fragments that the store holds, and the
    groupings that it keeps get new weights. Decisions count as answers. kbforge status says when
    this is worth it.

    --search clusters neighbouring clusters again and keeps what is more probable. It also splits
    and merges clusters by hashes and moves single fragments. The log posterior never falls. Ctrl-C
    ends the search after the current step and keeps what it found; a process that is killed leaves
    the store as it was.

    Examples:

        kbforge refit kb.sqlite

        kbforge refit kb.sqlite && kbforge refit kb.sqlite --search

        kbforge refit kb.sqlite --search --fragment row-17 --passes 3
    """
    if search:
        _search(store, fragments, passes, as_json)
        return
    if (named := options.first_given(context, ("fragments", "passes"))) is not None:
        raise UsageError(f"{named} goes with --search")
    from kbforge.jobs.refit import refit as run

    with console.progress(total=None, description="weighing") as bar:
        done = run(store, lambda steps, most: bar.update(steps))
    for sentence in done.told["notes"]:
        console.note(f"note: {sentence}")
    was, now = done.told["alpha_before"], done.told["alpha"]
    what = f"learned again, alpha {now:,.4g} (it was {was:,.4g})"
    if done.told["already"]:
        what = "nothing has changed since the models learned"
    console.print_done(done, store, what, as_json)


def _search(store: str, fragments: list[str] | None, passes: int, as_json: bool) -> None:
    from kbforge.contracts import Interrupted
    from kbforge.jobs.refit import revisit

    stopped = False

    def stop() -> None:
        nonlocal stopped
        if stopped:
            raise KeyboardInterrupt
        stopped = True

    with (
        interrupts.called(stop),
        console.progress(total=None, description="searching") as bar,
    ):

        def on_step(steps: int) -> None:
            if stopped:
                raise Interrupted
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

"""`kbforge revisit`: spend time on old mistakes."""

from __future__ import annotations

from typing import Annotated

import typer

from kbforge import interrupts
from kbforge.cli import console
from kbforge.cli.told import told

app = typer.Typer(add_completion=False)


@app.command()
def revisit(
    store: Annotated[str, typer.Argument(help="Store, as kbforge cluster --into makes.")],
    fragments: Annotated[
        list[str] | None,
        typer.Argument(metavar="[ID]...", help="Only around these fragments; none is all."),
    ] = None,
    passes: Annotated[int, typer.Option("--passes", min=1, help="How often to go over all.")] = 1,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Cluster neighbouring clusters again, and keep what is more probable.

    Clusters are also parted by hashes and merged, and single fragments move, where that is better.
    The log posterior never falls. What was found is written at the end: Ctrl-C ends it after the
    current step and keeps it, and a process that is killed leaves the store as it was.

    Examples:

        kbforge revisit kb.sqlite

        kbforge revisit kb.sqlite row-17 --passes 3
    """
    from kbforge.contracts import Interrupted
    from kbforge.jobs.living.events import revisit as run

    stopped = False

    def stop() -> None:
        nonlocal stopped
        if stopped:
            raise KeyboardInterrupt
        stopped = True

    with (
        interrupts.told(stop),
        console.progress(total=None, description="revisiting") as bar,
    ):

        def on_step(steps: int) -> None:
            if stopped:
                raise Interrupted
            bar.update(steps)

        done = run(store, passes, fragments or None, on_step)
    figures = done.told
    if figures["complete"]:
        what = f"{figures['changed']:,} of {figures['steps']:,} steps changed something"
        what += f", {figures['gain']:+,.2f} nats"
    else:
        what = f"{interrupts.sentence()} after {figures['steps']:,} steps, which are kept"
    told(done, store, what, as_json)
    if not figures["complete"]:
        raise typer.Exit(interrupts.exit_code())

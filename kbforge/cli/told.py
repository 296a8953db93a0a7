"""What verbs say when they have changed a store."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kbforge.cli import console
from kbforge.errors import quoted

if TYPE_CHECKING:
    from kbforge.jobs.living.events import Done


def told(done: Done, store: str, what: str, as_json: bool) -> None:
    """Print what was done: as one JSON object on stdout, or as a sentence on stderr."""
    if as_json:
        console.print_json(done.summary())
        return
    run = "nothing changed" if done.told.get("already") else f"run {done.run}"
    console.note(
        f"{run}: {what}; {quoted(store, 400)} has {done.fragments:,} fragments in "
        f"{done.entities:,} entities"
    )

"""From a verb's options to `Choices`: one function for every verb that clusters or explains."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING

from kbforge.cli import options

if TYPE_CHECKING:
    import typer

    from kbforge.fit.choices import Choices

_KINDS = ("likelihood", "surrogate", "index", "clusterer", "calibrator", "executor")


def choices_of(context: typer.Context) -> Choices:
    """What the user chose, of the options that the verb declares; defaults for the others.

    `--set` reaches the kinds of plugin that the verb has an option for.

    Raises:
        UsageError: a `--set` that cannot be read, or devices that contradict each other.

    """
    from kbforge.fit.choices import Choices
    from kbforge.registry.options import parse_settings

    given = context.params
    chosen = {one.name: given[one.name] for one in fields(Choices) if one.name in given}
    if "gpu" in given:
        chosen["device"] = options.device_of(given["gpu"], given["device"])
    kinds = [kind for kind in _KINDS if kind in given]
    return Choices(**chosen, options=parse_settings(given["settings"] or (), kinds))

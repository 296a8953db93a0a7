"""Suites: what `kbforge lab bench` compares."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import TYPE_CHECKING

from kbforge.errors import UsageError, did_you_mean, quoted
from kbforge.registry.options import bind_options

if TYPE_CHECKING:
    from kbforge_lab.suites.plan import Suite

SUITES = {
    "accuracy": "Accuracy",
    "circles": "CirclesSuite",
    "documents": "Documents",
    "gauss": "Gauss",
    "hashing": "Hashing",
    "supervised": "SupervisedSuite",
    "text": "Text",
}
"""The class of each suite; `hashing` is in the module of `gauss`, any other in one of its name."""


def suite_class(name: str) -> type[Suite]:
    """The class of a suite; a UsageError if there is none."""
    if name not in SUITES:
        raise UsageError(
            f'there is no suite "{quoted(name)}"{did_you_mean(name, SUITES)}; '
            f"available: {', '.join(SUITES)}"
        )
    module = import_module(f"{__name__}.{'gauss' if name == 'hashing' else name}")
    found: type[Suite] = getattr(module, SUITES[name])
    return found


def make_suite(name: str, options: Mapping[str, object] | None = None) -> Suite:
    """A suite with options as `--set` gives them; a UsageError if it has no such option."""
    made = suite_class(name)
    return made(**bind_options(made, f"suite {name}", options or {}))

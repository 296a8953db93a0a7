"""What a plugin says of itself, and that ours say all of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import pytest

from kbforge import registry
from kbforge.registry.options import PluginOption, describe

OURS = [
    pytest.param(p.kind, p.name, id=f"{p.kind}-{p.name}")
    for p in registry.installed()
    if p.distribution == "kbforge" and p.kind != "commands"
]


@pytest.mark.parametrize(("kind", "name"), OURS)
def test_every_option_of_our_plugins_is_documented(kind: str, name: str) -> None:
    description = describe(registry.load(kind, name))
    assert len(description.summary) > 10
    assert [option.name for option in description.options if not option.help] == []


class Many:
    """Has options
    of many types.

    Args:
        size: how many
            at once.

    """

    def __init__(
        self,
        size: int,
        names: tuple[str, ...] = ("a", "b"),
        way: Literal["up", "down"] | None = None,
        path: Path | None = None,
        sure: bool = True,
        free: Any = "x",
    ) -> None: ...


def test_types_and_defaults_are_shown_as_set_takes_them() -> None:
    description = describe(Many)
    assert description.summary == "Has options of many types."
    assert description.options == (
        PluginOption("size", "int", None, "how many at once."),
        PluginOption("names", "tuple[str, ...]", "a,b", ""),
        PluginOption("way", "up | down | none", "none", ""),
        PluginOption("path", "Path | none", "none", ""),
        PluginOption("sure", "bool", "true", ""),
        PluginOption("free", "Any", "x", ""),
    )

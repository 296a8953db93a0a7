"""Every plugin of the laboratory has contract tests, and so has every kind that it adds."""

from __future__ import annotations

import importlib
from pathlib import Path

import kbforge_lab.testing
from kbforge import registry
from kbforge.testing import Contract

PLUGINS = {
    (p.kind, p.name)
    for p in registry.installed()
    if p.entry_point.module.startswith("kbforge_lab.") and p.kind != "kinds"
}


def covered() -> set[tuple[str, str]]:
    modules = (
        importlib.import_module(f"{__package__}.{path.stem}")
        for path in sorted(Path(__file__).parent.glob("test_*.py"))
    )
    members = (member for module in modules for member in vars(module).values())
    contracts = (m for m in members if isinstance(m, type) and issubclass(m, Contract))
    return {(c.kind, c.name) for c in contracts if getattr(c, "name", None)}


def test_contract_tests_are_of_the_plugins_that_there_are() -> None:
    assert covered() == PLUGINS


def test_a_kind_of_ours_has_a_test_kit() -> None:
    ours = {p.name for p in registry.installed("kinds")}
    kits = {member.kind for member in vars(kbforge_lab.testing).values() if hasattr(member, "kind")}
    assert ours == kits

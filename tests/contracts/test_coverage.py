"""Every plugin of our own has contract tests: a new one without them fails here."""

from __future__ import annotations

import importlib
from pathlib import Path

import kbforge.testing
from kbforge import registry
from kbforge.testing import Contract

PACKAGES = ("kbforge", "kbforge_grammars", "kbforge_plugins", "kbforge_training")


def ours() -> set[tuple[str, str]]:
    """Kind and name of every plugin of these packages."""
    found = ((p.entry_point.module.split(".")[0], p) for p in registry.installed())
    return {(p.kind, p.name) for package, p in found if package in PACKAGES}


def covered() -> set[tuple[str, str]]:
    found = set()
    for path in sorted(Path(__file__).parent.glob("test_*.py")):
        module = importlib.import_module(f"tests.contracts.{path.stem}")
        for member in vars(module).values():
            if (
                isinstance(member, type)
                and issubclass(member, Contract)
                and hasattr(member, "name")
            ):
                found.add((member.kind, member.name))
    return {(kind, name) for kind, name in found if name}


def test_every_plugin_of_ours_has_contract_tests() -> None:
    assert ours() - covered() == set()


def test_no_contract_test_names_a_plugin_that_is_gone() -> None:
    assert covered() - ours() == set()


def test_every_kind_with_plugins_has_a_test_kit() -> None:
    kinds = {kind for kind, _ in ours()}
    kits = {
        member.kind
        for member in vars(kbforge.testing).values()
        if isinstance(member, type) and issubclass(member, Contract) and member is not Contract
    }
    assert kinds == kits
    for kind in kinds:
        importlib.import_module(f"kbforge.testing.{registry.singular(kind)}")

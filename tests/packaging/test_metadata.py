"""What the distribution says of itself agrees with what is in the repository."""

from __future__ import annotations

import re
import tomllib
from itertools import chain
from pathlib import Path
from typing import Any

import pytest

import kbforge
from kbforge import registry

ROOT = Path(__file__).parent.parent.parent
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def canonical(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def pinned() -> dict[str, str]:
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    pairs = [line.split("==") for line in lines if line and not line.startswith("#")]
    return {canonical(name): version for name, version in pairs}


def test_one_version_everywhere() -> None:
    assert PROJECT["project"]["version"] == kbforge.__version__


def test_every_requirement_is_pinned_and_satisfied_by_its_pin() -> None:
    from packaging.requirements import Requirement

    project, pins = PROJECT["project"], pinned()
    extras = project["optional-dependencies"]
    for line in [*project["dependencies"], *chain(*extras.values())]:
        requirement = Requirement(line)
        if requirement.name != "kbforge":
            assert requirement.specifier.contains(pins[canonical(requirement.name)]), line


def test_all_is_every_extra_but_the_tools_of_development() -> None:
    extras = PROJECT["project"]["optional-dependencies"]
    named = ",".join(sorted(extras.keys() - {"all", "dev", "docs"}))
    assert extras["all"] == [f"kbforge[{named}]"]


def test_every_extra_of_a_plugin_is_declared() -> None:
    extras = PROJECT["project"]["optional-dependencies"]
    for plugin in registry.installed():
        if plugin.distribution == "kbforge":
            assert set(plugin.entry_point.extras) <= extras.keys()


def test_torch_is_the_tested_one_without_a_local_build() -> None:
    assert pinned()["torch"] == "2.13.0"


@pytest.mark.parametrize("group", PROJECT["project"]["entry-points"])
def test_the_installed_entry_points_are_those_of_the_repository(group: str) -> None:
    kind = group.removeprefix("kbforge.")
    declared = PROJECT["project"]["entry-points"][group]
    found = {
        plugin.name: plugin.entry_point.value
        for plugin in registry.installed(kind)
        if plugin.distribution == "kbforge"
    }
    assert found == declared


def test_every_package_of_the_wheel_is_there_and_typed() -> None:
    for package in PROJECT["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]:
        assert (ROOT / package / "__init__.py").is_file()
        assert (ROOT / package / "py.typed").is_file()


def test_the_continuous_integration_calls_the_readmes_test_command_and_the_rest() -> None:
    script = ROOT / ".ci" / "run"
    assert script.stat().st_mode & 0o111
    assert {"make test", "make test-slow"} <= set(script.read_text(encoding="utf-8").splitlines())

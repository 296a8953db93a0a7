"""What the distribution says of itself agrees with what is in the repository."""

import os
import re
import tomllib
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Any

import pytest

import kbforge
from kbforge import registry
from kbforge.version import DISTRIBUTION

ROOT = Path(__file__).parent.parent.parent
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def canonical(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def pinned() -> dict[str, str]:
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    pairs = [line.split("==") for line in lines if line and not line.startswith("#")]
    return {canonical(name): version for name, version in pairs}


OLD = "kbforge"
FOREIGN = re.compile(
    r"\b(?:pip|pipx|uv|conda|mamba)\b[^\n]{0,40}? install [^\n]*?"
    rf"(?<![\w./-]){OLD}(?![\w./-])"
    rf"|(?<![\w./-]){OLD} *(?:\[[a-z][a-z, ]*\]|[<>=~!]=)"
)
"""Text that names the distribution kbforge of the package index, which is another project."""

KEPT = {".ci", ".github", *(path.name for path in ROOT.iterdir() if not path.name.startswith("."))}


def texts() -> Iterator[tuple[str, str]]:
    """The texts of the repository, and of the changelog what is not history."""
    for folder, folders, names in os.walk(ROOT):
        here = Path(folder)
        folders[:] = [name for name in folders if here != ROOT or name in KEPT]
        folders[:] = sorted({*folders} - {"__pycache__", "site", "build", "dist", "out"})
        for name in names:
            try:
                text = (here / name).read_text(encoding="utf-8")
            except UnicodeDecodeError:
                continue
            if name == "CHANGELOG.md":
                text = text.partition("\n## [")[0]
            yield str((here / name).relative_to(ROOT)), text


def test_no_text_names_a_foreign_distribution():
    seen = dict(texts())
    assert {"README.md", "docs/serving.md", ".ci/run", "kbforge/pictures.py"} <= seen.keys()
    found = {
        name: match[0]
        for name, text in seen.items()
        if OLD in text and (match := FOREIGN.search(text))
    }
    assert found == {}
    assert f"'{DISTRIBUTION}[serve]'" in seen["docs/serving.md"]


@pytest.mark.parametrize(
    "text",
    [
        "pip install 'NAME[serve]'",
        "pip install -U NAME",
        "python -m pip --quiet install NAME==0.2",
        "conda install NAME",
        'dependencies = ["NAME>=0.2,<0.3"]',
        "the extra `NAME[lm]` has it",
    ],
)
def test_a_foreign_distribution_is_seen(text):
    assert FOREIGN.search(text.replace("NAME", OLD))
    assert not FOREIGN.search(text.replace("NAME", DISTRIBUTION))


def test_one_name_everywhere():
    assert PROJECT["project"]["name"] == DISTRIBUTION
    recipe = (ROOT / "conda" / "recipe.yaml").read_text(encoding="utf-8")
    assert f"\n  name: {DISTRIBUTION}\n" in recipe
    files = f"{DISTRIBUTION.replace('-', '_')}-*"
    assert f'"$work"/dist/{files}.whl' in (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    assert f"dist/{files}.tar.gz" in (ROOT / "Makefile").read_text(encoding="utf-8")
    workflow = (ROOT / ".github" / "workflows" / "wheels.yml").read_text(encoding="utf-8")
    assert f"https://pypi.org/project/{DISTRIBUTION}/" in workflow


def test_one_version_everywhere():
    assert PROJECT["project"]["version"] == kbforge.__version__


def test_every_requirement_is_pinned_and_satisfied_by_its_pin():
    from packaging.requirements import Requirement

    project, pins = PROJECT["project"], pinned()
    extras = project["optional-dependencies"]
    for line in [*project["dependencies"], *chain(*extras.values())]:
        requirement = Requirement(line)
        if requirement.name != DISTRIBUTION:
            assert requirement.specifier.contains(pins[canonical(requirement.name)]), line


def test_all_is_every_extra_but_spark_and_the_tools_of_development():
    extras = PROJECT["project"]["optional-dependencies"]
    named = ",".join(sorted(extras.keys() - {"all", "dev", "docs", "spark"}))
    assert extras["all"] == [f"{DISTRIBUTION}[{named}]"]


def test_every_extra_of_a_plugin_is_declared():
    extras = PROJECT["project"]["optional-dependencies"]
    for plugin in registry.installed():
        if plugin.distribution == DISTRIBUTION:
            assert set(plugin.entry_point.extras) <= extras.keys()


def test_torch_is_the_tested_one_without_a_local_build():
    assert pinned()["torch"] == "2.13.0"


@pytest.mark.parametrize("group", PROJECT["project"]["entry-points"])
def test_the_installed_entry_points_are_those_of_the_repository(group):
    kind = group.removeprefix("kbforge.")
    declared = PROJECT["project"]["entry-points"][group]
    found = {
        plugin.name: plugin.entry_point.value
        for plugin in registry.installed(kind)
        if plugin.distribution == DISTRIBUTION
    }
    assert found == declared


def test_every_package_of_the_wheel_is_there_and_typed():
    for package in PROJECT["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]:
        assert (ROOT / package / "__init__.py").is_file()
        assert (ROOT / package / "py.typed").is_file()


def test_the_continuous_integration_calls_the_readmes_test_command_and_the_rest():
    script = ROOT / ".ci" / "run"
    assert script.stat().st_mode & 0o111
    assert {"make test", "make test-slow"} <= set(script.read_text(encoding="utf-8").splitlines())

"""The code of docs/plugins.md runs: its plugins are found, and pass the tests beside them."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from tests.registry.distributions import Distribution, kbforge, python

PAGE = (Path(__file__).parents[2] / "docs" / "plugins.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


PROJECTS = [tomllib.loads(text)["project"] for text in blocks("toml")]


def test_every_block_of_code_belongs_to_a_plugin() -> None:
    """Each plugin is one file, the metadata that announce it, and its tests."""
    assert len(blocks("python")) == 2 * len(PROJECTS)
    assert {kind for project in PROJECTS for kind in project["entry-points"]} >= {
        "kbforge.sources",
        "kbforge.likelihoods",
        "kbforge.exporters",
        "kbforge.grammars",
    }


@pytest.mark.slow
@pytest.mark.parametrize("number", range(len(PROJECTS)), ids=[p["name"] for p in PROJECTS])
def test_a_plugin_of_the_page_passes_its_tests(tmp_path: Path, number: int) -> None:
    project = PROJECTS[number]
    code, tests = blocks("python")[2 * number : 2 * number + 2]
    module = project["name"].replace("-", "_")
    assert f"`{module}.py`" in PAGE
    entries = project["entry-points"]
    Distribution(project["name"], project["version"], entries, {module: code}).write(tmp_path)
    for group, names in entries.items():
        for name in names:
            shown = kbforge("plugins", "show", group.removeprefix("kbforge."), name, path=tmp_path)
            assert shown.code == 0, shown.err
    (tmp_path / "test_it.py").write_text(tests, encoding="utf-8")
    ran = python(
        *("-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", str(tmp_path)),
        str(tmp_path / "test_it.py"),
        path=tmp_path,
    )
    assert ran.code == 0, ran.out
    assert " passed" in ran.out
    assert "failed" not in ran.out

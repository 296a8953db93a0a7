"""The example distribution, announced to subprocesses as an installer would announce it.

The continuous integration builds and installs it for real; here the same files are put on the path.
"""

import os
import re
import shlex
import shutil
import tomllib
from pathlib import Path

import pytest

from tests.registry.distributions import Distribution, python, within

EXAMPLE = Path(__file__).parent.parent.parent / "examples" / "third_party"


@pytest.fixture
def site(tmp_path):
    """A path with the example's package and its metadata."""
    project = tomllib.loads((EXAMPLE / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    folder = tmp_path / "site"
    folder.mkdir()
    Distribution(
        project["name"],
        project["version"],
        project["entry-points"],
        requires=tuple(project["dependencies"]),
    ).write(folder)
    return f"{folder}{os.pathsep}{EXAMPLE}"


def test_the_readme_session_gives_its_output(site, tmp_path):
    readme = (EXAMPLE / "README.md").read_text(encoding="utf-8")
    console = re.search(r"^```console\n(.*?)^```$", readme, re.MULTILINE | re.DOTALL)
    assert console
    shutil.copy(EXAMPLE / "contacts.vcf", tmp_path)
    checked = 0
    for step in re.split(r"^\$ ", console[1], flags=re.MULTILINE)[1:]:
        command, *expected = step.splitlines()
        words = shlex.split(command)
        if words[0] in ("pip", "cd"):
            continue
        if words[0] == "grep":
            lines = (tmp_path / words[2]).read_text(encoding="utf-8").splitlines()
            assert [line for line in lines if words[1] in line] == expected
        else:
            assert words[0] == "kbforge"
            done = within(*words[1:], cwd=tmp_path, path=site)
            assert done.code == 0, done.err
            assert [line.rstrip() for line in done.out.splitlines()] == expected
        checked += bool(expected)
    assert checked >= 2


@pytest.mark.slow
def test_its_own_tests_pass(site, tmp_path):
    ran = python(
        *("-m", "pytest", "-p", "no:cacheprovider", "--rootdir", str(tmp_path)),
        str(EXAMPLE / "tests"),
        PYTHONPATH=site,
    )
    assert ran.code == 0, ran.out
    assert " passed" in ran.out

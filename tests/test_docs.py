"""The documentation tells the truth: its plugin runs and its reference is fresh."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from kbforge import registry, testing
from kbforge.contracts import Fragment
from kbforge.kb.read import read_entities
from tests.registry.distributions import Distribution, Result, kbforge, python

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
PLUGINS = (ROOT / "docs" / "plugins.md").read_text(encoding="utf-8")
FORMATS = (ROOT / "docs" / "formats.md").read_text(encoding="utf-8")
CHOOSING = (ROOT / "docs" / "choosing.md").read_text(encoding="utf-8")
# page -> how many of its blocks are not run: they download PyTorch, or take long
PAGES = {"README.md": 2, "docs/choosing.md": 2, "docs/formats.md": 0, "docs/pipelines.md": 0}
DOCUMENTS = sorted(f"docs/{page.name}" for page in (ROOT / "docs").glob("*.md"))
NOT_COPIED = shutil.ignore_patterns("out", "__pycache__")
THIRD_PARTY = ROOT / "examples" / "third_party"


def blocks(text: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


# each is one file, the metadata that announce it, and its tests
PROJECTS = [tomllib.loads(text)["project"] for text in blocks(PLUGINS, "toml")]


def install_documented_plugin(folder: Path, number: int = 0) -> None:
    project = PROJECTS[number]
    module = project["name"].replace("-", "_")
    assert f"`{module}.py`" in PLUGINS
    modules = {module: blocks(PLUGINS, "python")[2 * number]}
    Distribution(project["name"], project["version"], project["entry-points"], modules).write(
        folder
    )


def normal(result: Result) -> list[str]:
    """What a terminal shows, without times and padding."""
    lines = (result.out + result.err).splitlines()
    return [re.sub(r"\d+\.\d\d s", "0.00 s", line.rstrip()) for line in lines]


@pytest.mark.skipif("lab" not in registry.names("commands"), reason="the page lists it")
def test_the_command_line_reference_is_fresh() -> None:
    checked = python(str(ROOT / "docs" / "generate_cli.py"), "--check")
    assert checked.code == 0, checked.err


def test_the_documented_plugin_gives_the_documented_output(tmp_path: Path) -> None:
    install_documented_plugin(tmp_path)
    names = tmp_path / "names.txt"
    names.write_text("Ada Lovelace\nA. Lovelace\n", encoding="utf-8")
    session = re.split(r"^\$ ", blocks(PLUGINS, "console")[0], flags=re.MULTILINE)[1:]
    assert len(session) == 4
    for step in session:
        command, *expected = step.splitlines()
        words = [str(names) if w == "names.txt" else w for w in shlex.split(command)]
        assert words[0] == "kbforge"
        assert normal(kbforge(*words[1:], path=tmp_path)) == expected


def test_every_block_of_code_belongs_to_a_plugin() -> None:
    assert len(blocks(PLUGINS, "python")) == 2 * len(PROJECTS)
    assert {kind for project in PROJECTS for kind in project["entry-points"]} >= {
        "kbforge.sources",
        "kbforge.likelihoods",
        "kbforge.exporters",
        "kbforge.grammars",
    }


@pytest.mark.parametrize(
    "number",
    [0, 1, *(pytest.param(n, marks=pytest.mark.slow) for n in range(2, len(PROJECTS)))],
)
def test_the_documented_tests_pass(tmp_path: Path, number: int) -> None:
    install_documented_plugin(tmp_path, number)
    for group, names in PROJECTS[number]["entry-points"].items():
        for name in names:
            shown = kbforge("plugins", "show", group.removeprefix("kbforge."), name, path=tmp_path)
            assert shown.code == 0, shown.err
    tests = blocks(PLUGINS, "python")[2 * number + 1]
    (tmp_path / "test_it.py").write_text(tests, encoding="utf-8")
    ran = python(
        "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", str(tmp_path),
        str(tmp_path / "test_it.py"), path=tmp_path,
    )  # fmt: skip
    assert ran.code == 0, ran.out
    assert " passed" in ran.out
    assert "failed" not in ran.out


def test_every_kind_with_plugins_is_documented_with_its_contract_and_test_kit() -> None:
    for kind in sorted(registry.KINDS.keys() - {"kinds"}):
        rows = [line for line in PLUGINS.splitlines() if line.startswith(f"| `kbforge.{kind}` |")]
        assert len(rows) == 1, kind
        assert registry.KINDS[kind].split(" of ")[0] in rows[0], kind
        kit = re.search(r"`kbforge\.testing\.(\w+)`", rows[0])
        assert kit, kind
        assert getattr(testing, kit[1]).kind == kind
        contract = re.search(r"`(kbforge/contracts/\w+\.py)`", rows[0])
        assert kind == "commands" or (contract and (ROOT / contract[1]).is_file()), kind


def test_every_kind_is_mentioned() -> None:
    assert [kind for kind in registry.KINDS if f"`kbforge.{kind}`" not in PLUGINS] == []


def test_the_example_distribution_shows_its_own_files() -> None:
    readme = (THIRD_PARTY / "README.md").read_text(encoding="utf-8")
    exporter = (THIRD_PARTY / "kbforge_vcard" / "exporter.py").read_text(encoding="utf-8")
    assert blocks(readme, "python")[0] == exporter
    assert blocks(readme, "toml")[0] in (THIRD_PARTY / "pyproject.toml").read_text(encoding="utf-8")


def runnable(page: str) -> list[str]:
    """The shell blocks of a page but those that say in their first line that they are not run."""
    return [
        block for block in blocks(page, "sh") if not block.startswith("# not run in the tests: ")
    ]


def shell(block: str, folder: Path) -> str:
    """What a block prints, standard output before standard error, as a shell runs it there."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    ran = subprocess.run(
        ["bash", "-euc", block],
        cwd=folder,
        env={**os.environ, "PATH": path, "COLUMNS": "100"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=False,
    )
    assert ran.returncode == 0, f"{block}\n{ran.stderr.decode()}"
    return (ran.stdout + ran.stderr).decode()


@pytest.mark.slow
@pytest.mark.parametrize("name", PAGES)
def test_the_commands_of_a_page_run_and_print_what_it_shows(tmp_path: Path, name: str) -> None:
    page = (ROOT / name).read_text(encoding="utf-8")
    shutil.copytree(ROOT / "examples", tmp_path / "examples", ignore=NOT_COPIED)
    shutil.copy(ROOT / "examples" / "people" / "people.csv", tmp_path)
    printed = "".join(shell(block, tmp_path) for block in runnable(page))
    lines = "\n".join(line.rstrip() for line in printed.splitlines())
    for shown in blocks(page, "text"):
        assert shown.rstrip() in lines


@pytest.mark.parametrize(("name", "count"), PAGES.items())
def test_few_blocks_of_a_page_are_not_run(name: str, count: int) -> None:
    page = (ROOT / name).read_text(encoding="utf-8")
    assert len(blocks(page, "sh")) - len(runnable(page)) == count
    fences = re.findall(r"^```(.*)$", page, re.MULTILINE)
    assert set(fences[::2]) <= {"sh", "text", "json"}
    assert set(fences[1::2]) == {""}


@pytest.mark.parametrize("name", ["README.md", "CHANGELOG.md", *DOCUMENTS])
def test_the_links_of_a_page_lead_somewhere(name: str) -> None:
    page = (ROOT / name).read_text(encoding="utf-8")
    for target in re.findall(r"\]\(([^)\s]+)\)", page):
        if "://" in target:
            continue
        file, _, anchor = target.partition("#")
        where = (ROOT / name).parent / file if file else ROOT / name
        assert where.is_file(), target
        if anchor:
            headings = re.findall(r"^#+ (.*)$", where.read_text(encoding="utf-8"), re.MULTILINE)
            assert anchor in {re.sub(r"[^\w -]", "", h.lower()).replace(" ", "-") for h in headings}


def test_the_front_page_is_short_and_has_a_picture() -> None:
    assert len(README.splitlines()) < 250
    picture = re.search(r"!\[.+\]\((.+)\)", README)
    assert picture is not None
    assert (ROOT / picture[1]).stat().st_size < 200_000


def test_the_front_page_names_the_small_torch_before_it_downloads_the_large_one() -> None:
    assert README.index("download.pytorch.org/whl/cpu") < README.index("make demo     #")
    helped = (ROOT / "Makefile").read_text(encoding="utf-8")
    assert "download.pytorch.org/whl/cpu" in helped[: helped.index(".DEFAULT_GOAL")]


def test_the_formats_are_real(tmp_path: Path) -> None:
    fragment, entity = map(json.loads, blocks(FORMATS, "json"))
    assert Fragment.from_json(fragment, "formats.md").to_json() == fragment
    kb = tmp_path / "kb.jsonl"
    kb.write_text(json.dumps(entity), encoding="utf-8")
    (read,) = read_entities(str(kb))
    assert read.to_json() == entity


def test_every_likelihood_clusterer_and_calibrator_can_be_chosen() -> None:
    for plugin in registry.installed():
        if plugin.kind in ("likelihoods", "clusterers", "calibrators"):
            assert f"`{plugin.name}`" in CHOOSING, plugin.name

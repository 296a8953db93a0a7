"""The documentation tells the truth: its plugin runs and its reference is fresh."""

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
from tests.cli.driving import Terminal
from tests.registry.distributions import Distribution, Result, kbforge, python

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
PLUGINS = (ROOT / "docs" / "plugins.md").read_text(encoding="utf-8")
FORMATS = (ROOT / "docs" / "formats.md").read_text(encoding="utf-8")
TUTORIAL = (ROOT / "docs" / "tutorial.md").read_text(encoding="utf-8")
CHOOSING = (ROOT / "docs" / "choosing.md").read_text(encoding="utf-8")
# page -> how many of its blocks are not run: they download packages, or take long
PAGES = {
    "README.md": 1,
    "docs/choosing.md": 0,
    "docs/coming_from.md": 3,
    "docs/formats.md": 0,
    "docs/pipelines.md": 0,
    "docs/tutorial.md": 1,
}
# what other tests run, and what other tools' users write
MORE_FENCES = {
    "README.md": ("python",),
    "docs/tutorial.md": ("console",),
    "docs/coming_from.md": ("python",),
}
DOCUMENTS = sorted(f"docs/{page.name}" for page in (ROOT / "docs").glob("*.md"))
NOT_COPIED = shutil.ignore_patterns("out", "__pycache__")
THIRD_PARTY = ROOT / "examples" / "third_party"


def blocks(text: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


# the plugins that the page shows are those that `kbforge plugins new` writes
SHOWN = (("source", "lines"), ("likelihood", "rates"), ("exporter", "short"))


def written(folder: Path, kind: str, name: str) -> Path:
    """The folder of a new plugin."""
    done = kbforge("plugins", "new", kind, name, cwd=folder)
    assert done.code == 0, done.err
    return folder / f"kbforge-{name}"


def normal(result: Result) -> list[str]:
    """What a terminal shows, without times and padding."""
    lines = (result.out + result.err).splitlines()
    return [re.sub(r"\d+\.\d\d s", "0.00 s", line.rstrip()) for line in lines]


@pytest.mark.skipif("lab" not in registry.names("commands"), reason="the page lists it")
def test_the_command_line_reference_is_fresh():
    checked = python(str(ROOT / "docs" / "generate_cli.py"), "--check")
    assert checked.code == 0, checked.err


def steps(block: str) -> list[tuple[list[str], list[str]]]:
    """The commands of a session, as words, each with the lines that it prints."""
    lines = [step.splitlines() for step in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]]
    return [(shlex.split(command), printed) for command, *printed in lines]


@pytest.mark.slow
def test_the_documented_plugin_gives_the_documented_output(tmp_path):
    first, then = blocks(PLUGINS, "console")
    ((command, printed),) = steps(first)
    assert normal(kbforge(*command[1:], cwd=tmp_path)) == printed
    folder = tmp_path / "kbforge-lines"
    project = tomllib.loads((folder / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    Distribution(project["name"], project["version"], project["entry-points"]).write(folder)
    names = tmp_path / "names.txt"
    names.write_text("Ada Lovelace\nA. Lovelace\n", encoding="utf-8")
    assert len(steps(then)) == 4
    for words, expected in steps(then):
        given = [str(names) if w == "names.txt" else w for w in words]
        assert given[0] == "kbforge"
        assert normal(kbforge(*given[1:], path=folder)) == expected


def test_the_page_shows_what_is_written(tmp_path):
    """The kits of what is written run in tests/packaging/test_scaffold.py."""
    python_blocks, tomls = blocks(PLUGINS, "python"), blocks(PLUGINS, "toml")
    assert (len(python_blocks), len(tomls)) == (2 * len(SHOWN), 1)
    for at, (kind, name) in enumerate(SHOWN):
        folder = written(tmp_path, kind, name)
        files = [folder / f"kbforge_{name}.py", folder / f"test_{name}.py"]
        assert [f.read_text(encoding="utf-8") for f in files] == python_blocks[2 * at : 2 * at + 2]
        if at == 0:
            assert tomls == [(folder / "pyproject.toml").read_text(encoding="utf-8")]


def test_every_kind_with_plugins_is_documented_with_its_contract_and_test_kit():
    for kind in sorted(registry.KINDS):
        rows = [line for line in PLUGINS.splitlines() if line.startswith(f"| `kbforge.{kind}` |")]
        assert len(rows) == 1, kind
        assert registry.KINDS[kind].split(" of ")[0] in rows[0], kind
        kit = re.search(r"`kbforge\.testing\.(\w+)`", rows[0])
        assert kit, kind
        assert getattr(testing, kit[1]).kind == kind
        contract = re.search(r"`(kbforge/contracts/\w+\.py)`", rows[0])
        assert kind == "commands" or (contract and (ROOT / contract[1]).is_file()), kind


def test_every_kind_is_mentioned():
    assert [kind for kind in registry.KINDS if f"`kbforge.{kind}`" not in PLUGINS] == []


def test_the_example_distribution_shows_its_own_files():
    readme = (THIRD_PARTY / "README.md").read_text(encoding="utf-8")
    exporter = (THIRD_PARTY / "kbforge_vcard" / "exporter.py").read_text(encoding="utf-8")
    assert blocks(readme, "python")[0] == exporter
    assert blocks(readme, "toml")[0] in (THIRD_PARTY / "pyproject.toml").read_text(encoding="utf-8")


def runnable(page: str) -> list[str]:
    """The shell blocks of a page but those that say in their first line that they are not run."""
    return [
        block for block in blocks(page, "sh") if not block.startswith("# not run in the tests: ")
    ]


def shell(block: str, folder: Path, programs: Path = Path(sys.executable).parent) -> str:
    """What a block prints, standard output before standard error, as a shell runs it there."""
    path = f"{programs}{os.pathsep}{os.environ['PATH']}"
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
def test_the_commands_of_a_page_run_and_print_what_it_shows(tmp_path, name):
    page = (ROOT / name).read_text(encoding="utf-8")
    shutil.copytree(ROOT / "examples", tmp_path / "examples", ignore=NOT_COPIED)
    shutil.copy(ROOT / "examples" / "people" / "people.csv", tmp_path)
    printed = "".join(shell(block, tmp_path) for block in runnable(page))
    lines = "\n".join(line.rstrip() for line in printed.splitlines())
    for shown in blocks(page, "text"):
        assert shown.rstrip() in lines


@pytest.mark.slow
def test_the_tutorial_shows_what_a_terminal_shows(tmp_path):
    (session,) = blocks(TUTORIAL, "console")
    ((command, expected),) = steps(session)
    for words in re.findall(r"^kbforge ((?:load|cluster) .*)$", TUTORIAL, re.MULTILINE)[:2]:
        shutil.copy(ROOT / "examples" / "people" / "people.csv", tmp_path)
        assert kbforge(*shlex.split(words), cwd=tmp_path).code == 0
    terminal = Terminal(*command[1:], prepare=lambda: os.chdir(tmp_path))
    terminal.wait_for("[q]uit")
    terminal.type("y\n")
    assert terminal.end() == 0
    shown = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", terminal.said)
    lines = [line.rstrip() for line in shown.replace("\r", "").splitlines()]
    begin = lines.index(expected[0])
    assert lines[begin : begin + len(expected)] == expected


@pytest.mark.parametrize(("name", "count"), PAGES.items())
def test_few_blocks_of_a_page_are_not_run(name, count):
    page = (ROOT / name).read_text(encoding="utf-8")
    assert len(blocks(page, "sh")) - len(runnable(page)) == count
    fences = re.findall(r"^```(.*)$", page, re.MULTILINE)
    assert set(fences[::2]) <= {"sh", "text", "json", *MORE_FENCES.get(name, ())}
    assert set(fences[1::2]) == {""}


FRONT = sorted(page.name for page in ROOT.glob("*.md"))


@pytest.mark.parametrize("name", [*FRONT, *DOCUMENTS])
def test_the_links_of_a_page_lead_somewhere(name):
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


def test_the_front_page_is_short_and_has_a_picture():
    assert len(README.splitlines()) < 250
    picture = re.search(r"!\[.+\]\((.+)\)", README)
    assert (ROOT / picture[1]).stat().st_size < 200_000


def test_the_front_page_names_every_extra_and_the_small_torch():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"].keys() - {"all", "dev", "docs"}
    weights = README[README.index("| extra |") : README.index("## Exit codes")]
    assert [extra for extra in extras if f"`{extra}`" not in weights] == []
    assert "download.pytorch.org/whl/cpu" in weights
    helped = (ROOT / "Makefile").read_text(encoding="utf-8")
    assert "download.pytorch.org/whl/cpu" in helped[: helped.index(".DEFAULT_GOAL")]


def test_the_formats_are_real(tmp_path):
    fragment, entity, link = map(json.loads, blocks(FORMATS, "json"))
    entity["properties"]["birthplace"] = [link]
    assert Fragment.from_json(fragment, "formats.md").to_json() == fragment
    kb = tmp_path / "kb.jsonl"
    kb.write_text(json.dumps(entity), encoding="utf-8")
    (read,) = read_entities(str(kb))
    assert read.to_json() == entity


def test_the_page_draws_the_odds_from_the_total_that_it_shows():
    totals = re.findall(r"^  total +\+(\d+\.\d+)$", CHOOSING, re.MULTILINE)
    assert len(totals) == 1
    assert re.findall(r"e\^(\d+\.\d+)", CHOOSING) == totals


def test_every_likelihood_clusterer_and_calibrator_can_be_chosen():
    laboratory = (ROOT / "docs" / "lab.md").read_text(encoding="utf-8")
    for plugin in registry.installed():
        if plugin.kind in ("likelihoods", "clusterers", "calibrators"):
            assert f"`{plugin.name}`" in CHOOSING + laboratory, plugin.name


if __name__ == "__main__":
    for block in runnable(README):
        print(f"(\n{block})")

"""`kbforge plugins new`: for every kind a distribution whose tests pass as they are."""

import os
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

from kbforge import registry
from tests.program import Run
from tests.registry.distributions import Distribution, python, within


def name_for(kind: str) -> str:
    """A name that no plugin of ours has."""
    return f"my-{registry.singular(kind)}"


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def written(program: Run, kind: str, name: str | None = None) -> Path:
    program("plugins", "new", registry.singular(kind), name or name_for(kind))
    return Path(f"kbforge-{name or name_for(kind)}").resolve()


def announced(folder: Path, site: Path) -> None:
    """Put a new distribution's metadata on the path, as an installer would."""
    project = tomllib.loads((folder / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    requires = tuple(project["dependencies"])
    Distribution(
        project["name"], project["version"], project["entry-points"], requires=requires
    ).write(site)


@pytest.mark.slow
def test_the_tests_of_every_kind_pass(here, program):
    folders = [written(program, kind) for kind in registry.KINDS]
    site = here / "site"
    site.mkdir()
    for folder in folders:
        announced(folder, site)
    path = os.pathsep.join(map(str, [site, *folders]))
    checked = within("plugins", "list", "--check", cwd=here, path=path)
    rows = [line for line in checked.out.splitlines() if re.search(r" kbforge-\S+ +1\.0 ", line)]
    assert len(rows) >= len(registry.KINDS)
    assert all(row.endswith("ok") for row in map(str.rstrip, rows)), rows
    tests = [str(test) for folder in folders for test in folder.glob("test_*.py")]
    options = ("-m", "pytest", "-p", "no:cacheprovider", "--rootdir", str(here))
    ran = python(*options, *tests, cwd=here, PYTHONPATH=path)
    assert ran.code == 0, ran.out
    passed = re.search(r"(\d+) passed", ran.out)
    assert passed
    assert int(passed[1]) > 3 * len(registry.KINDS)


def test_what_is_written_is_well_formed(here, program):
    folders = [written(program, kind) for kind in registry.KINDS]
    ruff = shutil.which("ruff") or str(Path(sys.executable).parent / "ruff")
    settings = ("--isolated", "--line-length", "100")
    for command in (
        ("check", *settings, "--select", "E,F,W,I,B,UP,SIM,C4,PT,RET", "--ignore", "PT011"),
        ("format", "--check", *settings),
    ):
        done = subprocess.run([ruff, *command, *folders], capture_output=True, check=False)
        assert done.returncode == 0, done.stdout.decode()
    for folder in folders:
        readme = (folder / "README.md").read_text(encoding="utf-8")
        assert set(re.findall(r"`([\w.-]+\.(?:py|toml))`", readme)) == {
            path.name for path in folder.iterdir() if path.suffix in (".py", ".toml")
        }


def test_the_wheel_has_the_module_alone_though_the_tests_lie_beside_it(here, program):
    pytest.importorskip("hatchling")
    folder = written(program, "sources")
    arguments = ("--quiet", "--no-deps", "--no-build-isolation", "--no-index", "-w", "dist")
    built = python("-m", "pip", "wheel", *arguments, str(folder), cwd=here)
    assert built.code == 0, built.err
    (wheel,) = Path("dist").glob("kbforge_my_source-1.0-*.whl")
    with zipfile.ZipFile(wheel) as files:
        names = [name for name in files.namelist() if ".dist-info/" not in name]
    assert names == ["kbforge_my_source.py"]


def test_it_prints_what_to_do_next(here, program):
    ran = program("plugins", "new", "sources", "my-lines", "-o", "a b")
    assert ran.out.decode().splitlines() == [
        "a b: README.md, kbforge_my_lines.py, pyproject.toml, test_my_lines.py",
        "",
        "Next:",
        "  cd 'a b'",
        "  pip install -e '.[test]'",
        "  kbforge plugins show source my-lines",
        "  pytest",
    ]
    assert (here / "a b" / "kbforge_my_lines.py").is_file()


@pytest.mark.parametrize("there", ["an empty folder", "a file", "a link to nowhere"])
def test_what_is_there_stays(there, here, program):
    target = here / "kbforge-my-lines"
    if there == "a file":
        target.write_text("mine", encoding="utf-8")
    elif there == "an empty folder":
        target.mkdir()
    else:
        target.symlink_to("nowhere")
    ran = program("plugins", "new", "source", "my-lines")
    ran.require_refusal("kbforge-my-lines exists already; choose another folder with -o", 1)
    assert list(here.iterdir()) == [target]
    assert not target.is_dir() or not list(target.iterdir())


@pytest.mark.parametrize(
    ("kind", "name", "sentence"),
    [
        ("source", "My-Lines", "expected a name of lower-case letters, digits and dashes"),
        ("source", "../lines", "expected a name of lower-case letters, digits and dashes"),
        ("source", "1st", "expected a name of lower-case letters, digits and dashes"),
        ("source", "a--b", "expected a name of lower-case letters, digits and dashes"),
        ("source", "lines\n", "expected a name of lower-case letters, digits and dashes"),
        ("source", "csv", 'the source "csv" is installed already'),
        ("sauce", "lines", 'there is no kind "sauce"'),
    ],
)
def test_bad_names_are_refused(kind, name, sentence, here, program):
    program("plugins", "new", kind, name).require_refusal(sentence, 2)
    assert list(here.iterdir()) == []

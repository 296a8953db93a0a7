"""Without any extra, all verbs work but those that need one, and these say which."""

import json
import shutil
import subprocess
from importlib import metadata
from pathlib import Path

import pytest

from kbforge import registry
from kbforge.version import DISTRIBUTION
from tests.core_environment import make
from tests.packaging.test_metadata import PROJECT, ROOT
from tests.sources.readers import zstandard
from tests.test_docs import README, runnable, shell

pytestmark = pytest.mark.slow

ABSENT = (
    *("torch", "tokenizers", "datasets", "pyarrow", "pandas", "openpyxl", "matplotlib"),
    *("fastapi", "uvicorn", "mcp"),
)
EXAMPLES = ROOT / "examples"
# every verb; what a line writes, later ones read
VERBS = """
load csv people.csv --id id -o people.jsonl
load mentions.csv --id id --label label --separator | -o labelled.jsonl
cluster people.jsonl -o kb.jsonl
cluster people.jsonl.zst --into kb.sqlite
show kb.jsonl --top 1
explain kb.jsonl --fragment 14
cluster labelled.jsonl -o found.jsonl
evaluate found.jsonl labelled.jsonl
calibrate labelled.jsonl --confidence -o map.json
report kb.jsonl -o report.html
export kb.jsonl --format csv -o csv.csv
export kb.jsonl --format jsonl -o again.jsonl
export kb.jsonl --format jsonld -o kb.jsonld
export kb.jsonl --format kblam -o kblam.jsonl
export kb.jsonl --format members -o members.csv
export kb.jsonl --format neo4j -o neo4j
export kb.jsonl --format nquads -o kb.nq
export kb.jsonl --format pairs -o pairs.csv
export kb.jsonl --format wide -o wide.csv
link people.csv mentions.csv --links links.csv -o linked.jsonl
train-attributes labelled.jsonl --labels -o attributes
train-ngram labelled.jsonl -o ngram
cluster people.jsonl --likelihood attributes/ -o trained.jsonl
cluster people.jsonl --likelihood ngram/ -o trained.jsonl
run pipeline.toml
status kb.sqlite
backup kb.sqlite copy.sqlite
changes kb.sqlite --since 0
decide kb.sqlite different 1 2
review kb.sqlite --json
remove kb.sqlite 2
refit kb.sqlite
check kb.sqlite
plugins list --check
plugins show source parquet
lab --help
train-lm --help
train-pairs --help
resolve --help
serve --help
mcp --help
"""
LACKING = """
lm       | cluster people.jsonl --likelihood gpt -o never.jsonl
lm       | train-lm people.jsonl -o never
lm       | cluster people.jsonl --gpu -o never.jsonl
lm       | lab train-diffusion -o never
parquet  | load people.parquet -o never.jsonl
parquet  | export kb.jsonl -o never.parquet
hf       | load hf people.csv -o never.jsonl
excel    | load people.xlsx -o never.jsonl
excel    | export kb.jsonl -o never.xlsx
sql      | load postgresql://host/db --query x -o never.jsonl
ftm      | export kb.jsonl --format ftm -o never.csv
bench    | show kb.jsonl --similarity 1 --tree never.png
parquet  | lab bench gauss --quick --output never
serve    | serve kb.sqlite
mcp      | mcp kb.sqlite
"""


@pytest.fixture(scope="module")
def core(tmp_path_factory):
    """The commands of an environment that has no extra."""
    folder = tmp_path_factory.mktemp("core")
    python = make(folder / "venv")
    (packages,) = (folder / "venv").glob("lib/*/site-packages")
    info = Path(str(metadata.distribution(DISTRIBUTION).locate_file("")))
    (info,) = info.glob("entity_fragments-*.dist-info")
    (packages / info.name).symlink_to(info)
    roots = [ROOT / name for name in PROJECT["tool"]["hatch"]["build"]["dev-mode-dirs"]]
    (packages / "kbforge.pth").write_text("\n".join(map(str, roots)))
    program = python.parent / "kbforge"
    program.write_text(f"#!{python}\nfrom kbforge.__main__ import main\n\nmain()\n")
    program.chmod(0o755)
    return python.parent


def ran(core: Path, line: str, folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [core / "kbforge", *line.split()],
        cwd=folder,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture
def folder(tmp_path):
    """A folder with two tables."""
    shutil.copy(EXAMPLES / "people" / "people.csv", tmp_path)
    shutil.copy(EXAMPLES / "quickstart" / "mentions.csv", tmp_path)
    return tmp_path


def test_the_environment_lacks_what_extras_install(core):
    code = f"from importlib.util import find_spec; print([m for m in {ABSENT} if find_spec(m)])"
    said = subprocess.run([core / "python", "-c", code], capture_output=True, text=True, check=True)
    assert said.stdout == "[]\n"


def test_every_verb_works(core, folder):
    lines = VERBS.strip().splitlines()
    assert {line.split()[0] for line in lines} == set(registry.names("commands"))
    pipeline = '[[step]]\nverb = "cluster"\nargs = ["people.jsonl"]\n'
    (folder / "pipeline.toml").write_text(f'{pipeline}[step.options]\noutput = "piped.jsonl"\n')
    for line in lines:
        done = ran(core, line, folder)
        assert done.returncode == 0, f"kbforge {line}\n{done.stderr}"
        if line.startswith("load csv"):
            packed = zstandard((folder / "people.jsonl").read_bytes())
            (folder / "people.jsonl.zst").write_bytes(packed)
    assert (folder / "piped.jsonl").read_bytes() == (folder / "kb.jsonl").read_bytes()


@pytest.mark.parametrize("line", LACKING.strip().splitlines())
def test_what_needs_an_extra_says_so_in_one_sentence(core, folder, line):
    extra, _, command = (part.strip() for part in line.partition("|"))
    for ending in ("parquet", "xlsx"):
        (folder / f"people.{ending}").write_bytes(b"")
    fragment = {"id": "1", "properties": {"name": ["Ann"]}, "label": "a"}
    (folder / "people.jsonl").write_text(json.dumps(fragment))
    entity = {"id": "e1", "fragments": [fragment], "probability": 1.0}
    (folder / "kb.jsonl").write_text(json.dumps(entity))
    done = ran(core, command, folder)
    assert done.returncode in (1, 2)
    (sentence,) = done.stderr.splitlines()
    assert sentence.startswith("kbforge: ")
    assert sentence.endswith(f": {registry.install_command(extra)}")
    assert not [path for path in folder.iterdir() if "never" in path.name]


def test_the_list_of_plugins_has_the_commands(core, tmp_path):
    rows = json.loads(ran(core, "plugins list --json", tmp_path).stdout)["plugins"]
    lacking = {(row["kind"], row["name"]): row["cause"] for row in rows if row["status"] != "ok"}
    assert all(row["status"] in ("ok", "needs extra") for row in rows)
    assert lacking["likelihoods", "gpt"] == (
        'the likelihood "gpt" needs tokenizers and torch, which are not installed: '
        f"{registry.install_command('lm')}"
    )
    with_extra = {
        (group.removeprefix("kbforge."), name)
        for group, entries in PROJECT["project"]["entry-points"].items()
        for name, target in entries.items()
        if target.endswith("]")
    }
    assert lacking.keys() == with_extra


def test_the_commands_of_the_readme_run(core, tmp_path):
    shutil.copytree(EXAMPLES, tmp_path / "examples")
    shutil.copy(EXAMPLES / "people" / "people.csv", tmp_path)
    for block in runnable(README):
        shell(block, tmp_path, core)

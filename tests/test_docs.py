"""The documentation tells the truth: its plugin runs and its reference is fresh."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import tomllib
from pathlib import Path

import pytest

from kbforge import registry, testing
from kbforge.contracts import Fragment
from kbforge.kb.read import read_entities
from tests.program import Run
from tests.registry.distributions import Distribution, Result, kbforge, python

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
PLUGINS = (ROOT / "docs" / "plugins.md").read_text(encoding="utf-8")
THIRD_PARTY = ROOT / "examples" / "third_party"


def blocks(text: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


def install_documented_plugin(folder: Path, number: int = 0) -> None:
    """The source is plugin 0, the grammar 1; the code of each is followed by its tests."""
    project = tomllib.loads(blocks(PLUGINS, "toml")[number])["project"]
    module = project["name"].replace("-", "_")
    modules = {module: blocks(PLUGINS, "python")[2 * number]}
    Distribution(project["name"], project["version"], project["entry-points"], modules).write(
        folder
    )


def normal(result: Result) -> list[str]:
    """What a terminal shows, without times and padding."""
    lines = (result.out + result.err).splitlines()
    return [re.sub(r"\d+\.\d\d s", "0.00 s", line.rstrip()) for line in lines]


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


@pytest.mark.parametrize("number", [0, 1])
def test_the_documented_tests_pass(tmp_path: Path, number: int) -> None:
    install_documented_plugin(tmp_path, number)
    tests = blocks(PLUGINS, "python")[2 * number + 1]
    (tmp_path / "test_it.py").write_text(tests, encoding="utf-8")
    ran = python(
        "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", str(tmp_path),
        str(tmp_path / "test_it.py"), path=tmp_path,
    )  # fmt: skip
    assert ran.code == 0, ran.out
    assert " passed" in ran.out


def test_every_kind_with_plugins_is_documented_with_its_contract_and_test_kit() -> None:
    for kind in sorted({plugin.kind for plugin in registry.installed()}):
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


def test_the_front_page_works_by_hand_and_shows_what_comes_out(
    program: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (session,) = (block for block in blocks(README, "sh") if "cd examples" in block)
    install, commands = session.split("cd examples/quickstart && mkdir -p out\n")
    assert "pip install -c constraints.txt .\n" in install
    shutil.copytree(ROOT / "examples/quickstart", tmp_path / "demo", ignore=lambda *_: ["out"])
    monkeypatch.chdir(tmp_path / "demo")
    Path("out").mkdir()
    printed = {}
    for command in commands.replace("\\\n", " ").strip().splitlines():
        verb, *arguments = shlex.split(command)[1:]
        ran = program(verb, *arguments)
        assert ran.code == 0, ran.err
        printed[verb] = [line.rstrip() for line in ran.out.decode().splitlines()]
    scores, entity, *_ = (block.splitlines() for block in blocks(README, "text"))
    assert printed["evaluate"] == scores
    assert "\n".join(entity) in "\n".join(printed["show"])


def test_two_commands_make_a_knowledge_base_of_a_table(
    program: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (session,) = (block for block in blocks(README, "sh") if "csv people.csv" in block)
    commands = session.splitlines()
    assert len(commands) == 2
    people = [("Ann Lee", "Lund", "1815"), ("Bo Ek", "Oslo", "1912"), ("Cy Orr", "Rome", "1906")]
    rows = ["id,name,town,born"]
    rows += [",".join((str(i), *person)) for i, person in enumerate(people * 4)]
    monkeypatch.chdir(tmp_path)
    Path("people.csv").write_text("\n".join(rows) + "\n", encoding="utf-8")
    for command in commands:
        ran = program(*shlex.split(command)[1:])
        assert ran.code == 0, ran.err
    assert "learned from" in ran.err
    assert sorted(entity.name for entity in read_entities("kb.jsonl")) == [p[0] for p in people]


def test_the_front_page_explains_the_example_as_the_program_does(
    program: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copy(ROOT / "examples" / "people" / "people.csv", tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    shell, text = blocks(README, "sh"), blocks(README, "text")
    printed = []
    for wanted in ("csv people.csv", "explain kb.jsonl --fragment 14\n", "train-attributes"):
        (session,) = (block for block in shell if wanted in block and "labelled" not in block)
        for command in session.splitlines():
            words = shlex.split(command, comments=True)
            if words[0] == "cp":
                shutil.copy(*words[1:])
                continue
            ran = program(*words[1:])
            assert ran.code == 0, ran.err
            printed.append("\n".join(line.rstrip() for line in ran.out.decode().splitlines()))
    explained, rates = (b for b in text if b.startswith(("14 is in", "attribute ")))
    load, cluster, explain, train, again, edited = printed
    assert (load, cluster, again) == ("", "", "")
    assert explain.startswith(explained)
    assert train == rates.rstrip("\n")
    assert edited.startswith("14 is in john smith")


def test_the_formats_on_the_front_page_are_real(tmp_path: Path) -> None:
    fragment, entity = map(json.loads, blocks(README, "json"))
    assert Fragment.from_json(fragment, "README.md").to_json() == fragment
    kb = tmp_path / "kb.jsonl"
    kb.write_text(json.dumps(entity), encoding="utf-8")
    (read,) = read_entities(str(kb))
    assert read.to_json() == entity


def test_the_front_page_names_every_likelihood_and_clusterer() -> None:
    for plugin in registry.installed():
        if plugin.kind in ("likelihoods", "clusterers", "calibrators"):
            assert f"`{plugin.name}`" in README, plugin.name

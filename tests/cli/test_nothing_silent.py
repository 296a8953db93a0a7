"""No command replaces what it reads: each verb that writes, with an output that is an input."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.cli.driving import PROGRAM
from tests.jsonl import write_lines
from tests.people import write_people
from tests.program import Run


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    write_people(tmp_path / "people.jsonl", 8)
    points = [{"id": f"p{i}", "vector": [i, 0.5 * i], "label": str(i % 2)} for i in range(6)]
    write_lines("points.jsonl", points)
    for name in ("c.toml", "rates.toml", "kb.jsonl", "points.png"):
        Path(name).write_bytes(Path("points.jsonl").read_bytes())
    Path("link.jsonl").symlink_to("people.jsonl")
    Path("model").mkdir()
    Path("model/manifest.json").write_text("{}")
    Path("model/inside.jsonl").write_bytes(Path("people.jsonl").read_bytes())
    return tmp_path


@pytest.mark.parametrize(
    "command",
    [
        "load jsonl people.jsonl -o people.jsonl",
        "load jsonl points.jsonl people.jsonl -o ./link.jsonl",
        "load jsonl people.jsonl -o new.jsonl --quarantine people.jsonl",
        "load tweetnerd points.jsonl --set source.tweets=c.toml -o c.toml",
        "cluster people.jsonl -o people.jsonl",
        "cluster link.jsonl -o people.jsonl",
        "cluster people.jsonl --set calibration=c.toml -o c.toml",
        "cluster people.jsonl --set confidence-map=c.toml -o c.toml",
        "cluster people.jsonl --set likelihood.rates=rates.toml -o rates.toml",
        "cluster people.jsonl --likelihood model -o model/manifest.json",
        "calibrate people.jsonl -o people.jsonl",
        "calibrate people.jsonl --set likelihood.rates=rates.toml -o rates.toml",
        "calibrate people.jsonl --confidence -o people.jsonl",
        "calibrate people.jsonl --confidence --test-on c.toml -o c.toml",
        "export kb.jsonl -o kb.jsonl",
        "report kb.jsonl -o kb.jsonl",
        "report kb.jsonl --fragments people.jsonl -o link.jsonl",
        "show points.png --similarity p1 --tree points.png",
        "explain kb.jsonl -o kb.jsonl",
        "explain kb.jsonl --set calibration=c.toml -o c.toml",
        "train-ngram model/inside.jsonl -o model",
        "train-attributes model/inside.jsonl -o model",
        "train-lm model/inside.jsonl -o model",
        "train-lm people.jsonl --from model -o model",
    ],
)
def test_an_output_that_is_an_input_is_refused(program: Run, files: Path, command: str) -> None:
    before = {path: path.read_bytes() for path in files.rglob("*") if path.is_file()}
    ran = program(*command.split())
    assert ran.code == 2, ran.err
    assert "is an input" in ran.err
    assert ran.err.count("\n") == 1
    after = {path: path.read_bytes() for path in files.rglob("*") if path.is_file()}
    assert after == before


def test_two_outputs_in_one_place_are_refused(program: Run, files: Path) -> None:
    command = "load jsonl people.jsonl -o new --quarantine ./new"
    assert program(*command.split()).code != 0
    assert not Path("new").exists()


def test_standard_input_from_the_output_is_refused(files: Path) -> None:
    before = Path("people.jsonl").read_bytes()
    command = [*PROGRAM, "load", "jsonl"]
    with open("people.jsonl", "rb") as stdin:
        ran = subprocess.run(
            [*command, "-", "-o", "people.jsonl"], stdin=stdin, capture_output=True
        )
    assert ran.returncode == 2
    assert b"is an input (standard input)" in ran.stderr
    with open("people.jsonl", "ab") as stdout:
        ran = subprocess.run([*command, "people.jsonl"], stdout=stdout, stderr=subprocess.PIPE)
    assert ran.returncode == 2
    assert b"the output standard output is an input" in ran.stderr
    assert Path("people.jsonl").read_bytes() == before


def test_paths_are_printed_without_what_a_terminal_obeys(program: Run, files: Path) -> None:
    evil = "out\x1b[2J.jsonl"
    ran = program("load", "jsonl", "people.jsonl", "-o", evil, "--on-error", "quarantine")
    program("cluster", "people.jsonl", "-o", evil, "--set", "clusterer=greedy", "--json")
    for code, command in (
        (0, ("export", evil, "--format", "csv", "-o", f"{evil}.csv")),
        (0, ("cluster", f"{evil}.csv", "-o", f"{evil}.x")),
        (1, ("load", "csv", f"{evil}.none")),
        (1, ("cluster", "people.jsonl", "-o", f"{evil}/x")),
        (0, ("cluster", "people.jsonl", "-o", evil, "--set", "clusterer=greedy")),
    ):
        ran = program(*command)
        assert ran.code == code
        assert "\\x1b[2J" in ran.err
        assert "\x1b" not in ran.err


@pytest.mark.parametrize(
    "options", ['output = "./p.toml"', 'output = "o.jsonl"\nquarantine = "link.toml"']
)
def test_a_step_does_not_replace_its_pipeline(program: Run, files: Path, options: str) -> None:
    Path("link.toml").symlink_to("p.toml")
    text = f'[[step]]\nverb = "load"\nargs = ["jsonl", "people.jsonl"]\n[step.options]\n{options}\n'
    Path("p.toml").write_text(text)
    ran = program("run", "p.toml")
    assert ran.code == 2
    assert ran.err.startswith('kbforge: p.toml: step "load": the output ')
    assert "is an input" in ran.err
    assert Path("p.toml").read_text() == text
    assert not Path("o.jsonl").exists()

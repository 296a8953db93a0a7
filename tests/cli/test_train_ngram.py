"""`kbforge train-ngram` as users run it."""

from __future__ import annotations

from pathlib import Path

import orjson
import pytest

from kbforge.bundle import add_file
from kbforge.cli.main import main


def run(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    monkeypatch.setattr("sys.argv", ["kbforge", *arguments])
    try:
        main()
    except SystemExit as done:
        return int(done.code or 0)
    return 0


@pytest.fixture
def people(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    names = ["Ada Lovelace", "A. Lovelace", "Alan Turing", "Turing", "Zoë 東京"]
    records = [
        {"id": f"r{i}", "properties": {"name": [name]}, "label": "Q" + name[-1]}
        for i, name in enumerate(names)
    ]
    Path("people.jsonl").write_bytes(b"".join(orjson.dumps(r) + b"\n" for r in records))
    return "people.jsonl"


def test_train_then_cluster_with_the_model(
    people: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(monkeypatch, "train-ngram", people, "-o", "model") == 0
    said = capsys.readouterr().err
    assert "bigram model of" in said
    assert "tuned on 3 labelled clusters" in said
    assert run(monkeypatch, "cluster", people, "--likelihood", "model", "-o", "kb.jsonl") == 0
    assert "no trained counts" not in capsys.readouterr().err
    assert len(Path("kb.jsonl").read_bytes().splitlines()) >= 1


def test_json_and_options(
    people: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ["--order", "3", "--scale", "0.5", "--json", "--limit", "2"]
    assert run(monkeypatch, "train-ngram", people, "-o", "model", *options) == 0
    summary = orjson.loads(capsys.readouterr().out)
    assert summary["likelihood"] == "trigram"
    assert (summary["fragments"], summary["scale"], summary["evidence"]) == (2, 0.5, None)


def test_a_damaged_model_is_refused_by_cluster(
    people: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run(monkeypatch, "train-ngram", people, "-o", "model")
    add_file(Path("model"), "notes.txt", b"mine")
    Path("model/counts.json").write_bytes(b"{}")
    capsys.readouterr()
    assert run(monkeypatch, "cluster", people, "--likelihood", "model/", "-o", "kb.jsonl") == 1
    error = capsys.readouterr().err
    assert '"counts.json" has 2 bytes, its manifest says' in error
    assert "Traceback" not in error
    assert not Path("kb.jsonl").exists()


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (["nowhere.jsonl", "-o", "m"], 1, "cannot read nowhere.jsonl"),
        (["people.jsonl", "-o", "m", "--scale", "big"], 2, "--scale: expected auto or a number"),
        (["people.jsonl", "-o", "m", "--scale", "-1"], 2, "scale must be above 0"),
        (["people.jsonl", "-o", "m", "--order", "4"], 2, "--order: expected one of 2, 3, got 4"),
        (["people.jsonl", "-o", "m", "--attributes", ","], 2, "name at least one attribute"),
        (["people.jsonl", "-o", "m", "--attributes", "x"], 1, "no fragment has a value of x"),
        (["people.jsonl", "-o", "."], 1, "exists and is not a model bundle"),
        (["people.jsonl", "-o", "no/m"], 1, "cannot write no/m: no such file"),
        (["people.jsonl", "people.jsonl", "-o", "m", "--limit", "0"], 2, ""),
    ],
)
@pytest.mark.usefixtures("people")
def test_errors_are_sentences(
    arguments: list[str],
    code: int,
    says: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run(monkeypatch, "train-ngram", *arguments) == code
    error = capsys.readouterr().err
    assert says in error
    assert "Traceback" not in error
    assert not Path("m").exists()

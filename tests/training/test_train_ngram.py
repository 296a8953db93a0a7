"""`kbforge train-ngram` as users run it."""

from __future__ import annotations

from pathlib import Path

import orjson
import pytest

from kbforge.models.bundle import add_file
from tests.program import Run


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


def test_train_then_cluster_with_the_model(program: Run, people: str) -> None:
    trained = program("train-ngram", people, "-o", "model")
    assert trained.code == 0
    assert "bigram model of" in trained.err
    assert "tuned on 3 labelled clusters" in trained.err
    clustered = program("cluster", people, "--likelihood", "model", "-o", "kb.jsonl")
    assert clustered.code == 0
    assert "no trained counts" not in clustered.err
    assert len(Path("kb.jsonl").read_bytes().splitlines()) >= 1


def test_json_and_options(program: Run, people: str) -> None:
    options = ["--order", "3", "--scale", "0.5", "--json", "--limit", "2"]
    trained = program("train-ngram", people, "-o", "model", *options)
    assert trained.code == 0
    assert trained.json["model"] == "model"
    assert trained.json["likelihood"] == "trigram"
    assert [trained.json[key] for key in ("fragments", "scale", "evidence")] == [2, 0.5, None]


def test_a_damaged_model_is_refused_by_cluster(program: Run, people: str) -> None:
    program("train-ngram", people, "-o", "model")
    add_file(Path("model"), "notes.txt", b"mine")
    Path("model/counts.json").write_bytes(b"{}")
    refused = program("cluster", people, "--likelihood", "model/", "-o", "kb.jsonl")
    assert refused.code == 1
    assert '"counts.json" has 2 bytes, its manifest says' in refused.err
    assert not Path("kb.jsonl").exists()


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (["nowhere.jsonl", "-o", "m"], 1, "cannot read nowhere.jsonl"),
        (["-", "-", "-o", "m"], 1, "standard input can be read only once"),
        (["people.jsonl", "-o", "m", "--scale", "big"], 2, "--scale: expected auto or a number"),
        (["people.jsonl", "-o", "m", "--scale", "-1"], 2, "scale must be above 0"),
        (["people.jsonl", "-o", "m", "--order", "4"], 2, "--order: expected one of 2, 3, got 4"),
        (["people.jsonl", "-o", "m", "--attributes", ","], 2, "name at least one attribute"),
        (["people.jsonl", "-o", "m", "--attributes", "x"], 1, "no fragment has a value of x"),
        (["people.jsonl", "-o", "."], 2, "is an input (people.jsonl), which it would replace"),
        (["people.jsonl", "-o", "no/m"], 1, "cannot write no/m: no such file"),
        (["people.jsonl", "people.jsonl", "-o", "m", "--limit", "0"], 2, "--limit"),
    ],
)
@pytest.mark.usefixtures("people")
def test_errors_are_sentences(program: Run, arguments: list[str], code: int, says: str) -> None:
    refused = program("train-ngram", *arguments)
    assert refused.code == code
    assert says in refused.err
    assert not Path("m").exists()


def test_a_bad_line_is_named(program: Run, people: str) -> None:
    with Path(people).open("ab") as file:
        file.write(b'{"id": "r9", "properties": {"name": []}}\n')
    refused = program("train-ngram", people, "-o", "model")
    assert refused.code == 1
    assert refused.err.startswith("kbforge: people.jsonl:6: ")
    assert not Path("model").exists()

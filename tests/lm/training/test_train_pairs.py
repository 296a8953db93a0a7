"""`kbforge train-pairs` as users run it."""

import json

import pytest

from kbforge.files.fragments import write_fragments
from tests.fit.test_labels import FRAGMENTS, HALF, LABELLED

pytest.importorskip("lightgbm")


def test_a_model_is_learned_written_and_used(program, tmp_path):
    file, labels, model = (tmp_path / name for name in ("file.jsonl", "labels.csv", "model"))
    write_fragments(FRAGMENTS, file)
    labels.write_text("id,entity\n" + "".join(f"{x.id},{x.label}\n" for x in HALF))
    trained = program("train-pairs", file, "--labels", labels, "-o", model, "--json").json
    assert trained["trees"] > 0
    assert trained["labels"] > 100
    assert trained["loss_after"] < trained["loss_before"]
    assert {path.suffix for path in model.iterdir()} == {".json", ".safetensors"}
    manifest = json.loads((model / "manifest.json").read_text())
    assert manifest["plugin"] == "pairs"
    write_fragments(LABELLED[80:], tmp_path / "rest.jsonl")
    kb = tmp_path / "kb.jsonl"
    program("cluster", tmp_path / "rest.jsonl", "--likelihood", model, "-o", kb)
    scores = program("evaluate", kb, tmp_path / "rest.jsonl", "--json").json
    assert scores["pairwise_f1"] > 0.95
    said = program("explain", kb, "--fragment", LABELLED[80].id).out.decode()
    assert "edition" in said


def test_a_folder_of_something_else_is_not_replaced(program, tmp_path):
    write_fragments(LABELLED, tmp_path / "file.jsonl")
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "mine.txt").write_text("mine")
    asked = ("--labels", tmp_path / "file.jsonl", "-o", tmp_path / "model")
    ran = program("train-pairs", tmp_path / "file.jsonl", *asked)
    assert ran.code == 1
    assert "not a model bundle" in ran.err
    assert (tmp_path / "model" / "mine.txt").read_text() == "mine"

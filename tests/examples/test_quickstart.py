"""The quickstart: its data are what its generator writes, its pipeline does what is promised."""

from __future__ import annotations

import json
import re
import runpy
import shutil
from collections import Counter, defaultdict
from pathlib import Path

import pytest

from kbforge.evaluation.scores import compare
from kbforge.files.fragments import read_fragments

SHOWN = ["registry/0011#1"]  # what README.md prints and `make demo` shows
FOLDER = Path(__file__).parents[2] / "examples" / "quickstart"


@pytest.fixture(scope="module")
def fragments():
    return list(read_fragments(str(FOLDER / "fragments.jsonl")))


@pytest.fixture
def copy(tmp_path):
    """The quickstart folder without what earlier runs left there."""
    target = tmp_path / "quickstart"
    shutil.copytree(FOLDER, target, ignore=shutil.ignore_patterns("out", "__pycache__"))
    return target


def test_the_committed_data_are_what_the_generator_writes():
    made = runpy.run_path(str(FOLDER / "generate.py"))["files"]()
    assert sorted(made) == [
        "fragments.jsonl",
        "mentions.csv",
        "practice.jsonl",
        "train.jsonl",
    ]
    for name, content in made.items():
        assert (FOLDER / name).read_bytes() == content, f"run generate.py: {name} differs"


def test_the_data_are_ambiguous_and_realistic(fragments):
    sizes = Counter(fragment.label for fragment in fragments)
    labels_of = defaultdict(set)
    for fragment in fragments:
        labels_of[fragment.names[0]].add(fragment.label)
    assert 400 <= len(fragments) <= 600
    assert len(sizes) == 120
    assert sum(size == 1 for size in sizes.values()) >= 20
    assert sum(len(labels) > 1 for labels in labels_of.values()) >= 8
    assert len(labels_of["Curry County"]) == 2
    name_only = sum(len(fragment.properties) == 1 for fragment in fragments)
    assert 0.5 < name_only / len(fragments) < 0.7


def test_the_entities_of_the_three_files_are_others(fragments):
    train = list(read_fragments(str(FOLDER / "train.jsonl")))
    practice = list(read_fragments(str(FOLDER / "practice.jsonl")))
    for one, other in ((train, fragments), (practice, fragments), (train, practice)):
        assert not {f.label for f in one} & {f.label for f in other}
        assert not {n for f in one for n in f.names} & {n for f in other for n in f.names}


def test_loading_the_table_gives_the_fragments(program, fragments, tmp_path):
    out = tmp_path / "loaded.jsonl"
    ran = program(
        "load", "csv", FOLDER / "mentions.csv", "--id", "id", "--label", "label",
        "--separator", "|", "-o", out,
    )  # fmt: skip
    assert ran.code == 0, ran.err
    loaded = list(read_fragments(str(out)))
    assert [(f.id, f.label, f.properties) for f in loaded] == [
        (f.id, f.label, f.properties) for f in fragments
    ]


def test_the_pipeline_beats_exact_names_and_is_skipped_the_second_time(program, copy, fragments):
    pipeline = copy / "pipeline.toml"
    first = program("run", pipeline)
    assert first.code == 0, first.err
    assert b"B-cubed" in first.out
    entities = [json.loads(line) for line in (copy / "out/kb.jsonl").open()]
    held = Counter(f for entity in entities for f in entity["fragments"])
    assert held == Counter(f.id for f in fragments)  # every fragment exactly once
    found = {f: number for number, entity in enumerate(entities) for f in entity["fragments"]}
    gold = [f.label for f in fragments]
    ours = compare([found[f.id] for f in fragments], gold).bcubed_f1_item_mean
    exact = compare([f.names[0] for f in fragments], gold).bcubed_f1_item_mean
    assert ours > exact + 0.2
    kb = (copy / "out/kb.jsonl").read_bytes()
    again = program("run", pipeline, "--json")
    assert {step["status"] for step in again.json["steps"]} == {"skipped"}
    forced = program("run", pipeline, "--force", "--json")
    assert {step["status"] for step in forced.json["steps"]} == {"ran"}
    assert (copy / "out/kb.jsonl").read_bytes() == kb


def test_the_demo_shows_its_doubt_and_what_the_front_page_shows_is_right(program, copy, fragments):
    """The demo's own pages may not claim what the labels do not bear out."""
    assert program("run", copy / "pipeline.toml").code == 0
    entities = [json.loads(line) for line in (copy / "out/kb.jsonl").open()]
    gold = defaultdict(set)
    for fragment in fragments:
        gold[fragment.label].add(fragment.id)
    wholes = [sorted(whole) for whole in gold.values()]
    right = [sorted(entity["fragments"]) in wholes for entity in entities]
    sure = [entity["confidence"] for entity in entities]
    raw = [entity["reported"] for entity in entities]
    assert max(sure) < 0.9
    assert abs(sum(sure) - sum(right)) < abs(sum(raw) - sum(right)) / 2
    for fragment in SHOWN:
        (number,) = (n for n, entity in enumerate(entities) if fragment in entity["fragments"])
        assert right[number]
        assert sure[number] < 0.5
        assert entities[number]["alternatives"]
    makefile = (FOLDER.parents[1] / "Makefile").read_text(encoding="utf-8")
    assert re.findall(r"--fragment '(.*)'", makefile) == SHOWN

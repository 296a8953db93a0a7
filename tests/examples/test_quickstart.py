"""The quickstart: its data are what its generator writes, its chapters do what is promised."""

import csv
import json
import re
import runpy
import shutil
from collections import Counter, defaultdict
from pathlib import Path

import pytest

from kbforge.evaluation.scores import compare
from kbforge.files.fragments import read_fragments

SHOWN = ["ledger/019#4"]  # what README.md prints and `make demo` shows
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
        "meanings.csv",
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


@pytest.fixture(scope="module")
def meanings():
    """The label that a value means, by fragment, attribute and value."""
    with (FOLDER / "meanings.csv").open(encoding="utf-8", newline="") as file:
        return {
            (row["id"], row["attribute"], row["value"]): row["label"]
            for row in csv.DictReader(file)
        }


def test_values_mean_other_entities_of_the_file(fragments, meanings):
    label_of = {fragment.id: fragment.label for fragment in fragments}
    stated = {fragment.id: fragment.properties for fragment in fragments}
    assert len(meanings) > 60
    assert {attribute for _, attribute, _ in meanings} == {"birthplace", "employer", "headquarters"}
    for (fragment, attribute, value), label in meanings.items():
        assert value in stated[fragment][attribute]
        assert label in label_of.values()
        assert label != label_of[fragment]


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


def entities_of(path):
    return [json.loads(line) for line in path.open()]


def score(entities, fragments):
    found = {f: number for number, entity in enumerate(entities) for f in entity["fragments"]}
    assert found.keys() == {fragment.id for fragment in fragments}
    gold = [fragment.label for fragment in fragments]
    return compare([found[f.id] for f in fragments], gold).bcubed_f1_item_mean


def right_ones(entities, fragments):
    """Whether each entity has exactly the fragments of one label."""
    gold = defaultdict(set)
    for fragment in fragments:
        gold[fragment.label].add(fragment.id)
    wholes = {frozenset(whole) for whole in gold.values()}
    return [frozenset(entity["fragments"]) in wholes for entity in entities]


def off(entities, fragments):
    """How far the confidences are off as a whole, in entities."""
    stated = sum(entity["confidence"] for entity in entities)
    return abs(stated - sum(right_ones(entities, fragments)))


@pytest.fixture
def demo(program, copy):
    """What `make demo` finds, without labels."""
    ran = program("cluster", copy / "fragments.jsonl", "-o", copy / "kb.jsonl")
    assert ran.code == 0, ran.err
    assert "chosen: pairs" in ran.err
    return entities_of(copy / "kb.jsonl")


def test_the_demo_is_the_plain_default(demo, fragments):
    """Seven steps of training on labels once ended at F1 .85, where one command has .91."""
    makefile = (FOLDER.parents[1] / "Makefile").read_text(encoding="utf-8")
    recipe = makefile[makefile.index("demo: ") : makefile.index("# everything runs")]
    verbs = re.findall(r"/kbforge (\w+)", recipe)
    assert verbs == ["cluster", "evaluate", "show", "show"]
    assert "--likelihood" not in recipe
    assert re.findall(r"--fragment '(.*)'", recipe) == SHOWN
    assert score(demo, fragments) > 0.9
    assert sum(right_ones(demo, fragments)) > 75


def test_the_demo_shows_an_entity_that_is_right_and_one_honest_doubt(demo, fragments):
    right = right_ones(demo, fragments)
    for fragment in SHOWN:
        (number,) = (n for n, entity in enumerate(demo) if fragment in entity["fragments"])
        assert right[number]
        assert demo[number]["confidence"] > 0.5
    least = min(demo, key=lambda entity: entity["confidence"])
    assert least["alternatives"]
    assert least["confidence"] < 0.2
    assert not right[demo.index(least)]


def test_values_of_the_demo_are_linked_to_what_they_mean(demo, fragments, meanings):
    """Those whose spelling some fragment has as its name; an entity is what most of it is."""
    label_of = {fragment.id: fragment.label for fragment in fragments}
    main = {
        entity["id"]: Counter(label_of[f] for f in entity["fragments"]).most_common(1)[0][0]
        for entity in demo
    }
    linked = {
        (fragment, attribute, value["value"]): main[value["entity"]]
        for entity in demo
        for attribute, values in entity["properties"].items()
        for value in values
        if "entity" in value
        for fragment in value["fragments"]
    }
    named = {name.casefold() for fragment in fragments for name in fragment.names}
    known = {key for key in meanings if key[2].casefold() in named}
    right = sum(linked.get(key) == meanings[key] for key in known)
    assert linked.keys() <= meanings.keys()
    assert right > 0.8 * len(known) > 50


def test_what_the_demo_shows_has_links_and_changes_its_employer(program, copy):
    out = copy / "dated.jsonl"
    assert program("cluster", copy / "fragments.jsonl", "--time", "date", "-o", out).code == 0
    (shown,) = (entity for entity in entities_of(out) if SHOWN[0] in entity["fragments"])
    first, then = shown["properties"]["employer"]
    assert first["entity"] != then["entity"]
    assert first["until"] == then["first"]


def test_the_demo_fits_a_screen(program, demo, copy, monkeypatch):
    """What `make demo` prints, with the four commands and two blank lines.

    The lines that a slow machine prints meanwhile do not count.
    """
    monkeypatch.setenv("COLUMNS", "100")
    clustered = program("cluster", copy / "fragments.jsonl", "-o", copy / "kb.jsonl")
    shown = [
        program("show", copy / "kb.jsonl", *which)
        for which in (("--fragment", SHOWN[0]), ("--ambiguous", "--top", "1"))
    ]
    texts = [clustered.err, *(ran.out.decode() for ran in shown)]
    lines = [line for text in texts for line in text.splitlines() if "seconds so far" not in line]
    assert len(lines) + 4 + 4 < 60
    assert max(map(len, lines)) <= 150


@pytest.mark.slow
def test_labels_improve_on_the_demo_and_steps_are_skipped_the_second_time(
    program, demo, copy, fragments
):
    pipeline = copy / "training.toml"
    first = program("run", pipeline)
    assert first.code == 0, first.err
    assert b"B-cubed" in first.out
    learned = entities_of(copy / "out/learned.jsonl")
    assert score(learned, fragments) > score(demo, fragments) - 0.01
    assert off(learned, fragments) < off(demo, fragments) / 2
    written = (copy / "out/learned.jsonl").read_bytes()
    again = program("run", pipeline, "--json")
    assert {step["status"] for step in again.json["steps"]} == {"skipped"}
    forced = program("run", pipeline, "--force", "--json")
    assert {step["status"] for step in forced.json["steps"]} == {"ran"}
    assert (copy / "out/learned.jsonl").read_bytes() == written

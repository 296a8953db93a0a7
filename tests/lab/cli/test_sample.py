"""`kbforge lab sample confusable`: groups that share a name, wholesale in one split."""

import json
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kbforge.cli.recipe import read_pipeline
from kbforge.contracts import Fragment
from kbforge.errors import KBForgeError
from kbforge.files.fragments import read_fragments
from kbforge_lab.sampling import sample_confusable
from tests.profile import examples


def fragment(number: int, label: str | None, *names: str) -> Fragment:
    return Fragment(f"f{number}", {"name": names}, label=label)


def families(n: int, size: int = 4, copies: int = 3) -> list[Fragment]:
    """n names, each borne by `size` entities that have a name of their own besides."""
    out: list[Fragment] = []
    for family in range(n):
        for member in range(size):
            label = f"Q{family}-{member}"
            for _ in range(copies):
                out.append(fragment(len(out), label, f"family{family}"))
            out.append(fragment(len(out), label, f"own{family}-{member}"))
    return out


def check(splits, fragments, entities, max_fragments):
    names: dict[str, set[str]] = {}
    sizes = Counter(f.label for f in fragments)
    for f in fragments:
        names.setdefault(f.label, set()).update(f.names)
    taken = [entity for split in splits for group in split.groups for entity in group]
    assert len(taken) == len(set(taken)), "an entity in two groups"
    for split in splits:
        assert split.entities == entities
        for seed, *others in split.groups:
            assert 1 <= len(others) <= 4
            assert all(names[seed] & names[other] for other in others)
        held = Counter(f.label for f in split.fragments)
        chosen = [entity for group in split.groups for entity in group]
        assert held == {entity: min(sizes[entity], max_fragments) for entity in chosen}
        assert len({f.id for f in split.fragments}) == len(split.fragments)


@given(st.integers(0, 10_000), st.integers(2, 40), st.integers(1, 5))
@examples(40)
def test_laws(seed, entities, max_fragments):
    fragments = families(60)
    splits = sample_confusable(fragments, entities, ("a", "b"), max_fragments, seed)
    check(splits, fragments, entities, max_fragments)


def test_same_seed_same_splits():
    draw = [sample_confusable(families(40), 20, seed=seed) for seed in (1, 1, 2)]
    assert draw[0] == draw[1]
    assert draw[0] != draw[2]


def test_group_sizes_vary():
    (split,) = sample_confusable(families(60, size=6), 100, ("only",))
    assert {len(group) for group in split.groups} == {2, 3, 4, 5}


def test_names_are_compared_with_their_case():
    alike = [fragment(0, "Q1", "Ada"), fragment(1, "Q2", "ada"), fragment(2, "Q3", "Ada")]
    (split,) = sample_confusable(alike, 2, ("only",))
    assert {f.label for f in split.fragments} == {"Q1", "Q3"}


def test_unlabelled_fragments_are_passed_over():
    mixed = [*families(1, size=2), fragment(99, None, "family0")]
    (split,) = sample_confusable(mixed, 2, ("only",))
    assert all(f.label for f in split.fragments)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"entities": 1}, "entities: expected at least 2, got 1"),
        ({"entities": 4, "max_fragments": 0}, "max-fragments: expected at least 1, got 0"),
        (
            {"entities": 4, "splits": ["a", "a"]},
            'splits: expected distinct names of letters and digits, got "a,a"',
        ),
        (
            {"entities": 4, "splits": ["../a"]},
            'splits: expected distinct names of letters and digits, got "../a"',
        ),
        (
            {"entities": 4, "splits": ["groups"]},
            'splits: "groups" is the name of the file of groups',
        ),
        (
            {"entities": 50, "splits": ["dev"]},
            "split dev: expected 50 entities in groups that share a name, got 4 before the 4 "
            "confusable entities ran out; ask for fewer entities or splits",
        ),
    ],
)
def test_what_cannot_be_sampled(arguments, sentence):
    with pytest.raises(KBForgeError) as caught:
        sample_confusable(families(2, size=2), **arguments)
    assert str(caught.value) == sentence


def test_without_labels():
    with pytest.raises(KBForgeError, match="expected fragments with a label, got none"):
        sample_confusable([fragment(0, None, "A")], 2)


@pytest.fixture
def labelled(tmp_path):
    path = tmp_path / "labelled.jsonl"
    path.write_text("".join(json.dumps(f.to_json()) + "\n" for f in families(30)))
    return path


def test_files(program, tmp_path, labelled):
    folder = tmp_path / "sample"
    command = ("lab", "sample", "confusable", labelled, "-o", folder, "--entities", 10, "--seed", 3)
    ran = program(*command, "--max-fragments", 2, "--splits", "train,dev", "--json")
    assert ran.code == 0
    assert sorted(p.name for p in folder.iterdir()) == ["dev.jsonl", "groups.json", "train.jsonl"]
    groups = json.loads((folder / "groups.json").read_text())
    summary = json.loads(ran.out)["splits"]
    for name in ("train", "dev"):
        fragments = list(read_fragments(str(folder / f"{name}.jsonl")))
        assert {f.label for f in fragments} == {
            entity for group in groups[name] for entity in group
        }
        assert summary[name] == {
            "entities": 10,
            "fragments": len(fragments),
            "groups": len(groups[name]),
        }
    before = {p.name: p.read_bytes() for p in folder.iterdir()}
    program(*command, "--max-fragments", 2, "--splits", "train,dev")
    assert {p.name: p.read_bytes() for p in folder.iterdir()} == before


def test_standard_input(program, tmp_path, labelled):
    folder = tmp_path / "sample"
    command = ("lab", "sample", "confusable", "-", "-o", folder, "--entities", 5)
    ran = program(*command, stdin=labelled.read_bytes())
    assert ran.code == 0
    assert len(ran.err.splitlines()) == 3


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (
            b"oops\n",
            "{file}:1: expected a JSON object, got invalid JSON at column 1 (unexpected "
            "character, expected a JSON value); {advice}",
        ),
        (b"", "expected fragments with a label, got none that has one"),
        (
            b'{"id": "a", "vector": [1]}\n' * 2,
            '{file}:2: id: expected a unique id, got "a" again; {advice}',
        ),
    ],
)
def test_bad_input(program, tmp_path, content, sentence):
    file = tmp_path / "in.jsonl"
    file.write_bytes(content)
    ran = program("lab", "sample", "confusable", file, "-o", tmp_path / "sample")
    advice = f"kbforge load {file} --on-error quarantine -o in-good.jsonl sets bad records aside"
    ran.require_refusal(sentence.format(file=file, advice=advice), 1)
    assert not (tmp_path / "sample").exists()


def test_missing_folder_above(program, tmp_path, labelled):
    folder = tmp_path / "none" / "sample"
    ran = program("lab", "sample", "confusable", labelled, "-o", folder, "--entities", 5)
    assert ran.err == f"kbforge: cannot write {folder}: no such file or directory\n"
    assert ran.code == 1


# Pipelines hold the verbs of the laboratory.


@pytest.mark.parametrize("verb", ["lab bench", "lab bench scale", "lab sample confusable"])
def test_a_verb_of_the_laboratory_is_a_step(tmp_path, verb):
    path = tmp_path / "pipeline.toml"
    step = f'[[step]]\nverb = "{verb}"\nargs = ["x"]\noptions = {{output = "o"}}\n'
    path.write_text(step, encoding="utf-8")
    (read,) = read_pipeline(str(path))
    assert read.verb == tuple(verb.split())

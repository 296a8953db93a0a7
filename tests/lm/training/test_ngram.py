"""Training n-gram models: counts, scales, and the verb."""

import math
from pathlib import Path

import orjson
import pytest

from kbforge.contracts import Fragment
from kbforge.errors import KBForgeError, ModelError, UsageError
from kbforge.fit.alpha import fingerprint
from kbforge.models.bundle import add_file, read_bundle
from kbforge_lm.likelihoods.ngram import Bigram, NgramCounts, NgramLikelihood
from kbforge_training.ngram import evidence_of, train, tune

NAMES = {
    "Q1": ["Ada Lovelace", "A. Lovelace", "Lovelace", "Ada Lovelace"],
    "Q2": ["Alan Turing", "Turing", "A. M. Turing"],
    "Q3": ["Grace Hopper"],
}


def fragments(labelled: bool = True) -> list[Fragment]:
    return [
        Fragment(f"{label}-{i}", {"name": (name,)}, label=label if labelled else None)
        for label, names in NAMES.items()
        for i, name in enumerate(names)
    ]


def clusters() -> list[list[Fragment]]:
    return [[f for f in fragments() if f.label == label] for label in NAMES]


def test_the_tuned_scale_maximises_the_evidence_of_the_labelled_clusters(tmp_path):
    check_evidence(tmp_path, 2, Bigram)


def check_evidence(tmp_path: Path, order: int, plugin: type[NgramLikelihood]) -> None:
    trained = train(fragments(), tmp_path / "m", order)
    model = plugin.from_bundle(tmp_path / "m")
    assert model.scale == trained["scale"]
    assert trained["clusters"] == 3
    best = float(model.log_marginal(clusters()).sum())
    assert trained["evidence"] == pytest.approx(best, abs=1e-6)
    for factor in (0.5, 0.9, 1.1, 2.0):
        other = plugin.from_bundle(tmp_path / "m", scale=trained["scale"] * factor)
        assert float(other.log_marginal(clusters()).sum()) < best


def test_without_labels_or_with_a_given_scale_nothing_is_tuned(tmp_path):
    blind = train(fragments(labelled=False), tmp_path / "a")
    given = train(fragments(), tmp_path / "b", scale=3.0)
    assert (blind["scale"], blind["clusters"], blind["evidence"]) == (Bigram.default_scale, 0, None)
    assert (given["scale"], given["clusters"], given["evidence"]) == (3.0, 0, None)
    assert Bigram.from_bundle(tmp_path / "b").scale == 3.0


def test_clusters_that_say_nothing_of_the_scale_are_reported_at_the_edge():
    """Copies of one long word want a scale of zero."""
    same = {"name": NgramCounts.empty(2, ("name",)).by_attribute["name"]}
    counts = NgramCounts.empty(2, ("name",))
    counts.add([Fragment("f", {"name": ("abcdefgh",)})])
    same["name"].update({gram: 50 * n for gram, n in counts.by_attribute["name"].items()})
    scale, _, edge = tune(evidence_of([same], counts))
    assert edge == "low"
    assert scale < 1e-3


def test_the_bundle_tells_where_it_comes_from(tmp_path):
    trained = train(iter(fragments()), tmp_path / "m")
    bundle = read_bundle(tmp_path / "m")
    assert (bundle.kind, bundle.plugin) == ("likelihoods", "bigram")
    assert bundle.data == {"fragments": 8, "sha256": fingerprint(fragments())}
    assert bundle.recipe["scale"] == trained["scale"]
    assert bundle.recipe["scale_tuned_on_clusters"] == 3
    assert trained["values"] == 7  # one is a repetition
    counts = NgramCounts.from_bytes(bundle.files["counts.json"], "m")
    assert sum(counts.by_attribute["name"].values()) == sum(
        len(name.replace(".", "")) + 1 for names in NAMES.values() for name in set(names)
    )


def test_same_fragments_same_bytes(tmp_path):
    for name in "ab":
        train(fragments(), tmp_path / name)
    for file in ("manifest.json", "counts.json"):
        assert (tmp_path / "a" / file).read_bytes() == (tmp_path / "b" / file).read_bytes()


def test_attributes_are_counted_apart(tmp_path):
    both = [Fragment("f", {"name": ("ab",), "town": ("ba",)}), Fragment("g", {"town": ("bb",)})]
    train(both, tmp_path / "m", attributes=("name", "town"))
    model = Bigram.from_bundle(tmp_path / "m")
    a, b = model.log_marginal([[Fragment("x", {key: ("ab",)})] for key in ("name", "town")])
    assert math.isfinite(a)
    assert a > b


def test_nothing_to_count_wrong_orders_and_folders(tmp_path):
    with pytest.raises(KBForgeError, match="no fragment has a value of alias"):
        train(fragments(), tmp_path / "m", attributes=("alias",))
    with pytest.raises(UsageError, match="--order: expected one of 2, 3, got 5"):
        train(fragments(), tmp_path / "m", order=5)
    with pytest.raises(UsageError, match="scale must be above 0"):
        train(fragments(), tmp_path / "m", scale=-1.0)
    assert not (tmp_path / "m").exists()
    (tmp_path / "mine").mkdir()
    with pytest.raises(ModelError, match="exists and is not a model bundle"):
        train(fragments(), tmp_path / "mine")


@pytest.mark.data
def test_evidence_on_real_names_has_an_inner_maximum(data_dir, tmp_path):
    from kbforge.files.fragments import read_fragments

    path = str(data_dir / "confusable" / "wd50_train.jsonl")
    trained = train(read_fragments(path), tmp_path / "m")
    assert trained["clusters"] == 50
    assert trained["at_edge"] == ""
    assert 0.1 < trained["scale"] < 2.0


# `kbforge train-ngram` as users run it.


@pytest.fixture
def people(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = ["Ada Lovelace", "A. Lovelace", "Alan Turing", "Turing", "Zoë 東京"]
    records = [
        {"id": f"r{i}", "properties": {"name": [name]}, "label": "Q" + name[-1]}
        for i, name in enumerate(names)
    ]
    Path("people.jsonl").write_bytes(b"".join(orjson.dumps(r) + b"\n" for r in records))
    return "people.jsonl"


def test_train_then_cluster_with_the_model(program, people):
    trained = program("train-ngram", people, "-o", "model")
    assert trained.code == 0
    assert "bigram model of" in trained.err
    assert "tuned on 3 labelled clusters" in trained.err
    clustered = program("cluster", people, "--likelihood", "model", "-o", "kb.jsonl")
    assert clustered.code == 0
    assert "no trained counts" not in clustered.err
    assert len(Path("kb.jsonl").read_bytes().splitlines()) >= 1


def test_json_and_options(program, people):
    options = ["--order", "2", "--scale", "0.5", "--json", "--limit", "2"]
    trained = program("train-ngram", people, "-o", "model", *options)
    assert trained.code == 0
    assert trained.json["model"] == "model"
    assert trained.json["likelihood"] == "bigram"
    assert [trained.json[key] for key in ("fragments", "scale", "evidence")] == [2, 0.5, None]


def test_a_damaged_model_is_refused_by_cluster(program, people):
    program("train-ngram", people, "-o", "model")
    add_file(Path("model"), "notes.txt", b"mine")
    Path("model/counts.json").write_bytes(b"{}")
    refused = program("cluster", people, "--likelihood", "model/", "-o", "kb.jsonl")
    assert refused.code == 1
    assert '"counts.json" has 2 bytes, but its manifest says' in refused.err
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
def test_errors_are_sentences(program, arguments, code, says):
    refused = program("train-ngram", *arguments)
    assert refused.code == code
    assert says in refused.err
    assert not Path("m").exists()


def test_a_bad_line_is_named(program, people):
    with Path(people).open("ab") as file:
        file.write(b'{"id": "r9", "properties": {"name": []}}\n')
    refused = program("train-ngram", people, "-o", "model")
    assert refused.code == 1
    assert refused.err.startswith("kbforge: people.jsonl:6: ")
    assert not Path("model").exists()

"""FastEx through the command line: documents in, topics out."""

import json

import numpy as np
import pytest

TOPICS = {
    "sea": "The harbour, the tide and the ship; a sailor mends a sail by the pier",
    "garden": "A rose and a tulip in the bed: the gardener waters the hedge and soil",
    "court": "Judge, jury, witness: a verdict of the court after the lawyer pleads",
}
READING = ("--likelihood", "dirichlet-multinomial", "--set", "likelihood.reads=words")
READING = (*READING, "--set", "likelihood.concentration=20", "--alpha", "1")


@pytest.fixture
def texts(tmp_path):
    rng = np.random.default_rng(0)
    lines = []
    for i in range(90):
        topic = list(TOPICS)[i % 3]
        text = " ".join(rng.choice(TOPICS[topic].split(), size=25))
        lines.append({"id": f"d{i}", "properties": {"text": [text]}, "label": topic})
    path = tmp_path / "docs.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


@pytest.fixture
def fastex(program, texts, tmp_path):
    """Clusters the texts; writes kb.jsonl unless told otherwise."""
    job = ("cluster", texts, "--set", "clusterer=fastex", "-o", tmp_path / "kb.jsonl")
    return lambda *options, reading=READING: program(*job, *reading, *options)


def test_texts_in_topics_out(program, fastex, texts, tmp_path):
    kb = tmp_path / "kb.jsonl"
    sweeps = ("--set", "clusterer.sweeps=40")
    done = fastex(*sweeps, "--json")
    assert done.json["ended"] == "sweeps"
    assert done.json["fragments"] == 90
    assert done.json["entities"] == 3
    scores = program("evaluate", kb, texts, "--json").json
    assert scores["bcubed_f1_item_mean"] == pytest.approx(1.0)
    again = tmp_path / "again.jsonl"
    fastex(*sweeps, "-o", again)
    assert again.read_bytes() == kb.read_bytes()


@pytest.mark.parametrize("clusterer", ["fastex", "uncollapsed"])
def test_a_mixture_has_at_most_its_components(fastex, clusterer):
    options = ("--set", "clusterer.components=2", "--set", "clusterer.sweeps=20")
    done = fastex("--set", f"clusterer={clusterer}", *options, "--json")
    assert done.json["entities"] <= 2


def test_a_budget_ends_it(fastex):
    done = fastex("--set", "clusterer.budget=0.3", "--set", "clusterer.patience=none", "--json")
    assert done.json["ended"] == "budget"
    assert done.json["complete"]


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (("--set", "clusterer.bits=0"), "bits must be from 1 to 1,024, got 0"),
        (("--set", "clusterer.temperature=2"), "temperature must be above 0 and at most 1"),
        (("--set", "clusterer.start=random"), "start=random needs components"),
        (
            ("--set", "clusterer.components=3", "--set", "clusterer.start=singletons"),
            "start: 90 clusters are more than 3 components",
        ),
    ],
)
def test_bad_options_get_one_sentence(fastex, options, sentence):
    done = fastex(*options)
    assert done.code != 0
    assert sentence in done.err


def test_other_likelihoods_are_refused(fastex):
    bigram = ("--likelihood", "bigram", "--set", "likelihood.attributes=text", "--alpha", "1")
    done = fastex(reading=bigram)
    assert done.code != 0
    assert "expected dirichlet-multinomial or gaussian" in done.err

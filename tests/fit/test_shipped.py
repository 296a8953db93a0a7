"""The maps that ship: they keep order, are read strictly, and are applied without being asked."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kbforge.contracts import Fragment
from kbforge.errors import KBForgeError
from kbforge.evaluation.reliability import ReportedPairs
from kbforge.fit.confidence import ClusteringReport
from kbforge.fit.covariates import ENTITY_FEATURES, PAIR_FEATURES, REPORTED
from kbforge.fit.description import FileContext
from kbforge.fit.maps import (
    ENTITIES,
    FACTS,
    PAIRS,
    TreeConfidence,
    facts_toml,
    in_order,
    read_tree_confidence,
    shipped_confidence,
)
from kbforge.models.bundle import list_defaults
from kbforge.models.trees import Trees
from kbforge.registry import create
from tests.fit.test_covariates import entities_of, pairs_of, people

claims = st.lists(
    st.tuples(st.sampled_from([0.1, 0.4, 0.7, 1.0]), st.floats(0, 1), st.integers(0, 3)),
    max_size=30,
)


@given(claims)
def test_within_a_subproblem_claims_keep_their_order(rows):
    probability, calibrated, subproblem = (
        np.array([row[k] for row in rows], kind) for k, kind in enumerate((float, float, int))
    )
    found = in_order(probability, calibrated, subproblem)
    for k in range(len(rows)):
        for other in range(len(rows)):
            if subproblem[k] == subproblem[other] and probability[k] < probability[other]:
                assert found[k] <= found[other] + 1e-12
    for number in set(subproblem.tolist()):
        own = subproblem == number
        assert found[own].sum() == pytest.approx(calibrated[own].sum())
    assert in_order(probability, found, subproblem) == pytest.approx(found)


def stump(features, column, offset):
    """Log odds of -1 and 1 about the offset, by whether a column is above 0."""
    return Trees(
        features,
        np.array([features.index(column)], np.int32),
        np.array([0.0]),
        np.array([1], np.uint8),
        np.array([-1], np.int32),
        np.array([-2], np.int32),
        np.array([-1.0, 1.0]),
        np.array([0], np.int32),
        np.array([offset]),
    )


def write(folder, pairs=None, entities=None):
    (folder / PAIRS).write_bytes((pairs or stump(PAIR_FEATURES, REPORTED, 0.0)).to_bytes())
    known = entities or stump(ENTITY_FEATURES, "borne_elsewhere", 0.5)
    (folder / ENTITIES).write_bytes(known.to_bytes())
    (folder / FACTS).write_bytes(facts_toml(("bigram",), ("made",), 3))
    list_defaults(folder)
    return folder


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def test_a_folder_is_read_and_applied(tmp_path):
    found = read_tree_confidence(write(tmp_path), FileContext("bigram"))
    entities = entities_of((0, 1), (2,), (3,), (4,), (5,))
    reported = ClusteringReport(people(), entities)
    borne = [True, True, False, False, False]
    expected = sigmoid(np.where(borne, 1.5, -0.5))
    assert found.of_entities(reported) == pytest.approx(expected)
    pairs = pairs_of((0, 1), (0, 2))
    pairs = ReportedPairs(
        pairs.first, pairs.second, np.array([0.9, 0.2]), pairs.size, pairs.subproblem
    )
    assert found.of_pairs(reported, pairs) == pytest.approx(sigmoid(np.array([1, -1])))


def test_of_another_likelihood_nothing_bolder_than_its_report_is_told(tmp_path):
    entities = entities_of((0, 1), (2,), (3,), (4,), (5,), probability=[0.2, 0.99, 0.1, 1, 1])
    reported = ClusteringReport(people(), entities)
    known = read_tree_confidence(write(tmp_path), FileContext("bigram")).of_entities(reported)
    other = read_tree_confidence(tmp_path, FileContext("stranger")).of_entities(reported)
    assert other == pytest.approx(np.minimum(known, entities.probability))
    assert (other < known).any()


def test_what_is_wrong_is_one_sentence(tmp_path):
    with pytest.raises(KBForgeError, match="is not a model bundle: it has no manifest"):
        read_tree_confidence(tmp_path, FileContext("bigram"))
    write(tmp_path, entities=stump((REPORTED, "colour"), "colour", 0.0))
    with pytest.raises(KBForgeError, match='covariates that this version has, got "colour"'):
        read_tree_confidence(tmp_path, FileContext("bigram"))
    write(tmp_path)
    (tmp_path / PAIRS).write_bytes(b"x" * 40)
    list_defaults(tmp_path)
    with pytest.raises(KBForgeError, match="the trees are damaged"):
        read_tree_confidence(tmp_path, FileContext("bigram"))
    (tmp_path / FACTS).write_text("format = 9\n")
    list_defaults(tmp_path)
    with pytest.raises(KBForgeError, match=r"doubt\.toml: format: expected 1, got 9"):
        read_tree_confidence(tmp_path, FileContext("bigram"))


@pytest.fixture
def shipped() -> TreeConfidence:
    return shipped_confidence(FileContext("attributes"))


@pytest.mark.parametrize("kind", ["pairs", "entities"])
def test_what_ships_never_descends_in_the_report(shipped, kind):
    trees = getattr(shipped, kind)
    rng = np.random.default_rng(0)
    at = trees.features.index(REPORTED)
    rows = rng.normal(scale=3, size=(200, len(trees.features)))
    rows[rng.random(rows.shape) < 0.1] = np.nan
    sums = []
    for reported in np.linspace(-7, 7, 57):
        rows[:, at] = reported
        sums.append(trees.predict(rows))
    assert (np.diff(sums, axis=0) >= -1e-12).all()
    if kind == "pairs":  # of entities the report itself says no more than all else does
        assert (sums[-1] > sums[0]).any()


def test_what_ships_is_not_sure_of_names_that_are_borne_elsewhere():
    """The same report of the same name: alone in the file, and beside many others who bear it."""
    alone = [Fragment(str(k), {"name": (f"Name{k} Person{k}",)}) for k in range(100)]
    shared = [Fragment(str(k), {"name": (f"Name{k % 5} Person{k % 5}",)}) for k in range(100)]
    each = entities_of(*((k,) for k in range(100)), probability=[1.0] * 100)
    sure = []
    for held in (alone, shared):
        pairs = create("likelihoods", "pairs", {})
        pairs.fit(held)
        doubt = shipped_confidence(FileContext("attributes", pairs))
        sure.append(doubt.of_entities(ClusteringReport(held, each)).mean())
    assert sure[1] < sure[0]
    assert sure[1] < 0.5


def names(path: Path) -> Path:
    lines = [
        {"id": f"{k}-{j}", "properties": {"name": [f"{name} {'x' * j}"]}, "label": name}
        for k, name in enumerate(["Ada Abel", "Bob Beck", "Cyd Cole", "Dan Dorn", "Eve Ernst"])
        for j in range(3)
    ]
    path.write_bytes(b"".join(orjson.dumps(line) + b"\n" for line in lines))
    return path


@pytest.mark.parametrize("likelihood", ["names", "bigram", "attributes", "pairs", "trigram"])
def test_every_entity_gets_a_calibrated_confidence_by_default(program, tmp_path, likelihood):
    file, kb = names(tmp_path / "names.jsonl"), tmp_path / "kb.jsonl"
    ran = program("cluster", file, "--likelihood", likelihood, "-o", kb)
    assert ran.code == 0, ran.err
    for line in kb.read_bytes().splitlines():
        entity = orjson.loads(line)
        assert 0 < entity["confidence"] < 1
        assert 0 <= entity["reported"] <= 1
    assert "reported as" in program("show", kb).out.decode()
    found = program("evaluate", "--reliability", file, "--likelihood", likelihood, "--json").json
    assert found["entities"]["mapped"]["count"] == found["entities"]["raw"]["count"]
    assert found["pairs"]["mapped"]["count"] == found["pairs"]["raw"]["count"]


def test_nothing_that_ships_judges_vectors(program, tmp_path):
    file, kb = tmp_path / "v.jsonl", tmp_path / "kb.jsonl"
    lines = [{"id": str(k), "properties": {}, "vector": [float(k % 3), 1.0]} for k in range(9)]
    file.write_bytes(b"".join(orjson.dumps(line) + b"\n" for line in lines))
    assert program("cluster", file, "--likelihood", "gaussian", "-o", kb).code == 0
    assert b'"reported"' not in kb.read_bytes()
    assert "as reported" in program("show", kb).out.decode()

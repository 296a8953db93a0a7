"""Maps are read strictly, keep order, are shifted by audits, and stay the same when kept."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from safetensors.numpy import load, save
from scipy.special import expit

from kbforge.contracts import Fragment
from kbforge.errors import KBForgeError, ModelError
from kbforge.evaluation.reliability import ReportedEntities, ReportedPairs
from kbforge.files.answers import NumberedAnswer
from kbforge.fit.choices import RunOptions
from kbforge.fit.confidence import (
    CONFIDENCE_FILE,
    AuditedConfidence,
    Band,
    ConfidenceMap,
    MonotoneConfidence,
    TreeConfidence,
    confidence_bytes,
    dump_map,
    in_order,
    load_map,
    offset_of,
    shift,
    shipped_confidence,
)
from kbforge.fit.description import FileContext, Prediction
from kbforge.fit.features import ENTITY_FEATURES, REPORTED, ClusteringReport
from kbforge.fit.prepare import prepare
from kbforge.models.bundle import MANIFEST, list_defaults
from kbforge.models.trees import Trees
from kbforge.numerics import members_of
from kbforge.registry import create
from kbforge.testing.likelihood import not_refused, same, stored
from tests.fit.test_features import entities_of, pairs_of, people
from tests.people import people as people_of_lists


def share(contradicted: int, count: int, probability: float) -> float:
    """What a claim of this probability becomes when so many of the tested ones failed."""
    failed = np.arange(count) < contradicted
    offset = offset_of(np.full(count, probability), failed)
    return float(shift(np.array([probability]), offset)[0])


def test_claims_that_fail_lower_the_others_and_those_that_hold_raise_them():
    assert share(8, 10, 0.9) < share(4, 10, 0.9) < 0.85
    assert share(0, 10, 0.5) > 0.6
    # as many as were expected change little
    assert share(4, 20, 0.7) == pytest.approx(0.7, abs=0.08)

    # few change little as well
    assert 0.8 < share(1, 1, 0.9) < 0.9
    assert share(1, 1, 0.9) > share(5, 5, 0.9) > share(20, 20, 0.9)
    assert offset_of(np.zeros(0), np.zeros(0, np.bool_)) == 0.0
    # a wrong entity may have no wrong pair that was asked about, so none gets certain
    assert share(0, 1_000, 0.1) < 0.9


def test_certainties_stay():
    moved = shift(np.array([0.0, 0.5, 1.0]), -1.0)
    assert moved.tolist() == pytest.approx([0.0, 1 / (1 + np.e), 1.0])


CLUSTERS = ((0, 1), (2, 3), (4,), (5,))
SURE = np.array([0.9, 0.8, 0.7, 0.6])


class Fixed:
    """A map that says the same of all data."""

    def of_entities(self, reported: ClusteringReport) -> np.ndarray:
        return SURE[: len(reported.entities)]

    def of_pairs(self, reported: ClusteringReport, pairs: ReportedPairs) -> np.ndarray:
        return np.full(len(pairs), 0.5)


def reported() -> ClusteringReport:
    fragments = [Fragment(f"f{k}", {"name": ("x",)}) for k in range(6)]
    ones = np.ones(4)
    return ClusteringReport(
        fragments, ReportedEntities(*members_of(CLUSTERS), ones, ones, np.arange(4))
    )


def offset_by(answers: list[NumberedAnswer]) -> float:
    return AuditedConfidence.of(Fixed(), answers, reported().fragments).offset_by(reported(), SURE)


def audit(first: int, second: int, same: bool | None) -> NumberedAnswer:
    return NumberedAnswer(first, second, same, audit=True)


def test_an_answer_contradicts_what_was_joined_or_left_apart():
    failed = [audit(0, 1, False), audit(2, 3, False), audit(4, 5, True), audit(5, 0, True)]
    held = [audit(0, 1, True), audit(2, 3, True), audit(4, 5, False), audit(5, 0, False)]
    assert offset_by(failed) < -0.5
    assert offset_by(held) > 0
    told = AuditedConfidence.of(Fixed(), failed, reported().fragments).of_entities(reported())
    assert (told < SURE).all()
    assert (np.diff(told) < 0).all()  # the order stays


def test_what_is_no_audit_shifts_nothing():
    others = [
        NumberedAnswer(0, 1, False, audit=False),  # asked about because it is uncertain
        audit(0, 1, None),
        audit(0, 9, False),  # a fragment that an interrupted run did not get to
    ]
    fragments = [*reported().fragments, *(Fragment(f"g{k}", {}) for k in range(4))]
    told = AuditedConfidence.of(Fixed(), others, fragments)
    assert told.of_entities(reported()).tolist() == SURE.tolist()
    interrupted = replace(reported(), fragments=fragments)
    assert told.of_entities(interrupted).tolist() == SURE.tolist()


def test_pairs_are_told_as_the_map_does():
    heard = AuditedConfidence.of(Fixed(), [audit(0, 1, False)], reported().fragments)
    assert heard.of_pairs(reported(), pairs_of((0, 1))).tolist() == [0.5]


def test_answers_hold_for_fragments_wherever_they_are_by_now():
    """One more came first, and the last one is gone: its answers are passed over."""
    fragments = reported().fragments
    heard = AuditedConfidence.of(Fixed(), [audit(0, 1, False), audit(5, 0, True)], fragments)
    now = [Fragment("new", {"name": ("y",)}), *fragments[:5]]
    clusters = ((1, 2), (3, 4), (5,), (0,))
    ones = np.ones(4)
    entities = ReportedEntities(*members_of(clusters), ones, ones, np.arange(4))
    later = ClusteringReport(now, entities)
    expected = shift(SURE, offset_by([audit(0, 1, False)]))
    assert heard.of_entities(later).tolist() == expected.tolist()


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


def write(folder, entities=None, share=0.0):
    entities = entities or stump(ENTITY_FEATURES, "borne_elsewhere", 0.5)
    content = confidence_bytes(entities, ("bigram",), share, ("made",), 3)
    return listed(folder, content)


def listed(folder, content):
    (folder / CONFIDENCE_FILE).write_bytes(content)
    list_defaults(folder)
    return folder


def read_from(folder, likelihood="bigram"):
    return shipped_confidence(FileContext(likelihood), str(folder))


@pytest.mark.parametrize("name", ["doubt.toml", "doubt.pairs.safetensors"])
def test_a_folder_with_the_earlier_maps_is_not_replaced_by_what_ships(tmp_path, name):
    (tmp_path / name).touch()
    sentence = (
        f"{tmp_path}: expected {CONFIDENCE_FILE}, got {name} .* -o {tmp_path} --part confidence "
    )
    with pytest.raises(KBForgeError, match=sentence):
        read_from(tmp_path)
    write(tmp_path)
    assert read_from(tmp_path).likelihoods == ("bigram",)


def test_a_folder_is_read_and_applied(tmp_path):
    found = read_from(write(tmp_path))
    entities = entities_of((0, 1), (2,), (3,), (4,), (5,))
    reported = ClusteringReport(people(), entities)
    expected = expit([1.5, 1.5, -0.5, -0.5, -0.5])  # the first two names are borne elsewhere
    assert found.of_entities(reported) == pytest.approx(expected)


def test_the_report_has_its_share_in_what_is_told(tmp_path):
    folder = write(tmp_path, share=0.1)
    entities = entities_of((0, 1), (2,), (3,), (4,), (5,), probability=[1, 0.5, 0.5, 0.0, 1])
    told = read_from(folder).of_entities(ClusteringReport(people(), entities))
    trees = expit([1.5, 1.5, -0.5, -0.5, -0.5])
    # however sure a report is, it counts as .97
    assert told == pytest.approx(0.9 * trees + 0.1 * np.array([0.97, 0.5, 0.5, 0.03, 0.97]))


def test_a_pair_is_the_mean_of_its_report_and_of_the_pair_alone(tmp_path):
    pairs = replace(pairs_of((0, 1), (0, 2), (1, 4)), probability=np.array([0.9, 1.0, 0.2]))
    report = ClusteringReport(people(), entities_of(*((k,) for k in range(6))))
    told = read_from(write(tmp_path)).of_pairs(report, pairs)
    assert told == pytest.approx([0.9, 0.985, 0.2])  # without a model of pairs
    model = create("likelihoods", "pairs", {})
    model.fit(people())
    odds = model.pair_odds(people())
    links = zip(odds.first.tolist(), odds.second.tolist(), odds.nats.tolist(), strict=True)
    row, nats = odds.row, {(i, j): nats for i, j, nats in links}
    alone = expit([nats.get((row[i], row[j]), odds.apart) for i, j in ((0, 1), (0, 2), (1, 4))])
    heard = shipped_confidence(FileContext("names", model), str(tmp_path))
    assert heard.of_pairs(report, pairs) == pytest.approx(alone / 2 + np.array([0.45, 0.485, 0.1]))


def test_of_another_likelihood_nothing_bolder_than_its_report_is_told(tmp_path):
    entities = entities_of((0, 1), (2,), (3,), (4,), (5,), probability=[0.2, 0.99, 0.1, 1, 1])
    reported = ClusteringReport(people(), entities)
    known = read_from(write(tmp_path)).of_entities(reported)
    other = read_from(tmp_path, "stranger").of_entities(reported)
    assert other == pytest.approx(np.minimum(known, entities.probability))
    assert (other < known).any()


def test_what_is_wrong_is_one_sentence(tmp_path):
    write(tmp_path)
    (tmp_path / MANIFEST).unlink()
    with pytest.raises(KBForgeError, match="is not a model bundle: it has no manifest"):
        read_from(tmp_path)
    write(tmp_path, entities=stump((REPORTED, "colour"), "colour", 0.0))
    with pytest.raises(KBForgeError, match='features that this version has, got "colour"'):
        read_from(tmp_path)
    listed(tmp_path, b"x" * 40)
    with pytest.raises(KBForgeError, match="the file is damaged"):
        read_from(tmp_path)
    write(tmp_path)
    parts = load((tmp_path / CONFIDENCE_FILE).read_bytes())
    for content, why in (
        *(
            ({**parts, "facts": np.frombuffer(facts, np.uint8)}, why)
            for facts, why in (
                (b"{", "facts: expected JSON"),
                (b"[]", "facts: expected an object"),
                (b"{}", "likelihoods: expected an array, got nothing"),
                (b'{"likelihoods": ["a"], "more": 1}', "more: expected one of likelihoods"),
                (b'{"likelihoods": ["a"]}', "report: expected a number from 0 to 1, got nothing"),
                (
                    b'{"likelihoods": ["a"], "report": 1.5}',
                    "report: expected a number from 0 to 1, got",
                ),
            )
        ),
        ({**parts, "entities": parts["entities"][:-9]}, "entities: the trees are damaged"),
        ({"entities": parts["entities"]}, "expected entities, facts"),
    ):
        listed(tmp_path, save(content))
        with pytest.raises(KBForgeError, match=why):
            read_from(tmp_path)


def test_what_ships_never_descends_in_the_report():
    trees = shipped_confidence(FileContext("attributes")).entities
    rng = np.random.default_rng(0)
    at = trees.features.index(REPORTED)
    rows = rng.normal(scale=3, size=(200, len(trees.features)))
    rows[rng.random(rows.shape) < 0.1] = np.nan
    sums = []
    for reported in np.linspace(-7, 7, 57):
        rows[:, at] = reported
        sums.append(trees.predict(rows))
    assert (np.diff(sums, axis=0) >= -1e-12).all()


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


def write_lines(path: Path, lines: list[dict]) -> Path:
    path.write_bytes(b"".join(orjson.dumps(line) + b"\n" for line in lines))
    return path


@pytest.mark.parametrize("likelihood", ["names", "bigram", "attributes", "pairs"])
def test_every_entity_gets_a_calibrated_confidence_by_default(program, tmp_path, likelihood):
    names = ["Ada Abel", "Bob Beck", "Cyd Cole", "Dan Dorn", "Eve Ernst"]
    lines = [
        {"id": f"{k}-{j}", "properties": {"name": [f"{name} {'x' * j}"]}, "label": name}
        for k, name in enumerate(names)
        for j in range(3)
    ]
    file, kb = write_lines(tmp_path / "names.jsonl", lines), tmp_path / "kb.jsonl"
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
    lines = [{"id": str(k), "properties": {}, "vector": [float(k % 3), 1.0]} for k in range(9)]
    file, kb = write_lines(tmp_path / "v.jsonl", lines), tmp_path / "kb.jsonl"
    assert program("cluster", file, "--likelihood", "gaussian", "-o", kb).code == 0
    assert b'"reported"' not in kb.read_bytes()
    assert "as reported" in program("show", kb).out.decode()


MAP = MonotoneConfidence(
    (Band(4.0, 12, (0.02, 0.5), (0.1, 1 / 3)), Band(np.inf, 3, (0.5,), (0.7,))),
    (Band(np.inf, 3, (0.1, 0.5), (0.2, 0.7)),),
    "a \"likelihood\" of 'mine'",
    "split-smc",
    12.123456789012345,
    2,
    500,
    "0" * 64,
    {"scale": "25"},
)


def told(reading: ConfidenceMap, fragments: list[Fragment]) -> tuple[list[float], list[float]]:
    """What a map says of the fragments, two by two."""
    clusters = [tuple(range(len(fragments)))[k : k + 2] for k in range(0, len(fragments), 2)]
    said = np.linspace(0.05, 1.0, len(clusters))
    reported = ClusteringReport(fragments, entities_of(*clusters, probability=said))
    return (
        reading.of_entities(reported).tolist(),
        reading.of_pairs(reported, pairs_of(*(c for c in clusters if len(c) == 2))).tolist(),
    )


@pytest.fixture(scope="module")
def prepared():
    fragments = people_of_lists(60, 5)
    reading = prepare(fragments, RunOptions()).confidence
    assert isinstance(reading, TreeConfidence)
    return fragments, reading


def test_a_map_of_reports():
    assert load_map(stored(dump_map(MAP))) == MAP


def test_the_map_that_a_run_prepares(prepared):
    fragments, reading = prepared
    assert reading.context.predicted is not None
    kept = stored(dump_map(reading))
    read = load_map(kept, reading.context.pairs)
    assert told(read, fragments) == told(reading, fragments)
    assert same(dump_map(read), kept)
    # some are gone, some have come, and the order is another one
    later = [*people_of_lists(3, 9), *fragments[:30:-1]]
    assert told(read, later) == told(reading, later)


def test_a_map_that_has_heard_answers(prepared):
    fragments, doubt = prepared
    audits = tuple((fragments[k].id, fragments[k + 1].id, k % 3 > 0) for k in range(0, 9, 2))
    reading = AuditedConfidence(doubt, audits)
    read = load_map(stored(dump_map(reading)), doubt.context.pairs)
    assert told(read, fragments) == told(reading, fragments) != told(doubt, fragments)


def test_maps_of_a_folder_are_named_and_not_copied(tmp_path):
    fragments = people_of_lists(10, 1)
    context = FileContext("bigram")
    reading = shipped_confidence(context, str(write(tmp_path)))
    kept = stored(dump_map(reading))
    assert told(load_map(kept, defaults=str(tmp_path)), fragments) == told(reading, fragments)
    assert told(load_map(kept), fragments) != told(reading, fragments)


def test_it_needs_the_model_of_pairs_that_it_heard(prepared):
    with pytest.raises(ModelError, match="made with a model of pairs, and none is given"):
        load_map(dump_map(prepared[1]))


@pytest.mark.parametrize("kind", ["map", "doubt", "answered"])
def test_nothing_damaged_is_read(kind):
    fragments = people_of_lists(3, 1)
    weights, labels = np.array([0.25, 0.75]), np.zeros((2, len(fragments)), np.int64)
    predicted = Prediction.of(0.8, 0.1, weights, labels, fragments)
    doubt = shipped_confidence(FileContext("names", None, predicted))
    readings: dict[str, ConfidenceMap] = {
        "map": MAP,
        "doubt": doubt,
        "answered": AuditedConfidence(doubt, (("a", "b", True),)),
    }
    assert not_refused(load_map, dump_map(readings[kind])) == []


def test_a_map_of_nobody_knows_whom_is_not_kept():
    with pytest.raises(KBForgeError, match="object cannot be kept"):
        dump_map(object())  # type: ignore[arg-type]

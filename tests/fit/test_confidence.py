"""The map is isotonic, monotone and repairs overconfidence; its file is read strictly."""

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kbforge.contracts import Decision
from kbforge.evaluation.reliability import (
    LEAST,
    Claims,
    entity_probabilities,
    pair_claims,
    pair_probabilities,
    reliability,
)
from kbforge.fit.alpha import read_calibration, to_toml
from kbforge.fit.confidence import (
    Band,
    MonotoneConfidence,
    confidence_toml,
    fit,
    isotonic,
    mapped,
    read_confidence,
    tied_by,
    told_of_entities,
)
from kbforge.fit.features import ClusteringReport
from tests.fit.test_alpha import GOOD as CALIBRATION
from tests.fit.test_alpha import options, require_refused, texts
from tests.kb.posteriors import plain_fragments, posterior, posteriors, subproblem


@given(st.lists(st.tuples(st.floats(0, 1), st.integers(1, 9)), min_size=1, max_size=6))
def test_isotonic_against_all_ways_to_pool(rows):
    values, weights = (np.array(column, float) for column in zip(*rows, strict=True))
    pooled = []
    for cuts in itertools.product([False, True], repeat=len(rows) - 1):
        block = np.cumsum([0, *cuts])
        means = np.bincount(block, weights * values) / np.bincount(block, weights)
        if (np.diff(means) >= 0).all():
            pooled.append(means[block])
    best = min(pooled, key=lambda fitted: (weights * (values - fitted) ** 2).sum())
    assert isotonic(values, weights) == pytest.approx(best, abs=1e-9)


@given(
    found=posteriors(),
    said=st.lists(st.tuples(st.booleans(), st.integers(0, 9), st.integers(0, 9)), max_size=12),
)
def test_decisions_tie_an_entity_whose_fragments_reach_each_other(found, said):
    report = ClusteringReport(plain_fragments(found.n_fragments), entity_probabilities([found]))
    pairs = [(a, b) for same, a, b in said if same]
    reached = {n: {n for pair in pairs if n in pair} for n in range(10)}
    for _, (a, b) in itertools.product(range(10), pairs):
        reached[a] |= reached[b]
        reached[b] |= reached[a]
    entities = report.entities
    members = np.split(entities.members, np.cumsum(entities.lengths)[:-1])
    tied = [{*own.tolist()} <= reached[own[0]] for own in members]
    decisions = [Decision(same, f"f{a}", f"f{b}") for same, a, b in said]
    assert tied_by(decisions, report).tolist() == tied
    band = (Band(math.inf, 1, (0.5,), (0.25,)),)
    low = MonotoneConfidence(band, band, "exact", "greedy", 1.0, 1, 8, "0" * 64)
    expected = np.where(tied, np.maximum(entities.probability, 0.25), 0.25)
    assert told_of_entities(low, report, decisions).tolist() == expected.tolist()
    assert told_of_entities(None, report, decisions).tolist() == entities.probability.tolist()


def claims_of(rows):
    """Of (probability, size, subproblem, true)."""
    columns = zip(*rows, strict=True)
    return Claims(*map(np.array, columns, (float, float, int, bool)))


def one_report(found, probability, size):
    """The calibrated probability of one report."""
    return float(mapped(found, np.array([probability]), np.array([float(size)]))[0])


one_claim = st.tuples(st.floats(0, 1), st.integers(1, 300), st.integers(0, 9), st.booleans())
claims = st.lists(one_claim, min_size=1, max_size=60).map(claims_of)


@given(claims, st.lists(st.floats(0, 1), min_size=2, max_size=20), st.integers(1, 1000))
def test_the_map_is_monotone_in_the_report(known, reports, size):
    found = fit(known)
    assert [band.largest for band in found] == sorted({b.largest for b in found})
    assert found[-1].largest == math.inf
    assert sum(band.claims for band in found) == len(known)
    for band in found:
        assert list(band.reported) == sorted(band.reported)
        assert list(band.calibrated) == sorted(band.calibrated)
    told = mapped(found, np.sort(reports), np.full(len(reports), float(size)))
    assert (np.diff(told) >= -1e-12).all()
    # nothing is certain for ever
    assert (told > 0).all()
    assert (told < 1).all()


def test_between_knots_the_map_is_linear_in_the_logit():
    found = (Band(4, 9, (0.5, 0.9), (0.2, 0.6)), Band(math.inf, 9, (0.5,), (0.3,)))
    halfway = 3 / 4  # odds 3, between odds 1 and 9
    assert one_report(found, halfway, 4) == pytest.approx(0.4)
    assert one_report(found, 0.0, 1) == one_report(found, 0.5, 2) == pytest.approx(0.2)
    assert one_report(found, 1.0, 3) == pytest.approx(0.6)
    assert one_report(found, 1.0, 5) == one_report(found, 0.1, 5000) == pytest.approx(0.3)


def test_bands_are_doublings_and_follow_the_evidence():
    """In small subproblems what is reported is true, in large ones every second time."""
    size = np.repeat([4.0, 40.0], 2000)
    true = np.concatenate([np.ones(2000), np.arange(2000) % 2]).astype(bool)
    found = fit(Claims(np.full(4000, 0.9), size, np.arange(4000), true))
    assert [band.largest for band in found] == [4.0, math.inf]
    assert one_report(found, 0.9, 3) == pytest.approx(1, abs=0.01)
    assert one_report(found, 0.9, 64) == pytest.approx(0.5, abs=0.01)
    # the same claims, but all of one size from one subproblem: they count as one
    one = fit(Claims(np.full(4000, 0.9), size, np.repeat([0, 1], 2000), true))
    assert one_report(one, 0.9, 64) > one_report(found, 0.9, 64) + 0.1


def test_no_claims():
    none = Claims(np.zeros(0), np.zeros(0), np.zeros(0, int), np.zeros(0, bool))
    with pytest.raises(ValueError, match="no claims"):
        fit(none)
    some = Claims(np.ones(3), np.ones(3), np.arange(3), np.ones(3, bool))
    assert len(mapped(fit(some), np.zeros(0), np.zeros(0))) == 0


def synthetic(seed, sharpen):
    """A posterior of two-fragment subproblems and gold drawn from it, before it was sharpened."""
    rng = np.random.default_rng(seed)
    blocks, labels = [], []
    for k in range(4000):
        p = rng.uniform(0.02, 0.98)
        logit = sharpen * math.log(p / (1 - p))
        said = 1 / (1 + math.exp(-logit))
        i = 2 * k
        blocks.append(
            subproblem([i, i + 1], (said, [(i, i + 1)]), (1 - said, [(i,), (i + 1,)]))
        )  # fmt: skip
        labels += [f"{k}", f"{k}" if rng.random() < p else f"{k} other"]
    return pair_claims(pair_probabilities([posterior(*blocks)], LEAST), labels)


def test_a_calibrated_posterior_has_no_error():
    assert reliability(synthetic(1, 1.0)).ece < 0.03


@pytest.mark.parametrize("sharpen", [3.0, 8.0, 0.3])
def test_the_map_repairs_a_posterior_on_disjoint_data(sharpen):
    """Over- and underconfident ones; Brier shows that the reports still tell pairs apart."""
    known, new = synthetic(1, sharpen), synthetic(2, sharpen)
    raw = reliability(new)
    told = mapped(fit(known), new.probability, new.size)
    after = reliability(Claims(told, new.size, new.subproblem, new.true))
    assert raw.ece > 0.1
    assert after.ece < 0.045
    share = float(new.true.mean())
    assert after.brier < min(raw.brier, share * (1 - share) - 0.03)


GOOD = """format = 1
kbforge = "0.1.0"
[likelihood]
name = "bigram"
[likelihood.options]
scale = "25"
[clustering]
clusterer = "split-smc"
alpha = 12.5
shuffles = 1
[data]
fragments = 5000
sha256 = "ab"
[[pairs]]
largest = 4
claims = 120
reported = [0.02, 0.5, 0.999]
calibrated = [0.04, 0.4, 0.95]
[[pairs]]
claims = 9
reported = [1]
calibrated = [0.5]
[[entities]]
claims = 12
reported = [0.25, 1.0]
calibrated = [0.125, 0.5]
"""


@st.composite
def maps(draw):
    edges = sorted(draw(st.sets(st.integers(1, 4096), max_size=4)))
    bands = []
    for largest in (*edges, math.inf):
        reported = sorted(draw(st.sets(st.floats(0, 1), min_size=1, max_size=5)))
        size = len(reported)
        calibrated = sorted(draw(st.lists(st.floats(0, 1), min_size=size, max_size=size)))
        claims = draw(st.integers(1, 10**9))
        bands.append(Band(float(largest), claims, tuple(reported), tuple(calibrated)))
    return tuple(bands)


found = st.builds(
    MonotoneConfidence,
    pairs=maps(),
    entities=maps(),
    likelihood=texts,
    clusterer=texts,
    alpha=st.floats(1e-300, 1e300),
    shuffles=st.integers(1, 99),
    fragments=st.integers(1, 10**9),
    sha256=texts,
    options=options,
)


@given(found)
def test_what_was_written_is_read(tmp_path_factory, written):
    path = tmp_path_factory.getbasetemp() / "confidence.toml"
    path.write_bytes(confidence_toml(written))
    assert read_confidence(str(path)) == written


@given(found)
def test_it_travels_in_a_calibration_file(tmp_path_factory, written):
    path = tmp_path_factory.getbasetemp() / "calibration.toml"
    path.write_text(CALIBRATION)
    plain = read_calibration(str(path))
    assert plain.confidence is None
    path.write_bytes(to_toml(replace(plain, confidence=written)))
    assert read_calibration(str(path)) == replace(plain, confidence=written)


def test_the_documented_file_is_read(tmp_path):
    path = tmp_path / "c.toml"
    path.write_text(GOOD)
    read = read_confidence(str(path))
    assert one_report(read.pairs, 0.5, 4) == pytest.approx(0.4)
    assert one_report(read.pairs, 0.5, 5) == pytest.approx(0.5)
    assert one_report(read.entities, 1, 100) == pytest.approx(0.5)


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("format = 1\n", "format = 2\n", "format: expected 1, got 2"),
        ("format = 1\n", "format = 1\nmore = 1\n", "more: expected one of"),
        ("alpha = 12.5", "alpha = 0.0", "clustering.alpha: expected a number above 0, got 0.0"),
        ("alpha = 12.5", "alpha = 12.5\ntemperature = 2.0", "temperature: expected 1 or nothing"),
        ("shuffles = 1", 'shuffles = "1"', "clustering.shuffles: expected a whole number, got 1"),
        ("shuffles = 1", "shuffles = 0", "clustering.shuffles: expected a whole number above 0"),
        ("fragments = 5000", "fragments = -1", "data.fragments: expected a whole number above 0"),
        ("claims = 120", "claims = -5", "pairs[0].claims: expected a whole number above 0, got -5"),
        ("largest = 4", "largest = -4", "pairs[0].largest: expected more than 0, got -4"),
        ("[data]", "[date]", "date: expected one of"),
        ("largest = 4", "", "pairs[0].largest: expected a number, got nothing"),
        (
            "claims = 9",
            "claims = 9\nlargest = 8",
            "pairs[1].largest: expected nothing, because it is",
        ),
        (
            "[[pairs]]\nclaims = 9",
            "[[pairs]]\nlargest = 3\nclaims = 1\nreported = [1]\ncalibrated = [1]\n"
            "[[pairs]]\nclaims = 9",
            "pairs[1].largest: expected more than 4, got 3",
        ),
        ("claims = 12\n", "claims = 1.5\n", "entities[0].claims: expected a whole number, got 1.5"),
        ("[0.25, 1.0]", "[]", "entities[0].reported: expected at least one number, got none"),
        ("[0.25, 1.0]", "[0.25]", "entities[0].calibrated: expected 1 numbers, as many as"),
        ("[0.25, 1.0]", "[1.0, 0.25]", "reported: expected numbers that never descend, got 0.25"),
        ("[0.25, 1.0]", "[0.25, 1.5]", "reported: expected numbers from 0 to 1, got 1.5"),
        ("[0.25, 1.0]", "[0.25, nan]", "reported: expected a finite number, got nan"),
        ("[0.25, 1.0]", '[0.25, "x"]', "reported: expected a number, got x"),
        ("[0.25, 1.0]", "[0.25, true]", "reported: expected a number, got True"),
        ("[0.25, 1.0]", "3", "entities[0].reported: expected an array, got 3"),
        ("[0.125, 0.5]", "[0.5, 0.125]", "expected numbers that never descend, got 0.125 after"),
        ("[[entities]]", "[entities]", "entities: expected an array, got "),
        ("[[entities]]", "[[entity]]", "entity: expected one of"),
        (GOOD[GOOD.index("[[entities]]") :], "", "entities: expected an array, got nothing"),
        ("format = 1\n", "format = 1\nentities = []\n", "expected TOML"),
        ("format = 1\n", "\n", "format: expected a whole number, got nothing"),
        (
            GOOD,
            "pairs = []\nentities = []\n" + GOOD[: GOOD.index("[[pairs]]")],
            "pairs: expected at least one table, got none",
        ),
    ],
)
def test_bad_files_give_one_sentence_with_the_field(tmp_path, old, new, said):
    require_refused(tmp_path / "c.toml", read_confidence, GOOD, old, new, said)

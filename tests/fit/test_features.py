"""The features of claims by hand: from fragments, from a model of pairs and from a judge."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
from scipy.special import expit

from kbforge.contracts import Fragment
from kbforge.evaluation.reliability import ReportedEntities, ReportedPairs
from kbforge.fit.description import NONE, PairOdds, Prediction, describe
from kbforge.fit.features import (
    OF_ENTITIES,
    PAIRS_OF_ENTITIES,
    PAIRS_OF_FILES,
    EntityColumns,
    judged_of_file,
    log_odds,
    odds_of_entities,
    odds_of_file,
    odds_of_pairs,
    votes_of,
)
from kbforge.numerics import members_of
from kbforge.registry import create

PEOPLE = [
    ("Ada Lovelace", {"born": "1815", "city": "london"}),
    ("ada  lovelace", {"born": "1815"}),
    ("Ada Lovelace", {"born": "1900", "city": "paris"}),
    ("Ada Lovelacy", {"born": "1815", "city": "london"}),
    ("Charles Babbage", {"born": "1791", "city": "london"}),
    ("Έλλη", {}),
]


def people(order=None):
    held = [
        Fragment(f"f{k}", {"name": (name,), **{key: (v,) for key, v in values.items()}}, label="x")
        for k, (name, values) in enumerate(PEOPLE)
    ]
    return held if order is None else [held[k] for k in order]


def entities_of(*clusters, probability=None):
    k = len(clusters)
    said = np.full(k, 0.5) if probability is None else np.array(probability)
    sizes = np.array([float(len(cluster)) for cluster in clusters])
    return ReportedEntities(*members_of(clusters), said, sizes, np.arange(k))


def pairs_of(*pairs):
    first, second = (np.array(column) for column in zip(*pairs, strict=True))
    k = len(pairs)
    return ReportedPairs(first, second, np.full(k, 0.5), np.full(k, 2.0), np.arange(k))


def entity_columns(said, entities):
    return EntityColumns(said, entities).of(slice(0, len(entities)))


def test_names_and_values_are_numbered():
    said = describe(people())
    assert said.name.tolist() == [0, 0, 0, 1, 2, 3]
    assert said.named.tolist() == [3, 1, 1, 1]
    assert said.values.shape == (6, 2)
    assert said.attributes.tolist() == [3, 2, 3, 3, 3, 1]
    assert said.foreign.tolist() == [0, 0, 0, 1]
    firsts = np.repeat(np.arange(4), np.diff(said.alike.starts))
    alike = zip(firsts, said.alike.second, said.alike.strength, strict=True)
    links = {(first, second): strength for first, second, strength in alike}
    assert links.keys() == {(0, 1), (1, 0)}
    assert 0.2 < links[0, 1] < 1
    assert links[0, 1] == links[1, 0]


def test_names_in_parts_are_joined():
    names = {"first_name": ("Ada",), "surname": ("L",), "surname2": ("M",)}
    said = describe([Fragment("a", names)])
    assert len(said.named) == 1
    assert said.words.tolist() == [2]
    assert said.values.shape == (1, 1)


def test_entities_by_hand():
    found = entity_columns(describe(people()), entities_of((0, 1), (2,), (3,), (4,), (5,)))
    assert tuple(found) == OF_ENTITIES
    at = {name: column.tolist() for name, column in found.items()}
    assert at["fragments"] == pytest.approx([np.log(2), 0, 0, 0, 0])
    assert at["borne_elsewhere"] == pytest.approx(np.log1p([1, 2, 0, 0, 0]))
    assert at["kept"] == pytest.approx([2 / 3, 1 / 3, 1, 1, 1])
    assert at["nearest"][:2] == [1, 1]
    assert 0.2 < at["nearest"][2] < 1
    assert at["nearest"][3:] == [0, 0]
    assert at["agree"][0] == 1  # born alone is stated twice
    assert at["compared"] == [1, 0, 0, 0, 0]
    # the neighbours: of (0, 1) it is 2, which differs in both; of 3 it is (0, 1)
    assert at["neighbour_agrees"][:3] == [0, 0, 2]
    assert at["neighbour_differs"][:3] == [2, 2, 0]
    assert np.isnan(at["neighbour_agrees"][3])


@pytest.mark.parametrize("at_once", [1, 2])
def test_entities_have_the_same_features_by_parts(at_once, monkeypatch):
    said, entities = describe(people()), entities_of((0, 1), (2,), (3,), (4,), (5,))
    whole = entity_columns(said, entities)
    monkeypatch.setattr("kbforge.fit.features.AT_ONCE", at_once)
    of = EntityColumns(said, entities).of
    parts = [of(slice(k, min(k + at_once, 5))) for k in range(0, 5, at_once)]
    for name, column in whole.items():
        found = np.concatenate([part[name] for part in parts])
        np.testing.assert_array_equal(found, column, err_msg=name)


def test_ids_labels_sources_and_the_order_are_not_read():
    clusters = [(0, 1), (2,), (3,), (4,), (5,)]
    before = entity_columns(describe(people()), entities_of(*clusters))
    order = [3, 0, 5, 2, 4, 1]
    other = [replace(f, id=f"z{k}", label=None, source="s") for k, f in enumerate(people(order))]
    moved = [tuple(sorted(order.index(k) for k in cluster)) for cluster in clusters]
    after = entity_columns(describe(other), entities_of(*moved))
    for name, column in before.items():
        assert after[name].tolist() == pytest.approx(column.tolist(), nan_ok=True), name


@pytest.mark.parametrize(
    "fragments",
    [
        [Fragment("v", {}, vector=(1.0,)), Fragment("w", {"a": ("b",)})],
        [Fragment(str(k), {"name": ("same",)}) for k in range(5000)],
        [Fragment(str(k), {"name": (" ",)}) for k in range(3)],
        [Fragment("l", {"name": ("x" * 60_000,), "t": ("y" * 9,)}), Fragment("m", {"t": ("z",)})],
        [Fragment(str(k), {f"a{j}": ("v",) for j in range(k)} | {"n": ("v",)}) for k in range(40)],
    ],
)  # fmt: skip
def test_odd_files_have_features(fragments):
    said = describe(fragments)
    n = len(fragments)
    entities = entities_of(*((k,) for k in range(n)))
    rows = np.column_stack(list(entity_columns(said, entities).values()))
    assert rows.shape == (n, len(OF_ENTITIES))
    assert not np.isinf(rows).any()
    assert (said.name >= NONE).all()


def test_log_odds_are_bounded():
    assert log_odds(np.array([0.0, 0.5, 1.0])) == pytest.approx([-np.log(999), 0, np.log(999)])


def odds() -> PairOdds:
    """Fragments 0 and 1 state the same; rows 0-1 are probably one, 1-2 perhaps, 0-2 are unknown."""
    links = {(0, 0): 4.0, (1, 1): 5.0, (2, 2): 3.0, (0, 1): 2.0, (1, 2): -1.0}
    both = sorted({**links, **{(j, i): nats for (i, j), nats in links.items()}}.items())
    first, second = np.array([pair for pair, _ in both]).T
    return PairOdds(
        np.array([0, 0, 1, 2]), first, second, np.array([nats for _, nats in both]), -5.0
    )


def test_entities_by_the_model_of_pairs():
    found = odds_of_entities(odds(), entities_of((0, 1, 2), (3,)))
    assert tuple(found) == PAIRS_OF_ENTITIES
    at = {name: column.tolist() for name, column in found.items()}
    assert at["odds_sum"] == [6.0, 0.0]  # the row that is there twice with itself, and 0-1
    assert at["odds_mean"][0] == 3.0
    assert at["odds_least"][0] == at["odds_weakest"][0] == 2.0
    assert at["odds_rival"] == [-1.0, -1.0]
    assert at["odds_rival_mean"] == [-3.0, -1.0]  # of rows 0 and 1 with 2; of 2 with 1 alone
    assert at["odds_margin"][0] == 3.0
    assert np.isnan(at["odds_mean"][1])
    assert np.isnan(at["odds_least"][1])
    assert at["odds_hold"] == pytest.approx([np.log(expit(4.0) * expit(2.0)), 0.0])
    assert at["odds_alone"] == pytest.approx([np.log(expit(3.0)), np.log(expit(1.0))])
    assert at["odds_exact"] == pytest.approx(np.add(at["odds_hold"], at["odds_alone"]))

    # a row that two clusters have is a rival of itself
    found = odds_of_entities(odds(), entities_of((0,), (1,), (2, 3)))
    assert found["odds_rival"].tolist() == [4.0, 4.0, 2.0]
    assert found["odds_sum"].tolist() == [0.0, 0.0, -1.0]  # rows 1 and 2 together
    # rows without a link are apart
    found = odds_of_entities(odds(), entities_of((0, 3), (1,), (2,)))
    assert found["odds_sum"].tolist() == [-5.0, 0.0, 0.0]
    assert found["odds_least"].tolist()[0] == -5.0


def test_pairs_by_the_model_of_pairs():
    pairs = pairs_of((0, 1), (1, 2), (2, 3), (0, 3))
    assert odds_of_pairs(odds(), pairs).tolist() == [4.0, 2.0, -1.0, -5.0]
    unread = odds_of_pairs(replace(odds(), row=np.array([0, 1, 2, -1])), pairs)
    assert np.isnan(unread).tolist() == [False, False, True, True]


def test_the_file_by_the_model_of_pairs():
    found = odds_of_file(odds(), entities_of((0, 1, 2), (3,)))
    assert tuple(found) == PAIRS_OF_FILES
    assert found["file_odds_precision"] == pytest.approx(expit(2.0))
    assert found["file_odds_recall"] == pytest.approx(expit(2.0) / (expit(2.0) + expit(-1.0)))
    apart = odds_of_file(odds(), entities_of((0,), (1,), (2,), (3,)))
    assert np.isnan(apart["file_odds_precision"])
    assert apart["file_odds_recall"] == 0


def test_groupings_vote():
    labels = np.array([[0, 0, 1], [0, 1, 1], [0, 0, 0]])
    sample = people([1, 3, 0])
    predicted = Prediction.of(0.8, 0.1, np.array([0.5, 0.3, 0.2]), labels, sample)
    places = predicted.places(people()[:4])
    assert places.tolist() == [2, 0, -1, 1]
    votes = votes_of(predicted, places, entities_of((1, 3), (0,), (2,)))
    assert votes[:2] == pytest.approx([0.5, 0.5])
    assert np.isnan(votes[2])  # it is not in the sample
    assert judged_of_file(predicted, votes) == pytest.approx(
        {"predicted": 0.8, "predicted_gain": 0.1, "predicted_votes": 0.5}
    )


def test_what_came_went_or_changed_since_is_not_in_the_sample():
    predicted = Prediction.of(0.8, 0.1, np.ones(1), np.zeros((1, 4), int), people([4, 1, 0, 3]))
    now = [*people([3, 0, 5]), replace(people()[1], properties={"name": ("Else",)}), *people([4])]
    assert predicted.places(now).tolist() == [3, 2, -1, -1, 0]
    assert predicted.places([replace(f, label=None, source="s") for f in people([0])]) == [2]


def test_the_pair_likelihood_says_what_it_is_worth_to_join_two():
    likelihood = create("likelihoods", "pairs", {})
    fragments: list[Fragment] = [*people(), *people()]
    likelihood.fit(fragments)
    found = likelihood.pair_odds(fragments)
    assert found.row[:6].tolist() == found.row[6:].tolist()
    links = zip(found.first.tolist(), found.second.tolist(), found.nats, strict=True)
    known = {(first, second): nats for first, second, nats in links}
    for i, j in itertools.product(range(6), range(6)):
        one, other = fragments[i], fragments[6 + j]
        joined, *alone = likelihood.log_marginal([[one, other], [one], [other]])
        nats = known.get((int(found.row[i]), int(found.row[j])), found.apart)
        assert nats == pytest.approx(joined - sum(alone))

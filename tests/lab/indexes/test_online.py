"""Insert, remove, part and merge by hashes; how often what is alike is hashed alike."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kbforge.contracts import Features, FloatArray, Fragment
from kbforge.indexes.hashed import RandomDirections
from kbforge_lab.hashing import dense, features_of, of_vectors, sides_of
from kbforge_lab.minhash import Amounts, BinaryHash, MinHash
from kbforge_lm.likelihoods.ngram import Bigram
from kbforge_plugins.likelihoods.gaussian import Gaussian
from tests.indexes.test_online import Case, check_going_and_coming, check_gone, check_parting
from tests.profile import examples

CASES: dict[str, Case] = {
    "minhash": (lambda: MinHash(unit="character", order=3), Bigram, 1e6),
    "binary-hash": (lambda: BinaryHash(unit="character", order=3), Bigram, 1e6),
}


@pytest.mark.parametrize("check", [check_going_and_coming, check_parting, check_gone])
@pytest.mark.parametrize("case", CASES)
def test_what_comes_and_goes_is_found(case, check):
    check(CASES[case])


# Weighted MinHash and features: what is alike is hashed alike, as often as it should be.


SEEDS = 4000


def jaccard(x: FloatArray, y: FloatArray) -> float:
    """Of what is above 0, and of what is below it."""
    x, y = (np.concatenate([np.maximum(v, 0), np.maximum(-v, 0)]) for v in (x, y))
    return float(np.minimum(x, y).sum() / np.maximum(x, y).sum())


def test_vectors_share_a_hash_as_often_as_their_jaccard_similarity_says():
    vectors = np.random.default_rng(0).normal(size=(5, 3))
    vectors[1] = vectors[0] * 1.2
    vectors[2, 1] = 0.0
    amounts = Amounts(of_vectors(vectors))
    hashes = np.array([amounts.first(seed) for seed in range(SEEDS)])
    for i in range(5):
        for j in range(i):
            expected = jaccard(vectors[i], vectors[j])
            # five standard deviations of a share
            slack = 5 * np.sqrt(max(expected * (1 - expected), 1e-4) / SEEDS)
            assert np.mean(hashes[:, i] == hashes[:, j]) == pytest.approx(expected, abs=slack)


@examples(30)
@given(seed=st.integers(0, 1000), n=st.integers(1, 30))
def test_a_hash_is_the_same_whoever_is_beside(seed, n):
    rng = np.random.default_rng(seed)
    vectors = rng.normal(size=(n, 4)) * rng.integers(0, 2, size=(n, 4))
    together = Amounts(of_vectors(vectors)).first(seed)
    alone = [int(Amounts(of_vectors(vectors[i : i + 1])).first(seed)[0]) for i in range(n)]
    assert together.tolist() == alone


def test_what_has_no_features_is_alike():
    features = Features(np.zeros(4, np.int64), np.zeros(0, np.uint64), np.zeros(0))
    assert len(set(Amounts(features).first(3).tolist())) == 1


def test_features_are_what_the_likelihood_says_or_vectors_or_bigrams():
    named = [Fragment("a", {"name": ("bob",), "type": ("x",)}), Fragment("b", {"name": ("bob",)})]
    grams = features_of(named, Bigram(), standardised=True)
    assert np.diff(grams.starts).tolist() == [4, 4]  # of the names alone
    assert grams.names[:4].tolist() == grams.names[4:].tolist()
    every = features_of(named, Gaussian(), standardised=True)
    assert np.diff(every.starts).tolist() == [6, 4]
    points = [Fragment(f"p{i}", {}, (float(i), 7.0)) for i in range(5)]
    raw = features_of(points, Gaussian(), standardised=False)
    assert dense(raw, slice(0, 5)).tolist() == [[float(i), 7.0] for i in range(5)]
    scaled = dense(features_of(points, Gaussian(), standardised=True), slice(0, 5))
    assert scaled[:, 0].tolist() == [-1.0, -0.5, 0.0, 0.5, 1.0]


def test_repeated_grams_are_counted():
    (x,) = (features_of([Fragment("a", {"name": ("aaaa",)})], Bigram(), True),)
    assert sorted(x.values.tolist()) == [1.0, 1.0, 3.0]


def test_sides_are_those_of_the_directions():
    vectors = np.random.default_rng(2).normal(size=(9, 6))
    found = sides_of(of_vectors(vectors), 4, tables=3, rows=2)
    assert (found == (RandomDirections(4, 6, 3, 2).projected(vectors) > 0)).all()
    assert (sides_of(of_vectors(-vectors), 4, 3, 2) == ~found).all()


def test_several_hashes_are_shared_if_each_of_them_is():
    vectors = np.random.default_rng(5).normal(size=(2, 4)) + 1.5
    amounts = Amounts(of_vectors(vectors))
    found = [[amounts.firsts(seed, rows) for seed in range(1500)] for rows in (1, 2)]
    shared = [np.mean([one == other for one, other in hashes]) for hashes in found]
    assert 0.1 < shared[0] < 0.9
    assert shared[1] == pytest.approx(shared[0] ** 2, abs=0.06)
    assert (amounts.firsts(7, 1) == amounts.first(7)).all()

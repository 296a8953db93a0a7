"""Vectors made of features, and what labelled ones teach of them."""

import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.spatial.distance import cdist
from scipy.stats import multivariate_normal

from kbforge.contracts import FloatArray, Fragment
from kbforge.errors import LikelihoodError, UsageError
from kbforge.testing import examples
from kbforge_lab.features import FEATURES, Edit, Years
from kbforge_lab.likelihoods import supervised
from kbforge_lab.likelihoods.supervised import (
    Columns,
    Comparison,
    Scatter,
    linked,
    named,
    placed,
    scaled,
    usual,
)
from kbforge_lab.scdp.references import embedding
from tests.people import people


def fragment(name: str, value: str) -> Fragment:
    return Fragment(name, {"year": (value,)} if value else {"other": ("x",)})


def test_years_within_the_span_are_points_on_a_line():
    items = [fragment(str(i), year) for i, year in enumerate(["1990", "1994", "1991", "1990"])]
    found = Columns(items, [Comparison("year", "years")], 3, False).first(3)
    np.testing.assert_allclose(cdist(found, found)[0], [0, 0.4, 0.1, 0], atol=1e-12)


def test_a_fragment_without_a_reading_is_in_the_centre():
    items = [fragment(str(i), year) for i, year in enumerate(["1990", "", "1994", "1991"])]
    found = Columns(items, [Comparison("year", "years")], 2, False).first(2)
    assert (found[1] == 0).all()
    assert (found[[0, 2, 3]] != 0).any()


def test_fewer_dimensions_are_the_first_of_more():
    items = people(12, 3)
    compared = [Comparison("name", "edit"), Comparison("born", "subsequence")]
    whole = Columns(items, compared, 8, False).first(8)
    found = Columns(items, compared, 8, False).first(2)
    np.testing.assert_array_equal(found, whole[:, [0, 1, 8, 9]])


def test_distances_of_unlike_readings_stay_in_proportion():
    """Names that have nothing in common are as far apart as ever, those that are alike near."""
    rng = random.Random(1)
    names = ["".join(rng.choices("abcdefghijklmnopqrstuvw", k=12)) for _ in range(150)]
    copies = [name[:-1] + "x" for name in names[:20]]
    found = placed(Edit("name"), names + copies, 80)
    assert found.shape == (170, 80)
    apart = cdist(found, found)
    near = [apart[i, 150 + i] for i in range(20)]
    assert max(near) < 0.75 * apart[:150, :150][np.triu_indices(150, 1)].min()
    # of the longest axes alone most names would be nearly in one place
    axes = embedding(Edit("name").distances(names, names), 80)[:, :20]
    assert cdist(axes, axes)[np.triu_indices(150, 1)].min() < max(near)


@pytest.mark.parametrize("landmarks", [1000, 30])
def test_the_basis_of_axes_of_equal_variance_does_not_matter(monkeypatch, landmarks):
    """Of 40 words that are all unlike, every basis is one of principal axes, and LAPACK has any."""
    rng = np.random.default_rng(3)
    names = ["".join(chr(0x4E00 + 9 * word + letter) for letter in range(9)) for word in range(40)]
    expected = placed(Edit("name"), names, 8, landmarks)

    def another(distances: FloatArray, dimensions: int) -> FloatArray:
        points = embedding(distances, dimensions)
        lengths = np.square(points).sum(axis=0)
        equal = np.isclose(lengths, lengths[0])
        assert equal.sum() == len(distances) - 1
        turn, _ = np.linalg.qr(rng.standard_normal((equal.sum(), equal.sum())))
        points[:, equal] = points[:, equal] @ turn
        return points

    monkeypatch.setattr(supervised, "embedding", another)
    np.testing.assert_allclose(placed(Edit("name"), names, 8, landmarks), expected, atol=1e-12)


def test_an_attribute_with_one_value_has_no_columns():
    items = [fragment(str(i), "1990") for i in range(3)]
    assert Columns(items, [Comparison("year", "years")], 3, False).first(3).shape == (3, 0)


def test_more_readings_are_placed_by_landmarks():
    """On a line the distances to a few say where all the others are."""
    years = [str(year) for year in range(1000, 2500)]
    found = placed(Years("year", 2000.0), years, 3)
    expected = np.arange(1500.0) / 2000
    np.testing.assert_allclose(cdist(found, found), np.abs(expected[:, None] - expected), atol=1e-9)


def test_vectors_stand_beside_features():
    items = examples.fragments(6)
    both = Columns(items, [Comparison("colour", "edit")], 2, True)
    np.testing.assert_allclose(both.first(2)[:, -2:], [item.vector for item in items])
    with pytest.raises(LikelihoodError, match='"bare": expected a vector of 2 numbers, got none'):
        Columns([*items, Fragment("bare", {"colour": ("red",)})], [], 2, True)


def test_means_of_labelled_entities_are_centred_and_have_variance_1():
    rng = np.random.default_rng(1)
    labels = np.repeat([4, 7, 9, 11], [2, 5, 40, 1])
    values = rng.normal(5, 3, (4, 3))[labels % 4] + rng.normal(0, 0.1, (48, 3))
    found = scaled(values, labels, values[:5])
    means = np.stack([found.train[found.labels == k].mean(axis=0) for k in range(4)])
    np.testing.assert_allclose(means.mean(axis=0), 0, atol=1e-12)
    np.testing.assert_allclose(means.std(axis=0), 1)
    np.testing.assert_allclose(found.test, found.train[:5])


def test_the_scatter_within_entities_is_found_again():
    rng = np.random.default_rng(2)
    labels = np.arange(9000) // 3
    means = rng.normal(0, 1, (3000, 2))
    values = means[labels] + rng.normal(0, [0.5, 0.1], (9000, 2))
    found = scaled(values, labels, values[:1])
    # the means of three have a third of the scatter, too
    expected = [0.25 / (1 + 0.25 / 3), 0.01 / (1 + 0.01 / 3)]
    np.testing.assert_allclose(found.within, expected, rtol=0.1)


def test_equal_values_are_not_certain():
    values = np.repeat(np.arange(4.0), 2)[:, None]
    found = scaled(values, np.repeat(np.arange(4), 2), values)
    assert (found.within > 0).all()


@given(st.integers(1, 4), st.integers(1, 3), st.integers(0, 10**6))
def test_one_scatter_is_the_density_with_the_mean_integrated_out(n, width, seed):
    rng = np.random.default_rng(seed)
    w, x = rng.uniform(0.1, 2.0, width), rng.normal(size=(n, width))
    expected = sum(
        multivariate_normal(np.zeros(n), w[f] * np.eye(n) + 1).logpdf(x[:, f]) for f in range(width)
    )
    items = [Fragment(str(i), {}, tuple(row)) for i, row in enumerate(x.tolist())]
    assert Scatter(w).log_marginal([items, []]) == pytest.approx([expected, 0.0])


def test_linkage_is_cut_where_labelled_entities_are():
    rng = np.random.default_rng(3)
    centres = rng.normal(0, 1, (12, 4)) * 3
    labels = np.arange(60) % 12
    values = centres[labels] + rng.normal(0, 0.05, (60, 4))
    known = labels < 8
    found = linked(scaled(values[known], labels[known], values[~known]))
    gold = labels[~known]
    assert ((found[:, None] == found) == (gold[:, None] == gold)).all()
    assert sorted(set(found.tolist())) == [0, 1, 2, 3]


def test_linkage_of_one_fragment_is_one_cluster():
    values = np.arange(8.0)[:, None]
    data = scaled(values, np.repeat(np.arange(4), 2), values[:1])
    assert linked(data).tolist() == [0]


def test_what_is_compared_goes_by_the_kind_of_values():
    told = usual(people(30, 1))
    assert set(told) == {
        *(Comparison("name", each) for each in ("edit", "initials", "rare-words")),
        *(Comparison("town", each) for each in ("edit", "initials", "rare-words")),
        *(Comparison("born", each) for each in ("edit", "years")),
        Comparison("*", "rare-words"),
    }
    assert usual([Fragment("a", {}, (1.0,)), Fragment("b", {}, (2.0,))]) == ()
    assert all(each.feature in FEATURES for each in told)


def test_features_are_named_for_attributes():
    items = people(3, 1)
    found = named(["name=initials, last-word", "*=rare-words"], items)
    assert found == (
        Comparison("*", "rare-words"),
        Comparison("name", "initials"),
        Comparison("name", "last-word"),
    )


@pytest.mark.parametrize(
    ("texts", "says"),
    [
        (["name"], "expected ATTRIBUTE=FEATURE"),
        (["=edit"], "expected ATTRIBUTE=FEATURE"),
        (["name=edit,"], "expected ATTRIBUTE=FEATURE"),
        (["nme=edit"], 'no fragment has an attribute "nme"; attributes: born, name, town'),
        (["name=edit", "name=edit"], '"name=edit" is named twice'),
    ],
)
def test_features_that_cannot_be_are_refused(texts, says):
    with pytest.raises(UsageError, match=says):
        named(texts, people(3, 1))


def test_features_that_are_not_there_are_refused():
    with pytest.raises(
        UsageError,
        match=r'there is no feature "edits" \(did you mean "edit"\?\); available: edit,',
    ):
        named(["name=edits"], people(3, 1))

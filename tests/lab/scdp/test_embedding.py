"""Vectors made of distances, and what supervised clustering says of them."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.spatial.distance import cdist

from kbforge.errors import UsageError
from kbforge_lab.scdp.references import UNKNOWN, References, embedding
from kbforge_lab.scdp.run import log_joint
from kbforge_lab.scdp.sampler import SCDP1, SCDP3, ChainState


def distances_of(points: np.ndarray) -> np.ndarray:
    return cdist(points, points)


@given(st.integers(1, 30), st.integers(1, 6), st.integers(0, 10**6))
def test_euclidean_distances_come_out_as_they_are(n, dimensions, seed):
    points = np.random.default_rng(seed).normal(3.0, 5.0, size=(n, dimensions))
    distances = distances_of(points)
    found = embedding(distances, min(n, dimensions))
    np.testing.assert_allclose(distances_of(found), distances, atol=1e-8 * max(1, distances.max()))
    np.testing.assert_allclose(found.mean(axis=0), 0, atol=1e-8)


def test_fewer_dimensions_keep_the_longest_axes():
    rng = np.random.default_rng(1)
    points = principal(rng.normal(size=(40, 3)) * [5.0, 2.0, 0.1])
    found = embedding(distances_of(points), 2)
    np.testing.assert_allclose(np.abs(found), np.abs(points[:, :2]), atol=1e-8)
    assert (found[np.abs(found).argmax(axis=0), [0, 1]] > 0).all()


def test_dimensions_that_the_distances_do_not_span_are_zero():
    found = embedding(distances_of(np.array([[0.0], [3.0], [5.0]])), 3)
    assert (found[:, 1:] == 0).all()
    np.testing.assert_allclose(distances_of(found[:, :1])[0], [0, 3, 5], atol=1e-8)


def test_distances_of_no_euclidean_space_give_the_nearest_that_are():
    # a star: three tips 2 apart from each other, 1 from the middle, which no plane has
    star = np.array([[0.0, 1, 1, 1], [1, 0, 2, 2], [1, 2, 0, 2], [1, 2, 2, 0]])
    found = embedding(star, 4)
    assert np.isfinite(found).all()
    np.testing.assert_allclose(distances_of(found)[1:, 1:], star[1:, 1:], atol=1e-8)
    assert (distances_of(found)[0, 1:] > 1).all()


def principal(points: np.ndarray) -> np.ndarray:
    """Centred, along their principal axes, the longest first."""
    centred = points - points.mean(axis=0)
    return centred @ np.linalg.svd(centred, full_matrices=False)[2].T


def scene(rng: np.random.Generator) -> tuple[References, list[ChainState]]:
    """References along their principal axes, and three states of a chain."""
    values = principal(rng.normal(size=(12, 3)) * [3.0, 2.0, 1.0])
    labels = np.array([0, 0, 0, 1, 1, 1] + [UNKNOWN] * 6)
    states = []
    for clusters, kinds in ((3, 1), (4, 2), (5, 3)):
        publication = np.concatenate([labels[:6], rng.integers(2, clusters, 3), [2, 2, 2]])
        publication[6 : 6 + clusters - 2] = np.arange(2, clusters)
        kind = rng.integers(0, kinds, 12)
        kind[:kinds] = np.arange(kinds)
        means = rng.normal(size=(clusters, 3))
        states.append(ChainState(publication, means, kind, rng.gamma(2.0, size=(kinds, 3))))
    return References(values, labels, np.zeros(12, dtype=np.int64)), states


def turned(state: ChainState, rotation: np.ndarray) -> ChainState:
    return replace(state, means=state.means @ rotation)


@pytest.mark.parametrize("model", [SCDP1, SCDP3])
def test_the_joint_density_of_principal_axes_is_the_same(model):
    data, states = scene(np.random.default_rng(4))
    points = embedding(distances_of(data.values), 3)
    signs = np.diag(np.sign((points * data.values).sum(axis=0)))
    for state in states:
        expected = log_joint(model, data, state)
        found = log_joint(model, replace(data, values=points), turned(state, signs))
        assert found == pytest.approx(expected, abs=1e-7)


def test_only_equal_precisions_do_not_ask_how_the_axes_lie():
    rng = np.random.default_rng(5)
    data, states = scene(rng)
    rotation = np.linalg.qr(rng.normal(size=(3, 3)))[0]
    data = replace(data, values=data.values @ rotation)
    points = embedding(distances_of(data.values), 3)
    back = np.linalg.lstsq(data.values, points, rcond=None)[0]
    for state in states:
        equal = replace(state, types=np.repeat(state.types[:, :1], 3, axis=1))
        for types, same in ((equal.types, True), (state.types, False)):
            before = replace(state, types=types)
            gap = log_joint(SCDP1, replace(data, values=points), turned(before, back))
            gap -= log_joint(SCDP1, data, before)
            assert (abs(gap) < 1e-7) is same


@pytest.mark.parametrize("dimensions", [1, 3, 49, 50])
def test_as_many_axes_as_asked_for_where_all_are_equally_long(dimensions):
    """LAPACK loses some of many equal eigenvalues when it is asked for a few."""
    distances = 1 - np.eye(50)
    found = embedding(distances, dimensions)
    assert found.shape == (50, dimensions)
    np.testing.assert_allclose(np.square(found).sum(axis=0)[:49], 0.5)
    if dimensions > 48:
        np.testing.assert_allclose(distances_of(found), distances, atol=1e-7)


@pytest.mark.parametrize(
    ("distances", "dimensions", "words"),
    [
        (np.zeros((2, 3)), 1, r"a row and a column for each reference, got \(2, 3\)"),
        (np.zeros((0, 0)), 1, "a row and a column"),
        (np.array([[0.0, np.nan], [np.nan, 0.0]]), 1, "references 0 and 1 is not finite"),
        (np.array([[0.0, -1.0], [-1.0, 0.0]]), 1, "references 0 and 1 is negative"),
        (np.array([[0.0, 1.0], [2.0, 0.0]]), 1, "references 0 and 1 is another one"),
        (np.array([[0.0, 1.0], [1.0, 0.5]]), 1, "reference 1 and itself is not 0"),
        (np.zeros((2, 2)), 3, "expected 1 to 2"),
        (np.zeros((2, 2)), 0, "expected 1 to 2"),
    ],
)
def test_what_are_no_distances_is_refused(distances, dimensions, words):
    with pytest.raises(UsageError, match=words):
        embedding(distances, dimensions)

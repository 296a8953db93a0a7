"""Generated documents: what the urn draws is the Dirichlet-multinomial model."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from kbforge.errors import UsageError
from kbforge_lab.suites.document_mixture import DocumentMixture
from kbforge_lab.suites.documents import Documents


def test_the_urn_draws_as_many_different_words_as_the_model_expects() -> None:
    """E of the new draws is c (psi(c + n) - psi(c)), here 100 (log 6 + ...) of 500."""
    mixture = DocumentMixture(concentration=100.0, vocabulary=10**9)
    rng = np.random.default_rng(0)
    different = [len(set(mixture._urn(500, rng).tolist())) for _ in range(60)]
    expected = sum(100.0 / (100.0 + t) for t in range(500))
    assert np.mean(different) == pytest.approx(expected, abs=4 * np.std(different) / 60**0.5)


def test_two_words_of_a_cluster_are_equal_as_often_as_the_model_says() -> None:
    mixture = DocumentMixture(concentration=3.0, vocabulary=20)
    rng = np.random.default_rng(1)
    equal = np.mean([len(set(mixture._urn(2, rng).tolist())) == 1 for _ in range(4000)])
    assert equal == pytest.approx(1 / 4 + 3 / 4 / 20, abs=0.03)


def test_documents_are_of_clusters_and_have_words() -> None:
    mixture = DocumentMixture(documents=200, clusters=5)
    fragments = mixture.fragments(np.random.default_rng(2))
    assert len({f.id for f in fragments}) == 200
    assert set(Counter(f.label for f in fragments)) == {f"cluster-{k}" for k in range(5)}
    lengths = [len(f.properties["words"]) for f in fragments]
    assert min(lengths) >= 5
    assert np.mean(lengths) == pytest.approx(60, abs=3)


def test_more_clusters_than_documents_are_refused() -> None:
    with pytest.raises(UsageError, match="no fewer documents than clusters"):
        Documents(documents=3, clusters=5)

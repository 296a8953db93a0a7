"""The fitted Gaussian prior: its evidence is the likelihood's, its slopes are right, it is best."""

import numpy as np
import pytest

from kbforge.contracts import FloatArray, Fragment
from kbforge.errors import KBForgeError
from kbforge_plugins.likelihoods.gaussian import Gaussian
from tests.scripts import script

fit, GaussianEvidence = script("gaussian_prior").fit, script("gaussian_prior").GaussianEvidence

PRIOR = {"a": (3.0, 12.0), "b": (0.6, 40.0), "mu": (5.0, -2.0), "lam": (0.5, 0.02)}


def drawn(count: int, seed: int) -> list[FloatArray]:
    """Clusters of 1 to 20 points of that prior."""
    rng = np.random.default_rng(seed)
    a, b, mu, lam = (np.array(values) for values in PRIOR.values())
    out = []
    for n in rng.integers(1, 21, size=count):
        variance = b / rng.gamma(a)
        centre = mu + rng.normal(size=2) * np.sqrt(variance / lam)
        out.append(centre + np.sqrt(variance) * rng.normal(size=(n, 2)))
    return out


def log_evidence(options: dict[str, tuple[float, ...]], clusters: list[FloatArray]) -> float:
    sets = [[Fragment(str(i), {}, tuple(x)) for i, x in enumerate(c.tolist())] for c in clusters]
    return float(Gaussian(**options).log_marginal(sets).sum())


def test_the_evidence_is_that_of_the_likelihood_and_nothing_near_or_true_is_better():
    clusters = drawn(300, 1)
    found = fit(clusters)
    assert found.clusters == 300
    assert found.at_edge == ()
    assert found.evidence == pytest.approx(log_evidence(dict(found.options), clusters), rel=1e-10)
    assert found.evidence > log_evidence(PRIOR, clusters)
    for name in PRIOR:
        for d in (0, 1):
            for factor in (0.98, 1.02):
                values = list(found.options[name])
                values[d] *= factor
                other = dict(found.options) | {name: tuple(values)}
                assert log_evidence(other, clusters) < found.evidence


def test_the_prior_that_drew_the_clusters_is_found_again():
    found = fit(drawn(6000, 2))
    for name, wanted in PRIOR.items():
        assert found.options[name] == pytest.approx(wanted, rel=0.12), name


def test_slopes_are_differences():
    rng = np.random.default_rng(3)
    evidence = GaussianEvidence(
        rng.integers(1, 9, size=20).astype(float), rng.normal(size=20), rng.gamma(2.0, size=20)
    )
    for _ in range(20):
        theta = rng.normal(size=4)
        slope = evidence.at(theta)[1]
        for i in range(4):
            step = np.zeros(4)
            step[i] = 1e-5
            up, down = evidence.at(theta + step)[0], evidence.at(theta - step)[0]
            assert slope[i] == pytest.approx((up - down) / 2e-5, rel=1e-5, abs=1e-5)


def test_clusters_of_one_width_drive_the_shape_to_its_edge():
    angles = 2 * np.pi * np.arange(12) / 12
    rim = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    centres = np.random.default_rng(4).normal(size=(50, 2))
    found = fit([centre + rim for centre in centres])
    assert found.at_edge == (0, 1)
    # 6 of 11 degrees of freedom of each cluster
    assert found.b[0] / found.a[0] == pytest.approx(6 / 11, rel=0.01)


def test_clusters_that_say_nothing_are_refused():
    one, two = np.zeros((1, 2)), np.array([[0.0, 1.0], [2.0, 3.0]])
    with pytest.raises(KBForgeError, match="2 clusters of at least 2 points"):
        fit([one, one, two])
    with pytest.raises(KBForgeError, match=r"in dimension 0 .* both must be positive"):
        fit([np.array([[0.0, 1.0], [0.0, 3.0]]), np.array([[1.0, 1.0], [1.0, 3.0]])])

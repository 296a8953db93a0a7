"""Parts of supervised clustering: separation, densities, priors, chains, what is refused."""

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.special import gammaln
from scipy.stats import gamma, norm, t

from kbforge.errors import UsageError
from kbforge.kernel.binding import WORKERS
from kbforge_lab.scdp import run as chain
from kbforge_lab.scdp.gaussian import Apart, MeansOpening, Near, Separation, TypePrior, TypesOpening
from kbforge_lab.scdp.references import UNKNOWN, References, references
from kbforge_lab.scdp.run import (
    hidden_in_turn,
    log_ewens,
    log_joint,
    run,
    run_several,
    scored,
    warmed_up,
)
from kbforge_lab.scdp.sampler import (
    SCDP1,
    SCDP2,
    SCDP3,
    UNTRAINED,
    ChainState,
    GammaPrior,
    Scdp,
    log_symmetric,
    mixture_log_weights,
    start,
    type_prior,
)

RNG = np.random.default_rng(2)
SEPARATIONS = [Near(0.3), Apart(0.8)]


def term(separation: Separation, distance: np.ndarray) -> np.ndarray:
    if isinstance(separation, Near):
        return -separation.rate * distance
    assert isinstance(separation, Apart)
    return np.log(1 - np.exp(-separation.rate * distance))


@pytest.mark.parametrize("separation", SEPARATIONS)
@pytest.mark.parametrize("publications", [1, 2, 5])
def test_separation_is_a_sum_over_pairs_and_types(separation, publications):
    means, types = RNG.normal(size=(publications, 3)), RNG.gamma(1.0, size=(4, 3))
    pairs = [(j, k) for j in range(publications) for k in range(j)]
    brute = np.zeros((4, 3))
    for j, k in pairs:
        brute += term(separation, types * (means[j] - means[k]) ** 2)
    found = separation.of_types(types, means)
    np.testing.assert_allclose(found, brute, atol=1e-12)
    assert (found <= 0).all()
    more = RNG.normal(size=(6, 3))
    both = [
        separation.of_types(types, np.concatenate([means, one[None]])).sum(axis=0) for one in more
    ]
    expected = np.array(both) - brute.sum(axis=0)
    np.testing.assert_allclose(separation.of_means(more, means, types), expected, atol=1e-10)


def test_no_mean_stands_beside_the_first():
    for separation in SEPARATIONS:
        found = separation.of_means(np.ones((2, 3)), np.zeros((0, 3)), np.ones((4, 3)))
        assert found.tolist() == [[0, 0, 0]] * 2


def test_references_fit_to_means_as_the_normal_density_has_it():
    r, types, p = RNG.normal(size=(5, 3)), RNG.gamma(2.0, size=(5, 3)), RNG.normal(size=(4, 3))
    opening = MeansOpening(r, types, types, 1.7, None, 1.0)
    scale = 1 / np.sqrt(types)
    brute = [[norm.logpdf(r[i], m, scale[i]).sum() for m in p] for i in range(5)]
    np.testing.assert_allclose(opening.fit(p), brute)
    marginal = norm.logpdf(r, 0, np.sqrt(1.7 + 1 / types)).sum(axis=1)
    np.testing.assert_allclose(opening.log_marginal, marginal)


def test_references_fit_to_types_as_the_normal_density_has_it():
    residual, types = RNG.normal(size=(5, 3)), RNG.gamma(2.0, size=(4, 3))
    a, b = np.array([0.5, 1.0, 4.0]), np.array([2.0, 1.0, 0.3])
    opening = TypesOpening(residual**2, np.zeros((1, 3)), TypePrior(a, b), None, 1.0)
    brute = [[norm.logpdf(x, 0, 1 / np.sqrt(one)).sum() for one in types] for x in residual]
    np.testing.assert_allclose(opening.fit(types), brute)
    marginal = t.logpdf(residual, 2 * a, scale=np.sqrt(b / a)).sum(axis=1)
    np.testing.assert_allclose(opening.log_marginal, marginal)


def test_model_2_has_the_moments_of_the_squared_distances():
    means = RNG.normal(size=(6, 3))
    prior = type_prior(SCDP2, means)
    squares = np.array([(means[j] - means[k]) ** 2 for j in range(6) for k in range(j)])
    np.testing.assert_allclose(prior.shape / prior.rate, squares.mean(axis=0) / 2)
    np.testing.assert_allclose(prior.shape / prior.rate**2, squares.var(axis=0))
    alone = type_prior(SCDP2, means[:1])
    assert (alone.shape == SCDP2.shape).all()


def test_ewens_probabilities_of_three_sum_to_one():
    sizes = [[3], [2, 1], [2, 1], [2, 1], [1, 1, 1]]
    assert sum(np.exp(log_ewens(np.array(s), 0.7)) for s in sizes) == pytest.approx(1)


def scene() -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Publications far apart in feature 0; feature 1 is noise, which only examples can tell."""
    rng = np.random.default_rng(5)

    def some(centres: list[float]) -> np.ndarray:
        rows = [rng.normal([c, 0], [0.15, 1.0], size=(12, 2)) for c in centres]
        return np.concatenate(rows)

    return (
        some([-1.5, 0.0, 1.5]),
        np.repeat([7, 3, 9], 12),
        some([-0.8, 0.8]),
        np.repeat([0, 1], 12),
    )


def with_examples() -> References:
    train, labels, test, _ = scene()
    return references(train, labels, test)


def check_recovery(groupings: np.ndarray, gold: np.ndarray) -> None:
    """References of one publication are together, those of two are apart."""
    same = (groupings[:, :, None] == groupings[:, None, :]).mean(axis=0)
    right = gold[:, None] == gold
    assert same[right].mean() > 0.8
    assert same[~right].mean() < 0.05


@pytest.mark.parametrize("model", [SCDP1, SCDP2, Scdp(separation=Near(0.05)), Scdp(power=0.7)])
@pytest.mark.parametrize("first", ["together", "alone"])
def test_examples_teach_which_feature_matters(model, first):
    data = with_examples()
    grouping = np.zeros(24, dtype=np.int64) if first == "together" else np.arange(24)
    _, trace = run(model, data, start(data, grouping), 200, 20, np.random.default_rng(1))
    check_recovery(trace.groupings, scene()[3])


@pytest.mark.parametrize("kept", [1, 2, 5])
def test_the_last_sweep_is_remembered(kept):
    data = with_examples()
    first = start(data, np.zeros(24, dtype=np.int64))
    state, trace = run(SCDP1, data, first, 10, kept, np.random.default_rng(1))
    assert trace.groupings.shape == (kept, 24)
    assert (trace.groupings[-1] == state.publication[data.test]).all()


@pytest.mark.parametrize("shared", [True, False])
def test_labelled_publications_are_joined_if_they_are_shared(shared):
    train, labels, _, _ = scene()
    data = references(train, labels, train + 0.01)
    model = Scdp(shared=shared)
    grouping = np.zeros(len(train), dtype=np.int64)
    state, trace = run(model, data, start(data, grouping), 100, 10, np.random.default_rng(1))
    joined = trace.groupings < data.labelled
    assert joined.mean() > 0.9 if shared else not joined.any()
    assert np.isfinite(log_joint(model, data, state))
    labelled = data.publication != UNKNOWN
    assert (state.publication[labelled] == data.publication[labelled]).all()


def test_untrained_keeps_its_type_and_its_concentration():
    _, _, test, _ = scene()
    data = references(np.zeros((0, 2)), np.zeros(0, dtype=np.int64), test)
    state, _ = run(UNTRAINED, data, start(data, np.arange(24)), 20, 2, np.random.default_rng(1))
    assert (state.types == 1).all()
    assert (state.alpha_p, len(state.types)) == (1.0, 1)


def test_labels_of_different_groups_are_different_publications():
    values, groups = np.zeros((4, 2)), np.array([5, 5, 2, 2])
    data = references(values, np.array([1, 2, 1, 1]), np.ones((3, 2)), groups)
    assert data.publication.tolist() == [1, 2, 0, 0, UNKNOWN, UNKNOWN, UNKNOWN]
    assert data.group.tolist() == [1, 1, 0, 0, 2, 2, 2]
    _, trace = run(SCDP3, data, start(data, np.zeros(3, dtype=np.int64)), 6, 2, RNG)
    assert (trace.groupings >= 3).all()


def test_the_same_seed_gives_the_same_chain():
    data = with_examples()
    first = start(data, np.zeros(24, dtype=np.int64))
    one, other = (run(SCDP3, data, first, 20, 5, np.random.default_rng(9))[1] for _ in range(2))
    assert (one.groupings == other.groupings).all()
    assert (one.log_joint == other.log_joint).all()


def test_chains_side_by_side_are_those_in_turns(monkeypatch):
    data = with_examples()
    starts = [start(data, np.zeros(24, dtype=np.int64)), start(data, np.arange(24))] * 2
    streams = np.random.SeedSequence(3).spawn(4)
    alone = [
        run(SCDP1, data, first, 12, 4, np.random.default_rng(stream))
        for first, stream in zip(starts, streams, strict=True)
    ]
    for workers in ("1", "2"):
        monkeypatch.setenv(WORKERS, workers)
        beside = run_several(SCDP1, data, starts, 12, 4, 3)
        for (one, trace), (other, traced) in zip(alone, beside, strict=True):
            assert (one.publication == other.publication).all()
            assert (trace.log_joint == traced.log_joint).all()
    joints = [trace.log_joint for _, trace in alone]
    assert len({*joints[0], *joints[2]}) == 8  # equal starts, but other draws


@pytest.mark.parametrize(
    ("train", "labels", "test", "words"),
    [
        (np.zeros((2, 3)), [0, 1], np.zeros((2, 2)), "the same features"),
        (np.zeros((2, 3)), [0], np.zeros((2, 3)), "2 rows, 1 labels"),
        (np.zeros((2, 3)), [0, 1], np.zeros((0, 3)), "there are none"),
        (np.full((2, 3), np.nan), [0, 1], np.zeros((1, 3)), "not finite"),
    ],
)
def test_what_cannot_be_grouped_is_refused(train, labels, test, words):
    with pytest.raises(UsageError, match=words):
        references(train, np.array(labels), test)


# Warm-ups of a chain, and the choice of a model by hidden labelled publications.


LABELS = np.repeat([4, 7, 2, 9], [3, 4, 5, 6])
TRAIN = np.stack([LABELS, np.arange(18)], axis=1).astype(np.float64)


def test_each_publication_is_hidden_as_often_as_the_others():
    times = dict.fromkeys([2, 4, 7, 9], 0)
    for data, gold in hidden_in_turn(TRAIN, LABELS, 3):
        for label in np.unique(gold):
            times[int(label)] += 1
        np.testing.assert_array_equal(data.values[data.test][:, 0], gold)
        assert not np.isin(data.values[data.publication != UNKNOWN][:, 0], gold).any()
        assert len(data.values) == 18
        assert data.labelled == 1
    assert times == {2: 3, 4: 3, 7: 3, 9: 3}


def test_the_model_that_finds_hidden_publications_scores_best():
    models = [Scdp(power=0.5), Scdp(power=1.0)]

    def trial(model: Scdp, data: References) -> np.ndarray:
        right = data.values[data.test][:, 0].astype(np.int64)
        wrong = np.zeros_like(right)
        return np.stack([right if model.power == 1 else wrong, wrong])

    def equal(grouping: np.ndarray, gold: np.ndarray) -> float:
        return float(np.array_equal(grouping, gold))

    assert scored(models, TRAIN, LABELS, 2, trial, equal).tolist() == [0.0, 0.5]


def clusters() -> References:
    rng = np.random.default_rng(3)
    values = rng.normal([[-1.5, 0]] * 9 + [[0, 0]] * 9 + [[1.5, 0]] * 9, [0.1, 1.0])
    return references(values, np.repeat([0, 1, 2], 9), values + np.array([0.75, 0.0]))


def test_a_warm_up_ends_at_the_models_own_power(monkeypatch):
    powers: list[float] = []

    def recorded(
        model: Scdp, data: References, state: ChainState, rng: np.random.Generator
    ) -> ChainState:
        powers.append(model.power)
        return state

    monkeypatch.setattr(chain, "sweep", recorded)
    data = clusters()
    first = start(data, np.zeros(27, dtype=np.int64))
    model = Scdp(power=0.6)
    assert warmed_up(model, data, first, 12, np.random.default_rng(0)) is first
    assert powers == sorted(powers)
    assert len(powers) == 12
    assert powers[0] < 0.02
    assert powers[-1] == pytest.approx(0.6)


@pytest.mark.parametrize("first", ["together", "apart"])
def test_a_warm_up_forgets_the_start(first):
    data, rng = clusters(), np.random.default_rng(1)
    grouping = np.zeros(27, dtype=np.int64) if first == "together" else np.arange(27)
    state = warmed_up(SCDP1, data, start(data, grouping), 30, rng)
    _, trace = run(SCDP1, data, state, 60, 10, rng)
    check_recovery(trace.groupings, np.repeat([0, 1, 2], 9))


# A concentration is drawn from its posterior, whatever the number of groups.


GROUPS = {
    "one": ([30], [7]),
    "three": ([12, 5, 40], [3, 5, 4]),
    "single references": ([1, 1, 1, 1], [1, 1, 1, 1]),
    "thirty": ([3 + i % 7 for i in range(30)], [1 + i % 3 for i in range(30)]),
}


@given(st.lists(st.integers(1, 50), min_size=1, max_size=7))
def test_symmetric_polynomials_are_sums_over_subsets(sizes):
    brute = [
        sum(float(np.prod(chosen)) for chosen in combinations(sizes, k))
        for k in range(len(sizes) + 1)
    ]
    np.testing.assert_allclose(np.exp(log_symmetric(np.log(sizes))), brute, rtol=1e-9)


@pytest.mark.parametrize("name", GROUPS)
def test_the_mixture_is_the_density_given_the_auxiliary_variables(name):
    sizes, clusters = map(np.array, GROUPS[name])
    a, rate = 1.7, 2.9
    shapes = a - len(sizes) + clusters.sum() + np.arange(len(sizes) + 1)
    weights = np.exp(mixture_log_weights(shapes, rate, sizes) - 50)
    alpha = np.linspace(0.05, 30, 40)
    mixture = (weights * gamma.pdf(alpha[:, None], shapes, scale=1 / rate)).sum(axis=1)
    exact = (a - len(sizes) - 1 + clusters.sum()) * np.log(alpha) - rate * alpha
    exact += np.log(alpha[:, None] + sizes).sum(axis=1)
    difference = np.log(mixture) - exact
    np.testing.assert_allclose(difference, difference[0], atol=1e-8)


@pytest.mark.parametrize("name", GROUPS)
def test_a_chain_has_the_moments_of_the_posterior(name):
    sizes, clusters = map(np.array, GROUPS[name])
    prior, rng = GammaPrior(1.5, 0.8), np.random.default_rng(4)

    def density(alpha: float) -> float:
        ewens = clusters * np.log(alpha) + gammaln(alpha) - gammaln(alpha + sizes)
        return float(np.exp(0.5 * np.log(alpha) - 0.8 * alpha + ewens.sum() - shift))

    shift = 0.0
    grid = np.linspace(0.01, 60, 4000)
    shift = float(np.log(max(map(density, grid))))
    moments = [quad(lambda x, k=k: x**k * density(x), 0, 200, limit=400)[0] for k in range(3)]
    mean, square = moments[1] / moments[0], moments[2] / moments[0]
    draws = np.empty(12_000)
    alpha = 1.0
    for i in range(len(draws)):
        draws[i] = alpha = prior.resample(alpha, sizes, clusters, rng)
    for found, expected in ((draws, mean), (draws**2, square)):
        batches = found.reshape(60, -1).mean(axis=1)
        error = batches.std(ddof=1) / np.sqrt(len(batches))
        assert abs(found.mean() - expected) < 4.5 * error

"""Gibbs and Metropolis against enumeration: kernels exactly, long runs statistically."""

import math
from collections import Counter
from collections.abc import Callable, Iterator

import numpy as np
import pytest
from scipy import stats

from kbforge.contracts import ConjugateLikelihood, Fragment, ModelSpec
from kbforge_lab.batch.chain import TransitionKernel
from kbforge_lab.batch.grouping import NEW
from kbforge_lab.batch.grouping import Grouping as State
from kbforge_lab.clusterers.offline import Gibbs, Metropolis
from kbforge_lab.likelihoods.discrete import BetaBernoulli, DirichletMultinomial
from kbforge_lm.likelihoods.ngram import Bigram
from kbforge_plugins.likelihoods.attributes.likelihood import Attributes
from kbforge_plugins.likelihoods.gaussian import Gaussian
from tests.clustering.exact import Grouping, partitions
from tests.clustering.test_exactness import exact_posterior
from tests.clustering.toys import Chain as ChainLikelihood
from tests.clustering.toys import fragments_of, normal
from tests.lab.clustering.chains import bring, chain_of, groups, total_variation
from tests.lab.families import FAMILIES

# a family's surrogate: another model of the same data, off by enough to be rejected now and then
SURROGATES: dict[str, Callable[[], ConjugateLikelihood] | None] = {
    "gaussian": lambda: Gaussian(a=2.5, b=1.0, lam=0.0005),
    "dirichlet-multinomial": lambda: DirichletMultinomial(concentration=2.0, reads="vector"),
    "beta-bernoulli": lambda: BetaBernoulli(a=0.2, reads="vector"),
    "bigram": lambda: Bigram(scale=2.0),
    "black box": lambda: ChainLikelihood(normal(1.3, 5.0)),
    "attributes": lambda: Attributes(attributes=("name",)),
    "ties": None,  # the prior proposes
}
SAMPLERS = {"gibbs": Gibbs.make_kernel, "metropolis": Metropolis.make_kernel}
CASES = [(name, family) for name in SAMPLERS for family in FAMILIES]
# problems with a few groupings of some weight, so that short runs can be told from wrong ones
SEEDS = {
    "gaussian": 4,
    "dirichlet-multinomial": 4,
    "beta-bernoulli": 9,
    "bigram": 11,
    "attributes": 12,
    "black box": 3,
    "ties": 6,
}
ALPHA = {"gaussian": 0.05, "bigram": 20.0, "attributes": 5.0, "ties": 0.3}
SWEEPS, BURN_IN, THINNING = {"gibbs": 3500, "metropolis": 5000}, 20, 4


def problem_of(family: str, seed: int, n: int) -> tuple[list[Fragment], ModelSpec]:
    make_fragments, make_likelihood = FAMILIES[family]
    fragments = make_fragments(np.random.default_rng(seed), n)
    likelihood = make_likelihood(fragments)
    make_surrogate = SURROGATES[family]
    surrogate = make_surrogate() if make_surrogate else None
    if surrogate is not None:
        surrogate.fit(fragments)
    return fragments, ModelSpec(likelihood, ALPHA.get(family, 1.0), surrogate)


@pytest.mark.parametrize(("sampler", "family"), CASES)
def test_every_move_leaves_the_posterior_as_it_is(sampler, family):
    """Detailed balance, for every fragment and every pair of groupings of four.

    The probability of a move is measured: which share of the unit square of random numbers makes
    it. For Gibbs that is a share of the first number; for Metropolis, of the second given the
    first.
    """
    fragments, spec = problem_of(family, SEEDS[family], 4)
    exact = {
        z: math.exp(w) for z, w in exact_posterior(fragments, spec.likelihood, spec.alpha).items()
    }
    chain, kernel = chain_of(SAMPLERS[sampler], fragments, spec)
    moves = 0
    for fragment in range(4):
        flow: dict[tuple[Grouping, Grouping], float] = {}
        for grouping in partitions(range(4)):
            bring(chain, grouping)
            assert groups(chain.grouping) == grouping
            for place, share in shares(kernel, chain.grouping, fragment):
                step = grouping, moved(chain.grouping, fragment, place)
                flow[step] = flow.get(step, 0.0) + exact[grouping] * share
        for (before, after), rate in flow.items():
            assert rate == pytest.approx(flow.get((after, before), 0.0), rel=1e-5, abs=1e-7)
            moves += before != after and rate > 1e-6
        assert sum(flow.values()) == pytest.approx(1, abs=1e-6)
    assert moves > 20


def moved(state: State, fragment: int, place: int) -> Grouping:
    """The grouping with a fragment in another place."""
    clusters = {slot: {*state.members[slot]} - {fragment} for slot in state.slots()}
    clusters.setdefault(place, set()).add(fragment)
    return frozenset(tuple(sorted(cluster)) for cluster in clusters.values() if cluster)


def shares(kernel: TransitionKernel, state: State, fragment: int) -> Iterator[tuple[int, float]]:
    """The places x may go to, each with its probability, found by bisection."""

    def place(u: float, v: float) -> int:
        move = kernel.place(state, fragment, (u, v))
        here = state.slot_of[fragment]
        stay = here if len(state.members[here]) > 1 else NEW
        return move.place if move.fragments else stay

    # where the proposal (v = 0 accepts it whatever it is worth) changes along u
    start = 0.0
    while start < 1:
        proposed = place(start, 0.0)
        end = bisect(lambda u: place(u, 0.0) == proposed, start)  # noqa: B023
        u = (start + end) / 2
        accepted = bisect(lambda v: place(u, v) == proposed, 0.0)  # noqa: B023
        yield proposed, (end - start) * accepted
        if accepted < 1:
            yield place(u, 1 - 1e-12), (end - start) * (1 - accepted)
        start = end


def bisect(holds: Callable[[float], bool], low: float) -> float:
    """Where a condition that holds at `low` stops to, up to 1."""
    high = 1.0
    if holds(high - 1e-12):
        return 1.0
    for _ in range(28):
        middle = (low + high) / 2
        low, high = (middle, high) if holds(middle) else (low, middle)
    return high


@pytest.mark.slow
@pytest.mark.parametrize(("sampler", "family"), CASES)
def test_long_runs_have_the_exact_distribution(sampler, family):
    """Total variation .02 over the states after every move; chi-square over thinned sweeps."""
    fragments, spec = problem_of(family, SEEDS[family], 4)
    exact = exact_posterior(fragments, spec.likelihood, spec.alpha)
    chain, _ = chain_of(SAMPLERS[sampler], fragments, spec)
    states: Counter[Grouping] = Counter()
    thinned: Counter[Grouping] = Counter()
    for sweep in range(SWEEPS[sampler]):
        for _ in chain.sweep():
            states[groups(chain.grouping)] += sweep >= BURN_IN
        if sweep >= BURN_IN and sweep % THINNING == 0:
            thinned[groups(chain.grouping)] += 1
    assert total_variation(states, exact) < 0.02
    assert chi_square_p(thinned, exact) > 1e-3


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_even_odds_are_seen_once_a_sweep(sampler):
    """What is recorded is the state after each sweep, in which a pair may have moved twice.

    A sampler that takes every chance to move would show a pair as likely together as apart in one
    and the same state for ever; here are two, far from each other, and the surrogate is the model.
    """
    even = 1.0  # two points are so far apart that alpha p(x, y) / (p(x) p(y)) is 1
    points = [(0.0,), (even,), (1e3,), (1e3 + even,)]
    fragments = fragments_of(points)
    model = ChainLikelihood(normal(1.0, 1e6))
    pair, one, other = model.log_marginal([fragments[:2], fragments[:1], fragments[1:2]])
    spec = ModelSpec(model, math.exp(pair - one - other), model)
    exact = exact_posterior(fragments, model, spec.alpha)
    assert sorted(exact.values())[-4] == pytest.approx(math.log(0.25), abs=0.02)
    chain, _ = chain_of(SAMPLERS[sampler], fragments, spec)
    states: Counter[Grouping] = Counter()
    for _ in range(SWEEPS[sampler]):
        for _ in chain.sweep():
            pass
        states[groups(chain.grouping)] += 1
    assert total_variation(states, exact) < 0.03


def chi_square_p(observed: Counter[Grouping], exact: dict[Grouping, float]) -> float:
    """Groupings expected fewer than five times are one cell."""
    total = observed.total()
    expected = {z: total * math.exp(w) for z, w in exact.items()}
    common = [z for z, count in expected.items() if count >= 5]
    cells = [(observed[z], expected[z]) for z in common]
    cells.append((total - sum(o for o, _ in cells), total - sum(e for _, e in cells)))
    if cells[-1][1] < 1e-9 * total:
        cells.pop()
    statistic = sum((o - e) ** 2 / e for o, e in cells)
    return float(stats.chi2.sf(statistic, len(cells) - 1))


def test_the_statistics_would_notice_a_wrong_alpha():
    """A sampler of another posterior, half as far from this one as a factor of two in alpha."""
    fragments, spec = problem_of("ties", SEEDS["ties"], 4)
    exact = exact_posterior(fragments, spec.likelihood, spec.alpha)
    wrong = exact_posterior(fragments, spec.likelihood, 1.4 * spec.alpha)
    assert 0.5 * sum(abs(math.exp(wrong[z]) - math.exp(w)) for z, w in exact.items()) > 0.02
    sample = Counter({z: round(SWEEPS["gibbs"] / THINNING * math.exp(w)) for z, w in wrong.items()})
    assert chi_square_p(sample, exact) < 1e-3

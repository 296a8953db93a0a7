"""FastEx against the posterior by enumeration, and step by step."""

import math
from collections import Counter
from collections.abc import Iterator
from itertools import product

import numpy as np
import pytest

from kbforge.contracts import Fragment
from kbforge_lab.batch.chain import ChainRules
from kbforge_lab.batch.run import Watch
from kbforge_lab.fastex import reference
from kbforge_lab.fastex.families import Mixture
from kbforge_lab.fastex.proposals import ELSEWHERE, Purpose, log_weight, stream
from kbforge_lab.fastex.reference import NEW, OPEN, Draft, Sampler, Try
from kbforge_lab.fastex.run import UncollapsedRun, family_of, sampler_of
from tests.clustering.exact import Grouping, partitions
from tests.lab.fastex.problems import FAMILIES, PRIORS, directions, exact, groups, spec

# temperature, tries, blocks: as published, and with several tries
SETTINGS = [(1.0, 1, 2), (0.25, 3, 1)]
SWEEPS = 60_000


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("prior", PRIORS)
@pytest.mark.parametrize(("temperature", "tries", "blocks"), SETTINGS)
def test_long_runs_have_the_exact_distribution(family, prior, temperature, tries, blocks):
    """Total variation below .02, over the groupings of five fragments after every block."""
    fragments, likelihood, model = spec(family, 5)
    expected = exact(fragments, likelihood, PRIORS[prior])
    assert 0.05 < max(expected.values()) < 0.6
    sampler = sampler_of(model, PRIORS[prior], 0.05, tries)
    sampler.temperature = temperature
    rng = np.random.default_rng(1)
    first = directions(model)
    sampler.redirect(first)
    sampler.place(range(5), stream(7, 0))
    seen: Counter[bytes] = Counter()
    for sweep in range(1, SWEEPS + 1):
        if sweep % 4 == 0:
            sampler.redirect(first.permuted(rng))
        for block in np.array_split(rng.permutation(5), blocks):
            sampler.exclude(block)
            sampler.block(block, stream(7, sweep))
            seen[sampler.slot_of.tobytes()] += 1
    found: Counter[Grouping] = Counter()
    for slots, times in seen.items():
        found[groups(np.frombuffer(slots, dtype=np.int64).tolist())] += times
    assert set(found) <= set(expected)
    distance = sum(abs(found[z] / found.total() - p) for z, p in expected.items()) / 2
    assert distance < 0.02


def test_the_statistics_would_notice_a_wrong_alpha():
    fragments, likelihood, _ = spec("gaussian", 5)
    right, wrong = (exact(fragments, likelihood, Mixture(alpha)) for alpha in (1.5, 1.2))
    assert sum(abs(right[z] - wrong[z]) for z in right) / 2 > 0.02


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("prior", PRIORS)
@pytest.mark.parametrize(("temperature", "tries"), [(1.0, 1), (0.25, 1), (1.0, 2), (0.25, 3)])
def test_every_step_is_in_detailed_balance(monkeypatch, family, prior, temperature, tries):
    """The transition matrix of one step: flows between any two groupings are equal both ways.

    A block of two of four fragments, of which one has its turn; q knows the clusters of the others.
    All that may be tried is tried, and with several tries each one's being taken.
    """
    fragments, likelihood, model = spec(family, 4)
    expected = exact(fragments, likelihood, PRIORS[prior])
    numbers = {Purpose.TRY + 2 * j: 0.5 for j in range(tries)} | {Purpose.CHOICE: 0.0}
    monkeypatch.setattr(reference, "uniform", lambda _, fragment, purpose: numbers[purpose])
    moves = 0
    for x, other in ((0, 1), (2, 0)):
        flow: Counter[tuple[Grouping, Grouping]] = Counter()
        for before, p in expected.items():
            sampler = sampler_in(before, family, PRIORS[prior], temperature, tries)
            sampler.exclude(np.array([x, other]))
            for after, share in transitions(sampler, x, numbers, model.n):
                flow[before, after] += p * share
        assert flow.total() == pytest.approx(1, abs=1e-9)
        for (before, after), rate in flow.items():
            assert rate == pytest.approx(flow[after, before], rel=1e-8, abs=1e-15)
            moves += before != after and rate > 1e-6
    assert moves > 20


def sampler_in(
    grouping: Grouping, family: str, prior: Mixture, temperature: float, tries: int
) -> Sampler:
    _, _, model = spec(family, 4)
    sampler = Sampler(model, prior, 0.05, tries)
    sampler.temperature = temperature
    sampler.redirect(directions(model))
    labels = np.zeros(model.n, dtype=np.int64)
    for slot, cluster in enumerate(sorted(grouping)):
        labels[list(cluster)] = slot
    sampler.begin(labels)
    return sampler


def transitions(
    sampler: Sampler, x: int, numbers: dict[int, float], n: int
) -> Iterator[tuple[Grouping, float]]:
    """Where a fragment may go, and with which probability: all that may be proposed in turn."""
    before = sampler.slot_of.tolist()
    own = sampler._propose(x, 0)  # for log q of its own place; the tries are replaced
    for share, draft in proposals(sampler, x, numbers, own, n):
        place, log_ratio, _ = sampler._considered(x, draft, 0)
        accepted = share * math.exp(min(log_ratio, 0.0))
        after = list(before)
        after[x] = n + 1 if place == NEW else place
        yield groups(after), accepted
        yield groups(before), share - accepted


def proposals(
    sampler: Sampler, x: int, numbers: dict[int, float], own: Draft, n: int
) -> Iterator[tuple[float, Draft]]:
    """Every draft with its probability; random numbers for the rest are in `numbers` then."""
    prior = sampler._prior
    numbers[Purpose.EXPLORE] = 0.0
    everything = n - 1 + prior.alpha
    for other in range(n - 1):
        numbers[Purpose.PICK] = (other + 0.5) / everything
        yield reference.EXPLORE / everything, own
    numbers[Purpose.PICK] = (n - 1 + 0.5 * prior.alpha) / everything
    components = prior.components or 1
    for component in range(components):
        numbers[Purpose.COMPONENT] = (component + 0.5) / components
        yield reference.EXPLORE * prior.alpha / everything / components, own
    numbers[Purpose.EXPLORE] = 0.5
    every = list(single_tries(sampler, x))
    for several in product(every, repeat=sampler._tries):
        share, log_w = 1 - reference.EXPLORE, []
        for j, (_, opened, u) in enumerate(several):
            numbers[Purpose.TRY + 2 * j + 1] = u
            share *= ELSEWHERE if opened.log_q == math.inf else math.exp(opened.log_q)
            log_w.append(sampler._log_pi(x, opened.slot) - opened.log_q)
        weights = np.exp(np.array(log_w) - max(max(log_w), -1e300))
        taken = weights / weights.sum() if weights.sum() else np.eye(len(weights))[0]
        for j, part in enumerate(taken.tolist()):
            numbers[Purpose.CHOICE] = float(taken[:j].sum()) + 0.5 * part
            if part:
                yield share * part, own._replace(tries=tuple(draft for draft, _, _ in several))


def single_tries(sampler: Sampler, x: int) -> Iterator[tuple[Try, Try, float]]:
    """What one try may be: as it is drafted, what it becomes, and the number that makes it so."""
    hashed = sampler._hashed
    weights = hashed.weights(sampler._log_bound(x, hashed), sampler.temperature)
    for slot, weight in zip(hashed.slots.tolist(), weights.tolist(), strict=True):
        known = Try(slot, log_weight(weight, int(weights.sum())))
        yield known, known, 0.5
    open_places = sampler._elsewhere(int(sampler.slot_of[x]))
    total, reached = sum(map(math.exp, open_places.values())), 0.0
    for slot, log_q in open_places.items():
        yield OPEN, Try(slot, log_q), (reached + 0.5 * math.exp(log_q)) / total
        reached += math.exp(log_q)
    if not open_places:
        yield OPEN, Try(sampler._here(x), math.inf), 0.5


def test_partitions_of_the_mixture_sum_to_one():
    """The prior of `exact` is the one of the paper: K components of a Dirichlet."""
    prior = Mixture(2.0, 3)
    total = 0.0
    for z in partitions(range(4)):
        if len(z) <= 3:
            sizes = np.array([len(c) for c in z])
            log_p = prior.log_clusters(sizes).sum() + prior.log_choices(len(z))
            total += math.exp(log_p - math.lgamma(4 + 2.0) + math.lgamma(2.0))
    assert total == pytest.approx(1.0)


@pytest.mark.parametrize("family", FAMILIES)
def test_the_rival_has_the_exact_distribution(family):
    """Total variation below .02, over the groupings of four fragments after every sweep."""
    make, model_of = FAMILIES[family]
    fragments = [Fragment(f.id, dict(list(f.properties.items())[:1]), f.vector) for f in make(4)]
    likelihood, prior = model_of(fragments), PRIORS["mixture"]
    expected = exact(fragments, likelihood, prior)
    ends = ChainRules(None, 1, None, 10)
    model = family_of(likelihood, fragments, "secant")
    run = UncollapsedRun(model, prior, ends, [(0, 1, 2, 3)], np.random.default_rng(2))
    watch = Watch(None, None)
    run.begin(watch)
    found: Counter[Grouping] = Counter()
    for _ in range(8_000):
        run.sweep(watch)
        found[groups(run.slots().tolist())] += 1
    distance = sum(abs(found[z] / found.total() - p) for z, p in expected.items()) / 2
    assert distance < 0.02

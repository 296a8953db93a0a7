"""The compiled sampler makes the moves of the one in NumPy, on any number of threads."""

from __future__ import annotations

import numpy as np
import pytest

from kbforge.kernel.library import kernel_library
from kbforge_lab.fastex.compiled import CompiledSampler
from kbforge_lab.fastex.counts import Taylor
from kbforge_lab.fastex.draws import stream
from kbforge_lab.fastex.mixture import Mixture
from kbforge_lab.fastex.reference import Sampler
from tests.lab.fastex.problems import FAMILIES, directions, problem

KERNEL = kernel_library()
needs_kernel = pytest.mark.skipif(KERNEL is None, reason="there is no kernel")


@needs_kernel
@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("components", [None, 6])
@pytest.mark.parametrize(("tries", "taylor", "bits"), [(1, "secant", 100), (3, "tangent", 32)])
def test_the_same_moves(
    family: str, components: int | None, tries: int, taylor: Taylor, bits: int
) -> None:
    _, _, model = problem(family, 50, taylor)
    _, _, of_kernel = problem(family, 50, taylor)
    prior = Mixture(2.0, components)
    one = Sampler(model, prior, 0.05, tries)
    assert KERNEL is not None
    other = CompiledSampler(KERNEL, of_kernel, prior, 0.05, tries, workers=2)
    rng, first = np.random.default_rng(3), directions(model, bits)
    for sampler in (one, other):
        sampler.redirect(first)
        assert sampler.place(range(50), stream(1, 0)) < 0
    for sweep in range(1, 7):
        order, hashed = rng.permutation(50), first.permuted(rng)
        for sampler in (one, other):
            sampler.redirect(hashed)
            sampler.temperature = 2.0**-sweep
        for block in np.array_split(order, 3):
            for sampler in (one, other):
                sampler.exclude(block)
            assert one.fit(block) == pytest.approx(other.fit(block), abs=1e-9)
            gains = [sampler.block(block, stream(1, sweep)) for sampler in (one, other)]
            assert gains[0] == pytest.approx(gains[1], abs=1e-8)
            assert one.slot_of.tolist() == other.slot_of.tolist()
    assert (one.moved, one.proposed) == (other.moved, other.proposed)
    assert one.moved > 5


@needs_kernel
def test_the_number_of_threads_changes_nothing() -> None:
    found = []
    for workers in (1, 2, 5):
        _, _, model = problem("dirichlet-multinomial", 300)
        assert KERNEL is not None
        sampler = CompiledSampler(KERNEL, model, Mixture(3.0), 0.05, 2, workers)
        sampler.redirect(directions(model, 64))
        gain = sampler.place(range(300), stream(2, 0))
        for sweep in range(1, 6):
            sampler.temperature = 0.1
            for block in np.array_split(np.random.default_rng(sweep).permutation(300), 2):
                sampler.exclude(block)
                gain += sampler.block(block, stream(2, sweep))
        found.append((gain, sampler.slot_of.tolist(), sampler.moved))
    assert found[0] == found[1] == found[2]
    assert found[0][2] > 50


@pytest.mark.parametrize("family", FAMILIES)
def test_gains_add_up_to_the_log_posterior(family: str) -> None:
    _, likelihood, model = problem(family, 40)
    fragments = problem(family, 40)[0]
    prior = Mixture(2.0, 7)
    sampler = Sampler(model, prior, None, 2)
    sampler.redirect(directions(model))
    sampler.temperature = 0.2
    gained = sampler.place(range(40), stream(5, 0))
    for sweep in range(1, 5):
        order = np.random.default_rng(sweep).permutation(40)
        sampler.exclude(order)
        gained += sampler.block(order, stream(5, sweep))
    slots = sampler.slot_of
    clusters = [tuple(np.flatnonzero(slots == s).tolist()) for s in np.unique(slots)]
    expected = likelihood.log_marginal([[fragments[i] for i in c] for c in clusters])
    assert model.log_marginal(clusters) == pytest.approx(expected, abs=1e-6)
    # in points that are standardised, which changes each by the same
    alone = likelihood.log_marginal([[fragment] for fragment in fragments])
    shift = float((alone - model.alone).sum())
    log_prior = float(prior.log_clusters(np.array([len(c) for c in clusters])).sum())
    log_prior += prior.log_choices(len(clusters))
    assert gained + shift == pytest.approx(float(expected.sum()) + log_prior, abs=1e-6)


@pytest.mark.parametrize("family", FAMILIES)
def test_predictives_are_those_of_the_likelihood(family: str) -> None:
    fragments, likelihood, model = problem(family, 12)
    alone = likelihood.log_marginal([[fragment] for fragment in fragments])
    shift = alone - model.alone
    for fragment in range(6):
        model.add(fragment, 3)
    whole, x, less = likelihood.log_marginal([fragments[:6], fragments[:7], fragments[1:6]])
    assert model.log_predictive(6, 3, held=False) + shift[6] == pytest.approx(x - whole, abs=1e-8)
    assert model.log_predictive(0, 3, held=True) + shift[0] == pytest.approx(whole - less, abs=1e-8)
    model.remove(0, 3)
    model.add(0, 3)
    assert model.log_predictive(6, 3, held=False) + shift[6] == pytest.approx(x - whole, abs=1e-8)

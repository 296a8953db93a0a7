"""Against the posterior by enumeration."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kbforge import registry
from kbforge.contracts import Clusterer, Fragment, Likelihood, ModelSpec, Posterior
from kbforge.testing import UniformLikelihood
from kbforge.texts.statements import StatedValues
from kbforge_plugins.clusterers.sequential import GreedyClusterer, Smc, SplitSmc
from kbforge_plugins.likelihoods.attributes.fitting import FittedAttributes, vocabularies_of
from kbforge_plugins.likelihoods.attributes.likelihood import Attributes
from kbforge_plugins.likelihoods.attributes.urn import AttributeRates
from kbforge_plugins.likelihoods.gaussian import Gaussian
from tests.clustering.exact import Grouping, log_sum_exp, partitions
from tests.clustering.toys import BlackBox, Chain, categories, normal
from tests.installed import BIGRAM
from tests.profile import examples

BELL_5, BELL_7 = 52, 877


def vectors(rng: np.random.Generator, n: int) -> list[Fragment]:
    points = rng.normal(scale=3, size=(n, 2)).round(2)
    return [Fragment(f"f{i}", {}, tuple(p.tolist())) for i, p in enumerate(points)]


def counts(rng: np.random.Generator, n: int) -> list[Fragment]:
    rows = rng.integers(0, 3, size=(n, 4)).astype(float)
    return [Fragment(f"f{i}", {}, tuple(r.tolist())) for i, r in enumerate(rows)]


def names(rng: np.random.Generator, n: int) -> list[Fragment]:
    stems = ["curry", "curry county", "kury", "gold beach", "roosevelt", ""]
    chosen = rng.choice(stems, size=n)
    return [
        Fragment(f"f{i}", {"name": (str(s),)} if s else {"type": ("x",)})
        for i, s in enumerate(chosen)
    ]


def records(rng: np.random.Generator, n: int) -> list[Fragment]:
    """Attributes missing and repeated, values with a slip of the pen, sets of values."""
    choices = {
        "name": [("ann lee",), ("anne lee",), ("a lee",), ("bo ek",)],
        "born": [("1901-02-03",), ("1901-02-04",), ("1930-07-09",)],
        "known as": [("nan",), ("nan", "annie"), ("the wren",)],
    }
    return [
        Fragment(
            f"f{i}",
            {
                attribute: values[rng.integers(len(values))]
                for attribute, values in choices.items()
                if rng.random() < 0.7
            }
            or {"name": ("bo ek",)},
        )
        for i in range(n)
    ]


def attributes(fragments: list[Fragment]) -> Attributes:
    """With the rates that are assumed before any data are seen."""
    vocabularies = vocabularies_of(StatedValues.of(fragments))
    rates = {a: AttributeRates.prior(v.kind) for a, v in vocabularies.items()}
    return Attributes.trained(FittedAttributes(vocabularies, rates, 1.0, len(fragments)))


def bigram(fragments: list[Fragment]) -> Likelihood:
    model: Likelihood = registry.create("likelihoods", "bigram")
    named = [fragment for fragment in fragments if "name" in fragment.properties]
    # where no fragment has a name there is nothing to learn, and any model will do
    model.fit(fragments if named else [Fragment("", {"name": ("x",)})])
    return model


Family = tuple[
    Callable[[np.random.Generator, int], list[Fragment]], Callable[[list[Fragment]], Likelihood]
]
"""How fragments are drawn, and a likelihood for them."""

FAMILIES: dict[str, Family] = {
    "gaussian": (vectors, lambda _: Gaussian()),
    **dict.fromkeys(BIGRAM, (names, bigram)),
    "attributes": (records, attributes),
    "black box": (vectors, lambda _: BlackBox(normal(1.0, 4.0))),
    "ties": (counts, lambda _: Chain(categories())),
}


def exact_posterior(
    fragments: list[Fragment], likelihood: Likelihood, alpha: float, exponent: float = 1.0
) -> dict[Grouping, float]:
    """By enumeration: normalised log weight of every partition."""
    groups = {
        group: float(likelihood.log_marginal([[fragments[i] for i in group]])[0])
        for k in range(1, len(fragments) + 1)
        for group in itertools.combinations(range(len(fragments)), k)
    }
    weights = {
        z: sum(math.log(alpha) + exponent * math.lgamma(len(g)) + groups[g] for g in z)
        for z in partitions(range(len(fragments)))
    }
    total = log_sum_exp(weights.values())
    return {z: w - total for z, w in weights.items()}


def represented(posterior: Posterior) -> dict[Grouping, float]:
    """Every joint grouping that the subproblems' particles stand for, with its log weight."""
    out: dict[Grouping, float] = {}
    for choice in itertools.product(*(s.particles for s in posterior.subproblems)):
        grouping = frozenset(cluster for particle in choice for cluster in particle.clusters)
        assert grouping not in out, "a grouping is represented twice"
        out[grouping] = sum(particle.log_weight for particle in choice)
    return out


def check_weights(posterior: Posterior, exact: dict[Grouping, float]) -> None:
    """Every grouping has the log weight that it should have."""
    got = represented(posterior)
    for grouping, log_weight in exact.items():
        assert math.exp(got.get(grouping, -math.inf)) == pytest.approx(
            math.exp(log_weight), abs=1e-9, rel=1e-6
        )


@pytest.mark.parametrize("family", FAMILIES)
@examples(12)
@given(
    n=st.integers(1, 7),
    seed=st.integers(0, 10_000),
    alpha=st.sampled_from([0.05, 1.0, 20.0]),
    exponent=st.sampled_from([0.0, 0.5, 1.0]),
    split=st.booleans(),
)
def test_enough_particles_give_the_exact_posterior(
    family: str, n: int, seed: int, alpha: float, exponent: float, split: bool
) -> None:
    check_exact_posterior(FAMILIES[family], n, seed, alpha, split, exponent)


def check_exact_posterior(
    family: Family, n: int, seed: int, alpha: float, split: bool, exponent: float = 1.0
) -> None:
    make_fragments, make_likelihood = family
    fragments = make_fragments(np.random.default_rng(seed), n)
    likelihood = make_likelihood(fragments)
    clusterer: Clusterer = SplitSmc(particles=BELL_7) if split else Smc(particles=BELL_7)
    spec = ModelSpec(likelihood, alpha, exponent=exponent)
    posterior = clusterer.cluster(fragments, spec, np.random.default_rng(0))
    exact = exact_posterior(fragments, likelihood, alpha, exponent)
    check_weights(posterior, exact)
    best = max(exact.values())
    chosen = frozenset(posterior.clusters())
    assert exact[chosen] == pytest.approx(best, abs=1e-7)


RESAMPLERS = ("greedy", "multinomial", "stratified", "optimal")
VARIANTS: dict[str, Clusterer] = {
    **{f"smc {r}": Smc(particles=BELL_5, resampler=r) for r in RESAMPLERS},
    **{f"split-smc {r}": SplitSmc(particles=BELL_5, resampler=r) for r in RESAMPLERS},
    "split-smc as published": SplitSmc(particles=BELL_5, weights="marginal", merge="multinomial"),
}


@pytest.mark.parametrize("surrogate", [False, True])
@pytest.mark.parametrize("variant", VARIANTS)
def test_every_variant_is_exact_while_nothing_is_dropped(variant: str, surrogate: bool) -> None:
    """P holds all groupings of five; a surrogate without a limit only ranks."""
    for family, (make_fragments, make_likelihood) in FAMILIES.items():
        fragments = make_fragments(np.random.default_rng(17), 5)
        likelihood = make_likelihood(fragments)
        exact = exact_posterior(fragments, likelihood, 0.5)
        spec = ModelSpec(likelihood, 0.5, UniformLikelihood() if surrogate else None)
        got = represented(VARIANTS[variant].cluster(fragments, spec, np.random.default_rng(0)))
        distance = 0.5 * sum(
            abs(math.exp(got.get(z, -math.inf)) - math.exp(w)) for z, w in exact.items()
        )
        assert distance < 1e-9, family


def test_greedy_is_smc_with_one_particle() -> None:
    rng = np.random.default_rng(3)
    fragments = vectors(rng, 60)
    spec = ModelSpec(Gaussian(), 1.0)
    one = Smc(particles=1).cluster(fragments, spec, rng)
    greedy = GreedyClusterer().cluster(fragments, spec, rng)
    assert sorted(one.clusters()) == sorted(greedy.clusters())
    assert one.log_posterior == pytest.approx(greedy.log_posterior, abs=1e-9)

"""Small problems of both families, and their posterior by enumeration."""

import math
from collections.abc import Callable, Sequence

import numpy as np

from kbforge.contracts import ConjugateLikelihood, Fragment
from kbforge_lab.fastex.families import (
    ExponentialFamily,
    Mixture,
    Taylor,
)
from kbforge_lab.fastex.proposals import Directions
from kbforge_lab.fastex.run import family_of
from kbforge_lab.likelihoods.discrete import DirichletMultinomial
from kbforge_plugins.likelihoods.gaussian import Gaussian
from tests.clustering.exact import Grouping, log_sum_exp, partitions


def documents(n: int, seed: int = 4, length: int = 6) -> list[Fragment]:
    """Short texts of two kinds, and an attribute that some of them have."""
    rng = np.random.default_rng(seed)
    out = []
    for i in range(n):
        likely = [0.4, 0.2, 0.2, 0.1, 0.1]
        words = rng.choice(list("abcde"), size=length, p=likely if i % 2 else likely[::-1])
        properties = {"words": tuple(words.tolist())}
        if i % 3:
            properties["kind"] = (str(i % 2),)
        out.append(Fragment(f"f{i}", properties, label=str(i % 2)))
    return out


def points(n: int, seed: int = 4) -> list[Fragment]:
    rng = np.random.default_rng(seed)
    return [
        Fragment(f"f{i}", {}, tuple((rng.normal(size=2) * 2 + 50).tolist()), str(i % 2))
        for i in range(n)
    ]


def dirichlet(fragments: Sequence[Fragment]) -> DirichletMultinomial:
    likelihood = DirichletMultinomial(concentration=2.0)
    likelihood.fit(fragments)
    return likelihood


def gaussian(fragments: Sequence[Fragment]) -> Gaussian:
    return Gaussian(mu=50.0, lam=0.05)


Make = Callable[[int], list[Fragment]]
FAMILIES: dict[str, tuple[Make, Callable[[Sequence[Fragment]], ConjugateLikelihood]]] = {
    "dirichlet-multinomial": (documents, dirichlet),
    "gaussian": (points, gaussian),
}
PRIORS = {"process": Mixture(1.5), "mixture": Mixture(2.0, 3)}


def spec(
    name: str, n: int, taylor: Taylor = "secant"
) -> tuple[list[Fragment], ConjugateLikelihood, ExponentialFamily]:
    make, model = FAMILIES[name]
    fragments = make(n)
    likelihood = model(fragments)
    return fragments, likelihood, family_of(likelihood, fragments, taylor)


def directions(family: ExponentialFamily, bits: int = 16, seed: int = 1) -> Directions:
    return Directions.drawn(family.rows, bits, np.random.default_rng(seed))


def groups(slots: Sequence[int]) -> Grouping:
    held: dict[int, list[int]] = {}
    for fragment, slot in enumerate(slots):
        held.setdefault(slot, []).append(fragment)
    return frozenset(tuple(cluster) for cluster in held.values())


def exact(
    fragments: Sequence[Fragment], likelihood: ConjugateLikelihood, prior: Mixture
) -> dict[Grouping, float]:
    """The posterior probability of every grouping, written from the definition of the prior."""
    log_weight = {}
    for z in partitions(range(len(fragments))):
        log_prior = 0.0
        if prior.components is None:
            log_prior = sum(math.log(prior.alpha) + math.lgamma(len(c)) for c in z)
        else:
            if len(z) > prior.components:
                continue
            # components in turn, each by what it has so far
            share, used, sizes = prior.alpha / prior.components, 0, dict.fromkeys(z, 0)
            for fragment in range(len(fragments)):
                (cluster,) = (c for c in z if fragment in c)
                if not sizes[cluster]:
                    log_prior += math.log((prior.components - used) * share)
                    used += 1
                else:
                    log_prior += math.log(sizes[cluster] + share)
                sizes[cluster] += 1
        marginal = likelihood.log_marginal([[fragments[i] for i in c] for c in sorted(z)])
        log_weight[z] = log_prior + float(marginal.sum())
    total = log_sum_exp(log_weight.values())
    return {z: math.exp(w - total) for z, w in log_weight.items()}

"""Random posteriors, and what their particles say by the definitions."""

import math

import numpy as np
from hypothesis import strategies as st

from kbforge.contracts import Cluster, Fragment, Particle, Posterior, Subproblem, Subproblems


def subproblem(fragments, *particles):
    """Particles as (weight, clusters), normalised and sorted."""
    total = sum(weight for weight, _ in particles)
    made = [
        Particle(math.log(weight / total), tuple(map(tuple, clusters)))
        for weight, clusters in sorted(particles, key=lambda p: -p[0])
    ]
    return Subproblem(tuple(fragments), tuple(made))


def posterior(*subproblems):
    return Posterior(tuple(subproblems), 0.0, sum(len(s.fragments) for s in subproblems), 0)


def packed(subproblems: tuple[Subproblem, ...]) -> Subproblems:
    """The same in arrays, clusters in the order in which particles are met from the last."""
    clusters, lengths, members, particles, rows, cells = (list[int]() for _ in range(6))
    weights: list[float] = []
    for subproblem in subproblems:
        numbers: dict[Cluster, int] = {}
        for particle in reversed(subproblem.particles):
            for cluster in particle.clusters:
                numbers.setdefault(cluster, len(numbers))
        clusters.append(len(numbers))
        particles.append(len(subproblem.particles))
        for cluster in numbers:
            lengths.append(len(cluster))
            members += cluster
        for particle in subproblem.particles:
            weights.append(particle.log_weight)
            rows.append(len(particle.clusters))
            cells += [numbers[cluster] for cluster in reversed(particle.clusters)]
    arrays = [np.array(x, np.int64) for x in (clusters, lengths, members, particles, rows, cells)]
    return Subproblems(*arrays[:4], np.array(weights), *arrays[4:])


def plain_fragments(n):
    return [Fragment(f"f{i}", {"name": (f"name {i % 3}",)}) for i in range(n)]


@st.composite
def posteriors(draw):
    """Up to 8 fragments dealt to up to 3 subproblems, each with up to 5 distinct particles."""
    owners = draw(st.lists(st.integers(0, 2), min_size=1, max_size=8))
    blocks = [[i for i, owner in enumerate(owners) if owner == b] for b in set(owners)]
    return posterior(*(draw(_subproblems(block)) for block in sorted(blocks)))


@st.composite
def _subproblems(draw, block):
    partitions = draw(
        st.lists(
            st.lists(st.integers(0, 2), min_size=len(block), max_size=len(block)).map(
                lambda labels: tuple(
                    sorted(
                        tuple(i for i, other in zip(block, labels, strict=True) if other == label)
                        for label in set(labels)
                    )
                )
            ),
            min_size=1,
            max_size=5,
            unique=True,
        )
    )
    return subproblem(block, *((draw(st.integers(1, 20)), p) for p in partitions))

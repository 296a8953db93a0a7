"""The clusterers of the split-SMC paper as the suites compare them.

What the paper calls MCMC is two methods here, Gibbs and Metropolis.
"""

from __future__ import annotations

from kbforge_lab.contracts.suite import Method

GREEDY = Method("Greedy", "greedy")
AGGLOMERATIVE = Method("Agglomerative", "agglomerative")


def smc(particles: int, surrogate: bool = False) -> Method:
    """One set of particles for all fragments."""
    return Method("SMC", "smc", particles=particles, surrogate=surrogate)


def split_smc(particles: int, surrogate: bool = False) -> Method:
    """A set of particles a subproblem."""
    return Method("Split SMC", "split-smc", particles=particles, surrogate=surrogate)


def gibbs(sweeps: int | None = None) -> Method:
    """At most so many sweeps, for a result that no machine's speed decides."""
    return Method("Gibbs", "gibbs", _at_most(sweeps))


def metropolis(sweeps: int | None = None) -> Method:
    """As `gibbs`; the surrogate proposes."""
    return Method("Metropolis", "metropolis", _at_most(sweeps), surrogate=True)


def offline(sweeps: int | None = None) -> tuple[Method, ...]:
    """All that go over the fragments again and again, for a task with a surrogate."""
    batched = Method("Agglomerative (batch 100)", "agglomerative", {"batch": 100})
    return gibbs(sweeps), metropolis(sweeps), AGGLOMERATIVE, batched


def _at_most(sweeps: int | None) -> dict[str, int]:
    return {} if sweeps is None else {"sweeps": sweeps}

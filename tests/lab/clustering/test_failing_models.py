"""A model that raises leaves a chain exactly as it was, and the chain goes on afterwards."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from kbforge.clustering.rules import DirichletProcess
from kbforge.contracts import Cluster, FloatArray, Fragment, ModelSpec
from kbforge.errors import LikelihoodError
from kbforge_lab.batch.chain import MakeKernel, MarkovChain
from kbforge_lab.batch.grouping_model import SetModel
from kbforge_lab.clusterers.offline import Gibbs, Metropolis
from kbforge_lab.likelihoods.live import LiveGaussian
from kbforge_plugins.likelihoods.gaussian import Gaussian
from tests.clustering.toys import Chain as ChainLikelihood
from tests.clustering.toys import fragments_of, normal
from tests.lab.clustering.chains import chain_of

POINTS = [(float(x),) for x in (0, 1, 2, 2.5, 9, 10, 10.5, 11)]
N = len(POINTS)
ASKING = ("log_marginal", "log_predictive", "log_predictive_new", "log_predictive_held")


class Fuse:
    """Blows at the n-th question from now on, once."""

    def __init__(self, error: Exception) -> None:
        self.left = 0
        self._error = error

    def wrap(self, ask: Callable[..., Any]) -> Callable[..., Any]:
        def asked(*args: Any) -> Any:
            self.left -= 1
            if self.left == 0:
                raise self._error
            return ask(*args)

        return asked


class Failing:
    """A likelihood, and its tables, whose questions may blow a fuse."""

    def __init__(self, inner: Any, fuse: Fuse) -> None:
        self._inner, self._fuse = inner, fuse

    def live_clusters(self) -> Any:
        inner = self._inner
        table = LiveGaussian(inner) if isinstance(inner, Gaussian) else inner.live_clusters()
        for name in ASKING:
            if hasattr(table, name):
                setattr(table, name, self._fuse.wrap(getattr(table, name)))
        return table

    def log_marginal(self, clusters: Sequence[Sequence[Fragment]]) -> FloatArray:
        scores: FloatArray = self._fuse.wrap(self._inner.log_marginal)(clusters)
        return scores


class Hidden:
    """The same without its tables: a black box."""

    def __init__(self, inner: Failing) -> None:
        self.log_marginal = inner.log_marginal


Case = tuple[MakeKernel, Callable[[Fuse], ModelSpec]]
CASES: dict[str, Case] = {
    "gibbs, table": (Gibbs.make_kernel, lambda fuse: ModelSpec(Failing(Gaussian(), fuse), 1.0)),
    "gibbs, growing table": (
        Gibbs.make_kernel,
        lambda fuse: ModelSpec(Failing(ChainLikelihood(normal()), fuse), 1.0),
    ),
    "gibbs, black box": (
        Gibbs.make_kernel,
        lambda fuse: ModelSpec(Hidden(Failing(Gaussian(), fuse)), 1.0),
    ),
    "metropolis": (
        Metropolis.make_kernel,
        lambda fuse: ModelSpec(Hidden(Failing(Gaussian(), fuse)), 1.0),
    ),
    "metropolis, surrogate": (
        Metropolis.make_kernel,
        lambda fuse: ModelSpec(
            Hidden(Failing(Gaussian(), fuse)), 1.0, Failing(Gaussian(lam=0.01), fuse)
        ),
    ),
}


def state_of(chain: MarkovChain) -> tuple[Any, ...]:
    """All that a chain is: its grouping, its best, and what its models say, to the last bit."""
    grouping, said = chain.grouping, []
    for model in chain._kernel.models:
        if isinstance(model, SetModel):  # more questions would put their answers into its cache
            said += [model._scores()[grouping.slots()].tobytes(), *map(model.alone, range(N))]
            continue
        for fragment in range(N):
            own = grouping.slot_of[fragment]
            others = [slot for slot in grouping.slots() if slot != own]
            said.append(model.joins(fragment)[others].tobytes())
            said.append(model.alone(fragment))
            if len(grouping.members[own]) > 1:
                said.append(model.held(fragment))
    return (
        *(repr(value) for value in (grouping.slot_of, grouping.members, grouping._free)),
        grouping.log_size.tobytes(),
        (chain.log_posterior, chain.best_log_posterior, chain.best.tobytes(), chain.placed),
        said,
    )


def exact(chain: MarkovChain, spec: ModelSpec, fragments: list[Fragment]) -> float:
    clusters: list[Cluster] = [chain.grouping.cluster(slot) for slot in chain.grouping.slots()]
    marginal = spec.likelihood.log_marginal([[fragments[i] for i in c] for c in clusters])
    return float(DirichletProcess(spec.alpha).log_terms(clusters, marginal).sum())


@pytest.mark.parametrize("error", [LikelihoodError("the model is tired"), ZeroDivisionError()])
@pytest.mark.parametrize("case", CASES)
def test_an_error_leaves_everything_as_it_was(case, error):
    """Whichever question of a sweep it is the answer to."""
    make_kernel, problem_of = CASES[case]
    fragments = fragments_of(POINTS)
    failed, said = 0, ""
    for question in range(1, 40):
        fuse = Fuse(error)
        spec = problem_of(fuse)
        chain, _ = chain_of(make_kernel, fragments, spec, question)
        for _ in chain.sweep():
            pass
        before, fuse.left = state_of(chain), question
        try:
            for _ in chain.sweep():
                left, fuse.left = fuse.left, 0
                before, fuse.left = state_of(chain), left
        except type(error) as raised:
            failed += 1
            said = str(raised)
        fuse.left = 0
        assert state_of(chain) == before
        for _ in chain.sweep():
            pass
        assert chain.log_posterior == pytest.approx(exact(chain, spec, fragments))
        if failed and isinstance(error, LikelihoodError):
            assert said.startswith('fragment "f')
    assert failed > 3

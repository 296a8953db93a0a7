"""What a step shows of the run: the posterior so far is that of a run on the prefix."""

from __future__ import annotations

import numpy as np
import pytest

from kbforge import registry
from kbforge.contracts import Posterior, Problem, Progress
from kbforge.testing import Categorical, examples


@pytest.mark.parametrize("name", ["split-smc", "smc", "greedy"])
def test_the_posterior_of_a_step_is_that_of_the_prefix(name: str) -> None:
    items, problem = examples.fragments(12), Problem(Categorical(), alpha=0.5)
    seen: list[Posterior] = []

    def on_step(progress: Progress) -> None:
        assert progress.posterior is not None
        seen.append(progress.posterior())

    clusterer = registry.create("clusterers", name)
    clusterer.cluster(items, problem, np.random.default_rng(0), on_step)
    assert len(seen) == len(items)
    for n, shown in enumerate(seen, 1):
        alone = clusterer.cluster(items[:n], problem, np.random.default_rng(0))
        assert shown.subproblems == alone.subproblems
        assert shown.log_posterior == alone.log_posterior
        assert not shown.complete

"""The figures of consensus and map are those of the groupings that they name."""

from __future__ import annotations

import numpy as np
import pytest

from kbforge import registry
from kbforge.contracts import Problem
from kbforge_lab.suites.gauss import Gauss
from tests.scripts import script

replicas = script("replicas")
(TASK,) = Gauss(points=40).plan().tasks


@pytest.mark.parametrize(("name", "option"), [("sir", "replicas"), ("split-smc", "particles")])
def test_the_log_posterior_of_the_map_is_the_clusterers_own(name: str, option: str) -> None:
    seconds, log_p, f1, entities, more, agreed, agreed_f1, _ = replicas.figures(
        TASK, 0, name, {option: 50}
    )
    likelihood = registry.create("likelihoods", "gaussian", dict(TASK.likelihood.options))
    clusterer = registry.create("clusterers", name, {option: 50})
    problem = Problem(likelihood, alpha=TASK.alpha)
    found = clusterer.cluster(list(TASK.fragments), problem, np.random.default_rng(0))
    assert log_p == pytest.approx(found.log_posterior)
    assert entities == len(found.clusters())
    assert 0 < min(f1, agreed_f1) <= max(f1, agreed_f1) <= 1
    assert np.isfinite(agreed)
    assert min(seconds, more) >= 0
    line = replicas.row(name, option, 50, [[seconds, log_p, f1, entities] * 2] * 2)
    assert line[0] == f"{name}, {'R' if name == 'sir' else 'P'} = 50"
    assert line[2] == f"{log_p:,.1f} (0.0)"

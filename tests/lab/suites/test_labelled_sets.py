"""The kernel takes the oracle's steps on the labelled sets, to the last bit."""

from dataclasses import replace

import pytest

from kbforge_lab.suites.accuracy import SETS
from kbforge_plugins.clusterers.sequential import SplitSmc
from kbforge_plugins.likelihoods.attributes.likelihood import Attributes
from tests.kernel.test_oracle import fitted, run

SMALL = [one for one in SETS if one.fragments <= 2_500]


@pytest.mark.slow
@pytest.mark.data
@pytest.mark.parametrize("labelled", SMALL, ids=lambda labelled: str(labelled.name))
def test_labelled_sets(labelled, data_dir):
    fragments = labelled.read(data_dir)[:300]
    spec = fitted(model := Attributes(), fragments, 1.0)
    spec = replace(spec, alpha=model.default_alpha)
    run(spec, fragments, SplitSmc(particles=20).rules, 100)

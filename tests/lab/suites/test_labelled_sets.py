"""The compiled kernel takes the reference's steps on the labelled sets, to the last bit."""

from dataclasses import replace

import pytest

from kbforge.kernel.binding import kernel_library, kernel_status
from kbforge_lab.suites.accuracy import SETS
from kbforge_plugins.clusterers.sequential import SplitSmc
from kbforge_plugins.likelihoods.attributes.likelihood import Attributes
from tests.clustering.test_compiled import fitted, run

pytestmark = pytest.mark.skipif(kernel_library() is None, reason=kernel_status())
SMALL = [one for one in SETS if one.fragments <= 2_500]


@pytest.mark.slow
@pytest.mark.data
@pytest.mark.parametrize("labelled", SMALL, ids=lambda labelled: str(labelled.name))
def test_labelled_sets(labelled, data_dir):
    fragments = labelled.read(data_dir)
    problem = fitted(model := Attributes(), fragments, 1.0)
    problem = replace(problem, alpha=model.default_alpha)
    run(problem, fragments, SplitSmc(particles=100)._rules, 500)

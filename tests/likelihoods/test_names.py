"""Equal names are one entity, the surer the rarer they are; all else is apart."""

from __future__ import annotations

import math

import numpy as np
import pytest

from kbforge.contracts import Fragment, Problem
from kbforge.errors import UsageError
from kbforge_plugins.clusterers.split_smc import SplitSmc
from kbforge_plugins.likelihoods.names import Names

PEOPLE = ["Ann Lee", "ann  LEE", "Ann Lee", "Ann Smith", "Bo Smith", "Bo Lee", "Xaver Quill"]


def fragments(names: list[str]) -> list[Fragment]:
    return [Fragment(f"f{i}", {"name": (name,)}) for i, name in enumerate(names)]


def odds(likelihood: Names, name: str) -> float:
    one = Fragment("x", {"name": (name,)})
    both, alone = likelihood.log_marginal([[one, one], [one]])
    return float(both - 2 * alone)


def test_equal_names_are_grouped_and_no_others() -> None:
    held = fragments(PEOPLE)
    likelihood = Names()
    likelihood.fit(held)
    problem = Problem(likelihood, likelihood.default_alpha, index=likelihood.index)
    posterior = SplitSmc().cluster(held, problem, np.random.default_rng(0))
    assert sorted(map(sorted, posterior.clusters())) == [[0, 1, 2], [3], [4], [5], [6]]


def test_rarer_names_are_surer() -> None:
    likelihood = Names()
    likelihood.fit(fragments(PEOPLE))
    assert odds(likelihood, "Xaver Quill") > odds(likelihood, "Ann Lee") > 0


def test_the_probability_can_be_given() -> None:
    likelihood = Names(together=0.9)
    likelihood.fit(fragments(PEOPLE))
    assert odds(likelihood, "Ann Lee") == pytest.approx(math.log(9))
    for wrong in (0.5, 1.0, 2.0):
        with pytest.raises(UsageError, match="together: expected a probability"):
            Names(together=wrong)


def test_parts_of_a_name_make_one_where_there_is_no_name() -> None:
    held = [
        Fragment("a", {"first_name": ("Ann",), "surname": ("Lee",)}),
        Fragment("b", {"first_name": ("ann",), "surname": ("lee",), "city": ("Lund",)}),
        Fragment("c", {"first_name": ("Bo",), "surname": ("Lee",)}),
    ]
    likelihood = Names()
    likelihood.fit(held)
    keys = [likelihood.index.keys(f) for f in held]
    assert keys[0] == keys[1] != keys[2]

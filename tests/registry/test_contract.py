"""A plugin's contract is checked when it is loaded."""

from __future__ import annotations

from typing import Any

import pytest

from kbforge.contracts import (
    ConjugateLikelihood,
    Likelihood,
    LiveClusters,
)
from kbforge.errors import PluginError
from kbforge.registry.contract import checked
from kbforge.testing import Categorical

WHO = 'the plugin "x" of kb-x 1.0'


class Bare:
    def log_marginal(self, clusters: Any) -> Any: ...


def test_a_class_with_its_base_class_stays_as_it_is() -> None:
    assert checked(Categorical, "likelihoods", WHO) is Categorical


def test_a_class_without_the_base_class_is_refused() -> None:
    says = "does not have the base class kbforge.contracts.Likelihood; derive Bare from it"
    with pytest.raises(PluginError, match=f"^{WHO} {says}"):
        checked(Bare, "likelihoods", WHO)


class Half(ConjugateLikelihood):
    def log_marginal(self, clusters: Any) -> Any: ...


@pytest.mark.parametrize(
    ("kind", "plugin", "expected"),
    [
        ("likelihoods", object, r"log_marginal\(clusters\); .* kbforge.contracts.Likelihood says"),
        ("likelihoods", Half, r"live_clusters\(\)"),
        ("sources", object, r"read\(inputs, on_bad\); define it as kbforge.contracts.Source says"),
        ("clusterers", object, r"cluster\(fragments, problem, rng, on_step\)"),
        ("indexes", object, r"keys\(fragment\)"),
        ("resamplers", object, r"resample\(log_weights, size, rng\)"),
        ("calibrators", object, r"calibrate\(fragments, problem, clusterer, search, rng"),
        ("serializers", object, r"(parse|serialize)\("),
        ("exporters", object, r"export\("),
        ("suites", object, r"plan\(quick\); define it as kbforge.contracts.suite.Suite says"),
    ],
)
def test_a_method_that_the_contract_needs_is_asked_for(
    kind: str, plugin: type, expected: str
) -> None:
    with pytest.raises(PluginError, match=f"^{WHO} has no method .*{expected}"):
        checked(plugin, kind, WHO)


def test_a_plugin_that_is_no_class_is_refused() -> None:
    with pytest.raises(PluginError, match="is a function, expected a class"):
        checked(lambda: Categorical(), "likelihoods", WHO)


@pytest.mark.parametrize(
    ("base", "members", "says"),
    [
        (Likelihood, {"explains": True}, "states explains = True; define contributions"),
        (Likelihood, {"contributions": print}, "defines contributions; .* explains = True"),
        (LiveClusters, {"editable": True, "add": print}, "define log_predictive_held, remove"),
        (LiveClusters, {"merge": print}, "defines merge; state the ability: mergeable = True"),
    ],
)
def test_an_ability_and_its_methods_come_together(base: type, members: Any, says: str) -> None:
    with pytest.raises(TypeError, match=f"Mine .*{says}"):
        type(base)("Mine", (base,), members)

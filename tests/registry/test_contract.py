"""A plugin's contract is checked when it is loaded."""

from __future__ import annotations

import json
from pathlib import Path
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
from tests.registry.distributions import Distribution, kbforge

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
    ],
)
def test_a_method_that_the_contract_needs_is_asked_for(
    kind: str, plugin: type, expected: str
) -> None:
    with pytest.raises(PluginError, match=f"^{WHO} has no method .*{expected}"):
        checked(plugin, kind, WHO)


SCALES = '''
from abc import ABC, abstractmethod

class Scale(ABC):
    """Weighs."""

    @abstractmethod
    def weigh(self, x): ...

class Good(Scale):
    """Weighs well."""

    def weigh(self, x):
        return 1

class Bad(Scale):
    """Does not weigh."""
'''


def test_a_distribution_adds_a_kind_by_its_base_class(tmp_path: Path) -> None:
    entries = {
        "kbforge.kinds": {"scales": "kb_scales:Scale"},
        "kbforge.scales": {"good": "kb_scales:Good", "bad": "kb_scales:Bad"},
    }
    Distribution("kb-scales", "1.0", entries, {"kb_scales": SCALES}).write(tmp_path)
    listed = kbforge("plugins", "list", "--kind", "scale", "--check", "--json", path=tmp_path)
    rows = {row["name"]: row for row in json.loads(listed.out)["plugins"]}
    assert (rows["good"]["status"], rows["bad"]["status"]) == ("ok", "broken")
    assert "has no method weigh, expected weigh(x)" in rows["bad"]["cause"]


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

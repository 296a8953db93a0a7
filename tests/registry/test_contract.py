"""A plugin's contract is checked when it is loaded; classes written for 0.1 go on working."""

from __future__ import annotations

import json
import math
from collections import Counter
from typing import Any

import numpy as np
import pytest

from kbforge.contracts import (
    CandidateIndex,
    Clusterer,
    ConjugateLikelihood,
    Fragment,
    Likelihood,
    LiveClusters,
    Problem,
    Resampler,
    Source,
)
from kbforge.errors import PluginError
from kbforge.registry.contract import with_contract
from kbforge.testing import Categorical, LikelihoodContract
from tests.registry.distributions import Distribution, kbforge

WHO = 'the plugin "x" of kb-x 1.0'


class OldTable:
    """Live clusters as 0.1 had them: no base class, the abilities that it has methods for."""

    def __init__(self) -> None:
        self.table = Categorical().live_clusters()
        self.held: dict[int, list[Any]] = {}
        for name in ("encode", "log_predictive", "log_predictive_new", "extend", "release"):
            setattr(self, name, getattr(self.table, name))

    def log_predictive_of(self, x: Any, slots: Any) -> Any:
        return self.table.log_predictive(x, int(slots.max(initial=-1)) + 1)[slots]

    def log_merge_ratio(self, slot: int, slots: int) -> Any:
        counts = [self.table._counts.get(s, Counter()) for s in range(slots)]
        return np.array([_log(c + counts[slot]) - _log(c) - _log(counts[slot]) for c in counts])

    def merge(self, slot: int, into: int) -> None:
        self.table._counts[into] += self.table._counts.pop(slot)


def _log(counts: Counter[str]) -> float:
    total, beta = 0.8, 0.2
    gains = sum(math.lgamma(beta + n) - math.lgamma(beta) for n in counts.values())
    return math.lgamma(total) - math.lgamma(total + counts.total()) + gains


class OldConjugate:
    """A likelihood as 0.1 had them.

    Args:
        device: where it runs.

    """

    default_alpha = 7

    def __init__(self, device: str = "cpu") -> None:
        self.device = device
        self.seen = 0

    def fit(self, fragments: Any) -> str:
        self.seen = len(fragments)
        return f"seen {self.seen}"

    def log_marginal(self, clusters: Any) -> Any:
        return Categorical().log_marginal(clusters)

    def live_clusters(self) -> Any:
        return OldTable()


class OldBlackBox:
    def log_marginal(self, clusters: Any) -> Any:
        return Categorical().log_marginal(clusters)

    def contributions(self, fragment: Any, cluster: Any) -> Any:
        one, both = self.log_marginal([[fragment], [*cluster, fragment]])
        return {"colour": both - self.log_marginal([cluster])[0] - one}

    @classmethod
    def from_bundle(cls, path: Any) -> Any:
        return cls()


class TestOldConjugate(LikelihoodContract):
    def make(self) -> Any:
        return with_contract(OldConjugate, "likelihoods", WHO)()


class TestOldBlackBox(LikelihoodContract):
    def make(self) -> Any:
        return with_contract(OldBlackBox, "likelihoods", WHO)()


def test_what_a_likelihood_was_found_to_be_able_to_do_is_stated() -> None:
    conjugate = with_contract(OldConjugate, "likelihoods", WHO)
    assert issubclass(conjugate, ConjugateLikelihood)
    assert (conjugate.__name__, conjugate.__doc__) == ("OldConjugate", OldConjugate.__doc__)
    assert (conjugate.takes_device, conjugate.explains, conjugate.loads_bundles) == (True, 0, 0)
    made = conjugate()
    assert (made.default_alpha, made.surrogate, made.index) == (7, None, None)
    assert made.fit([1, 2]) == "seen 2"
    table = made.live_clusters()
    assert (table.editable, table.mergeable) == (False, True)
    black_box = with_contract(OldBlackBox, "likelihoods", WHO)
    assert not issubclass(black_box, ConjugateLikelihood)
    assert (black_box.takes_device, black_box.explains, black_box.loads_bundles) == (0, 1, 1)
    assert (black_box().default_alpha, black_box().fit([])) == (1.0, None)
    assert isinstance(black_box.from_bundle("folder"), Likelihood)


def test_the_class_is_made_once() -> None:
    assert with_contract(OldBlackBox, "likelihoods", WHO) is with_contract(
        OldBlackBox, "likelihoods", WHO
    )
    assert with_contract(Categorical, "likelihoods", WHO) is Categorical


class OldClusterer:
    unindexed = True

    def __init__(self, particles: int = 12, budget: float | None = None) -> None:
        pass

    def cluster(self, fragments: Any, problem: Problem, rng: Any, on_step: Any = None) -> Any:
        return len(fragments)


def test_a_clusterers_options_are_stated() -> None:
    made = with_contract(OldClusterer, "clusterers", WHO)
    assert issubclass(made, Clusterer)
    assert (made.unindexed, made.takes_budget) == (True, True)
    assert (made().particles, made(5).particles, made(particles=6).particles) == (12, 5, 6)
    assert made().cluster([1], None, None) == 1


@pytest.mark.parametrize("answer", [True, False])
def test_a_resampler_may_still_say_deterministic(answer: bool) -> None:
    class Old:
        deterministic = answer

        def resample(self, log_weights: Any, size: int, rng: Any) -> Any:
            return np.arange(size), log_weights[:size]

    made = with_contract(Old, "resamplers", WHO)
    assert issubclass(made, Resampler)
    assert made().keeps_heaviest is answer


def test_a_resampler_that_says_neither_is_refused() -> None:
    class Silent:
        def resample(self, log_weights: Any, size: int, rng: Any) -> Any: ...

    with pytest.raises(PluginError, match="set the attribute keeps_heaviest to True or False"):
        with_contract(Silent, "resamplers", WHO)


def test_a_source_need_not_say_where_it_is() -> None:
    class Old:
        def read(self, inputs: Any, on_bad: Any) -> Any:
            yield Fragment("a", {"name": ("A",)})

    made = with_contract(Old, "sources", WHO)
    assert issubclass(made, Source)
    assert (made().where, dict(made().counts)) == ("", {})


def test_an_index_need_not_be_fitted() -> None:
    class Old:
        families, shared = 3, 2

        def keys(self, fragment: Fragment) -> list[int]:
            return [len(fragment.id)]

    made = with_contract(Old, "indexes", WHO)()
    assert isinstance(made, CandidateIndex)
    assert (made.families, made.shared, made.fit([])) == (3, 2, None)


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
        with_contract(plugin, kind, WHO)


def test_a_plugin_that_is_no_class_is_refused() -> None:
    with pytest.raises(PluginError, match="is a function, expected a class"):
        with_contract(lambda: Categorical(), "likelihoods", WHO)


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


CHEAP = Distribution(
    "kb-cheap",
    entry_points={
        "kbforge.surrogates": {"cheap": "kb_cheap:Cheap", "attributes": "kb_cheap:Cheap"},
        "kbforge.likelihoods": {"old": "kb_cheap:Old"},
    },
    modules={
        "kb_cheap": """
from kbforge.testing import Categorical as Cheap

class Old:
    def log_marginal(self, clusters):
        return Cheap("name").log_marginal(clusters)
"""
    },
)


def test_a_surrogate_of_a_stranger_is_told_where_it_belongs(tmp_path: Any) -> None:
    CHEAP.write(tmp_path)
    listed = kbforge("plugins", "list", "--check", "--json", path=tmp_path)
    assert listed.code == 1
    rows = [r for r in json.loads(listed.out)["plugins"] if r["distribution"] == "kb-cheap"]
    cause = (
        'the surrogate "cheap" of kb-cheap 1.0 is announced under kbforge.surrogates, which is no '
        "more; announce it under kbforge.likelihoods"
    )
    assert [(r["name"], r["status"]) for r in rows] == [
        ("old", "ok"),
        ("attributes", "incompatible"),
        ("cheap", "incompatible"),
    ]
    assert rows[2]["cause"] == cause
    data = tmp_path / "data.jsonl"
    names = ("Ann", "Ann", "Bo", "Cy", "Cy")
    data.write_text(
        "".join(f'{{"id":"{i}","properties":{{"name":["{n}"]}}}}\n' for i, n in enumerate(names))
    )
    refused = kbforge("cluster", str(data), "--surrogate", "cheap", path=tmp_path)
    assert (refused.code, refused.err) == (1, f"kbforge: {cause}\n")
    # the likelihood whose name it took is what the name means
    done = kbforge(
        *("cluster", str(data), "--likelihood", "old", "--surrogate", "attributes", "--json"),
        *("-o", str(tmp_path / "kb.jsonl")),
        path=tmp_path,
    )
    assert done.code == 0, done.err
    assert json.loads(done.out)["fragments"] == 5

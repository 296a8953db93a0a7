"""The contract of a plugin, checked once when it is loaded.

A plugin's class has the base class of its kind in `kbforge.contracts`, which states what it is able
to do. A class without it, as plugins for kbforge 0.1 were written, is given the base class here,
and what was found by name then is stated as the base class states it now. Nothing else in KBForge
looks for an ability by name.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from functools import cache
from types import new_class
from typing import Any

from kbforge import contracts
from kbforge.contracts import (
    Calibrator,
    CandidateIndex,
    Clusterer,
    ConjugateLikelihood,
    Exporter,
    Feature,
    FloatArray,
    Fragment,
    IntArray,
    Likelihood,
    LiveClusters,
    Observation,
    Resampler,
    Serializer,
    Source,
)
from kbforge.contracts.executor import Executor
from kbforge.contracts.suite import Suite
from kbforge.errors import PluginError
from kbforge.registry.options import option_parameters

BASES: Mapping[str, type] = {
    "sources": Source,
    "serializers": Serializer,
    "likelihoods": Likelihood,
    "features": Feature,
    "indexes": CandidateIndex,
    "clusterers": Clusterer,
    "resamplers": Resampler,
    "calibrators": Calibrator,
    "exporters": Exporter,
    "executors": Executor,
    "suites": Suite,
}
"""The base class of each kind whose plugins are classes."""

_ALL_IS_NEEDED = ("serializers", "exporters", "suites")  # kinds whose base class adds nothing


def with_contract(factory: Any, kind: str, called: str) -> Any:
    """The plugin's class, with the base class of its kind.

    Args:
        factory: what the entry point names.
        kind: of the plugin.
        called: how an error names the plugin.

    Raises:
        PluginError: it is no class, or lacks what the contract needs.

    """
    if kind not in BASES:
        return factory
    if not inspect.isclass(factory):
        raise PluginError(
            f"{called} is a {type(factory).__name__}, expected a class; "
            f"announce one that has the base class {_path(BASES[kind])}"
        )
    plugin: Any = factory
    return _checked(plugin, kind, called)


@cache
def _checked(factory: Any, kind: str, called: str) -> Any:
    base = BASES[kind]
    _require(factory, base, called)
    if base in factory.__mro__ or kind in _ALL_IS_NEEDED:
        return factory
    stated: dict[str, Any] = {}
    if kind == "likelihoods":
        base, stated = _likelihood(factory)
    elif kind == "clusterers":
        stated = _clusterer(factory)
    elif kind == "resamplers":
        stated = _resampler(factory, called)
    about = {name: getattr(factory, name) for name in ("__doc__", "__module__", "__qualname__")}
    try:
        return new_class(
            factory.__name__, (factory, base), {}, lambda body: body.update(about | stated)
        )
    except TypeError as error:
        raise PluginError(f"{called} cannot have the base class {_path(base)}: {error}") from error


def _require(factory: type, base: type, called: str) -> None:
    """Refuse a class that lacks a method that its contract needs."""
    for name in sorted({*_needed(base), *getattr(factory, "__abstractmethods__", ())}):
        method = getattr(factory, name, None)
        if not callable(method) or getattr(method, "__isabstractmethod__", False):
            parameters = inspect.signature(method or getattr(base, name)).parameters
            expected = ", ".join(parameter for parameter in parameters if parameter != "self")
            raise PluginError(
                f"{called} has no method {name}, expected {name}({expected}); "
                f"define it as {_path(base)} says"
            )


def _needed(base: type) -> list[str]:
    """The methods that a contract has no default for; a protocol has none for any."""
    if abstract := getattr(base, "__abstractmethods__", ()):
        return list(abstract)
    return [
        name for name, value in vars(base).items() if inspect.isfunction(value) and name[0] != "_"
    ]


def _path(base: type) -> str:
    exported = getattr(contracts, base.__name__, None) is base
    return f"{'kbforge.contracts' if exported else base.__module__}.{base.__name__}"


# --- what kbforge 0.1 found by name ---------------------------------------------------------------


def _likelihood(factory: Any) -> tuple[type, dict[str, Any]]:
    stated: dict[str, Any] = {
        "explains": hasattr(factory, "contributions"),
        "loads_bundles": hasattr(factory, "from_bundle"),
        "takes_device": "device" in option_parameters(factory),
    }
    if not hasattr(factory, "live_clusters"):
        return Likelihood, stated

    def live_clusters(self: Any) -> LiveClusters:
        table = factory.live_clusters(self)
        return table if isinstance(table, LiveClusters) else _Table(table)

    return ConjugateLikelihood, {**stated, "live_clusters": live_clusters}


def _clusterer(factory: Any) -> dict[str, Any]:
    options = option_parameters(factory)
    stated: dict[str, Any] = {"takes_budget": "budget" in options}
    if "particles" in options and not hasattr(factory, "particles"):

        def __init__(self: Any, *given: Any, **named: Any) -> None:
            factory.__init__(self, *given, **named)
            bound = inspect.signature(factory).bind(*given, **named)
            bound.apply_defaults()
            self.particles = bound.arguments["particles"]

        __init__.__signature__ = inspect.signature(  # type: ignore[attr-defined]
            factory.__init__, eval_str=True
        )
        __init__.__doc__ = factory.__init__.__doc__
        stated["__init__"] = __init__
    return stated


def _resampler(factory: Any, called: str) -> dict[str, Any]:
    if hasattr(factory, "keeps_heaviest"):
        return {}
    if hasattr(factory, "deterministic"):
        return {"keeps_heaviest": factory.deterministic}
    raise PluginError(
        f"{called} does not say whether it keeps the heaviest particles; "
        "set the attribute keeps_heaviest to True or False"
    )


class _Table(LiveClusters):
    """A table of a class without the base class."""

    editable = mergeable = True

    def __init__(self, table: Any) -> None:
        self._table = table
        self.editable = hasattr(table, "log_predictive_held")
        self.mergeable = hasattr(table, "log_merge_ratio")
        if hasattr(table, "log_predictive_of"):
            self.log_predictive_of = table.log_predictive_of  # type: ignore[method-assign]

    def encode(self, fragment: Fragment) -> Observation:
        return self._table.encode(fragment)

    def log_predictive(self, x: Observation, slots: int) -> FloatArray:
        out: FloatArray = self._table.log_predictive(x, slots)
        return out

    def log_predictive_new(self, x: Observation) -> float:
        return float(self._table.log_predictive_new(x))

    def extend(self, x: Observation, parents: IntArray, children: IntArray) -> None:
        self._table.extend(x, parents, children)

    def release(self, slots: IntArray) -> None:
        self._table.release(slots)

    def log_predictive_held(self, x: Observation, slot: int) -> float:
        return float(self._table.log_predictive_held(x, slot))

    def add(self, x: Observation, slot: int) -> None:
        self._table.add(x, slot)

    def remove(self, x: Observation, slot: int) -> None:
        self._table.remove(x, slot)

    def log_merge_ratio(self, slot: int, slots: int) -> FloatArray:
        out: FloatArray = self._table.log_merge_ratio(slot, slots)
        return out

    def merge(self, slot: int, into: int) -> None:
        self._table.merge(slot, into)

"""The contract of a plugin, checked once when it is loaded.

A plugin's class has the base class of its kind in `kbforge.contracts`, which states what it is able
to do. Nothing in KBForge looks for an ability by name.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

from kbforge import contracts
from kbforge.contracts import (
    Calibrator,
    CandidateIndex,
    Clusterer,
    Exporter,
    Likelihood,
    Resampler,
    Serializer,
    Source,
)
from kbforge.contracts.executor import Executor
from kbforge.errors import PluginError

BASES: Mapping[str, type] = {
    "sources": Source,
    "serializers": Serializer,
    "likelihoods": Likelihood,
    "indexes": CandidateIndex,
    "clusterers": Clusterer,
    "resamplers": Resampler,
    "calibrators": Calibrator,
    "exporters": Exporter,
    "executors": Executor,
}
"""The base class of each kind whose plugins are classes."""

_PROTOCOLS = ("serializers", "exporters")  # kinds whose methods are all that counts


def checked(factory: Any, kind: str, called: str, base: type | None = None) -> Any:
    """The plugin's class, which has the base class of its kind and all methods that it needs.

    Args:
        factory: what the entry point names.
        kind: of the plugin.
        called: how an error names the plugin.
        base: the base class of a kind that is not in `BASES`.

    Raises:
        PluginError: it is no class, lacks the base class, or lacks a method.

    """
    base = BASES.get(kind, base)
    if base is None:
        return factory
    if not inspect.isclass(factory):
        raise PluginError(
            f"{called} is a {type(factory).__name__}, expected a class; "
            f"announce one that has the base class {_path(base)}"
        )
    _require_methods(factory, base, called)
    if base not in factory.__mro__ and kind not in _PROTOCOLS:
        raise PluginError(
            f"{called} does not have the base class {_path(base)}; "
            f"derive {factory.__name__} from it"
        )
    return factory


def _require_methods(factory: type, base: type, called: str) -> None:
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

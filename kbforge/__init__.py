"""KBForge: turns entity fragments into a knowledge base.

    from kbforge import cluster

    kb = cluster(df, id="id")   # a data frame, or the fragments of load("people.jsonl")
    kb.members().to_pandas()    # which row is which entity
    kb.write("kb.jsonl")

docs/python.md explains the names in `__all__`. Each is imported when it is first used, so that
`import kbforge` and `kbforge --help` load neither NumPy nor a plugin.
"""

from __future__ import annotations

from importlib import import_module

from kbforge.version import __version__

TYPE_CHECKING = False  # the constant of `typing`, which takes longer to load than all of this
if TYPE_CHECKING:
    from typing import Any

    from kbforge import datasets as datasets
    from kbforge.contracts import Entity, Fragment, Interrupted, Progress
    from kbforge.errors import KBForgeError
    from kbforge.jobs.api import (
        cluster,
        decide,
        evaluate,
        export,
        link,
        load,
        members,
        open_session,
        pairs,
        read_entities,
        relations,
        remove,
        report,
        review,
        undo,
        update,
        wide,
    )
    from kbforge.jobs.cluster import KnowledgeBase, LiveClustering

__all__ = [
    "Entity",
    "Fragment",
    "Interrupted",
    "KBForgeError",
    "KnowledgeBase",
    "LiveClustering",
    "Progress",
    "__version__",
    "cluster",
    "decide",
    "evaluate",
    "export",
    "link",
    "load",
    "members",
    "open_session",
    "pairs",
    "read_entities",
    "relations",
    "remove",
    "report",
    "review",
    "undo",
    "update",
    "wide",
]

_MODULES = {
    **dict.fromkeys(__all__, "kbforge.jobs.api"),
    **dict.fromkeys(("Entity", "Fragment", "Interrupted", "Progress"), "kbforge.contracts"),
    **dict.fromkeys(("KnowledgeBase", "LiveClustering"), "kbforge.jobs.cluster"),
    "KBForgeError": "kbforge.errors",
}


def __getattr__(name: str) -> Any:
    if name == "datasets":  # a room: small sets for a first try
        return import_module("kbforge.datasets")
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_MODULES[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})

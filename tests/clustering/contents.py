"""All that an object holds, to the last bit, as something that can be compared.

What is left out changes no score, and each is named here with its reason.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from kbforge.clustering.compiled import CompiledRun

MEMOS: Mapping[tuple[str, str], str] = {
    # scratch: written before it is read
    ("PythonTable", "_shown"): "the table that the last fragment was shown",
    ("PythonTable", "_seen"): "what it made of that",
    ("BlackBoxTable", "asked"): "what the last step asked for",
    ("SessionState", "last"): "where the record of the last fragment lies",
    # values of fixed functions, kept as far as they were asked for
    ("SmcSession", "_ahead"): "what comes next, and what was scored for it",
    ("SessionScores", "cache"): "scores by content: the likelihood would say the same again",
    # the problem itself, which is given and not the session's
    ("PythonTable", "_likelihood"): "the problem's",
    ("PythonTable", "_index"): "the problem's",
    ("BlackBoxTable", "_index"): "the problem's",
    ("PythonTable", "_run"): "the core's",
    ("BlackBoxTable", "_run"): "the core's",
    ("Bindings", "_run"): "the core's",
    ("SessionState", "spec"): "the spec itself",
    ("KernelTable", "_run"): "the core's",
    ("KernelTable", "_likelihood"): "the problem's",
    ("KernelTable", "_index"): "the problem's",
    ("KernelTable", "compiled"): "the kernel's own",
    ("RuledIndex", "index"): "the problem's",
    ("SetTable", "likelihood"): "the problem's",
    ("Rules", "resampler"): "the problem's",
    ("TrappedTable", "trap"): "the test's",
    ("TrappedFew", "trap"): "the test's",
}


def contents(thing: Any) -> Any:
    """Nested tuples of plain values."""
    if isinstance(thing, np.ndarray):
        return thing.dtype.str, thing.shape, thing.tobytes()
    if isinstance(thing, np.random.Generator):
        return contents(thing.bit_generator.state)
    if isinstance(thing, float):
        return thing.hex()
    if thing is None or isinstance(thing, str | int | bytes):
        return thing
    if isinstance(thing, Mapping):
        return tuple((contents(key), contents(value)) for key, value in thing.items())
    if isinstance(thing, set | frozenset):
        return frozenset(contents(value) for value in thing)
    if isinstance(thing, tuple | list):
        return tuple(contents(value) for value in thing)
    if isinstance(thing, CompiledRun):
        return contents((thing.pages(thing.names()), thing.totals(), thing.postings()))
    kind = type(thing).__name__
    names = {name for of in type(thing).__mro__ for name in getattr(of, "__slots__", ())}
    names |= set(getattr(thing, "__dict__", ()))
    return kind, tuple(
        (name, contents(getattr(thing, name)))
        for name in sorted(names)
        if name != "__weakref__" and (kind, name) not in MEMOS and hasattr(thing, name)
    )

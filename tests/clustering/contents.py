"""All that an object holds, to the last bit, as something that can be compared.

What is left out changes no score, and each is named here with its reason.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from kbforge.clustering.compiled import CompiledRun

MEMOS: Mapping[tuple[str, str], str] = {
    # scratch: written before it is read
    ("PythonTable", "_shown"): "the table that the last fragment was shown",
    ("PythonTable", "_seen"): "what it made of that",
    ("BlackBoxTable", "asked"): "what the last step asked for",
    ("SessionState", "last"): "where the record of the last fragment lies",
    ("AttributeTable", "_out"): "scratch",
    ("LiveGaussian", "_terms"): "scratch",
    ("LiveGaussian", "_out"): "scratch",
    ("LiveRows", "_out"): "scratch",
    # values of fixed functions, kept as far as they were asked for
    ("LiveGaussian", "_log_gammas"): "ratios of gamma functions of cluster sizes",
    ("SmcSession", "_ahead"): "what comes next, and what was scored for it",
    ("SessionScores", "cache"): "scores by content: the likelihood would say the same again",
    ("Urn", "gains"): "L of the urn with one more value",
    ("Urn", "_grown"): "urns with one more value; equal multisets are one object",
    ("_DenseRows", "_gains"): "gains of rows at the counts that the table holds",
    ("_DenseRows", "_line_of"): "which multiplicities those gains were asked for",
    ("_DenseRows", "_line_numbers"): "the same",
    ("_DenseRows", "_line_rows"): "the same",
    ("_DenseRows", "_line_multiplicities"): "the same",
    ("_DenseRows", "_filled"): "how far those gains are worked out",
    # values and n-grams are numbered as they are met; L is of the multiset, whatever its numbers
    # (whole units in `urn`, multiples of 2^-34 nats in `dirichlet.rows`)
    ("AttributeTable", "_encoder"): "numbers of values",
    ("AttributeTable", "_urns"): "base probabilities of numbered values",
    ("Urn", "_urns"): "the same",
    ("LiveRows", "_rows"): "numbers of n-grams and values, and their factors",
    ("_SparseRows", "_rows"): "the same",
    ("_DenseRows", "_rows"): "the same",
    # the problem itself, which is given and not the session's
    ("PythonTable", "_likelihood"): "the problem's",
    ("PythonTable", "_index"): "the problem's",
    ("BlackBoxTable", "_index"): "the problem's",
    ("PythonTable", "_run"): "the core's",
    ("BlackBoxTable", "_run"): "the core's",
    ("Bindings", "_run"): "the core's",
    ("SessionState", "spec"): "the spec itself",
    ("SessionState", "_kernel"): "the library",
    ("KernelTable", "_kernel"): "the library",
    ("KernelTable", "_run"): "the core's",
    ("KernelTable", "_likelihood"): "the problem's",
    ("KernelTable", "_index"): "the problem's",
    ("KernelTable", "_table"): "the kernel's own",
    ("KernelTable", "compiled"): "the kernel's own",
    ("LiveGaussian", "_model"): "the problem's",
    ("Rules", "resampler"): "the problem's",
    ("TrappedTable", "trap"): "the test's",
    ("TrappedFew", "trap"): "the test's",
}

WORKED_OUT: Mapping[tuple[str, str], Callable[[Any], Any]] = {
    # made when somebody asks, always alike
    ("AttributeTable", "_clusters"): lambda table: [
        None if held is None else held.urns(table) for held in table._clusters
    ],
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
        (name, contents(WORKED_OUT.get((kind, name), lambda of, n=name: getattr(of, n))(thing)))
        for name in sorted(names)
        if name != "__weakref__" and (kind, name) not in MEMOS and hasattr(thing, name)
    )

"""Kept: the learned state of a fitted plugin, as plain data that a store can hold.

A plugin that keeps gives it with `kept`, and another of the same options goes on from it with
`take_up`, as if it had been fitted itself: what both say is the same, bit for bit. A plugin that
does not is fitted again, on the fragments that it was fitted to.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from numpy.typing import NDArray


@dataclass(frozen=True, slots=True, eq=False)
class LearnedState:
    """What was learned.

    Attributes:
        values: what JSON can say: numbers, strings, booleans, None, lists, and objects by string.
        arrays: of numbers, by name.

    """

    values: Mapping[str, Any] = field(default_factory=dict)
    arrays: Mapping[str, NDArray[Any]] = field(default_factory=dict)

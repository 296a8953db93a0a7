"""Keys of fragments, composed in the compiled kernel of those of their values."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence, Sized
from ctypes import CDLL, POINTER, byref, c_int64
from itertools import chain
from typing import TypeAlias

import numpy as np

from kbforge.contracts import IntArray
from kbforge.kernel import binding
from kbforge.kernel.binding import address

_Item: TypeAlias = tuple[str, tuple[str, ...]]
_Some: TypeAlias = tuple[int, ...]

_MOST_ORDERS = 4096
"""Sets of attributes that are remembered in order."""


class CompiledKeys:
    """What values the kernel knows the keys of.

    Args:
        kernel: the library.
        keys_of_value: the keys of what is stated of an attribute, and those of them that are
            paired with other attributes'.
        most: keys that a fragment has at most.

    """

    def __init__(
        self,
        kernel: CDLL,
        keys_of_value: Callable[[str, tuple[str, ...]], tuple[_Some, _Some]],
        most: int,
    ) -> None:
        self._kernel, self._keys_of_value = kernel, keys_of_value
        self._handle = kernel.kb_keys_new(most)
        self._finalizer = weakref.finalize(self, kernel.kb_keys_free, self._handle)
        # by attribute, the kernel's number of what is stated
        self._number: dict[str, dict[tuple[str, ...], int]] = {}
        self._n = 0
        # by what a fragment states, the attributes in order
        self._orders: dict[tuple[str, ...], list[tuple[str, dict[tuple[str, ...], int]]]] = {}

    def keys_of(
        self, stated: Sequence[Mapping[str, tuple[str, ...]]], more: Sequence[Sequence[int]]
    ) -> tuple[IntArray, IntArray]:
        """The keys of fragments: where each one's begin, shape [fragments + 1], and all.

        Args:
            stated: by fragment, what it states of attributes.
            more: by fragment, keys of it beside those of its values.

        """
        orders, values, new = self._orders, list[int](), list[_Item]()
        for of_fragment in stated:
            order = orders.get(tuple(of_fragment))
            if order is None:
                order = self._order(of_fragment)
            for attribute, numbers in order:
                said = of_fragment[attribute]
                number = numbers.get(said)
                if number is None:
                    number = numbers[said] = self._n
                    self._n += 1
                    new.append((attribute, said))
                values.append(number)
        if new:
            self._tell(new)
        arrays = _starts(stated), np.array(values, dtype=np.int64), *_flat(more)
        starts, keys = POINTER(c_int64)(), POINTER(c_int64)()
        n = self._kernel.kb_keys_of(
            self._handle, len(stated), *map(address, arrays), byref(starts), byref(keys)
        )
        return binding.ints(starts, len(stated) + 1), binding.ints(keys, n)

    def _order(self, stated: Iterable[str]) -> list[tuple[str, dict[tuple[str, ...], int]]]:
        """Attributes in order, with the numbers of what is stated of each."""
        if len(self._orders) >= _MOST_ORDERS:
            self._orders.clear()
        attributes = tuple(stated)
        order = [(name, self._number.setdefault(name, {})) for name in sorted(attributes)]
        self._orders[attributes] = order
        return order

    def _tell(self, new: Sequence[_Item]) -> None:
        """Tell of values that the kernel has not met."""
        keys = [self._keys_of_value(*item) for item in new]
        arrays = *_flat([singles for singles, _ in keys]), *_flat([paired for _, paired in keys])
        self._kernel.kb_keys_values(self._handle, len(new), *map(address, arrays))


def _starts(parts: Sequence[Sized]) -> IntArray:
    starts = np.zeros(len(parts) + 1, dtype=np.int64)
    np.cumsum([len(part) for part in parts], out=starts[1:])
    return starts


def _flat(parts: Sequence[Sequence[int]]) -> tuple[IntArray, IntArray]:
    """Where each part begins, and all of them."""
    starts = _starts(parts)
    return starts, np.fromiter(chain.from_iterable(parts), np.int64, int(starts[-1]))

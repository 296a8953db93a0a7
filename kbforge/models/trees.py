"""Ensembles of decision trees with named features: reads, writes and applies them.

An ensemble is the sum of its trees' leaves and an offset. At a node a row goes left if its value is
at most the node's threshold; if the value is missing (NaN), the node has a default direction. The
nodes of all trees are five flat tensors of a safetensors file; a child is the number of a node, or
-1 - the number of a leaf. A file is checked before it is used: every child comes after its parent,
each node and leaf has one parent, and every number is finite, so no file can loop or read out of
bounds.
"""

from __future__ import annotations

import json
import weakref
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kbforge.errors import ModelError, quoted
from kbforge.kernel.binding import address, kernel_library, workers

_FORMAT = "kbforge trees 1"
_MOST_NODES = 4_000_000
_MOST_FEATURES = 10_000
_ADDED = ("leaves", "offset")
_LARGEST = 1e6
"""Maximum value of a leaf: log odds and F1 are far smaller, and no sum of such values overflows."""
_DTYPES: dict[str, np.dtype[Any]] = {
    "feature": np.dtype(np.int32),
    "threshold": np.dtype(np.float64),
    "missing_left": np.dtype(np.uint8),
    "left": np.dtype(np.int32),
    "right": np.dtype(np.int32),
    "leaves": np.dtype(np.float64),
    "roots": np.dtype(np.int32),
    "offset": np.dtype(np.float64),
}


@dataclass(frozen=True, eq=False)
class Trees:
    """A sum of decision trees."""

    features: tuple[str, ...]  # names, in the order of the columns
    feature: NDArray[np.int32]  # [nodes] column that a node looks at
    threshold: NDArray[np.float64]  # [nodes] the largest value that goes left
    missing_left: NDArray[np.uint8]  # [nodes] 1 where a missing value goes left
    left: NDArray[np.int32]  # [nodes] child, or -1 - leaf
    right: NDArray[np.int32]  # [nodes] child, or -1 - leaf
    leaves: NDArray[np.float64]  # [leaves] what a leaf adds
    roots: NDArray[np.int32]  # [trees] first node, or -1 - leaf of a tree that has no node
    offset: NDArray[np.float64]  # [1] what every row gets

    def predict(self, rows: NDArray[np.floating[Any]]) -> NDArray[np.float64]:
        """The raw sums of rows [N, F], columns in the order of `features`: [N]."""
        if rows.ndim != 2 or rows.shape[1] != len(self.features):
            raise ValueError(f"rows of {len(self.features)} columns, got {rows.shape}")
        values = np.ascontiguousarray(rows, dtype=np.float64)
        sums = np.empty(len(values))
        kernel_library().kb_trees_sums(
            self.handle, len(values), address(values), workers(), address(sums)
        )
        return sums

    @cached_property
    def handle(self) -> int:
        """Address of the kernel's trees, which live as long as this object."""
        kernel, arrays = kernel_library(), self._arrays()  # which it copies
        feature, *nodes, leaves, roots, offset = arrays.values()
        handle: int = kernel.kb_trees_new(
            *(len(self.features), len(feature), *map(address, (feature, *nodes))),
            *(len(leaves), address(leaves), len(roots), address(roots), float(offset[0])),
        )
        weakref.finalize(self, kernel.kb_trees_free, handle)
        return handle

    def _arrays(self) -> dict[str, NDArray[Any]]:
        return {
            name: np.ascontiguousarray(getattr(self, name), dtype=dtype)
            for name, dtype in _DTYPES.items()
        }

    def to_bytes(self) -> bytes:
        """The ensemble as safetensors, the same bytes for the same trees."""
        from safetensors.numpy import save

        # in one piece: the order of several is not the same each time
        metadata = {_FORMAT: json.dumps(self.features)}
        return bytes(save(self._arrays(), metadata=metadata))


def read_trees(content: bytes, where: str) -> Trees:
    """The ensemble written by `Trees.to_bytes`; a ModelError names the file as `where`."""
    from safetensors import SafetensorError
    from safetensors.numpy import load

    try:
        tensors = load(content)
        features = _features(content)
    except (SafetensorError, ValueError, KeyError, TypeError) as error:
        raise ModelError(f"{where}: the trees are damaged: {quoted(str(error), 200)}") from error
    if tensors.keys() != _DTYPES.keys():
        name = min(tensors.keys() ^ _DTYPES.keys())
        what = "has no tensor" if name in _DTYPES else "has an unknown tensor"
        raise ModelError(f"{where}: {what} {quoted(name)}")
    for name, dtype in _DTYPES.items():
        tensor = tensors[name]
        if tensor.ndim != 1 or tensor.dtype != dtype or len(tensor) > _MOST_NODES:
            raise ModelError(
                f"{where}: {name}: expected up to {_MOST_NODES:,} numbers of type {dtype}, got "
                f"{tensor.dtype} of shape {tensor.shape}"
            )
        if not np.isfinite(tensor).all():
            raise ModelError(f"{where}: {name} holds values that are not finite")
        if name in _ADDED and np.abs(tensor).max(initial=0) > _LARGEST:
            found = float(tensor[np.abs(tensor).argmax()])
            raise ModelError(
                f"{where}: {name}: expected numbers from -{_LARGEST:g} to {_LARGEST:g}, "
                f"got {found:g}"
            )
    trees = Trees(features, **tensors)
    _require_trees(trees, where)
    return trees


def save_parts(trees: Mapping[str, Trees], others: Mapping[str, NDArray[Any]]) -> bytes:
    """Several ensembles and other arrays as one safetensors file."""
    from safetensors.numpy import save

    parts = {name: np.frombuffer(one.to_bytes(), np.uint8) for name, one in trees.items()}
    return bytes(save({**parts, **others}))


def load_parts(
    content: bytes, where: str, trees: Sequence[str], others: Sequence[str]
) -> tuple[dict[str, Trees], dict[str, NDArray[Any]]]:
    """The ensembles and the other arrays written by `save_parts`, with exactly these names."""
    from safetensors import SafetensorError
    from safetensors.numpy import load

    try:
        parts = load(content)
    except (SafetensorError, ValueError, KeyError) as error:
        raise ModelError(f"{where}: the file is damaged: {quoted(str(error), 200)}") from error
    if parts.keys() != {*trees, *others}:
        name = min(parts.keys() ^ {*trees, *others})
        raise ModelError(f"{where}: expected {', '.join((*trees, *others))}; see {quoted(name)}")
    found = {name: read_trees(parts[name].tobytes(), f"{where}: {name}") for name in trees}
    return found, {name: parts[name] for name in others}


def _features(content: bytes) -> tuple[str, ...]:
    """The names of the columns, from the header of a safetensors file."""
    length = int.from_bytes(content[:8], "little")
    metadata = json.loads(content[8 : 8 + length]).get("__metadata__", {})
    if _FORMAT not in metadata:
        raise ValueError(f'expected the format "{_FORMAT}"')
    names = json.loads(metadata[_FORMAT])
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise ValueError("expected names of features")
    if not 0 < len(names) <= _MOST_FEATURES or len(set(names)) < len(names):
        raise ValueError("expected distinct names of features")
    return tuple(names)


def _require_trees(trees: Trees, where: str) -> None:
    """Refuse nodes and leaves that do not form trees."""
    nodes, leaves = len(trees.feature), len(trees.leaves)
    for name in ("threshold", "missing_left", "left", "right"):
        if len(getattr(trees, name)) != nodes:
            raise ModelError(f"{where}: {name}: expected {nodes:,} numbers, one per node")
    if len(trees.offset) != 1:
        raise ModelError(f"{where}: offset: expected one number")
    if nodes and not 0 <= trees.feature.min() <= trees.feature.max() < len(trees.features):
        raise ModelError(f"{where}: feature: expected columns 0 to {len(trees.features) - 1}")
    if nodes and trees.missing_left.max() > 1:
        raise ModelError(f"{where}: missing_left: expected 0 or 1")
    number = np.arange(nodes)
    for children in (trees.left, trees.right):
        if np.any((children >= 0) & (children <= number)):
            raise ModelError(f"{where}: a node that does not come after its parent")
    held = np.concatenate([trees.left, trees.right, trees.roots]).astype(np.int64)
    kinds = (("node", held[held >= 0], nodes), ("leaf", -1 - held[held < 0], leaves))
    for called, found, count in kinds:
        if len(found) != count or not np.array_equal(np.sort(found), np.arange(count)):
            raise ModelError(f"{where}: expected each {called} to be held once")

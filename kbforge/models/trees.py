"""Ensembles of decision trees with named features: read, written and applied with NumPy alone.

An ensemble is the sum of its trees' leaves and an offset. At a node a row goes left if its value
is at most the node's threshold; where the value is missing (NaN) it goes where the node says. The
nodes of all trees are five flat tensors of a safetensors file; a child is the number of a node, or
-1 - the number of a leaf. A file is checked before it is used: every child comes after its parent,
each node and leaf has one parent, and every number is finite, so that no file can loop or read out
of bounds.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kbforge.errors import ModelError, quoted

_FORMAT = "kbforge trees 1"
_MOST_NODES = 4_000_000
_MOST_FEATURES = 10_000
_ROWS_AT_ONCE = 16_384
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
    """A sum of decision trees.

    Attributes:
        features: names, in the order of the columns.
        feature: [nodes] column that a node looks at.
        threshold: [nodes] the largest value that goes left.
        missing_left: [nodes] 1 where a missing value goes left.
        left: [nodes] child, or -1 - leaf.
        right: [nodes] child, or -1 - leaf.
        leaves: [leaves] what a leaf adds.
        roots: [trees] the first node of each, or -1 - leaf of a tree that has no node.
        offset: [1] what every row gets.

    """

    features: tuple[str, ...]
    feature: NDArray[np.int32]
    threshold: NDArray[np.float64]
    missing_left: NDArray[np.uint8]
    left: NDArray[np.int32]
    right: NDArray[np.int32]
    leaves: NDArray[np.float64]
    roots: NDArray[np.int32]
    offset: NDArray[np.float64]

    def predict(self, rows: NDArray[np.floating[Any]]) -> NDArray[np.float64]:
        """The raw sums of rows [N, F], columns in the order of `features`: [N].

        Raises:
            ValueError: the rows have another number of columns.

        """
        if rows.ndim != 2 or rows.shape[1] != len(self.features):
            raise ValueError(f"rows of {len(self.features)} columns, got {rows.shape}")
        values = np.ascontiguousarray(rows, dtype=np.float64)
        out = np.full(len(values), self.offset[0])
        for start in range(0, len(values), _ROWS_AT_ONCE):
            part = values[start : start + _ROWS_AT_ONCE]
            for root in self.roots:
                out[start : start + len(part)] += self.leaves[self._leaves_of(part, int(root))]
        return out

    def _leaves_of(self, rows: NDArray[np.float64], root: int) -> NDArray[np.int64]:
        """The leaf of one tree that each row ends at: [N]."""
        at = np.full(len(rows), root, dtype=np.int64)
        going = np.flatnonzero(at >= 0)
        while len(going):
            nodes = at[going]
            value = rows[going, self.feature[nodes]]
            left = np.where(
                np.isnan(value), self.missing_left[nodes] == 1, value <= self.threshold[nodes]
            )
            at[going] = np.where(left, self.left[nodes], self.right[nodes])
            going = going[at[going] >= 0]
        return -1 - at

    def to_bytes(self) -> bytes:
        """The ensemble as safetensors, the same bytes for the same trees."""
        from safetensors.numpy import save

        tensors: dict[str, NDArray[Any]] = {
            name: np.ascontiguousarray(getattr(self, name), dtype=dtype)
            for name, dtype in _DTYPES.items()
        }
        # in one piece: the order of several is not the same each time
        metadata = {_FORMAT: json.dumps(self.features)}
        return bytes(save(tensors, metadata=metadata))


def read_trees(content: bytes, where: str) -> Trees:
    """The ensemble that `Trees.to_bytes` wrote.

    Args:
        content: of the file.
        where: how to call the file in errors.

    Raises:
        ModelError: the content is damaged, is something else, or does not hold trees.

    """
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
    trees = Trees(features, **tensors)
    _require_trees(trees, where)
    return trees


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
    """Find out whether nodes and leaves make trees.

    Raises:
        ModelError: with what is wrong.

    """
    nodes, leaves = len(trees.feature), len(trees.leaves)
    for name in ("threshold", "missing_left", "left", "right"):
        if len(getattr(trees, name)) != nodes:
            raise ModelError(f"{where}: {name}: expected {nodes:,} numbers, one a node")
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

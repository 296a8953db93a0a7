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
_ROWS_AT_ONCE = 8_192
_MOST_BITS = 64
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
        masks = [_masks(self, int(root)) for root in self.roots]
        for start in range(0, len(values), _ROWS_AT_ONCE):
            part = values[start : start + _ROWS_AT_ONCE]
            # by column, a missing value once as what goes left everywhere, once as what goes right
            missing = np.isnan(part)
            left = np.where(missing, -np.inf, part).T.copy()
            right = np.where(missing, np.inf, part).T.copy() if missing.any() else left
            for root, found in zip(self.roots, masks, strict=True):
                if found is None:
                    at = self._leaves_of(part, int(root))
                else:
                    at = self._leaves_by_masks(found, left, right)
                out[start : start + len(part)] += self.leaves[at]
        return out

    def _leaves_by_masks(
        self, found: _Masks, left: NDArray[np.float64], right: NDArray[np.float64]
    ) -> NDArray[np.int64]:
        """As `_leaves_of`, of a tree of at most 64 leaves, without following any row."""
        reached = np.full(left.shape[1], found.all, dtype=np.uint64)
        for node, mask in zip(found.nodes, found.kept_right, strict=True):
            values = (left if self.missing_left[node] else right)[self.feature[node]]
            # a row that goes right keeps the bits of the mask, any other keeps all
            goes_left = values <= self.threshold[node]
            reached &= mask | -goes_left.astype(np.uint64)
        lowest = reached & -reached
        at: NDArray[np.int64] = found.leaves[np.bitwise_count(lowest - np.uint64(1))]
        return at

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


@dataclass(frozen=True, slots=True)
class _Masks:
    """One tree as bits, a bit a leaf, the leftmost leaf lowest (Lucchese et al. 2015).

    Attributes:
        nodes: of the tree.
        kept_right: by node, the leaves that a row can still reach once it went right there.
        leaves: the number of each bit's leaf.
        all: the bits of all leaves.

    """

    nodes: tuple[int, ...]
    kept_right: tuple[np.uint64, ...]
    leaves: NDArray[np.int64]
    all: np.uint64


def _masks(trees: Trees, root: int) -> _Masks | None:
    """The bits of a tree; None of a tree with too many leaves."""
    leaves: list[int] = []
    below: list[tuple[int, int, int]] = []
    # each entry is a node to open, or a node whose left side has been opened from this leaf on
    stack: list[tuple[int, int]] = [(root, -1)]
    while stack:
        node, start = stack.pop()
        if start >= 0:
            below.append((node, start, len(leaves)))
        elif node < 0:
            leaves.append(-1 - node)
            if len(leaves) > _MOST_BITS:
                return None
        else:
            stack += [
                (int(trees.right[node]), -1),
                (node, len(leaves)),
                (int(trees.left[node]), -1),
            ]
    whole = (1 << len(leaves)) - 1
    masks = [whole & ~((1 << stop) - (1 << start)) for _, start, stop in below]
    return _Masks(
        tuple(node for node, _, _ in below),
        tuple(map(np.uint64, masks)),
        np.array(leaves, dtype=np.int64),
        np.uint64(whole),
    )


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

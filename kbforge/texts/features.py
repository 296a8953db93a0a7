"""The features of many values at once, as digests.

Those of names and other texts, which differ from fragment to fragment, come from the kernel. Other
kinds have fewer values, and their features are those of `kbforge.texts.kinds`, one by one.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache, partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from kbforge.contracts import IntArray
from kbforge.kernel.binding import address, kernel_library, workers
from kbforge.numerics import starts_of
from kbforge.texts import digests_of
from kbforge.texts.kinds import Kind, feature_names, features_of, is_of_word

_AT_ONCE = 16_384
_MOST_OF_A_TEXT = 47


class ValueFeatures(NamedTuple):
    """The features of several values, end to end."""

    starts: IntArray  # where those of each value begin, shape [values + 1]
    # place of each one's name among those of the kind (`feature_names`); int32
    names: NDArray[np.int32]
    digests: IntArray  # of each one, with the beginning of its name


def characters_of(values: Sequence[str]) -> tuple[IntArray, NDArray[np.uint32]]:
    """Where the characters of each value begin, shape [values + 1], and all of them as numbers."""
    characters = "".join(values).encode("utf-32-le", "surrogatepass")
    return starts_of(list(map(len, values))), np.frombuffer(characters, np.uint32)


def features_of_each(kind: Kind, values: Sequence[str], beginnings: Sequence[str]) -> ValueFeatures:
    """The features of normalised values, in the order of `features_of`.

    The digest of a feature is that of its text after the beginning of its name.
    """
    of_block = _of_texts if kind == "text" else partial(_of_others, kind)
    begins = range(0, max(len(values), 1), _AT_ONCE)
    blocks = [of_block(values[begin : begin + _AT_ONCE], beginnings) for begin in begins]
    if len(blocks) == 1:
        return blocks[0]
    sizes = [np.diff(block.starts) for block in blocks]
    return ValueFeatures(
        starts_of(np.concatenate(sizes)),
        np.concatenate([block.names for block in blocks]),
        np.concatenate([block.digests for block in blocks]),
    )


def numbered(digests: IntArray) -> tuple[IntArray, NDArray[np.int32]]:
    """The different digests, ascending, and the place of each among them."""
    numbers, first = np.empty(len(digests), np.int32), np.empty(len(digests), np.int64)
    arrays = address(digests), address(numbers), address(first)
    different = first[: kernel_library().kb_numbered(len(digests), *arrays)]
    order = np.argsort(different)
    place = np.empty(len(order), np.int32)
    place[order] = np.arange(len(order), dtype=np.int32)
    return different[order], place[numbers]


@lru_cache(maxsize=256)
def _begun(beginnings: tuple[str, ...]) -> tuple[IntArray, bytes]:
    """Where the beginnings of names begin, and all of them, in UTF-8."""
    encoded = [text.encode("utf-8", "surrogatepass") for text in beginnings]
    return starts_of(list(map(len, encoded))), b"".join(encoded)


def _of_texts(values: Sequence[str], beginnings: Sequence[str]) -> ValueFeatures:
    starts, characters = characters_of(values)
    beyond = sorted({c for value in values if not value.isascii() for c in value if c > "\x7f"})
    of_words = np.array([ord(c) for c in beyond if is_of_word(c)], np.uint32)
    begins, begun = _begun(tuple(beginnings))
    out = np.empty(len(values) + 1, np.int64)
    names = np.empty(len(values) * _MOST_OF_A_TEXT, np.int32)
    digests = np.empty(len(values) * _MOST_OF_A_TEXT, np.int64)
    n = kernel_library().kb_text_features(
        *(len(values), address(starts), address(characters), len(of_words), address(of_words)),
        *(address(begins), begun, workers()),
        *(address(out), address(names), address(digests)),
    )
    return ValueFeatures(out, names[:n].copy(), digests[:n].copy())


def _of_others(kind: Kind, values: Sequence[str], beginnings: Sequence[str]) -> ValueFeatures:
    index = {name: place for place, name in enumerate(feature_names(kind))}
    sizes: list[int] = []
    names: list[int] = []
    texts: list[str] = []
    for value in values:
        for name, keys in features_of(kind, value).items():
            place = index[name]
            names += [place] * len(keys)
            texts += [beginnings[place] + key for key in keys]
        sizes.append(len(names))
    starts = np.array([0, *sizes], np.int64)
    return ValueFeatures(starts, np.array(names, np.int32), digests_of(texts))

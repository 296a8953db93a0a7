"""A sample of fragments with complete neighbourhoods, independent of their order.

A sample drawn fragment by fragment would break up entities. So seeds are drawn, and all fragments
that share an index key with a seed are included: what is learned from the seeds' clusters is valid
for the file.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, islice, pairwise

import numpy as np
import orjson

from kbforge.contracts import CandidateIndex, Fragment

MOST_RELATIVES = 12
"""A key that more fragments share does not extend the sample."""
_AT_ONCE = 10_000
"""Fragments whose keys are computed at once."""


@dataclass(frozen=True, slots=True)
class Sample:
    """Some fragments, seeds first, with their places in the sampled sequence."""

    fragments: tuple[Fragment, ...]
    places: tuple[int, ...]
    seeds: int


def digest_of_properties(fragment: Fragment) -> bytes:
    """A hash of a fragment's properties."""
    stated = orjson.dumps(dict(fragment.properties), option=orjson.OPT_SORT_KEYS)
    return hashlib.blake2b(stated, digest_size=8).digest()


def neighbourhoods(
    fragments: Sequence[Fragment],
    index: CandidateIndex,
    most: int,
    digest: Callable[[Fragment], bytes] = digest_of_properties,
) -> Sample:
    """All fragments up to a maximum, otherwise seeds and all that share a key with them.

    Seeds are added until the sample is full, so their neighbourhoods are complete except for keys
    that very many share. The choice depends only on the digests, not on order or names.
    """
    order = by_digest(fragments, digest)
    if len(order) <= most:
        return drawn(fragments, order, lambda _: (), most)
    # as every seed fills the sample, there are no more than these
    keys = keys_of_each([fragments[i] for i in order[:most]], index)
    wanted = chain.from_iterable(keys)
    holders = holders_of(wanted, (fragments[i] for i in order), index, MOST_RELATIVES)

    def relatives(seed: int) -> Iterable[int]:
        shared = (holders[key] for key in keys[seed])
        return chain.from_iterable(held for held in shared if len(held) <= MOST_RELATIVES)

    return drawn(fragments, order, relatives, most)


def keys_of_each(fragments: Sequence[Fragment], index: CandidateIndex) -> list[list[int]]:
    """The keys of each fragment, by an index that was fitted to it."""
    starts, flat = index.keys_of(fragments)
    keys: list[int] = flat.tolist()
    return [keys[begin:end] for begin, end in pairwise(starts.tolist())]


def holders_of(
    keys: Iterable[int], fragments: Iterable[Fragment], index: CandidateIndex, most: int
) -> dict[int, list[int]]:
    """For each key, the places of the fragments that have it, ascending; the first `most` + 1."""
    wanted = np.unique(np.fromiter(keys, dtype=np.int64))
    found = [np.zeros(0, dtype=np.int64)]
    places = [np.zeros(0, dtype=np.int64)]
    for first, block in _blocks(fragments if len(wanted) else ()):
        starts, flat = index.keys_of(block)
        at = np.minimum(np.searchsorted(wanted, flat), len(wanted) - 1)
        held = np.flatnonzero(wanted[at] == flat)
        found.append(at[held])
        places.append(first + np.searchsorted(starts, held, side="right") - 1)
    by_key = np.concatenate(found)
    order = np.argsort(by_key, kind="stable")
    of_key = np.split(
        np.concatenate(places)[order], np.searchsorted(by_key[order], np.arange(1, len(wanted)))
    )
    return {
        key: held[: most + 1].tolist() for key, held in zip(wanted.tolist(), of_key, strict=False)
    }


def _blocks(fragments: Iterable[Fragment]) -> Iterator[tuple[int, list[Fragment]]]:
    """Fragments in blocks, each with the place of its first one."""
    left, first = iter(fragments), 0
    while block := list(islice(left, _AT_ONCE)):
        yield first, block
        first += len(block)


def by_digest(
    fragments: Sequence[Fragment], digest: Callable[[Fragment], bytes] = digest_of_properties
) -> list[int]:
    """The numbers of the fragments, by hash."""
    digests = list(map(digest, fragments))
    return sorted(range(len(fragments)), key=digests.__getitem__)


def drawn(
    fragments: Sequence[Fragment],
    order: Sequence[int],
    relatives: Callable[[int], Iterable[int]],
    most: int,
) -> Sample:
    """All fragments up to a maximum, otherwise seeds in order, and their relatives.

    `relatives` returns other places in the order; it is called only for seeds.
    """
    if len(order) <= most:
        return Sample(tuple(fragments[i] for i in order), tuple(order), len(order))
    sample: set[int] = set()
    seeds = 0
    while len(sample) < most and seeds < len(order):
        sample.add(seeds)
        sample.update(relatives(seeds))
        seeds += 1
    rest = sorted(i for i in sample if i >= seeds)
    places = tuple(order[i] for i in [*range(seeds), *rest])
    return Sample(tuple(fragments[i] for i in places), places, seeds)

"""Samples have whole neighbourhoods, and do not depend on order or ids."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from kbforge.contracts import CandidateIndex, Fragment
from kbforge.indexes.selective import neighbourhoods


class ByName(CandidateIndex):
    def keys(self, fragment: Fragment) -> Sequence[int]:
        return [int(fragment.names[0])]


PEOPLE = [
    Fragment(f"{name}-{k}", {"name": (str(name),), "note": (str(k),)})
    for name in range(300)
    for k in range(5)
]


def test_small_files_are_taken_whole() -> None:
    sample = neighbourhoods(PEOPLE, ByName(), 5000)
    assert sample.seeds == len(PEOPLE)
    assert sorted(sample.places) == list(range(len(PEOPLE)))
    assert [PEOPLE[i] for i in sample.places] == list(sample.fragments)


def test_whoever_shares_a_key_with_a_seed_comes_along() -> None:
    sample = neighbourhoods(PEOPLE, ByName(), 200)
    assert 200 <= len(sample.fragments) < 205
    assert 0 < sample.seeds < len(sample.fragments)
    seeded = {f.names[0] for f in sample.fragments[: sample.seeds]}
    assert {f.names[0] for f in sample.fragments} == seeded
    assert len(sample.fragments) == 5 * len(seeded)


def test_order_and_ids_do_not_matter() -> None:
    turned = [replace(f, id=f"x{i}") for i, f in enumerate(reversed(PEOPLE))]
    samples = (neighbourhoods(some, ByName(), 200) for some in (PEOPLE, turned))
    one, other = ([f.properties for f in sample.fragments] for sample in samples)
    assert one == other


def test_a_key_of_very_many_brings_nobody() -> None:
    equal = [replace(f, properties={**f.properties, "name": ("1",)}) for f in PEOPLE]
    assert neighbourhoods(equal, ByName(), 200).seeds == 200
